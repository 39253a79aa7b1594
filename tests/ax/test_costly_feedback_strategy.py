"""Whole runs of ``costly_feedback_strategy`` on Ax's Client and AxClient."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from ax.api.client import Client
from ax.core.trial_status import TrialStatus
from ax.core.utils import extract_pending_observations

from ax_costaware import (
    BernoulliRule,
    FullFeedback,
    MeasurementRule,
    complete_trial,
    query,
    recommend,
    spending,
)
from tests.ax.feedback_toy import (
    FORGETTING,
    arm_of,
    make_client,
    record,
    run_trials,
)

pytestmark = pytest.mark.usefixtures("short_searches")


def posterior_at(client: Client, time: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A grid of the square, and posterior mean and standard deviation there at a time.

    By the formulae of a GP, from the outcomes in Ax's data and the indices of their trials.
    """
    side = torch.linspace(0, 1, 41, dtype=torch.double)
    grid = torch.cartesian_prod(side, side)
    frame = client._experiment.lookup_data().df
    frame = frame[frame["metric_name"] == "y"]
    times = torch.tensor(frame["trial_index"].to_numpy(), dtype=torch.double)
    Y = torch.tensor(frame["mean"].to_numpy(), dtype=torch.double)
    arms = [arm_of(client, int(i)) for i in frame["trial_index"]]
    X = torch.tensor([[arm["x1"], arm["x2"]] for arm in arms], dtype=torch.double)

    def kernel(A: torch.Tensor, B: torch.Tensor, lags: torch.Tensor) -> torch.Tensor:
        near = (-torch.cdist(A, B).square() / (2 * 0.5**2)).exp()
        return 0.3 * near * (1 - FORGETTING) ** (lags / 2)

    K = kernel(X, X, (times[:, None] - times).abs())
    cross = kernel(X, grid, (time - times)[:, None].expand(-1, len(grid)))
    solved = torch.linalg.solve(K + 1e-4 * torch.eye(len(X), dtype=torch.double), cross)
    return grid, solved.T @ Y, (0.3 - (cross * solved).sum(dim=0)).sqrt()


@pytest.mark.usefixtures("full_searches")
def test_decisions_are_those_of_the_algorithm() -> None:
    """The point has the largest bound on a fine grid, and the rule sees its strongest rival."""
    sign = -1.0
    client = make_client(minimize=True, rule=MeasurementRule(0.7), beta=2.0, num_restarts=8)
    run_trials(client, 4, sign)
    skipped = 0
    for index in range(4, 9):
        grid, mean, sd = posterior_at(client, index)
        mean = sign * mean
        bound = mean + math.sqrt(2.0) * sd
        skipped += not run_trials(client, 1, sign)[0]
        decided = record(client, index)
        decision, arm = decided["decision"], arm_of(client, index)
        assert decided["phase"] == "rule"
        assert (decision["now"], decision["beta"]) == (index, 2.0)
        assert decision["forgetting"] == pytest.approx(FORGETTING)
        assert sign * decision["upper_confidence_bound"] > float(bound.max()) - 1e-6
        point = torch.tensor([arm["x1"], arm["x2"]], dtype=torch.double)
        at = int((grid - point).norm(dim=-1).argmin())
        assert sign * decision["mean"] == pytest.approx(float(mean[at]), abs=0.03)
        assert decision["standard_deviation"] == pytest.approx(float(sd[at]), abs=0.03)
        assert decided["measure"] == (decision["confidence"] < 0.7)
        assert decided["expected_cost"] == float(decided["measure"])
        assert decision["reason"] in decided["why"]
    assert 0 < skipped < 5
    assert [entry.charged for entry in spending(client).entries] == [
        float(record(client, i)["measure"]) for i in range(9)
    ]


@pytest.mark.usefixtures("full_searches")
def test_a_skipped_trial_is_neither_pending_nor_failed() -> None:
    """Ax counts it as pending for ever; the strategy may use its point again at once."""
    client = make_client(rule=BernoulliRule(0.0), beta=0.5)
    run_trials(client, 8)
    pending = extract_pending_observations(client._experiment)
    assert pending is not None, "what the node has to put right"
    statuses = {trial.status for trial in client._experiment.trials.values()}
    assert statuses == {TrialStatus.COMPLETED}
    assert [entry.skipped for entry in spending(client).entries] == [False] * 4 + [True] * 4
    assert spending(client).spent == 4.0
    for index in range(5, 8):
        # Nothing new is learned: means shrink, deviations grow, and nobody is pushed away.
        _, mean, sd = posterior_at(client, index)
        bound = float((mean + math.sqrt(0.5) * sd).max())
        assert record(client, index)["decision"]["upper_confidence_bound"] > bound - 1e-6


def test_a_budget_that_is_used_up() -> None:
    """The job goes on at the best posterior mean, without measuring, and says why."""
    client = make_client(rule=FullFeedback(), cost=0.1, budget=0.6)
    assert run_trials(client, 8) == [True] * 6 + [False] * 2
    assert spending(client).remaining == pytest.approx(0.0, abs=1e-12)
    for index in range(6, 8):
        asked = query(client, index)
        assert asked.decision["beta"] == 0.0
        _, mean, _ = posterior_at(client, index)
        assert asked.decision["mean"] > float(mean.max()) - 1e-6
    overrun = make_client(cost=1.0, budget=4.0)
    (index,) = overrun.get_next_trials(max_trials=1)
    complete_trial(overrun, index, 1.0, cost=3.5)
    (index,) = overrun.get_next_trials(max_trials=1)
    assert not query(overrun, index).measure


def test_trials_that_are_not_measured_push_nobody_away() -> None:
    """A pending trial without a measurement teaches nothing, so its point may be used again.

    It costs nothing, either, also where it is another one of the same batch.
    """
    client = make_client(rule=BernoulliRule(0.0), beta=0.01, budget=5.0)
    run_trials(client, 4)
    batch = [client.get_next_trials(max_trials=count) for count in (1, 1, 3)]
    arms = [np.array(list(arm.values())) for trials in batch for arm in trials.values()]
    assert all(np.abs(arms[0] - other).max() < 0.01 for other in arms)
    decisions = [record(client, index)["decision"] for index in range(4, 9)]
    assert [found["spent"] for found in decisions] == [4.0] * 5
    assert {found["beta"] for found in decisions} == {0.01}


@pytest.mark.usefixtures("full_searches")
def test_of_two_points_that_were_equally_good_the_later_is_best_now() -> None:
    client = make_client(initial_trials=0, forgetting=0.3)
    for x1 in (0.1, 0.9, 0.5):
        index = client.attach_trial({"x1": x1, "x2": 0.5})
        complete_trial(client, index, {"y": 0.0 if x1 == 0.5 else 1.0})
    run_trials(client, 1)
    assert float(recommend(client).parameters["x1"]) > 0.6


def test_initial_trials_that_nobody_measures() -> None:
    """The job needs values all the same, until there are enough outcomes."""
    client = make_client()
    for _ in range(5):
        (index,) = client.get_next_trials(max_trials=1)
        complete_trial(client, index)
    assert [record(client, i)["phase"] for i in range(5)] == ["initial"] * 5
    assert "initial trial 4 of 4" in query(client, 3).why
    assert "do not have enough outcomes for a model yet" in query(client, 4).why
    run_trials(client, 3)
    assert [record(client, i)["phase"] for i in range(5, 8)] == ["initial", "initial", "rule"]
