"""Settings of the Gittins method: everything that a decision depends on besides the trials.

The method is the Pandora's Box Gittins index of Xie et al. 2024, "Cost-aware Bayesian Optimization
via the Pandora's Box Gittins Index" (NeurIPS), with the stopping rules of the same line of work. A
``GittinsSettings`` is checked when it is made, is compared by value, and survives Ax's JSON and SQL
stores. Costs and the budget are in the user's own unit of cost; ``lmbda`` is in raw units of the
objective per unit of cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, TypeAlias, TypeGuard, get_args

from ax.core.trial import Trial
from ax.exceptions.core import UserInputError

from ax_costaware.exceptions import InputError
from ax_costaware.generators.method_settings import (
    MethodSettings,
    check_bool,
    check_integer,
    checked_budget,
)
from ax_costaware.models.log_normal_cost import CostKind
from ax_costaware.policies.gittins import GittinsDecay, GittinsStop, ImprovementPerCostStop
from ax_costaware.queries.costs import Cost

ACQUISITIONS = ("gittins", "log_ei_per_cost", "log_ei_cost_cooling")
"""Values of ``acquisition``: the Gittins index, log EI per cost, and the same with a cost exponent
that falls from 1 to 0 with the budget."""

COST_MODELS: tuple[str, ...] = get_args(CostKind)
"""Values of ``cost_model``: a GP on the log of the cost, or a linear model of it."""

StopRule: TypeAlias = GittinsStop | ImprovementPerCostStop

CostFunction: TypeAlias = Callable[[dict[str, Any]], float]
"""A user's own function from a parameterization to its cost."""

CostArgument: TypeAlias = float | Cost | str | CostFunction
"""A number, a value object by parameter names, the name of the metric in which each trial's cost
is reported, or a function."""


@dataclass(frozen=True)
class GittinsSettings(MethodSettings):
    """What the Gittins strategy was asked to do.

    Raises:
        UserInputError: On construction, when a field has a value that the method cannot use.
    """

    method: ClassVar[str] = "gittins_strategy"

    cost: CostArgument
    """What a trial costs; a metric's name where that is learned."""

    budget: float | None = None
    """What the experiment may cost in total; None for no limit."""

    lmbda: float | None = None
    """What one unit of cost is worth, in units of the objective; None to find it."""

    decay: GittinsDecay | None = None
    """How lambda falls over the run; its numbers are in standard deviations of the outcomes per
    mean cost of a trial. Set where neither ``lmbda`` nor a budget is given."""

    stop: bool | StopRule = True
    """When to stop: by a rule, never, or (True) by ``GittinsStop`` where lambda does not decay."""

    acquisition: str = "gittins"
    """What is maximised: one of ``ACQUISITIONS``."""

    cost_model: CostKind = "gp"
    """Model of a cost that is learned: one of ``COST_MODELS``."""

    initial_trials: int = 5
    """Number of quasi-random trials before the model decides."""

    charge_initial: bool = True
    """Whether initial trials are paid from the budget."""

    seed: int = 0
    """Seed of everything random; a decision draws from (seed, trial index)."""

    num_restarts: int | None = None
    """Restarts of the inner optimisation; None for Ax's default."""

    raw_samples: int | None = None
    """Raw starting points of the inner optimisation; None for Ax's default."""

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "cost", _checked_cost(self.cost))
        set_field(self, "budget", checked_budget(self.budget))
        if self.lmbda is not None:
            if not _is_positive(self.lmbda):
                raise UserInputError(
                    f"lmbda={self.lmbda!r}: expected a finite number > 0, or None."
                )
            set_field(self, "lmbda", float(self.lmbda))
        for name, allowed in (("acquisition", ACQUISITIONS), ("cost_model", COST_MODELS)):
            if getattr(self, name) not in allowed:
                raise UserInputError(
                    f"{name}={getattr(self, name)!r}: expected one of {list(allowed)}."
                )
        for name, least in (("seed", 0), ("initial_trials", 0)):
            check_integer(name, getattr(self, name), least)
        for name in ("num_restarts", "raw_samples"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), 1)
        check_bool("charge_initial", self.charge_initial)
        self._check_lambda()
        if self.lmbda is None and self.decay is None and self.budget is None:
            set_field(self, "decay", GittinsDecay())
        self._check_stop()
        if self.acquisition == "log_ei_cost_cooling" and self.budget is None:
            raise UserInputError(
                "acquisition='log_ei_cost_cooling' with budget=None: the exponent of the cost is "
                "the share of the budget that is left, so a budget is needed."
            )

    @property
    def cost_metric(self) -> str | None:
        """The metric under which costs are reported; None where they are known beforehand."""
        return self.cost if isinstance(self.cost, str) else None

    @property
    def lambda_source(self) -> str:
        """Where lambda comes from: ``"given"``, ``"decay"`` or ``"budget"``."""
        if self.lmbda is not None:
            return "given"
        return "budget" if self.decay is None else "decay"

    @property
    def rule(self) -> StopRule | None:
        """The stopping rule; None if the strategy never stops before the budget does."""
        if isinstance(self.stop, bool):
            return GittinsStop() if self.stop and self.decay is None else None
        return self.stop

    def control_set_of(self, trial: Trial) -> None:
        """None: every trial controls every parameter."""
        return None

    def declared_cost(self, trial: Trial) -> float | None:
        """What a trial costs by the settings alone; None where its cost has to be learned.

        Raises:
            UserInputError: If ``cost`` gives no finite positive number for the trial.
        """
        if self.cost_metric is not None or trial.arm is None:
            return None
        return self.cost_at(trial.arm.parameters)

    def cost_at(self, parameters: Mapping[str, Any]) -> float:
        """The known cost of one parameterization, in raw units of the parameters.

        Raises:
            UserInputError: If it is no finite number > 0, or has to be learned.
        """
        cost = self.cost
        if isinstance(cost, Cost):
            try:
                return cost.at(parameters)
            except InputError as error:
                raise UserInputError(f"cost={cost!r} at {dict(parameters)}: {error}") from error
        if isinstance(cost, str):
            raise UserInputError(f"cost={cost!r} names a metric: it is known only when reported.")
        value = cost(dict(parameters)) if callable(cost) else cost
        if not _is_positive(value):
            raise UserInputError(
                f"cost gave {value!r} for {dict(parameters)}: expected a finite number > 0."
            )
        return float(value)

    def _check_lambda(self) -> None:
        if self.decay is None:
            return
        if not isinstance(self.decay, GittinsDecay):
            raise UserInputError(f"decay={self.decay!r}: expected a GittinsDecay, or None.")
        if self.lmbda is not None:
            raise UserInputError(
                f"lmbda={self.lmbda!r} and decay={self.decay!r} are both given: lambda is either "
                "fixed or decays."
            )

    def _check_stop(self) -> None:
        if isinstance(self.stop, bool):
            return
        if not isinstance(self.stop, StopRule):
            raise UserInputError(
                f"stop={self.stop!r}: expected True, False, GittinsStop or ImprovementPerCostStop."
            )
        if self.decay is not None and self.stop.lmbda is None:
            raise UserInputError(
                f"stop={self.stop!r} has no lmbda, and lambda decays here: give the rule the rate "
                "at which cost is exchanged for the objective, as in "
                f"{type(self.stop).__name__}(lmbda=...)."
            )


def _checked_cost(cost: object) -> CostArgument:
    if isinstance(cost, Cost):
        if columns := [key for key in cost.parameters if not isinstance(key, str)]:
            raise UserInputError(
                f"cost={cost!r} reads the columns {columns}: expected names of parameters."
            )
        return cost
    if isinstance(cost, str) and cost:
        return cost
    if _is_positive(cost):
        return float(cost)
    if callable(cost) and not isinstance(cost, type):
        return cost
    raise UserInputError(
        f"cost={cost!r}: expected a finite number > 0, a value object such as "
        "AffineCost({'epochs': 2.5}), the name of the metric in which costs are reported, or a "
        "function from a parameterization to a number."
    )


def _is_positive(value: object) -> TypeGuard[float]:
    """Whether ``value`` is a finite number > 0; numpy's are numbers, a ``bool`` is none."""
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < math.inf
