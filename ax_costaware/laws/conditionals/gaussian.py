"""Normal distribution of points, whose mean is a function of the query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from ax_costaware.argument_checks import (
    Matrix,
    Numbers,
    at_least,
    check_fields,
    matrix,
    nonempty_string,
    nonnegative_number,
    numbers,
    plain_value,
    set_fields,
)
from ax_costaware.exceptions import InputError
from ax_costaware.laws.conditionals.conditional import (
    ColumnNodes,
    JointNodes,
    NormalLaw,
    Outside,
    PairNodes,
    is_sequence,
)
from ax_costaware.laws.conditionals.independent import (
    NORMAL,
    IndependentConditional,
    Scale,
    checked_scale,
    clipped_columns,
    names_of,
    scale_of,
)
from ax_costaware.laws.quadrature import gauss_legendre

MeanFunction: TypeAlias = Callable[[Tensor], Tensor]

_MEANS: dict[str, MeanFunction] = {}

_EXPECTED_NAME = "the name of a registered function"


@dataclass(frozen=True)
class GaussianConditional(IndependentConditional):
    """Normal conditional ``x ~ N(weight a + bias, covariance)``, or with a registered mean.

    Raises:
        InputError: If fields have the wrong shape, the covariance is not symmetric and positive
            semidefinite, or there is not exactly one of an affine and a named mean.
    """

    weight: Matrix | None = None
    """Slopes of the mean, ``d x p``."""

    bias: Numbers | None = None
    """Intercepts of the mean, ``d``; None for zeros."""

    covariance: float | Numbers | Matrix = 0.0
    """Covariance in squared units of X: a variance for all columns, ``d`` variances, or ``d x d``.
    With zero, a query is a point, its mean."""

    mean: str | None = None
    """Name of a registered mean, instead of ``weight`` and ``bias``."""

    lower: Numbers | None = None
    """Lower bounds of X, ``d``; None without bounds."""

    upper: Numbers | None = None
    """Upper bounds of X."""

    outside: Outside = "refuse"
    """Policy for points outside of the bounds. ``"refuse"``: a query with more than a thousandth of
    its mass there is an error. ``"clip"``: points are moved to the bound. ``"keep"``: the objective
    exists there, too."""

    num_nodes: int = 16
    """Number of nodes of each column. Clipped distributions have twice as many, and the bounds.

    With a squared-exponential kernel:

    - Independent columns have more nodes if length-scales are short, for averages right to 1e-7.
    - Two dependent columns that are clipped are right to 1e-6 down to length-scales of a hundredth
      of the bounds, where a decision takes minutes.
    - Dependent columns that are not clipped have a closed form.

    Three or more dependent columns that are clipped, and other kernels, have at most 64 joint
    nodes, enough for standard deviations up to a length-scale. A decision then takes tens of times
    as long as with independent columns, and grows with the square of the number of observations.
    """

    query_columns: int | None = None
    """Number of columns of a query that the mean takes, with a named mean only."""

    standard_deviation: Scale | tuple[Scale, ...] | None = None
    """Standard deviation of independent columns, instead of ``covariance``: a number for all, or
    ``d`` numbers. A name in place of a number is that of the parameter of the query with the
    standard deviation, ``a = (mean, standard deviation)`` (Zhang et al. 2024, section 3.2). It is
    the last column of the query, which the mean does not take."""

    _STANDARD = NORMAL

    def __post_init__(self) -> None:
        d: int | None
        if self.mean is None:
            if self.weight is None or self.query_columns is not None:
                raise InputError(
                    f"weight={self.weight!r}, mean=None, query_columns={self.query_columns!r}: "
                    "expected a weight, or mean and query_columns (see from_mean)."
                )
            weight = matrix(self.weight, "weight")
            d = len(weight)
            bias = (0.0,) * d if self.bias is None else numbers(self.bias, "bias", d)
            set_fields(self, weight=weight, bias=bias)
        else:
            nonempty_string(self.mean, "mean", _EXPECTED_NAME)
            if self.weight is not None or self.bias is not None:
                raise InputError(
                    f"mean={self.mean!r} with weight={self.weight!r}, bias={self.bias!r}: "
                    "expected either."
                )
            check_fields(self, query_columns=at_least(1))
            d = None
        set_fields(self, covariance=_checked_covariance(self.covariance, d))
        if self.standard_deviation is not None:
            check_fields(self, standard_deviation=partial(checked_scale, length=d))
            if self.covariance != 0.0:
                raise InputError(
                    f"covariance={self.covariance!r} with standard_deviation="
                    f"{self.standard_deviation!r}: expected either."
                )
        check_fields(self, num_nodes=at_least(1))
        self._check_bounds(self.num_latent_columns)

    @classmethod
    def from_mean(
        cls, name: str, num_query_columns: int, covariance: Any, **options: Any
    ) -> GaussianConditional:
        """Make a normal conditional with a mean from ``register_conditional_mean``.

        Args:
            name: Name of the function, which is looked up on use.
            num_query_columns: Number of columns of a query, ``p``.
            covariance: See the field.
            options: Other fields: ``lower``, ``upper``, ``outside``, ``num_nodes``.

        Raises:
            InputError: As in the class.
        """
        return cls(covariance=covariance, mean=name, query_columns=num_query_columns, **options)

    @property
    @override
    def num_query_columns(self) -> int:
        return self._num_mean_columns + len(self.resolution_parameters)

    @property
    @override
    def resolution_parameters(self) -> tuple[str, ...]:
        return names_of(self.standard_deviation)

    @property
    def _num_mean_columns(self) -> int:
        if self.weight is not None:
            return len(self.weight[0])
        assert self.query_columns is not None
        return self.query_columns

    @property
    @override
    def num_latent_columns(self) -> int | None:
        for field in (self.weight, self.covariance, self.standard_deviation, self.lower):
            if isinstance(field, tuple):
                return len(field)
        return None

    def mean_of(self, A: Tensor) -> Tensor:
        """Return the means ``... x d`` of queries ``... x p``, in raw units.

        Raises:
            InputError: If the name is not registered, or the function returns another shape or
                values that are not finite.
        """
        self.check_shape(A)
        A = A[..., : self._num_mean_columns]
        if self.weight is not None:
            means: Tensor = A @ A.new_tensor(self.weight).T + A.new_tensor(self.bias)
            return means
        assert self.mean is not None
        found: Any = conditional_mean(self.mean)(A)
        d = self.num_latent_columns
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
        self.check_shape(A)
        return None if self._is_dependent else super().column_rule(A)

    @override
    def pair_rule(self, A: Tensor, refinement: Sequence[int] = (1, 1)) -> PairNodes | None:
        """Return a rule of the first column before clipping, and of the second given it.

        As a function of the first column, the integrand has kinks where that column, or the mean of
        the second given it, reaches a bound. The rule is piecewise between the kinks.
        """
        if not (self._clips and self._is_dependent and self.num_latent_columns == 2):
            return super().pair_rule(A, refinement)
        mean = self.mean_of(A)
        law, (lower, upper) = self._STANDARD, self._limits(mean)
        covariance = mean.new_tensor(self.covariance)
        deviation = covariance[0, 0].sqrt()
        slope = covariance[0, 1] / deviation
        rest = (covariance[1, 1] - slope.square()).clamp_min(0.0).sqrt()
        bends = (torch.stack([lower, upper]) - mean.unsqueeze(-2)) / torch.stack([deviation, slope])
        ends = bends.new_tensor([-law.reach, 0.0, law.reach]).expand(*mean.shape[:-1], 3)
        ends = torch.cat([bends.flatten(-2), ends], dim=-1).clamp(-law.reach, law.reach)
        ends = ends.sort(dim=-1).values.unsqueeze(-1)
        half, middle = ends.diff(dim=-2) / 2, (ends[..., 1:, :] + ends[..., :-1, :]) / 2
        num_nodes, num_second = (factor * self.num_nodes for factor in refinement)
        standard, weights = (torch.tensor(v).to(mean) for v in gauss_legendre(num_nodes))
        first = (middle + standard * half).flatten(-2)
        masses = law.density(first) * (weights * half).flatten(-2)
        columns = clipped_columns(
            law,
            num_second,
            (mean[..., 1:] + slope * first).unsqueeze(-1),
            rest.expand(*first.shape, 1),
            lower[1:],
            upper[1:],
        )
        return PairNodes(
            first=(mean[..., :1] + deviation * first).clamp(lower[0], upper[0]),
            first_weights=masses / masses.sum(dim=-1, keepdim=True),
            second=columns.nodes.squeeze(-1),
            second_weights=columns.weights.squeeze(-1),
            bounds=torch.stack([lower, upper]),
        )

    @override
    def normal_law(self, A: Tensor) -> NormalLaw | None:
        if self._clips or self.standard_deviation is not None:
            return None
        mean = self.mean_of(A)
        covariance = mean.new_tensor(self.covariance)
        if covariance.ndim < 2:
            covariance = torch.diag(covariance.expand(mean.shape[-1]))
        return NormalLaw(mean, covariance)

    @override
    def joint_rule(self, A: Tensor) -> JointNodes:
        if not self._is_dependent:
            return super().joint_rule(A)
        mean = self.mean_of(A)
        values, vectors = np.linalg.eigh(np.array(self.covariance))
        axes = mean.new_tensor(vectors * np.sqrt(np.clip(values, 0, None)))
        rule = self._standard_nodes(mean)
        return self._clipped(mean.unsqueeze(-2) + rule.nodes @ axes.T, rule.weights)

    @override
    def _place(self, A: Tensor) -> tuple[Tensor, Tensor]:
        mean = self.mean_of(A)
        if self.standard_deviation is not None:
            return mean, scale_of(self.standard_deviation, A, mean.shape[-1])
        variances = np.array(self.covariance)
        if variances.ndim == 2:
            variances = np.diag(variances)
        return mean, mean.new_tensor(variances).sqrt().expand_as(mean)

    @override
    def _probability_outside(self, rows: Tensor) -> Tensor:
        if self._is_dependent:
            # Union bound, for any correlations.
            return self._columns_outside(rows).sum(dim=-1).clamp_max(1.0)
        return super()._probability_outside(rows)

    @property
    def _is_dependent(self) -> bool:
        covariance = np.array(self.covariance)
        return covariance.ndim == 2 and bool((covariance != np.diag(np.diag(covariance))).any())


def register_conditional_mean(name: str, function: MeanFunction) -> None:
    """Register a mean function for ``GaussianConditional.from_mean``.

    Stores have the name only: register the same function under the same name in each process that
    loads the experiment. A second registration replaces the first.

    Args:
        name: A non-empty string.
        function: Function from queries ``... x p`` to means ``... x d`` in raw units, made of
            differentiable PyTorch operations.

    Raises:
        InputError: If the name is not a non-empty string, or the function is not callable.
    """
    if not callable(function):
        raise InputError(f"function={function!r}: expected a function of a tensor.")
    _MEANS[nonempty_string(name, "mean", _EXPECTED_NAME)] = function


def conditional_mean(name: str) -> MeanFunction:
    """Return the function that is registered under a name.

    Raises:
        InputError: If there is none.
    """
    if name not in _MEANS:
        known = ", ".join(map(repr, sorted(_MEANS))) or "none"
        raise InputError(
            f"mean={name!r} is not registered (registered: {known}): call "
            f"register_conditional_mean({name!r}, function) first, in each process."
        )
    return _MEANS[name]


def _checked_covariance(value: Any, d: int | None) -> float | Numbers | Matrix:
    if not is_sequence(value):
        return nonnegative_number(plain_value(value), "covariance")
    if len(value) and not is_sequence(value[0]):
        return numbers(value, "covariance", d, nonnegative_number)
    full = matrix(value, "covariance", d)
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
    return full
