"""Base of the methods that compare the value of a trial with its cost.

Costs and the budget are in the user's own unit of cost; ``lmbda`` is in raw units of the objective
per unit of cost, or a ``StandardizedPrice``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Any, Self, cast

from ax_costaware.acquisition.feasibility import Feasibility
from ax_costaware.argument_checks import (
    check_fields,
    instance_of,
    number_where,
    one_of,
    positive_number,
    positive_number_or_none,
    sequence_of,
)
from ax_costaware.core.account import BudgetState
from ax_costaware.core.failures import LearnFailures, failures_as_constraint
from ax_costaware.core.further_budgets import further_costs
from ax_costaware.core.history import PastTrial
from ax_costaware.core.method import origin_of
from ax_costaware.core.problem import Decision, Problem, SpaceExhausted, Stop
from ax_costaware.core.switching import kept_settings
from ax_costaware.core.traits import Traits
from ax_costaware.methods.costed import CostArgument, CostedMethod, DeclaredOrLearned
from ax_costaware.models.posterior import FunctionalPosterior
from ax_costaware.space.at_most import AtMost
from ax_costaware.space.candidates import Candidates, Descriptors
from ax_costaware.space.listed import ListedCosts
from ax_costaware.space.nonlinear import InputConstraint, checked_constraints
from ax_costaware.space.parameters import Row

_DRAWS = 32
"""Quasi-random candidates for each trial of a cost-aware initial design."""

_COST_RATIO = 1.25
"""Lower bound of the cost limit of an initial trial, as a multiple of the cheapest candidate.

It keeps the design from collapsing onto the cheapest points.
"""

_MIN_OUTCOMES = 3
"""Least number of outcomes before an initial design ends because it has spent its share."""


@dataclass(frozen=True)
class StandardizedPrice:
    """Price of a unit of cost in standardized units of the objective.

    That unit is the standard deviation of the outcomes so far if hyperparameters are fitted, and
    the prior standard deviation if they are given. The price of PBGI in Xie et al. 2024 is
    ``StandardizedPrice(1e-4)``.

    Raises:
        InputError: Unless ``value`` is a finite number > 0.
    """

    value: float
    """Value of one unit of cost, in standardized units."""

    def __post_init__(self) -> None:
        check_fields(self, value=positive_number)


@dataclass(frozen=True, kw_only=True)
class PricedMethod(CostedMethod):
    """Base of the methods that compare the value of a trial with its cost, declared or learned.

    Raises:
        InputError: On construction, when a field has a value that the method cannot use.
    """

    cost: CostArgument = field(kw_only=False)

    lmbda: float | StandardizedPrice | None = None
    """Value of one unit of cost, in units of the objective: the improvement that is worth one unit;
    or a ``StandardizedPrice``. None: only the budget ends a run."""

    initial_share: float | None = 0.2
    """Largest share of the budget for the initial trials; None: the design ignores costs.
    Quasi-random points that would leave too little for the other initial trials are skipped;
    learned costs are considered from the first report on. Once the design has spent its share, and
    has three outcomes, the model decides."""

    candidates: Candidates | None = None
    """The only possible trials, as a table. None: all combinations within the constraints."""

    descriptors: Sequence[Descriptors] = ()
    """Numbers that describe the values of a choice, which the model sees in their place. A table
    ``candidates`` may have descriptors of its own."""

    at_most: Sequence[AtMost] = ()
    """Restrictions of the number of parts that are present in a trial, such as
    ``AtMost(2, ["salt", "acid", "oil"])``."""

    learn_failures: LearnFailures = "auto"
    """Learn the probability of failure as an additional constraint.

    - ``"auto"``: once two trials have failed, and two have outcomes.
    - True: from the first failed trial on.
    - ``"abandoned"``: the same, also from abandoned trials.
    - False: never. A decision near a failed trial is made again with a model that assigns that
      point at most the median outcome, which holds for all values.
    """

    input_constraints: Sequence[InputConstraint] = ()
    """Nonlinear constraints on parameters: expressions, as in
    ``NonlinearConstraint("width * depth <= 4000")``, or functions from a parameterization to True
    where it is allowed, with which the experiment cannot be stored. Trials and what is deployed
    satisfy them. Past trials that do not are learned from, and never deployed."""

    def __post_init__(self) -> None:
        expected = "a Candidates, or None"
        instance_of(self.candidates, "candidates", Candidates | None, expected)
        for name, kind in (("descriptors", Descriptors), ("at_most", AtMost)):
            expected = f"a sequence of {kind.__name__}"
            found = sequence_of(getattr(self, name), name, expected)
            for each in found:
                instance_of(each, name, kind, expected)
            object.__setattr__(self, name, found)
        one_of(self.learn_failures, "learn_failures", ("auto", False, True, "abandoned"))
        check_fields(
            self,
            lmbda=_price_or_none,
            initial_share=_share_or_none,
            input_constraints=checked_constraints,
        )
        super().__post_init__()

    @property
    def traits(self) -> Traits:
        """Outliers are clipped early, and constraints are supported."""
        return replace(
            super().traits,
            winsorize_iqr=1.5,
            refuses_constraints=None,
            candidates=self.candidates,
            descriptors=tuple(self.descriptors),
            at_most=tuple(self.at_most),
            input_constraints=tuple(self.input_constraints),
        )

    @property
    def trial_costs(self) -> PricedCosts:
        """Costs of trials by ``cost``."""
        return PricedCosts.of(self)

    def given_lambda(self, problem: Problem) -> float | None:
        """Return ``lmbda`` in units of the objective per unit of cost; None if it is not given."""
        price = self.lmbda
        return price.value * problem.scale.unit if isinstance(price, StandardizedPrice) else price

    def initial(self, problem: Problem) -> Decision | Stop | None:
        """Return the next trial of the initial design: a quasi-random point that is not expensive.

        With ``initial_share`` and a budget, it is the first of ``_DRAWS`` points that costs at most
        ``max(left of the share / trials left in the design, _COST_RATIO * cheapest point)``.
        Learned costs are considered from the first report on. The design ends early once it
        has spent its share, as it may if costs are learned.
        """
        share, measured = self._design_budget, _measured(problem)
        problem = self._likely_first(problem)
        may_end = self.charge_initial and len(measured) >= _MIN_OUTCOMES
        state = self.budget_state(problem, initial=True)
        # In the unit of the first budget, relative to the whole budgets.
        rates = {unit: self._exchange_rate(other) for unit, other in state.further.items()}
        used = max([state.spent, *(rates[u] * each.spent for u, each in state.further.items())])
        if share is not None and may_end and used >= share:
            return None
        is_known = self.trial_costs.metric is None or any(
            trial.reported_cost is not None for trial in problem.trials
        )
        if not is_known or (share is None and self.max_trial_cost is None):
            return super().initial(problem)
        part = math.inf
        if share is not None:
            part = (share - used) / max(1, self.initial_trials - problem.num_begun)
        rows: list[Row] = []
        with suppress(SpaceExhausted):
            for row in problem.drawn(_DRAWS):
                rows.append(row)
        if not rows:
            raise SpaceExhausted
        # Points that keep settings of the previous trial have no switching cost for them.
        keeping = [{**row, **settings} for settings in kept_settings(problem, self) for row in rows]
        tried = [*problem.earlier_in_batch, *(trial.parameters for trial in problem.trials)]
        rows += [row for row in keeping if problem.space.meets(row) and row not in tried]
        expected = self.trial_costs.expected(problem, rows)
        further = further_costs(self, problem, rows)
        affordable = [
            (row, cost, others)
            for row, alone, others in zip(rows, expected, further, strict=True)
            if (cost := self.with_switching_cost(problem, row, alone)) is not None
            and state.pays(cost, others)
        ]
        if not affordable:
            reported = [t.reported_cost for t in problem.trials if t.reported_cost is not None]
            # A cost model of few reports may be far too high, so a trial is run all the same.
            if self.trial_costs.metric is None or state.is_capped or state.pays(min(reported)):
                return super().initial(problem)
            if measured:
                raise SpaceExhausted  # the model then searches the whole space, or stops
            return self.unfinished_design(self.exhausted(problem, state), state)
        amounts = [
            max([cost, *(rates[unit] * (other or 0.0) for unit, other in others.items())])
            for _, cost, others in affordable
        ]
        part = max(part, _COST_RATIO * min(amounts))
        place = next(i for i, amount in enumerate(amounts) if amount <= part)
        row, cost, _ = affordable[place]
        limit = min(part, state.limit or part)
        why = f"{origin_of(problem, row)}, of those that cost at most {limit:.3g}."
        return self.initial_decision(problem, row, cost, state, why)

    def _exchange_rate(self, other: BudgetState) -> float:
        """Return the amount of the first budget for one unit of another one."""
        assert self.budget is not None
        return self.budget / (other.spent + (other.remaining or 0.0))

    def _likely_first(self, problem: Problem) -> Problem:
        """Return the problem with a design whose next points are likely not to fail."""
        constraints = failures_as_constraint(problem, self.learn_failures)
        if not constraints:
            return problem
        rows: list[Row] = []
        with suppress(SpaceExhausted):
            rows += islice(iter(problem.draw, None), _DRAWS)
        feasibility = Feasibility.of(constraints, FunctionalPosterior.of)
        likely = feasibility.probability(problem.space.encode(rows)) >= 0.5
        first = [row for row, is_likely in zip(rows, likely.tolist(), strict=True) if is_likely]
        drawn = chain(first or rows, iter(problem.draw, None))
        return replace(problem, draw=partial(next, drawn))

    @property
    def _design_budget(self) -> float | None:
        """Budget of the initial design; None without a budget or a share."""
        if self.initial_share is None or self.budget is None:
            return None
        return self.initial_share * self.budget


@dataclass(frozen=True)
class PricedCosts(DeclaredOrLearned):
    """Costs that may be those of a table, and of which the largest is known from past charges."""

    method: PricedMethod
    """The method."""

    @classmethod
    def of(cls, method: CostedMethod) -> Self:
        """Return the costs by the argument ``cost`` of a method, or by its table."""
        found = super().of(method)
        candidates = cast(PricedMethod, method).candidates
        if candidates is None or found.metric is None or found.metric != candidates.cost:
            return found
        return replace(found, declared=ListedCosts(candidates), metric=None)

    def at(self, parameters: Row) -> float | None:
        """Return the declared cost of a trial; None if it is learned, or in no row of the table."""
        listed = self.declared.candidates if isinstance(self.declared, ListedCosts) else None
        if listed is not None and listed.find(parameters) is None:
            return None
        return super().at(parameters)


def _measured(problem: Problem) -> list[PastTrial]:
    return [t for t in problem.trials if t.is_completed and t.outcome is not None]


def _price_or_none(value: Any, name: str) -> float | StandardizedPrice | None:
    return value if isinstance(value, StandardizedPrice) else positive_number_or_none(value, name)


def _share_or_none(value: Any, name: str) -> float | None:
    expected = "a number in (0, 1], or None"
    return None if value is None else number_where(value, name, expected, lambda n: 0 < n <= 1)
