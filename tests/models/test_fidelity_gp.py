"""The model of trials at several fidelities: its bias vanishes at the target, and is learned."""

from __future__ import annotations

import pytest
import torch
from gpytorch.kernels import MaternKernel
from torch import Tensor

from ax_costaware.acquisition.target_fidelity import at_target, target_moments
from ax_costaware.models import FidelityGP, FidelityKernel, FunctionalPosterior
from ax_costaware.models.choice_kernel import ChoiceMaternKernel

UNIT = torch.tensor([[0.0] * 3, [1.0] * 3], dtype=torch.double)


def points(n: int, d: int = 3) -> Tensor:
    return torch.rand(n, d, generator=torch.Generator().manual_seed(1), dtype=torch.double)


@pytest.mark.parametrize(
    ("fidelities", "at"),
    [
        ([{2: 1.0}], {2: 1.0}),
        ([{2: 0.3}], {2: 0.3}),
        ([{1: 1.0}, {2: 0.0}], {1: 1.0, 2: 0.0}),
        ([{1: 0.0, 2: 1.0}], {1: 0.0, 2: 1.0}),
    ],
)
def test_at_the_target_there_is_no_bias(
    fidelities: list[dict[int, float]], at: dict[int, float]
) -> None:
    """There a point is as correlated with others as the objective is, and no more varied."""
    kernel = FidelityKernel(3, fidelities).double()
    X = points(6)
    target = X.clone()
    for column, value in at.items():
        target[:, column] = value
    with torch.no_grad():
        among = kernel(target).to_dense()
        elsewhere = kernel(X, target).to_dense()
        variances = kernel(X, diag=True)
        everything = kernel(torch.cat([X, target])).to_dense()
    torch.testing.assert_close(elsewhere, among, rtol=1e-6, atol=1e-6)
    assert bool((variances > among.diagonal() - 1e-9).all())
    assert float(torch.linalg.eigvalsh(everything).min()) > -1e-8
    torch.testing.assert_close(everything.diagonal()[:6], variances)


@pytest.mark.parametrize("choices", [[], [[1, 2, 3]]])
def test_at_the_target_it_is_a_matern_kernel(choices: list[list[int]]) -> None:
    """That of the objective's model, in the inputs, with an output scale."""
    kernel = FidelityKernel(5, [{4: 1.0}], choices=choices).double()
    X = points(6, 5)
    X[:, 4] = 1.0
    matern = ChoiceMaternKernel(4, choices) if choices else MaternKernel(2.5, ard_num_dims=4)
    matern = matern.double()
    with torch.no_grad():
        kernel.log_values += points(1, len(kernel.log_values)).flatten() - 0.5
        matern.lengthscale = kernel.value("objective_lengthscale")
        expected = kernel.value("outputscale") * matern(X[:, :4]).to_dense()
        torch.testing.assert_close(kernel(X).to_dense(), expected, rtol=1e-6, atol=1e-6)


def test_the_same_inputs_share_what_they_have_of_their_own() -> None:
    kernel = FidelityKernel(3, [{2: 1.0}], own=True).double()
    without = FidelityKernel(3, [{2: 1.0}]).double()
    X = points(6)
    X[3:5, :2] = X[0, :2]
    with torch.no_grad():
        without.log_values.copy_(kernel.log_values[:-1])
        own = kernel.value("own_variance") * kernel.value("outputscale")
        same = torch.eye(6, dtype=torch.double)
        for i in (0, 3, 4):
            same[i, [0, 3, 4]] = 1.0
        expected = without(X).to_dense() + own * same
        torch.testing.assert_close(kernel(X).to_dense(), expected, rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(kernel(X, diag=True), expected.diagonal())


def test_inputs_that_are_nearly_the_same_have_a_covariance() -> None:
    """Each as near to the next as any two that count as the same, and the first not to the last."""
    kernel = FidelityKernel(3, [{2: 1.0}], own=True).double()
    X = torch.full((40, 3), 0.5, dtype=torch.double)
    X[:, 0] += 3e-6 * torch.arange(40)
    X[::2, 2] = 0.1
    with torch.no_grad():
        kernel.log_values[-1] = 4.0
        least = float(torch.linalg.eigvalsh(kernel(X).to_dense()).min())
    assert least > -1e-8


def test_inputs_are_scaled_by_the_bounds() -> None:
    X, bounds = 10 * points(8), 10 * UNIT
    narrow = FidelityGP(points(8), points(8)[:, :1], [{2: 0.5}], UNIT)
    wide = FidelityGP(X, points(8)[:, :1], [{2: 5.0}], bounds)
    for model in (narrow, wide):
        model.eval()
    with torch.no_grad():
        found = wide.posterior(X[:3] + 0.1)
        expected = narrow.posterior(points(8)[:3] + 0.01)
    torch.testing.assert_close(found.mean, expected.mean)
    torch.testing.assert_close(found.variance, expected.variance)


def test_repeats_are_no_input_and_divide_the_noise() -> None:
    """As with the model of the same trials whose noise variances are known."""
    bounds = torch.tensor([[0.0, 1.0, 0.0], [1.0, 9.0, 1.0]], dtype=torch.double)
    X = points(8) * (bounds[1] - bounds[0]) + bounds[0]
    X[:, 1] = X[:, 1].round()
    X[5, [0, 2]] = X[4, [0, 2]]
    Y = torch.sin(5 * X[:, :1]) + X[:, 2:]
    ours = FidelityGP(X, Y, [{2: 1.0}], bounds, own=True, repeats=1)
    ours.likelihood.noise = 0.4
    assert not ours.covar_module.own  # the same inputs and fidelity: repeats, no continuation
    known = 0.4 / X[:, 1:2] * Y.var()
    plain = FidelityGP(X[:, [0, 2]], Y, [{1: 1.0}], bounds[:, [0, 2]], known)
    new = points(5) * (bounds[1] - bounds[0]) + bounds[0]
    found, expected = ours.posterior(new), plain.posterior(new[:, [0, 2]])
    torch.testing.assert_close(found.mean, expected.mean)
    torch.testing.assert_close(found.variance, expected.variance)
    cached = FunctionalPosterior.of(ours)
    torch.testing.assert_close(cached(new)[0], found.mean.squeeze(-1))
    torch.testing.assert_close(cached.noise_at(new), 0.4 / new[:, 1] * Y.var())
    _, variance, share = target_moments(cached, new, {2: 1.0})
    at = at_target(new, {2: 1.0})
    for i in range(len(new)):
        with torch.no_grad():
            joint = ours.posterior(torch.stack([new[i], at[i]])).covariance_matrix
        observed = joint[0, 0] + 0.4 / new[i, 1] * Y.var()
        torch.testing.assert_close(variance[i], joint[1, 1])
        torch.testing.assert_close(share[i], joint[0, 1].square() / (joint[1, 1] * observed))
