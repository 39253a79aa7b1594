"""Order of the trials of a batch: the cheapest way from the present settings through all of them.

The trials of one request are chosen one after the other. With switching costs they are then put in
the order of the least total switching cost, before they become trials. The order is exact for up to
``MOST_EXACT`` trials, by dynamic programming over subsets (Held and Karp 1962). That of a larger
batch starts as it was chosen, and is improved by moving and reversing parts of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeAlias

from ax_costaware.core.account import ROUNDING, Budgeted
from ax_costaware.core.history import PastTrial
from ax_costaware.core.problem import Problem
from ax_costaware.core.switching import settings_before, settings_of, switching_costs
from ax_costaware.space.parameters import Row

MOST_EXACT = 9
"""Number of trials up to which the order is exact."""

_LONGEST_MOVED = 3
"""Length of the longest part of an order that is moved elsewhere."""

_NOTE = "The trials of its batch are in the order of the least switching costs."

Matrix: TypeAlias = Sequence[Sequence[float]]


def cheapest_order(first: Sequence[float], costs: Matrix) -> list[int]:
    """Return the order of the least total cost; the given one if none is cheaper.

    Args:
        first: Cost of each item if it is the first one, ``n``.
        costs: Cost of each item directly after each other one, ``n x n``: row before, column after.
            Infinite for what is not allowed.
    """
    given = [*range(len(first))]
    search = _exact if len(first) <= MOST_EXACT else _improved
    found = search(first, costs)
    cost = _cost(given, first, costs)
    return found if _cost(found, first, costs) < cost * (1 - ROUNDING) else given


def _cost(order: Sequence[int], first: Sequence[float], costs: Matrix) -> float:
    steps = (costs[i][j] for i, j in pairwise(order))
    return math.fsum([first[order[0]], *steps])


def _exact(first: Sequence[float], costs: Matrix) -> list[int]:
    """Return the best order, by the cheapest way through each subset to each of its items."""
    n = len(first)
    ways: dict[tuple[int, int], tuple[float, int | None]] = {
        (1 << j, j): (first[j], None) for j in range(n)
    }
    for subset in range(1, 1 << n):
        inside = [j for j in range(n) if subset >> j & 1]
        for j in inside if len(inside) > 1 else ():
            rest = subset & ~(1 << j)
            ways[subset, j] = min((ways[rest, i][0] + costs[i][j], i) for i in inside if i != j)
    subset = (1 << n) - 1
    at: int | None = min(range(n), key=lambda j: ways[subset, j][0])
    order = []
    while at is not None:
        order.append(at)
        before = ways[subset, at][1]
        subset, at = subset & ~(1 << at), before
    return order[::-1]


def _improved(first: Sequence[float], costs: Matrix) -> list[int]:
    """Return the given order, changed while a move or a reversal of a part makes it cheaper."""
    order = [*range(len(first))]
    cost, is_better = _cost(order, first, costs), True
    while is_better:
        is_better = False
        for other in _changed(order):
            found = _cost(other, first, costs)
            if found < cost * (1 - ROUNDING):
                order, cost, is_better = other, found, True
                break
    return order


def _changed(order: Sequence[int]) -> Iterator[list[int]]:
    """Yield orders with a part moved, or reversed."""
    n = len(order)
    for length in range(1, _LONGEST_MOVED + 1):
        for start in range(n - length + 1):
            part, rest = order[start : start + length], [*order[:start], *order[start + length :]]
            for place in range(len(rest) + 1):
                if place != start:
                    yield [*rest[:place], *part, *rest[place:]]
    for start in range(n):
        for end in range(start + 2, n + 1):
            yield [*order[:start], *reversed(order[start:end]), *order[end:]]


def in_cheapest_order(
    problem: Problem, method: Budgeted, records: Sequence[Mapping[str, Any]]
) -> list[tuple[int, dict[str, Any]]]:
    """Return the trials of a batch in the order of the least switching costs.

    A trial that would cost more than ``max_trial_cost`` in its place is not put there. Decisions
    with a state, which the next one continues, keep their order.

    Args:
        problem: Inputs of a decision after the batch, whose ``earlier_in_batch`` are its trials.
        method: Has the switching costs.
        records: Records of the trials of the batch, with the costs of the order of the decisions.

    Returns:
        For each place, the index of the decision, and its record with the costs of that place.
    """
    given = [(i, dict(record)) for i, record in enumerate(records)]
    switching, most = method.trial_costs.switching, method.max_trial_cost
    has_state = any(record["decision"].get("state") for record in records)
    if switching is None or len(records) < 2 or has_state:
        return given
    first = len(problem.trials)
    trials = [
        PastTrial(first + i, row, record=record)
        for (i, record), row in zip(given, problem.earlier_in_batch, strict=True)
    ]
    settings = [settings_of(trial, method) for trial in trials]
    before = settings_before(replace(problem, pending=()), method)

    def cost(start: Row | None, place: int, setup: float = 0.0) -> float:
        found, record = switching.between(start, settings[place]) + setup, records[place]
        if most is None or record["expected_cost"] is None:
            return found
        total = record["expected_cost"] - record["switching_cost"] + found
        return found if total <= most * (1 + ROUNDING) else math.inf

    places = range(len(trials))
    setup = method.trial_costs.setup
    order = cheapest_order(
        [cost(before, j, setup) for j in places],
        [[cost(start, j) for j in places] for start in settings],
    )
    if order == [*places]:
        return given
    ordered = [replace(trials[i], index=first + place) for place, i in enumerate(order)]
    changes = switching_costs([*problem.trials, *ordered], method)[first:]
    spent = records[0]["decision"]["spent"]
    remaining = records[0]["decision"]["remaining"]
    found = []
    for i, change in zip(order, changes, strict=True):
        record = {**records[i], "switching_cost": change}
        if record["expected_cost"] is not None:
            record["expected_cost"] += change - records[i]["switching_cost"]
        record["why"] += f" {_NOTE}"
        record["decision"] = {**record["decision"], "spent": spent, "remaining": remaining}
        found.append((i, record))
        if method.charge_initial or record["phase"] != "initial":
            spent += record["expected_cost"] or 0.0
            remaining = None if remaining is None else remaining - (record["expected_cost"] or 0.0)
    return found
