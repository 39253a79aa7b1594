"""Samples of the best point within bounds on another outcome, and what is told of the bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import ks_2samp, norm
from torch import Tensor

from ax_costaware.acquisition import LatentSpace, best_latent_points, sample_optima
from ax_costaware.acquisition.conditional_entropy_search import ConditionalJointEntropySearch
from ax_costaware.acquisition.feasibility import Feasibility, OutcomeConstraint
from ax_costaware.acquisition.latent_samples import joint_draws
from ax_costaware.laws import GaussianConditional
from ax_costaware.models import ConditionalMeanProcess
from tests.acquisition.indirect_models import line_model, posterior_of, rbf

LINE = LatentSpace(torch.tensor([[0.0], [1.0]], dtype=torch.double))
X = torch.linspace(0, 1, 301, dtype=torch.double).unsqueeze(-1)


def other_model() -> ConditionalMeanProcess:
    """An outcome that grows along the line, of which little is known."""
    A = torch.tensor([[0.2], [0.6], [0.9]], dtype=torch.double)
    return ConditionalMeanProcess(
        A,
        A - 0.4,
        GaussianConditional(((1.0,),), (0.0,), (0.003,), outside="keep"),
        covar_module=rbf(0.3, 0.2, d=1),
        noise=0.01,
        outcome_transform=None,
    )


def drawn(model: ConditionalMeanProcess, points: Tensor, count: int, seed: int) -> Tensor:
    """Dense joint draws, ``m x count``."""
    joint = model.latent_posterior(points)
    values, vectors = torch.linalg.eigh(joint.covariance_matrix.detach())
    z = torch.randn(
        len(points),
        count,
        dtype=torch.double,
        generator=torch.Generator().manual_seed(seed),
    )
    root = vectors * values.clamp_min(0.0).sqrt()
    return joint.mean.detach().reshape(-1, 1) + root @ z


@pytest.mark.parametrize("finite", [False, True])
@pytest.mark.parametrize(("lower", "upper"), [(None, 0.1), (-0.3, 0.1)])
def test_samples_are_the_best_of_those_within_bounds(
    finite: bool, lower: float | None, upper: float
) -> None:
    """By dense joint draws of both outcomes, of those draws that leave room."""
    points = X[::30] if finite else X
    space = LatentSpace(LINE.bounds, candidates=points) if finite else LINE
    bound, count = OutcomeConstraint("h", lower, upper), 1500 if finite else 300
    feasibility = Feasibility([(bound, posterior_of(other_model()))])
    inputs, outputs = sample_optima(posterior_of(line_model()), space, count, 1, feasibility)
    f, h = drawn(line_model(), points, 1500, 5), drawn(other_model(), points, 1500, 6)
    is_within = (h >= bound.ends[0]) & (h <= upper)
    has_room = is_within.any(dim=0)
    assert float(has_room.double().mean()) > 0.95
    heights, rows = f.masked_fill(~is_within, -torch.inf)[:, has_room].max(dim=0)
    there = outputs[outputs > float(heights.min()) - 0.1]
    assert len(there) > 0.93 * count
    assert ks_2samp(there.numpy(), heights.numpy()).pvalue > 0.01
    assert ks_2samp(inputs.flatten().numpy(), points[rows].flatten().numpy()).pvalue > 0.01


def test_draws_at_many_points_are_smooth_and_of_the_right_size() -> None:
    """Their covariance is singular in digits of a computer."""
    posterior = posterior_of(line_model())
    draws = joint_draws(posterior, Feasibility([]), X, 400, 0).detach()
    assert float(draws.diff(dim=0).abs().max()) < 0.1
    _, variance = posterior.latent(X)
    assert torch.allclose(draws.var(dim=-1), variance.detach(), rtol=0.35, atol=1e-4)


def test_the_best_of_another_function() -> None:
    def function(points: Tensor) -> Tensor:
        return -(points[..., 0] - 0.4).square()

    for space in (LINE, LatentSpace(LINE.bounds, candidates=X)):
        posterior = posterior_of(line_model())
        found, mean, _ = best_latent_points(posterior, space, function=function)
        assert float(found[0, 0]) == pytest.approx(0.4, abs=2e-3)
        with torch.no_grad():
            assert torch.allclose(mean, posterior.latent.mean(found))


@pytest.mark.parametrize("bounds", [(None, 0.1), (0.0, None), (-0.2, 0.3)])
def test_the_information_of_a_bound(bounds: tuple[float | None, float | None]) -> None:
    """The entropy of the answer less that given ``h <= b``, by quadrature; a sum over two sides."""
    model, constraint = other_model(), OutcomeConstraint("h", *bounds, fit=other_model)
    lower, upper = constraint.ends
    points = torch.tensor([[0.1], [0.5], [0.8]], dtype=torch.double)
    queries = torch.tensor([[0.3], [0.75]], dtype=torch.double)
    posterior = posterior_of(model)
    mean, variance = (m.detach().numpy() for m in posterior.latent(points))
    _, own, covariance = (
        m.detach().numpy()
        for m in posterior.joint_with(posterior.latent.functionals(points))(queries)
    )
    noise = posterior.noise_at(queries).detach().numpy()

    def information(gamma: float, rho: float) -> float:
        total = norm.cdf(gamma)

        def entropy(z: float) -> float:
            density = norm.pdf(z) * norm.cdf((gamma - rho * z) / math.sqrt(1 - rho**2)) / total
            return float(-density * math.log(density)) if density > 0 else 0.0

        return 0.5 * math.log(2 * math.pi * math.e) - float(quad(entropy, -12, 12, limit=200)[0])

    rho = covariance / np.sqrt(np.outer(own + noise, variance))
    optima = line_model(), points, torch.ones(len(points)).double()
    bounded = ConditionalJointEntropySearch(*optima, constraints=[constraint])
    with torch.no_grad():
        free = ConditionalJointEntropySearch(*optima)(queries.unsqueeze(-2))
        found = bounded(queries.unsqueeze(-2)) - free
    for i, value in enumerate(found.tolist()):
        each = [
            sum(
                information(float(side) / math.sqrt(variance[s]), abs(float(rho[i, s])))
                for side in (upper - mean[s], mean[s] - lower)
                if math.isfinite(side)
            )
            for s in range(len(points))
        ]
        assert value == pytest.approx(np.mean(each), abs=2e-3)
    A = queries.unsqueeze(-2).requires_grad_(True)
    assert torch.autograd.gradcheck(bounded, A, atol=1e-4)
