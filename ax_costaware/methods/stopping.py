"""Stopping at a price, for methods whose trials do not measure what is deployed.

The value of further trials is their expected gain in the best expectation per unit of cost. It is
the largest one over batches of 1, 4 and 16 trials, because several trials together may reveal what
one of them does not. A run ends when ``GAIN_FACTOR * value <= lmbda`` in ``IN_A_ROW`` decisions in
a row:

- Trials that are chosen one after another gain more than the same number chosen at once.
- A model of few outcomes often underestimates what there is to find, and corrects itself later.
"""

from __future__ import annotations

from collections.abc import Callable

from ax_costaware.core.problem import Problem

NUM_AHEAD = (1, 4, 16)
"""Batch sizes for which the gain of further trials is computed."""

GAIN_FACTOR = 4.0
"""Factor on the expected gain of further trials."""

IN_A_ROW = 5
"""Decisions in a row that have to agree. Both numbers were chosen by ``benchmarks/stopping.py``: a
run that ends too early loses more than one that ends too late."""

_VALUE = "worth_per_cost"


def at_price(
    problem: Problem, lmbda: float | None, gain_per_cost: Callable[[], float | None]
) -> tuple[str | None, dict[str, float | str]]:
    """Compare the value of further trials with the price of their cost.

    The rule is not applied

    - without a price,
    - inside a batch, where there are no new outcomes since its start, and
    - when a decision is made again because it would have repeated a pending trial: the rule was
      applied to the first one.

    Args:
        problem: Inputs of the decision, with the records of earlier ones.
        lmbda: Price of one unit of cost, in units of the objective; None: none.
        gain_per_cost: Returns the expected gain of further trials in the value of what is deployed,
            per unit of their cost, for the best batch size; None while a cost is unknown.

    Returns:
        The reason to stop, as a phrase, or None to go on; and the record for the next trial.
    """
    record: dict[str, float | str] = {"objective": problem.goal}
    if lmbda is None or problem.earlier_in_batch or (gain := gain_per_cost()) is None:
        return None, record
    value = GAIN_FACTOR * gain
    # Values for another objective have another unit.
    decisions = [t.decision for t in problem.trials if _VALUE in t.decision]
    recorded = [d[_VALUE] for d in decisions if d.get("objective", problem.goal) == problem.goal]
    latest = [*recorded, value][-IN_A_ROW:]
    if not problem.known and len(latest) == IN_A_ROW and max(latest) <= lmbda:
        reason = (
            f"in {IN_A_ROW} decisions in a row further trials were worth at most "
            f"{max(latest):.6g} per unit of their cost to what is deployed, not above the price of "
            f"{lmbda:.6g} for a unit of cost"
        )
        return reason, record
    return None, {**record, "lambda": lmbda, _VALUE: value}
