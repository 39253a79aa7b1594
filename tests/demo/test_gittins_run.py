"""The demonstration of the Gittins index, with a made-up classifier that takes no time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client

from ax_costaware import spending
from demo.gittins.digits import Measured
from demo.gittins.figure import write_html, write_png
from demo.gittins.outcome import LABELS, Search, Trained
from demo.gittins.report import comparison, conclusion
from demo.gittins.runs import run

BUDGET = 6.0


def made_up(parameters: Mapping[str, Any]) -> Measured:
    """Expensive, like the real classifier, with small batches, and better with more training."""
    work = int(parameters["epochs"]) / int(parameters["batch_size"])
    off = math.log(float(parameters["learning_rate"]) / 5e-3)
    return Measured(accuracy=1 - 0.02 - 0.2 / (1 + 5 * work + off**2), seconds=0.2 + 2 * work)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo_output")


@pytest.fixture(scope="module")
def searches(folder: Path, short_searches: None) -> Iterator[list[Search]]:
    """A search of each method; the first keeps its experiment."""
    with pytest.MonkeyPatch.context() as patch:
        # Ax has one database per process.
        patch.setattr("ax.storage.sqa_store.db.SESSION_FACTORY", None)
        patch.setattr("demo.gittins.runs.train", made_up)
        patch.setattr("demo.gittins.runs.confirmed_accuracy", lambda parameters: 0.9)
        yield [
            run(method, 0, BUDGET, folder=kept, on_cost=lambda cost: None)
            for method, kept in zip(LABELS, (folder, None, None), strict=True)
        ]


def test_seconds_are_spent_and_something_deployed(searches: list[Search]) -> None:
    for search in searches:
        assert search.trials
        assert search.seconds > 0
        assert 0 < search.best <= 1
        assert search.confirmed == 0.9
        assert set(search.deployed) == {"learning_rate", "units", "epochs", "batch_size"}
    ours, plain, random = searches
    assert ours.stopped
    assert not plain.stopped
    assert max(plain.seconds, random.seconds) <= BUDGET


def test_experiment_is_written_as_json_and_sqlite(searches: list[Search], folder: Path) -> None:
    client = Client.load_from_json_file(str(folder / "experiment.json"))
    assert spending(client).spent == pytest.approx(searches[0].seconds)
    assert (folder / "experiment.db").read_bytes().startswith(b"SQLite format 3")


def test_figures_are_written(searches: list[Search], tmp_path: Path) -> None:
    write_html(searches, tmp_path / "figure.html")
    write_png(searches, tmp_path / "figure.png")
    page = (tmp_path / "figure.html").read_text(encoding="utf-8")
    assert page.count("Plotly.newPlot") >= 2
    assert searches[0].stopped in page
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def _search(method: str, stopped: str = "") -> Search:
    setting = {"learning_rate": 0.01, "units": 32, "epochs": 5, "batch_size": 64}
    trials = (Trained(setting, 0.9, 1.0), Trained(setting, 0.8, 2.0), Trained(setting, 0.95, 3.0))
    return Search(method, 0, 10.0, trials, setting, confirmed=0.94, stopped=stopped)


def test_table_counts_seconds_spent_and_saved() -> None:
    ours, random = _search("gittins", stopped="Nothing is worth it."), _search("random")
    printed = comparison([random, ours]).splitlines()
    assert printed[2].split()[4:9] == ["3", "6.0", "4.0", "0.9500", "0.9400"]
    assert "rate 0.01, 32 units, 5 epochs, batch 64" in printed[2]
    assert "random search" in printed[3]
    assert printed[3].split()[5] == "-"
    said = conclusion([ours, random, replace(random, confirmed=0.96)])
    assert "Nothing is worth it." in said
    assert "random search: mean confirmed accuracy 0.9500 for 6.0 seconds" in said


def test_curve_is_the_best_so_far_over_the_seconds() -> None:
    assert _search("random").curve == ([1.0, 3.0, 6.0], [0.9, 0.9, 0.95])
