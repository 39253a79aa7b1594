"""Finitely many queries, each with known probabilities of finitely many points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor
from typing_extensions import override

from ax_costaware.argument_checks import (
    Matrix,
    finite_number,
    matrix,
    probabilities,
    sequence_of,
    set_fields,
)
from ax_costaware.exceptions import InputError
from ax_costaware.laws.conditionals.conditional import (
    Conditional,
    SharedNodes,
    bounds,
    check_indices,
    indices,
)


@dataclass(frozen=True)
class FiniteConditional(Conditional):
    """Finite set of queries, each a distribution on the same finite set of points.

    For example, providers that each use ``K`` treatments with known frequencies and report the
    average outcome. A query (``p = 1``) is the index of its row in ``policies``.

    Raises:
        InputError: If probabilities are negative or do not sum to one, or if a field does not have
            one row per point or query.
    """

    policies: Matrix
    """Probabilities ``P x K`` of points, a row per query."""

    points: Matrix | None = None
    """Points ``K x d`` in raw units; None for one column with the indices 0 to ``K - 1``."""

    queries: tuple[float | str, ...] | None = None
    """Values of the parameter for the ``P`` queries; None for 0 to ``P - 1``."""

    num_query_columns = 1

    sums_to_one = True

    def __post_init__(self) -> None:
        policies = tuple(
            probabilities(row, f"policies[{i}]", "probabilities >= 0 that sum to one")
            for i, row in enumerate(matrix(self.policies, "policies"))
        )
        set_fields(self, policies=policies)
        if self.points is not None:
            points = matrix(self.points, "points")
            if len(points) != len(policies[0]):
                raise InputError(
                    f"points has {len(points)} rows: expected {len(policies[0])}, one for each "
                    "column of policies."
                )
            if len(set(points)) < len(points):
                raise InputError(f"points={points!r}: expected rows that differ.")
            set_fields(self, points=points)
        if self.queries is not None:
            expected = f"{len(policies)} different numbers or strings, one for each row of policies"
            queries = sequence_of(self.queries, "queries", expected)
            for i, query in enumerate(queries):
                if not isinstance(query, str):
                    finite_number(query, f"queries[{i}]", expected)
            if len(queries) != len(policies) or len(set(queries)) < len(queries):
                raise InputError(f"queries={queries!r}: expected {expected}.")
            set_fields(self, queries=queries)

    @property
    @override
    def num_latent_columns(self) -> int:
        return len(self._nodes[0])

    @override
    def joint_rule(self, A: Tensor) -> SharedNodes:
        self.check_shape(A)
        policies = A.new_tensor(self.policies)[indices(A, len(self.policies))]
        return SharedNodes(A.new_tensor(self._nodes), policies)

    @override
    def within(self, lower: Any, upper: Any) -> Self:
        low, high = bounds(lower, upper, self.num_latent_columns)
        if low is not None and high is not None:
            for k, point in enumerate(self._nodes):
                if any(not a <= x <= b for a, x, b in zip(low, point, high, strict=True)):
                    raise InputError(
                        f"points[{k}]={point!r} is outside of X, from {low} to {high}."
                    )
        return self

    @property
    def _nodes(self) -> Matrix:
        """Points, ``K x d``."""
        return self.points or tuple((float(k),) for k in range(len(self.policies[0])))

    @override
    def _check_rows(self, rows: Tensor) -> None:
        count = len(self.policies)
        check_indices(rows, count, f"the index of a policy, 0 to {count - 1}")
