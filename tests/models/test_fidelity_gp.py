"""The model of trials at several fidelities: its bias vanishes at the target, and is learned."""

from __future__ import annotations

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import MaternKernel
from torch import Tensor

from ax_costaware.exceptions import InputError
from ax_costaware.models import DenseMarginalLogLikelihood, FidelityGP, FidelityKernel

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


@pytest.mark.parametrize(
    ("fidelities", "bounds", "message"),
    [
        ([{3: 1.0}], UNIT, "expected columns from 0 to 2, .* and 3 is none"),
        ([{-4: 1.0}], UNIT, "and -4 is none"),
        ([{2: 1.0}], torch.tensor([[0.0, 0.0, 1.0], [1.0, 1.0, 1.0]]), "and 2 is none"),
        ([{2: 1.0}, {-1: 1.0}], UNIT, "columns from 0 to 2, each once, .* and -1 is none"),
        ([{2.0: 1.0}], UNIT, "and 2.0 is none"),
        ([{2: float("nan")}], UNIT, "fidelities: the column 2=nan: expected a finite number"),
        ([{1: 1.0, 2: 1.0}], UNIT, "a block of which one column is one at the target"),
        ([{0: 1.0}, {1: 1.0}, {2: 1.0}], UNIT, "expected another column besides them"),
        ({2: 1.0}, UNIT, "expected a list such as .*, an entry for each"),
        ([2], UNIT, "expected a list such as"),
        ([{2: 1.0}], UNIT[:, :2], "bounds: got shape .* expected finite bounds 2 x 3"),
    ],
)
def test_what_is_no_fidelity_is_refused(
    fidelities: list[dict[int, float]], bounds: Tensor, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        FidelityGP(points(8), points(8, 1), fidelities, bounds)


def test_the_last_column_is_minus_one() -> None:
    models = [FidelityGP(points(8), points(8, 1), [{i: 1.0}], UNIT) for i in (2, -1)]
    with torch.no_grad():
        found, expected = (model.posterior(points(4)).mean for model in models)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_at_the_target_it_is_a_matern_kernel() -> None:
    """GPyTorch's, in the inputs, with an output scale."""
    kernel = FidelityKernel(3, [{2: 1.0}]).double()
    X = points(6)
    X[:, 2] = 1.0
    matern = MaternKernel(nu=2.5, ard_num_dims=2).double()
    with torch.no_grad():
        kernel.log_values += points(1, len(kernel.log_values)).flatten() - 0.5
        matern.lengthscale = kernel.value("objective_lengthscale")
        expected = kernel.value("outputscale") * matern(X[:, :2]).to_dense()
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


def test_inputs_without_luck_have_none() -> None:
    """Or a trial at a fidelity that says nothing would seem to tell how lucky new inputs are."""
    inputs, steps = points(12, 2), torch.linspace(0.0, 1.0, 4, dtype=torch.double)
    X = torch.cat([inputs.repeat_interleave(2, 0), steps.repeat(6).unsqueeze(-1)], dim=-1)
    Y = X[:, 2:] * ((3 * X[:, :1]).sin() + X[:, 1:2])
    model = FidelityGP(X, Y, [{2: 1.0}], UNIT, own=True)
    fit_gpytorch_mll(DenseMarginalLogLikelihood(model.likelihood, model))
    new = torch.full((2, 3), 0.5, dtype=torch.double)
    new[:, 2] = torch.tensor([0.0, 1.0])
    with torch.no_grad():
        own = float(model.covar_module.value("own_variance"))
        covariance = model.posterior(new).distribution.covariance_matrix
    assert own < 5e-4
    assert float(covariance[0, 1] / covariance.diagonal().prod().sqrt()) < 0.3


def test_slopes_are_finite_at_the_target() -> None:
    kernel = FidelityKernel(3, [{2: 1.0}]).double()
    X = points(4)
    X[:2, 2] = 1.0
    X.requires_grad_(True)
    kernel(X).to_dense().sum().backward()
    assert X.grad is not None
    assert bool(X.grad.isfinite().all())
    assert bool(kernel.log_values.grad.isfinite().all())


def fitted_bias(bias: float) -> float:
    """The bias's variance, of a wave that short runs show with a bias of another shape."""
    X = points(40)
    X[:, 2] = (X[:, 2] > 0.4).double()
    wave, other = (6 * X[:, 0]).sin() + X[:, 1], (9 * X[:, 1] + 4 * X[:, 0]).cos()
    Y = wave + bias * (1 - X[:, 2]) * other
    model = FidelityGP(X, Y.unsqueeze(-1), [{2: 1.0}], UNIT)
    fit_gpytorch_mll(DenseMarginalLogLikelihood(model.likelihood, model))
    kernel = model.covar_module
    assert isinstance(kernel, FidelityKernel)
    return float(kernel.value("bias_variance").detach())


def test_how_far_other_fidelities_speak_for_the_target_is_learned() -> None:
    assert fitted_bias(0.02) < 0.05
    assert fitted_bias(3.0) > 0.3


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


def test_what_holds_for_tried_values_of_a_choice_is_expected_of_the_others() -> None:
    generator = torch.Generator().manual_seed(0)
    numbers = torch.rand(16, 1, generator=generator, dtype=torch.double)
    fidelity = torch.tensor(8 * [[0.5], [1.0]], dtype=torch.double)
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, 6)
    Y = numbers.mul(5).sin()
    X = torch.cat([numbers, torch.eye(4).double()[8 * [0, 1]], fidelity], dim=-1)
    x = torch.linspace(0.1, 0.9, 9, dtype=torch.double).unsqueeze(-1)
    at = torch.cat([x, torch.eye(4).double()[9 * [3]], torch.ones(9, 1).double()], dim=-1)
    errors = []
    for choices in ([[1, 2, 3, 4]], []):
        model = FidelityGP(X, Y, [{5: 1.0}], bounds, choices=choices)
        fit_gpytorch_mll(DenseMarginalLogLikelihood(model.likelihood, model))
        error = model.posterior(at).mean.detach() - x.mul(5).sin()
        errors.append(float(error.abs().max()))
    assert errors[0] < 0.15
    assert errors[1] > 2 * errors[0]
