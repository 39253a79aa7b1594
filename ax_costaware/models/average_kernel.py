r"""The kernel of averages of a function and of its values at points, over one kind of row.

.. math:: q(a, a') = \iint k(x, x') \, p(x | a) \, p(x' | a') \, dx \, dx'

(Chau, Bouabid and Sejdinovic 2021, "Deconditional Downscaling with Gaussian Processes"; Zhang et
al. 2024, "Indirect Query Bayesian Optimization with Integrated Feedback", equation 3). With it a
Gaussian process over queries is one like any other, and so is the joint one of
:math:`g(a) = E[f(X) | a]` and :math:`f(x)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from botorch.models.transforms.input import (
    ChainedInputTransform,
    InputStandardize,
    InputTransform,
    Normalize,
)
from gpytorch.kernels import Kernel, ScaleKernel
from torch import Tensor

from ax_costaware.exceptions import InputError
from ax_costaware.models.averages import (
    Averages,
    ColumnAverages,
    JointAverages,
    SharedAverages,
    is_squared_exponential,
)
from ax_costaware.models.cached_posterior import acts_columnwise
from ax_costaware.models.gaussian_averages import GaussianAverages
from ax_costaware.queries.conditionals import ColumnNodes, Conditional, NormalLaw, SharedNodes

_LEAST_WEIGHT = 1e-12
"""Nodes of less weight do not count for how wide a law is."""

_REMEMBERED = 4
"""Rows whose nodes and weights are kept, since a fit asks for those of its data at every step."""


class AverageKernel(Kernel):  # type: ignore[misc]  # GPyTorch is not typed
    """Covariances between averages under a conditional distribution, and points.

    A row has ``p + d + 1`` columns: a query of ``p``, a point of ``d``, and which of the two
    counts: 0 for the average at the query, 1 for the value at the point.

    Args:
        base_kernel: The kernel of the function, over ``d`` columns.
        conditional: The distribution of the inputs given a query.
        target_transform: From inputs in raw units to those of ``base_kernel``.

    Raises:
        InputError: For a transform that learns its coefficients from the inputs that it sees.
    """

    def __init__(
        self,
        base_kernel: Kernel,
        conditional: Conditional,
        target_transform: InputTransform | None = None,
    ) -> None:
        super().__init__()
        self.base_kernel = base_kernel
        self.conditional = conditional
        self.target_transform = target_transform
        self.num_target_columns = target_columns(conditional)
        if target_transform is not None:
            _check_transform(target_transform)
            target_transform.eval()
        self._remembered: list[_Remembered] = []

    @property
    def num_query_columns(self) -> int:
        """The number ``p`` of columns of a query."""
        return self.conditional.num_query_columns

    def query_rows(self, A: Tensor) -> Tensor:
        """Rows of averages at queries ``... x p``.

        Raises:
            InputError: For another number of columns.
        """
        self._check_width("queries", A, self.num_query_columns)
        rest = A.new_zeros(*A.shape[:-1], self.num_target_columns + 1)
        return torch.cat([A, rest], dim=-1)

    def point_rows(self, X: Tensor) -> Tensor:
        """Rows of the function at points ``... x d``, in raw units.

        Raises:
            InputError: For another number of columns.
        """
        self._check_width("points", X, self.num_target_columns)
        query = X.new_zeros(*X.shape[:-1], self.num_query_columns)
        return torch.cat([query, X, X.new_ones(*X.shape[:-1], 1)], dim=-1)

    def transform(self, X: Tensor) -> Tensor:
        """Points ``... x d`` in raw units in the space of ``base_kernel``."""
        if self.target_transform is None:
            return X
        transformed: Tensor = self.target_transform.transform(X)
        return transformed

    def averages(self, rows: Tensor) -> Averages:
        """What rows ``... x n x (p + d + 1)`` stand for, as nodes and weights."""
        if rows.requires_grad or rows.is_inference() or torch.is_inference_mode_enabled():
            return self._averages(rows).averages
        for known in self._remembered:
            if known.is_of(rows) and self._refinement(known.reach) == known.refinement:
                return known.averages
        found = self._averages(rows)
        # Nodes that depend on parameters of the transform belong to one evaluation.
        if not any(
            tensor.requires_grad for tensor in vars(found.averages).values() if tensor is not None
        ):
            self._remembered = [found, *self._remembered][:_REMEMBERED]
        return found.averages

    def _refinement(self, reach: Tensor | None) -> int:
        """How much finer the rules of columns have to be than the conditional has them."""
        if reach is None:
            return 1
        base = self.base_kernel
        base = base.base_kernel if isinstance(base, ScaleKernel) else base
        scaled = reach / base.lengthscale.detach().reshape(-1)
        return self.conditional.refinement(float(scaled.max()))

    def _averages(self, rows: Tensor) -> _Remembered:
        p = self.num_query_columns
        A, X, kind = rows[..., :p], rows[..., p:-1], rows[..., -1]
        points, some = bool((kind != 0).all()), bool((kind != 0).any())
        # Of points alone the conditional says nothing, but what form its averages have.
        asked = A.new_zeros(1, p) if points else A
        columns, reach, refinement = None, None, 1
        if is_squared_exponential(self.base_kernel) and _is_affine(self.target_transform):
            normal = self.conditional.normal_law(asked)
            if normal is not None:
                return _Remembered(
                    rows.detach().clone(), None, 1, self._of_normal_law(normal, X, kind)
                )
        if is_squared_exponential(self.base_kernel) and acts_columnwise(self.target_transform):
            columns = self.conditional.column_rule(asked)
            if columns is not None and not points and columns.nodes.numel():
                reach = self._reach(columns)
                refinement = self._refinement(reach)
                if refinement > 1:
                    columns = self.conditional.refined(refinement).column_rule(asked)
        averages = self._of_rules(asked, X, kind, columns, points, some)
        return _Remembered(rows.detach().clone(), reach, refinement, averages)

    def _reach(self, columns: ColumnNodes) -> Tensor:
        """How far the nodes of one average are from its middle at most, ``d``."""
        with torch.no_grad():
            nodes, counts = self.transform(columns.nodes), columns.weights > _LEAST_WEIGHT
            high = nodes.masked_fill(~counts, -torch.inf).amax(dim=-2)
            low = nodes.masked_fill(~counts, torch.inf).amin(dim=-2)
            return (high - low).flatten(0, -2).amax(dim=0) / 2

    def _of_rules(
        self,
        asked: Tensor,
        X: Tensor,
        kind: Tensor,
        columns: ColumnNodes | None,
        points: bool,
        some: bool,
    ) -> Averages:
        if columns is not None:
            nodes, weights = columns.nodes, columns.weights
            if points:
                nodes, weights = X.unsqueeze(-2), torch.ones_like(X).unsqueeze(-2)
            elif some:
                nodes, weights = _with_points(nodes, weights, X, kind[..., None, None] != 0)
            return ColumnAverages(self.transform(nodes), weights)
        rule = self.conditional.joint_rule(asked)
        if isinstance(rule, SharedNodes):
            weights, errors = rule.weights, rule.errors
            if some and not points:
                weights = weights * (1 - kind).unsqueeze(-1)
                errors = None if errors is None else errors * (1 - kind).unsqueeze(-1)
            return SharedAverages(
                nodes=self.transform(rule.nodes),
                weights=None if points else weights,
                errors=None if points else errors,
                points=self.transform(X),
                is_point=kind if some else None,
            )
        nodes, weights = rule.nodes, rule.weights
        if points:
            nodes, weights = X.unsqueeze(-2), torch.ones_like(kind).unsqueeze(-1)
        elif some:
            nodes, _ = _with_points(nodes, nodes, X, kind[..., None, None] != 0)
            single = torch.zeros_like(weights)
            single[..., 0] = 1.0
            weights = torch.where(kind.unsqueeze(-1) != 0, single, weights)
        return JointAverages(self.transform(nodes), weights)

    def _of_normal_law(self, law: NormalLaw, X: Tensor, kind: Tensor) -> Averages:
        is_average = (kind == 0).to(X)
        means = torch.where(is_average.unsqueeze(-1) == 1, law.means, X)
        origin = torch.zeros_like(X[..., :1, :]).reshape(-1, X.shape[-1])[:1]
        slopes = self.transform(origin + 1) - self.transform(origin)
        covariance = slopes.mT * law.covariance * slopes
        return GaussianAverages(self.transform(means), covariance, is_average)

    def forward(
        self,
        x1: Tensor,
        x2: Tensor,
        diag: bool = False,
        last_dim_is_batch: bool = False,
        **params: Any,
    ) -> Tensor:
        """Covariances between rows, ``... x n x m``, or with ``diag`` their variances."""
        left = self.averages(x1)
        if diag and torch.equal(x1, x2):
            return left.variance(self.base_kernel)
        right = left if x1 is x2 else self.averages(x2)
        covariance = left.covariance(right, self.base_kernel)
        return covariance.diagonal(dim1=-2, dim2=-1) if diag else covariance

    def _check_width(self, name: str, rows: Tensor, width: int) -> None:
        if rows.ndim == 0 or rows.shape[-1] != width:
            raise InputError(f"{name} of shape {tuple(rows.shape)}: expected ... x {width}.")


@dataclass(frozen=True, eq=False)
class _Remembered:
    """The averages of some rows."""

    rows: Tensor
    reach: Tensor | None
    refinement: int
    averages: Averages

    def is_of(self, rows: Tensor) -> bool:
        known = self.rows
        return known.shape == rows.shape and known.dtype == rows.dtype and torch.equal(known, rows)


def target_columns(conditional: Conditional) -> int:
    """The number ``d`` of columns of the points of a conditional."""
    columns = conditional.num_target_columns
    if columns is None:  # a user's function knows it
        query = torch.zeros(1, conditional.num_query_columns, dtype=torch.double)
        columns = conditional.joint_rule(query).nodes.shape[-1]
    return columns


def _is_affine(transform: InputTransform | None) -> bool:
    if isinstance(transform, ChainedInputTransform):
        return all(_is_affine(cast(InputTransform, part)) for part in transform.values())
    return transform is None or type(transform) in (Normalize, InputStandardize)


def _check_transform(transform: InputTransform) -> None:
    if any(getattr(part, "learn_coefficients", False) for part in transform.modules()):
        raise InputError(
            f"target_transform={transform!r}: expected one whose bounds or coefficients are given,"
            " such as Normalize(d, bounds=bounds)."
        )


def _with_points(
    nodes: Tensor, weights: Tensor, X: Tensor, is_point: Tensor
) -> tuple[Tensor, Tensor]:
    """Rules of which those of points have all their weight on one node; all nodes are there."""
    single = torch.zeros_like(weights)
    single[..., 0, :] = 1.0
    return (
        torch.where(is_point, X.unsqueeze(-2), nodes),
        torch.where(is_point, single, weights),
    )
