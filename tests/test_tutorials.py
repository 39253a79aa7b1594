"""The tutorials run, in their small version."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

TUTORIALS = Path(__file__).parents[1] / "tutorials"
NOTEBOOKS = sorted(TUTORIALS.glob("*.ipynb"))


def test_there_are_tutorials() -> None:
    assert NOTEBOOKS


@pytest.mark.filterwarnings("ignore::DeprecationWarning:(jupyter|zmq|asyncio).*")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_tutorial_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMOKE_TEST", "1")
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(TUTORIALS)}})
    client.execute()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_committed_and_hold_no_error(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert any(cell.outputs for cell in cells)
    assert not [o for cell in cells for o in cell.outputs if o.output_type == "error"]
