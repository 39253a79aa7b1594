"""The model of trials at several fidelities: its bias vanishes at the target, and is learned."""

from __future__ import annotations

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import MaternKernel
from torch import Tensor

from ax_costaware.models import DenseMarginalLogLikelihood, FidelityGP, FidelityKernel
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


def test_a_part_of_the_trials_takes_over_what_all_have_told() -> None:
    """As a fold of a cross-validation does that leaves out the inputs which were tried twice."""
    X, Y = points(6), points(6, 1)
    X[5, :2] = X[4, :2]
    fidelities: list[dict[int, float]] = [{2: 1.0}]
    model = FidelityGP(X, Y, fidelities, UNIT, own=True)
    model.covar_module.initialize(log_values=model.covar_module.log_values + 0.1)
    fold = FidelityGP(X[:5], Y[:5], fidelities, UNIT, own=True)
    fold.load_state_dict(model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(
            fold.covar_module(X).to_dense(), model.covar_module(X).to_dense()
        )
        assert fold.posterior(X).mean.dtype == X.dtype


def test_a_curve_is_not_as_many_trainings_as_it_has_steps() -> None:
    """Trainings whose luck stays with them: of another one little is known, of these much."""
    generator = torch.Generator().manual_seed(0)
    steps = torch.linspace(0.1, 1.0, 10, dtype=torch.double)
    inputs = torch.rand(12, 2, generator=generator, dtype=torch.double)
    luck = 0.3 * torch.randn(12, 1, generator=generator, dtype=torch.double)
    Y = (3 * inputs[:, :1]).sin() + luck - 0.5 * (-4 * steps).exp()
    X = torch.cat([inputs.repeat_interleave(10, 0), steps.repeat(12).unsqueeze(-1)], dim=-1)
    model = FidelityGP(X, Y.reshape(-1, 1), [{2: 1.0}], UNIT, own=True)
    fit_gpytorch_mll(DenseMarginalLogLikelihood(model.likelihood, model))
    elsewhere = torch.rand(50, 3, generator=generator, dtype=torch.double)
    elsewhere[:, 2] = 1.0
    with torch.no_grad():
        deviation = float(model.posterior(elsewhere).variance.sqrt().mean())
        of_these = float(model.posterior(X[9::10]).variance.sqrt().max())
    assert 0.15 < deviation < 0.6
    assert of_these < 0.05


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
