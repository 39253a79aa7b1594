"""The forgetting kernel against its formula, where that is easy and where it is not."""

from __future__ import annotations

import math
import pickle
from copy import deepcopy

import pytest
import torch
from mpmath import mp, mpf
from torch import Tensor

from ax_costaware.models import ForgettingKernel
from ax_costaware.models.time_varying_gp import PRIOR_FORGETTING


def times(n: int, seed: int = 0, dtype: torch.dtype = torch.double) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 50 * torch.rand(n, 1, generator=generator, dtype=torch.double).to(dtype)


@pytest.mark.parametrize(
    ("forgetting", "gap"), [(1e-15, 1.0), (1e-15, 1e14), (1e-5, 3.0), (1 - 1e-9, 2.0), (0.5, 1e9)]
)
def test_tiny_rates_and_long_gaps_keep_their_digits(forgetting: float, gap: float) -> None:
    """What is forgotten, 1 - k, to twelve digits, also far from the origin of time."""
    start = 2.0**40  # such that the gap is exact
    t = torch.tensor([[start], [start + gap]], dtype=torch.double)
    with mp.workdps(60):
        exact = (1 - mpf(forgetting)) ** (mpf(gap) / 2)
        expected, lost = float(exact), float(-mp.log(exact))
    found = ForgettingKernel(forgetting)(t[:1], t[1:]).to_dense().item()
    assert found == pytest.approx(expected, rel=1e-12)
    if expected > 0.1:
        assert -math.log(found) == pytest.approx(lost, rel=1e-12, abs=2e-16)


def test_a_given_rate_is_no_parameter_and_a_fitted_one_is() -> None:
    given, fitted = ForgettingKernel(0.03), ForgettingKernel()
    assert list(given.parameters()) == []
    assert given.forgetting.item() == pytest.approx(0.03, rel=1e-15)
    assert [name for name, _ in fitted.named_parameters()] == ["raw_forgetting"]
    assert fitted.forgetting.item() == pytest.approx(PRIOR_FORGETTING, rel=1e-6)
    for kernel, digits in ((given, 1e-15), (fitted, 1e-6)):
        kernel.forgetting = 0.2
        assert kernel.forgetting.shape == (1, 1)
        assert kernel.forgetting.item() == pytest.approx(0.2, rel=digits)
        kernel.initialize(forgetting=torch.tensor(0.1, dtype=torch.double))
        assert kernel.forgetting.item() == pytest.approx(0.1, rel=digits)


@pytest.mark.parametrize("batch_shape", [torch.Size(), torch.Size([3]), torch.Size([2, 3])])
@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_batch_shapes(batch_shape: torch.Size, dtype: torch.dtype) -> None:
    kernel = ForgettingKernel(batch_shape=batch_shape).to(dtype)
    rates = torch.linspace(0.01, 0.2, batch_shape.numel(), dtype=dtype)
    kernel.forgetting = rates.reshape(*batch_shape, 1, 1)
    assert torch.allclose(kernel.forgetting.flatten(), rates)
    t, s = times(5, dtype=dtype), times(4, seed=1, dtype=dtype)
    found = kernel(t.expand(*batch_shape, 5, 1), s.expand(*batch_shape, 4, 1)).to_dense()
    rho = (1 - kernel.forgetting).sqrt()
    assert found.dtype == dtype
    assert found.shape == (*batch_shape, 5, 4)
    assert torch.allclose(found, rho ** (t - s.T).abs(), rtol=1e-4)
    diagonal = kernel(t[:4], s, diag=True)
    assert torch.allclose(diagonal, found.diagonal(dim1=-2, dim2=-1))
    # The model's own batch and that of the points.
    many = t.expand(7, *batch_shape, 5, 1)
    assert kernel(many).to_dense().shape == (7, *batch_shape, 5, 5)


@pytest.mark.parametrize("diag", [False, True])
def test_gradients_against_differences(diag: bool) -> None:
    kernel = ForgettingKernel().double()

    def value(t: Tensor, s: Tensor, raw: Tensor) -> Tensor:
        parameters = {"raw_forgetting": raw}
        found: Tensor = torch.func.functional_call(kernel, parameters, (t, s), {"diag": diag})
        return found if diag else found.to_dense()  # type: ignore[operator]

    raw = kernel.raw_forgetting.detach().clone().requires_grad_()
    t, s = times(4).requires_grad_(), times(4, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(value, (t, s, raw))


def test_gradients_at_equal_times_are_finite() -> None:
    kernel = ForgettingKernel().double()
    t = torch.tensor([[1.0], [1.0], [1e9]], dtype=torch.double, requires_grad=True)
    kernel(t).to_dense().sum().backward()
    assert t.grad is not None
    assert bool(torch.isfinite(t.grad).all())
    assert bool(torch.isfinite(kernel.raw_forgetting.grad).all())
    assert float(t.grad[0]) == float(t.grad[1]) == 0.0


@pytest.mark.parametrize("step", [1e-4, 1.0, 3600.0])
def test_the_prior_is_about_what_a_step_forgets(step: float) -> None:
    """Its log density at what a step forgets is the same, whatever the unit of time."""
    kernel = ForgettingKernel(step=step).double()
    median = -math.log1p(-PRIOR_FORGETTING) / step
    assert kernel.raw_forgetting.item() == pytest.approx(math.log(median), rel=1e-6)
    ((_, _, prior, closure, setter),) = kernel.named_priors()
    reference = ForgettingKernel()
    ((_, _, prior_of_one, closure_of_one, _),) = reference.named_priors()
    setter(kernel, closure(kernel).detach() + 1.0)
    setter(reference, closure_of_one(reference).detach() + 1.0)
    assert prior.log_prob(closure(kernel)).item() == pytest.approx(
        prior_of_one.log_prob(closure_of_one(reference)).item(), rel=1e-5
    )


@pytest.mark.parametrize("forgetting", [None, 0.07])
def test_copies_and_states(forgetting: float | None) -> None:
    kernel = ForgettingKernel(forgetting).double()
    kernel.forgetting = 0.08
    other = ForgettingKernel(forgetting).double()
    other.load_state_dict(kernel.state_dict())
    for copy in (deepcopy(kernel), pickle.loads(pickle.dumps(kernel)), other):
        assert copy.forgetting.item() == kernel.forgetting.item()
        assert bool((copy(times(3)).to_dense() == kernel(times(3)).to_dense()).all())
