from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ax.api.client import Client

from ax_costaware import spending
from demo.__main__ import main
from demo.figure import write_html, write_png
from demo.outcome import LABELS, Run
from demo.report import comparison, details
from demo.runs import run
from demo.stack_loss import Plant

BUDGETS = {"control_sets": 8.0, "full_control": 50.0, "plain_ax": 20.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo_output")


@pytest.fixture(scope="module")
def runs(folder: Path, short_searches: None) -> Iterator[list[Run]]:
    """A run of each method that spends next to nothing; the first keeps its experiment."""
    kept = {"control_sets": folder}
    # The plant is the same for all, and what is best of its 55,000 settings takes a while.
    best = Plant(0).best_margin()
    with pytest.MonkeyPatch.context() as patch:
        # Ax has one database per process.
        patch.setattr("ax.storage.sqa_store.db.SESSION_FACTORY", None)
        patch.setattr(Plant, "best_margin", lambda _: best)
        yield [
            run(method, 0, budget, on_cost=lambda cost: None, folder=kept.get(method))
            for method, budget in BUDGETS.items()
        ]


def test_budget_is_spent_and_something_deployed(runs: list[Run]) -> None:
    for result in runs:
        assert 0 < result.spent <= BUDGETS[result.method]
        assert result.chosen[-1][0] == pytest.approx(result.spent)
        assert result.deployed
        assert result.value <= result.best_possible + 1e-6


def test_experiment_is_written_as_json_and_sqlite(runs: list[Run], folder: Path) -> None:
    client = Client.load_from_json_file(str(folder / "experiment.json"))
    assert spending(client).spent == pytest.approx(runs[0].spent)
    assert (folder / "experiment.db").read_bytes().startswith(b"SQLite format 3")


def test_figures_are_written(runs: list[Run], tmp_path: Path) -> None:
    write_html(runs, tmp_path / "figure.html")
    write_png(runs, tmp_path / "figure.png")
    assert "Plotly.newPlot" in (tmp_path / "figure.html").read_text(encoding="utf-8")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_tables_say_who_was_ahead() -> None:
    def result(method: str, seed: int, value: float) -> Run:
        return Run(method, seed, 10.0, ("a",), ((10.0, "a"),), ((10.0, value),), {"x": 1.0}, 9.0)

    values = {"control_sets": (8.0, 5.0), "full_control": (7.0, 6.0), "plain_ax": (6.0, 7.0)}
    runs = [result(m, seed, value) for m in LABELS for seed, value in enumerate(values[m])]
    printed = comparison(runs)
    assert "ahead of plain Ax in 1 of 2 seeds" in printed
    assert [line.split()[-3:] for line in printed.splitlines()[2:6]] == [
        ["8.00", "5.00", "6.50"],
        ["7.00", "6.00", "6.50"],
        ["6.00", "7.00", "6.50"],
        ["9.00", "9.00", "9.00"],
    ]
    assert "x 1.0" in details(runs, seed=1)


@pytest.mark.parametrize("arguments", [["--seeds", "0"], ["--budget", "9"], ["--budget", "inf"]])
def test_arguments_are_checked(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo.__main__.run_all", None)
    with pytest.raises(SystemExit):
        main(arguments)
