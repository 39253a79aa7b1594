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
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "tutorials"
NOTEBOOKS = sorted(TUTORIALS.glob("*.ipynb"))
SECONDS = 300
"""More than any cell takes; a cell that hangs fails."""

FIRST = f"""
import sys
sys.path.append({str(ROOT)!r})
import ax_costaware
from tests.quick import make_quick
from tests.short_searches import shorten
make_quick()
shorten()

import demo.feedback.training
demo.feedback.training.STEPS = 3

import sklearn.datasets
def few(whole=sklearn.datasets.load_digits, **options):
    return tuple(part[::5] for part in whole(**options))
sklearn.datasets.load_digits = few
"""
"""In the kernel, too, nothing is waited for; that all works is asked here, not how well.

Classifiers learn from a fifth of the digits, and the demonstration's network in few steps."""

# Of the kernel's manager, which is not the tutorials' matter.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:(jupyter|zmq|asyncio).*")


@pytest.fixture(scope="module")
def kernel() -> Iterator[NotebookClient]:
    """A kernel in the folder of the tutorials, for their small version."""
    client = NotebookClient(
        nbformat.v4.new_notebook(),
        timeout=SECONDS,
        resources={"metadata": {"path": str(TUTORIALS)}},
    )
    with client.setup_kernel(env=os.environ | {"SMOKE_TEST": "1"}):
        execute(client, FIRST)
        yield client


def execute(kernel: NotebookClient, source: str) -> None:
    """Run a cell that is in no tutorial."""
    kernel.nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    kernel.execute_cell(kernel.nb.cells[0], 0)


def run(kernel: NotebookClient, path: Path) -> None:
    """Run the cells of a tutorial; an error names the tutorial and the cell."""
    kernel.nb = nbformat.read(path, as_version=4)
    for number, cell in enumerate(kernel.nb.cells):
        try:
            kernel.execute_cell(cell, number)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            raise AssertionError(f"{path.name}, cell {number} ({cell.id}):\n{error}") from None


def forget(kernel: NotebookClient) -> None:
    """Delete all names of the tutorials before."""
    execute(kernel, "%reset -f")


def test_there_are_tutorials() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_tutorial_runs(kernel: NotebookClient, path: Path) -> None:
    forget(kernel)
    run(kernel, path)
    counts = [cell.execution_count for cell in kernel.nb.cells if cell.cell_type == "code"]
    assert counts == list(range(counts[0], counts[0] + len(counts)))  # No cell was passed over.


def test_failure_names_tutorial_and_cell(kernel: NotebookClient, tmp_path: Path) -> None:
    cells = [nbformat.v4.new_markdown_cell("text"), nbformat.v4.new_code_cell("1 / 0", id="wrong")]
    path = tmp_path / "broken.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    with pytest.raises(AssertionError, match=r"broken[.]ipynb, cell 1 \(wrong\)") as raised:
        run(kernel, path)
    assert "ZeroDivisionError" in str(raised.value)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_committed_and_hold_no_error(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert any(cell.outputs for cell in cells)
    assert not [o for cell in cells for o in cell.outputs if o.output_type == "error"]
    assert not [cell.metadata for cell in notebook.cells if cell.metadata]  # no times of one run
