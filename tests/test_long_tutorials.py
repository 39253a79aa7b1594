"""The rest of the tutorials run, as in ``test_tutorials``, while another process runs those."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fresh import FreshProcess
from tests.notebooks import LONG, RUN, counts


@pytest.mark.parametrize("path", LONG, ids=lambda path: path.stem)
def test_tutorial_runs(fresh_process: FreshProcess, path: Path) -> None:
    assert fresh_process.call(RUN, str(path)) == counts(path)  # No cell was passed over.
