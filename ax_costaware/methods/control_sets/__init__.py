"""The control-set method: which inputs a trial sets, and to which values.

UCB-CVS of Tay et al. 2023, "Bayesian Optimization with Cost-varying Variable Subsets" (NeurIPS),
a variant of Hoang et al. 2025 for unknown costs, and by default a rule of this package. Costs and
the budget are in the user's own unit, ``beta`` has no unit, and thresholds inside ``rule`` are in
raw units of the objective.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, is_dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from statistics import fmean
from typing import Any, ClassVar

import torch
from torch import Tensor

from ax_costaware.acquisition.feasibility import feasible_first
from ax_costaware.acquisition.optimize import is_flat
from ax_costaware.argument_checks import (
    check_fields,
    instance_of,
    integer_at_least,
    nonnegative_number,
    one_of,
    optional,
    positive_number,
    set_fields,
)
from ax_costaware.core.account import control_sets_of
from ax_costaware.core.history import PastTrial
from ax_costaware.core.method import NO_LIMIT, Method
from ax_costaware.core.problem import Best, Decision, Problem, Stop, decision_seed
from ax_costaware.core.switching import costs_left_out
from ax_costaware.costs import ControlSet, SwitchingCost, check_control_sets
from ax_costaware.costs.cost_model import CostModel
from ax_costaware.costs.declared_cost import CostOfRow, Declared
from ax_costaware.exceptions import InputError
from ax_costaware.laws import JointLaw, Marginal
from ax_costaware.methods.control_sets.checks import (
    CONTROL_SET,
    allowed_sets,
    check_budget,
    check_constraints,
    check_control_sets_fit,
    check_declared_costs,
    check_joint,
    check_realized,
    check_rule,
    checked_initial_control_sets,
    checked_marginals,
    without_realized,
)
from ax_costaware.methods.control_sets.choosing import choose, initial_trial
from ax_costaware.methods.control_sets.learned import (
    check_reported_costs,
    no_more_than_switching_costs,
)
from ax_costaware.methods.control_sets.query_space import QuerySpace
from ax_costaware.methods.control_sets.rules.beta import TheoreticalBeta
from ax_costaware.methods.control_sets.rules.rule import ControlSetRule
from ax_costaware.methods.control_sets.rules.value_per_cost import LargestValuePerCost
from ax_costaware.methods.control_sets.values import ControlSetValues
from ax_costaware.space.parameters import Row

_NODES_OF_FAILED = 8
"""Points that stand for one failed trial."""

ACQUISITIONS = ("ucb", "ei", "ts")
"""Values of ``acquisition``: upper confidence bound, expected improvement, Thompson sampling."""


@dataclass(frozen=True)
class ControlSets(Method):
    """What the control-set strategy was asked to do.

    Raises:
        InputError: On construction, when a field has a value that the method cannot use.
    """

    factory: ClassVar[str] = "control_set_strategy"

    label: ClassVar[str] = "ControlSets"

    hidden: ClassVar[tuple[str, ...]] = (CONTROL_SET,)

    refuses_constraints: ClassVar[str | None] = None

    control_sets: tuple[ControlSet, ...]
    """The control sets, each with a cost, a number or a function of the values that it sets, or
    with None for a cost that is learned."""

    marginals: dict[str, Marginal]
    """Distribution of each input where a trial does not control it, in raw units, by name."""

    rule: ControlSetRule | None = None
    """How a control set is chosen; None: the one whose value above the worst is largest per unit of
    its expected cost. Values are chosen by a declared cost that depends on them, too, where the
    rule divides by cost, as ``LargestValuePerCost`` does."""

    beta: float | TheoreticalBeta = 2.0
    """Weight of the standard deviation in the upper confidence bound."""

    acquisition: str = "ucb"
    """What is maximised in expectation: one of ``ACQUISITIONS``."""

    initial_control_sets: tuple[str, ...] = ()
    """Names of the control sets that the initial design cycles through; empty for the cheapest, or
    for all of them where a cost is unknown or depends on the values that are set."""

    num_nodes: int = 128
    """Number of quasi-random nodes that stand for the joint law of the uncontrolled inputs."""

    joint: JointLaw | None = None
    """Joint law of inputs that depend on each other; they are not among ``marginals``."""

    switching_cost: SwitchingCost | None = None
    """What it costs, on top, to set parameters otherwise than in the trial before."""

    lmbda: float | None = None
    """What one unit of cost is worth, in units of the objective: when further trials are not worth
    their cost, there are none. None: only the budget ends a run."""

    def __post_init__(self) -> None:
        check_fields(self, lmbda=optional(positive_number))
        instance_of(
            self.switching_cost, "switching_cost", SwitchingCost | None, "a SwitchingCost, or None"
        )
        if self.switching_cost is not None and self.switching_cost.base is not None:
            raise InputError(
                f"switching_cost={self.switching_cost!r}: expected no base, since control sets "
                "have costs of their own."
            )
        set_fields(
            self,
            control_sets=check_control_sets(self.control_sets),
            marginals=checked_marginals(self.marginals),
        )
        check_joint(self.joint, self.marginals)
        # Declared costs are overridden by ``cost_at``, learned ones not at all.
        others = ("trial_costs", "cost_at") if self.learns_costs else ("trial_costs",)
        self.check_costs_of(ControlSets, "control_sets", *others)
        super().__post_init__()
        if self.rule is None:
            # An improvement is counted from what is in hand, whatever the worst is.
            above = "zero" if self.acquisition == "ei" else "worst"
            set_fields(self, rule=LargestValuePerCost(above))
        if not isinstance(self.beta, TheoreticalBeta):
            expected = "a finite number >= 0, or a TheoreticalBeta"
            set_fields(self, beta=nonnegative_number(self.beta, "beta", expected))
        one_of(self.acquisition, "acquisition", ACQUISITIONS)
        integer_at_least(self.num_nodes, 1, "num_nodes")
        set_fields(self, initial_control_sets=checked_initial_control_sets(self))
        check_budget(self, self.least_costs)
        check_rule(self)

    def candidates(self) -> tuple[ControlSet, ...]:
        """The control sets, as declared."""
        return self.control_sets

    def control_set_of(self, trial: PastTrial) -> ControlSet:
        """The control set that the trial names.

        Raises:
            InputError: If it names none, or one that the method does not have.
        """
        what = f"trial {trial.index} has {CONTROL_SET}"
        return self.control_set(one_of(trial.parameters.get(CONTROL_SET), what, self.names))

    def cost_at(self, parameters: Row) -> float | None:
        """Cost of a trial's control set, at the values that it sets; None if it is unknown.

        Raises:
            InputError: If the cost is no finite number > 0 there.
        """
        return self.control_sets[self.index_of(parameters)].cost_at(parameters)

    @cached_property
    def declared_costs(self) -> tuple[Declared | None, ...]:
        """Declared cost of each control set, or a subclass's own ``cost_at`` of it; else None."""
        if type(self).cost_at is ControlSets.cost_at:
            return tuple(s.cost for s in self.control_sets)
        return tuple(partial(_of_control_set, self._own_cost, name) for name in self.names)

    def cost_in(self, control_set: ControlSet, values: Row) -> float | None:
        """Cost of a trial of a control set at the values that it sets; None if it is unknown."""
        return self.cost_at({**values, CONTROL_SET: control_set.name})

    @property
    def least_costs(self) -> list[float]:
        """Least cost of each control set, as far as that is known without an experiment."""
        return [
            cost if isinstance(cost, float) else s.fixed_cost
            for s, cost in zip(self.control_sets, self.declared_costs, strict=True)
        ]

    def trial_costs(self, problem: Problem) -> CostModel:
        """Expected costs of the control sets, see ``ExpectedCosts``."""
        return QuerySpace(problem, self).costs

    def cost_by_others(
        self, control_set: str | None, reported: Mapping[str | None, Sequence[float]]
    ) -> float | None:
        """The expected cost of the control set, see ``expected_costs``."""
        return self.expected_costs(reported)[self.names.index(str(control_set))]

    def group_of(self, parameters: Row) -> str:
        """A trial is spent on its control set."""
        return str(parameters[CONTROL_SET])

    def expected_costs(
        self, reported: Mapping[str | None, Sequence[float]]
    ) -> tuple[float | None, ...]:
        """What a trial of each control set costs on average, in declared order.

        The declared cost; else the mean of its reported costs; else the mean of the other control
        sets that one of these is known of, but no less than its known part; else its known part;
        None where that is zero, and for a declared cost that depends on the values that are set.

        Args:
            reported: Reported costs, by the name of the control set.
        """
        known = [cost if isinstance(cost, float) else None for cost in self.declared_costs]
        for i, s in enumerate(self.control_sets):
            # Less than the known part is what no trial of it can cost, see ``costs_to_learn_from``.
            costs = [cost for cost in reported.get(s.name, ()) if cost > s.fixed_cost]
            if s.cost is None and costs:
                known[i] = fmean(costs)
        priced = [cost for cost in known if cost is not None]
        others = fmean(priced) if priced else 0.0
        return tuple(
            (max(others, s.fixed_cost) or None) if s.cost is None and cost is None else cost
            for s, cost in zip(self.control_sets, known, strict=True)
        )

    @property
    def learns_costs(self) -> bool:
        """Whether the cost of any control set is unknown."""
        return any(control_set.cost is None for control_set in self.control_sets)

    def control_set(self, name: str) -> ControlSet:
        """The control set of that name.

        Raises:
            InputError: If there is none.
        """
        one_of(name, CONTROL_SET, self.names)
        return self.control_sets[self.names.index(name)]

    def index_of(self, parameters: Row) -> int:
        """Place of the control set that a parameterization names, in declared order.

        Raises:
            InputError: If there is none of that name.
        """
        return self.control_sets.index(self.control_set(str(parameters.get(CONTROL_SET))))

    @cached_property
    def laws(self) -> dict[str, Marginal]:
        """The law of each input on its own, by name: the marginals, and those of ``joint``."""
        if self.joint is None:
            return self.marginals
        return {**self.marginals, **{n: self.joint.marginal(n) for n in self.joint.names}}

    @cached_property
    def problem_digest(self) -> str:
        """Stands for the control sets and the laws of the inputs, in a record of a decision."""
        laws = [*sorted(self.marginals.items()), ("joint", self.joint)]
        values = [
            # A law prints itself in short.
            (name, type(law).__name__, astuple(law) if is_dataclass(law) else repr(law))
            for name, law in laws
        ]
        return sha256(repr((self.names, values)).encode()).hexdigest()[:16]

    @property
    def names(self) -> list[str]:
        """Names of the control sets, in declared order."""
        return [control_set.name for control_set in self.control_sets]

    def reserved(self, problem: Problem, initial: bool) -> list[float]:
        """What the undelivered decisions are expected to cost: at their values, if by the model."""
        costs, rows, found = QuerySpace(problem, self).costs, problem.earlier_in_batch, []
        for row, point in zip(rows, problem.space.encode(rows), strict=True):
            place, cost = self.index_of(row), self.cost_at(row)
            if cost is None and initial:
                cost = costs.averages[place]
            elif cost is None and (estimate := costs.at(place, point)) is not None:
                cost = estimate.mean
            found.append(cost or 0.0)
        return found

    def num_payable(self, problem: Problem, initial: bool) -> int:
        """Trials that can be paid whatever control sets they use; at least one.

        Where costs are learned they are certain as far as costs are: as expected, or, for what is
        to be reserved for a trial, as large as any reported. Before anything is known of costs
        there is no limit.
        """
        state = self.budget_state(problem, initial)
        if self.budget is None or state.limit is None:
            return NO_LIMIT
        costs = QuerySpace(problem, self).costs
        most = [max([0.0, *reported.values()]) for reported in costs.reported]
        for i, (_, largest) in costs.ranges.items():
            most[i] = min(largest, state.limit)
        open_sets = [
            (cost, max(cost or 0.0, largest))
            for name, cost, largest in zip(self.names, costs.averages, most, strict=True)
            if state.pays(cost) and (not initial or name in self.initial_control_sets)
        ]
        payable = [cost for cost, _ in open_sets if cost is not None]
        if not payable:
            return NO_LIMIT if open_sets else 1
        change = 0.0 if self.switching_cost is None else self.switching_cost.most
        dearest = max(cost for _, cost in open_sets) + change
        # After j trials at most j * dearest is gone, and the cheapest must still fit.
        left = state.remaining or 0.0
        return 1 + max(0, math.floor((left - min(payable) - change) / dearest + 1e-9))

    def groups(self) -> list[str]:
        """The control sets, as declared."""
        return self.names

    def warnings(self) -> list[str]:
        """That the rule explores more than the budget allows."""
        rule, budget = self.rule, self.budget
        assert rule is not None
        costs = self.least_costs
        own = rule.exploration_cost(costs)
        if budget is None or own is None:
            return []
        # Exploring as often as the paper does presumes a budget of many times the dearest.
        exploration = own + self.initial_cost(costs)
        if exploration + max(costs) <= budget:
            return []
        return [
            f"rule={rule!r} explores for {exploration:g} (initial trials included) of "
            f"budget={budget:g}, which leaves no trial of the dearest control set: pass a rule "
            "that explores less, such as ExploreThenCommit.adaptive(scale=1.0)."
        ]

    def check(self, problem: Problem) -> None:
        """Refuse parameters and laws that do not fit, or a trial whose cost is missing."""
        check_control_sets_fit(problem, self)
        check_declared_costs(problem, self)
        control_sets_of(problem.trials, self)
        check_reported_costs(problem.trials, self)
        check_realized(problem, self)
        check_constraints(problem, self)

    def not_learned(self, problem: Problem) -> list[int]:
        """Trials that run, and have an outcome before they say what they left to chance was."""
        return [trial.index for trial, _ in without_realized(problem, self) if trial.is_live]

    def left_out(self, problem: Problem) -> list[str]:
        """Costs that are learned from no more, see ``costs_left_out``, and such outcomes."""
        running = self.not_learned(problem)
        said = f"The outcomes of trials {running} wait until these have said what was realised."
        costs = costs_left_out(no_more_than_switching_costs(problem.trials, self))
        return [*costs, said] if running else costs

    def check_outcomes(self, problem: Problem) -> None:
        """Refuse laws that do not fit, and trials that do not say what they left to chance was."""
        check_control_sets_fit(problem, self)
        check_realized(problem, self)

    def initial(self, problem: Problem) -> Decision | Stop:
        """The next trial of the initial design, see ``initial_trial``."""
        return initial_trial(problem, self)

    def decide(self, problem: Problem) -> Decision | Stop:
        """The control set and the values of the next trial, by the rule."""
        return choose(problem, self)

    def recommend(self, problem: Problem) -> list[Best]:
        """What each control set can do best in expectation under the fitted model, best first.

        Those that are feasible come first, then the others by how likely they are to be. Of fixed
        parameters those that some control set controls are set, so that control sets without them
        are left out. The others are known: the expectation is given their values.
        """
        method = self._given(problem)
        open_sets = allowed_sets(problem, method.control_sets)
        values, every = ControlSetValues(problem, method), range(len(self.control_sets))
        space, costs, log_feasibility = values.space, QuerySpace(problem, self).costs, None
        if problem.constraints:
            points, log_feasibility = values.best_feasible()
            means = space.expectations(points, every)[0]
        else:
            # Of a flat mean it is what is surest.
            acquisition = "lower" if is_flat(values.means()) else "mean"
            seed = decision_seed(self.seed, len(problem.trials))
            optima = space.search(every, acquisition, seed, held=problem.held)
            points, means = optima.point, optima.value
        found = []
        for i in feasible_first(means, log_feasibility, self.feasibility_threshold):
            if not open_sets[i]:
                continue
            control_set, point = self.control_sets[i], points[i].detach()
            moments = problem.scale.moments(*space.expectations(points[[i]], [i]))
            mean, variance = map(float, moments)
            cost = costs.at(i, point)
            found.append(
                Best(
                    space.controlled(point, control_set.parameters),
                    mean,
                    variance**0.5,
                    None if cost is None else cost.mean,
                    control_set.name,
                    feasibility=None
                    if log_feasibility is None
                    else float(log_feasibility[i].exp()),
                )
            )
        return found

    def _given(self, problem: Problem) -> ControlSets:
        """Return the method where what is known is controlled, as if every control set set it."""
        controlled = {name for s in self.control_sets for name in s.parameters}
        known = problem.fixed.keys() - {CONTROL_SET, *problem.disabled, *controlled}
        if not known:
            return self
        more = [replace(s, parameters=(*s.parameters, *sorted(known))) for s in self.control_sets]
        return replace(self, control_sets=tuple(more))

    def log_feasibility(self, problem: Problem, rows: Sequence[Row]) -> Tensor | None:
        """As for any method, of the expectation over what a trial leaves to chance."""
        points, places = problem.space.encode(rows), [self.index_of(row) for row in rows]
        return QuerySpace(problem, self).log_feasibility(points, places)

    def expected(self, problem: Problem, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        """Posterior mean and variance of the expectation over what a trial leaves to chance.

        A trial's realised point is not what the arm would give again, so it is judged by that.
        """
        points, places = problem.space.encode(rows), [self.index_of(row) for row in rows]
        return problem.scale.moments(*QuerySpace(problem, self).expectations(points, places))

    def is_deployable(self, problem: Problem, inputs: Row) -> bool:
        """Return whether the values that a trial's control set sets lie in the search space."""
        controlled = self.control_sets[self.index_of(inputs)].parameters
        return problem.space.admits({**inputs, **problem.fixed}, controlled)

    def may_repeat(self, problem: Problem, parameters: Row) -> bool:
        """A trial that leaves inputs to chance is no other one's repeat."""
        controlled = self.control_sets[self.index_of(parameters)].parameters
        return not problem.space.columns.keys() <= set(controlled)

    def failed_points(self, problem: Problem) -> Tensor:
        """A few points of the law of each failed trial, which left some of its inputs to chance."""
        few, found = min(self.num_nodes, _NODES_OF_FAILED), []
        space = QuerySpace(problem, replace(self, num_nodes=few))
        for trial, point in zip(problem.failed, super().failed_points(problem), strict=True):
            place = self.index_of(trial.parameters)
            count = few if set(self.laws) - set(self.control_sets[place].parameters) else 1
            nodes, weights = space.nodes_of(point, place)
            # Rows of a sample are more, and count by how near they are.
            parts = (torch.arange(count).to(weights) + 0.5) / count
            found.append(nodes[torch.searchsorted(weights.cumsum(0), parts)])
        return torch.cat(found)

    def initial_cost(self, least: Sequence[float], after: int = -1) -> float:
        """Return what the initial trials are charged together, at least.

        Args:
            least: What a trial of each control set costs at least.
            after: Only those after this one count, by their number from 0.
        """
        if not self.charge_initial:
            return 0.0
        cycle = [least[self.names.index(name)] for name in self.initial_control_sets]
        return math.fsum(cycle[i % len(cycle)] for i in range(after + 1, self.initial_trials))


def _of_control_set(cost_at: CostOfRow, name: str, parameters: dict[str, Any]) -> float:
    """Return the cost of a trial of the control set of that name."""
    return cost_at({**parameters, CONTROL_SET: name})
