"""The numbers that a rule is told of a decision, against brute force over the model."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ax_costaware.core.history import PastTrial
from ax_costaware.core.model import FixedHyperparameters
from ax_costaware.core.problem import Pending, Problem
from ax_costaware.core.simulation import Simulation
from ax_costaware.methods.control_sets import ControlSets
from tests.methods.control_sets.toy import MARGINALS, UNKNOWN_SETS, Asking, run, told_by

BETA = 1.5


@pytest.fixture(scope="module", params=[False, True], ids=["maximize", "minimize"])
def asked(request: pytest.FixtureRequest) -> tuple[Simulation, float]:
    """A run of eight trials, and the sign."""
    sign = -1.0 if request.param else 1.0
    method = ControlSets(
        UNKNOWN_SETS,
        MARGINALS,
        rule=Asking(),
        beta=BETA,
        initial_trials=6,
        budget=20.0,
        num_restarts=4,
        raw_samples=128,
        num_nodes=256,
    )
    model = FixedHyperparameters(lengthscale=0.4, noise_variance=1e-4)
    return run(method, 8, sign, hyperparameters=model), sign


def grid_values(problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    """Posterior means and deviations on a grid of the unit cube, ``17 x 17 x 17``."""
    ticks = torch.linspace(0.0, 1.0, 17, dtype=torch.double)
    points = torch.cartesian_prod(ticks, ticks, ticks)
    with torch.no_grad():
        posterior = problem.model.posterior(points.unsqueeze(-2))
    shape = (17, 17, 17)
    mean, deviation = posterior.mean.reshape(shape), posterior.variance.sqrt().reshape(shape)
    return problem.scale.maximized(mean), problem.scale.unit * deviation


def average(values: torch.Tensor) -> torch.Tensor:
    """Trapezoidal mean over the last axis."""
    inner: torch.Tensor = values[..., 1:-1].sum(-1) + 0.5 * (values[..., 0] + values[..., -1])
    return inner / (values.shape[-1] - 1)


def test_values_and_bounds_of_each_control_set(asked: tuple[Simulation, float]) -> None:
    """The acquisition value, the lower bound, and the least posterior mean."""
    simulation, sign = asked
    problem = simulation.problem()
    mean, deviation = grid_values(problem)
    told = told_by(simulation.ask())
    # A lower bound is largest in a narrow valley of the deviation, between points of the grid.
    lower, upper = mean - BETA * deviation, mean + BETA * deviation
    for key, values, missed in (("values", upper, 0.07), ("lower", lower, 0.07)):
        best = [average(average(values)).max(), average(values).max(), values.max()]
        for found, on_grid in zip(told[key], best, strict=True):
            assert -0.005 < found - float(on_grid) < missed
    trained = min(sign * float(trial.outcome or 0.0) for trial in problem.observed)
    # Quasi-random points miss the corners, unless a trial was there.
    least = float(mean.min())
    assert least - 1e-9 <= told["worst"] <= trained + 0.02
    assert told["worst"] == pytest.approx(least, abs=0.15)
    assert not told["pending"]


def test_costs_and_history(asked: tuple[Simulation, float]) -> None:
    """Functionals without errors, and earlier decisions with what they were charged."""
    simulation, _ = asked
    problem, decision = simulation.problem(), simulation.ask()
    told = told_by(decision)
    assert told["known"] == [False] * 3
    assert [len(costs) for costs in told["reported"]] == [2, 2, 4]
    for (mean, error), reported in zip(told["costs"], told["reported"], strict=True):
        assert mean == pytest.approx(sum(reported) / len(reported))
        assert error is None
    assert [i for i, _, _ in told["past"]] == [2, 2]
    assert [c for _, c, _ in told["past"]] == told["reported"][2][2:]
    assert {*map(int, told["past"][0][2])} == {0, 1, 2}  # as JSON has it
    # A trial that failed stays charged, and one that is pending is charged what is expected.
    for status in ("FAILED", "RUNNING"):
        pending_trial = PastTrial(8, decision.parameters, status=status, record=decision.record())
        pending = (Pending(8, decision.parameters),) if pending_trial.is_live else ()
        trials = (*problem.trials, pending_trial)
        later = told_by(simulation.method.decide(replace(problem, trials=trials, pending=pending)))
        assert later["pending"] == pending_trial.is_live
        assert later["past"][-1][:2] == [2, decision.expected_cost]
        assert later["lower"] == pytest.approx(told["lower"], abs=1e-4), "observed outcomes only"
