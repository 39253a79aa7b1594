r"""Maximization of the UCB and search for rivals, in one round of CE-GP-UCB in a continuous space.

The point to use has the largest upper confidence bound :math:`\mu + \sqrt{\beta} \sigma`. The
decision to measure its outcome depends on its rivals: points that it may be confused with (Wang et
al. 2020, *Cost-Efficient Online Hyperparameter Optimization*, Algorithm 1). Both searches are
multi-start L-BFGS-B in the coordinates of the unit cube.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from ax_costaware.acquisition.optimize import Optimum, Region, maximize
from ax_costaware.models.posterior import Comparison, ExactPosterior

Compare: TypeAlias = Literal["correlation", "local_optima", "local_optima_only"]
"""Definition of rivals:

- ``"correlation"``: points of small prior correlation with the chosen one;
- ``"local_optima"``: the other local optima of the upper confidence bound, or the former if there
  are none;
- ``"local_optima_only"``: the other local optima, or nothing."""

RAW_SAMPLES = 512
"""Sobol points to choose starts from if none are given."""

# The search for rivals only has to find one that is strong enough. More iterations or restarts
# changed the largest probability by less than .01 on samples of GPs with up to six columns.
_RIVAL_ITERATIONS = 15
_RIVAL_RESTARTS = 8

# The bound on the correlation of a rival enters as a penalty, this times the squared excess. The
# penalty allows an excess of about .001, so the bound is lowered by a margin.
_PENALTY = 1e3
_MARGIN = 2e-3

# With variances below this one only means are compared.
_SMALLEST_VARIANCE = 1e-300


@dataclass(frozen=True, eq=False)
class ConfidenceSearch:
    """Maximization of the UCB and search for rivals."""

    posterior: ExactPosterior
    """The posterior at the time of the round, of an objective to be maximised."""

    region: Region
    """Region of the points."""

    rival_correlation: float
    """Prior correlation with the point of the round below which a point is a rival."""

    starts: Tensor | None = None
    """``m x d`` valid points; local searches start from the best ones. By default the candidates of
    the region, or Sobol points of the box."""

    counted: Callable[[Tensor, Tensor], Tensor] | None = None
    """Function from points ``n x d`` and bounds, ``n``, to weighted bounds; None: identity."""

    shortfall: Callable[[Tensor], Tensor] | None = None
    """Function of points ``n x d``, negative where a point may be a rival; None: anywhere."""

    num_restarts: int = 16
    """Number of local searches."""

    seed: int = 0
    """Seed of the Sobol points."""

    def upper_confidence_bound(self, beta: float) -> Optimum[Tensor]:
        """Search for the largest ``mean + sqrt(beta) * standard deviation``.

        Args:
            beta: The squared weight of the standard deviation, >= 0.

        Returns:
            The local optima, ``k x d``, best first, and the bounds there, ``k``. Small local optima
            on the slope of another one are merged with it.
        """

        def bound(X: Tensor) -> Tensor:
            mean, variance = self.posterior(X)
            return mean + math.sqrt(beta) * variance.sqrt()

        def value(X: Tensor, _: Tensor) -> Tensor:
            return bound(X) if self.counted is None else self.counted(X, bound(X))

        (found,) = maximize(
            value,
            [self.region],
            [self._points()],
            num_restarts=self.num_restarts,
            num_polished=None,
        )
        with torch.no_grad():
            return Optimum(found.point, bound(found.point))

    def rivals(self, optima: Tensor, compare: Compare, joint: bool) -> Comparison:
        """Return moments of the rivals of the best local optimum, the first of ``optima``."""
        points = self.rival_points(optima[0], optima[1:], compare, joint)
        with torch.no_grad():
            return self.posterior.compared_with(optima[0])(points)

    def rival_points(self, point: Tensor, optima: Tensor, compare: Compare, joint: bool) -> Tensor:
        """Return points, ``k x d``, that the point of a round may be confused with.

        Args:
            point: The point of the round, ``d``.
            optima: The other local optima of the upper confidence bound, ``m x d``.
            compare: Kind of the rivals. Of those by correlation one is better with the largest
                probability. They replace local optima where there are none, since a single optimum
                would otherwise never be measured again.
            joint: True if that probability uses the covariance with the point.
        """
        others = optima
        if self.shortfall is not None:
            others = others[self.shortfall(others) < 0]
        if compare == "local_optima_only" or (compare == "local_optima" and len(others)):
            return others
        # The strongest points of small correlation; if there are none, the least correlated point.
        posterior = self.posterior
        with torch.no_grad():
            mean, variance = posterior(point.unsqueeze(0))
            compared = posterior.compared_with(point)

        def excess(X: Tensor) -> Tensor:
            return lacking(X, posterior.correlation(X, point))

        def lacking(X: Tensor, correlation: Tensor) -> Tensor:
            excess = correlation - self.rival_correlation
            return excess if self.shortfall is None else excess.maximum(self.shortfall(X))

        def strength(X: Tensor, _: Tensor) -> Tensor:
            # The probability that the rival is better, as a normal quantile.
            rivals = compared(X)
            spread = rivals.variance + variance - (2 * rivals.covariance if joint else 0.0)
            better = (rivals.mean - mean) / spread.clamp_min(_SMALLEST_VARIANCE).sqrt()
            excess = (lacking(X, rivals.correlation) + _MARGIN).clamp_min(0.0)
            return better - _PENALTY * excess.square()

        points = torch.cat([self._points(), optima, self._far_from(point)])
        with torch.no_grad():
            over = excess(points)
        points = points[over < 0] if bool((over < 0).any()) else points[[int(over.argmin())]]
        if float(over.min()) >= 0:
            return points
        (ends,) = maximize(
            strength,
            [self.region],
            [points],
            num_restarts=min(self.num_restarts, _RIVAL_RESTARTS),
            num_polished=None,
            iterations=_RIVAL_ITERATIONS,
            rounds=0,
        )
        with torch.no_grad():
            return torch.cat([points, ends.point[excess(ends.point) < 0]])

    def _points(self) -> Tensor:
        if self.starts is not None:
            return self.starts
        if self.region.candidates is not None:
            return self.region.candidates
        sobol = draw_sobol_samples(self.region.bounds, n=RAW_SAMPLES, q=1, seed=self.seed)
        return sobol.squeeze(-2)

    def _far_from(self, point: Tensor) -> Tensor:
        """Return the farthest corner of the box, ``1 x d``; none with constraints or choices."""
        lower, upper = self.region.bounds
        if len(self.region.free) < len(point) or self.region.constraints:
            return point.new_empty(0, len(point))
        return torch.where(point - lower > upper - point, lower, upper).unsqueeze(0)
