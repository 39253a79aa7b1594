"""Failed points count as observed, at their posterior mean or worse; or failing is learned."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.map_saas import EnsembleMapSaasSingleTaskGP
from botorch.models.model import Model
from botorch.models.transforms import Normalize, Standardize

from ax_costaware.acquisition.feasibility import Feasibility
from ax_costaware.core import Decision, FixedHyperparameters, PastTrial, Problem, Simulation
from ax_costaware.core.failures import after_failures, failures_as_constraint, stop_of_failures
from ax_costaware.exceptions import InputError
from ax_costaware.laws import GaussianConditional
from ax_costaware.methods import CostAware
from ax_costaware.models import ConditionalMeanProcess, TimeVaryingGP
from ax_costaware.models.posterior import FunctionalPosterior
from ax_costaware.space import Range, Space

torch.manual_seed(0)
X = torch.rand(8, 2, dtype=torch.double)
Y = (10 * X).sin().sum(dim=-1, keepdim=True)
Y = (Y - Y.mean()) / Y.std()
NEW = torch.tensor([[0.2, 0.8], [0.7, 0.1]], dtype=torch.double)
FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 64}
SQUARE = Space.of([Range("x1", 0.0, 1.0), Range("x2", 0.0, 1.0)])
EXACT = torch.full_like(Y, 1e-4)


def models() -> dict[str, Model]:
    """Models of the same data."""
    law = GaussianConditional(((1, 0), (0, 1)), covariance=0.01)
    average = ConditionalMeanProcess(X, Y, law, noise=1e-4)
    return {
        "transforms": SingleTaskGP(
            X, Y, EXACT, input_transform=Normalize(2), outcome_transform=Standardize(1)
        ),
        "plain": SingleTaskGP(X, Y, EXACT, outcome_transform=None),
        "list": ModelListGP(SingleTaskGP(X, Y, EXACT)),
        "time": TimeVaryingGP(X, Y, EXACT),
        "averages": average,
        "ensemble": EnsembleMapSaasSingleTaskGP(X, Y, EXACT, outcome_transform=None),
    }


@pytest.mark.parametrize("name", models())
def test_the_worse_of_mean_and_bound(name: str) -> None:
    """At a point whose fantasy is bad the mean stays; its variance falls to the noise.

    The fantasy is no worse than is plausible.
    """
    model = models()[name]
    model.eval()
    with torch.no_grad():
        before = model.posterior(NEW)
        value = before.mean.reshape(-1, 2)[0].mean().item()
        for most in (3.0, math.inf):
            after = after_failures(model, NEW, value, most).posterior(NEW)
            clamped = before.mean.clamp_max(value)
            far = most * before.variance.sqrt()
            clamped = clamped.clamp(before.mean - far, before.mean + far)
            torch.testing.assert_close(after.mean, clamped, rtol=2e-3, atol=1e-2)
            assert bool((after.variance < 0.02 * before.variance).all())
        again = model.posterior(NEW)
    assert torch.equal(again.mean, before.mean)
    assert torch.equal(again.variance, before.variance)


def test_nothing_failed() -> None:
    model = models()["plain"]
    assert after_failures(model, NEW[:0], 0.0, math.inf) is model


def past(status: str = "FAILED") -> list[PastTrial]:
    """A grid whose right half failed, and whose left half is the better the further right."""
    places = [(x1, x2) for x1 in (0.1, 0.3, 0.7, 0.9) for x2 in (0.1, 0.5, 0.9)]
    return [
        PastTrial(i, {"x1": x1, "x2": x2}, status)
        if x1 > 0.5
        else PastTrial(i, {"x1": x1, "x2": x2}, "COMPLETED", x1, True)
        for i, (x1, x2) in enumerate(places)
    ]


def test_what_was_excluded_neither_stops_a_run_nor_keeps_it_from_stopping() -> None:
    failed = [PastTrial(i, {"x1": i / 10, "x2": 0.5}, "FAILED") for i in range(10)]
    excluded = [replace(t, index=10 + t.index, is_excluded=True) for t in failed]
    assert stop_of_failures(Problem(SQUARE, (*failed[:5], *excluded)), 5) is None
    assert stop_of_failures(Problem(SQUARE, (*failed, *excluded)), 5) is not None


def test_a_region_that_fails_is_kept_out_of_once_it_is_learned() -> None:
    """Though outcomes promise more there."""
    found: dict[bool, Decision] = {}
    for learn in (False, True):
        method = CostAware(1.0, lmbda=0.01, initial_trials=0, learn_failures=learn, **FAST)
        model = FixedHyperparameters(1.0, 1.0, 1e-4)
        problem = Simulation(method, SQUARE, hyperparameters=model, trials=past()).problem()
        decision = method.decide(problem)
        assert isinstance(decision, Decision)
        found[learn] = decision
    assert float(str(found[False].parameters["x1"])) > 0.6
    assert float(str(found[True].parameters["x1"])) < 0.6
    assert found[True].details["feasibility"] > 0.1
    assert "feasibility" not in found[False].details


def test_failures_as_a_constraint() -> None:
    """Of what failed, and if asked for of what was given up; none before anything has failed."""
    trials = past()
    problem = Problem(SQUARE, tuple(trials))
    (constraint,) = failures_as_constraint(problem, True)
    points = torch.tensor([[0.2, 0.5], [0.8, 0.5]], dtype=torch.double)
    low, high = Feasibility.of([constraint], FunctionalPosterior.of).probability(points).tolist()
    assert low > 0.95
    assert high < 0.05
    problem = Problem(SQUARE, tuple(past("ABANDONED")))
    assert failures_as_constraint(problem, True) == ()
    assert len(failures_as_constraint(problem, "abandoned")) == 1
    excluded = tuple(replace(trial, is_excluded=True) for trial in problem.trials)
    assert failures_as_constraint(Problem(SQUARE, excluded), "abandoned") == ()
    assert failures_as_constraint(Problem(SQUARE, tuple(trials[:6])), True) == ()
    assert failures_as_constraint(Problem(SQUARE, tuple(trials)), False) == ()
    with pytest.raises(InputError, match="learn_failures='often'"):
        CostAware(1.0, learn_failures="often")  # type: ignore[arg-type]
