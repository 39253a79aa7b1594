"""The cached posterior of averages, and its sample paths, against the model's own posterior."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models.transforms.input import Normalize
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor

from ax_costaware.laws import (
    Conditional,
    FiniteConditional,
    GaussianConditional,
    LearnedConditional,
)
from ax_costaware.models import ConditionalMeanProcess, ExactPosterior, LatentPaths


def rbf() -> Kernel:
    kernel = ScaleKernel(RBFKernel(ard_num_dims=2)).double()
    kernel.base_kernel.lengthscale = torch.tensor([0.3, 0.5], dtype=torch.double)
    kernel.outputscale = torch.tensor(1.5, dtype=torch.double)
    return kernel


def matern() -> Kernel:
    return MaternKernel(ard_num_dims=2).double()


def gaussian() -> GaussianConditional:
    return GaussianConditional(((1.0, 0.1), (0.0, 1.0)), (0.0, 0.1), (0.01, 0.04), outside="keep")


def dependent() -> GaussianConditional:
    return dataclasses.replace(gaussian(), covariance=((0.01, 0.015), (0.015, 0.04)))


def learned() -> LearnedConditional:
    generator = torch.Generator().manual_seed(1)
    A = torch.rand(40, 2, dtype=torch.double, generator=generator)
    X = A + 0.1 * torch.randn(40, 2, dtype=torch.double, generator=generator)
    return LearnedConditional(X, A, lengthscale=1.0, regularization=1e-3)


def arms() -> FiniteConditional:
    return FiniteConditional(((0.7, 0.2, 0.1), (0.1, 0.1, 0.8)), points=((0, 0), (1, 0), (0, 1)))


def model_of(
    conditional: Conditional, kernel: Kernel, noise: float | None = 0.05
) -> ConditionalMeanProcess:
    generator = torch.Generator().manual_seed(2)
    A = torch.rand(8, 2, dtype=torch.double, generator=generator)
    if conditional.num_query_columns == 1:
        A = torch.tensor([[0.0], [1.0], [1.0]], dtype=torch.double)
    z = 3 + torch.randn(len(A), 1, dtype=torch.double, generator=generator)
    return ConditionalMeanProcess(
        A,
        z,
        conditional,
        covar_module=kernel,
        noise=noise,
        latent_transform=Normalize(2, bounds=torch.tensor([[-1.0, -1.0], [2.0, 2.0]]).double()),
    )


def queries_of(conditional: Conditional) -> Tensor:
    if conditional.num_query_columns == 1:
        return torch.tensor([[1.0], [0.0], [1.0]], dtype=torch.double)
    return torch.rand(3, 2, dtype=torch.double, generator=torch.Generator().manual_seed(4))


def published() -> LearnedConditional:
    return dataclasses.replace(learned(), sampling_error=False)


def joint_with(
    posterior: ExactPosterior, X: Tensor
) -> Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]:
    return posterior.joint_with(posterior.latent.functionals(X))


@pytest.mark.parametrize("make", [gaussian, dependent, learned, published, arms])
@pytest.mark.parametrize("kernel", [rbf, matern])
@pytest.mark.parametrize("minimize", [True, False])
def test_it_is_the_posterior_of_the_model(
    make: Callable[[], Conditional], kernel: Callable[[], Kernel], minimize: bool
) -> None:
    conditional = make()
    model = model_of(conditional, kernel())
    transform = None
    if minimize:
        transform = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.double))
    posterior = ExactPosterior.of(model, transform)
    A = queries_of(conditional)
    X = torch.rand(4, 2, dtype=torch.double, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        rows = model.average_kernel
        both = torch.cat([rows.query_rows(A), rows.point_rows(X)])
        expected = model.posterior(both, posterior_transform=transform)
        covariance = expected.distribution.covariance_matrix
        mean, variance = posterior(A.unsqueeze(1))
        assert mean.shape == variance.shape == (3, 1)
        at, spread = posterior.latent(X)
        close = {"rtol": 0.0, "atol": 1e-8}
        torch.testing.assert_close(mean, expected.mean[:3], **close)
        torch.testing.assert_close(variance.squeeze(-1), covariance.diagonal()[:3], **close)
        torch.testing.assert_close(at, expected.mean[3:, 0], **close)
        torch.testing.assert_close(spread, covariance.diagonal()[3:], **close)
        torch.testing.assert_close(joint_with(posterior, X)(A)[2], covariance[:3, 3:], **close)
        torch.testing.assert_close(posterior.latent.joint(X)[1], covariance[3:, 3:], **close)
        torch.testing.assert_close(posterior.joint(A)[1], covariance[:3, :3], **close)


@pytest.mark.parametrize("make", [gaussian, learned])
def test_moments_have_gradients(make: Callable[[], Conditional]) -> None:
    posterior = ExactPosterior.of(model_of(make(), rbf()))
    A = queries_of(make()).requires_grad_(True)
    X = torch.rand(2, 2, dtype=torch.double)
    assert torch.autograd.gradcheck(lambda a: posterior(a), (A,))
    assert torch.autograd.gradcheck(lambda a: joint_with(posterior, X)(a)[2], (A,))
    assert torch.autograd.gradcheck(
        lambda x: posterior.latent(x), (X.clone().requires_grad_(True),)
    )


def test_pending_queries_are_fantasized_at_their_mean() -> None:
    model = model_of(gaussian(), rbf())
    pending = torch.tensor([[0.5, 0.5], [0.1, 0.9]], dtype=torch.double)
    posterior = ExactPosterior.of(model, X_pending=pending)
    with torch.no_grad():
        fantasized = model.condition_on_observations(pending, model.posterior(pending).mean)
        A = queries_of(gaussian())
        mean, variance = posterior(A)
        expected = fantasized.posterior(A)
        torch.testing.assert_close(mean, expected.mean.squeeze(-1), rtol=0, atol=1e-7)
        torch.testing.assert_close(variance, expected.variance.squeeze(-1), rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    ("make", "kernel"),
    [(gaussian, rbf), (gaussian, matern), (dependent, rbf), (learned, matern), (arms, rbf)],
)
def test_paths_have_the_moments_of_the_posterior(
    make: Callable[[], Conditional], kernel: Callable[[], Kernel]
) -> None:
    posterior = ExactPosterior.of(model_of(make(), kernel()))
    X = torch.rand(6, 2, dtype=torch.double, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        paths = LatentPaths(posterior, 20_000, seed=0)
        values = paths(X)
        mean, variance = posterior.latent(X)
        covariance = posterior.latent.joint(X)[1]
    assert values.shape == (20_000, 6)
    scale = float(variance.max().sqrt())
    torch.testing.assert_close(values.mean(dim=0), mean, rtol=0, atol=0.04 * scale)
    torch.testing.assert_close(values.T.cov(), covariance, rtol=0, atol=0.08 * scale**2)
    each = X.expand(20_000, 6, 2)[:10]
    some = LatentPaths(posterior, 10, seed=3)
    torch.testing.assert_close(some(each), some(X))


def test_paths_follow_their_seed_and_leave_the_global_one() -> None:
    posterior = ExactPosterior.of(model_of(gaussian(), rbf()))
    X = torch.rand(3, 2, dtype=torch.double)
    state = torch.get_rng_state()
    first, again, other = (LatentPaths(posterior, 4, seed=seed)(X) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    x = X.clone().requires_grad_(True)
    paths = LatentPaths(posterior, 4, seed=1)
    assert torch.autograd.gradcheck(paths, (x,))


def test_noise_is_that_of_the_query_everywhere() -> None:
    """In what is conditioned on, what is pending, what is predicted and what is fantasised."""
    A = torch.rand(5, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    z = 3 * A[:, :1] - A[:, 1:]
    model = ConditionalMeanProcess(A, z, gaussian(), noise=lambda queries: queries[:, 0] + 0.1)
    new = torch.tensor([[0.2, 0.5], [0.9, 0.1]], dtype=torch.double)
    variances = torch.tensor([0.3, 1.0], dtype=torch.double)
    latent = variances / model.outcome_transform.stdvs.square().squeeze()
    with torch.no_grad():
        added = (
            model.posterior(new, observation_noise=True).variance - model.posterior(new).variance
        )
        torch.testing.assert_close(added.squeeze(-1), variances)
        conditioned = model.condition_on_observations(new, torch.ones(2, 1, dtype=torch.double))
        torch.testing.assert_close(conditioned.likelihood.noise[..., -2:].squeeze(), latent)
        fantasy = model.fantasize(new.unsqueeze(0), SobolQMCNormalSampler(torch.Size([3])))
        torch.testing.assert_close(fantasy.likelihood.noise[..., -2:].squeeze(), latent)
    pending = ExactPosterior.of(model, X_pending=new)
    torch.testing.assert_close(pending.factor.noise[-2:], latent)
    doubled = ScalarizedPosteriorTransform(torch.tensor([-2.0], dtype=torch.double))
    posterior = ExactPosterior.of(model, doubled)
    torch.testing.assert_close(posterior.noise_at(new), 4 * variances)
