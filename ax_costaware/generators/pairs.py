"""The pairs of a point and a query that an experiment gathers while it runs.

They are kept with the experiment, at full precision, and never with a trial. (What a strategy was
given when it was made is in its settings.) A point is a row of the model's columns, see
``TargetSettings.target_parameters``; a query is a row of the raw values of its parameters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from ax.core.experiment import Experiment

from ax_costaware.queries.conditionals import Conditional, LearnedConditional
from ax_costaware.records import RECORD

_PAIRS = "pairs"


@dataclass(frozen=True, eq=False)
class Pairs:
    """Points and their queries, row by row."""

    X: npt.NDArray[np.float64]
    """``n x d`` points."""

    A: npt.NDArray[np.float64]
    """``n x p`` queries."""

    def __len__(self) -> int:
        return len(self.X)

    @property
    def digest(self) -> str:
        """Different for different pairs."""
        return hashlib.sha256(self.X.tobytes() + b"|" + self.A.tobytes()).hexdigest()


def pairs_of(experiment: Experiment, points: Sequence[str], queries: Sequence[str]) -> Pairs:
    """The pairs that were added to an experiment; none at first.

    Args:
        experiment: The experiment.
        points: Names of the parameters of a point, in the order that is wanted.
        queries: The same of a query.
    """
    stored = (experiment._properties.get(RECORD) or {}).get(_PAIRS) or {}
    found = []
    for side, names in (("X", points), ("A", queries)):
        part = stored.get(side) or {}
        columns = [np.array(part.get(name) or [], dtype=np.float64) for name in names]
        found.append(np.stack(columns, axis=-1) if columns else np.empty((0, 0)))
    return Pairs(*found)


def append_pairs(
    experiment: Experiment, points: Sequence[str], queries: Sequence[str], pairs: Pairs
) -> None:
    """Add pairs to those that an experiment has; the rest of its properties stays.

    Args:
        experiment: The experiment.
        points: Names of the columns of ``pairs.X``.
        queries: Names of the columns of ``pairs.A``.
        pairs: The pairs.
    """
    old = pairs_of(experiment, points, queries)
    record = dict(experiment._properties.get(RECORD) or {})
    record[_PAIRS] = {
        side: {
            name: np.concatenate([before[:, i], after[:, i]]).tolist()
            for i, name in enumerate(names)
        }
        for side, names, before, after in (
            ("X", points, old.X, pairs.X),
            ("A", queries, old.A, pairs.A),
        )
    }
    experiment._properties[RECORD] = record


def grown(conditional: Conditional, pairs: Pairs) -> Conditional:
    """A conditional that has learned from more pairs, too; any other stays as it is.

    The same object is returned for the same pairs, so that it is fitted once.
    """
    if not isinstance(conditional, LearnedConditional) or not len(pairs):
        return conditional
    found = _grown(_Same(conditional), _Keyed(pairs, pairs.digest))
    assert isinstance(found, Conditional)
    return found


@dataclass(frozen=True, eq=False)
class _Same:
    """An object that is equal to itself only; comparing the pairs of a conditional takes long."""

    value: LearnedConditional

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(frozen=True, eq=False)
class _Keyed:
    pairs: Pairs
    digest: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@lru_cache(maxsize=4)
def _grown(conditional: _Same, pairs: _Keyed) -> Any:
    return conditional.value.with_pairs(pairs.pairs.X, pairs.pairs.A)
