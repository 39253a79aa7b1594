"""Points that scatter as a normal law around a mean that the query decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    clipped_columns,
)
from ax_costaware.laws.quadrature import gauss_legendre

MeanFunction: TypeAlias = Callable[[Tensor], Tensor]

_MEANS: dict[str, MeanFunction] = {}

_EXPECTED_NAME = "the name of a registered function"


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

    outside: Outside = "refuse"
    """What is done with points outside of the bounds. ``"refuse"``: a query that has more than a
    thousandth of its mass there is an error. ``"clip"``: a point outside is moved to the bound.
    ``"keep"``: the objective exists out there too."""

    num_nodes: int = 16
    """Nodes of each column; clipped laws take two times as many, and the bounds. A model with a
    squared-exponential kernel takes more of them where its length-scales are short, so that
    averages are right to about 1e-7, or 1e-6 for two dependent columns that are clipped; for these
    down to length-scales of a hundredth of the bounds, with which a decision takes minutes, and the
    less the shorter they are. Of dependent columns that are not clipped it takes the closed form.
    Three or more dependent columns that are clipped, and other kernels, have at most 64 joint
    nodes, which are enough where a standard deviation is at most a length-scale. With them a
    decision takes tens of times as long as with independent columns, and grows with the square of
    the number of observations."""

    query_columns: int | None = None
    """The number of columns of a query, with a named mean only."""

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
                    f"mean={self.mean!r} beside weight={self.weight!r}, bias={self.bias!r}: "
                    "expected either."
                )
            check_fields(self, query_columns=at_least(1))
            d = None
        set_fields(self, covariance=_checked_covariance(self.covariance, d))
        check_fields(self, num_nodes=at_least(1))
        self._check_bounds(self.num_latent_columns)

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
    def num_latent_columns(self) -> int | None:
        for field in (self.weight, self.covariance, self.lower):
            if isinstance(field, tuple):
                return len(field)
        return None

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
        """The first column before it is clipped, and the second given it.

        What is averaged bends in the first column where that meets a bound, and where the mean of
        the second given it does; it is smooth between.
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
        if self._clips:
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
        variances = np.array(self.covariance)
        if variances.ndim == 2:
            variances = np.diag(variances)
        return mean, mean.new_tensor(variances).sqrt().expand_as(mean)

    @override
    def _probability_outside(self, rows: Tensor) -> Tensor:
        if self._is_dependent:
            # The probability of a union is at most the sum, whatever the correlations.
            return self._columns_outside(rows).sum(dim=-1).clamp_max(1.0)
        return super()._probability_outside(rows)

    @property
    def _is_dependent(self) -> bool:
        covariance = np.array(self.covariance)
        return covariance.ndim == 2 and bool((covariance != np.diag(np.diag(covariance))).any())


def register_conditional_mean(name: str, function: MeanFunction) -> None:
    """Give a function a name under which ``GaussianConditional.from_mean`` finds it.

    An experiment stores the name only: register the same function under the same name, in each
    process that loads the experiment, before it is used. A name that is registered again stands
    for the newest function.

    Args:
        name: Any string that is not empty.
        function: From queries ``... x p`` to means ``... x d`` in raw units, made of PyTorch
            operations, so that it can be differentiated.

    Raises:
        InputError: For a name that is no string or empty, or a function that cannot be called.
    """
    if not callable(function):
        raise InputError(f"function={function!r}: expected a function of a tensor.")
    _MEANS[nonempty_string(name, "mean", _EXPECTED_NAME)] = function


def conditional_mean(name: str) -> MeanFunction:
    """The function that is registered under a name.

    Raises:
        InputError: Where there is none.
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
