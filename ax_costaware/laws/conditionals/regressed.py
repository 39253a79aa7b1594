"""Regression of points on queries with normal residuals: a conditional learned from pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import torch
from scipy.linalg import lstsq
from scipy.special import ndtri
from torch import Tensor
from typing_extensions import override

from ax_costaware.argument_checks import Numbers, at_least, check_fields, one_of
from ax_costaware.exceptions import InputError
from ax_costaware.laws.conditionals.conditional import (
    ColumnNodes,
    JointNodes,
    NormalLaw,
    PairNodes,
    SharedNodes,
    plain,
)
from ax_costaware.laws.conditionals.gaussian import GaussianConditional
from ax_costaware.laws.conditionals.landmarks import (
    half_median_distance,
    rbf,
    some_rows,
    spreads_of,
)
from ax_costaware.laws.conditionals.leave_one_out import Smoother, choose
from ax_costaware.laws.conditionals.pairs import PairsConditional, squared_distances
from ax_costaware.laws.quadrature import uniforms
from ax_costaware.laws.tables import Array

_FARTHEST = 2.0
"""Distance from every pair, in standard deviations of queries, beyond which a query is refused."""

_MOST_PAIRS, _MOST_TO_SEARCH = 2000, 500
"""Largest random subset of pairs for the fit, and for the choice of hyperparameters."""

_NUM_DRAWS = 512
"""Quasi-random pairs of draws, by which the embedding of a distribution is estimated."""

_DEPENDENT = 0.3
"""Correlation of residuals from which on columns are dependent, if it is also above three standard
errors."""


@dataclass(frozen=True, eq=False, repr=False)
class RegressedConditional(PairsConditional):
    """Regression ``x = m(a) + e`` of points on queries, with normal residuals ``e``.

    Each column of ``m`` is a line plus a kernel smoother of its residuals (universal kriging), with
    one RBF of the standardized columns of queries. Length-scale and ridge minimize the closed-form
    leave-one-out error of all columns (Craven and Wahba 1979, *Smoothing noisy data with spline
    functions*). The distribution of ``e`` is the same everywhere, with the covariance of the
    leave-one-out residuals, which includes the error of ``m``. Columns may be dependent if there
    are at most two, or if points are not clipped. The regression is fitted on first use.

    If the map from queries to points is smooth, it needs far fewer pairs than a
    ``LearnedConditional``, which assumes no form of the distribution. The one with the smaller
    ``leave_one_out`` describes the pairs better.

    Raises:
        InputError: If X and A differ in length, values are not finite, there are fewer than
            ``p + 3`` pairs or no more pairs than columns of ``X``, or a column of queries is
            constant.
    """

    X: Array
    """Points ``N x d`` in raw units, any array-like; stored as a read-only double array. Columns of
    a data frame are matched by name."""

    A: Array
    """Queries of the points, ``N x p``, in the same form."""

    lower: Numbers | None = None
    """Lower bounds of X, ``d``; None without bounds."""

    upper: Numbers | None = None
    """Upper bounds of X."""

    outside: Literal["clip", "keep"] = "clip"
    """Policy for points outside of the bounds, of the pairs and of the distribution: moved to the
    bounds, or kept."""

    num_nodes: int = 16
    """Number of nodes of each column, as in ``GaussianConditional``."""

    seed: int = 0
    """Seed of the random subset of more than 2000 pairs."""

    target_names: tuple[str, ...] | None = None
    """Names of the columns of ``X``; None for those of a data frame, or without names."""

    query_names: tuple[str, ...] | None = None
    """Names of the columns of ``A``."""

    sums_to_one = True

    def __post_init__(self) -> None:
        self._check_pairs()
        least = self.num_query_columns + 3
        if self.num_pairs < least:
            raise InputError(
                f"X and A have {self.num_pairs} pairs: expected at least {least}, for queries of "
                f"{self.num_query_columns} columns."
            )
        one_of(self.outside, "outside", ("clip", "keep"))
        check_fields(self, num_nodes=at_least(1), seed=at_least(0))
        self._check_bounds(self.num_latent_columns)

    @property
    @override
    def leave_one_out(self) -> float:
        own, d = self._regression, self.num_latent_columns
        spreads = spreads_of(self._points)
        unit = spreads * half_median_distance(self._points / spreads)
        standard = ndtri(uniforms(2 * d, _NUM_DRAWS, 0).numpy())
        covariance = np.array(self._law.covariance)
        values, vectors = np.linalg.eigh(
            np.diag(covariance) if covariance.ndim == 1 else covariance
        )
        root = vectors * np.sqrt(values.clip(0.0))

        def law(standard: Array) -> Array:
            drawn = (own.points - own.residuals)[:, None] + standard @ root.T
            if self._clips:
                drawn = np.clip(drawn, np.array(self.lower), np.array(self.upper))
            return np.asarray(drawn / unit)

        first, second = law(standard[:, :d]), law(standard[:, d:])
        at_point = np.exp(-0.5 * ((first - (own.points / unit)[:, None]) ** 2).sum(-1))
        alike = np.exp(-0.5 * ((first - second) ** 2).sum(-1))
        return float((1 - 2 * at_point + alike).mean())

    @override
    def joint_rule(self, A: Tensor) -> SharedNodes | JointNodes:
        return self._law.joint_rule(A)

    @override
    def column_rule(self, A: Tensor) -> ColumnNodes | None:
        return self._law.column_rule(A)

    @override
    def pair_rule(self, A: Tensor, refinement: Sequence[int] = (1, 1)) -> PairNodes | None:
        return self._law.pair_rule(A, refinement)

    @override
    def normal_law(self, A: Tensor) -> NormalLaw | None:
        return self._law.normal_law(A)

    @override
    def refinement(self, reach: float) -> int:
        return self._law.refinement(reach)

    @override
    def refined(self, factor: int) -> Self:
        finer = replace(self, num_nodes=factor * self.num_nodes)
        # The fit does not depend on the number of nodes.
        vars(finer)["_regression"] = self._regression
        return finer

    @override
    def _check_rows(self, rows: Tensor) -> None:
        far = self._regression.distances(rows).min(dim=-1).values
        if len(far) and float(far.max()) > _FARTHEST:
            worst = int(far.argmax())
            raise InputError(
                f"query {plain(rows[worst])} is {float(far[worst]):.3g} standard deviations of the "
                f"queries away from every pair: expected at most {_FARTHEST:g}, since nothing was "
                "learned there."
            )

    @cached_property
    def _regression(self) -> Regression:
        return Regression.of(self._points, self.A, self.seed)

    @cached_property
    def _law(self) -> _Regressed:
        own = self._regression
        # Fast sums do not exist for three dependent columns that are clipped.
        dependent = self.num_latent_columns <= 2 or not self._clips
        return _Regressed(
            covariance=own.scatter(dependent),
            lower=self.lower,
            upper=self.upper,
            outside=self.outside,
            num_nodes=self.num_nodes,
            query_columns=self.num_query_columns,
            regression=own,
        )


@dataclass(frozen=True, eq=False)
class Regression:
    """Line plus kernel smoother, fitted to pairs."""

    origin: Array
    """Means of the ``p`` columns of queries."""

    scale: Array
    """Standard deviations of the ``p`` columns of queries."""

    centres: Array
    """Standardized queries of the pairs, ``n x p``."""

    lengthscale: float
    """Length-scale of the kernel, in standard deviations of the queries."""

    line: Array
    """Intercepts and slopes, ``(1 + p) x d``."""

    weights: Array
    """Weights of the kernels at the centers, ``n x d``."""

    points: Array
    """Points of the pairs with a leave-one-out residual: without another one, the line would be
    undetermined."""

    residuals: Array
    """Leave-one-out residuals of these points, ``d`` columns."""

    @classmethod
    def of(cls, X: Array, A: Array, seed: int) -> Self:
        """Fit a regression of points ``N x d`` on queries ``N x p``."""
        origin, scale, spreads = A.mean(0), A.std(0), spreads_of(X)
        scaled, F = (A - origin) / scale, X / spreads

        few, rows = (some_rows(len(A), most, seed) for most in (_MOST_TO_SEARCH, _MOST_PAIRS))

        def smoother(rows: Any, lengthscale: float) -> tuple[Array, Array, Smoother]:
            some = scaled[rows] / lengthscale
            kernel, line = rbf(some, some), np.column_stack([np.ones(len(some)), scaled[rows]])
            return kernel, line, Smoother(kernel, line)

        lengthscale, ridge = choose(lambda length: smoother(few, length)[-1].errors(F[few]), None)
        kernel, trend, fitted = smoother(rows, lengthscale)
        weights, residuals = fitted.weights(F[rows], ridge)
        line, *_ = lstsq(trend, F[rows] - kernel @ weights - ridge * weights)
        return cls(
            origin=origin,
            scale=scale,
            centres=scaled[rows],
            lengthscale=lengthscale,
            line=line * spreads,
            weights=weights * spreads,
            points=X[rows][fitted.is_determined],
            residuals=residuals * spreads,
        )

    def scatter(self, dependent: bool = True) -> tuple[Any, ...]:
        """Return the covariance of the residuals in the form of ``GaussianConditional``.

        Args:
            dependent: True if columns may be dependent.
        """
        covariance = self.residuals.T @ self.residuals / len(self.residuals)
        deviations = np.sqrt(np.diag(covariance))
        safe = np.where(deviations > 0, deviations, 1.0)
        correlations = covariance / np.outer(safe, safe) - np.diag(deviations > 0)
        least = max(_DEPENDENT, 3 / np.sqrt(len(self.residuals)))
        if not dependent or np.abs(correlations).max() < least:
            return tuple(np.diag(covariance).tolist())
        return tuple(map(tuple, covariance.tolist()))

    def distances(self, A: Tensor) -> Tensor:
        """Return distances ``... x n`` of queries from those of pairs, in standard deviations."""
        return torch.cdist(self._scaled(A), self._tensor(self.centres, A))

    def mean(self, A: Tensor) -> Tensor:
        """Return the regression ``... x d`` at queries ``... x p``."""
        scaled, line = self._scaled(A), self._tensor(self.line, A)
        squares = squared_distances(scaled, self._tensor(self.centres, A))
        kernel = torch.exp(-0.5 * squares / self.lengthscale**2)
        return (line[0] + scaled @ line[1:] + kernel @ self._tensor(self.weights, A)).to(A)

    def _scaled(self, A: Tensor) -> Tensor:
        return (A.double() - self._tensor(self.origin, A)) / self._tensor(self.scale, A)

    def _tensor(self, values: Array, like: Tensor) -> Tensor:
        return torch.as_tensor(values, device=like.device)


@dataclass(frozen=True)
class _Regressed(GaussianConditional):
    """Normal distribution about a regression."""

    regression: Any = None

    def __post_init__(self) -> None:
        """Skip the checks of a user's arguments."""

    @override
    def mean_of(self, A: Tensor) -> Tensor:
        self.check_shape(A)
        found: Tensor = self.regression.mean(A)
        return found
