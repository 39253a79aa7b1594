"""Settings of the control-set method: everything that a decision depends on besides the trials.

The method is UCB-CVS of Tay et al. 2023, "Bayesian Optimization with Cost-varying Variable
Subsets" (NeurIPS). A ``ControlSetSettings`` is checked when it is made, is compared by value, and
survives Ax's JSON and SQL stores, so that a decision is a function of the stored experiment and of
this object alone. Costs and the budget are in the user's own unit, ``beta`` has no unit, and
thresholds inside ``rule`` are in raw units of the objective.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ax.core.trial import Trial
from ax.exceptions.core import UserInputError

from ax_costaware.exceptions import InputError
from ax_costaware.generators.method_settings import (
    ROUNDING,
    MethodSettings,
    check_bool,
    check_integer,
    checked_budget,
    is_number,
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
    """The control sets, each with a cost."""

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
    """Names of the control sets that the initial design cycles through; empty for the cheapest."""

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
        _check_costs(self.control_sets)
        set_field(self, "marginals", _checked_marginals(self.marginals))
        _check_joint(self.joint, self.marginals)
        set_field(self, "budget", _checked_budget(self.budget, self.control_sets))
        if not isinstance(self.beta, TheoreticalBeta):
            set_field(self, "beta", _checked_beta(self.beta))
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
        """None: what a control set costs is declared."""
        return None

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

    def declared_cost(self, trial: Trial) -> float:
        """Cost of the trial's control set."""
        return self.cost(str(self.control_set_of(trial).name))

    def cost(self, name: str) -> float:
        """Cost of the control set of that name."""
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

    @property
    def names(self) -> list[str]:
        """Names of the control sets, in declared order."""
        return [str(control_set.name) for control_set in self.control_sets]

    @property
    def costs(self) -> tuple[float, ...]:
        """Costs of the control sets, in declared order."""
        return tuple(self.cost(name) for name in self.names)

    def affordable(self, remaining: float | None) -> tuple[bool, ...]:
        """Which control sets ``remaining`` pays for, in declared order; all without a budget."""
        if remaining is None or self.budget is None:
            return tuple(True for _ in self.control_sets)
        limit = remaining + ROUNDING * self.budget
        return tuple(cost <= limit for cost in self.costs)

    def _check_rule(self) -> None:
        if not isinstance(self.rule, ControlSetRule) or isinstance(self.rule, type):
            raise UserInputError(
                f"rule={self.rule!r}: expected a rule such as ExploreThenCommit.adaptive()."
            )
        first = ControlSetHistory(
            parameters=tuple(frozenset(s.parameters) for s in self.control_sets),
            costs=self.costs,
            plays=tuple(0 for _ in self.control_sets),
            affordable=tuple(True for _ in self.control_sets),
            round=1,
        )
        try:
            # A first decision on made-up values: a rule that does not fit these control sets, such
            # as one with too few numbers of plays, says so now and not after the initial trials.
            self.rule.decide(first, lambda indices: [0.0 for _ in indices])
        except InputError as error:
            raise UserInputError(f"rule={self.rule!r} does not fit: {error}") from error

    def _checked_initial_control_sets(self) -> tuple[str, ...]:
        given = _as_names(self.initial_control_sets)
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
        """What the initial trials are charged together."""
        if not self.charge_initial:
            return 0.0
        cycle = self.initial_control_sets
        return math.fsum(self.cost(cycle[i % len(cycle)]) for i in range(self.initial_trials))

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


def _as_names(names: object) -> tuple[object, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise UserInputError(f"initial_control_sets={names!r}: expected a list of names.")
    return tuple(names)


def _check_costs(control_sets: tuple[ControlSet, ...]) -> None:
    for control_set in control_sets:
        if control_set.cost is None:
            raise UserInputError(
                f"control set {control_set.name!r} has cost=None: control_set_strategy needs the "
                "cost of every control set, a finite number > 0."
            )


def _checked_marginals(marginals: object) -> dict[str, Marginal]:
    if not isinstance(marginals, Mapping):
        raise UserInputError(
            f"marginals={marginals!r}: expected a dictionary from parameter names to marginals."
        )
    for name, marginal in marginals.items():
        if not isinstance(name, str) or not isinstance(marginal, Marginal):
            raise UserInputError(
                f"marginals[{name!r}]={marginal!r}: expected a marginal such as Uniform(0, 1), "
                "under the name of a parameter."
            )
    return dict(marginals)


def _check_joint(joint: object, marginals: Mapping[str, Marginal]) -> None:
    if joint is None:
        return
    if not isinstance(joint, JointLaw):
        raise UserInputError(
            f"joint={joint!r}: expected a joint law such as JointEmpirical(frame), or None."
        )
    if twice := [name for name in joint.names if name in marginals]:
        raise UserInputError(
            f"marginals and joint both have {twice}: expected each input in one of them. Leave out "
            "of marginals what joint describes."
        )


def _checked_budget(budget: object, control_sets: tuple[ControlSet, ...]) -> float | None:
    value = checked_budget(budget)
    cheapest = min(float(c.cost) for c in control_sets if c.cost is not None)
    if value is not None and value * (1 + ROUNDING) < cheapest:
        raise UserInputError(
            f"budget={budget!r} is below the cost of the cheapest control set, {cheapest:g}: "
            "expected a budget that pays for at least one trial."
        )
    return value


def _checked_beta(beta: object) -> float:
    if not is_number(beta) or not math.isfinite(beta) or beta < 0:
        raise UserInputError(f"beta={beta!r}: expected a finite number >= 0, or a TheoreticalBeta.")
    return float(beta)
