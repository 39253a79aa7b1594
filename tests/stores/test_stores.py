"""What earlier releases stored is read, charged alike, and gone on with.

So is what this version stores, as ``make.py`` does for a release.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.core.trial_status import TrialStatus

from ax_costaware import check_json_file, query, recommend
from tests.resuming import load as load_stored
from tests.stores.make import CASES, NAME, NUM_TRIALS, decide, ledger, store

HERE = Path(__file__).parent
RELEASES = sorted(path.parent.name for path in HERE.glob("*/decisions.json"))

DECIDES_OTHERWISE: dict[tuple[str, str], str] = {}
"""Where a later release decides otherwise, and why: by release and case."""


@cache
def said(folder: Path) -> dict[str, Any]:
    """What a release said of the experiments that it stored in a folder."""
    cases: dict[str, Any] = json.loads((folder / "decisions.json").read_text())["cases"]
    return cases


STORED = [
    pytest.param(release, case, suffix, id=f"{release}-{case}-{suffix}")
    for release in RELEASES
    for case in sorted(said(HERE / release))
    for suffix in ("json", "db")
]


def load(folder: Path, case: str, suffix: str, scratch: Path) -> Client:
    """A stored experiment, from a copy of its store."""
    path = scratch / f"{case}.{suffix}"
    path.write_bytes(gzip.decompress((folder / f"{path.name}.gz").read_bytes()))
    return load_stored(str(path), NAME)


def test_every_release_has_every_case() -> None:
    """Of those that are stored, if any is."""
    for release in RELEASES:
        assert said(HERE / release).keys() <= CASES.keys(), "a case that nothing here goes on with"
    assert not RELEASES or said(HERE / RELEASES[-1]).keys() == CASES.keys()


@pytest.mark.parametrize(("release", "case", "suffix"), STORED)
def test_stored_experiment_goes_on(release: str, case: str, suffix: str, tmp_path: Path) -> None:
    is_alike = (release, case) not in DECIDES_OTHERWISE
    check_goes_on(HERE / release, case, suffix, tmp_path, is_alike)


@pytest.fixture(scope="module")
def stored_now(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a release of this version would have it."""
    folder = tmp_path_factory.mktemp("stores") / "now"
    store(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["json", "db"])
@pytest.mark.parametrize("case", CASES)
def test_what_is_stored_now_goes_on(
    stored_now: Path, case: str, suffix: str, tmp_path: Path
) -> None:
    check_goes_on(stored_now, case, suffix, tmp_path)


def check_goes_on(
    folder: Path, case: str, suffix: str, scratch: Path, is_alike: bool = True
) -> None:
    """Load, compare with what was said, decide, complete, store and load again."""
    then = said(folder)[case]
    client = load(folder, case, suffix, scratch)
    if suffix == "json":
        check_json_file(scratch / f"{case}.json")
    assert ledger(client) == [
        {**entry, "charged": pytest.approx(entry["charged"])} for entry in then["ledger"]
    ]
    assert all(query(client, index).why for index in range(NUM_TRIALS))
    assert recommend(client).parameters

    found = decide(client)
    if is_alike:
        assert found["arm"] == {
            name: value if isinstance(value, str) else pytest.approx(value, rel=1e-5, abs=1e-6)
            for name, value in then["next"]["arm"].items()
        }
        assert found["expected_cost"] == pytest.approx(then["next"]["expected_cost"], rel=1e-5)
        assert found["measure"] == then["next"]["measure"]
    assert found["why"]
    assert found["arm"].keys() == then["next"]["arm"].keys()

    trials = client._experiment.trials
    for index in (NUM_TRIALS - 1, NUM_TRIALS):
        CASES[case].complete(client, index, dict(trials[index].arms[0].parameters))
    assert {trials[index].status for index in (NUM_TRIALS - 1, NUM_TRIALS)} == {
        TrialStatus.COMPLETED
    }
    client.save_to_json_file(str(scratch / "again.json"))
    assert ledger(Client.load_from_json_file(str(scratch / "again.json"))) == ledger(client)
