"""What would have been recommended after each trial, and what it is worth by the model of today.

The model of an earlier time is today's model without the later observations: hyperparameters and
standardisation of the outcomes stay as they are, so that a step costs one optimisation of the
posterior mean and no fit. The laws of the inputs are those of today, too. All values are
expectations of the objective over the uncontrolled inputs, in the objective's unit and sign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from ax.core.types import TParamValue
from botorch.models import SingleTaskGP
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.models import ExactGP
from torch import Tensor

from ax_costaware.methods import ControlSets, Problem
from ax_costaware.methods.control_sets.query_space import QuerySpace
from ax_costaware.policies.control_set_rules.rule import maximal, proper_supersets

Item = TypeVar("Item")

MAX_REPLAYED = 40
"""Trials after which the recommendation is worked out; of a longer experiment an even selection,
which always has the first and the last."""


class ExpectedValue(NamedTuple):
    """An expected objective with the control set that gives it."""

    control_set: str
    mean: float
    standard_deviation: float


@dataclass(frozen=True)
class Replay:
    """Reads the history of an experiment off a problem with its fitted model."""

    problem: Problem
    method: ControlSets

    @cached_property
    def space(self) -> QuerySpace:
        """The control sets in the model's space."""
        return QuerySpace(self.problem, self.method)

    @property
    def trial_indices(self) -> tuple[int, ...]:
        """Trials whose observations the model was fitted to, in increasing order."""
        return tuple(trial.index for trial in self.problem.observed)

    def queries(
        self, arms: Mapping[int, tuple[str, Mapping[str, TParamValue]]]
    ) -> dict[int, ExpectedValue]:
        """Expected objective of the trials' own queries.

        Args:
            arms: By trial index, the name of the control set and the parameters of the arm.
        """
        points = self.problem.space.encode([parameters for _, parameters in arms.values()])
        queries = [(name, point) for (name, _), point in zip(arms.values(), points, strict=True)]
        return dict(zip(arms, self._values(queries), strict=True))

    def recommendations(self) -> dict[int, ExpectedValue]:
        """By trial index, the recommendation after that trial, valued with all data.

        The last is the current recommendation. For a surrogate that is no ``SingleTaskGP`` the
        last is all there is: taking observations back is specific to the model. So it is with
        outcome constraints, of which what was known then is not worked out.
        """
        *earlier, last = even_selection(self.trial_indices, MAX_REPLAYED)
        current = self.method.recommend(self.problem)[0]
        now = ExpectedValue(str(current.control_set), current.mean, current.standard_deviation)
        model = self.problem.model
        if not isinstance(model, SingleTaskGP) or self.problem.constraints:
            return {last: now}
        names = largest_control_sets(self.method)
        indices = [self.method.names.index(name) for name in names]
        rows = np.asarray(self.trial_indices)
        queries = []
        for trial in earlier:
            then = without_later(model, torch.from_numpy(rows <= trial))
            optima = self.space.best_means(indices, trial + 1, then)
            best = int(optima.values.argmax())
            queries.append((names[best], optima.points[best].detach()))
        return {**dict(zip(earlier, self._values(queries), strict=True)), last: now}

    def _values(self, queries: Sequence[tuple[str, Tensor]]) -> list[ExpectedValue]:
        if not queries:
            return []
        points = torch.stack([point for _, point in queries])
        sets = [self.method.names.index(name) for name, _ in queries]
        means, variances = self.space.expectations(points, sets)
        return [
            ExpectedValue(name, float(mean), float(variance) ** 0.5)
            for (name, _), mean, variance in zip(queries, means, variances, strict=True)
        ]


def largest_control_sets(method: ControlSets) -> list[str]:
    """Names of the control sets within no other: the best expected value is among theirs.

    Whatever a control set achieves, a set that controls more can achieve at least as well.
    """
    contained = proper_supersets([frozenset(s.parameters) for s in method.control_sets])
    return [method.names[i] for i in maximal(contained, range(len(method.names)))]


def even_selection(items: Sequence[Item], count: int) -> list[Item]:
    """At most ``count`` >= 2 of the items, evenly spread, the first and the last included."""
    positions = np.linspace(0, len(items) - 1, min(len(items), count)).round().astype(int)
    return [items[position] for position in positions]


def without_later(model: SingleTaskGP, keep: Tensor) -> SingleTaskGP:
    """A copy of an exact GP that has seen only some observations.

    Hyperparameters, and the transforms of inputs and outcomes, stay those of ``model``.

    Args:
        model: The GP, in evaluation mode.
        keep: ``n`` booleans: the rows of the training data to keep.
    """
    restricted = deepcopy(model)
    restricted.train()  # training mode holds the inputs before the model's own transform
    ExactGP.set_train_data(
        restricted,
        inputs=tuple(x[..., keep, :] for x in restricted.train_inputs),
        targets=restricted.train_targets[..., keep],
        strict=False,
    )
    likelihood = restricted.likelihood
    if isinstance(likelihood, FixedNoiseGaussianLikelihood):
        likelihood.noise = likelihood.noise[..., keep]
    restricted.eval()
    return restricted
