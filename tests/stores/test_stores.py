"""What earlier releases stored is read, charged alike, and gone on with."""

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
from tests.stores.make import CASES, NAME, NUM_TRIALS, decide, ledger

HERE = Path(__file__).parent
RELEASES = sorted(path.parent.name for path in HERE.glob("*/decisions.json"))
CASE_NAMES = sorted(CASES)

DECIDES_OTHERWISE: dict[tuple[str, str], str] = {}
"""Where a later release decides otherwise, and why: by release and case."""


@cache
def said(release: str) -> dict[str, Any]:
    """What a release said of the experiments that it stored."""
    cases: dict[str, Any] = json.loads((HERE / release / "decisions.json").read_text())["cases"]
    return cases


def load(release: str, case: str, suffix: str, folder: Path) -> Client:
    """A stored experiment, from a copy of its store."""
    path = folder / f"{case}.{suffix}"
    path.write_bytes(gzip.decompress((HERE / release / f"{path.name}.gz").read_bytes()))
    return load_stored(str(path), NAME)


def test_every_release_has_every_case() -> None:
    assert "0.1.0" in RELEASES
    for release in RELEASES:
        assert said(release).keys() <= CASES.keys(), "a case that nothing here goes on with"
    assert said(RELEASES[-1]).keys() == CASES.keys()


@pytest.mark.parametrize("suffix", ["json", "db"])
@pytest.mark.parametrize("case", CASE_NAMES)
@pytest.mark.parametrize("release", RELEASES)
def test_stored_experiment_goes_on(release: str, case: str, suffix: str, tmp_path: Path) -> None:
    if case not in said(release):
        pytest.skip(f"release {release} has no such method")
    then = said(release)[case]
    client = load(release, case, suffix, tmp_path)
    if suffix == "json":
        check_json_file(tmp_path / f"{case}.json")
    assert ledger(client) == [
        {**entry, "charged": pytest.approx(entry["charged"])} for entry in then["ledger"]
    ]
    assert all(query(client, index).why for index in range(NUM_TRIALS))
    assert recommend(client).parameters

    found = decide(client)
    if (release, case) not in DECIDES_OTHERWISE:
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
    client.save_to_json_file(str(tmp_path / "again.json"))
    assert ledger(Client.load_from_json_file(str(tmp_path / "again.json"))) == ledger(client)
