r"""Kernel of averages of a function and of its values at points.

.. math:: q(a, a') = \iint k(x, x') \, p(x | a) \, p(x' | a') \, dx \, dx'

(Chau, Bouabid and Sejdinovic 2021, "Deconditional Downscaling with Gaussian Processes"; Zhang et
al. 2024, "Indirect Query Bayesian Optimization with Integrated Feedback", equation 3). With it a
Gaussian process over queries is one like any other, and so is the joint one of
:math:`g(a) = E[f(X) | a]` and :math:`f(x)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from botorch.models.transforms.input import InputTransform
from gpytorch.kernels import Kernel
from torch import Tensor

from ax_costaware.exceptions import InputError
from ax_costaware.laws import ColumnNodes, Conditional, PairNodes, SharedNodes
from ax_costaware.models.factor import AFFINE, COLUMNWISE, is_made_of
from ax_costaware.models.functionals import (
    ColumnAverages,
    Functionals,
    GaussianAverages,
    JointAverages,
    Points,
    SharedAverages,
    is_squared_exponential,
    lengthscales,
)
from ax_costaware.models.grid_averages import GridAverages, grid_weights, side_of

_LEAST_WEIGHT = 1e-12
"""Weight below which nodes do not count for the width of a distribution."""

_MOST_NODES = 2**16
"""Largest number of nodes of pairs of columns in memory."""

_MOST_REACH = 64.0
"""Largest half-width of pairs of columns, in length-scales, up to which rules are refined. Above,
the side of the grid is the limit, and finer rules take minutes."""

_CACHE_SIZE = 4
"""Number of cached tensors of rows: a fit evaluates those of its data at every step."""


class AverageKernel(Kernel):  # type: ignore[misc]  # GPyTorch is not typed
    """Covariances between averages under a conditional distribution, and points.

    A row has ``p + d + 1`` columns: a query of ``p`` columns, a point of ``d`` columns, and a flag:
    0 for the average at the query, 1 for the value at the point.

    Args:
        base_kernel: Kernel of the function, over ``d`` columns.
        conditional: Distribution of the inputs given a query.
        latent_transform: Transform of inputs in raw units to those of ``base_kernel``.

    Raises:
        InputError: If the transform learns its coefficients from its inputs.
    """

    def __init__(
        self,
        base_kernel: Kernel,
        conditional: Conditional,
        latent_transform: InputTransform | None = None,
    ) -> None:
        super().__init__()
        self.base_kernel = base_kernel
        self.conditional = conditional
        self.latent_transform = latent_transform
        self.num_query_columns = conditional.num_query_columns
        self.num_latent_columns = latent_columns(conditional)
        if latent_transform is not None:
            parts = latent_transform.modules()
            if any(getattr(part, "learn_coefficients", False) for part in parts):
                raise InputError(
                    f"latent_transform={latent_transform!r}: expected one whose bounds or "
                    "coefficients are given, such as Normalize(d, bounds=bounds)."
                )
            latent_transform.eval()
        self._cache: list[_CachedAverages] = []

    def query_rows(self, A: Tensor) -> Tensor:
        """Return rows of averages at queries ``... x p``.

        Raises:
            InputError: If the number of columns is wrong.
        """
        self.conditional.check_shape(A)
        rest = A.new_zeros(*A.shape[:-1], self.num_latent_columns + 1)
        return torch.cat([A, rest], dim=-1)

    def point_rows(self, X: Tensor) -> Tensor:
        """Return rows of the function at points ``... x d``, in raw units.

        Raises:
            InputError: If the number of columns is wrong.
        """
        self._check_points(X)
        query = X.new_zeros(*X.shape[:-1], self.num_query_columns)
        return torch.cat([query, X, X.new_ones(*X.shape[:-1], 1)], dim=-1)

    def _check_points(self, X: Tensor) -> None:
        if not isinstance(X, Tensor) or X.ndim == 0 or X.shape[-1] != self.num_latent_columns:
            shape = tuple(X.shape) if isinstance(X, Tensor) else X
            expected = f"points of {self.num_latent_columns} columns"
            raise InputError(f"X of shape {shape!r}: expected {expected}.")

    def points(self, X: Tensor) -> Points:
        """Return the values of the function at points ``... x d``, in raw units.

        Raises:
            InputError: If the number of columns is wrong.
        """
        self._check_points(X)
        return Points(self.transform(X))

    def transform(self, X: Tensor) -> Tensor:
        """Return points ``... x d`` in raw units in the space of ``base_kernel``."""
        if self.latent_transform is None:
            return X
        transformed: Tensor = self.latent_transform.transform(X)
        return transformed

    def averages(self, rows: Tensor) -> Functionals:
        """Return the functionals of rows ``... x n x (p + d + 1)``: all queries, or all points."""
        transform = self.latent_transform
        # Nodes that depend on fitted parameters are not cached.
        is_fitted = transform is not None and any(True for _ in transform.parameters())
        is_inference = rows.is_inference() or torch.is_inference_mode_enabled()
        if is_fitted or is_inference or rows.requires_grad:
            return self._read(rows).averages
        for known in self._cache:
            its = known.rows
            alike = (its.shape, its.dtype, its.device) == (rows.shape, rows.dtype, rows.device)
            if alike and torch.equal(its, rows):
                resolution = self._resolution(known.reach, len(known.resolution) > 1)
                if known.resolution == resolution:
                    return known.averages
        found = self._read(rows)
        # Nor are nodes that depend on parameters of a user's function.
        if not any(
            tensor.requires_grad for tensor in vars(found.averages).values() if tensor is not None
        ):
            self._cache = [found, *self._cache][:_CACHE_SIZE]
        return found.averages

    def totals(self, rows: Tensor) -> Tensor:
        """Return the functionals of the constant one, ``... x n``: sums of weights, 1 at points."""
        if rows.numel() == 0:
            return torch.ones_like(rows[..., 0])
        parts = [
            self.averages(part).total * torch.ones_like(part[..., 0]) for part in self._split(rows)
        ]
        return torch.cat(parts, dim=-1)

    def _resolution(self, reach: Tensor | None, is_pair: bool) -> tuple[int, ...]:
        """Return the refinement of the rules of columns for the current length-scales.

        For a pair of columns: the refinement of each of them, and the sides of the grid.
        """
        if reach is None:
            return (1,)
        refinement = self.conditional.refinement
        scaled = (reach / lengthscales(self.base_kernel, len(reach)).detach()).tolist()
        if not is_pair:
            return (refinement(max(scaled)),)
        # The rule of the second column moves with the first one.
        first, second = min(sum(scaled), _MOST_REACH), min(scaled[1], _MOST_REACH)
        return refinement(first), refinement(second), *map(side_of, scaled)

    def _read(self, rows: Tensor) -> _CachedAverages:
        key, transform, p = rows.detach().clone(), self.latent_transform, self.num_query_columns
        if bool((rows[..., -1] != 0).any()):
            return _CachedAverages(key, Points(self.transform(rows[..., p:-1])))
        A, conditional = rows[..., :p], self.conditional
        if is_squared_exponential(self.base_kernel):
            law = conditional.normal_law(A) if is_made_of(transform, AFFINE) else None
            if law is not None:
                origin = law.means.new_zeros(1, law.means.shape[-1])
                slopes = self.transform(origin + 1) - self.transform(origin)
                covariance = slopes.mT * law.covariance * slopes
                return _CachedAverages(key, GaussianAverages(self.transform(law.means), covariance))
            if is_made_of(transform, COLUMNWISE):
                found = self._of_columns(key, A) or self._of_pair(key, A)
                if found is not None:
                    return found
        return _CachedAverages(key, self._of_joint_rule(A))

    def _of_joint_rule(self, A: Tensor) -> Functionals:
        rule = self.conditional.joint_rule(A)
        nodes = self.transform(rule.nodes)
        if isinstance(rule, SharedNodes):
            return SharedAverages(nodes, rule.weights, rule.errors)
        return JointAverages(nodes, rule.weights)

    def _of_columns(self, key: Tensor, A: Tensor) -> _CachedAverages | None:
        columns = self.conditional.column_rule(A)
        if columns is None:
            return None
        reach = self._reach(columns) if columns.nodes.numel() else None
        resolution = self._resolution(reach, False)
        if resolution[0] > 1:
            columns = self.conditional.refined(resolution[0]).column_rule(A)
            assert columns is not None
        averages = ColumnAverages(self.transform(columns.nodes), columns.weights)
        return _CachedAverages(key, averages, reach, resolution)

    def _of_pair(self, key: Tensor, A: Tensor) -> _CachedAverages | None:
        queries = A.reshape(-1, A.shape[-1])
        nodes = self.conditional.pair_rule(queries[:1])
        if nodes is None:
            return None
        bounds = self.transform(nodes.bounds)
        reach = bounds.detach().diff(dim=0).squeeze(0) / 2
        resolution = self._resolution(reach, True)
        refinement, sides = resolution[:2], resolution[2:]
        rows = max(1, _MOST_NODES // math.prod((*nodes.second.shape[-2:], *refinement)))
        parts = [
            grid_weights(self._transformed(self.conditional.pair_rule(part, refinement)), sides)
            for part in queries.split(rows)
        ]
        weights = torch.cat(parts).reshape(*A.shape[:-1], *sides)
        return _CachedAverages(key, GridAverages(bounds, weights), reach, resolution)

    def _transformed(self, nodes: PairNodes | None) -> PairNodes:
        assert nodes is not None
        joint = [nodes.first.unsqueeze(-1).expand_as(nodes.second), nodes.second]
        first, second = self.transform(torch.stack(joint, dim=-1)).unbind(dim=-1)
        return replace(
            nodes, first=first[..., 0], second=second, bounds=self.transform(nodes.bounds)
        )

    def _reach(self, columns: ColumnNodes) -> Tensor:
        """Return the largest distance of a node from the middle of its average, ``d``."""
        with torch.no_grad():
            nodes, counts = self.transform(columns.nodes), columns.weights > _LEAST_WEIGHT
            high = nodes.masked_fill(~counts, -torch.inf).amax(dim=-2)
            low = nodes.masked_fill(~counts, torch.inf).amin(dim=-2)
            return (high - low).flatten(0, -2).amax(dim=0) / 2

    def forward(
        self,
        x1: Tensor,
        x2: Tensor,
        diag: bool = False,
        **params: Any,
    ) -> Tensor:
        """Return covariances between rows, ``... x n x m``, or with ``diag`` their variances."""
        if 0 in (x1.numel(), x2.numel()):  # of no rows, or in a batch of none
            batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
            rows = (x1.shape[-2],) if diag else (x1.shape[-2], x2.shape[-2])
            return x1.new_zeros(*batch, *rows)
        left, kernel = self._parts(x1), self.base_kernel
        if diag and torch.equal(x1, x2):
            return torch.cat([part.variance(kernel) for part in left], dim=-1)
        right = left if x1 is x2 else self._parts(x2)
        blocks = [
            torch.cat([part.covariance(other, kernel) for other in right], dim=-1) for part in left
        ]
        covariance = torch.cat(blocks, dim=-2)
        return covariance.diagonal(dim1=-2, dim2=-1) if diag else covariance

    def _parts(self, rows: Tensor) -> list[Functionals]:
        """Return the averages and points of rows in order, which is the same in all batches."""
        return [self.averages(part) for part in self._split(rows)]

    def _split(self, rows: Tensor) -> tuple[Tensor, ...]:
        kinds = rows[..., -1].reshape(-1, rows.shape[-2])[0]
        _, counts = kinds.unique_consecutive(return_counts=True)
        parts: tuple[Tensor, ...] = rows.split(counts.tolist(), dim=-2)
        return parts


@dataclass(frozen=True, eq=False)
class _CachedAverages:
    """Cached averages of rows."""

    rows: Tensor
    averages: Functionals
    reach: Tensor | None = None
    resolution: tuple[int, ...] = (1,)


def latent_columns(conditional: Conditional) -> int:
    """Return the number ``d`` of columns of the points of a conditional."""
    columns = conditional.num_latent_columns
    if columns is None:  # only the user's mean function shows it
        query = torch.zeros(1, conditional.num_query_columns, dtype=torch.double)
        columns = conditional.joint_rule(query).nodes.shape[-1]
    return columns
