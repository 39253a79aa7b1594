"""Costs learned from what trials have cost."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.spatial.distance import cdist
from torch import Tensor

from ax_costaware.exceptions import InputError
from ax_costaware.models import FunctionalPosterior, LogNormalCostModel
from ax_costaware.models.log_normal_cost import CostKind

KINDS: list[CostKind] = ["gp", "linear", "trend"]
UNIT_SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]])


def _inputs(n: int, d: int = 2, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, d, dtype=torch.double, generator=generator)


def _log_cost(X: Tensor) -> Tensor:
    return 3.0 + 2.0 * X[:, 0] - X[:, -1]


def _costs(X: Tensor, noise: float = 0.1, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    scatter = torch.randn(len(X), dtype=torch.double, generator=generator)
    return (_log_cost(X) + noise * scatter).exp()


def _fitted(kind: CostKind, n: int = 15, **options: Any) -> LogNormalCostModel:
    X = _inputs(n)
    return LogNormalCostModel(X, _costs(X), kind, UNIT_SQUARE, **options)


def _prior_covariance(model: LogNormalCostModel, A: Any, B: Any) -> Any:
    """Of the scaled logarithms, with the hyperparameters of the fit."""
    kernel = model._posterior.factor.kernel
    line = 0.0
    if model.kind != "gp":
        line = float(kernel.kernels[0].variance) * (A - 0.5) @ (B - 0.5).T
    if model.kind == "linear":
        return line + 1.0
    rough = kernel if model.kind == "gp" else kernel.kernels[1]
    lengthscale = rough.lengthscale.numpy()
    r = math.sqrt(5) * cdist(A / lengthscale, B / lengthscale)
    return line + (1 + r + r**2 / 3) * np.exp(-r)


@pytest.mark.parametrize("kind", KINDS)
def test_moments_are_those_of_the_regression(kind: CostKind) -> None:
    X, Xt = _inputs(15), _inputs(20, seed=3)
    model = _fitted(kind)
    y = _costs(X).log().numpy()
    center = y.mean()
    scale = math.sqrt((((y - center) ** 2).sum() + 1) / 15)
    prior_mean = float(model._posterior.factor.prior_mean)
    noise = float(model._posterior.factor.noise[0])
    K = _prior_covariance(model, X.numpy(), X.numpy()) + noise * np.eye(15)
    k = _prior_covariance(model, Xt.numpy(), X.numpy())
    residual = (y - center) / scale - prior_mean
    mean = center + scale * (prior_mean + k @ np.linalg.solve(K, residual))
    prior = np.diag(_prior_covariance(model, Xt.numpy(), Xt.numpy()))
    variance = scale**2 * (prior - np.sum(k * np.linalg.solve(K, k.T).T, axis=1) + noise)
    got_mean, got_variance = model.log_moments(Xt)
    np.testing.assert_allclose(got_mean, mean, rtol=1e-8)
    np.testing.assert_allclose(got_variance, variance, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_expected_cost_is_the_mean_of_the_cost(kind: CostKind) -> None:
    X = _inputs(5, seed=4)
    model = _fitted(kind, n=4)
    mean, variance = model.log_moments(X)
    for m, s, expected in zip(mean, variance.sqrt(), model.expected_cost(X), strict=True):
        a, b = float(m), float(s)
        integral, _ = quad(
            lambda z, a=a, b=b: math.exp(a + b * z - z * z / 2) / math.sqrt(2 * math.pi), -12, 12
        )
        assert float(expected) == pytest.approx(integral, rel=1e-8)
    draws = torch.randn(10**6, 1, generator=torch.Generator().manual_seed(5)).double()
    costs = (mean + variance.sqrt() * draws).exp()
    error = costs.std(dim=0) / 1e3
    assert bool(((costs.mean(dim=0) - model.expected_cost(X)).abs() <= 4 * error).all())
    assert torch.equal(model.log_cost(X), mean + variance / 2)


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_match_new_costs(kind: CostKind) -> None:
    X, Xt = _inputs(40), _inputs(1000, seed=6)
    model = LogNormalCostModel(X, _costs(X), kind, UNIT_SQUARE)
    mean, variance = model.log_moments(Xt)
    new = _costs(Xt, seed=7)
    z = (new.log() - mean) / variance.sqrt()
    assert 0.8 < float(z.std()) < 1.25
    assert float((new.log() - mean).square().mean().sqrt()) < 0.13
    assert float(model.expected_cost(Xt).mean() / new.mean()) == pytest.approx(1.0, abs=0.05)


def test_the_linear_model_extrapolates_a_line() -> None:
    X = 0.3 * _inputs(30)
    Xt = torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]).double()
    linear, _ = LogNormalCostModel(X, _costs(X, 0.01), "linear", UNIT_SQUARE).log_moments(Xt)
    assert torch.allclose(linear, _log_cost(Xt), atol=0.1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch_shape", [(), (1,), (3, 2)])
@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_shapes_and_dtypes(
    kind: CostKind, batch_shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    model = _fitted(kind, n=5)
    X = torch.rand(*batch_shape, 2, dtype=dtype, generator=torch.Generator().manual_seed(8))
    flat = X.reshape(-1, 2).double()
    for got, expected in (
        (model.expected_cost(X), model.expected_cost(flat)),
        (model.log_cost(X), model.log_cost(flat)),
        (model.log_moments(X)[0], model.log_moments(flat)[0]),
        (model.log_moments(X)[1], model.log_moments(flat)[1]),
    ):
        assert got.shape == batch_shape
        assert got.dtype == dtype
        assert torch.allclose(got.reshape(-1).double(), expected, rtol=1e-5)


def test_integer_inputs() -> None:
    X = torch.tensor([[1, 2], [3, 1], [2, 2]])
    model = LogNormalCostModel(X, torch.tensor([1, 3, 2]))
    assert torch.equal(model.expected_cost(X), model.expected_cost(X.double()))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_finite_differences(kind: CostKind) -> None:
    model = _fitted(kind, n=6)
    X = _inputs(4, seed=9).requires_grad_(True)
    for function in (model.expected_cost, model.log_cost, model.log_moments):
        assert torch.autograd.gradcheck(function, (X,))
    (gradient,) = torch.autograd.grad(model.log_cost(X).sum(), X)
    step = 1e-5 * torch.eye(2).double()
    for j in range(2):
        with torch.no_grad():
            ahead = model.log_cost(X + step[j])
            behind = model.log_cost(X - step[j])
        assert torch.allclose(gradient[:, j], (ahead - behind) / 2e-5, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_at_a_past_trial_are_finite(kind: CostKind) -> None:
    X = _inputs(3).repeat(2, 1)
    model = LogNormalCostModel(X, _costs(X), kind)
    X.requires_grad_(True)
    (gradient,) = torch.autograd.grad(model.log_cost(X).sum(), X)
    assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("kind", KINDS)
def test_one_cost_is_the_median_everywhere_with_an_honest_spread(kind: CostKind) -> None:
    model = LogNormalCostModel(torch.tensor([[0.5, 0.5]]), torch.tensor([7.0]), kind, UNIT_SQUARE)
    mean, variance = model.log_moments(_inputs(200, seed=10))
    assert torch.allclose(mean.exp(), torch.tensor(7.0).double())
    assert bool((variance.sqrt() < 1.5).all())
    assert 0.5 < float(variance.mean().sqrt()) < 1.5


@pytest.mark.parametrize("kind", KINDS)
def test_two_costs_lie_within_the_spread(kind: CostKind) -> None:
    X, cost = torch.tensor([[0.1, 0.2], [0.8, 0.7]]), torch.tensor([2.0, 20.0])
    model = LogNormalCostModel(X, cost, kind, UNIT_SQUARE)
    mean, variance = model.log_moments(X)
    assert mean[0] < mean[1]
    assert bool((((mean - cost.log()) / variance.sqrt()).abs() < 1.5).all())
    _, everywhere = model.log_moments(_inputs(200, seed=10))
    assert bool(((everywhere.sqrt() > 0.1) & (everywhere.sqrt() < 3.0)).all())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "largest_sd"), [(2, 0.9), (5, 0.4), (20, 0.15)])
def test_equal_costs_become_certain_as_they_grow_many(
    kind: CostKind, n: int, largest_sd: float
) -> None:
    model = LogNormalCostModel(_inputs(n), torch.full((n,), 0.3).double(), kind, UNIT_SQUARE)
    mean, variance = model.log_moments(_inputs(200, seed=10))
    assert torch.allclose(mean, torch.tensor(0.3).double().log())
    assert bool(((variance > 0) & (variance.sqrt() < largest_sd)).all())


@pytest.mark.parametrize("kind", KINDS)
def test_nearly_equal_costs_are_no_more_certain_than_equal_ones(kind: CostKind) -> None:
    X, Xt = _inputs(3), _inputs(50, seed=10)
    equal = LogNormalCostModel(X, torch.ones(3), kind, UNIT_SQUARE)
    nearly = LogNormalCostModel(X, torch.tensor([1.0, 1.0, 1 + 1e-6]), kind, UNIT_SQUARE)
    assert torch.allclose(nearly.log_moments(Xt)[1], equal.log_moments(Xt)[1], rtol=0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_repeated_trials_show_the_scatter(kind: CostKind) -> None:
    X = _inputs(4).repeat(15, 1)
    model = LogNormalCostModel(X, _costs(X, noise=0.3), kind, UNIT_SQUARE)
    mean, variance = model.log_moments(X[:4])
    assert torch.allclose(mean, _log_cost(X[:4]), atol=0.25)
    assert torch.allclose(variance.sqrt(), torch.tensor(0.3).double(), rtol=0.35)
    alike = LogNormalCostModel(X[:1].repeat(5, 1), torch.ones(5), kind)
    assert float(alike.expected_cost(X[0])) == pytest.approx(1.0, rel=0.2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_the_unit_of_cost_does_not_matter(kind: CostKind, unit: float) -> None:
    X, Xt = _inputs(8), _inputs(20, seed=11)
    cost = _costs(X)
    one = LogNormalCostModel(X, cost, kind, UNIT_SQUARE).expected_cost(Xt)
    other = LogNormalCostModel(X, unit * cost, kind, UNIT_SQUARE).expected_cost(Xt)
    assert torch.allclose(other / unit, one, rtol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_costs_of_all_magnitudes(kind: CostKind) -> None:
    X = torch.tensor([[0.1, 0.2], [0.5, 0.5], [0.9, 0.8]])
    model = LogNormalCostModel(X, torch.tensor([1e-12, 1.0, 1e12]).double(), kind, UNIT_SQUARE)
    Xt = _inputs(100, seed=12)
    assert bool(model.log_cost(Xt).isfinite().all())
    mean, _ = model.log_moments(X)
    assert mean[0] < mean[1] < mean[2]


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_scale_the_inputs_and_default_to_their_range(kind: CostKind) -> None:
    X, Xt = _inputs(6), _inputs(10, seed=13)
    bounds = torch.stack([X.amin(dim=0), X.amax(dim=0)])
    explicit = LogNormalCostModel(X, _costs(X), kind, bounds).expected_cost(Xt)
    assert torch.equal(LogNormalCostModel(X, _costs(X), kind).expected_cost(Xt), explicit)
    factor, shift = torch.tensor([1000.0, 1e-3]), torch.tensor([-5.0, 3.0])
    moved = LogNormalCostModel(factor * X + shift, _costs(X), kind, factor * bounds + shift)
    assert torch.allclose(moved.expected_cost(factor * Xt + shift), explicit, rtol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_of_no_width(kind: CostKind) -> None:
    X = _inputs(5)
    X[:, 1] = 4.0
    for bounds in (None, torch.tensor([[0.0, 4.0], [1.0, 4.0]])):
        model = LogNormalCostModel(X, _costs(X), kind, bounds)
        assert bool(model.expected_cost(X).isfinite().all())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 5])
def test_fits_are_deterministic_and_leave_the_random_state(kind: CostKind, n: int) -> None:
    X, Xt = _inputs(n), _inputs(10, seed=14)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    one = LogNormalCostModel(X, _costs(X), kind, UNIT_SQUARE).expected_cost(Xt)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(1)
    assert torch.equal(LogNormalCostModel(X, _costs(X), kind, UNIT_SQUARE).expected_cost(Xt), one)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_it_is_fitted_where_the_user_keeps_no_gradients(context: Any) -> None:
    X = _inputs(5)
    with context():
        found = _fitted("linear", 5).expected_cost(X)
    torch.testing.assert_close(found, _fitted("linear", 5).expected_cost(X))


def test_more_inputs_than_trials() -> None:
    X = _inputs(4, d=20)
    for kind in KINDS:
        model = LogNormalCostModel(X, _costs(X), kind, torch.tensor([[0.0] * 20, [1.0] * 20]))
        assert bool(model.expected_cost(_inputs(10, d=20, seed=15)).isfinite().all())


def test_the_gp_bends_and_the_line_does_not() -> None:
    X, Xt = _inputs(30, d=1), _inputs(200, d=1, seed=16)
    cost = torch.sin(6 * X[:, 0]).exp()
    errors = {
        kind: float(
            (LogNormalCostModel(X, cost, kind).log_moments(Xt)[0] - torch.sin(6 * Xt[:, 0]))
            .square()
            .mean()
            .sqrt()
        )
        for kind in KINDS
    }
    assert errors["gp"] < 0.05
    assert errors["linear"] > 0.3


def test_the_posterior_is_kept_not_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _fitted("gp", n=5)
    monkeypatch.setattr(FunctionalPosterior, "of", None)
    assert model.expected_cost(_inputs(3)).shape == (3,)
    assert not model.expected_cost(_inputs(3)).requires_grad


@pytest.mark.parametrize("kind", KINDS)
def test_it_can_be_pickled(kind: CostKind) -> None:
    model, X = _fitted(kind, n=5), _inputs(3)
    copy = pickle.loads(pickle.dumps(model))
    assert torch.equal(copy.expected_cost(X), model.expected_cost(X))


@pytest.mark.parametrize("cost", [0.0, -2.0, math.nan, math.inf])
def test_refuses_costs_by_row_and_value(cost: float) -> None:
    costs = torch.tensor([1.0, 2.0, cost]).double()
    with pytest.raises(InputError, match=rf"cost\[2\]={cost!r}: expected a finite cost > 0\."):
        LogNormalCostModel(_inputs(3), costs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": torch.ones(3)}, r"X of shape \(3,\): expected n x d with n and d at least 1"),
        ({"X": torch.ones(0, 2)}, r"X of shape \(0, 2\): expected n x d with n and d at least 1"),
        ({"X": [[1.0, 2.0]]}, r"X of shape \[\[1\.0, 2\.0\]\]: expected n x d"),
        ({"X": torch.tensor([[0, 0], [1, math.nan], [0, 0]])}, r"X\[1\]=\[1\.0, nan\]: expected f"),
        ({"cost": torch.ones(2)}, r"cost of shape \(2,\): expected \(3,\), one per row"),
        ({"cost": torch.ones(3, 1)}, r"cost of shape \(3, 1\): expected \(3,\), one per row"),
        ({"cost": 1.0}, r"cost of shape 1\.0: expected \(3,\), one per row"),
        ({"kind": "cubic"}, r"kind='cubic': expected one of \['gp', 'linear', 'trend'\]"),
        ({"bounds": torch.ones(2, 3)}, r"bounds: got shape \(2, 3\); expected finite bounds 2 x 2"),
        (
            {"bounds": torch.tensor([[0, 1], [1, 0]])},
            r"bounds=\[\[0, 1\], \[1, 0\]\]: expected fin",
        ),
        (
            {"bounds": torch.tensor([[0, 1], [1, math.inf]])},
            r"bounds: got NaN or infinite values; expected finite b",
        ),
    ],
)
def test_refuses(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"X": _inputs(3), "cost": torch.ones(3), **changes}
    with pytest.raises(InputError, match=message):
        LogNormalCostModel(**arguments)


def test_refuses_points_of_another_space() -> None:
    model = _fitted("linear", n=3)
    with pytest.raises(InputError, match=r"X of shape \(4, 3\): expected batch_shape x 2\."):
        model.expected_cost(torch.ones(4, 3))


@pytest.mark.parametrize("kind", KINDS)
def test_a_cost_of_next_to_nothing_does_not_hide_the_others(kind: CostKind) -> None:
    """Below a billionth of the largest it is all one; expected costs stay far from overflow."""
    X = _inputs(4)
    cost = torch.tensor([1.0, 1e-300, 1.0, 2.0], dtype=torch.double)
    billionth = torch.tensor([1.0, 2e-9, 1.0, 2.0], dtype=torch.double)
    found, expected = (LogNormalCostModel(X, c, kind, UNIT_SQUARE) for c in (cost, billionth))
    points = _inputs(50, seed=3)
    assert torch.equal(found.log_cost(points), expected.log_cost(points))
    assert float(found.log_cost(points).max()) < 100.0


def test_a_trend_goes_on_where_nothing_was_tried() -> None:
    """A process alone goes back to the mean; what is no line is still learned."""
    X = torch.linspace(0.0, 0.35, 8, dtype=torch.double).unsqueeze(-1)
    bounds = torch.tensor([[0.0], [1.0]])
    far = torch.ones(1, 1, dtype=torch.double)
    kinds: list[CostKind] = ["gp", "trend"]
    found = {
        kind: float(LogNormalCostModel(X, (4 * X[:, 0]).exp(), kind, bounds).expected_cost(far))
        for kind in kinds
    }
    assert found["gp"] < 0.5 * math.exp(4.0) < found["trend"] < 3 * math.exp(4.0)
    inputs = torch.linspace(0.0, 1.0, 12, dtype=torch.double).unsqueeze(-1)
    waves = (2 * (9 * inputs[:, 0]).sin()).exp()
    model = LogNormalCostModel(inputs, waves, "trend", bounds)
    between = inputs[:-1] + 1 / 24
    mean, _ = model.log_moments(between)
    assert float((mean - 2 * (9 * between[:, 0]).sin()).abs().max()) < 0.35


def test_a_trend_goes_on_for_values_of_a_choice_that_were_not_tried() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(12, generator=generator, dtype=torch.double)

    def points(x: torch.Tensor, values: list[int]) -> torch.Tensor:
        return torch.cat([x.unsqueeze(-1), torch.eye(4, dtype=torch.double)[values]], dim=-1)

    costs = (2 * x).exp()
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, 5)
    model = LogNormalCostModel(points(x, 6 * [0, 2]), costs, "trend", bounds, [[1, 2, 3, 4]])
    at = torch.tensor([0.2, 0.8], dtype=torch.double)
    mean, _ = model.log_moments(points(at, [1, 1]))
    assert torch.allclose(mean, 2 * at, atol=0.05)
    # Where a value has a cost of its own, one that was not tried may have one, too.
    double = LogNormalCostModel(
        points(x, 6 * [0, 2]), costs * torch.tensor(6 * [1.0, 8.0]), "trend", bounds, [[1, 2, 3, 4]]
    )
    untried, tried = (double.log_moments(points(at, 2 * [value]))[1] for value in (1, 0))
    assert (untried > 10 * tried).all()
