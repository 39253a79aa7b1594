"""Conditional mean embedding: a conditional distribution learned from pairs."""

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
"""Distance from every pair, in length-scales, beyond which a query is refused."""

_LEAST_REGULARIZATION = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class LearnedConditional(PairsConditional):
    """Conditional mean embedding of pairs ``(x_j, a_j)``.

    The points of the pairs have the weights ``W(a) = (L + N lambda I)^-1 l(a)``, with an RBF kernel
    ``l`` of the standardized columns of queries (Song et al. 2009, *Hilbert space embeddings of
    conditional distributions*). Hyperparameters that are not given minimize the closed-form
    leave-one-out error. The embedding is fitted on first use.

    Raises:
        InputError: If X and A differ in length, values are not finite, there are no more pairs than
            columns, a column of queries is constant, or points are outside of the bounds with
            ``outside="refuse"``.
    """

    X: Array
    """Points ``N x d`` in raw units, any array-like; stored as a read-only double array. Columns of
    a data frame are matched by name."""

    A: Array
    """Queries of the points, ``N x p``, in the same form."""

    lengthscale: float | None = None
    """Length-scale of ``l``, in standard deviations of the columns of ``A``; None to choose it."""

    regularization: float | None = None
    """``lambda > 0``; None to choose it."""

    landmarks: int | None = None
    """Number of random landmarks of queries above 2000 pairs (Nystrom), with twice as many of
    points; None for 500."""

    seed: int = 0
    """Seed of random landmarks and features."""

    lower: Numbers | None = None
    """Lower bounds of X, ``d``; None without bounds."""

    upper: Numbers | None = None
    """Upper bounds of X."""

    outside: Outside = "refuse"
    """Policy for points of pairs outside of the bounds: an error, moved to the bounds, or kept."""

    sampling_error: bool = True
    """True to add the sampling error of averages over finitely many pairs to the model. False is
    the published form, which takes the weights as exact, and is overconfident with few pairs. Its
    weights also act on a given prior mean; else outcomes are centered at that mean first.
    Neither includes the bias from smoothing over queries: a function that varies within the spacing
    of the pairs' queries needs more pairs, or a known distribution with estimated parameters."""

    target_names: tuple[str, ...] | None = None
    """Names of the columns of ``X``; None for those of a data frame, or without names."""

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
        """Fitted nodes, weights, length-scale and regularization."""
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
        # In double precision, since large weights of near points may cancel.
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
        """Return squared distances ``... x M_a`` of queries from landmarks, in length-scales."""
        fitted = self.embedding
        origin, unit, landmarks = (
            torch.as_tensor(array, device=A.device)
            for array in (fitted.origin, fitted.unit, fitted.scaled_centres)
        )
        scaled = (A.to(landmarks) - origin) / unit
        return squared_distances(scaled, landmarks)
