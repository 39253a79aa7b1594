"""Recommendation after each trial, and its value under the final model.

The model at an earlier time is the final model without the later observations. Hyperparameters and
the standardization of the outcomes stay the same, so that a step costs one optimization of the
posterior mean and no fit. The distributions of the inputs are the final ones, too. All values are
expectations of the objective over the uncontrolled inputs, in the objective's unit and sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from botorch.models import SingleTaskGP
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.models import ExactGP
from torch import Tensor

from ax_costaware.methods import ControlSets
from ax_costaware.methods.control_sets.query_space import QuerySpace
from ax_costaware.methods.control_sets.rules.rule import maximal, proper_supersets

Item = TypeVar("Item")

MAX_REPLAYED = 40
"""Largest number of trials with a recommendation; of more, an even selection with the first and the
last."""


class ExpectedValue(NamedTuple):
    """Expected objective with its control set."""

    control_set: str
    mean: float
    standard_deviation: float


def expected_values(space: QuerySpace, points: Tensor, sets: Sequence[int]) -> list[ExpectedValue]:
    """Return the expected objective of control sets, by index, each at one of ``n x d`` points."""
    names = [space.method.names[i] for i in sets]
    moments = space.problem.scale.moments(*space.expectations(points, sets))
    return [
        ExpectedValue(name, float(mean), float(variance) ** 0.5)
        for name, mean, variance in zip(names, *moments, strict=True)
    ]


def recommendations(space: QuerySpace) -> dict[int, ExpectedValue]:
    """Return the recommendation after each trial, by trial index, valued with all data.

    The last is the current recommendation. It is the only one

    - for a surrogate that is no ``SingleTaskGP``, since removing observations is specific to the
      model;
    - with outcome constraints, whose earlier models are not computed.
    """
    problem, method, model = space.problem, space.method, space.problem.model
    rows = np.array([trial.index for trial in problem.observed])
    *earlier, last = even_selection(rows.tolist(), MAX_REPLAYED)
    found: dict[int, ExpectedValue] = {}
    if isinstance(model, SingleTaskGP) and not problem.constraints:
        sets = largest_control_sets(method)
        for trial in earlier:
            then = without_later(model, torch.from_numpy(rows <= trial))
            optima = space.best_means(sets, trial + 1, then)
            best = int(optima.value.argmax())
            (found[trial],) = expected_values(space, optima.point[[best]].detach(), [sets[best]])
    now = method.recommend(problem)[0]
    return {**found, last: ExpectedValue(str(now.control_set), now.mean, now.standard_deviation)}


def largest_control_sets(method: ControlSets) -> list[int]:
    """Return the indices of control sets that no other contains.

    The best expected value is among theirs: a superset can do at least as well.
    """
    contained = proper_supersets([frozenset(s.parameters) for s in method.control_sets])
    return maximal(contained, range(len(contained)))


def even_selection(items: Sequence[Item], count: int) -> list[Item]:
    """Return at most ``count`` >= 2 items, evenly spaced, with the first and the last."""
    positions = np.linspace(0, len(items) - 1, min(len(items), count)).round().astype(int)
    return [items[position] for position in positions]


def without_later(model: SingleTaskGP, keep: Tensor) -> SingleTaskGP:
    """Return a copy of an exact GP with some of its observations.

    Hyperparameters, and the transforms of inputs and outcomes, are those of ``model``.

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
