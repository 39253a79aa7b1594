"""A decision is a function of what is stored: JSON and SQLite, skipped trials among the history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ax_costaware import (
    AffineCost,
    BernoulliRule,
    FullFeedback,
    MeasurementRule,
    MixedRule,
    complete_trial,
    query,
)
from tests.ax.feedback_toy import make_client, objective
from tests.fresh import FreshProcess
from tests.resuming import Run

pytestmark = pytest.mark.usefixtures("short_searches")

STORED = (0, 1, 3, 4)
"""Runs are stored after these: one initial trial comes after the first, then the model's."""


def _run(name: str, folder: Path, trials: int, **strategy: Any) -> Run:
    """A run that was stored after its trials."""
    run = Run(folder, name)
    metrics = ("hours",) if "time" in strategy else ()
    client = make_client(storage_config=run.config, metrics=metrics, initial_trials=2, **strategy)
    for step in range(trials):
        index, arm = run.decide(client)
        outcome = {"hours": 1e9 + step / 3} if metrics else {}
        cost = None
        if query(client, index).measure:
            outcome["y"] = objective(arm, step) / 3
            cost = 1.0 + float(arm["x1"]) / 3 if strategy.get("cost") == "seconds" else None
        complete_trial(client, index, outcome or None, cost=cost)
        if step in STORED:
            run.store(client)
    run.decide(client)
    return run


def test_next_decision_after_reload_is_the_same(
    tmp_path: Path, fresh_process: FreshProcess
) -> None:
    """Stored after some trials; a new process decides as the old one did."""
    names = ("learned", "hours", "seconds")
    runs = [
        # Fitted hyperparameters, whose fit must not depend on the fits before it.
        _run(
            "learned",
            tmp_path,
            5,
            surrogate_spec=None,
            forgetting=None,
            rule=BernoulliRule(0.5),
            seed=5,
        ),
        _run("hours", tmp_path, 5, time="hours", rule=MixedRule(MeasurementRule(0.9), 0.1, 0.6)),
        _run("seconds", tmp_path, 5, cost="seconds", budget=9.0, rule=BernoulliRule(0.5), seed=5),
    ]
    for name, run in zip(names, runs, strict=True):
        measured = [d["record"]["measure"] for d in run.decisions[2:]]
        assert True in measured, name
        assert False in measured[:-2], f"{name}: no skipped trial among the history"
    # A cost of the settings, and what is left pays for cheap ones alone.
    cost = AffineCost({"x1": 2.0, "x2": 1.0}, fixed=0.2)
    runs.append(_run("cost", tmp_path, 5, rule=FullFeedback(), cost=cost, budget=6.0))
    for decision in runs[-1].decisions:
        expected = cost.at(decision["arm"]) if decision["record"]["measure"] else 0.0
        assert decision["record"]["expected_cost"] == expected
    for run in runs:
        run.assert_resumed_alike(fresh_process)
