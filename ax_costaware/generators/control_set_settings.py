"""Settings of the control-set method: everything that a decision depends on besides the trials.

The method is UCB-CVS of Tay et al. 2023, "Bayesian Optimization with Cost-varying Variable
Subsets" (NeurIPS). A ``ControlSetSettings`` is checked when it is made, is compared by value, and
survives Ax's JSON and SQL stores, so that a decision is a function of the stored experiment and of
this object alone. Costs and the budget are in the user's own unit, ``beta`` has no unit, and
thresholds inside ``rule`` are in raw units of the objective.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, is_dataclass
from functools import cached_property
from hashlib import sha256
from typing import ClassVar

from ax.core.trial import Trial
from ax.exceptions.core import UserInputError

from ax_costaware.exceptions import InputError
from ax_costaware.generators.control_set_arguments import (
    NoValues,
    check_joint,
    checked_beta,
    checked_control_set_budget,
    checked_marginals,
    checked_names,
    least_cost,
)
from ax_costaware.generators.method_settings import (
    ROUNDING,
    MethodSettings,
    check_bool,
    check_integer,
)
from ax_costaware.policies.beta import TheoreticalBeta
from ax_costaware.policies.control_set_rules import (
    ControlSetHistory,
    ControlSetRule,
    ExploreThenCommit,
)
from ax_costaware.queries.control_sets import ControlSet, check_control_sets
from ax_costaware.queries.joint import JointLaw
from ax_costaware.queries.marginals import Marginal
from ax_costaware.records import CONTROL_SET

ACQUISITIONS = ("ucb", "ei", "ts")
"""Values of ``acquisition``: upper confidence bound, expected improvement, Thompson sampling."""


@dataclass(frozen=True)
class ControlSetSettings(MethodSettings):
    """What the control-set strategy was asked to do.

    Raises:
        UserInputError: On construction, when a field has a value that the method cannot use.
    """

    method: ClassVar[str] = "control_set_strategy"

    control_sets: tuple[ControlSet, ...]
    """The control sets, each with a cost or with None for a cost that is learned."""

    marginals: dict[str, Marginal]
    """Distribution of each input where a trial does not control it, in raw units, by name."""

    budget: float | None = None
    """What the experiment may cost in total; None for no limit."""

    rule: ControlSetRule = field(default_factory=ExploreThenCommit.adaptive)
    """How a control set is chosen."""

    beta: float | TheoreticalBeta = 2.0
    """Weight of the standard deviation in the upper confidence bound."""

    acquisition: str = "ucb"
    """What is maximised in expectation: one of ``ACQUISITIONS``."""

    seed: int = 0
    """Seed of everything random; a decision draws from (seed, trial index)."""

    initial_trials: int = 5
    """Number of trials of the initial design."""

    initial_control_sets: tuple[str, ...] = ()
    """Names of the control sets that the initial design cycles through; empty for the cheapest, or
    for all of them where a cost is unknown."""

    charge_initial: bool = True
    """Whether initial trials are paid from the budget."""

    num_nodes: int = 128
    """Number of quasi-random nodes that stand for the joint law of the uncontrolled inputs."""

    num_restarts: int | None = None
    """Restarts of the inner optimisation per control set; None for the method's default."""

    raw_samples: int | None = None
    """Raw starting points of the inner optimisation per control set; None for the default."""

    joint: JointLaw | None = None
    """Joint law of inputs that depend on each other; they are not among ``marginals``."""

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        try:
            set_field(self, "control_sets", check_control_sets(tuple(self.control_sets)))
        except InputError as error:
            raise UserInputError(str(error)) from error
        set_field(self, "marginals", checked_marginals(self.marginals))
        check_joint(self.joint, self.marginals)
        set_field(self, "budget", checked_control_set_budget(self.budget, self.control_sets))
        if not isinstance(self.beta, TheoreticalBeta):
            set_field(self, "beta", checked_beta(self.beta))
        if self.acquisition not in ACQUISITIONS:
            raise UserInputError(
                f"acquisition={self.acquisition!r}: expected one of {list(ACQUISITIONS)}."
            )
        for name, least in (("seed", 0), ("initial_trials", 0), ("num_nodes", 1)):
            check_integer(name, getattr(self, name), least=least)
        for name in ("num_restarts", "raw_samples"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), least=1)
        check_bool("charge_initial", self.charge_initial)
        self._check_rule()
        set_field(self, "initial_control_sets", self._checked_initial_control_sets())
        self._check_initial_cost()

    @property
    def cost_metric(self) -> None:
        """None: what a control set costs is declared, or recorded by ``complete_trial``."""
        return None

    def candidates(self) -> tuple[ControlSet, ...]:
        """The control sets, as declared."""
        return self.control_sets

    def control_set_of(self, trial: Trial) -> ControlSet:
        """The control set that the trial's arm names.

        Raises:
            UserInputError: If it names none, or one that the strategy does not have.
        """
        name = None if trial.arm is None else trial.arm.parameters.get(CONTROL_SET)
        if name not in self.names:
            raise UserInputError(
                f"trial {trial.index} has {CONTROL_SET}={name!r}, which the strategy does not "
                f"have: expected one of {self.names}."
            )
        return self.control_set(str(name))

    def declared_cost(self, trial: Trial) -> float | None:
        """Cost of the trial's control set; None if it is unknown."""
        return self.control_set_of(trial).cost

    def cost_by_others(
        self, control_set: ControlSet | None, reported: Mapping[str | None, Sequence[float]]
    ) -> float | None:
        """The expected cost of the control set, see ``expected_costs``."""
        if control_set is None:
            return super().cost_by_others(control_set, reported)
        return self.expected_costs(reported)[self.names.index(str(control_set.name))]

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

    def cost(self, name: str) -> float:
        """Declared cost of the control set of that name.

        Raises:
            UserInputError: If it has none.
        """
        cost = self.control_set(name).cost
        if cost is None:
            raise UserInputError(f"control set {name!r} has no cost.")
        return cost

    def control_set(self, name: str) -> ControlSet:
        """The control set of that name.

        Raises:
            UserInputError: If there is none.
        """
        for control_set in self.control_sets:
            if control_set.name == name:
                return control_set
        raise UserInputError(
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

    @property
    def costs(self) -> tuple[float, ...]:
        """Declared costs of the control sets, in declared order.

        Raises:
            UserInputError: If one has none.
        """
        return tuple(self.cost(name) for name in self.names)

    def affordable(
        self, remaining: float | None, costs: Sequence[float | None] | None = None
    ) -> tuple[bool, ...]:
        """Which control sets ``remaining`` pays for, in declared order; all without a budget.

        Args:
            remaining: What is left of the budget.
            costs: What each costs, the declared costs by default; None where nothing is known,
                which anything that is left pays for.
        """
        costs = self.costs if costs is None else costs
        return tuple(self.pays(remaining, cost) for cost in costs)

    def pays(self, remaining: float | None, cost: float | None) -> bool:
        """Whether ``remaining`` pays for ``cost``; any rest pays for one that is not known."""
        if remaining is None or self.budget is None:
            return True
        slack = ROUNDING * self.budget
        return remaining > slack if cost is None else cost <= remaining + slack

    def _check_rule(self) -> None:
        if not isinstance(self.rule, ControlSetRule) or isinstance(self.rule, type):
            raise UserInputError(
                f"rule={self.rule!r}: expected a rule such as ExploreThenCommit.adaptive()."
            )
        unknown = [s.name for s in self.control_sets if s.cost is None]
        if unknown and isinstance(self.rule, ExploreThenCommit):
            raise UserInputError(
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
            raise UserInputError(f"rule={self.rule!r} does not fit: {error}") from error

    def _checked_initial_control_sets(self) -> tuple[str, ...]:
        given = checked_names(self.initial_control_sets)
        if not given and self.learns_costs:
            return tuple(self.names)
        if not given:
            cheapest = min(self.costs)
            return tuple(
                name
                for name, cost in zip(self.names, self.costs, strict=True)
                if math.isclose(cost, cheapest)
            )
        for name in given:
            if name not in self.names:
                raise UserInputError(
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
            raise UserInputError(
                f"initial_trials={self.initial_trials} with initial_control_sets={list(cycle)} "
                f"cost {total:g}, more than budget={self.budget:g}: plan fewer or cheaper initial "
                "trials, raise the budget, or pass charge_initial=False."
            )
