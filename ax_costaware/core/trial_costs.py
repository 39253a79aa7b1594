"""Costs of a method's trials, declared or learned from reported ones.

Costs are in the user's unit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import torch

from ax_costaware.argument_checks import plain_value, positive_number
from ax_costaware.core.further_budgets import problem_in
from ax_costaware.core.history import PastTrial
from ax_costaware.costs import SwitchingCost
from ax_costaware.costs.cost_model import CostModel
from ax_costaware.costs.declared_cost import Declared, DeclaredCost, cost_of
from ax_costaware.exceptions import InputError
from ax_costaware.space.parameters import Row

if TYPE_CHECKING:
    from ax_costaware.core.account import Budgeted
    from ax_costaware.core.problem import Problem

NO_LIMIT = 2**31
"""Size of a batch that no budget limits."""

_NUM_SAMPLES = 128
"""Quasi-random parameterizations from which the largest declared cost is estimated."""


@dataclass(frozen=True)
class TrialCosts:
    """Costs of a method's trials; by default those that its ``cost_at`` declares."""

    method: Budgeted
    """The method."""

    declared: Declared | None = None
    """Declared cost, differentiable if it is a ``Cost``; None if it is learned, or is that of the
    method's own ``cost_at``."""

    metric: str | None = None
    """Metric of reported costs from which the cost is learned; None if it is declared."""

    switching: SwitchingCost | None = None
    """Switching costs, on top of all other costs; None without any."""

    unit: str | None = None
    """Name of the unit of cost, if it has one."""

    further: Mapping[str, Budgeted] = field(default_factory=dict)
    """Methods with a further cost and its budget alone, by the name of the unit."""

    setup: float = 0.0
    """Cost of setting up a batch, on top of all other costs; zero without any."""

    @property
    def searched(self) -> Declared:
        """Cost that the optimizer uses: ``declared``, or a subclass's own ``cost_at``."""
        if self.declared is None or self.method.has_own_cost:
            return self._own
        return self.declared

    def _own(self, parameters: dict[str, Any]) -> float:
        name = f"{type(self.method).__name__}.cost_at({parameters})"
        return positive_number(plain_value(self.method.cost_at(parameters)), name)

    def refuse_own(self, argument: str) -> Self:
        """Refuse a subclass's own ``cost_at`` where costs are learned.

        Otherwise trials would be charged other costs than they were chosen by.

        Args:
            argument: Argument from which the search takes the costs.

        Raises:
            InputError: With the class.
        """
        if self.method.has_own_cost:
            raise InputError(
                f"{type(self.method).__name__}.cost_at: expected that of Method, whose search "
                f"reads costs from {argument} alone, so that other costs would be charged than "
                "are searched by. Declare costs there, or derive from Method."
            )
        return self

    def at(self, parameters: Row) -> float | None:
        """Return the declared cost of a trial, without switching costs; None if it is learned.

        It is what ``Budgeted.cost_at`` returns unless a subclass overrides it.

        Raises:
            InputError: If the declared cost is not a finite number > 0 there.
        """
        return None if self.declared is None else cost_of(self.declared, parameters)

    def model(self, problem: Problem) -> CostModel | None:
        """Return the cost model over the model's space, without switching costs; None if unknown.

        By default the declared cost. A method that learns costs returns a fitted model.

        Raises:
            InputError: If a reported cost cannot be learned from.
        """
        return None if self.metric is not None else DeclaredCost(self.searched, problem.space)

    def expected(self, problem: Problem, rows: Sequence[Row]) -> list[float | None]:
        """Return the expected costs of trials, learned or declared, without switching costs.

        Args:
            problem: Has the trials from which costs are learned.
            rows: The parameterizations.

        Returns:
            A cost per parameterization; None if unknown.

        Raises:
            InputError: If a declared or reported cost is not a finite number > 0.
        """
        if self.metric is None or (model := self.model(problem)) is None:
            return [self.method.cost_at(row) for row in rows]
        with torch.no_grad():
            return [*model.log_cost(problem.space.encode(rows)).exp().tolist()]

    def reserved(self, problem: Problem, initial: bool) -> list[float]:
        """Return the expected costs of earlier decisions of the batch, without switching costs.

        Args:
            problem: Inputs of the decision.
            initial: True for the initial design, in which costs are not yet learned.
        """
        rows = problem.earlier_in_batch
        if initial:
            return [self.method.cost_at(row) or 0.0 for row in rows]
        return [cost or 0.0 for cost in self.expected(problem, rows)]

    def as_run(self, trial: PastTrial, trials: Sequence[PastTrial]) -> float | None:
        """Return the declared cost of an ended trial by the progress it made; None for as planned.

        Args:
            trial: The trial.
            trials: All trials, of which it may resume one.
        """
        return None

    def by_others(
        self, control_set: str | None, reported: Mapping[str | None, Sequence[float]]
    ) -> float | None:
        """Return the cost of a trial without an expected cost, from reported costs of others.

        By default the mean of all reported costs.

        Args:
            control_set: Name of the trial's control set; None if it sets every parameter.
            reported: Reported costs minus switching costs, by the name of the control set.

        Returns:
            The cost; None without a suitable reported cost.
        """
        costs = [cost for others in reported.values() for cost in others]
        return math.fsum(costs) / len(costs) if costs else None

    def largest(self, problem: Problem) -> float | None:
        """Return the largest expected cost of a trial; None if it does not limit a batch."""
        if not problem.space.columns:
            return None
        rows = problem.space.sobol_rows(_NUM_SAMPLES)
        # Outside of the parameter constraints the declared cost may be invalid.
        costs = [self.method.cost_at(row) or 0.0 for row in rows if problem.space.meets(row)]
        change = 0.0 if self.switching is None else self.switching.largest(problem.space)
        return max(costs, default=0.0) + change

    def num_payable(self, problem: Problem, initial: bool) -> int:
        """Return the size of a batch that the budget certainly pays for: at least one.

        If it pays for none, the request for one trial says so.

        Args:
            problem: Inputs of the decision.
            initial: True for the initial design, which may be free of charge.
        """
        state, most = self.method.budget_state(problem, initial), NO_LIMIT
        for unit, other in self.further.items():
            at = problem_in(problem, unit, other)
            most = min(most, other.trial_costs.num_payable(at, initial))
        if self.method.budget is None or state.limit is None:
            return most
        largest = self.largest(problem)
        if not largest:
            return most
        largest = min(largest, self.method.max_trial_cost or largest)
        left = (state.remaining or 0.0) - self.setup
        return min(most, max(1, math.floor(left / largest + 1e-9)))
