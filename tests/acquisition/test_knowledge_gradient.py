"""Knowledge gradient over evaluated points: closed form against quadrature and fantasies."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from ax_costaware.acquisition import LogKnowledgeGradientPerCost
from ax_costaware.acquisition.criteria import log_expected_gain
from ax_costaware.acquisition.knowledge_gradient import log_expected_maximum_gain
from ax_costaware.exceptions import InputError
from ax_costaware.models import FunctionalPosterior, RepeatsGP

BOUNDS = torch.tensor([[0.0, 1.0], [1.0, 9.0]], dtype=torch.double)


def lines(kind: str) -> tuple[Tensor, Tensor]:
    """Values and slopes of lines, ``5 x 8``."""
    generator = torch.Generator().manual_seed(3)
    a, b = torch.randn(2, 5, 8, generator=generator, dtype=torch.double)
    if kind == "equal values":
        a = torch.zeros_like(a)
    if kind == "equal slopes":
        b[:, :3] = b[:, 3:4]
    if kind == "equal lines":
        a[:, :3], b[:, :3] = a[:, 3:4], b[:, 3:4]
    if kind == "one point":
        a = b * 0.3
    if kind == "few steps":
        a, b = a.round(), b.round()
    return a, b


@pytest.mark.parametrize(
    "kind", ["random", "equal values", "equal slopes", "equal lines", "one point", "few steps"]
)
def test_it_is_the_expected_gain_of_the_upper_envelope(kind: str) -> None:
    a, b = lines(kind)
    z = torch.linspace(-9, 9, 200_001, dtype=torch.double)
    density = (-0.5 * z.square()).exp() / math.sqrt(2 * math.pi)
    heights = (a.unsqueeze(-1) + b.unsqueeze(-1) * z).amax(dim=-2)
    expected = torch.trapezoid(heights * density, z) - a.amax(dim=-1)
    torch.testing.assert_close(
        log_expected_maximum_gain(a, b).exp(), expected, rtol=1e-6, atol=1e-9
    )


def test_its_logarithm_has_no_underflow_and_a_gradient() -> None:
    a = torch.tensor([[0.0, -60.0, -70.0]], dtype=torch.double, requires_grad=True)
    b = torch.tensor([[0.0, 1.0, -1.0]], dtype=torch.double, requires_grad=True)
    value = log_expected_maximum_gain(a, b)
    assert -1820 < value.item() < -1800
    assert torch.autograd.gradcheck(log_expected_maximum_gain, (a / 20, b))
    same = log_expected_maximum_gain(torch.zeros(1, 3).double(), torch.ones(1, 3).double())
    assert float(same) < -1e300


def model() -> RepeatsGP:
    """A model of trials with repeats, some at the same inputs."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(12, 2, generator=generator, dtype=torch.double)
    X[6:, 0] = X[:6, 0]
    X[:, 1] = (1 + 8 * X[:, 1]).round()
    noise = torch.randn(12, generator=generator, dtype=torch.double) / X[:, 1].sqrt()
    found = RepeatsGP(X, (torch.sin(6 * X[:, 0]) + noise).unsqueeze(-1), repeats=1, bounds=BOUNDS)
    found.likelihood.noise, found.covar_module.base_kernel.lengthscale = 0.5, 0.1
    found.covar_module.outputscale = 1.0
    return found.eval()


def test_it_is_that_of_fantasies_of_the_mean_of_repeats() -> None:
    gp = model()
    X = FunctionalPosterior.of(gp).observed
    acquisition = LogKnowledgeGradientPerCost(gp, X, cost=lambda X: 2 * X[:, 1])
    for n in (1.0, 4.0):
        x = torch.tensor([[0.25, n]], dtype=torch.double)
        points, sigma = torch.cat([X, x]), gp.posterior(x, observation_noise=True).variance.sqrt()
        z = torch.linspace(-6, 6, 241, dtype=torch.double)
        y = gp.posterior(x).mean + z[:, None, None] * sigma
        conditioned = gp.condition_on_observations(x.expand(241, 1, 2), y)
        gains = (
            conditioned.posterior(points).mean.amax(dim=(-2, -1)) - gp.posterior(points).mean.max()
        )
        density = (-0.5 * z.square()).exp() / math.sqrt(2 * math.pi)
        expected = torch.trapezoid(gains * density, z)
        value = acquisition(x.unsqueeze(0)).exp() * 2 * n
        torch.testing.assert_close(value, expected.reshape(1), rtol=2e-3, atol=0.0)


def test_with_one_uncorrelated_rival_it_is_an_expected_improvement() -> None:
    gp, rival = model(), torch.tensor([[5.0, 1.0]], dtype=torch.double)  # uncorrelated
    x = torch.tensor([[[0.1, 1.0]], [[0.2, 1.0]], [[0.5, 4.0]]], dtype=torch.double)
    posterior = FunctionalPosterior.of(gp)
    knowledge = LogKnowledgeGradientPerCost(gp, rival).log_gain(x.squeeze(1))
    mean, variance = posterior(x.squeeze(1))
    best = posterior.mean(rival)
    share = variance / (variance + posterior.noise_at(x.squeeze(1)))
    expected = log_expected_gain(-(mean - best).abs(), (share * variance).sqrt())
    torch.testing.assert_close(knowledge, expected, rtol=1e-5, atol=1e-5)


def test_pending_points_are_fantasized_with_their_number_of_repeats() -> None:
    gp, x = model(), torch.tensor([[[0.4, 2.0]]], dtype=torch.double)
    X = FunctionalPosterior.of(gp).observed
    values = []
    for n in (1.0, 9.0):
        pending = torch.tensor([[0.3, n]], dtype=torch.double)
        values.append(LogKnowledgeGradientPerCost(gp, X, X_pending=pending)(x).item())
    assert values[1] < values[0] < LogKnowledgeGradientPerCost(gp, X)(x).item()


def test_a_baseline_without_a_feasible_point_is_refused() -> None:
    X = torch.rand(3, 2, dtype=torch.double)
    with pytest.raises(InputError, match="not all False"):
        LogKnowledgeGradientPerCost(model(), X, is_feasible=torch.zeros(3, dtype=torch.bool))
