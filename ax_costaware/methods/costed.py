"""Base of the methods whose trials have one cost each, declared or learned from reported costs.

Costs and the budget are in the user's own unit of cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self, TypeAlias, cast, get_args

from botorch.acquisition.cost_aware import CostAwareUtility
from botorch.models.model import Model

from ax_costaware.argument_checks import check_fields, one_of, positive_number
from ax_costaware.core.account import check_reported, costs_of_runs, goes_unmeasured, ledger_of
from ax_costaware.core.history import check_complete, check_inputs
from ax_costaware.core.method import Method, Omitted
from ax_costaware.core.problem import Problem
from ax_costaware.core.switching import costs_left_out, switching_costs
from ax_costaware.core.trial_costs import TrialCosts
from ax_costaware.costs import BatchCost, Cost, SwitchingCost
from ax_costaware.costs.cost_model import CostModel
from ax_costaware.costs.declared_cost import CostOfRow, Declared
from ax_costaware.exceptions import InputError
from ax_costaware.methods.costs import check_cost, named_cost
from ax_costaware.models.log_normal_cost import CostKind, LogNormalCostModel

_AN = {False: "the", True: "an"}

COST_MODELS: tuple[str, ...] = get_args(CostKind)
"""Values of ``cost_model``: a GP on the log of the cost, a linear model of it, or their sum."""

CostArgument: TypeAlias = float | Cost | SwitchingCost | BatchCost | str | CostOfRow
"""A number, a value object by parameter names, the name of the metric in which each trial's cost
is reported, or a function; or a switching cost with one of these as its base; or a batch cost."""


@dataclass(frozen=True, kw_only=True)
class CostedMethod(Method):
    """Base of the methods whose trials have one cost each, declared or learned.

    Raises:
        InputError: On construction, when a field has a value that the method cannot use.
    """

    cost: CostArgument
    """Cost of a trial, in a unit of your own:

    - a number;
    - a value object such as ``AffineCost({"epochs": 2.5})``,
      ``ProductCost({"epochs": 1, "width": 2}, scale=0.1)`` or ``TableCost("machine", {...})``, or a
      sum of these;
    - the name of a metric in which the cost of each trial is reported, from which it is learned
      (``complete_trial(..., cost=...)`` reports it), or of the cost column of ``candidates``;
    - a function from a parameterization to a number, with which the experiment cannot be stored;
    - a ``SwitchingCost`` on top of one of these;
    - a ``BatchCost``: one of these for each trial, and a set-up for each batch.
    """

    cost_model: CostKind = "trend"
    """Model of the log of a learned cost: ``"gp"``, ``"linear"``, or ``"trend"``, their sum, which
    extrapolates rising costs."""

    def __post_init__(self) -> None:
        check_fields(self, cost=_checked_cost)
        if self.trial_costs.metric is not None:
            self.trial_costs.refuse_own(f"cost={self.cost!r}")
        one_of(self.cost_model, "cost_model", COST_MODELS)
        super().__post_init__()

    @property
    def trial_costs(self) -> DeclaredOrLearned:
        """Costs of trials by ``cost``."""
        return DeclaredOrLearned.of(self)

    def check(self, problem: Problem) -> None:
        """Refuse a cost that does not fit the experiment, and missing reports of a cost."""
        costs = self.trial_costs
        if costs.metric in {problem.objective, *(each.metric for each in problem.objectives)}:
            raise InputError(
                f"cost={self.cost!r} is {_AN[bool(problem.objectives)]} objective: expected "
                "another metric, in which the cost of each trial is reported."
            )
        if costs.metric is not None:
            check_reported_costs(self, problem)
        else:
            check_cost(problem, costs.searched)

    def omitted(self, problem: Problem) -> Omitted:
        """Return reported costs that the model leaves out."""
        if self.trial_costs.metric is None:
            return Omitted()
        changes = zip(problem.trials, switching_costs(problem.trials, self), strict=True)
        few = [t.index for t, change in changes if 0 < (t.reported_cost or math.inf) <= change]
        return Omitted(sentences=costs_left_out(few))


@dataclass(frozen=True)
class DeclaredOrLearned(TrialCosts):
    """Costs of one argument, declared or learned from reported ones."""

    method: CostedMethod
    """The method."""

    @classmethod
    def of(cls, method: CostedMethod) -> Self:
        """Return the costs by the argument ``cost`` of a method."""
        cost, setup, switching = method.cost, 0.0, None
        if isinstance(cost, BatchCost):
            cost, setup = cost.per_trial, cost.setup
        if isinstance(cost, SwitchingCost):
            cost, switching = cost.base, cost
        if isinstance(cost, str):
            return cls(method, metric=cost, switching=switching, setup=setup)
        return cls(method, cast(Declared, cost), switching=switching, setup=setup)

    def model(self, problem: Problem) -> CostModel | None:
        """Return the declared cost of trials, or a model that is fitted to reported costs.

        Raises:
            InputError: If a cost is missing, or is no finite number > 0.
            NothingToLearnFrom: If costs are learned, and none was reported yet.
        """
        return (
            super().model(problem) if self.metric is None else _learned_cost(self.method, problem)
        )

    def largest(self, problem: Problem) -> float | None:
        """Return the largest charge so far or, for declared costs, over the space."""
        entries = ledger_of(problem.trials, self.method)
        amounts = [e.charged or e.reported_cost or e.expected_cost or 0.0 for e in entries]
        return max([super().largest(problem) or 0.0, *amounts])


class NothingToLearnFrom(InputError):
    """No cost was reported yet."""


def _learned_cost(method: CostedMethod, problem: Problem) -> LogNormalCostModel:
    """Return a model that is fitted to the reported costs, summed over resumed trials."""
    check_reported_costs(method, problem)
    lost = [trial.index for trial in problem.trials if trial.has_lost_value]
    costs_by_trial = costs_of_runs(problem.trials, method).items()
    reported = {index: cost for index, cost in costs_by_trial if index not in lost}
    if not reported:
        raise NothingToLearnFrom(
            f"cost={method.cost!r}: no trial has reported its cost yet, and the next is "
            "chosen by what they cost."
        )
    X = problem.space.encode([t.inputs for t in problem.trials if t.index in reported])
    costs = X.new_tensor(list(reported.values()))
    try:
        kind, choices = method.cost_model, problem.space.blocks
        return LogNormalCostModel(X, costs, kind, problem.space.bounds, choices)
    except InputError as error:
        raise InputError(f"cost={method.cost!r}: {error}") from error


def check_reported_costs(method: CostedMethod, problem: Problem) -> None:
    """Refuse reported costs that cannot be learned from.

    Raises:
        InputError: With the indices of the trials, if a cost is missing, is no finite number > 0,
            has another unit, or belongs to a trial without a complete parameterization.
    """
    metric, trials = method.trial_costs.metric, problem.trials
    check_reported(trials, method)
    missing = [
        t.index
        for t in trials
        if t.is_completed and t.reported_cost is None and not goes_unmeasured(t, method)
    ]
    if missing:
        raise InputError(
            f"cost={metric!r}: trials {missing} were completed without a cost, on which decisions "
            "depend. Report it with complete_trial(..., cost=...); for a trial that is completed "
            f"with ax_costaware.report_cost(client, {missing[0]}, ...), or as {metric!r} in Ax's "
            "data."
        )
    # Failed trials count, too: their costs are learned from.
    reported = [trial for trial in trials if trial.reported_cost is not None]
    check_inputs(reported)
    check_complete([trial for trial in reported if not trial.has_lost_value], problem.space)


def _checked_cost(cost: Any, name: str) -> CostArgument:
    if isinstance(cost, BatchCost):
        return BatchCost(cost.setup, _checked_cost(cost.per_trial, "per_trial"))
    if isinstance(cost, SwitchingCost):
        if isinstance(cost.base, BatchCost):
            raise InputError(
                f"base={cost.base!r}: expected the cost of a trial. A BatchCost takes the "
                "switching cost as its per_trial."
            )
        return SwitchingCost(cost.changes, _checked_cost(cost.base, "base"))
    if isinstance(cost, Cost):
        return named_cost(cost)
    # A module of BoTorch is called with points, not with a parameterization.
    is_function = callable(cost) and not isinstance(cost, type | Model | CostAwareUtility)
    if is_function or (isinstance(cost, str) and cost):
        return cast(CostArgument, cost)
    return positive_number(
        cost,
        name,
        "a finite number > 0, a value object such as AffineCost({'epochs': 2.5}), the name of the "
        "metric in which costs are reported, or a function from a parameterization to a number",
    )
