"""A process that is killed leaves a store that another goes on with as if nothing had happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fresh import FreshProcess
from tests.stores.make import CASES

pytestmark = pytest.mark.usefixtures("short_searches")


def kill(fresh_process: FreshProcess, folder: Path, case: str, kills: int, seed: int) -> None:
    """Kill so many drivers of a case."""
    found = fresh_process.call("tests.faults.kill:run", str(folder), case, kills, seed)
    assert found["by the clock"] + found["at a statement"] == kills


def test_nothing_recorded_is_lost(fresh_process: FreshProcess, tmp_path: Path) -> None:
    kill(fresh_process, tmp_path, "control_sets", kills=3, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("case", sorted(CASES))
def test_nothing_recorded_is_lost_in_fifty_kills(
    fresh_process: FreshProcess, tmp_path: Path, case: str, seed: int
) -> None:
    """Of every method; with the three seeds 54 processes are killed."""
    kill(fresh_process, tmp_path, case, kills=3, seed=seed)
