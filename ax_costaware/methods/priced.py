"""Base of the methods that compare the value of a trial with its cost.

A cost is declared, or learned from reported costs. Costs and the budget are in the user's own unit
of cost; ``lmbda`` is in raw units of the objective per unit of cost.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, cast, get_args

from botorch.acquisition.cost_aware import CostAwareUtility
from botorch.models.model import Model

from ax_costaware.argument_checks import (
    check_fields,
    number_where,
    one_of,
    positive_number,
    positive_number_or_none,
)
from ax_costaware.core.account import (
    check_reported,
    costs_of_runs,
    expected_costs,
    ledger_of,
)
from ax_costaware.core.history import PastTrial, check_complete, check_inputs
from ax_costaware.core.method import Method
from ax_costaware.core.problem import Decision, Problem, SpaceExhausted, Stop
from ax_costaware.core.switching import costs_left_out, kept_settings, switching_costs
from ax_costaware.costs import Cost, SwitchingCost
from ax_costaware.costs.cost_model import CostModel
from ax_costaware.costs.declared_cost import CostOfRow, Declared, DeclaredCost
from ax_costaware.exceptions import InputError
from ax_costaware.methods.costs import check_cost, named_cost
from ax_costaware.models.log_normal_cost import CostKind, LogNormalCostModel
from ax_costaware.space.parameters import Row

COST_MODELS: tuple[str, ...] = get_args(CostKind)
"""Values of ``cost_model``: a GP on the log of the cost, a linear model of it, or their sum."""

_DRAWS = 32
"""Quasi-random candidates for each trial of a cost-aware initial design."""

_COST_RATIO = 1.25
"""Largest cost of an initial trial, as a multiple of the cheapest candidate.

It applies when the share of the budget is smaller. The cheapest points alone would say little about
the others.
"""

_MIN_OUTCOMES = 3
"""Least number of outcomes before an initial design ends because it has spent its share."""

CostArgument: TypeAlias = float | Cost | SwitchingCost | str | CostOfRow
"""A number, a value object by parameter names, the name of the metric in which each trial's cost
is reported, or a function; or a switching cost with one of these as its base."""


@dataclass(frozen=True)
class PricedMethod(Method):
    """Base of the methods that divide the value of a trial by its cost, declared or learned.

    Raises:
        InputError: On construction, when a field has a value that the method cannot use.
    """

    winsorize_iqr: ClassVar[float] = 1.5

    refuses_constraints: ClassVar[str | None] = None

    cost: CostArgument
    """Cost of a trial; the name of a metric if it is learned."""

    lmbda: float | None = None
    """Value of one unit of cost, in units of the objective; None if it is not given."""

    cost_model: CostKind = field(default="trend", kw_only=True)
    """Model of a cost that is learned: one of ``COST_MODELS``."""

    initial_share: float | None = field(default=0.2, kw_only=True)
    """Largest share of the budget for the initial design, as far as costs are known; None: the
    design ignores costs."""

    learn_failures: bool | Literal["abandoned"] = field(default=False, kw_only=True)
    """True to weight the value of a trial by its probability of success, which is learned;
    ``"abandoned"``: abandoned trials count as failed, too."""

    def __post_init__(self) -> None:
        one_of(self.learn_failures, "learn_failures", (False, True, "abandoned"))
        check_fields(self, cost=_checked_cost, lmbda=positive_number_or_none)
        # Declared costs are overridden by ``cost_at``, learned ones by ``trial_costs``.
        other = "trial_costs" if self.cost_metric is None else "cost_at"
        self.check_costs_of(PricedMethod, f"cost={self.cost!r}", other)
        one_of(self.cost_model, "cost_model", COST_MODELS)
        check_fields(self, initial_share=_share_or_none)
        super().__post_init__()

    @property
    def cost_metric(self) -> str | None:
        """Metric under which costs are reported; None if they are declared."""
        return self.base_cost if isinstance(self.base_cost, str) else None

    @property
    def base_cost(self) -> Declared | str:
        """Cost of a trial without its switching cost."""
        cost = self.cost
        return cast(Declared | str, cost.base if isinstance(cost, SwitchingCost) else cost)

    @property
    def switching_cost(self) -> SwitchingCost | None:
        """Additional cost of settings that differ from the previous trial; None without one."""
        return self.cost if isinstance(self.cost, SwitchingCost) else None

    @property
    def declared_cost(self) -> Declared | None:
        """The declared cost; None if it is learned."""
        cost = self.base_cost
        return None if isinstance(cost, str) else cost

    def trial_costs(self, problem: Problem) -> CostModel:
        """Return the declared cost of trials, or a model that is fitted to reported costs.

        Raises:
            InputError: If a cost is missing, or is no finite number > 0.
            NothingToLearnFrom: If costs are learned, and none was reported yet.
        """
        if self.cost_metric is not None:
            return _learned_cost(self, problem)
        return DeclaredCost(self.searched_cost, problem.space)

    def largest_cost(self, problem: Problem, initial: bool) -> float | None:
        """Return the largest charge so far or, for declared costs, over the space."""
        entries = ledger_of(problem.trials, self)
        amounts = [e.charged or e.reported_cost or e.expected_cost or 0.0 for e in entries]
        return max([super().largest_cost(problem, initial) or 0.0, *amounts])

    def check(self, problem: Problem) -> None:
        """Refuse a cost that does not fit the experiment, and missing reports of a cost."""
        if self.cost_metric == problem.objective:
            raise InputError(
                f"cost={self.cost!r} is the objective: expected another metric, in which the cost "
                "of each trial is reported."
            )
        if self.cost_metric is not None:
            check_reported_costs(self, problem)
        else:
            check_cost(problem, self.searched_cost)

    def left_out(self, problem: Problem) -> list[str]:
        """Return messages about reported costs that the model leaves out."""
        if self.cost_metric is None:
            return []
        changes = zip(problem.trials, switching_costs(problem.trials, self), strict=True)
        return costs_left_out(
            [t.index for t, change in changes if 0 < (t.reported_cost or math.inf) <= change]
        )

    def initial(self, problem: Problem) -> Decision | Stop:
        """Return the next trial of the initial design: a quasi-random point that is not expensive.

        With ``initial_share`` and a budget, it is the first of ``_DRAWS`` points that costs at most
        ``max(left of the share / trials left in the design, _COST_RATIO * cheapest point)``.
        Learned costs are considered from the first report on. See ``design_is_over``.
        """
        is_known = self.cost_metric is None or any(
            trial.reported_cost is not None for trial in problem.trials
        )
        share = self._design_budget
        if not is_known or (share is None and self.max_trial_cost is None):
            return super().initial(problem)
        state, part = self.budget_state(problem, initial=True), math.inf
        if share is not None:
            part = (share - state.spent) / max(1, self.initial_trials - problem.num_begun)
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
        expected = expected_costs(self, problem, rows)
        priced = [
            (row, self.with_switching_cost(problem, row, cost))
            for row, cost in zip(rows, expected, strict=True)
        ]
        affordable = [(row, c) for row, c in priced if c is not None and state.pays(c)]
        if not affordable:
            reported = [t.reported_cost for t in problem.trials if t.reported_cost is not None]
            # A cost model of few reports may be far too high, so a trial is run all the same.
            if self.cost_metric is None or state.is_capped or state.pays(min(reported)):
                return super().initial(problem)
            if _measured(problem):
                raise SpaceExhausted  # the model then searches the whole space, or stops
            return self.unfinished_design(self.exhausted(problem, state), state)
        part = max(part, _COST_RATIO * min(cost for _, cost in affordable))
        row, cost = next(each for each in affordable if each[1] <= part)
        limit = min(part, state.limit or part)
        why = f"{self.origin_of(problem, row)}, of those that cost at most {limit:.3g}."
        return self.initial_decision(problem, row, cost, state, why)

    def design_is_over(self, problem: Problem) -> bool:
        """True if the design has spent its share of the budget, as it may if costs are learned."""
        share = self._design_budget
        few = len(_measured(problem)) < _MIN_OUTCOMES
        if share is None or not self.charge_initial or few:
            return False
        return self.budget_state(problem, initial=True).spent >= share

    @property
    def _design_budget(self) -> float | None:
        """Budget of the initial design; None without a budget or a share."""
        if self.initial_share is None or self.budget is None:
            return None
        return self.initial_share * self.budget


class NothingToLearnFrom(InputError):
    """No cost was reported yet."""


def _learned_cost(method: PricedMethod, problem: Problem) -> LogNormalCostModel:
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


def check_reported_costs(method: PricedMethod, problem: Problem) -> None:
    """Refuse reported costs that cannot be learned from.

    Raises:
        InputError: With the indices of the trials, if a cost is missing, is no finite number > 0,
            has another unit, or belongs to a trial without a complete parameterization.
    """
    metric, trials = method.cost_metric, problem.trials
    check_reported(trials, method)
    missing = [t.index for t in trials if t.is_completed and t.reported_cost is None]
    if missing:
        raise InputError(
            f"cost={metric!r}: trials {missing} were completed without a cost, and trials are "
            "chosen by what they cost. Report it with complete_trial(..., cost=...); for a trial "
            f"that is completed with ax_costaware.report_cost(client, {missing[0]}, ...), or as "
            f"{metric!r} in Ax's data."
        )
    # Failed trials count, too: their costs are learned from.
    reported = [trial for trial in trials if trial.reported_cost is not None]
    check_inputs(reported)
    check_complete([trial for trial in reported if not trial.has_lost_value], problem.space)


def _measured(problem: Problem) -> list[PastTrial]:
    return [t for t in problem.trials if t.is_completed and t.outcome is not None]


def _share_or_none(value: Any, name: str) -> float | None:
    expected = "a number in (0, 1], or None"
    return None if value is None else number_where(value, name, expected, lambda n: 0 < n <= 1)


def _checked_cost(cost: Any, name: str) -> CostArgument:
    if isinstance(cost, SwitchingCost):
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
