"""Entropy search over queries against dense linear algebra, integrals and exact information."""

from __future__ import annotations

import math
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models.gp_regression import SingleTaskGP
from botorch.models.model_list_gp_regression import ModelListGP
from botorch.models.transforms.outcome import Standardize
from botorch.optim.optimize import optimize_acqf, optimize_acqf_discrete
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
from ax_costaware.exceptions import InputError, UnsupportedInputError
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
NEGATIVE = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.double))
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


def information_of_two_arms(model: ConditionalMeanProcess, policy: Tensor) -> float:
    """I(z; x*, f*) for two arms by integration of the joint density, no formula of ours."""
    X = torch.tensor([[0.0], [0.8]], dtype=torch.double)
    joint = model.latent_posterior(X)
    mean = joint.mean.flatten().detach().numpy()
    covariance = joint.covariance_matrix.detach().numpy()
    noise = float(model.likelihood.noise.detach().mean())
    weights = np.array(model.conditional.policies)[int(policy)]  # type: ignore[attr-defined]
    g_mean, g_variance = weights @ mean, weights @ covariance @ weights
    z = np.linspace(-7, 7, 301) * math.sqrt(g_variance + noise) + g_mean
    expected = 0.0
    for best, other in ((0, 1), (1, 0)):
        sd = math.sqrt(covariance[best, best])
        y = np.linspace(mean[best] - 6 * sd, mean[best] + 6 * sd, 101)
        slope = covariance[best, other] / covariance[best, best]
        rest = math.sqrt(covariance[other, other] - slope * covariance[best, other])
        values = np.zeros_like(y)
        for k, height in enumerate(y):
            centre = mean[other] + slope * (height - mean[best])
            low = min(centre, height) - 9 * rest
            below = np.linspace(low, height, 301)
            density = norm.pdf(below, centre, rest)
            answer = weights[best] * height + weights[other] * below
            joint_z = norm.pdf(z[:, None], answer, math.sqrt(noise)) * density
            unnormalised = np.trapezoid(joint_z, below, axis=1)
            mass = np.trapezoid(unnormalised, z)
            if mass > 1e-12:
                values[k] = mass * entropy(unnormalised / mass, z)
        expected += float(np.trapezoid(norm.pdf(y, mean[best], sd) * values, y))
    return 0.5 * math.log(2 * math.pi * math.e * (g_variance + noise)) - expected


def test_truncated_is_exact_for_two_arms() -> None:
    """There ``g <= f*`` says that the other arm is worse, and nothing else remains to be told."""
    model = arms_model()
    X = torch.tensor([[0.0], [0.8]], dtype=torch.double)
    space = LatentSpace(torch.tensor([[0.0], [1.0]], dtype=torch.double), candidates=X)
    inputs, outputs = sample_optima(posterior_of(model), space, 20000, seed=1)
    A = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.double)
    value = made("truncated", model, inputs, outputs)(A.unsqueeze(1)).detach()
    joint = made("joint", model, inputs, outputs)(A.unsqueeze(1)).detach()
    for i, policy in enumerate(A):
        assert float(value[i]) == pytest.approx(information_of_two_arms(model, policy), rel=0.005)
    assert bool((joint < value).all())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("learned", [False, True])
def test_gradients(name: str, learned: bool) -> None:
    model = indirect_model(learned=learned)
    inputs, outputs = samples()
    cost = AffineCost({0: 2.0}, fixed=1.0)
    function = made(name, model, inputs, outputs - outputs.mean() + 0.5, cost=cost)
    assert torch.autograd.gradcheck(function, (queries(4).requires_grad_(),), atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("batch_shape", [(), (3,), (2, 3)])
def test_shapes(name: str, batch_shape: tuple[int, ...]) -> None:
    function = made(name, indirect_model(), *samples())
    A = torch.rand(*batch_shape, 1, 2, dtype=torch.double)
    values = function(A)
    assert values.shape == (batch_shape or (1,))
    assert bool(torch.isfinite(values).all())
    alone = torch.stack([function(row) for row in A.reshape(-1, 1, 2)]).reshape(values.shape)
    assert torch.allclose(values, alone, rtol=1e-9)
    with pytest.raises(AssertionError, match="q=1"):
        function(torch.rand(3, 2, 2, dtype=torch.double))


@pytest.mark.parametrize("name", NAMES)
def test_the_best_query_of_a_box(name: str) -> None:
    model = indirect_model()
    function = made(name, model, *samples())
    sides = torch.linspace(0, 1, 61, dtype=torch.double)
    with torch.no_grad():
        highest = function(torch.cartesian_prod(sides, sides).unsqueeze(1)).max()
    torch.manual_seed(0)
    query, value = optimize_acqf(function, QUERY_BOUNDS, q=1, num_restarts=4, raw_samples=256)
    assert query.shape == (1, 2)
    assert value is not None
    assert float(value) >= float(highest) * (1 - 1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_the_best_of_some_queries(name: str) -> None:
    model = arms_model()
    X = torch.tensor([[0.0], [0.8]], dtype=torch.double)
    space = LatentSpace(torch.tensor([[0.0], [1.0]], dtype=torch.double), candidates=X)
    function = made(name, model, *sample_optima(posterior_of(model), space, 64))
    choices = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.double)
    query, value = optimize_acqf_discrete(function, q=1, choices=choices)
    values = function(choices.unsqueeze(1)).detach()
    assert int(query.squeeze()) == int(values.argmax())
    assert float(value) == pytest.approx(float(values.max()))


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
def test_a_batch_by_sequential_optimisation(name: str) -> None:
    function = made(name, indirect_model(), *samples())
    torch.manual_seed(0)
    batch, _ = optimize_acqf(
        function, QUERY_BOUNDS, q=2, num_restarts=2, raw_samples=64, sequential=True
    )
    assert batch.shape == (2, 2)
    assert float(torch.pdist(batch)) > 0.01
    assert function.X_pending is None


@pytest.mark.parametrize("name", NAMES)
def test_minimising_is_maximising_the_negative(name: str) -> None:
    A, drawn = queries(), samples()
    expected = made(name, indirect_model(), *drawn)(A)
    value = made(name, indirect_model(sign=-1.0), *drawn, posterior_transform=NEGATIVE)(A)
    assert torch.allclose(value, expected, rtol=1e-8)
    in_a_list = ModelListGP(indirect_model())
    assert torch.allclose(made(name, in_a_list, *drawn)(A), expected)


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


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("learned", [False, True])
def test_it_can_be_pickled_with_its_model(name: str, learned: bool) -> None:
    model, A = indirect_model(learned=learned), queries()
    drawn = sample_optima(posterior_of(model), SPACE, 6, seed=1)
    function = made(name, model, *drawn, cost=2.0)
    copy = pickle.loads(pickle.dumps(function))
    torch.testing.assert_close(copy(A), function(A), rtol=0, atol=0)


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"latent_max_samples": 1.0}, "latent_max_samples: got 1.0"),
        ({"latent_max_samples": torch.zeros(0)}, r"latent_max_samples: got shape \(0,\)"),
        ({"latent_max_samples": torch.zeros(2, 1)}, r"latent_max_samples: got shape \(2, 1\)"),
        ({"latent_max_samples": torch.tensor([math.nan])}, "latent_max_samples"),
        ({"cost": 0.0}, "cost=0.0"),
        ({"cost": "free"}, "cost='free'"),
        ({"X_pending": torch.zeros(2)}, r"X_pending: got \(2,\)"),
    ],
)
def test_bad_arguments_of_max_value(options: dict[str, Any], message: str) -> None:
    arguments = {"latent_max_samples": torch.zeros(3).double(), **options}
    with pytest.raises(InputError, match=message):
        ConditionalMaxValueEntropySearch(indirect_model(), **arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"optimal_inputs": torch.zeros(2, 2)},
            r"optimal_inputs: got shape \(2, 2\); expected 3 x",
        ),
        ({"optimal_inputs": torch.zeros(3)}, r"optimal_inputs: got shape \(3,\)"),
        ({"optimal_inputs": torch.full((3, 2), math.inf)}, "optimal_inputs"),
        ({"optimal_inputs": None}, "optimal_inputs: got None"),
        ({"optimal_outputs": torch.zeros(3, 1)}, "optimal_outputs: got shape"),
        ({"optimal_inputs": torch.zeros(3, 5).double()}, "expected points of 2 columns"),
        ({"cost": math.nan}, "cost=nan"),
    ],
)
def test_bad_arguments_of_joint(options: dict[str, Any], message: str) -> None:
    arguments = {
        "optimal_inputs": torch.zeros(3, 2).double(),
        "optimal_outputs": torch.zeros(3).double(),
        **options,
    }
    with pytest.raises(InputError, match=message):
        ConditionalJointEntropySearch(indirect_model(), **arguments)


def test_another_model() -> None:
    X = torch.rand(4, 2, dtype=torch.double)
    with pytest.raises(UnsupportedInputError, match="model: got a SingleTaskGP"):
        ConditionalMaxValueEntropySearch(SingleTaskGP(X, X[:, :1]), torch.zeros(1).double())


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
