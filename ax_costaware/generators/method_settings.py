"""What every method of this package tells the ledger and the session functions about its costs.

Each method has one settings object: everything that a decision depends on besides the stored
trials. What the methods share is here, so that charging trials, completing them and recommending
ask these questions of any of them and know no method by name. Costs and the budget are in the
user's own unit.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeGuard, TypeVar

from ax.core.trial import Trial
from ax.exceptions.core import UserInputError
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec

from ax_costaware.queries.control_sets import ControlSet

Settings = TypeVar("Settings", bound="MethodSettings")

ROUNDING = 1e-9
"""Relative slack of a budget: ten costs of 0.1 must fit in a budget of 1."""


class MethodSettings(ABC):
    """Settings of a method: what a trial controls, and what it is expected to cost.

    A subclass is a frozen dataclass that is checked when it is made and compared by value. It is
    found in a strategy under the name ``settings`` among the keyword arguments of a generator.
    """

    method: ClassVar[str]
    """Name of the function that makes the strategy, for messages."""

    may_skip: ClassVar[bool] = False
    """Whether a trial may do without a measurement, which then costs nothing."""

    budget: float | None
    """What the experiment may cost in total; None for no limit."""

    charge_initial: bool
    """Whether initial trials are paid from the budget."""

    seed: int
    """Seed of everything random; a decision draws from (seed, trial index)."""

    @property
    @abstractmethod
    def cost_metric(self) -> str | None:
        """Metric under which costs are reported, for a method that learns them; else None."""

    @abstractmethod
    def control_set_of(self, trial: Trial) -> ControlSet | None:
        """The control set that the trial's arm names; None: the trial controls every parameter.

        Raises:
            UserInputError: If the method has control sets and the trial names none of them.
        """

    def candidates(self) -> Sequence[ControlSet]:
        """The control sets that a decision is between; none for a method without."""
        return ()

    @abstractmethod
    def declared_cost(self, trial: Trial) -> float | None:
        """Cost of the trial by the settings alone; None where it can only be learned.

        Raises:
            UserInputError: If the settings give the trial no finite cost > 0.
        """

    def cost_by_others(
        self, control_set: ControlSet | None, reported: Mapping[str | None, Sequence[float]]
    ) -> float | None:
        """What a trial costs of which nothing was expected, by what others were reported to cost.

        The mean of all reported costs, unless the method knows better.

        Args:
            control_set: The trial's control set; None if it controls every parameter.
            reported: Reported costs of trials, by the name of their control set.

        Returns:
            The cost; None if nothing was reported that tells.
        """
        costs = [cost for others in reported.values() for cost in others]
        return math.fsum(costs) / len(costs) if costs else None


def settings_of(strategy: GenerationStrategy) -> MethodSettings:
    """The settings of a generation strategy of this package, whatever its method.

    Raises:
        UserInputError: If ``strategy`` comes from none of the package's functions.
    """
    settings = model_spec_of(strategy).generator_kwargs["settings"]
    assert isinstance(settings, MethodSettings)
    return settings


def settings_of_method(strategy: GenerationStrategy, settings_class: type[Settings]) -> Settings:
    """The settings of a generation strategy of one method of this package.

    Args:
        strategy: The strategy.
        settings_class: The settings of the method.

    Raises:
        UserInputError: If ``strategy`` comes from elsewhere, or from another method.
    """
    settings = settings_of(strategy)
    if isinstance(settings, settings_class):
        return settings
    raise UserInputError(
        f"the generation strategy {strategy.name!r} comes from {settings.method}: expected one "
        f"made by ax_costaware.{settings_class.method}."
    )


def model_spec_of(strategy: GenerationStrategy) -> GeneratorSpec:
    """The part of a strategy of this package that holds its settings and its model.

    Raises:
        UserInputError: If ``strategy`` comes from none of the package's functions.
    """
    nodes = strategy.nodes_by_name.values() if isinstance(strategy, GenerationStrategy) else ()
    for node in nodes:
        for spec in node.generator_specs:
            if isinstance(spec.generator_kwargs.get("settings"), MethodSettings):
                return spec
    raise UserInputError(
        f"the generation strategy {getattr(strategy, 'name', strategy)!r} does not know what a "
        "trial costs: expected one made by ax_costaware.control_set_strategy, "
        "ax_costaware.gittins_strategy or any other strategy of the package."
    )


def checked_budget(budget: object) -> float | None:
    """``budget`` as a float, or None.

    Raises:
        UserInputError: If it is neither None nor a finite number > 0.
    """
    if budget is None:
        return None
    if not is_number(budget) or not math.isfinite(budget) or budget <= 0:
        raise UserInputError(f"budget={budget!r}: expected a finite number > 0, or None.")
    return float(budget)


def check_integer(name: str, value: object, least: int) -> None:
    """Refuse what is no integer, or below ``least``; ``name`` is how the message calls it."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserInputError(f"{name}={value!r}: expected an integer >= {least}.")


def check_bool(name: str, value: object) -> None:
    """Refuse what is not True or False."""
    if not isinstance(value, bool):
        raise UserInputError(f"{name}={value!r}: expected True or False.")


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether ``value`` is a plain number; a ``bool`` is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)
