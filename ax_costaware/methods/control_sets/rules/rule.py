r"""Rules that choose a control set: their input, their questions and their answer.

A rule is a frozen dataclass with one method, ``decide``: numbers in, a choice with its reason out
(steps 3 to 6 of Algorithm 1 in Tay et al. 2023, *Bayesian Optimization with Cost-varying Variable
Subsets*). It sees no inputs and no model. Costs are in the user's own unit, values in raw units of
the objective with the sign of maximization.

Values are monotone under inclusion. If control set :math:`I` is a subset of :math:`J`, then
:math:`\max E[u_I] \le \max E[u_J]` for every function :math:`u`, because the best fixed values of
the further inputs are at least as good as random ones. So the largest value is that of a maximal
set, and within sets of equal cost that of a maximal one among them (Tay et al. 2023, *Bayesian
Optimization with Cost-varying Variable Subsets*, section 4: "any control set that is a strict
subset of another will never be chosen").
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from ax_costaware.argument_checks import (
    integer_at_least,
    plain_value,
    positive_number,
    set_fields,
)
from ax_costaware.exceptions import InputError

Mask: TypeAlias = npt.NDArray[np.bool_]

Evaluate: TypeAlias = Callable[[Sequence[int]], Sequence[float]]
"""Callable: indices of control sets to the largest expected acquisition value of each."""


class CostEstimate(NamedTuple):
    """Estimate of the cost of one trial, in the user's own unit."""

    mean: float
    """Expected cost."""

    standard_error: float | None
    """Standard error of the mean: 0 for a declared cost. None for an average of reported costs,
    whose uncertainty a rule judges by their number."""


@runtime_checkable
class EvaluateBounds(Protocol):
    """An ``Evaluate`` that also gives bounds and costs, for rules where costs are unknown.

    Bounds are of the objective alone, also where values count by outcome constraints.
    """

    def __call__(self, indices: Sequence[int]) -> Sequence[float]:
        """Return the largest expected acquisition value of each control set."""

    def lower(self, indices: Sequence[int], pointwise: bool = False) -> Sequence[float]:
        r"""Return a lower confidence bound of the best expected value of each.

        Args:
            indices: Indices of control sets.
            pointwise: True for the largest :math:`E[\mu - \beta\sigma]`, the average of the
                pointwise bound; False for :math:`E\,\mu - \beta\,sd[E f]`, that of the average.
        """

    def upper(self, indices: Sequence[int], pointwise: bool = False) -> Sequence[float]:
        """Return the upper confidence bound to ``lower``."""

    def worst(self) -> float:
        """Return an estimate of the least value of the objective."""

    def costs(self, indices: Sequence[int]) -> Sequence[CostEstimate]:
        """Return the cost of each at the values where its acquisition value is largest."""


@dataclass(frozen=True)
class PastChoice:
    """An earlier choice of the rule."""

    index: int
    """Index of the control set that was chosen."""

    charged: float
    """Charge of its trial to the budget: the reported cost, else the expected one."""

    state: Mapping[str, Any] = field(default_factory=dict)
    """``ControlSetChoice.state`` of that choice; empty while it is no trial yet."""

    values: Mapping[int, float] = field(default_factory=dict)
    """``ControlSetChoice.values`` of that choice."""

    comparable: bool = True
    """True if the control sets, the distributions of the inputs and the objective were the present
    ones, so that values and bounds can be compared with present ones."""

    budget: float | None = None
    """The budget at that time; None without one, or if it is not known."""


@dataclass(frozen=True)
class ControlSetHistory:
    """State of the experiment: one entry for each declared control set, in declared order.

    Raises:
        InputError: For fields of different lengths, no control sets, two that control the same
            parameters, costs that are not finite and > 0, or counts that are not integers.
    """

    parameters: tuple[frozenset[str], ...]
    """Names of the parameters that each controls."""

    costs: tuple[float, ...]
    """Cost of one trial of each: declared, or expected so far."""

    plays: tuple[int, ...]
    """Number of earlier choices of each by the rule; initial trials are not counted."""

    affordable: tuple[bool, ...]
    """True for those that may be chosen now."""

    round: int
    """Number of this decision of the rule, from 1."""

    names: tuple[str, ...] | None = None
    """Name of each in reasons; its parameters joined by ``+`` if omitted."""

    known: tuple[bool, ...] | None = None
    """True for those whose cost is declared; None if all are."""

    reported: tuple[tuple[float, ...], ...] | None = None
    """Reported costs of the trials of each, including those that the rule did not choose; None if
    there are none."""

    past: tuple[PastChoice, ...] = ()
    """Earlier choices of the rule, in order."""

    budget: float | None = None
    """Largest total cost of all trials; None for no limit."""

    remaining: float | None = None
    """Rest of the budget."""

    pending: bool = False
    """True if trials are pending, whose outcomes are fantasized in the values."""

    monotone: bool = True
    """True if a control set that is part of another has no larger value. It may have one where
    outcome constraints are on expectations: an uncontrolled input can meet them at a better value
    than any setting of it."""

    def __post_init__(self) -> None:
        set_fields(
            self,
            parameters=tuple(frozenset(names) for names in self.parameters),
            costs=tuple(positive_number(c, f"costs[{i}]") for i, c in enumerate(self.costs)),
            plays=tuple(integer_at_least(n, 0, f"plays[{i}]") for i, n in enumerate(self.plays)),
            affordable=tuple(bool(flag) for flag in self.affordable),
            round=integer_at_least(self.round, 1, "round"),
        )
        lengths = {
            name: len(getattr(self, name))
            for name in ("parameters", "costs", "plays", "affordable", "names", "known", "reported")
            if getattr(self, name) is not None
        }
        if len(set(lengths.values())) > 1 or not self.parameters:
            raise InputError(
                f"the history has the lengths {lengths}: expected one entry for each control set."
            )
        if len(set(self.parameters)) < len(self.parameters):
            raise InputError(
                f"parameters={[sorted(names) for names in self.parameters]}: expected control sets "
                "that differ in their parameters."
            )

    @property
    def contained(self) -> Mask:
        """``S x S`` mask: the set of the column is a proper superset of the set of the row.

        The superset then has no smaller value. False everywhere if values are not ``monotone``.
        """
        return proper_supersets(self.parameters) & self.monotone

    def affordable_indices(self) -> list[int]:
        """Indices of the control sets that may be chosen.

        Raises:
            InputError: If there are none.
        """
        indices = [i for i, affordable in enumerate(self.affordable) if affordable]
        if not indices:
            raise InputError(
                f"affordable={list(self.affordable)}: expected at least one True, of "
                f"control sets of the costs {list(self.costs)}."
            )
        return indices

    def is_priced(self, index: int) -> bool:
        """Return True if the cost of a control set is declared, or was ever reported."""
        if self.known is None or self.known[index]:
            return True
        return bool(self.reported and self.reported[index])

    def describe(self, index: int) -> str:
        """Return the name of a control set, else its sorted parameters, for use in a sentence."""
        if self.names is not None:
            return self.names[index]
        return "+".join(sorted(self.parameters[index]))

    def largest(self, indices: Iterable[int], values: dict[int, float]) -> int:
        """Return the index of the largest value among ``indices``.

        Ties go to the one that controls more parameters, then to the one declared first.
        """
        return max(indices, key=lambda i: (values[i], len(self.parameters[i]), -i))


@dataclass(frozen=True)
class ControlSetChoice:
    """The control set that a rule chose, and why."""

    index: int
    """Index of the control set, in declared order."""

    reason: str
    """The reason, a sentence with the numbers that decided."""

    in_play: tuple[int, ...]
    """Indices among which the largest value was chosen."""

    values: dict[int, float]
    """The values that the rule asked for, by index."""

    state: Mapping[str, Any] = field(default_factory=dict)
    """State of the rule for later decisions, as plain JSON; it is stored with the trial."""


class ControlSetRule(ABC):
    """A rule that chooses a control set, such as ``ExploreThenCommit``.

    A rule of one's own is a frozen dataclass derived from this class.
    """

    refuses_constraints: ClassVar[bool] = False
    """True if the rule compares bounds that are of the objective alone, and so takes no outcome
    constraints."""

    models_costs = True
    """True to learn how costs depend on the values that a control set sets."""

    @property
    def baseline(self) -> str | None:
        """Value that values per unit of cost are counted from: ``"zero"``, or ``"worst"``.

        None: values are not divided by cost. Otherwise the values that a control set sets are
        chosen by their cost, too, where it depends on them.
        """
        return None

    @abstractmethod
    def decide(self, history: ControlSetHistory, evaluate: Evaluate) -> ControlSetChoice:
        """Choose a control set.

        Args:
            history: Where the experiment stands.
            evaluate: Gives the largest expected acquisition value of the control sets with the
                indices it is called with. It must be monotone, unless the history says that it is
                not: a control set that is part of another has no larger value.

        Raises:
            InputError: If no control set is affordable, or a value is not a finite number.
        """

    def oriented(self, minimize: bool) -> ControlSetRule:
        """Return the same rule for values with the sign of maximization."""
        return self

    def refusal(self, costs: Mapping[str, Any]) -> str | None:
        """Return why the rule cannot choose from control sets of such costs, as a phrase, or None.

        Args:
            costs: By the name of each control set a number, None if its cost is learned, or a cost
                that depends on the values that it sets.
        """
        return None

    def exploration_cost(self, costs: Sequence[float]) -> float | None:
        """Return the cost of all exploration, in the unit of ``costs``.

        None if it has no end, or costs do not tell.
        """
        return None


class SeenValues:
    """Cache of the values that a rule has asked for in one decision."""

    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate = evaluate
        self.values: dict[int, float] = {}

    def evaluate(self, indices: Sequence[int]) -> list[float]:
        """Return the values of ``indices``; unknown ones are evaluated in one call.

        Raises:
            InputError: If ``evaluate`` gives too few or too many values, or one that is not finite.
        """
        unseen = [index for index in indices if index not in self.values]
        if unseen:
            given = finite_values(self._evaluate(unseen), unseen)
            self.values.update(zip(unseen, given, strict=True))
        return [self.values[index] for index in indices]


def expected_costs(
    history: ControlSetHistory, evaluate: EvaluateBounds, indices: Sequence[int]
) -> dict[int, float]:
    """Return the expected cost of control sets at the values that each would set, by index.

    A control set of unknown cost counts as the most expensive one that is part of it, since setting
    more costs no less. If there is none, it counts as the cheapest of the others, so that it is
    tried, whatever the unit of cost.
    """
    estimates = evaluate.costs(indices)
    found = {i: estimate.mean for i, estimate in zip(indices, estimates, strict=True)}
    sets = history.parameters
    priced = {j: cost for j, cost in enumerate(history.costs) if history.is_priced(j)}
    # Unknown costs count as the least known one, so that every control set is tried.
    others = min(priced.values(), default=1.0)
    least = min((found[i] for i in indices if i in priced), default=others)
    for i in found.keys() - priced.keys():
        parts = (found.get(j, cost) for j, cost in priced.items() if sets[j] < sets[i])
        found[i] = max(parts, default=least)
    return found


def finite_values(given: Sequence[float], indices: Sequence[int], what: str = "") -> list[float]:
    """Return the values that ``evaluate`` gave for control sets, as floats.

    Raises:
        InputError: If these are too few or too many, or one is not finite.
    """
    values = [float(value) for value in given]
    if len(values) != len(indices):
        raise InputError(
            f"evaluate gave {len(values)} values for the control sets {list(indices)}: expected "
            "one for each."
        )
    for index, value in zip(indices, values, strict=True):
        if not math.isfinite(value):
            raise InputError(
                f"evaluate gave {what}{value!r} for control set {index}: expected a finite number."
            )
    return values


def proper_supersets(parameters: Sequence[frozenset[str]]) -> Mask:
    """Return ``S x S``: True if the set of the column is a proper superset of that of the row."""
    names = sorted(frozenset().union(*parameters))
    place = {name: i for i, name in enumerate(names)}
    member = np.zeros((len(parameters), len(names)), dtype=np.float32)
    for row, controlled in enumerate(parameters):
        member[row, [place[name] for name in controlled]] = 1.0
    sizes = member.sum(axis=1)
    shared = member @ member.T
    return np.asarray((shared == sizes[:, None]) & (sizes[:, None] < sizes[None, :]))


def maximal(contained: Mask, among: Iterable[int]) -> list[int]:
    """Return the indices ``among`` whose set is no proper subset of another one, in order."""
    chosen = np.array(sorted(among), dtype=np.intp)
    inside = contained[np.ix_(chosen, chosen)].any(axis=1)
    return [int(index) for index in chosen[~inside]]


def cost_groups(costs: Sequence[float]) -> list[tuple[int, ...]]:
    """Return groups of indices of equal cost, to rounding, cheapest first."""
    groups: list[list[int]] = []
    for index in sorted(range(len(costs)), key=lambda i: costs[i]):
        if groups and math.isclose(costs[index], costs[groups[-1][0]]):
            groups[-1].append(index)
        else:
            groups.append([index])
    return [tuple(sorted(group)) for group in groups]


def checked_choice(
    rule: ControlSetRule, affordable: Sequence[bool], choice: ControlSetChoice
) -> ControlSetChoice:
    """Return what a rule chose, checked: a rule may be a user's.

    Args:
        rule: The rule.
        affordable: Mask of the control sets that it could choose.
        choice: Its choice.

    Returns:
        The same, with a plain index.

    Raises:
        InputError: If it is no ``ControlSetChoice`` with a reason, or has an index that is not
            affordable or does not exist.
    """
    able = [index for index, is_able in enumerate(affordable) if is_able]
    what = f"{type(rule).__name__} chose {choice!r}: expected"
    if not isinstance(choice, ControlSetChoice) or not isinstance(choice.reason, str):
        raise InputError(f"{what} a ControlSetChoice, with a reason.")
    index = plain_value(choice.index)
    if not isinstance(index, Integral) or index not in able:
        raise InputError(f"{what} the index of one that can be played, of {able}.")
    if not {*choice.in_play, *choice.values} <= {*range(len(affordable))}:
        raise InputError(f"{what} in_play and values by indices from 0 to {len(affordable) - 1}.")
    return replace(choice, index=int(index))
