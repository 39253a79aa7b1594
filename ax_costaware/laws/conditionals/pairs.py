"""Base class of conditionals that are learned from pairs of points and queries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np
from torch import Tensor
from typing_extensions import override

from ax_costaware.argument_checks import given_fields, set_fields
from ax_costaware.exceptions import InputError
from ax_costaware.laws.conditionals.conditional import BoundedConditional
from ax_costaware.laws.tables import Array, column_names, table


class PairsConditional(BoundedConditional):
    """Conditional that is learned from pairs ``(x_j, a_j)``.

    Subclasses are dataclasses with these fields.
    """

    X: Array
    A: Array
    target_names: tuple[str, ...] | None
    query_names: tuple[str, ...] | None

    def _check_pairs(self) -> None:
        """Convert the pairs to arrays, and check them.

        Raises:
            InputError: If X and A differ in length, values are not finite, there are no more pairs
                than columns, or a column of queries is constant.
        """
        for side, field in (("X", "target_names"), ("A", "query_names")):
            names = getattr(self, field) or column_names(getattr(self, side))
            set_fields(self, **{field: None if names is None else tuple(names)})
        X = table(self.X, "X", self.target_names)
        A = table(self.A, "A", self.query_names)
        _check_as_many(X, A)
        most = max(X.shape[1], A.shape[1])
        if len(X) <= most:
            raise InputError(
                f"X and A have {len(X)} pairs of {X.shape[1]} and {A.shape[1]} columns: expected "
                f"more than {most} pairs."
            )
        # To rounding, since columns are divided by their standard deviations.
        constant = np.flatnonzero(A.std(0) <= 1e-13 * np.abs(A).max(0))
        if len(constant):
            raise InputError(
                f"A has the value {float(A[0, constant[0]])!r} in every row of column "
                f"{constant[0]}: expected queries that differ in each column."
            )
        set_fields(self, X=X, A=A)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return (
            self._settings() == other._settings()
            and np.array_equal(self.X, other.X)
            and np.array_equal(self.A, other.A)
        )

    def __hash__(self) -> int:
        return hash((self.X.tobytes(), self.A.tobytes(), *self._settings().values()))

    def __repr__(self) -> str:
        pairs = f"<{len(self.X)} pairs: {self.X.shape[1]} columns of X, {self.A.shape[1]} of A>"
        return f"{type(self).__name__}({', '.join([pairs, *given_fields(self)])})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # It is immutable, and models that are copied for every fantasy share its fit.
        return self

    @property
    def num_pairs(self) -> int:
        """Number of pairs, ``N``."""
        return len(self.X)

    @property
    @override
    def num_query_columns(self) -> int:
        return int(self.A.shape[1])

    @property
    @override
    def num_latent_columns(self) -> int:
        return int(self.X.shape[1])

    @property
    @abstractmethod
    def leave_one_out(self) -> float:
        """Leave-one-out error: the smaller, the better.

        The mean squared distance between the embeddings of each pair's point and of its predicted
        distribution from the other pairs. The embedding has an RBF kernel of the points, whose
        length-scale is half their median distance. A distribution at the point itself has the error
        0, one far from it 1. Of more than 2000 pairs, 2000 random ones are used.
        """

    def ordered(self, target_names: Sequence[str]) -> Self:
        """Return the conditional with the columns of ``X`` in the order of ``target_names``.

        Raises:
            InputError: If its columns have other names.
        """
        own = self.target_names
        if own is None or own == tuple(target_names):
            return self
        if sorted(own) != sorted(target_names):
            raise InputError(f"X has the columns {list(own)}: expected {list(target_names)}.")
        order = [own.index(name) for name in target_names]
        lower, upper = (
            None if bounds is None else tuple(bounds[i] for i in order)
            for bounds in (self.lower, self.upper)
        )
        changed = {"X": self.X[:, order], "target_names": tuple(target_names)}
        return replace(self, **changed, lower=lower, upper=upper)  # type: ignore[type-var]

    def with_pairs(self, X: Any, A: Any) -> Self:
        """Return the conditional with more pairs, not fitted yet.

        Args:
            X: Points ``n x d``.
            A: Their queries ``n x p``.

        Raises:
            InputError: If the number of columns differs, or as in the class.
        """
        more = table(X, "X", self.target_names), table(A, "A", self.query_names)
        for name, mine, new in zip("XA", (self.X, self.A), more, strict=True):
            if mine.shape[1] != new.shape[1]:
                raise InputError(
                    f"{name} has {new.shape[1]} columns: expected {mine.shape[1]}, as the pairs "
                    "that are there."
                )
        _check_as_many(*more)
        grown = [np.concatenate(both) for both in zip((self.X, self.A), more, strict=True)]
        return replace(self, X=grown[0], A=grown[1])  # type: ignore[type-var]

    @property
    def _points(self) -> Array:
        """``X``, moved into the bounds for ``outside="clip"``."""
        if not self._clips:
            return self.X
        return np.clip(self.X, np.array(self.lower), np.array(self.upper))

    def _settings(self) -> dict[str, Any]:
        """Return all fields but the pairs, by name."""
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names if name not in ("X", "A")}


def squared_distances(rows: Tensor, centres: Tensor) -> Tensor:
    """Return squared distances ``... x M`` of rows from ``M x p`` centers, differentiable."""
    squares = (rows**2).sum(-1, keepdim=True) + (centres**2).sum(-1)
    return (squares - 2 * rows @ centres.mT).clamp_min(0.0)


def _check_as_many(X: Array, A: Array) -> None:
    if len(X) != len(A):
        raise InputError(f"X has {len(X)} rows and A has {len(A)}: expected pairs, one row each.")
