r"""The cheapest control set with nearly the best value, if costs are random and learned.

Algorithm 1 of Hoang et al. 2025, *Bayesian Optimization for Unknown Cost-Varying Variable Subsets
with No-Regret Costs*, is ``UnknownCosts.published``. The defaults are this package's own variant of
it. Every control set is explored in turn; then, with an upper confidence bound :math:`u_i` of the
best expected value of control set i, and the best lower one :math:`l`,

.. math:: \bar u_i = \min_t u_{i,t}, \quad \bar l = \max_t l_t, \quad
   S = \{i : \bar u_i \ge (1 - \alpha)\, \bar l\,\},

and of the control sets in :math:`S` the one whose cost has the least lower confidence bound is
played, of equal ones that with the largest acquisition value. Where no control set qualifies, the
running bounds start anew from the present ones.

The paper's bounds are :math:`\max E[\mu \pm \beta\sigma]`, which average the uncertainty of the
function over the uncontrolled inputs. The uncertainty of the average is much smaller. A control set
whose inputs matter little is never ruled out by the former, so the default bounds are
:math:`\max E\mu \pm \beta\,\mathrm{sd}[E f]`.

By default assumptions of the paper about units are removed, so that a shift or another unit of the
objective or of the cost changes no decision:

* :math:`(1 - \alpha)\,\bar l` presumes an objective of at least zero. Here it is
  :math:`\bar l - \alpha (\bar l - f_{low})`, with the least value :math:`f_{low}` of the objective
  given, or estimated from the model.
* The width :math:`\sqrt{2 \log T / T_i}` of a mean cost presumes costs in [0, 1]. Here it is
  multiplied by the range of the costs of one control set. If it is not given, twice the standard
  deviation is used, which is at most the range (Popoviciu) and suffices for a sub-Gaussian cost.
  The relative standard deviation is pooled over the control sets.
* The number of trials :math:`T` is unknown under a budget. Here it is the number of trials so far
  plus those that the rest of the budget pays for at the average cost so far.
* A mean cost is an average of reports. Here it is that of a log-normal model at the values that are
  set, where reports depend on these.

Costs and the budget are in the user's own unit, values in raw units of the objective with the sign
of maximization.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from typing_extensions import override

from ax_costaware.argument_checks import (
    at_least,
    boolean,
    check_fields,
    finite_number,
    given_fields,
    number_between_zero_and_one,
    number_where,
    optional,
    positive_number,
)
from ax_costaware.exceptions import InputError
from ax_costaware.methods.control_sets.rules.rule import (
    ControlSetChoice,
    ControlSetHistory,
    ControlSetRule,
    Evaluate,
    EvaluateBounds,
    PastChoice,
    SeenValues,
    finite_values,
    maximal,
    proper_supersets,
)

EXPLORE, EXPLOIT = "explore", "exploit"
"""The two phases, as a decision records them."""

PRIOR_SCATTER = 0.5
"""Standard deviation of costs, as a share of their mean, before any was reported twice."""

LEAST_TRIALS = 2
"""Trials counted at least, so that the logarithm in the width is positive."""


@dataclass(frozen=True, repr=False)
class UnknownCosts(ControlSetRule):
    """Explore every control set, then play the cheapest whose value is nearly the best.

    Raises:
        InputError: For a tolerance outside [0, 1), an exploration share outside (0, 1), or any
            other field outside of what it takes.
    """

    refuses_constraints: ClassVar[bool] = True

    tolerance: float = 0.1
    """Share of the best value, measured from the worst, that may be given up for a cheaper control
    set when exploitation begins, in [0, 1)."""

    exploration: float = 0.6
    """Share that exploration may cost, in (0, 1), of what trials that the rule did not choose, such
    as initial ones, leave of the budget."""

    halve_every: int | None = None
    """Number of decisions of the exploitation between halvings of the tolerance; 0 for a constant
    tolerance; None for the number of controllable inputs."""

    cost_range: float | None = None
    """Largest difference between two costs of one control set, a finite number > 0; None: estimated
    from reports."""

    worst_value: float | None = None
    """The least value that the objective can take, or the greatest if it is minimised, in raw
    units; None: estimated from the model."""

    rounds: int | None = None
    """Times that each control set is explored at most; None: as often as the share allows."""

    pointwise_bounds: bool = False
    """Average the pointwise bounds, as the paper does, in place of bounds of the average."""

    horizon: int | None = None
    """Number of trials T in the width of the bound of a mean cost, an integer >= 2; None: trials so
    far and those that the rest of the budget pays for."""

    models_costs: bool = True
    """Learn how costs depend on the values that a control set sets; False: average its reports."""

    decays_with_budget: bool = False
    """Decrease the tolerance in proportion to the rest of the budget, in place of halving it: the
    paper's practical advice."""

    def __post_init__(self) -> None:
        tolerance = partial(
            number_where, expected="a number in [0, 1)", holds=lambda number: 0 <= number < 1
        )
        check_fields(
            self,
            tolerance=tolerance,
            exploration=number_between_zero_and_one,
            halve_every=optional(at_least(0)),
            cost_range=optional(positive_number),
            worst_value=optional(partial(finite_number, expected="a finite number, or None")),
            rounds=optional(at_least(1)),
            pointwise_bounds=boolean,
            horizon=optional(at_least(2)),
            models_costs=boolean,
            decays_with_budget=boolean,
        )
        if self.decays_with_budget and self.halve_every is not None:
            raise InputError(
                f"halve_every={self.halve_every} with decays_with_budget=True: expected one of the "
                "two."
            )

    @classmethod
    def published(
        cls, horizon: int, worst_value: float = 0.0, rounds: int | None = None, **others: Any
    ) -> UnknownCosts:
        """Return Algorithm 1 of the paper, for costs in [0, 1].

        Args:
            horizon: Number of trials T.
            worst_value: Least value of the objective; the paper presumes zero.
            rounds: Number of trials of each control set in the exploration, tau of the paper; None:
                as many as cost ``exploration`` of the budget, as in its experiments.
            **others: Further fields. The defaults of ``tolerance``, ``exploration`` and
                ``halve_every`` are those of the experiments.

        Raises:
            InputError: As ``UnknownCosts``.
        """
        return cls(
            horizon=horizon,
            worst_value=worst_value,
            rounds=rounds,
            cost_range=1.0,
            pointwise_bounds=True,
            models_costs=False,
            **others,
        )

    def __repr__(self) -> str:
        return f"UnknownCosts({', '.join(given_fields(self))})"

    @override
    def oriented(self, minimize: bool) -> UnknownCosts:
        if not minimize or self.worst_value is None:
            return self
        return replace(self, worst_value=-self.worst_value)

    def decide(self, history: ControlSetHistory, evaluate: Evaluate) -> ControlSetChoice:
        """Choose a control set; see ``ControlSetRule.decide``.

        Raises:
            InputError: Also if ``evaluate`` gives no lower bounds, or if neither a budget nor
                ``rounds`` ends the exploration.
        """
        if not isinstance(evaluate, EvaluateBounds):
            raise InputError(
                f"evaluate={evaluate!r}: expected an EvaluateBounds, which gives lower bounds, too."
            )
        if history.budget is None and self.rounds is None:
            raise InputError(
                "rounds=None: without a budget, which exploration could take a share of, expected "
                "the number of times that each control set is explored."
            )
        if history.budget is None and self.decays_with_budget:
            raise InputError("decays_with_budget=True: expected a budget.")
        affordable = history.affordable_indices()
        tops = maximal(proper_supersets(history.parameters), range(len(history.costs)))
        bounds = evaluate.lower(tops, self.pointwise_bounds)
        lower = max(finite_values(bounds, tops, "the lower bound "))
        explored = self._to_explore(history, affordable)
        if explored is not None:
            return self._explore(history, evaluate, explored, lower)
        return self._exploit(history, evaluate, affordable, lower)

    def _upper(self, evaluate: EvaluateBounds, indices: Sequence[int]) -> dict[int, float]:
        given = evaluate.upper(indices, self.pointwise_bounds)
        values = finite_values(given, indices, "the upper bound ")
        return dict(zip(indices, values, strict=True))

    def _to_explore(self, history: ControlSetHistory, affordable: Sequence[int]) -> int | None:
        """Return the control set to explore next, or None if exploration has ended."""
        if any(_ended_exploration(past, history.budget) for past in history.past):
            return None
        explored = _explored(history)
        counts = [sum(past.index == i for past in explored) for i in range(len(history.costs))]
        turn = min(affordable, key=lambda i: (counts[i], i))
        if self.rounds is not None and counts[turn] >= self.rounds:
            return None
        if history.budget is None:
            return turn
        share = self._share(history) * (1 + 1e-9)
        spent = math.fsum(past.charged for past in explored)
        # The cost of a control set without reports is unknown and counts as zero here.
        expected = history.costs[turn] if history.is_priced(turn) else 0.0
        return turn if spent < share and spent + expected <= share else None

    def _share(self, history: ControlSetHistory) -> float:
        """Return the largest cost of the exploration."""
        assert history.budget is not None
        if history.remaining is None:
            return self.exploration * history.budget
        own = history.remaining + math.fsum(past.charged for past in history.past)
        return self.exploration * min(own, history.budget)

    def _explore(
        self, history: ControlSetHistory, evaluate: EvaluateBounds, index: int, lower: float
    ) -> ControlSetChoice:
        seen = SeenValues(evaluate)
        seen.evaluate([index])
        upper = self._upper(evaluate, [index])
        spent = math.fsum(past.charged for past in _explored(history))
        limit = ""
        if history.budget is not None:
            limit = f", on which {spent:g} of at most {self._share(history):g} was spent"
        return ControlSetChoice(
            index=index,
            reason=f"Exploring every control set in turn{limit}: {history.describe(index)} comes "
            f"next; its upper bound is {upper[index]:.6g}.",
            in_play=(index,),
            values=seen.values,
            state=_state(EXPLORE, lower, upper, history, reset=False),
        )

    def _exploit(
        self,
        history: ControlSetHistory,
        evaluate: EvaluateBounds,
        affordable: Sequence[int],
        lower: float,
    ) -> ControlSetChoice:
        seen = SeenValues(evaluate)
        present = self._upper(evaluate, affordable)
        worst = evaluate.worst() if self.worst_value is None else self.worst_value
        tolerance = self._tolerance_now(history)
        running_lower, running_upper = _running_bounds(history)

        def threshold(goal: float) -> float:
            return goal - tolerance * (goal - worst)

        goal = max(running_lower, lower)
        qualified = [i for i in affordable if min(running_upper[i], present[i]) >= threshold(goal)]
        reset = not qualified
        if reset:
            goal = lower
            qualified = [i for i in affordable if present[i] >= threshold(goal)]
        if not qualified:
            # No affordable control set reaches the best: compare the affordable ones.
            tops = maximal(proper_supersets(history.parameters), affordable)
            goal = max(finite_values(evaluate.lower(tops, self.pointwise_bounds), tops))
            least = min(threshold(goal), max(present.values()))
            qualified = [i for i in affordable if present[i] >= least]
        costs = self._least_costs(history, evaluate, qualified)
        least = min(costs.values())
        cheapest = [i for i in qualified if math.isclose(costs[i], least, rel_tol=1e-9)]
        seen.evaluate(cheapest)
        index = history.largest(cheapest, seen.values)
        reason = (
            f"{len(qualified)} of {len(affordable)} affordable control sets "
            f"{'reach' if len(qualified) > 1 else 'reaches'} {threshold(goal):.6g}, which is the "
            f"best lower bound, {goal:.6g}, less {tolerance:.3g} of its height above {worst:.6g}. "
            f"{history.describe(index)} has the least lower bound of the cost among them, "
            f"{least:.6g}"
        )
        if len(cheapest) > 1:
            tied = "1 more does" if len(cheapest) == 2 else f"{len(cheapest) - 1} more do"
            reason += f", as {tied}, and of these the largest value"
        reason += "."
        if reset:
            reason += " No control set had reached the running bounds, which start anew."
        return ControlSetChoice(
            index=index,
            reason=reason,
            in_play=tuple(qualified),
            values=seen.values,
            state=_state(EXPLOIT, lower, present, history, reset),
        )

    def _tolerance_now(self, history: ControlSetHistory) -> float:
        exploited = [past for past in history.past if past.state.get("phase") == EXPLOIT]
        if self.decays_with_budget:
            left = max(history.remaining or 0.0, 0.0)
            at_first = left + math.fsum(past.charged for past in exploited)
            return self.tolerance * left / at_first if left else 0.0
        every = self.halve_every
        if every == 0:
            return self.tolerance
        if every is None:
            every = len(frozenset().union(*history.parameters))
        return float(self.tolerance * 0.5 ** (len(exploited) // every))

    def _least_costs(
        self, history: ControlSetHistory, evaluate: EvaluateBounds, indices: Sequence[int]
    ) -> dict[int, float]:
        """Return lower confidence bounds of the expected cost of one trial, at least zero."""
        estimates = dict(zip(indices, evaluate.costs(indices), strict=True))
        reported = history.reported or ((),) * len(history.costs)
        averaged = [reported[i] for i, cost in estimates.items() if cost.standard_error is None]
        relative = 2 * relative_scatter(averaged)
        factor = math.sqrt(2 * math.log(self.horizon or _horizon(history)))
        bounds: dict[int, float] = {}
        for index, estimate in estimates.items():
            count = len(reported[index])
            error = estimate.standard_error
            if error is None:
                if count == 0:
                    bounds[index] = 0.0
                    continue
                spread = relative * estimate.mean if self.cost_range is None else self.cost_range
                error = spread / math.sqrt(count)
            bounds[index] = max(estimate.mean - factor * error, 0.0)
        return bounds


def relative_scatter(reported: Sequence[Sequence[float]]) -> float:
    """Return the standard deviation of costs relative to the mean of their control set.

    It is pooled over the control sets, since one of them may have few trials, and includes one
    pseudo-observation of ``PRIOR_SCATTER``, so that a few equal costs do not give zero.
    """
    squares, freedom = PRIOR_SCATTER**2, 1
    for costs in reported:
        if costs:
            mean = math.fsum(costs) / len(costs)
            squares += math.fsum((cost / mean - 1) ** 2 for cost in costs)
            freedom += len(costs) - 1
    return math.sqrt(squares / freedom)


def _explored(history: ControlSetHistory) -> list[PastChoice]:
    """Return the decisions of the first phase; undelivered ones, without a state, count."""
    return [past for past in history.past if past.state.get("phase", EXPLORE) == EXPLORE]


def _ended_exploration(past: PastChoice, budget: float | None) -> bool:
    """Return True for a decision of the second phase, made from no smaller budget than now."""
    if past.state.get("phase") != EXPLOIT:
        return False
    return budget is None or past.budget is None or budget <= past.budget * (1 + 1e-9)


def _horizon(history: ControlSetHistory) -> float:
    """Return the number of trials so far plus those that the rest of the budget pays for."""
    so_far = len(history.past)
    charged = math.fsum(past.charged for past in history.past)
    average = charged / so_far if charged > 0 else math.fsum(history.costs) / len(history.costs)
    to_come = 0.0 if history.remaining is None else max(history.remaining, 0.0) / average
    return max(float(LEAST_TRIALS), so_far + to_come)


def _running_bounds(history: ControlSetHistory) -> tuple[float, list[float]]:
    """Return the running bounds since the last reset, from the records of decisions."""
    lower, upper = -math.inf, [math.inf] * len(history.costs)
    for past in history.past:
        recorded = past.state.get("lower")
        if recorded is None or not past.comparable:
            continue
        if past.state.get("reset"):
            lower, upper = -math.inf, [math.inf] * len(history.costs)
        lower = max(lower, recorded)
        for index, value in past.state["upper"].items():
            upper[int(index)] = min(upper[int(index)], value)
    return lower, upper


def _state(
    phase: str, lower: float, upper: dict[int, float], history: ControlSetHistory, reset: bool
) -> dict[str, Any]:
    """Return the state for later decisions, without bounds that hold for this decision only."""
    return {
        "phase": phase,
        "lower": None if history.pending else lower,
        "upper": {str(index): value for index, value in upper.items()},
        "reset": reset,
    }
