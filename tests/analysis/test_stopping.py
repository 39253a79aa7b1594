"""The card of ``StoppingAnalysis``: its frame, and when it can be computed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.api.client import Client
from ax.core.arm import Arm
from ax.core.generator_run import GeneratorRun
from ax.exceptions.core import OptimizationShouldStop

from ax_costaware import SwitchingCost, complete_trial, should_stop, spending
from ax_costaware.analysis import StoppingAnalysis
from ax_costaware.ax_bridge.records import RECORD
from tests.ax.gittins_toy import FAST, complete, make_client, objective, record, run_trials

pytestmark = pytest.mark.usefixtures("short_searches")


def _card(client: Client) -> PlotlyAnalysisCard:
    (card,) = client.compute_analyses([StoppingAnalysis()], display=False)
    assert isinstance(card, PlotlyAnalysisCard)
    return card


def _run_to_the_stop(client: Client, sign: float = 1.0) -> str:
    for _ in range(40):
        try:
            run_trials(client, 1, sign)
        except OptimizationShouldStop as stop:
            return str(stop)
    raise AssertionError("it did not stop")


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_why_it_stopped(sign: float) -> None:
    client = make_client(minimize=sign < 0, lmbda=0.03, budget=100.0)
    _run_to_the_stop(client, sign)
    card = _card(client)
    frame, now = card.df, should_stop(client)
    assert list(frame["trial_index"]) == list(range(len(frame)))
    assert list(frame["status"]) == ["COMPLETED"] * (len(frame) - 1) + ["NEXT"]
    assert list(frame["initial"]) == [i < FAST["initial_trials"] for i in range(len(frame))]
    assert frame["cumulative_cost"].iloc[-1] == pytest.approx(spending(client).spent)
    decided = frame[frame["index"].notna()]
    worth = sign * (decided["index"] - decided["incumbent"]) > 0
    assert list(worth) == [True] * (len(decided) - 1) + [False]
    last = frame.iloc[-1]
    assert (last["index"], last["incumbent"], last["lambda"]) == (
        now.index,
        now.incumbent,
        now.lmbda,
    )
    best = frame["outcome"].max() if sign > 0 else frame["outcome"].min()
    assert last["best_outcome"] == best
    assert math.isnan(last["outcome"])
    assert card.subtitle.startswith(now.reason)
    assert " of 100." in card.subtitle
    names = [trace.name for trace in card.get_figure().data]
    assert "now: stop" in names


def test_the_best_outcome_keeps_to_the_outcome_constraints() -> None:
    client = make_client(budget=30.0)
    client.configure_optimization(objective="y", outcome_constraints=["dust <= 0.5"])
    for x1, dust in ((0.3, 0.9), (0.8, 0.1), (0.6, 0.4)):
        index = client.attach_trial({"x1": x1, "x2": 0.6})
        complete_trial(client, index, {"y": objective({"x1": x1, "x2": 0.6}), "dust": dust})
    card = _card(client)
    best = card.df["best_outcome"].tolist()
    assert math.isnan(best[0])
    assert best[1:] == pytest.approx([-0.25, -0.09, -0.09])
    assert "the best outcome is a feasible one" in card.subtitle


def test_learned_costs_have_the_interval_that_was_predicted() -> None:
    client = make_client(cost="hours", lmbda=1e-4)
    for _ in range(6):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        complete(client, index, dict(arm), report=True)
    card = _card(client)
    rows = card.df.iloc[:6]
    predicted = rows["cost_lower"].notna()
    assert list(predicted) == [False] * 4 + [True] * 2
    lower, upper = rows.loc[predicted, "cost_lower"], rows.loc[predicted, "cost_upper"]
    spread = np.log(upper / lower) / (2 * 1.959964)
    expected = np.sqrt(lower * upper) * np.exp(spread**2 / 2)
    np.testing.assert_allclose(expected, rows.loc[predicted, "expected_cost"], rtol=1e-6)
    titles = [annotation.text for annotation in card.get_figure().layout.annotations]
    assert any(text.startswith("Learned cost:") for text in titles)
    assert "95 %" in card.subtitle


def test_what_was_predicted_of_a_cost_has_its_switching_cost() -> None:
    client = make_client(cost=SwitchingCost({"x1": 20.0}, base="hours"), lmbda=1e-4)
    for i in range(5):
        fixed = {"x1": 0.2 * i}
        ((index, arm),) = client.get_next_trials(max_trials=1, fixed_parameters=fixed).items()
        paid = 1.0 + record(client, index)["switching_cost"]
        complete_trial(client, index, {"y": objective(arm)}, cost=paid)
    row = _card(client).df.iloc[4]
    assert row["reported_cost"] == 21.0
    assert 20.0 < row["cost_lower"] < row["expected_cost"] < row["cost_upper"]
    log_mean = record(client, 4)["decision"]["cost_log_mean"]
    assert row["cost_median"] == 20.0 + math.exp(log_mean)


@pytest.mark.parametrize("objective", ["-y", "dust"])
def test_what_was_decided_for_another_objective_is_not_drawn(objective: str) -> None:
    client = make_client(lmbda=1e-4)
    client.configure_tracking_metrics(["dust"])
    for _ in range(5):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        complete_trial(client, index, {"y": arm["x1"], "dust": 1e3})
    assert list(_card(client).df["incumbent"].notna()) == [False] * 4 + [True] * 2
    client.configure_optimization(objective=objective)
    frame = _card(client).df
    for column in ("index", "incumbent", "lambda"):
        assert list(frame[column].notna()) == [False] * 5 + [True]


def test_the_incumbent_of_another_method_is_not_drawn() -> None:
    client = make_client(lmbda=1e-4)
    decision = {"incumbent": -0.5, "incumbent_trial": 0, "lambda": None, "spent": 0.0}
    run = GeneratorRun(
        arms=[Arm({"x1": 0.4, "x2": 0.6})],
        gen_metadata={RECORD: {"phase": "rule", "expected_cost": 1.0, "decision": decision}},
    )
    client._experiment.new_trial(run).mark_running(no_runner_required=True)
    complete_trial(client, 0, {"y": 0.1})
    frame = _card(client).df
    assert list(frame["incumbent"].notna()) == [False, True]
