"""Posterior mean and variance point by point, against the model's own posterior."""

from __future__ import annotations

import pytest
import torch
from botorch.acquisition.objective import (
    ExpectationPosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.models import ModelListGP, MultiTaskGP, SingleTaskGP
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.model import Model
from botorch.models.transforms import Normalize, Standardize
from botorch.models.transforms.input import (
    ChainedInputTransform,
    FilterFeatures,
    InputPerturbation,
    Log10,
    Round,
)
from botorch.models.utils.gpytorch_modules import get_matern_kernel_with_gamma_prior
from gpytorch import settings
from gpytorch.kernels import MaternKernel, ScaleKernel
from torch import Tensor

from ax_costaware.exceptions import UnsupportedInputError
from ax_costaware.models import FixedHyperparameterGP
from ax_costaware.models.posterior import (
    ExactPosterior,
    FunctionalPosterior,
    ModelPosterior,
    Spread,
)
from tests.saas import NUM_SAMPLES, saas_model

# Raw inputs and outcomes are what some of these models are about.
pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")

D = 3
NAMES = ["plain", "default", "fixed noise", "matern", "inputs", "log", "list"]
NEGATIVE = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.double))


def data(n: int = 12) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    X = torch.rand(n, D, dtype=torch.double) + 0.5
    return X, (3 * X).sin().sum(-1, keepdim=True) + 5


def exact_models(X: Tensor | None = None, Y: Tensor | None = None) -> dict[str, Model]:
    if X is None or Y is None:
        X, Y = data()
    plain = SingleTaskGP(X, Y, outcome_transform=None)
    return {
        "plain": plain,
        "default": SingleTaskGP(X, 1e3 * Y),
        "fixed noise": SingleTaskGP(X, Y, train_Yvar=0.01 * torch.rand_like(Y) + 1e-4),
        "matern": SingleTaskGP(X, Y, covar_module=get_matern_kernel_with_gamma_prior(D)),
        "inputs": SingleTaskGP(
            X, Y, input_transform=Normalize(D), outcome_transform=Standardize(1)
        ),
        "log": SingleTaskGP(X, Y, input_transform=Log10(indices=[1])),
        "list": ModelListGP(plain),
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("transform", [None, NEGATIVE])
def test_factored_posterior_is_the_models(
    name: str, transform: ScalarizedPosteriorTransform | None
) -> None:
    model = exact_models()[name]
    points = torch.rand(4, 2, D, dtype=torch.double) + 0.4
    found = FunctionalPosterior.of(model, transform)
    assert isinstance(found, ExactPosterior)
    mean, variance = found(points)
    posterior = model.posterior(points.unsqueeze(-2), posterior_transform=transform)
    assert mean.shape == variance.shape == (4, 2)
    assert torch.allclose(mean, posterior.mean.reshape(4, 2), rtol=1e-8)  # type: ignore[attr-defined]
    assert torch.allclose(variance, posterior.variance.reshape(4, 2), rtol=1e-5)  # type: ignore[attr-defined]
    assert torch.allclose(found.mean(points), mean)


def test_gradients_against_differences() -> None:
    found = FunctionalPosterior.of(exact_models()["inputs"])
    points = (torch.rand(3, D, dtype=torch.double) + 0.5).requires_grad_()
    assert torch.autograd.gradcheck(found, (points,))


def test_variance_at_noise_free_data_stays_positive_with_a_finite_gradient() -> None:
    X, Y = data()
    with settings.min_fixed_noise(double_value=1e-14):
        found = FunctionalPosterior.of(SingleTaskGP(X, Y, train_Yvar=torch.full_like(Y, 1e-13)))
    points = X.clone().requires_grad_()
    _, variance = found(points)
    (gradient,) = torch.autograd.grad(variance.sqrt().sum(), points)
    assert bool((variance > 0).all())
    assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("name", ["default", "fixed noise", "inputs", "list"])
def test_pending_points_are_fantasized_at_their_mean(name: str) -> None:
    """The mean stays, and the variance is that of a model which was conditioned on them."""
    model = exact_models()[name]
    pending = torch.rand(2, D, dtype=torch.double) + 0.5
    points = torch.rand(5, D, dtype=torch.double) + 0.5
    mean, variance = FunctionalPosterior.of(model)(points)
    fantasized_mean, fantasized_variance = FunctionalPosterior.of(model, X_pending=pending)(points)
    assert torch.allclose(fantasized_mean, mean, rtol=1e-8)
    assert bool((fantasized_variance < variance).all())
    # The same by BoTorch's own conditioning, for a model that has no factor of ours.
    assert isinstance(model, SingleTaskGP | ModelListGP)
    two = ModelListGP(*(model.models if isinstance(model, ModelListGP) else [model]), _other())
    first = ScalarizedPosteriorTransform(torch.tensor([1.0, 0.0], dtype=torch.double))
    conditioned = FunctionalPosterior.of(two, first, X_pending=pending)
    assert isinstance(conditioned, ModelPosterior)
    by_botorch_mean, by_botorch_variance = conditioned(points)
    assert torch.allclose(fantasized_mean, by_botorch_mean, rtol=1e-6)
    assert torch.allclose(fantasized_variance, by_botorch_variance, rtol=1e-4)


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
def test_each_sample_of_a_fully_bayesian_model_fantasizes_its_own_mean(
    monkeypatch: pytest.MonkeyPatch, listed: bool, is_known: bool
) -> None:
    X, Y = data()
    Y = 1e3 * Y
    noise = 0.01 * Y.var().expand_as(Y) if is_known else None
    ensemble = saas_model(monkeypatch, X, Y, noise)
    model = ModelListGP(ensemble) if listed else ensemble
    pending = torch.rand(2, D, dtype=torch.double) + 0.5
    points = torch.rand(5, D, dtype=torch.double) + 0.5
    mean, variance = FunctionalPosterior.of(model, X_pending=pending)(points)
    before, _ = FunctionalPosterior.of(ensemble)(points)
    assert mean.shape == variance.shape == (5, NUM_SAMPLES)
    torch.testing.assert_close(mean, before)
    for i in range(NUM_SAMPLES):
        # The model of one sample, as an exact one of the same hyperparameters.
        kernel = ensemble.covar_module
        single = SingleTaskGP(
            X,
            Y,
            noise,
            covar_module=ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=D)),
            input_transform=Normalize(D),
            outcome_transform=Standardize(1),
        )
        single.covar_module.outputscale = kernel.outputscale[i]
        single.covar_module.base_kernel.lengthscale = kernel.base_kernel.lengthscale[i]
        single.mean_module.initialize(constant=ensemble.mean_module.constant[i].squeeze())
        if noise is None:
            single.likelihood.noise = ensemble.likelihood.noise[i]
        expected = FunctionalPosterior.of(single, X_pending=pending)(points)
        torch.testing.assert_close((mean[:, i], variance[:, i]), expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", [*NAMES, "rounded", "two outcomes", "ensemble"])
@pytest.mark.parametrize("is_trained", [True, False])
def test_what_was_observed_is_not_transformed(
    monkeypatch: pytest.MonkeyPatch, name: str, is_trained: bool
) -> None:
    """Whatever the mode of the model, whose own training inputs are transformed in one of them."""
    X, Y = data()
    X[:, 0] = X[:, 0].mul(5).round()
    scaled = Normalize(D)
    models = {
        **exact_models(X, Y),
        "rounded": SingleTaskGP(
            X, Y, input_transform=ChainedInputTransform(a=Round(integer_indices=[0]), b=scaled)
        ),
        "two outcomes": SingleTaskGP(X, torch.cat([Y, Y], dim=-1), input_transform=scaled),
        "ensemble": saas_model(monkeypatch, X, Y),
    }
    model = models[name]
    if name != "ensemble":
        model.train(is_trained)
    torch.testing.assert_close(ModelPosterior(model, None).observed, X)
    found = FunctionalPosterior.of(model)
    pending = X[:2] + 1
    assert isinstance(found, ExactPosterior) == (name in [*NAMES, "rounded"])
    torch.testing.assert_close(found.observed, X)
    found = FunctionalPosterior.of(model, X_pending=pending)
    torch.testing.assert_close(found.observed, torch.cat([X, pending]))


def _other() -> SingleTaskGP:
    X, Y = data(6)
    return SingleTaskGP(X, -Y)


def test_pending_points_of_a_model_that_cannot_be_fantasised() -> None:
    model = GenericDeterministicModel(lambda X: X.sum(-1, keepdim=True))
    with pytest.raises(UnsupportedInputError, match="X_pending: got 2 pending points"):
        FunctionalPosterior.of(model, X_pending=torch.rand(2, D, dtype=torch.double))
    posterior, point = FunctionalPosterior.of(model), torch.ones(1, D, dtype=torch.double)
    assert posterior(point)[0].tolist() == posterior.mean(point).tolist() == [3.0]


def test_a_transform_may_leave_out_columns() -> None:
    X, Y = data()
    model = SingleTaskGP(X, Y, input_transform=FilterFeatures(torch.tensor([0, 2])))
    nodes, weights = torch.rand(4, 5, D, dtype=torch.double), torch.full((4, 5), 0.2).double()
    for spread in (Spread.FUNCTION, Spread.EXPECTATION):
        found = FunctionalPosterior.of(model).moments(nodes, weights, spread)
        expected = ModelPosterior(model, None).moments(nodes, weights, spread)
        torch.testing.assert_close(found, expected)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_pending_points_of_a_multi_task_model_have_their_task() -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(6, 3, dtype=torch.double, generator=generator)
    X[:, 1] = torch.tensor([0.0, 1.0]).repeat(3)
    model = MultiTaskGP(X, X[:, :1].sin(), task_feature=1, output_tasks=[1])
    points = X[:2, ::2] + 0.01
    with pytest.raises(UnsupportedInputError, match=r"X_pending: got 2 columns"):
        FunctionalPosterior.of(model, X_pending=points)
    mean, variance = FunctionalPosterior.of(model)(points)
    fantasized = FunctionalPosterior.of(model, X_pending=X[1::2])(points)
    assert torch.allclose(fantasized[0], mean)
    assert bool((fantasized[1] < variance).all())


def test_one_point_of_one_and_no_observation_at_all() -> None:
    X, Y = data()
    moves = InputPerturbation(torch.tensor([[0.0] * D, [0.1] * D]).double())
    model = SingleTaskGP(X, Y, input_transform=moves)
    with pytest.raises(UnsupportedInputError, match="makes 2 points of 1, as by its input"):
        FunctionalPosterior.of(model)(X)
    mean, _ = FunctionalPosterior.of(model, ExpectationPosteriorTransform(n_w=2))(X)
    torch.testing.assert_close(mean, model.posterior(X).mean.view(-1, 2).mean(dim=-1))
    prior = FixedHyperparameterGP(X[:0], Y[:0], mean=3.0, outputscale=2.0)
    mean, variance = FunctionalPosterior.of(prior)(X)
    assert torch.equal(mean, torch.full_like(mean, 3.0))
    torch.testing.assert_close(variance, torch.full_like(mean, 2.0))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("transform", [None, NEGATIVE])
def test_pairs_are_the_models(name: str, transform: ScalarizedPosteriorTransform | None) -> None:
    model = exact_models()[name]
    X, Z = (torch.rand(2, 5, D, dtype=torch.double) + 0.4).unbind()
    found = FunctionalPosterior.of(model, transform).pairs(X, Z)
    expected = ModelPosterior(model, transform).pairs(X, Z)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
