"""The card of ``FeedbackAnalysis``: its frame, and when it can be computed."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.core.arm import Arm
from ax.core.generator_run import GeneratorRun

from ax_costaware.analysis import FeedbackAnalysis
from ax_costaware.ax_bridge.records import RECORD
from ax_costaware.methods.costly_feedback import CostlyFeedback
from ax_costaware.session import complete_trial
from tests.session.conftest import strategy_with

pytestmark = pytest.mark.usefixtures("short_searches")

WHY = "It has the largest upper confidence bound."


def make(time: str | None = None, sign: float = 1.0) -> Client:
    """An experiment without trials; a measurement costs 2 of 20."""
    client = Client()
    client.configure_experiment(
        name="plants",
        parameters=[RangeParameterConfig("water", bounds=(0.0, 1.0), parameter_type="float")],
    )
    client.configure_optimization(objective="growth" if sign > 0 else "-growth")
    client.configure_tracking_metrics(["hours"])
    client.set_generation_strategy(strategy_with(CostlyFeedback(cost=2.0, budget=20.0, time=time)))
    return client


def generate(client: Client, measure: bool, mean: float | None = None) -> int:
    """A running trial as the strategy generates it, by its model if a mean is given."""
    decision = {"mean": mean, "standard_deviation": 0.1, "confidence": 0.8}
    record = {
        "objective": "growth",
        "measure": measure,
        "expected_cost": 2.0 if measure else 0.0,
        "why": WHY,
        "phase": "initial" if mean is None else "rule",
        "decision": {} if mean is None else decision,
    }
    arm = Arm(parameters={"water": len(client._experiment.trials) / 16})
    run = GeneratorRun(arms=[arm], gen_metadata={RECORD: record})
    return client._experiment.new_trial(run).mark_running(no_runner_required=True).index


def card_of(client: Client) -> PlotlyAnalysisCard:
    (card,) = client.compute_analyses([FeedbackAnalysis()], display=False)
    assert isinstance(card, PlotlyAnalysisCard)
    return card


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_every_trial_has_its_row(sign: float) -> None:
    client = make(sign=sign)
    complete_trial(client, generate(client, True), 0.2)
    complete_trial(client, generate(client, True, mean=0.3), 0.4)
    complete_trial(client, generate(client, False, mean=0.5))
    complete_trial(client, generate(client, False, mean=0.6), 0.7)  # though it was not asked for
    complete_trial(client, generate(client, True, mean=0.8), cost=0.5)  # though it was
    client.mark_trial_failed(generate(client, True, mean=0.9))
    generate(client, True, mean=1.0)
    card = card_of(client)
    frame = card.df
    nan = math.nan
    expected = pd.DataFrame(
        {
            "trial_index": range(7),
            "time": [float(i) for i in range(7)],
            "initial": [True] + [False] * 6,
            "status": ["COMPLETED"] * 5 + ["FAILED", "RUNNING"],
            "measure": [True, True, False, False, True, True, True],
            "skipped": [False, False, True, False, True, False, False],
            "outcome": [0.2, 0.4, nan, 0.7, nan, nan, nan],
            "mean": [nan, 0.3, 0.5, 0.6, 0.8, 0.9, 1.0],
            "standard_deviation": [nan] + [0.1] * 6,
            "confidence": [nan] + [0.8] * 6,
            "charged": [2.0, 2.0, 0.0, 2.0, 0.5, 2.0, 2.0],
            "why": WHY,
            "cumulative_measurements": [1, 2, 2, 3, 3, 3, 3],
            "cumulative_cost": [2.0, 4.0, 4.0, 6.0, 6.5, 8.5, 10.5],
        }
    )
    pd.testing.assert_frame_equal(frame, expected)
    assert card.subtitle.startswith(
        "3 trials were measured and 2 were used without a measurement; spent 10.5 of 20. "
    )
    assert card.subtitle.endswith(f"The last decision, on trial 6: {WHY}")
    better = "higher" if sign > 0 else "lower"
    assert card.get_figure().layout.yaxis.title.text == f"growth ({better} is better)"


def test_times_are_those_that_were_reported() -> None:
    client = make(time="hours")
    complete_trial(client, generate(client, True), {"growth": 0.2, "hours": 1.5})
    complete_trial(client, generate(client, False, mean=0.3), {"hours": 4.0})
    card = card_of(client)
    assert list(card.df["time"]) == [1.5, 4.0]
    assert card.get_figure().layout.xaxis2.title.text == "hours"


def test_what_was_expected_of_another_objective_is_not_drawn() -> None:
    client = make()
    complete_trial(client, generate(client, True, mean=0.3), {"growth": 0.4, "hours": 9.0})
    client.configure_optimization(objective="-growth")
    assert list(card_of(client).df["mean"]) == [0.3]
    client.configure_optimization(objective="hours")
    card = card_of(client)
    assert list(card.df["outcome"]) == [9.0]
    assert card.df[["mean", "standard_deviation", "confidence"]].isna().all(axis=None)
    assert "hollow for trials that no model chose for this objective" in card.subtitle
    (dot,) = [t for t in card.get_figure().data if t.name == "measured (hollow: initial)"]
    assert list(dot.marker.symbol) == ["circle-open"]
