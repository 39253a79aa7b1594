"""The card of ``FeedbackAnalysis``: its frame, and when it can be computed."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.core.analysis_card import NotApplicableStateAnalysisCard
from ax.core.arm import Arm
from ax.core.generator_run import GeneratorRun
from ax.exceptions.core import UserInputError

from ax_costaware.analysis import FeedbackAnalysis
from ax_costaware.ax_bridge.records import RECORD
from ax_costaware.methods.costly_feedback import CostlyFeedback
from ax_costaware.methods.costly_feedback.rules import BernoulliRule
from ax_costaware.session import complete_trial, query, spending
from tests.ax.feedback_toy import make_client, run_trials
from tests.session.conftest import strategy_with

from .conftest import make_client as make_control_set_client

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


def test_a_run_of_the_strategy() -> None:
    client = make_client(minimize=True, rule=BernoulliRule(0.5))
    measured = run_trials(client, 10, sign=-1.0)
    assert set(measured) == {True, False}
    frame = card_of(client).df
    assert list(frame["outcome"].notna()) == list(frame["measure"]) == measured
    assert list(frame["skipped"]) == [not was for was in measured]
    assert list(frame["initial"]) == [True] * 4 + [False] * 6
    for i, row in frame.iloc[4:].iterrows():
        asked = query(client, int(str(i)))
        assert row["mean"] == asked.decision["mean"] < 0
        assert row["standard_deviation"] == asked.decision["standard_deviation"]
        assert row["why"] == asked.why
    assert frame["cumulative_cost"].iloc[-1] == spending(client).spent == sum(measured)


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


def test_attached_trials_have_no_expectation() -> None:
    client = make()
    client.attach_trial({"water": 0.5})
    complete_trial(client, 0, 1.0)
    frame = card_of(client).df
    assert list(frame["measure"]) == [True]
    assert math.isnan(frame["mean"].iloc[0])
    standalone = FeedbackAnalysis().compute(client._experiment, client._generation_strategy)
    pd.testing.assert_frame_equal(standalone.df, frame)
    assert standalone.subtitle.endswith(" is a trial that was not measured.")
    complete_trial(client, generate(client, True, mean=0.3), 0.4)
    client.attach_trial({"water": 0.7})
    assert card_of(client).subtitle.endswith(f"The last decision, on trial 1: {WHY}")


def test_not_applicable_before_the_first_outcome() -> None:
    client = make()
    (card,) = client.compute_analyses([FeedbackAnalysis()], display=False)
    assert isinstance(card, NotApplicableStateAnalysisCard)
    complete_trial(client, generate(client, False), {"hours": 1.0})
    with pytest.raises(UserInputError, match=r"cannot be computed: No trial has data for the obj"):
        FeedbackAnalysis().compute(client._experiment, client._generation_strategy)


def test_strategy_is_needed_and_must_be_one_that_skips() -> None:
    client = make()
    complete_trial(client, generate(client, True), 1.0)
    with pytest.raises(UserInputError, match="strategy must be provided"):
        FeedbackAnalysis().compute(client._experiment)
    other = make_control_set_client()
    with pytest.raises(UserInputError, match="comes from control_set_strategy"):
        FeedbackAnalysis().compute(client._experiment, other._generation_strategy)
    client.configure_generation_strategy(method="random_search")
    with pytest.raises(UserInputError, match="does not know what a trial costs"):
        FeedbackAnalysis().compute(client._experiment, client._generation_strategy)
