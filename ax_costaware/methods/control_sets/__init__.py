"""The control-set method: which inputs a trial sets, and to which values.

UCB-CVS of Tay et al. 2023, "Bayesian Optimization with Cost-varying Variable Subsets" (NeurIPS),
and Hoang et al. 2025 for unknown costs. Costs and the budget are in the user's own unit, ``beta``
has no unit, and thresholds inside ``rule`` are in raw units of the objective.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, is_dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar

import torch
from torch import Tensor

from ax_costaware.exceptions import InputError
from ax_costaware.methods.control_sets.checks import (
    CONTROL_SET,
    NoValues,
    check_budget_pays,
    check_control_sets_fit,
    check_joint,
    check_realized,
    checked_beta,
    checked_marginals,
    checked_names,
    least_cost,
)
from ax_costaware.methods.control_sets.choosing import choose, expected_costs, initial_trial
from ax_costaware.methods.control_sets.learned_costs import (
    average_costs,
    check_reported_costs,
    costs_to_learn_from,
)
from ax_costaware.methods.control_sets.query_space import query_space
from ax_costaware.methods.method import NO_LIMIT, Method, check_integer, check_one_of
from ax_costaware.methods.parameters import Row
from ax_costaware.methods.past import ROUNDING, PastTrial
from ax_costaware.methods.problem import Best, Decision, Problem, Stop
from ax_costaware.policies.beta import TheoreticalBeta
from ax_costaware.policies.control_set_rules import (
    ControlSetHistory,
    ControlSetRule,
    ExploreThenCommit,
    recommended_rule,
)
from ax_costaware.queries.control_sets import ControlSet, check_control_sets
from ax_costaware.queries.joint import JointLaw
from ax_costaware.queries.marginals import Marginal

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

    _remark: ClassVar[str] = ""

    control_sets: tuple[ControlSet, ...]
    """The control sets, each with a cost or with None for a cost that is learned."""

    marginals: dict[str, Marginal]
    """Distribution of each input where a trial does not control it, in raw units, by name."""

    rule: ControlSetRule | None = None
    """How a control set is chosen; None: by ``recommended_rule``."""

    beta: float | TheoreticalBeta = 2.0
    """Weight of the standard deviation in the upper confidence bound."""

    acquisition: str = "ucb"
    """What is maximised in expectation: one of ``ACQUISITIONS``."""

    initial_control_sets: tuple[str, ...] = ()
    """Names of the control sets that the initial design cycles through; empty for the cheapest, or
    for all of them where a cost is unknown."""

    num_nodes: int = 128
    """Number of quasi-random nodes that stand for the joint law of the uncontrolled inputs."""

    joint: JointLaw | None = None
    """Joint law of inputs that depend on each other; they are not among ``marginals``."""

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "control_sets", check_control_sets(_listed(self.control_sets)))
        set_field(self, "marginals", checked_marginals(self.marginals))
        check_joint(self.joint, self.marginals)
        super().__post_init__()
        check_budget_pays(self.budget, self.control_sets)
        if self.rule is None:
            rule, reason = recommended_rule(self.control_sets, self.budget)
            set_field(self, "rule", rule)
            set_field(self, "_remark", f"rule={rule!r} by default: {reason}")
        if not isinstance(self.beta, TheoreticalBeta):
            set_field(self, "beta", checked_beta(self.beta))
        check_one_of("acquisition", self.acquisition, ACQUISITIONS)
        check_integer("num_nodes", self.num_nodes, 1)
        self._check_rule()
        set_field(self, "initial_control_sets", self._checked_initial_control_sets())
        self._check_initial_cost()

    def candidates(self) -> tuple[ControlSet, ...]:
        """The control sets, as declared."""
        return self.control_sets

    def control_set_of(self, trial: PastTrial) -> ControlSet:
        """The control set that the trial names.

        Raises:
            InputError: If it names none, or one that the method does not have.
        """
        name = trial.parameters.get(CONTROL_SET)
        if name not in self.names:
            raise InputError(
                f"trial {trial.index} has {CONTROL_SET}={name!r}, which the strategy does not "
                f"have: expected one of {self.names}."
            )
        return self.control_set(str(name))

    def cost_at(self, parameters: Row) -> float | None:
        """Cost of a trial's control set; None if it is unknown."""
        return self.control_set(str(parameters[CONTROL_SET])).cost

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
        None where that is zero.

        Args:
            reported: Reported costs, by the name of the control set.
        """
        known: list[float | None] = []
        for control_set in self.control_sets:
            costs = reported.get(control_set.name, ())
            mean = math.fsum(costs) / len(costs) if costs else None
            known.append(mean if control_set.cost is None else control_set.cost)
        priced = [cost for cost in known if cost is not None]
        others = math.fsum(priced) / len(priced) if priced else 0.0
        return tuple(
            (max(others, control_set.fixed_cost) or None) if cost is None else cost
            for control_set, cost in zip(self.control_sets, known, strict=True)
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
        for control_set in self.control_sets:
            if control_set.name == name:
                return control_set
        raise InputError(
            f"{name!r} is no control set of this strategy: expected one of {self.names}."
        )

    @property
    def laws(self) -> dict[str, Marginal]:
        """The law of each input on its own, by name: the marginals, and those of ``joint``."""
        joint = self.joint
        return {
            **self.marginals,
            **({} if joint is None else {name: joint.marginal(name) for name in joint.names}),
        }

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
        return [str(control_set.name) for control_set in self.control_sets]

    def reserved(self, problem: Problem, initial: bool) -> list[float]:
        """What the undelivered decisions are expected to cost: at their values, if by the model."""
        learned = costs_to_learn_from(problem.trials, self)
        names = [str(row[CONTROL_SET]) for row in problem.undelivered]
        if initial:
            costs = average_costs(self, learned)
            return [costs[self.names.index(name)] or 0.0 for name in names]
        expected = expected_costs(problem, self, query_space(problem, self))
        points = problem.space.encode(problem.undelivered)
        found = [
            expected.at(self.names.index(name), point)
            for name, point in zip(names, points, strict=True)
        ]
        return [0.0 if cost is None else cost.mean for cost in found]

    def num_payable(self, problem: Problem, initial: bool) -> int:
        """Trials that can be paid whatever control sets they use; at least one.

        Where costs are learned they are certain as far as costs are: as expected, or, for what is
        to be reserved for a trial, as large as any reported. Before anything is known of costs
        there is no limit.
        """
        money = self.money(problem, initial, reserved=())
        if money.limit is None:
            return NO_LIMIT
        learned = costs_to_learn_from(problem.trials, self)
        names = set(self.initial_control_sets) if initial else set(self.names)
        open_sets = [
            (cost, max([cost or 0.0, *learned.get(name, {}).values()]))
            for name, cost in zip(self.names, average_costs(self, learned), strict=True)
            if name in names and money.pays(cost)
        ]
        if not open_sets:
            return 1
        payable = [cost for cost, _ in open_sets if cost is not None]
        if not payable:
            return NO_LIMIT
        dearest = max(cost for _, cost in open_sets)
        # After j trials at most j * dearest is gone, and the cheapest must still fit.
        left = money.remaining or 0.0
        return 1 + max(0, math.floor((left - min(payable)) / dearest + 1e-9))

    def groups(self) -> list[str]:
        """The control sets, as declared."""
        return self.names

    def remarks(self) -> list[str]:
        """Which rule was chosen by default; and that it explores more than the budget allows."""
        found = [self._remark] if self._remark else []
        rule, budget = self.rule, self.budget
        if budget is not None and isinstance(rule, ExploreThenCommit):
            # Exploring as often as the paper does presumes a budget of many times the dearest.
            costs = [s.cost or 0.0 for s in self.control_sets]
            exploration = rule.exploration_cost(costs) + self.initial_cost
            if exploration + max(costs) > budget:
                found.append(
                    f"WARNING: rule={rule!r} explores for {exploration:g} (initial trials "
                    f"included) of budget={budget:g}, which leaves no trial of the dearest control "
                    "set: pass a rule that explores less, such as "
                    "ExploreThenCommit.adaptive(scale=1.0)."
                )
        return found

    def check(self, problem: Problem) -> None:
        """Refuse parameters and laws that do not fit, or a trial whose cost is missing."""
        check_control_sets_fit(problem, self)
        check_reported_costs(problem.trials, self)
        check_realized(problem, self)

    def initial(self, problem: Problem) -> Decision | Stop:
        """The next trial of the initial design, see ``initial_trial``."""
        return initial_trial(problem, self)

    def decide(self, problem: Problem) -> Decision | Stop:
        """The control set and the values of the next trial, by the rule."""
        return choose(problem, self)

    def recommend(self, problem: Problem) -> list[Best]:
        """What each control set can do best in expectation under the fitted model, best first."""
        space = query_space(problem, self)
        everything = range(len(self.control_sets))
        optima = space.best_means(
            problem.model, problem, self, everything, trial=len(problem.trials)
        )
        order = optima.values.argsort(descending=True).tolist()
        points = [optima.points[i].detach() for i in order]
        means, variances = space.expectations(problem.model, list(zip(points, order, strict=True)))
        costs = expected_costs(problem, self, space)
        found = []
        for i, point, mean, variance in zip(
            order, points, means.tolist(), variances.tolist(), strict=True
        ):
            control_set, cost = self.control_sets[i], costs.at(i, point)
            found.append(
                Best(
                    space.controlled(point, control_set.parameters),
                    mean,
                    variance**0.5,
                    None if cost is None else cost.mean,
                    str(control_set.name),
                )
            )
        return found

    def expected(self, problem: Problem, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        """Posterior mean and variance of the expectation over what a trial leaves to chance.

        A trial's realised point is not what the arm would give again, so it is judged by that.
        """
        points = problem.space.encode(rows)
        indices = [self.names.index(str(row[CONTROL_SET])) for row in rows]
        return query_space(problem, self).expectations(
            problem.model, list(zip(points, indices, strict=True))
        )

    def failed_points(self, problem: Problem) -> Tensor:
        """A few points of the law of each failed trial, which left some of its inputs to chance."""
        space, found = query_space(problem, self), []
        for trial, point in zip(problem.failed, super().failed_points(problem), strict=True):
            control_set = self.control_set_of(trial)
            index = self.names.index(str(control_set.name))
            count = _NODES_OF_FAILED if set(self.laws) - set(control_set.parameters) else 1
            found.append(space.nodes_of(point, index)[0][:count])
        return torch.cat(found)

    def _check_rule(self) -> None:
        if not isinstance(self.rule, ControlSetRule) or isinstance(self.rule, type):
            raise InputError(
                f"rule={self.rule!r}: expected a rule such as ExploreThenCommit.adaptive()."
            )
        unknown = [s.name for s in self.control_sets if s.cost is None]
        if unknown and isinstance(self.rule, ExploreThenCommit):
            raise InputError(
                f"rule={self.rule!r} explores by cost, but control set {unknown[0]!r} has "
                "cost=None: pass a rule that learns costs, such as UnknownCosts(), or give the "
                "cost of every control set."
            )
        first = ControlSetHistory(
            parameters=tuple(frozenset(s.parameters) for s in self.control_sets),
            costs=tuple(s.cost or 1.0 for s in self.control_sets),
            plays=tuple(0 for _ in self.control_sets),
            affordable=tuple(True for _ in self.control_sets),
            round=1,
            known=tuple(s.cost is not None for s in self.control_sets),
            budget=self.budget,
            remaining=self.budget,
        )
        try:
            # A first decision on made-up values: a rule that does not fit these control sets, such
            # as one with too few numbers of plays, says so now and not after the initial trials.
            self.rule.decide(first, NoValues(first.costs))
        except InputError as error:
            raise InputError(f"rule={self.rule!r} does not fit: {error}") from error

    def _checked_initial_control_sets(self) -> tuple[str, ...]:
        given = checked_names(self.initial_control_sets)
        if not given and self.learns_costs:
            return tuple(self.names)
        if not given:
            cheapest = min(s.cost or math.inf for s in self.control_sets)
            return tuple(
                str(s.name) for s in self.control_sets if math.isclose(s.cost or 0.0, cheapest)
            )
        for name in given:
            if name not in self.names:
                raise InputError(
                    f"initial_control_sets names {name!r}, which is not among control_sets: "
                    f"expected names out of {self.names}."
                )
        return tuple(str(name) for name in given)

    @property
    def initial_cost(self) -> float:
        """What the initial trials are charged together, as far as it is known."""
        if not self.charge_initial:
            return 0.0
        cycle = [self.control_set(name) for name in self.initial_control_sets]
        return math.fsum(least_cost(cycle[i % len(cycle)]) for i in range(self.initial_trials))

    def _check_initial_cost(self) -> None:
        if self.budget is None:
            return
        cycle, total = self.initial_control_sets, self.initial_cost
        if total > self.budget * (1 + ROUNDING):
            raise InputError(
                f"initial_trials={self.initial_trials} with initial_control_sets={list(cycle)} "
                f"cost {total:g}, more than budget={self.budget:g}: plan fewer or cheaper initial "
                "trials, raise the budget, or pass charge_initial=False."
            )


def _listed(control_sets: Any) -> Any:
    if isinstance(control_sets, ControlSet | str) or not isinstance(control_sets, Sequence):
        raise InputError(f"control_sets={control_sets!r}: expected a list of ControlSet.")
    return control_sets
