"""The numbers that a rule is told of a decision, against brute force over the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch

from ax_costaware import FixedHyperparameters
from ax_costaware.adapter.control_set_adapter import ControlSetAdapter
from ax_costaware.adapter.cost_aware_adapter import fitted_adapter
from ax_costaware.policies.control_set_rules import (
    ControlSetDecision,
    ControlSetHistory,
    EvaluateBounds,
)
from tests.ax.cost_toy import make_cost_client, run_with_costs
from tests.ax.toy import record

BETA = 1.5


@dataclass(frozen=True)
class Asking:
    """Asks for everything and stores it."""

    acquisition: ClassVar[str] = "mean"

    def decide(self, history: ControlSetHistory, evaluate: EvaluateBounds) -> ControlSetDecision:
        """Choose the last control set."""
        every: Sequence[int] = history.affordable_indices()
        if not isinstance(evaluate, EvaluateBounds):
            raise TypeError(evaluate)
        told = {
            "values": list(evaluate(every)),
            "lower": list(evaluate.lower(every, True)),
            "tighter": [list(evaluate.lower(every)), list(evaluate.upper(every))],
            "worst": evaluate.worst(),
            "costs": [list(cost) for cost in evaluate.costs(every)],
            "reported": [list(costs) for costs in history.reported or ()],
            "past": [[p.index, p.charged, dict(p.values)] for p in history.past],
            "known": list(history.known or ()),
            "pending": history.pending,
        }
        values = dict(zip(every, told["values"], strict=True))  # type: ignore[call-overload]
        return ControlSetDecision(every[-1], "It is the last.", tuple(every), values, told)


@pytest.fixture(scope="module", params=[False, True], ids=["maximize", "minimize"])
def asked(request: pytest.FixtureRequest) -> tuple[Any, float]:
    """A client with a decision on trial 8, before which it is fitted, and the sign."""
    sign = -1.0 if request.param else 1.0
    client = make_cost_client(
        minimize=request.param,
        rule=Asking(),
        beta=BETA,
        initial_trials=6,
        budget=20.0,
        num_restarts=4,
        raw_samples=128,
        num_nodes=256,
        surrogate_spec=FixedHyperparameters(lengthscale=0.4, noise_variance=1e-4),
    )
    run_with_costs(client, 8, sign)
    return client, sign


def grid_values(client: Any, sign: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Posterior means and deviations on a grid of the unit cube, ``17 x 17 x 17``."""
    adapter = fitted_adapter(client._experiment, client._generation_strategy)
    assert isinstance(adapter, ControlSetAdapter)
    ticks = torch.linspace(0.0, 1.0, 17, dtype=torch.double)
    points = torch.cartesian_prod(ticks, ticks, ticks)
    with torch.no_grad():
        posterior = adapter.botorch_model.posterior(points.unsqueeze(-2))
    shape = (17, 17, 17)
    return (sign * posterior.mean).reshape(shape), posterior.variance.sqrt().reshape(shape)


def average(values: torch.Tensor) -> torch.Tensor:
    """Trapezoidal mean over the last axis."""
    inner: torch.Tensor = values[..., 1:-1].sum(-1) + 0.5 * (values[..., 0] + values[..., -1])
    return inner / (values.shape[-1] - 1)


def test_values_and_bounds_of_each_control_set(asked: tuple[Any, float]) -> None:
    """The rule's own acquisition, the lower bound, and the least posterior mean."""
    client, sign = asked
    mean, deviation = grid_values(client, sign)
    (index,) = client.get_next_trials(max_trials=1)
    told = record(client, index)["decision"]["state"]
    # A lower bound is largest in a narrow valley of the deviation, between points of the grid.
    lower = mean - BETA * deviation
    for key, values, missed in (("values", mean, 0.02), ("lower", lower, 0.07)):
        best = [average(average(values)).max(), average(values).max(), values.max()]
        for found, on_grid in zip(told[key], best, strict=True):
            assert -0.005 < found - float(on_grid) < missed
    trained = client._experiment.lookup_data().df["mean"]
    # Quasi-random points miss the corners, unless a trial was there.
    least = float(mean.min())
    assert least - 1e-9 <= told["worst"] <= float((sign * trained).min()) + 0.02
    assert told["worst"] == pytest.approx(least, abs=0.15)
    assert not told["pending"]
    client.mark_trial_failed(index)


def test_costs_and_history(asked: tuple[Any, float]) -> None:
    """Averages without errors, and earlier decisions with what they were charged."""
    client, _ = asked
    (index,) = client.get_next_trials(max_trials=1)
    told = record(client, index)["decision"]["state"]
    assert told["known"] == [False] * 3
    assert [len(costs) for costs in told["reported"]] == [2, 2, 4]
    for (mean, error), reported in zip(told["costs"], told["reported"], strict=True):
        assert mean == pytest.approx(sum(reported) / len(reported))
        assert error is None
    # The tests fail trials, which stay charged and count as decisions.
    assert [i for i, _, _ in told["past"][:2]] == [2, 2]
    assert [c for _, c, _ in told["past"][:2]] == told["reported"][2][2:]
    assert set(told["past"][0][2]) == {0, 1, 2}
    second, *_ = client.get_next_trials(max_trials=1)
    later = record(client, second)["decision"]["state"]
    assert later["pending"]
    assert later["lower"] == pytest.approx(told["lower"], abs=1e-4), "observed outcomes only"
    assert later["past"][-1][:2] == [2, record(client, index)["expected_cost"]]
