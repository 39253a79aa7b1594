"""The tutorials run, in their small version, one after the other in one kernel.

To start a kernel that imports Ax takes longer than most of the tutorials. Names of one tutorial are
gone before the next one starts; modules stay imported, and Ax's database is the last one's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

TUTORIALS = Path(__file__).parents[1] / "tutorials"
NOTEBOOKS = sorted(TUTORIALS.glob("*.ipynb"))
SECONDS = 300
"""More than any cell takes; a cell that hangs fails."""


class Kernel:
    """A kernel in the folder of the tutorials that runs their small version."""

    def __init__(self) -> None:
        self._client = NotebookClient(
            nbformat.v4.new_notebook(),
            timeout=SECONDS,
            resources={"metadata": {"path": str(TUTORIALS)}},
        )
        self._client.create_kernel_manager()
        self._client.start_new_kernel(env=os.environ | {"SMOKE_TEST": "1"})
        self._client.start_new_kernel_client()

    def run(self, code: str) -> None:
        """Run code that stands in no tutorial."""
        self._execute(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)]), 0)

    def run_cells(self, path: Path) -> None:
        """Run the cells of a tutorial.

        Raises:
            AssertionError: If one raises; it names the tutorial and the cell.
        """
        notebook = nbformat.read(path, as_version=4)
        for number, cell in enumerate(notebook.cells):
            if cell.cell_type != "code":
                continue
            try:
                self._execute(notebook, number)
            except CellExecutionError as error:
                raise AssertionError(f"{path.name}, cell {number} ({cell.id}):\n{error}") from None

    def close(self) -> None:
        """End the kernel."""
        self._client._cleanup_kernel()

    def _execute(self, notebook: nbformat.NotebookNode, number: int) -> None:
        self._client.nb = notebook
        self._client.execute_cell(notebook.cells[number], number)


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    kernel = Kernel()
    try:
        yield kernel
    finally:
        kernel.close()


def test_there_are_tutorials() -> None:
    assert NOTEBOOKS


@pytest.mark.filterwarnings("ignore::DeprecationWarning:(jupyter|zmq|asyncio).*")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_tutorial_runs(kernel: Kernel, path: Path) -> None:
    kernel.run("%reset -f")
    kernel.run_cells(path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:(jupyter|zmq|asyncio).*")
def test_failure_names_tutorial_and_cell(kernel: Kernel, tmp_path: Path) -> None:
    cells = [nbformat.v4.new_markdown_cell("text"), nbformat.v4.new_code_cell("1 / 0", id="wrong")]
    path = tmp_path / "broken.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    with pytest.raises(AssertionError, match=r"broken[.]ipynb, cell 1 \(wrong\)") as raised:
        kernel.run_cells(path)
    assert "ZeroDivisionError" in str(raised.value)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_committed_and_hold_no_error(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert any(cell.outputs for cell in cells)
    assert not [o for cell in cells for o in cell.outputs if o.output_type == "error"]
