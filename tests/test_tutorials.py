"""The tutorials run, in their small version, each in a kernel of its own."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tests.fresh import FreshProcess
from tests.notebooks import LONG, RUN, TUTORIALS, counts, read

SHORT = [path for path in TUTORIALS if path not in LONG]


def test_there_are_tutorials() -> None:
    assert TUTORIALS


@pytest.mark.parametrize("path", SHORT, ids=lambda path: path.stem)
def test_tutorial_runs(fresh_process: FreshProcess, path: Path) -> None:
    assert fresh_process.call(RUN, str(path)) == counts(path)  # No cell was passed over.


def test_failure_names_tutorial_and_cell(fresh_process: FreshProcess, tmp_path: Path) -> None:
    cells = [nbformat.v4.new_markdown_cell("text"), nbformat.v4.new_code_cell("1 / 0", id="wrong")]
    path = tmp_path / "broken.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    with pytest.raises(AssertionError, match=r"broken[.]ipynb, cell 1 \(wrong\)") as raised:
        fresh_process.call(RUN, str(path))
    assert "ZeroDivisionError" in str(raised.value)


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_outputs_are_committed_and_hold_no_error(path: Path) -> None:
    notebook = read(path)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert any(cell["outputs"] for cell in cells)
    assert not [o for cell in cells for o in cell["outputs"] if o["output_type"] == "error"]
    assert not [cell for cell in notebook["cells"] if cell["metadata"]]  # no times of one run
