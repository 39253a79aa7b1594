"""Decisions from a fully Bayesian model of the user's, with a pending trial."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from botorch.models.model import Model

from ax_costaware.core import Stop, simulate
from ax_costaware.core.problem import Pending, Problem
from ax_costaware.core.simulation import Outcome
from ax_costaware.methods import ControlSets, Method
from ax_costaware.models import expectation_posterior
from ax_costaware.space import Range, Space
from tests.methods.control_sets import toy
from tests.priced import method_of
from tests.saas import NUM_SAMPLES, saas_model

UNIT = Space.of([Range("x1", 0, 1), Range("x2", 0, 1)])
FAST = {"num_restarts": 2, "raw_samples": 32}


def hill(row: dict[str, object], measure: bool) -> Outcome:
    """A hill on the unit square."""
    x1, x2 = (float(str(row[name])) for name in ("x1", "x2"))
    return Outcome(-((x1 - 0.3) ** 2) - (x2 - 0.6) ** 2)


def problem_of(name: str) -> tuple[Method, Problem]:
    """A method and the problem after some trials."""
    if name == "control sets":
        sets = ControlSets(toy.CONTROL_SETS, toy.MARGINALS, budget=100, **toy.FAST)
        return sets, toy.run(sets, 8).problem()
    method = method_of(1.0, budget=100, acquisition=name, initial_trials=6, **FAST)
    return method, simulate(method, UNIT, hill, 6).problem()


@pytest.mark.parametrize("name", ["gittins", "log_ei_per_cost", "log_nei_per_cost", "control sets"])
def test_pending_points_are_fantasized(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    method, problem = problem_of(name)
    Y = torch.tensor([[trial.outcome] for trial in problem.observed], dtype=torch.double)
    model: Model = saas_model(monkeypatch, problem.evaluated, Y)
    problem = replace(problem, fit=lambda: model)
    first = method.decide(problem)
    pending = (Pending(None, dict(first.parameters)),)
    second = method.decide(replace(problem, pending=pending))
    # What is pending will tell something, and what is left to learn is worth less.
    assert first.value is not None
    assert second.value is not None
    assert second.value < first.value


def test_control_sets_are_recommended_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The moments of a query are those of the mixture, whatever the number of its samples."""
    method, problem = problem_of("control sets")
    Y = torch.tensor([[trial.outcome] for trial in problem.observed], dtype=torch.double)
    model: Model = saas_model(monkeypatch, problem.evaluated, Y)
    problem = replace(problem, fit=lambda: model)
    best = method.recommend(problem)[0]
    assert math.isfinite(best.mean)
    spent = replace(method, budget=method.budget_state(problem).spent + 0.01)
    stop = spent.decide(problem)
    assert isinstance(stop, Stop)
    assert f"{best.mean:.6g}" in stop.reason
    nodes, weights = (
        torch.rand(NUM_SAMPLES, 5, problem.evaluated.shape[-1]).double(),
        torch.rand(5).double(),
    )
    mean, variance = expectation_posterior(model, nodes, weights)
    posterior = model.posterior(nodes)
    means = (posterior.distribution.mean @ weights).mT  # samples by queries
    variances = (weights @ posterior.distribution.covariance_matrix @ weights).mT
    assert torch.allclose(mean, means.mean(0))
    assert torch.allclose(variance, variances.mean(0) + means.var(0, correction=0))
