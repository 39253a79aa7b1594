"""The model of averages: against BoTorch's GP, closed forms and dense linear algebra."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import Normalize, Warp
from botorch.posteriors import GPyTorchPosterior
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from ax_costaware.laws import (
    Conditional,
    FiniteConditional,
    GaussianConditional,
    LearnedConditional,
    UniformBoxConditional,
)
from ax_costaware.models import AverageKernel, ConditionalMeanProcess, ExactPosterior
from tests.elsewhere import DEVICES, elsewhere

WEIGHT = ((1.5, 0.2), (-0.3, 1.0))
BIAS = (0.1, -0.2)
VARIANCES = (0.04, 0.09)


def rbf(lengthscale: tuple[float, ...] = (0.5, 0.8), outputscale: float = 1.7) -> Kernel:
    kernel = ScaleKernel(RBFKernel(ard_num_dims=len(lengthscale))).double()
    kernel.outputscale = torch.tensor(outputscale, dtype=torch.double)
    kernel.base_kernel.lengthscale = torch.tensor(lengthscale, dtype=torch.double)
    return kernel


def gaussian(**options: object) -> GaussianConditional:
    return GaussianConditional(WEIGHT, BIAS, VARIANCES, outside="keep", **options)


@pytest.fixture
def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    A = torch.rand(12, 2, dtype=torch.double, generator=generator)
    z = (3 * A[:, :1]).sin() + A[:, 1:] + 5
    return A, z


def joint_of(model: ConditionalMeanProcess, A: Tensor, X: Tensor) -> GPyTorchPosterior:
    """The joint posterior of averages and values of the function, the averages first."""
    kernel = model.average_kernel
    return model.posterior(torch.cat([kernel.query_rows(A), kernel.point_rows(X)], dim=-2))


def closed_form(left: Tensor, right: Tensor, extra: Tensor, kernel: Kernel) -> Tensor:
    """Covariances of RBF averages of normals with means left, right and summed variances extra."""
    squared = kernel.base_kernel.lengthscale.reshape(-1).square()
    total = squared + extra
    distance = (left.unsqueeze(-2) - right.unsqueeze(-3)).square() / total
    factor = (squared / total).sqrt().prod()
    return kernel.outputscale * factor * distance.sum(dim=-1).mul(-0.5).exp()


def boxes() -> UniformBoxConditional:
    return UniformBoxConditional((0.1, 0.2), outside="keep")


def arms() -> FiniteConditional:
    return FiniteConditional(((0.7, 0.2, 0.1), (0.1, 0.1, 0.8)), points=((0, 0), (1, 0), (0, 1)))


def learned() -> LearnedConditional:
    generator = torch.Generator().manual_seed(1)
    A = torch.rand(40, 2, dtype=torch.double, generator=generator)
    X = A + 0.1 * torch.randn(40, 2, dtype=torch.double, generator=generator)
    return LearnedConditional(X, A, lengthscale=1.0, regularization=1e-3)


def published() -> LearnedConditional:
    """Learned weights that are taken for exact."""
    return dataclasses.replace(learned(), sampling_error=False)


@pytest.mark.parametrize("make", [gaussian, boxes, arms, learned, published])
@pytest.mark.parametrize("kernel", [rbf, lambda: MaternKernel(ard_num_dims=2).double()])
def test_posteriors_equal_dense_linear_algebra(
    make: Callable[[], Conditional], kernel: Callable[[], Kernel]
) -> None:
    conditional, covar = make(), kernel()
    generator = torch.Generator().manual_seed(2)
    A = torch.rand(6, 2, dtype=torch.double, generator=generator)
    new = torch.rand(3, 2, dtype=torch.double, generator=generator)
    if conditional.num_query_columns == 1:
        A, new = torch.tensor([[0.0], [1.0], [1.0], [0.0]]), torch.tensor([[1.0], [0.0]])
        A, new = A.double(), new.double()
    z = torch.randn(len(A), 1, dtype=torch.double, generator=generator)
    X = torch.rand(4, 2, dtype=torch.double, generator=generator)
    variances = torch.linspace(0.01, 0.05, len(A), dtype=torch.double)
    transform = Normalize(2, bounds=torch.tensor([[-1.0, -2.0], [2.0, 1.0]]).double())
    model = ConditionalMeanProcess(
        A,
        z,
        conditional,
        covar_module=covar,
        noise=variances,
        latent_transform=transform,
        outcome_transform=None,
    )
    mean = 0.3
    prior = model.mean_module
    getattr(prior, "constant_mean", prior).constant.data.fill_(mean)

    # All nodes in one long list, and the weights as rows of a matrix.
    def functional(queries: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        column = conditional.column_rule(queries) if isinstance(covar, ScaleKernel) else None
        if column is None:
            nodes, weights = conditional.nodes_and_weights(queries)
        else:
            nodes = torch.stack([torch.cartesian_prod(*row.T) for row in column.nodes])
            weights = torch.stack([torch.cartesian_prod(*row.T).prod(-1) for row in column.weights])
        width = weights.shape[-1]
        total = len(queries) * width + len(points)
        matrix = torch.zeros(len(queries) + len(points), total, dtype=torch.double)
        for i in range(len(queries)):
            matrix[i, i * width : (i + 1) * width] = weights[i]
        for j in range(len(points)):
            matrix[len(queries) + j, len(queries) * width + j] = 1.0
        return torch.cat([nodes.reshape(-1, 2), points]), matrix

    def errors(queries: Tensor, points: Tensor) -> Tensor:
        """What each weight of a pair is wrong by, as a random number of its own."""
        matrix = torch.zeros(len(queries) + len(points), 40, dtype=torch.double)
        if isinstance(conditional, LearnedConditional) and conditional.sampling_error:
            rule = conditional.joint_rule(queries)
            K = covar(transform(rule.nodes)).to_dense()
            law = rule.weights.clamp_min(0.0)
            law = law / law.sum(dim=-1, keepdim=True)
            about = law @ K.diagonal() - (law @ K @ law.T).diagonal()
            # In the order of the pairs, not of the nodes; products do not depend on it.
            matrix[: len(queries)] = rule.weights * about.sqrt().unsqueeze(-1)
        return matrix

    Functional = tuple[tuple[Tensor, Tensor], Tensor]

    def covariance(left: Functional, right: Functional) -> Tensor:
        K = covar(transform(left[0][0]), transform(right[0][0])).to_dense()
        return left[0][1] @ K @ right[0][1].T + left[1] @ right[1].T

    data = functional(A, X[:0]), errors(A, X[:0])
    wanted = functional(new, X), errors(new, X)
    K = covariance(data, data) + torch.diag(variances)
    cross = covariance(wanted, data)
    # Equation 5: the prior mean of an average is W(a)^T m. The matrix has the weights.
    seen, asked = (mean * one[0][1].sum(dim=-1, keepdim=True) for one in (data, wanted))
    expected_mean = asked + cross @ torch.linalg.solve(K, z - seen)
    expected = covariance(wanted, wanted) - cross @ torch.linalg.solve(K, cross.T)
    joint = joint_of(model, new, X)
    torch.testing.assert_close(joint.mean, expected_mean, rtol=0, atol=1e-8)
    torch.testing.assert_close(joint.distribution.covariance_matrix, expected, rtol=0, atol=1e-8)
    exact = ExactPosterior.of(model)
    fast = torch.cat([exact(new)[0], exact.latent(X)[0]]).unsqueeze(-1)
    torch.testing.assert_close(fast, expected_mean, rtol=0, atol=1e-8)
    torch.testing.assert_close(exact.mean(new), exact(new)[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(
        model.posterior(new).variance.squeeze(-1),
        expected.diagonal()[: len(new)],
        rtol=0,
        atol=1e-8,
    )
    added = torch.full((len(new), 1), 0.02, dtype=torch.double)
    grown = model.condition_on_observations(new, z[: len(new)], noise=added)
    gain = expected[:, : len(new)] @ torch.linalg.inv(
        expected[: len(new), : len(new)] + 0.02 * torch.eye(len(new), dtype=torch.double)
    )
    after = expected_mean + gain @ (z[: len(new)] - expected_mean[: len(new)])
    torch.testing.assert_close(grown.latent_posterior(X).mean, after[len(new) :], rtol=0, atol=1e-7)


@pytest.mark.parametrize("ratio", [1.3, 2.0, 5.0, 19.0])
@pytest.mark.parametrize("clip", [False, True])
def test_wide_laws_under_short_length_scales_are_exact(ratio: float, clip: bool) -> None:
    """The same kernel, which remembers rows, is asked before and after its length-scale changes."""
    deviation = 0.3
    bounds = ((-9.0,), (9.0,)) if clip else (None, None)
    law = GaussianConditional(
        ((1.0,),), (0.0,), deviation**2, None, *bounds, outside="clip" if clip else "keep"
    )
    kernel = AverageKernel(rbf((1.0,)), law)
    A = torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1)
    rows = kernel.query_rows(A)
    kernel(rows).to_dense()
    covar = rbf((deviation / ratio,))
    kernel.base_kernel.load_state_dict(covar.state_dict())
    extra = torch.tensor([2 * deviation**2], dtype=torch.double)
    expected = closed_form(A, A, extra, covar)
    torch.testing.assert_close(kernel(rows).to_dense(), expected, rtol=1e-6, atol=0)
    points = kernel.point_rows(A)
    expected = closed_form(A, A, extra / 2, covar)
    torch.testing.assert_close(kernel(rows, points).to_dense(), expected, rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(
        kernel(rows, diag=True), closed_form(A, A, extra, covar).diagonal(), rtol=1e-6, atol=0
    )


def test_what_was_asked_in_inference_mode_does_not_stay(data: tuple[Tensor, Tensor]) -> None:
    model = ConditionalMeanProcess(*data, gaussian())
    model.eval()
    with torch.inference_mode():
        before = model.posterior(data[0]).mean
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    assert not torch.equal(model.posterior(data[0]).mean, before)


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("law", [gaussian(), UniformBoxConditional((0.1, 0.2), outside="keep")])
def test_a_model_that_was_looked_at_moves_to_a_device(
    data: tuple[Tensor, Tensor], law: Conditional, name: str
) -> None:
    model = ConditionalMeanProcess(*data, law)
    with torch.no_grad():
        expected = model.posterior(data[0]).mean
        with elsewhere(name) as device:
            X, y = (given.to(device) for given in (model.train_inputs[0], model.train_targets))
            model.to(device).set_train_data(X, y, strict=False)
            found = model.posterior(data[0].to(device)).mean.cpu()
    torch.testing.assert_close(found, expected)


def test_a_target_transform_that_was_looked_at_is_fitted_and_loaded_all_the_same(
    data: tuple[Tensor, Tensor],
) -> None:
    bounds = torch.tensor([[-2.0, -2.0], [4.0, 4.0]], dtype=torch.double)

    def model() -> ConditionalMeanProcess:
        warp = Warp(2, [0, 1], bounds=bounds, batch_shape=torch.Size([]))
        return ConditionalMeanProcess(*data, gaussian(), latent_transform=warp)

    looked_at, other = model(), model()
    with torch.no_grad():
        looked_at.posterior(data[0])
        other.average_kernel.latent_transform.concentration0.fill_(1.5)
    looked_at.train()
    mll = ExactMarginalLogLikelihood(looked_at.likelihood, looked_at)
    (-mll(looked_at(*looked_at.train_inputs), looked_at.train_targets)).backward()
    assert looked_at.average_kernel.latent_transform.concentration0.grad is not None
    looked_at.load_state_dict(other.state_dict())
    with torch.no_grad():
        found, expected = (one.posterior(data[0]).mean for one in (looked_at, other))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("lengthscales", [(0.5, 0.8), (0.03, 0.05)])
def test_normal_laws_of_dependent_columns_have_their_closed_form(
    lengthscales: tuple[float, ...],
) -> None:
    """However short the length-scales; by rotating into columns that are independent."""
    covariance = torch.tensor([[0.04, 0.05], [0.05, 0.09]], dtype=torch.double)
    law = GaussianConditional(WEIGHT, BIAS, covariance, outside="keep")
    bounds = torch.tensor([[-1.0, 0.0], [3.0, 0.5]], dtype=torch.double)
    covar, width = rbf(lengthscales), bounds[1] - bounds[0]
    kernel = AverageKernel(covar, law, Normalize(2, bounds=bounds))
    A = torch.rand(5, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    X = torch.rand(4, 2, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    rows = torch.cat([kernel.query_rows(A), kernel.point_rows(X)])
    means = torch.cat([law.mean_of(A), X])
    squared = torch.diag(torch.tensor(lengthscales, dtype=torch.double) * width).square()
    expected = torch.empty(9, 9, dtype=torch.double)
    for i in range(9):
        for j in range(9):
            total = squared + ((i < 5) + (j < 5)) * covariance
            distance = means[i] - means[j]
            height = (squared.det() / total.det()).sqrt() * covar.outputscale
            exponent = -0.5 * distance @ torch.linalg.solve(total, distance)
            expected[i, j] = (height * exponent.exp()).detach()
    torch.testing.assert_close(kernel(rows).to_dense(), expected)
    torch.testing.assert_close(kernel(rows, diag=True), expected.diagonal())
    torch.testing.assert_close(kernel(rows[5:]).to_dense(), expected[5:, 5:])
    torch.testing.assert_close(kernel(rows[:5], rows[5:]).to_dense(), expected[:5, 5:])
    one = RBFKernel().double()
    assert AverageKernel(one, law)(rows).to_dense().shape == (9, 9)
