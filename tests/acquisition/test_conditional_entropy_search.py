"""Entropy search over queries against dense linear algebra, integrals and exact information."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.models.transforms.outcome import Standardize
from numpy.typing import NDArray
from scipy.special import log_ndtr
from scipy.stats import norm
from torch import Tensor

from ax_costaware.acquisition import (
    ConditionalJointEntropySearch,
    ConditionalMaxValueEntropySearch,
    LatentSpace,
    sample_optima,
)
from ax_costaware.acquisition.conditional_entropy_search import ConditionalEntropySearch
from ax_costaware.costs import AffineCost
from ax_costaware.laws import GaussianConditional, register_conditional_mean
from ax_costaware.models import ConditionalMeanProcess
from tests.acquisition.indirect_models import (
    BOUNDS,
    QUERY_BOUNDS,
    arms_model,
    indirect_model,
    posterior_of,
)

NAMES = ("max value", "noise aware", "joint", "truncated")
SPACE = LatentSpace(BOUNDS)
Array = NDArray[np.float64]


def made(
    name: str, model: ConditionalMeanProcess, inputs: Tensor, outputs: Tensor, **options: Any
) -> ConditionalEntropySearch:
    if name in ("max value", "noise aware"):
        aware = name == "noise aware"
        return ConditionalMaxValueEntropySearch(model, outputs, noise_aware=aware, **options)
    truncate = name == "truncated"
    return ConditionalJointEntropySearch(model, inputs, outputs, truncate=truncate, **options)


def samples() -> tuple[Tensor, Tensor]:
    return sample_optima(posterior_of(indirect_model()), SPACE, 6, seed=1)


def queries(n: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.rand(n, 1, 2, dtype=torch.double, generator=generator)


def dense_moments(
    model: ConditionalMeanProcess, A: Tensor, X: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """By the model's own joint posterior: of averages, of the function, and between them."""
    kernel = model.average_kernel
    joint = model.posterior(torch.cat([kernel.query_rows(A), kernel.point_rows(X)]))
    mean, covariance = joint.mean.flatten().detach(), joint.covariance_matrix.detach()
    n = len(A)
    transform = model.outcome_transform
    assert isinstance(transform, Standardize)
    return (
        mean[:n],
        covariance.diagonal()[:n],
        mean[n:],
        covariance.diagonal()[n:],
        covariance[:n, n:],
        model.likelihood.noise.detach().mean() * transform.stdvs.square().squeeze(),
    )


def entropy(density: Array, z: Array) -> float:
    return float(-np.trapezoid(density * np.log(np.maximum(density, 1e-300)), z))


def entropy_below(mean: float, variance: float, bound: float, noise: float) -> float:
    """Entropy of g + e, given g <= bound, from its density on a grid."""
    spread = math.sqrt(variance + noise)
    z = np.linspace(mean - 12 * spread, mean + 12 * spread, 20001)
    share = variance / (variance + noise)
    below = (bound - mean - share * (z - mean)) / math.sqrt(variance * (1 - share))
    log_cdf = float(log_ndtr((bound - mean) / math.sqrt(variance)))
    density = np.exp(norm.logpdf(z, mean, spread) + log_ndtr(below) - log_cdf)
    return entropy(density, z)


@pytest.mark.parametrize("learned", [False, True])
def test_max_value_is_the_information_of_the_bound(learned: bool) -> None:
    model = indirect_model(learned=learned)
    inputs, outputs = sample_optima(posterior_of(model), SPACE, 4)
    outputs = outputs - outputs.mean() + 0.3  # so that the bound says something
    A = queries()
    mean, variance, *_, noise = dense_moments(model, A.squeeze(1), inputs)
    value = made("noise aware", model, inputs, outputs)(A).detach()
    plain = made("max value", model, inputs, outputs)(A).detach()
    for i in range(len(A)):
        m, v, s2 = float(mean[i]), float(variance[i]), float(noise)
        free = 0.5 * math.log(2 * math.pi * math.e * (v + s2))
        told = [free - entropy_below(m, v, float(f), s2) for f in outputs]
        assert float(value[i]) == pytest.approx(np.mean(told), rel=1e-5, abs=1e-8)
        # Equation 7 of the paper.
        gamma = (outputs.numpy() - m) / math.sqrt(v)
        cdf = norm.cdf(gamma)
        expected = gamma * norm.pdf(gamma) / (2 * cdf) - np.log(cdf)
        assert float(plain[i]) == pytest.approx(expected.mean(), rel=1e-6, abs=1e-10)
    assert bool((value <= plain).all())
    assert float(value.max()) > 1e-3


@pytest.mark.parametrize("learned", [False, True])
def test_joint_is_the_information_of_the_value_at_the_point(learned: bool) -> None:
    model = indirect_model(learned=learned)
    inputs, outputs = sample_optima(posterior_of(model), SPACE, 4)
    A = queries()
    mean, variance, at, spread, cross, noise = dense_moments(model, A.squeeze(1), inputs)
    total = (variance + noise).unsqueeze(-1)
    remaining = variance.unsqueeze(-1) - cross.square() / spread
    expected = 0.5 * (total.log() - (remaining + noise).log())
    value = made("joint", model, inputs, outputs)(A).detach()
    assert torch.allclose(value, expected.mean(dim=-1), rtol=1e-6, atol=1e-10)
    outputs = mean.mean() + torch.tensor([-0.3, 0.1, 0.5, 1.0]).double()
    truncated = made("truncated", model, inputs, outputs)(A).detach()
    shifted = mean.unsqueeze(-1) + cross / spread * (outputs - at)
    for i in range(len(A)):
        told = [
            0.5 * math.log(2 * math.pi * math.e * float(total[i]))
            - entropy_below(
                float(shifted[i, s]), float(remaining[i, s]), float(outputs[s]), float(noise)
            )
            for s in range(4)
        ]
        assert float(truncated[i]) == pytest.approx(np.mean(told), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_information_per_cost(name: str) -> None:
    model, drawn, A = indirect_model(), samples(), queries()
    plain = made(name, model, *drawn)(A)
    assert torch.allclose(made(name, model, *drawn, cost=2.5)(A), plain / 2.5)
    known = AffineCost({0: 3.0}, fixed=1.0)
    assert torch.allclose(made(name, model, *drawn, cost=known)(A), plain / known(A.squeeze(1)))


@pytest.mark.parametrize("name", NAMES)
def test_pending_queries_are_fantasized_at_their_mean(name: str) -> None:
    model, drawn, A = indirect_model(), samples(), queries()
    pending = torch.tensor([[0.3, 0.6], [0.8, 0.2]], dtype=torch.double)
    fantasized = made(name, model, *drawn, X_pending=pending)(A)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.posterior(A.squeeze(1))  # caches that conditioning needs
        mean = model.posterior(pending).mean.detach()
        conditioned = model.condition_on_observations(pending, mean)
    fantasy = made(name, conditioned, *drawn)(A)
    assert torch.allclose(fantasized, fantasy, rtol=1e-5, atol=1e-8)
    assert not torch.allclose(fantasized, made(name, model, *drawn)(A), rtol=1e-3)
    # A query under evaluation tells little more when it is asked again.
    joint = made("joint", model, *drawn)
    before = float(joint(pending[:1].unsqueeze(0)).detach())
    joint.set_X_pending(pending[:1])
    assert float(joint(pending[:1].unsqueeze(0)).detach()) < 0.6 * before
    joint.set_X_pending(None)
    assert float(joint(pending[:1].unsqueeze(0)).detach()) == pytest.approx(before)


@pytest.mark.parametrize("name", NAMES)
def test_input_constructors(name: str) -> None:
    model, (inputs, outputs), A = indirect_model(), samples(), queries()
    function = made(name, model, inputs, outputs, cost=2.0)
    arguments: dict[str, Any] = {"optimal_inputs": inputs, "optimal_outputs": outputs}
    arguments["truncate"] = name == "truncated"
    if isinstance(function, ConditionalMaxValueEntropySearch):
        arguments = {"latent_max_samples": outputs, "noise_aware": name == "noise aware"}
    construct = get_acqf_input_constructor(type(function))
    again = type(function)(**construct(model=model, cost=2.0, **arguments))
    assert torch.equal(again(A), function(A))


def test_a_sure_answer_is_finite() -> None:
    """A query that plays one arm without noise tells its value, and has finite gradients."""
    model = arms_model()
    model.likelihood.noise = torch.tensor(1e-6, dtype=torch.double)
    inputs = torch.tensor([[0.0]], dtype=torch.double)
    for name in NAMES:
        function = made(name, model, inputs, torch.tensor([-5.0]).double())
        value = function(torch.tensor([[[2.0]]], dtype=torch.double))
        assert math.isfinite(float(value.detach()))
    # As at a query of a spread so small that it is the point.
    line = indirect_model(n=3)
    line.likelihood.noise = torch.tensor(1e-6, dtype=torch.double)
    for name in NAMES:
        function = made(name, line, BOUNDS[:1], torch.tensor([-50.0]).double())
        A = torch.zeros(1, 1, 2, dtype=torch.double).requires_grad_()
        (gradient,) = torch.autograd.grad(function(A).sum(), A)
        assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("name", NAMES)
def test_averages_of_a_choice_alone_have_the_gradient_of_steps(name: str) -> None:
    """Queries take the first of two values without an order, or from one half on the other."""
    register_conditional_mean("side", lambda A: (A > 0.5).to(A))
    law = GaussianConditional.from_mean("side", 1, covariance=(0.0,))
    A = torch.linspace(0.1, 0.9, 6, dtype=torch.double).unsqueeze(-1)
    model = ConditionalMeanProcess(A, (A > 0.5).to(A), law, categorical=[0], noise=0.1)
    space = LatentSpace(QUERY_BOUNDS[:, :1], choices={0: [0.0, 1.0]})
    acquisition = made(name, model, *sample_optima(posterior_of(model), space, 6, seed=1))
    X = A.unsqueeze(-2).requires_grad_(True)
    values = acquisition(X)
    (slopes,) = torch.autograd.grad(values.sum(), X)
    assert not bool(slopes.any())
    assert len(values.unique()) == 2
