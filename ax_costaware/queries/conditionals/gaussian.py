"""Points that scatter as a normal law around a mean that the query decides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from ax_costaware.exceptions import InputError
from ax_costaware.queries.argument_checks import integer_at_least, nonnegative_number
from ax_costaware.queries.conditionals import fields
from ax_costaware.queries.conditionals.fields import Matrix, Numbers
from ax_costaware.queries.conditionals.independent import (
    MOST_GRID_COLUMNS,
    IndependentConditional,
    grid_side,
    sobol_points,
)
from ax_costaware.queries.conditionals.means import checked_name, conditional_mean
from ax_costaware.queries.conditionals.normal_rules import (
    clipped_normal,
    normal_grid,
    normal_rule,
)
from ax_costaware.queries.conditionals.rules import ColumnNodes, JointNodes, NormalLaw


@dataclass(frozen=True)
class GaussianConditional(IndependentConditional):
    """``x ~ N(weight a + bias, covariance)``, or with a mean that the user registers by name.

    Raises:
        InputError: For fields of the wrong shape, a covariance that is not symmetric and positive
            semidefinite, or both or neither of an affine and a named mean.
    """

    weight: Matrix | None = None
    """``d x p``."""

    bias: Numbers | None = None
    """``d`` numbers; ``None`` for zeros."""

    covariance: float | Numbers | Matrix = 0.0
    """In squared units of X: a variance for all columns, ``d`` variances, or ``d x d``. With zero,
    a query is its mean alone."""

    mean: str | None = None
    """The name of a registered mean, in place of ``weight`` and ``bias``."""

    lower: Numbers | None = None
    """Lower bounds of X, ``d``; ``None`` where there are none."""

    upper: Numbers | None = None
    """Upper bounds of X."""

    outside: Literal["refuse", "clip", "keep"] = "refuse"
    """What is done with points outside of the bounds. ``"refuse"``: a query that has more than a
    thousandth of its mass there is an error. ``"clip"``: a point outside is moved to the bound.
    ``"keep"``: the objective exists out there too."""

    num_nodes: int = 16
    """Nodes of each column; clipped laws take two times as many, and the bounds. A model with a
    squared-exponential kernel takes more of them where its length-scales are short, so that
    averages are right to about 1e-7; of dependent columns that are not clipped it takes the closed
    form. Dependent columns that are clipped, and other kernels, have at most 64 joint nodes, which
    are enough where a standard deviation is at most a length-scale."""

    _NODES_PER_REACH = 1.95

    query_columns: int | None = None
    """The number of columns of a query, with a named mean only."""

    def __post_init__(self) -> None:
        d: int | None
        if self.mean is None:
            if self.weight is None or self.query_columns is not None:
                raise InputError(
                    f"weight={self.weight!r}, mean=None, query_columns={self.query_columns!r}: "
                    "expected a weight, or mean and query_columns (see from_mean)."
                )
            fields.set_field(self, "weight", fields.matrix(self.weight, "weight"))
            d = len(self.weight)
            bias = (0.0,) * d if self.bias is None else self.bias
            fields.set_field(self, "bias", fields.numbers(bias, "bias", d))
        else:
            checked_name(self.mean)
            if self.weight is not None or self.bias is not None:
                raise InputError(
                    f"mean={self.mean!r} beside weight={self.weight!r}, bias={self.bias!r}: "
                    "expected either."
                )
            fields.set_field(
                self, "query_columns", integer_at_least(self.query_columns, 1, "query_columns")
            )
            d = None
        covariance, width = _checked_covariance(self.covariance, d)
        fields.set_field(self, "covariance", covariance)
        lower, upper = fields.bounds(self.lower, self.upper, d or width)
        fields.set_field(self, "lower", lower)
        fields.set_field(self, "upper", upper)
        fields.outside(self.outside)
        fields.set_field(self, "num_nodes", integer_at_least(self.num_nodes, 1, "num_nodes"))

    @classmethod
    def from_mean(
        cls, name: str, num_query_columns: int, covariance: Any, **options: Any
    ) -> GaussianConditional:
        """A normal law around a mean that is registered by ``register_conditional_mean``.

        Args:
            name: The name; the function is looked up when the conditional is used.
            num_query_columns: The number of columns of a query, ``p``.
            covariance: See the field.
            options: Other fields: ``lower``, ``upper``, ``outside``, ``num_nodes``.

        Raises:
            InputError: As the class.
        """
        return cls(covariance=covariance, mean=name, query_columns=num_query_columns, **options)

    @property
    @override
    def num_query_columns(self) -> int:
        if self.weight is not None:
            return len(self.weight[0])
        assert self.query_columns is not None
        return self.query_columns

    @property
    @override
    def num_target_columns(self) -> int | None:
        for field in (self.weight, self.covariance, self.lower):
            if isinstance(field, tuple):
                return len(field)
        return None

    @override
    def within(self, lower: Any, upper: Any) -> Self:
        low, high = fields.bounds(lower, upper, self.num_target_columns)
        return self if self.lower is not None else replace(self, lower=low, upper=high)

    def mean_of(self, A: Tensor) -> Tensor:
        """The means ``... x d`` of queries ``... x p``, in raw units.

        Raises:
            InputError: For a name that is not registered, or a function that returns another shape
                or what is not finite.
        """
        self.check_shape(A)
        if self.weight is not None:
            means: Tensor = A @ A.new_tensor(self.weight).T + A.new_tensor(self.bias)
            return means
        assert self.mean is not None
        found: Any = conditional_mean(self.mean)(A)
        d = self.num_target_columns
        if (
            not isinstance(found, Tensor)
            or found.shape[:-1] != A.shape[:-1]
            or (d is not None and found.shape[-1] != d)
        ):
            shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(
                f"mean={self.mean!r} returned {shape} for queries of shape {tuple(A.shape)}: "
                f"expected a tensor of shape {(*A.shape[:-1], d if d is not None else 'd')}."
            )
        if not bool(torch.isfinite(found).all()):
            raise InputError(f"mean={self.mean!r} returned values that are not finite.")
        means = found.to(A)
        return means

    @override
    def column_rule(self, A: Tensor) -> ColumnNodes | None:
        if self._variances(self.mean_of(A)) is None:
            return None
        return super().column_rule(A)

    @override
    def normal_law(self, A: Tensor) -> NormalLaw | None:
        if self._clips:
            return None
        mean = self.mean_of(A)
        variances = self._variances(mean)
        if variances is None:
            return NormalLaw(mean, mean.new_tensor(self.covariance))
        return NormalLaw(mean, torch.diag(mean.new_tensor(variances)))

    @override
    def joint_rule(self, A: Tensor) -> JointNodes:
        mean = self.mean_of(A)
        if self._variances(mean) is not None:
            return super().joint_rule(A)
        d = mean.shape[-1]
        values, vectors = np.linalg.eigh(np.array(self.covariance))
        axes = mean.new_tensor(vectors * np.sqrt(np.clip(values, 0, None)))
        if d <= MOST_GRID_COLUMNS:
            n = min(self.num_nodes, grid_side(d))
            standard, weights = (torch.tensor(v).to(mean) for v in normal_grid(n, d))
        else:
            standard = torch.special.ndtri(sobol_points(d, mean))
            weights = torch.full_like(standard[:, 0], 1 / len(standard))
        nodes = mean.unsqueeze(-2) + standard @ axes.T
        return self._clipped(JointNodes(nodes, weights.expand(nodes.shape[:-1])))

    @override
    def _columns(self, A: Tensor, num_nodes: int, clip: bool) -> ColumnNodes:
        mean = self.mean_of(A)
        variances = self._variances(mean)
        assert variances is not None
        scale = mean.new_tensor(variances).sqrt()
        if clip:
            return clipped_normal(mean, scale, *self._limits(mean), num_nodes)
        standard, weights = (torch.tensor(v).to(mean) for v in normal_rule(num_nodes))
        if not any(variances):
            standard, weights = standard.new_zeros(1), weights.new_ones(1)
        nodes = mean.unsqueeze(-2) + standard[:, None] * scale
        return ColumnNodes(nodes, weights[:, None].expand_as(nodes))

    @override
    def _quantiles(self, A: Tensor, u: Tensor) -> Tensor:
        mean = self.mean_of(A)
        variances = self._variances(mean)
        assert variances is not None
        spread: Tensor = torch.special.ndtri(u) * mean.new_tensor(variances).sqrt()
        return mean.unsqueeze(-2) + spread

    @override
    def _columns_outside(self, rows: Tensor) -> Tensor:
        mean = self.mean_of(rows)
        lower, upper = self._limits(mean)
        covariance = self.covariance
        if isinstance(covariance, tuple) and isinstance(covariance[0], tuple):
            covariance = tuple(float(v) for v in np.diag(np.array(covariance)))
        scale = mean.new_tensor(covariance).sqrt().expand_as(mean)
        moving = torch.where(scale > 0, scale, torch.ones_like(scale))
        spread = torch.special.ndtr((lower - mean) / moving) + torch.special.ndtr(
            (mean - upper) / moving
        )
        return torch.where(scale > 0, spread, ((mean < lower) | (mean > upper)).to(mean))

    @override
    def _probability_outside(self, rows: Tensor) -> Tensor:
        columns = self._columns_outside(rows)
        if self._variances(columns) is None:
            # The probability of a union is at most the sum, whatever the correlations.
            return columns.sum(dim=-1).clamp_max(1.0)
        return 1 - (1 - columns).prod(dim=-1)

    def _variances(self, mean: Tensor) -> Numbers | None:
        """The ``d`` variances of independent columns, or ``None`` where they are dependent."""
        covariance = self.covariance
        if not isinstance(covariance, tuple):
            return (covariance,) * mean.shape[-1]
        if not isinstance(covariance[0], tuple):
            return covariance
        full = np.array(covariance)
        if np.array_equal(full, np.diag(np.diag(full))):
            return tuple(np.diag(full).tolist())
        return None


def _checked_covariance(value: Any, d: int | None) -> tuple[float | Numbers | Matrix, int | None]:
    """The covariance as a plain value, and its number of columns where it shows."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        return nonnegative_number(value, "covariance"), None
    if value and not isinstance(value[0], list | tuple) and not getattr(value[0], "ndim", 0):
        variances = fields.numbers(value, "covariance", d)
        for i, variance in enumerate(variances):
            nonnegative_number(variance, f"covariance[{i}]")
        return variances, len(variances)
    full = fields.matrix(value, "covariance", d)
    array = np.array(full)
    if array.shape[0] != array.shape[1] or (d is not None and len(full) != d):
        raise InputError(
            f"covariance of shape {array.shape}: expected a number, d variances or d x d numbers."
        )
    if not np.allclose(array, array.T, rtol=1e-9, atol=0):
        raise InputError(f"covariance={value!r}: expected a symmetric matrix.")
    least = float(np.linalg.eigvalsh(array)[0])
    if least < -1e-9 * np.abs(array).max():
        raise InputError(
            f"covariance={value!r} has the eigenvalue {least:.3g}: expected none below zero."
        )
    return full, len(full)
