"""A conditional that is learned from pairs of points and queries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from ax_costaware.argument_checks import (
    Numbers,
    at_least,
    boolean,
    check_fields,
    optional,
    positive_number,
)
from ax_costaware.exceptions import InputError
from ax_costaware.laws.conditionals.conditional import (
    Outside,
    SharedNodes,
    plain,
)
from ax_costaware.laws.conditionals.embedding import Embedding, fit, leave_one_out
from ax_costaware.laws.conditionals.pairs import PairsConditional, squared_distances
from ax_costaware.laws.tables import Array

_FARTHEST = 3.0
"""In length-scales: a query farther than this from every pair is refused."""

_LEAST_REGULARIZATION = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class LearnedConditional(PairsConditional):
    """The conditional mean embedding of pairs ``(x_j, a_j)``.

    ``W(a) = (L + N lambda I)^-1 l(a)`` weighs the points of the pairs, with an RBF kernel ``l`` of
    the queries' columns divided by their standard deviations (Song et al. 2009, *Hilbert space
    embeddings of conditional distributions*). What is not given is chosen by the closed-form
    leave-one-out error of the embedding. It is fitted when it is first used.

    Raises:
        InputError: For pairs of different number, values that are not finite, no more pairs than
            columns, a constant column of queries, or points outside of bounds with
            ``outside="refuse"``.
    """

    X: Array
    """Points ``N x d`` in raw units, any array-like; kept as a read-only double array. Columns of a
    data frame are found by their names."""

    A: Array
    """Their queries ``N x p``, as ``X``."""

    lengthscale: float | None = None
    """Of ``l``, in standard deviations of the columns of ``A``; ``None``: chosen."""

    regularization: float | None = None
    """``lambda > 0``; ``None``: chosen."""

    landmarks: int | None = None
    """Beyond 2000 pairs: number of random queries that stand for all; of points, twice as many.
    ``None``: 500."""

    seed: int = 0
    """Of the choice of landmarks and of random features."""

    lower: Numbers | None = None
    """Lower bounds of X, ``d``; ``None`` where there are none."""

    upper: Numbers | None = None
    """Upper bounds of X."""

    outside: Outside = "refuse"
    """What is done with points of pairs outside of the bounds: an error, moved to the bounds, or
    kept."""

    sampling_error: bool = True
    """Whether a model is told how far the average over the weighed points of so many pairs may be
    from that over the true law. False: the published form, which takes the weights for exact, and
    with few pairs is the more wrong the surer it gets. What neither knows is how much the weights
    smooth: a function that varies within the spacing of the pairs' queries needs more pairs, or a
    known law whose numbers are estimated."""

    target_names: tuple[str, ...] | None = None
    """Names of the columns of ``X``; ``None``: those of a data frame, else there are none."""

    query_names: tuple[str, ...] | None = None
    """Names of the columns of ``A``."""

    def __post_init__(self) -> None:
        self._check_pairs()
        check_fields(
            self,
            lengthscale=optional(positive_number),
            regularization=optional(positive_number),
            landmarks=optional(at_least(2)),
            seed=at_least(0),
            sampling_error=boolean,
        )
        if self.regularization is not None and self.regularization < _LEAST_REGULARIZATION:
            raise InputError(
                f"regularization={self.regularization!r}: expected at least "
                f"{_LEAST_REGULARIZATION:g}, below which rounding decides."
            )
        X = self.X
        self._check_bounds(X.shape[1])
        if self.lower is None or self.outside != "refuse":
            return
        rows = np.flatnonzero(((np.array(self.lower) > X) | (np.array(self.upper) < X)).any(1))
        if len(rows):
            raise InputError(
                f"X has {tuple(X[rows[0]].tolist())} in row {rows[0]}, and {len(rows)} of "
                f"{len(X)} rows outside of X, from {self.lower} to {self.upper}: expected "
                'points inside; outside="clip" moves them to the bounds, outside="keep" says that '
                "the objective exists there too."
            )

    @cached_property
    def embedding(self) -> Embedding:
        """What was fitted: nodes, weights, length-scale and regularisation."""
        given = self.lengthscale, self.regularization, self.landmarks
        return fit(self._points, self.A, *given, self.seed)

    @property
    @override
    def leave_one_out(self) -> float:
        return leave_one_out(self.embedding, self._points, self.A, self.seed)

    @override
    def joint_rule(self, A: Tensor) -> SharedNodes:
        self.check_shape(A)
        fitted = self.embedding
        kernel = torch.exp(-0.5 * self._squared_distances(A))
        # In double precision: the weights of one point may be large and cancel those of the next.
        weights = kernel @ torch.as_tensor(fitted.projection, device=A.device).T
        errors = None
        if self.sampling_error:
            errors = (kernel @ torch.as_tensor(fitted.errors, device=A.device).T).to(A)
        return SharedNodes(torch.as_tensor(fitted.nodes).to(A), weights.to(A), errors)

    @override
    def _check_rows(self, rows: Tensor) -> None:
        if len(rows) == 0:
            return
        nearest = self._squared_distances(rows).min(dim=-1).values.sqrt()
        worst = int(nearest.argmax())
        if float(nearest[worst]) > _FARTHEST:
            raise InputError(
                f"query {plain(rows[worst])} is {float(nearest[worst]):.3g} length-scales away "
                f"from every pair: expected at most {_FARTHEST:g}, since nothing was learned there."
            )

    def _squared_distances(self, A: Tensor) -> Tensor:
        """Squared distances ``... x M_a`` of queries from the landmarks, in length-scales."""
        fitted = self.embedding
        origin, unit, landmarks = (
            torch.as_tensor(array, device=A.device)
            for array in (fitted.origin, fitted.unit, fitted.scaled_centres)
        )
        scaled = (A.to(landmarks) - origin) / unit
        return squared_distances(scaled, landmarks)
