"""Settings of the indirect-query method: everything that a decision depends on besides the trials.

The method is that of Zhang et al. 2024, "Indirect Query Bayesian
Optimization with Integrated Feedback". An ``IndirectQuerySettings`` is checked when it is made, is
compared by value, and survives Ax's JSON and SQL stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from ax.exceptions.core import UserInputError

from ax_costaware.exceptions import InputError
from ax_costaware.generators.target_parameters import TargetParameter
from ax_costaware.generators.target_settings import TargetSettings
from ax_costaware.queries.argument_checks import positive_number
from ax_costaware.queries.conditionals import Conditional, FiniteConditional
from ax_costaware.queries.costs import Cost


@dataclass(frozen=True, kw_only=True)
class IndirectQuerySettings(TargetSettings):
    """What the indirect-query strategy was asked to do.

    Raises:
        UserInputError: On construction, when a field has a value that the method cannot use.
    """

    method: ClassVar[str] = "indirect_query_strategy"

    conditional: Conditional
    """The law of a point given a query, as the user gave it."""

    cost: float | Cost = 1.0
    """What a query costs: a number, or a value object by parameter names."""

    query_parameters: tuple[str, ...] | None = None
    """Parameters of the experiment in the order of the conditional's query columns; None for the
    experiment's own order."""

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        super().__post_init__()
        if not isinstance(self.conditional, Conditional):
            raise UserInputError(
                f"conditional={self.conditional!r}: expected one such as GaussianConditional, "
                "UniformBoxConditional, FiniteConditional or LearnedConditional."
            )
        set_field(self, "cost", _checked_cost(self.cost))
        d, columns = len(self.target_parameters), self.conditional.num_target_columns
        if columns is not None and columns != d and not _counts_arms(self.conditional):
            raise UserInputError(
                f"target_parameters has {list(self.target_names)}, and conditional="
                f"{self.conditional!r} is about points of {columns} columns: expected as many."
            )
        _ = self.law
        if self.query_parameters is not None:
            set_field(self, "query_parameters", self._checked_names(self.query_parameters))

    @cached_property
    def law(self) -> Conditional:
        """The conditional on the points that there are; arms that it counts have their values."""
        conditional = self.conditional
        if _counts_arms(conditional):
            conditional = _with_values(conditional, self.target_parameters)
        try:
            return conditional.within(*self.target_bounds)
        except InputError as error:
            raise UserInputError(f"conditional={self.conditional!r}: {error}") from error

    @property
    def noise(self) -> None:
        """None: it is fitted, or part of the hyperparameters, or reported with the outcomes."""
        return None

    def query_names(self, parameters: Iterable[str]) -> tuple[str, ...]:
        """The parameters of the query, as the user ordered them, or in the experiment's order."""
        return tuple(parameters) if self.query_parameters is None else self.query_parameters

    def cost_at(self, parameters: Mapping[str, Any]) -> float:
        """What a query costs, by its parameters in raw units.

        Raises:
            UserInputError: If that is no finite number > 0.
        """
        if not isinstance(self.cost, Cost):
            return self.cost
        try:
            return self.cost.at(parameters)
        except InputError as error:
            raise UserInputError(f"cost={self.cost!r} at {dict(parameters)}: {error}") from error

    def _checked_names(self, names: Any) -> tuple[str, ...]:
        found = () if isinstance(names, str) else tuple(names)
        if (
            len(set(found)) < len(found)
            or not all(isinstance(name, str) for name in found)
            or len(found) != self.law.num_query_columns
        ):
            raise UserInputError(
                f"query_parameters={names!r}: expected the names of "
                f"{self.law.num_query_columns} parameters of the experiment, each once."
            )
        return found


def _counts_arms(conditional: Conditional) -> bool:
    return isinstance(conditional, FiniteConditional) and conditional.points is None


def _with_values(conditional: Conditional, parameters: tuple[TargetParameter, ...]) -> Conditional:
    """Probabilities of the values of one parameter, with these values for points."""
    assert isinstance(conditional, FiniteConditional)
    (num_arms,) = {len(row) for row in conditional.policies}
    grid = parameters[0].grid
    if len(parameters) != 1 or grid is None or len(grid) != num_arms:
        raise UserInputError(
            f"target_parameters has {[p.name for p in parameters]}, and conditional="
            f"{conditional!r} has probabilities of {num_arms} arms and no points: expected one "
            "parameter with as many values, in the order of the probabilities, or the points."
        )
    if not parameters[0].is_numeric:
        return conditional
    return replace(conditional, points=tuple((value,) for value in grid))


def _checked_cost(cost: object) -> float | Cost:
    if isinstance(cost, Cost):
        if columns := [key for key in cost.parameters if not isinstance(key, str)]:
            raise UserInputError(
                f"cost={cost!r} reads the columns {columns}: expected names of parameters."
            )
        return cost
    try:
        return positive_number(cost, "cost")
    except InputError as error:
        raise UserInputError(
            f"cost={cost!r}: expected a finite number > 0, or a value object such as "
            "AffineCost({'hours': 2.5})."
        ) from error
