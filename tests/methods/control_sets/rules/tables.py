"""Tables of numbers in place of a model: histories, and values monotone under inclusion."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from ax_costaware.methods import ControlSetHistory


def history(
    parameters: Iterable[Iterable[str]], costs: Iterable[float], number: int = 1, /, **changes: Any
) -> ControlSetHistory:
    """A history in which ``"ab"`` stands for the control set of the parameters a and b."""
    sets = tuple(frozenset(letters) for letters in parameters)
    return ControlSetHistory(
        **{
            "parameters": sets,
            "costs": tuple(costs),
            "plays": (0,) * len(sets),
            "affordable": (True,) * len(sets),
            "round": number,
            **changes,
        }
    )


@dataclass
class Table:
    """Values by index, and what was asked of them."""

    values: Sequence[float]
    calls: list[tuple[int, ...]] = field(default_factory=list)

    def __call__(self, indices: Sequence[int]) -> list[float]:
        """The values of ``indices``."""
        self.calls.append(tuple(indices))
        return [self.values[i] for i in indices]

    @property
    def asked(self) -> set[int]:
        """Every index that was asked for, which none may be twice."""
        flat = [index for call in self.calls for index in call]
        assert len(flat) == len(set(flat))
        return set(flat)


def largest(history: ControlSetHistory, values: Sequence[float], indices: Iterable[int]) -> int:
    """The largest value; of equal ones the set of more parameters, then the one declared first."""
    return max(indices, key=lambda i: (values[i], len(history.parameters[i]), -i))


def brute_force(history: ControlSetHistory, values: Sequence[float], epsilon: float) -> int:
    """Algorithm 1, lines 3 to 6, with every value looked at."""
    affordable = [i for i, flag in enumerate(history.affordable) if flag]
    goal = max(values[i] for i in affordable)
    qualifying = [i for i in affordable if values[i] + epsilon >= goal]
    cheapest = min(history.costs[i] for i in qualifying)
    return largest(
        history, values, (i for i in qualifying if math.isclose(history.costs[i], cheapest))
    )


def all_subsets(names: str) -> list[frozenset[str]]:
    """Every non-empty subset."""
    sizes = range(1, len(names) + 1)
    return [frozenset(c) for size in sizes for c in itertools.combinations(names, size)]


@st.composite
def monotone_tables(draw: st.DrawFn) -> tuple[ControlSetHistory, list[float]]:
    """Some subsets of five inputs with costs in any order, some unaffordable, and values.

    A value is the largest of the scores of the set's parts, which makes values monotone, and small
    integers make ties frequent.
    """
    subsets = all_subsets("abcde")
    sets = draw(st.lists(st.sampled_from(subsets), min_size=1, max_size=31, unique=True))
    costs = draw(
        st.lists(st.sampled_from([0.1, 0.2, 0.3, 1.0]), min_size=len(sets), max_size=len(sets))
        | st.just([float(len(names)) for names in sets])
        | st.lists(st.floats(0.1, 10), min_size=len(sets), max_size=len(sets))
    )
    number = st.integers(-3, 3).map(float) | st.floats(-3, 3)
    scores = draw(st.lists(number, min_size=len(subsets), max_size=len(subsets)))
    by_part = dict(zip(subsets, scores, strict=True))
    values = [max(by_part[part] for part in subsets if part <= names) for names in sets]
    affordable = draw(st.lists(st.booleans(), min_size=len(sets), max_size=len(sets)))
    if not any(affordable):
        affordable = [True] * len(sets)
    return (
        ControlSetHistory(
            parameters=tuple(sets),
            costs=tuple(costs),
            plays=(0,) * len(sets),
            affordable=tuple(affordable),
            round=1,
        ),
        values,
    )
