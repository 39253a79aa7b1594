"""Failed points count as observed, at their posterior mean or worse."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.map_saas import EnsembleMapSaasSingleTaskGP
from botorch.models.model import Model
from botorch.models.transforms import Normalize, Standardize

from ax_costaware.methods.failures import after_failures
from ax_costaware.models import ConditionalMeanProcess, TimeVaryingGP
from ax_costaware.queries.conditionals import GaussianConditional

torch.manual_seed(0)
X = torch.rand(8, 2, dtype=torch.double)
Y = (10 * X).sin().sum(dim=-1, keepdim=True)
Y = (Y - Y.mean()) / Y.std()
NEW = torch.tensor([[0.2, 0.8], [0.7, 0.1]], dtype=torch.double)
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
    """At a point that is believed to be bad the mean stays; its variance falls to the noise.

    It is believed to be no worse than is plausible.
    """
    model = models()[name]
    model.eval()
    with torch.no_grad():
        before = model.posterior(NEW)
        value = before.mean.reshape(-1, 2)[0].mean().item()
        for minimize, most in itertools.product((False, True), (3.0, math.inf)):
            after = after_failures(model, NEW, value, most, minimize).posterior(NEW)
            clamped = before.mean.clamp_min(value) if minimize else before.mean.clamp_max(value)
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
