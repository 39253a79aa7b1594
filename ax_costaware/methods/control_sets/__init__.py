"""The control-set method: the inputs that a trial controls, and their values.

UCB-CVS of Tay et al. 2023, "Bayesian Optimization with Cost-varying Variable Subsets" (NeurIPS),
Hoang et al. 2025 for unknown costs and a variant of it, and by default a rule of this package.
Costs and the budget are in the user's own unit, ``beta`` has no unit, and thresholds inside
``rule`` are in raw units of the objective.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, is_dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from statistics import fmean
from typing import Any, ClassVar

import torch
from torch import Tensor

from ax_costaware.acquisition.feasibility import feasible_first
from ax_costaware.acquisition.optimize import is_flat
from ax_costaware.argument_checks import (
    boolean,
    check_fields,
    instance_of,
    integer_at_least,
    nonnegative_number,
    one_of,
    optional,
    positive_number,
    set_fields,
)
from ax_costaware.core.account import BudgetState, control_sets_of
from ax_costaware.core.history import PastTrial
from ax_costaware.core.method import Expected, Method, Omitted
from ax_costaware.core.problem import Best, Decision, Problem, Stop, decision_seed
from ax_costaware.core.switching import costs_left_out
from ax_costaware.core.traits import CONTROL_SET, Groups, Traits
from ax_costaware.core.trial_costs import NO_LIMIT, TrialCosts
from ax_costaware.costs import ControlSet, SwitchingCost, check_control_sets
from ax_costaware.costs.cost_model import CostModel
from ax_costaware.costs.declared_cost import CostOfRow, Declared
from ax_costaware.exceptions import InputError
from ax_costaware.laws import JointLaw, Marginal
from ax_costaware.methods.control_sets.checks import (
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
"""Nodes that represent one failed trial."""

ACQUISITIONS = ("ucb", "ei", "ts")
"""Values of ``acquisition``: upper confidence bound, expected improvement, Thompson sampling."""


@dataclass(frozen=True, kw_only=True)
class ControlSets(Method):
    """Expected acquisition values of control sets, compared by a rule.

    Raises:
        InputError: On construction, when a field has a value that the method cannot use.
    """

    factory: ClassVar[str] = "control_set_strategy"

    control_sets: Sequence[ControlSet] = field(kw_only=False)
    """The subsets of the inputs that a trial can control, each with its cost: a number; a value
    object over the values that are set, such as ``AffineCost({"time": 2.0}, fixed=1.0)``; or None
    for a cost that is learned. ``complete_trial`` then needs the cost of each trial, which may
    depend on the values that it sets."""

    marginals: Mapping[str, Marginal] = field(kw_only=False)
    """Distribution of each input where a trial does not control it, by name, in the parameter's raw
    units. Inputs that every control set controls need none. A ``Learned`` one is updated with the
    values that the input takes in trials that do not control it."""

    rule: ControlSetRule | None = None
    """Rule that chooses a control set. The default, ``LargestValuePerCost(above="worst")``, takes
    the largest upper confidence bound above the worst value per unit of expected cost (with
    ``acquisition="ei"`` the improvement per cost). If uncontrolled inputs hardly ever take the best
    values, use ``ExploreThenCommit.adaptive()``, which needs numbers as costs. If the rule divides
    by cost, a declared cost that depends on the values also enters their choice."""

    beta: float | TheoreticalBeta = 2.0
    """Weight of the standard deviation in the upper confidence bound ``mu + beta * sigma``: a
    number, or ``TheoreticalBeta``."""

    acquisition: str = "ucb"
    """Acquisition function, in expectation: ``"ucb"``, ``"ei"`` or ``"ts"`` (Thompson sampling)."""

    initial_control_sets: Sequence[str] = ()
    """Names of the control sets that the initial trials cycle through; by default those of least
    cost, or all of them if a cost is unknown or depends on the values that are set."""

    initial_design: str = "sobol"
    """Values of the initial design: ``"sobol"``, or ``"uniform"`` for uniformly random ones."""

    affordable_only: bool = True
    """Choose among the control sets that the rest of the budget pays for. False: the run ends when
    the rule chooses one that it does not pay for (line 7 of UCB-CVS)."""

    num_nodes: int = 128
    """Quasi-random nodes of the joint distribution of the uncontrolled inputs."""

    joint: JointLaw | None = None
    """Joint distribution of dependent inputs, ``JointEmpirical`` or ``GaussianCopula``; these are
    not among ``marginals``. If a trial controls some of them, the others have their conditional
    distribution given the controlled values."""

    switching_cost: SwitchingCost | None = None
    """Additional cost of settings that differ from the previous trial:
    ``SwitchingCost({"oven_temperature": 5.0})``. An uncontrolled input costs nothing, and the next
    trial that sets it pays for the change."""

    lmbda: float | None = None
    """Value of one unit of cost, in units of the objective. If the expected gain of further trials
    in the best expectation is below the price of their cost, in several decisions in a row, the run
    ends. None: only the budget ends a run."""

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
        if self.learns_costs:
            self.trial_costs.refuse_own("control_sets")
        super().__post_init__()
        if self.rule is None:
            # An improvement is relative to the incumbent, so the worst value does not matter.
            above = "zero" if self.acquisition == "ei" else "worst"
            set_fields(self, rule=LargestValuePerCost(above))
        if not isinstance(self.beta, TheoreticalBeta):
            expected = "a finite number >= 0, or a TheoreticalBeta"
            set_fields(self, beta=nonnegative_number(self.beta, "beta", expected))
        one_of(self.acquisition, "acquisition", ACQUISITIONS)
        one_of(self.initial_design, "initial_design", ("sobol", "uniform"))
        boolean(self.affordable_only, "affordable_only")
        integer_at_least(self.num_nodes, 1, "num_nodes")
        set_fields(self, initial_control_sets=checked_initial_control_sets(self))
        check_budget(self, self.least_costs)
        check_rule(self)

    @cached_property
    def traits(self) -> Traits:
        """Trials name their control set, by which spending is shown."""
        return replace(
            super().traits,
            label="ControlSets",
            refuses_constraints=None,
            control_sets=tuple(self.control_sets),
            hidden=(CONTROL_SET,),
            groups=Groups(tuple(self.names), lambda row: str(row[CONTROL_SET])),
            warnings=self._warnings(),
        )

    def chosen(self, trial: PastTrial) -> ControlSet:
        """Return the control set of a trial, see ``control_set_of``."""
        control_set = self.control_set_of(trial)
        assert control_set is not None
        return control_set

    @property
    def trial_costs(self) -> ControlSetCosts:
        """Costs of the control sets, declared or learned."""
        return ControlSetCosts(self, switching=self.switching_cost)

    @cached_property
    def declared_costs(self) -> tuple[Declared | None, ...]:
        """Declared cost of each control set, or a subclass's own ``cost_at`` of it; else None."""
        if not self.has_own_cost:
            return tuple(s.cost for s in self.control_sets)
        own: Any = self.trial_costs.searched
        return tuple(partial(_of_control_set, own, name) for name in self.names)

    def cost_in(self, control_set: ControlSet, values: Row) -> float | None:
        """Return the cost of a control set at the values that it sets; None if it is unknown."""
        return self.cost_at({**values, CONTROL_SET: control_set.name})

    @property
    def least_costs(self) -> list[float]:
        """Least known cost of each control set, without an experiment."""
        return [
            cost if isinstance(cost, float) else s.fixed_cost
            for s, cost in zip(self.control_sets, self.declared_costs, strict=True)
        ]

    def expected_costs(
        self, reported: Mapping[str | None, Sequence[float]]
    ) -> tuple[float | None, ...]:
        """Return the average cost of a trial of each control set, in declared order.

        It is the first of these that is known:

        1. the declared cost,
        2. the mean of its reported costs,
        3. the mean of the known costs of the other control sets, at least its fixed part,
        4. its fixed part, if that is positive.

        None if none is known, and for a declared cost that depends on the values that are set.

        Args:
            reported: Reported costs, by the name of the control set.
        """
        known = [cost if isinstance(cost, float) else None for cost in self.declared_costs]
        for i, s in enumerate(self.control_sets):
            # Reports below the fixed part are impossible, see ``costs_to_learn_from``.
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
        """True if the cost of any control set is unknown."""
        return any(control_set.cost is None for control_set in self.control_sets)

    def control_set(self, name: str) -> ControlSet:
        """Return the control set of a name.

        Raises:
            InputError: If there is none.
        """
        one_of(name, CONTROL_SET, self.names)
        return self.control_sets[self.names.index(name)]

    def index_of(self, parameters: Row) -> int:
        """Return the index of the control set that a parameterization names, in declared order.

        Raises:
            InputError: If there is none of that name.
        """
        return self.control_sets.index(self.control_set(str(parameters.get(CONTROL_SET))))

    @cached_property
    def laws(self) -> dict[str, Marginal]:
        """Marginal distribution of each input, by name, including those of ``joint``."""
        if self.joint is None:
            return dict(self.marginals)
        return {**self.marginals, **{n: self.joint.marginal(n) for n in self.joint.names}}

    @cached_property
    def problem_digest(self) -> str:
        """Digest of the control sets and of the inputs' distributions, for records of decisions."""
        laws = [*sorted(self.marginals.items()), ("joint", self.joint)]
        values = [
            # The repr of a distribution is shortened, so take its fields.
            (name, type(law).__name__, astuple(law) if is_dataclass(law) else repr(law))
            for name, law in laws
        ]
        return sha256(repr((self.names, values)).encode()).hexdigest()[:16]

    @property
    def names(self) -> list[str]:
        """Names of the control sets, in declared order."""
        return [control_set.name for control_set in self.control_sets]

    def is_open(self, state: BudgetState, cost: float | None, initial: bool = False) -> bool:
        """Return True if a trial of this cost may be chosen, whether or not it can be paid."""
        if self.affordable_only or initial:
            return state.pays(cost)
        return cost is None or self.max_trial_cost is None or cost <= self.max_trial_cost

    def _warnings(self) -> tuple[str, ...]:
        """Return a warning if the rule explores more than the budget allows."""
        rule, budget = self.rule, self.budget
        assert rule is not None
        costs = self.least_costs
        own = rule.exploration_cost(costs)
        if budget is None or own is None:
            return ()
        # The paper's numbers of exploring trials presume a budget of many times the largest cost.
        exploration = own + self.initial_cost(costs)
        if exploration + max(costs) <= budget:
            return ()
        return (
            f"rule={rule!r} explores for {exploration:g} (initial trials included) of "
            f"budget={budget:g}, which leaves no trial of the most expensive control set: pass a "
            "rule that explores less, such as ExploreThenCommit.adaptive(scale=1.0).",
        )

    def check(self, problem: Problem) -> None:
        """Refuse parameters and distributions that do not fit, and trials without a cost."""
        check_control_sets_fit(problem, self)
        check_declared_costs(problem, self)
        control_sets_of(problem.trials, self)
        check_reported_costs(problem.trials, self)
        check_realized(problem, self)
        check_constraints(problem, self)

    def omitted(self, problem: Problem) -> Omitted:
        """Return running trials without all values of uncontrolled inputs, and unusable costs."""
        running = [t.index for t, _ in without_realized(problem, self) if t.is_live]
        waiting = (
            f"The outcomes of trials {running} are left out until the realized values of their "
            "uncontrolled inputs are reported."
        )
        costs = costs_left_out(no_more_than_switching_costs(problem.trials, self))
        return Omitted(running, [*costs, waiting] if running else costs)

    def check_outcomes(self, problem: Problem) -> None:
        """Refuse distributions that do not fit, and trials that lack uncontrolled inputs."""
        check_control_sets_fit(problem, self)
        check_realized(problem, self)

    def initial(self, problem: Problem) -> Decision | Stop:
        """Return the next trial of the initial design, see ``initial_trial``."""
        return initial_trial(problem, self)

    def decide(self, problem: Problem) -> Decision | Stop:
        """Return the control set and the values of the next trial, by the rule."""
        return choose(problem, self)

    def recommend(self, problem: Problem) -> list[Best]:
        """Return the best query of each control set by its posterior expectation, best first.

        Feasible queries come first, then the others by their probability of being feasible.

        A parameter that the caller fixes is controlled if some control set controls it; control
        sets without it are left out. Any other fixed parameter is known, and the expectation is
        conditional on its value.
        """
        method = self._given(problem)
        open_sets = allowed_sets(problem, method.control_sets)
        values, every = ControlSetValues(problem, method), range(len(self.control_sets))
        space, costs, log_feasibility = values.space, QuerySpace(problem, self).costs, None
        if problem.constraints:
            points, log_feasibility = values.best_feasible()
            means = space.expectations(points, every)[0]
        else:
            # If the mean is constant, take the queries of least variance.
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
        """Return the method with known inputs added to the parameters of every control set."""
        controlled = {name for s in self.control_sets for name in s.parameters}
        known = problem.fixed.keys() - {CONTROL_SET, *problem.disabled, *controlled}
        if not known:
            return self
        more = [replace(s, parameters=(*s.parameters, *sorted(known))) for s in self.control_sets]
        return replace(self, control_sets=tuple(more))

    def expected(self, problem: Problem, rows: Sequence[Row]) -> Expected:
        """Return what is expected over the uncontrolled inputs.

        Repeating an arm would not repeat its realized point, so the expectation is what counts.
        """
        points, places = problem.space.encode(rows), [self.index_of(row) for row in rows]
        space = QuerySpace(problem, self)
        moments = problem.scale.moments(*space.expectations(points, places))
        return Expected(*moments, space.log_feasibility(points, places))

    def deployed(self, problem: Problem, inputs: Row) -> Row | None:
        """Return a trial's inputs, if the values that its control set sets are in the space."""
        controlled = self.control_sets[self.index_of(inputs)].parameters
        return inputs if problem.space.admits({**inputs, **problem.fixed}, controlled) else None

    def failed_points(self, problem: Problem) -> Tensor:
        """Return a few nodes of the distribution of each failed trial's inputs."""
        few, found = min(self.num_nodes, _NODES_OF_FAILED), []
        space = QuerySpace(problem, replace(self, num_nodes=few))
        for trial, point in zip(problem.failed, super().failed_points(problem), strict=True):
            place = self.index_of(trial.parameters)
            count = few if set(self.laws) - set(self.control_sets[place].parameters) else 1
            nodes, weights = space.nodes_of(point, place)
            # A joint sample has more nodes, with weights: take quantiles of the weights.
            parts = (torch.arange(count).to(weights) + 0.5) / count
            found.append(nodes[torch.searchsorted(weights.cumsum(0), parts)])
        return torch.cat(found)

    def initial_cost(self, least: Sequence[float], after: int = -1) -> float:
        """Return the least cost of all initial trials.

        Args:
            least: Least cost of a trial of each control set.
            after: Number, from 0, of the trial after which to count; -1 for all.
        """
        if not self.charge_initial:
            return 0.0
        cycle = [least[self.names.index(name)] for name in self.initial_control_sets]
        return math.fsum(cycle[i % len(cycle)] for i in range(after + 1, self.initial_trials))


@dataclass(frozen=True)
class ControlSetCosts(TrialCosts):
    """Costs of the control sets, each declared or learned."""

    method: ControlSets
    """The method."""

    def at(self, parameters: Row) -> float | None:
        """Return the cost of a trial's control set at its values; None if it is unknown.

        Raises:
            InputError: If the cost is no finite number > 0 there.
        """
        return self.method.control_sets[self.method.index_of(parameters)].cost_at(parameters)

    def model(self, problem: Problem) -> CostModel:
        """Return the expected costs of the control sets, see ``ExpectedCosts``."""
        return QuerySpace(problem, self.method).costs

    def by_others(
        self, control_set: str | None, reported: Mapping[str | None, Sequence[float]]
    ) -> float | None:
        """Return the expected cost of the control set."""
        return self.method.expected_costs(reported)[self.method.names.index(str(control_set))]

    def reserved(self, problem: Problem, initial: bool) -> list[float]:
        """Return the expected costs of the undelivered decisions."""
        costs, rows, found = QuerySpace(problem, self.method).costs, problem.earlier_in_batch, []
        for row, point in zip(rows, problem.space.encode(rows), strict=True):
            place, cost = self.method.index_of(row), self.method.cost_at(row)
            if cost is None and initial:
                cost = costs.averages[place]
            elif cost is None and (estimate := costs.at(place, point)) is not None:
                cost = estimate.mean
            found.append(cost or 0.0)
        return found

    def num_payable(self, problem: Problem, initial: bool) -> int:
        """Return the number of trials that the budget pays for with any control sets, at least one.

        A learned cost counts as expected; what is reserved for a trial counts as the largest
        report. Before any cost is known there is no limit.
        """
        method = self.method
        state = method.budget_state(problem, initial)
        if method.budget is None or state.limit is None:
            return NO_LIMIT
        costs = QuerySpace(problem, method).costs
        most = [max([0.0, *reported.values()]) for reported in costs.reported]
        for i, (_, largest) in costs.ranges.items():
            most[i] = min(largest, state.limit)
        open_sets = [
            (cost, max(cost or 0.0, largest))
            for name, cost, largest in zip(method.names, costs.averages, most, strict=True)
            if method.is_open(state, cost, initial)
            and (not initial or name in method.initial_control_sets)
        ]
        known = [cost for cost, _ in open_sets if cost is not None]
        if not known:
            return NO_LIMIT if open_sets else 1
        change = 0.0 if self.switching is None else self.switching.largest(problem.space)
        largest_cost = max(cost for _, cost in open_sets) + change
        # After j trials at most j * largest_cost is spent, and the next must still fit.
        left = state.remaining or 0.0
        last = min(known) + change if method.affordable_only or initial else largest_cost
        return 1 + max(0, math.floor((left - last) / largest_cost + 1e-9))


def _of_control_set(cost_at: CostOfRow, name: str, parameters: dict[str, Any]) -> float:
    """Return the cost of a trial of the control set of that name."""
    return cost_at({**parameters, CONTROL_SET: name})
