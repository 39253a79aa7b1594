"""Stopping at a price, for methods that deploy what no single trial measures.

What is deployed is the query, or the point, with the best expectation. Several trials may tell what
one of them hardly does, so the worth of further ones is what one, four or sixteen of them are
expected to add to that expectation, per unit of their cost, whichever is most. A run ends when that
is well below the price of a unit of cost, in several decisions in a row: trials that are chosen one
after the other add more than the same number chosen at once, and a model of few outcomes is often
wrong about how little there is to find, which it sees after the next ones.
"""

from __future__ import annotations

from collections.abc import Callable

from ax_costaware.core.problem import Problem

NUM_AHEAD = (1, 4, 16)
"""Numbers of further trials whose worth is looked at."""

CAUTION = 4.0
"""Factor by which the expected gain of further trials is multiplied."""

IN_A_ROW = 5
"""Decisions that have to agree. Both numbers were chosen by measurement: a run that ends too early
loses more than one that ends late."""

_WORTH = "worth_per_cost"


def at_price(
    problem: Problem, lmbda: float | None, gain_per_cost: Callable[[], float | None]
) -> tuple[str | None, dict[str, float | str]]:
    """Compare the worth of further trials with the price of their cost.

    They are where nothing has a price. In the middle of a batch nothing is known that was not known
    at its start; and where a decision would repeat a trial under way it is made again, after it was
    found worth its cost.

    Args:
        problem: What the decision is made from, with what was recorded of earlier ones.
        lmbda: What one unit of cost is worth, in units of the objective; None: nothing.
        gain_per_cost: Gives what further trials add to the value of what is deployed, all of them
            chosen now, per unit of their cost, for the number of them of which that is largest;
            None while a cost is not known.

    Returns:
        The reason why there should be no further trial, as a phrase, or None if there should be
        one; and what is stored with the next one, for the decisions that follow.
    """
    record: dict[str, float | str] = {"objective": problem.goal}
    if lmbda is None or problem.earlier_in_batch or (gain := gain_per_cost()) is None:
        return None, record
    worth = CAUTION * gain
    # In another unit it says nothing; earlier releases did not record in which.
    decisions = [t.decision for t in problem.trials if _WORTH in t.decision]
    recorded = [d[_WORTH] for d in decisions if d.get("objective", problem.goal) == problem.goal]
    latest = [*recorded, worth][-IN_A_ROW:]
    if not problem.known and len(latest) == IN_A_ROW and max(latest) <= lmbda:
        reason = (
            f"in {IN_A_ROW} decisions in a row further trials were worth at most "
            f"{max(latest):.6g} per unit of their cost to what is deployed, not above the price of "
            f"{lmbda:.6g} for a unit of cost"
        )
        return reason, record
    return None, {**record, "lambda": lmbda, _WORTH: worth}
