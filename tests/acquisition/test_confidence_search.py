"""The searches of a round against dense grids."""

from __future__ import annotations

import math

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from gpytorch.kernels import MaternKernel
from torch import Tensor

from ax_costaware.acquisition import ConfidenceSearch
from ax_costaware.acquisition.confidence_search import Compare
from ax_costaware.acquisition.optimize import Region
from ax_costaware.models import ExactPosterior, TimeVaryingGP
from ax_costaware.models.posterior import Comparison

# Raw inputs and outcomes are what some of these models are about.
pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")

BETA, NOW, CORRELATION = 4.0, 40.0, 0.8


def box(d: int, lower: float = 0.0, upper: float = 1.0) -> Tensor:
    return torch.tensor([[lower] * d, [upper] * d], dtype=torch.double)


def model(d: int, sign: float = 1.0, lengthscale: float = 0.2) -> TimeVaryingGP:
    """Forty rounds of a function with several hills."""
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(40, d, generator=generator, dtype=torch.double)
    t = torch.arange(40.0, dtype=torch.double).unsqueeze(-1)
    Y = (9 * x).sin().sum(-1, keepdim=True) + x[:, :1]
    kernel = MaternKernel(nu=2.5).double()
    kernel.lengthscale = lengthscale
    options = {"forgetting": 0.02, "noise": 0.01, "outcome_transform": None}
    return TimeVaryingGP(torch.cat([x, t], dim=-1), sign * Y, covar_module=kernel, **options)  # type: ignore[arg-type]


def grid(d: int) -> Tensor:
    axis = torch.linspace(0, 1, 2001 if d == 1 else 151, dtype=torch.double)
    return torch.cartesian_prod(*[axis] * d).reshape(-1, d)


def now_of(
    gp: TimeVaryingGP, transform: ScalarizedPosteriorTransform | None = None
) -> ExactPosterior:
    return ExactPosterior.of(gp, transform).at_time(NOW)


def bound(posterior: ExactPosterior, X: Tensor) -> Tensor:
    with torch.no_grad():
        mean, variance = posterior(X)
    return mean + math.sqrt(BETA) * variance.sqrt()


def best_of(search: ConfidenceSearch) -> tuple[Tensor, float]:
    """The local optima of the bound, ``k x d``, and the largest bound."""
    found = search.upper_confidence_bound(BETA)
    return found.point, float(found.value[0])


def least(search: ConfidenceSearch, point: Tensor, rivals: Comparison, joint: bool = True) -> float:
    """The smallest probability that the point is better than a rival, as a normal quantile."""
    with torch.no_grad():
        mean, variance = search.posterior(point.unsqueeze(0))
    spread = variance + rivals.variance - (2 * rivals.covariance if joint else 0.0)
    return float(((mean - rivals.mean) / spread.sqrt()).min())


def far_from(search: ConfidenceSearch, point: Tensor, points: Tensor) -> Comparison:
    """All of some points that are rivals by correlation."""
    with torch.no_grad():
        far = search.posterior.correlation(points, point) < CORRELATION
        return search.posterior.compared_with(point)(points[far])


@pytest.mark.parametrize("d", [1, 2])
def test_the_largest_bound_is_that_of_a_grid(d: int) -> None:
    posterior = now_of(model(d))
    optima, value = best_of(ConfidenceSearch(posterior, Region(box(d)), CORRELATION))
    values = bound(posterior, grid(d))
    assert value >= float(values.max()) - 1e-9
    assert torch.allclose(optima[0], grid(d)[values.argmax()], atol=0.01)
    rows = torch.cat([optima[0], torch.tensor([NOW]).to(optima)]).unsqueeze(0)
    predicted = model(d).posterior(rows)
    mean, variance = predicted.mean.item(), predicted.variance.item()
    assert value == pytest.approx(mean + math.sqrt(BETA * variance))


def test_local_optima_are_those_of_a_grid() -> None:
    posterior = now_of(model(1, lengthscale=0.1))
    optima, _ = best_of(ConfidenceSearch(posterior, Region(box(1)), CORRELATION))
    padded = torch.nn.functional.pad(bound(posterior, grid(1)), (1, 1), value=-math.inf)
    tops = (padded[1:-1] > padded[:-2]) & (padded[1:-1] > padded[2:])
    expected = grid(1)[tops].squeeze(-1)
    assert len(expected) > 2
    assert torch.allclose(optima.squeeze(-1).sort().values, expected, atol=1e-3)
    values = bound(posterior, optima)
    assert values.tolist() == sorted(values.tolist(), reverse=True)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("joint", [False, True])
def test_the_strongest_rival_is_that_of_a_grid(d: int, joint: bool) -> None:
    posterior = now_of(model(d))
    search = ConfidenceSearch(posterior, Region(box(d)), CORRELATION)
    optima, _ = best_of(search)
    rivals = search.rivals(optima, "correlation", joint)
    assert float(rivals.correlation.max()) < CORRELATION + 1e-9
    expected = least(search, optima[0], far_from(search, optima[0], grid(d)), joint)
    assert least(search, optima[0], rivals, joint) == pytest.approx(expected, abs=0.01)
    # Another rule asks for the largest bound of a rival.
    bounds = [
        float((some.mean + math.sqrt(BETA) * some.variance.sqrt()).max())
        for some in (rivals, far_from(search, optima[0], grid(d)))
    ]
    assert bounds[0] == pytest.approx(bounds[1], abs=0.05)


def test_rivals_by_local_optima_are_the_others() -> None:
    search = ConfidenceSearch(now_of(model(1, lengthscale=0.1)), Region(box(1)), CORRELATION)
    optima, _ = best_of(search)
    rivals = search.rivals(optima, "local_optima", joint=False)
    mean, variance = search.posterior(optima[1:])
    assert rivals.mean.tolist() == pytest.approx(mean.tolist())
    assert rivals.variance.tolist() == pytest.approx(variance.tolist())


@pytest.mark.parametrize("compare", ["correlation", "local_optima"])
def test_a_single_optimum_still_has_a_rival(compare: Compare) -> None:
    """Otherwise it would never be measured again, even where all points are alike."""
    posterior = now_of(model(2, lengthscale=40.0))
    search = ConfidenceSearch(posterior, Region(box(2)), CORRELATION)
    optima, _ = best_of(search)
    assert len(optima) == 1
    rivals = search.rivals(optima, compare, joint=False)
    # The least correlated point is the corner that is farthest away.
    corner = (optima[0] < 0.5).to(optima[0]).unsqueeze(0)
    mean, _ = posterior(corner)
    assert rivals.mean.tolist() == pytest.approx(mean.tolist())


def test_discrete_columns_keep_to_their_values() -> None:
    levels = torch.tensor([0.1, 0.3, 1 / 3, 0.9], dtype=torch.double)
    starts = torch.cat([torch.rand(200, 1).double(), levels.repeat(50).unsqueeze(-1)], dim=-1)
    region = Region(box(2), [((1,), levels.unsqueeze(-1))])
    search = ConfidenceSearch(now_of(model(2)), region, CORRELATION, starts=starts)
    optima, value = best_of(search)
    assert set(optima[:, 1].tolist()) <= set(levels.tolist())
    allowed = torch.cartesian_prod(torch.linspace(0, 1, 501).double(), levels)
    assert value >= float(bound(search.posterior, allowed).max()) - 1e-6
    rivals = search.rivals(optima, "correlation", True)
    assert len(rivals.mean) > 100


def test_a_list_of_candidates() -> None:
    candidates = grid(2)[::37]
    posterior = now_of(model(2))
    search = ConfidenceSearch(posterior, Region(box(2), candidates=candidates), CORRELATION)
    optima, _ = best_of(search)
    assert torch.equal(optima[0], candidates[bound(posterior, candidates).argmax()])
    rivals = search.rivals(optima, "correlation", False)
    expected = least(search, optima[0], far_from(search, optima[0], candidates), joint=False)
    assert least(search, optima[0], rivals, joint=False) == pytest.approx(expected)


def test_a_column_without_width_stays() -> None:
    bounds = torch.tensor([[0.0, 0.4], [1.0, 0.4]], dtype=torch.double)
    optima, _ = best_of(ConfidenceSearch(now_of(model(2)), Region(bounds), CORRELATION))
    assert float(optima[0, 1]) == 0.4


@pytest.mark.parametrize("beyond", [0.1, 0.1003])
@pytest.mark.parametrize("held", [(), (0,)])
def test_constraints(held: tuple[int, ...], beyond: float) -> None:
    """On the sum of the columns, such that the best point without it is left out.

    The way to the strongest rival leads through points that are none.
    """
    posterior = now_of(model(2))
    (best, *_), _ = best_of(ConfidenceSearch(posterior, Region(box(2)), CORRELATION))
    limit = float(best.sum()) - beyond
    constraints = [(torch.tensor([0, 1]), torch.tensor([-1.0, -1.0]).double(), -limit)]
    valid = grid(2)[grid(2).sum(-1) <= limit]
    starts = valid[:: 1 if held else 11]
    blocks = [((column,), grid(2)[:, column].unique().unsqueeze(-1)) for column in held]
    region = Region(box(2), blocks, constraints=constraints)
    search = ConfidenceSearch(posterior, region, CORRELATION, starts=starts)
    optima, value = best_of(search)
    assert float(optima[0].sum()) <= limit + 1e-8
    assert value >= float(bound(posterior, valid).max()) - 1e-6
    rivals = search.rivals(optima, "correlation", False)
    # The strongest rival is at the limit, which hardly a point of the grid is.
    first = torch.linspace(0, limit, 2001, dtype=torch.double)
    first = valid[:, 0].unique() if held else first
    at_limit = torch.stack([first, limit - first], dim=-1)
    at_limit = at_limit[at_limit.amin(-1) >= 0]
    expected = least(
        search, optima[0], far_from(search, optima[0], torch.cat([valid, at_limit])), joint=False
    )
    assert least(search, optima[0], rivals, joint=False) == pytest.approx(expected, abs=0.01)
