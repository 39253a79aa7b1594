"""Checks of the arguments of the control-set method, and of whether they fit an experiment."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ax_costaware.exceptions import InputError
from ax_costaware.methods.control_sets.chance import atoms_of
from ax_costaware.methods.method import is_number
from ax_costaware.methods.parameters import Choice, Fixed, Parameter, Range
from ax_costaware.methods.past import ROUNDING
from ax_costaware.methods.problem import Problem
from ax_costaware.policies.control_set_rules import CostEstimate
from ax_costaware.queries.control_sets import ControlSet
from ax_costaware.queries.joint import JointLaw
from ax_costaware.queries.marginals import Learned, Marginal

if TYPE_CHECKING:
    from ax_costaware.methods.control_sets import ControlSets

CONTROL_SET = "control_set"
"""Name of the string choice parameter that says which inputs a trial controls."""

_HAVE_RUN = ("COMPLETED", "EARLY_STOPPED")

_TOLERANCE = 1e-9
"""How far a marginal may pass a bound, relative to the parameter's range: rounding only."""


def check_control_sets_fit(problem: Problem, method: ControlSets) -> None:
    """Check the parameters of an experiment against the control sets and the laws of the inputs.

    Raises:
        InputError: If the search space lacks something, or the marginals do not fit it.
    """
    _check_control_set_parameter(problem.space.hidden.get(CONTROL_SET), method)
    _check_controlled(problem.space.parameters, method)
    _check_marginals(problem.space.parameters, method)


def check_realized(problem: Problem, method: ControlSets) -> None:
    """Check that every trial with an outcome says what the inputs were that it left to chance.

    A trial that the user attached has the values of its arm.

    Raises:
        InputError: If one does not, as after Ax's own ``complete_trial``.
    """
    for trial in problem.trials:
        if trial.outcome is None or not trial.record or trial.status not in _HAVE_RUN:
            continue
        controlled = method.control_set_of(trial).parameters
        missing = [n for n in method.laws if n not in controlled and n not in trial.realized]
        if missing:
            raise InputError(
                f"trial {trial.index} was completed without the values of {missing}, which it left "
                "to chance, so that its outcome would be taken for that of their nominal values. "
                f"Add them, with ax_costaware.complete_trial(client, {trial.index}, realized="
                f"{{{missing[0]!r}: ...}}), and complete other trials by that function, with "
                "realized=... and their outcome."
            )


def _check_control_set_parameter(parameter: Parameter | None, method: ControlSets) -> None:
    hint = "Add control_set_parameter(control_sets) to the parameters of the experiment."
    if parameter is None:
        raise InputError(f"the experiment has no parameter {CONTROL_SET!r}. {hint}")
    if isinstance(parameter, Range):
        raise InputError(f"parameter {CONTROL_SET!r} is {parameter}. {hint}")
    values = [parameter.value] if isinstance(parameter, Fixed) else list(parameter.values)
    if set(values) != set(method.names):
        raise InputError(
            f"parameter {CONTROL_SET!r} has the values {values}, but the strategy has the control "
            f"sets {method.names}. {hint}"
        )


def _check_controlled(parameters: Mapping[str, Parameter], method: ControlSets) -> None:
    for control_set in method.control_sets:
        for name in control_set.parameters:
            if name not in parameters:
                raise InputError(
                    f"control set {control_set.name!r} controls {name!r}, which is no parameter of "
                    f"the experiment: expected names out of {sorted(parameters)}."
                )
            if isinstance(parameters[name], Fixed):
                raise InputError(
                    f"control set {control_set.name!r} controls {name!r}, which the experiment "
                    "fixes to one value: expected a range or choice parameter."
                )


def _check_marginals(parameters: Mapping[str, Parameter], method: ControlSets) -> None:
    laws = method.laws
    for name in laws:
        if name not in parameters or isinstance(parameters[name], Fixed):
            argument = "marginals" if name in method.marginals else "joint"
            raise InputError(
                f"{argument} has an entry for {name!r}, which is no free parameter of the "
                f"experiment: expected names out of "
                f"{sorted(n for n, p in parameters.items() if not isinstance(p, Fixed))}."
            )
    for name, parameter in parameters.items():
        if isinstance(parameter, Fixed):
            continue
        marginal = laws.get(name)
        what = f"marginals[{name!r}]" if name in method.marginals else f"joint.marginal({name!r})"
        if marginal is None:
            uncontrolled = [s.name for s in method.control_sets if name not in s.parameters]
            if uncontrolled:
                raise InputError(
                    f"parameter {name!r} has no marginal, and control set {uncontrolled[0]!r} does "
                    f"not control it: add marginals[{name!r}], its distribution in such trials."
                )
        elif isinstance(parameter, Range):
            _check_range_marginal(what, parameter, marginal)
        elif isinstance(parameter, Choice):
            _check_choice_marginal(what, parameter, marginal)


def _check_range_marginal(what: str, parameter: Range, marginal: Marginal) -> None:
    name = parameter.name
    if not marginal.is_numeric:
        raise InputError(
            f"{what}={marginal!r} has values that are not numbers, but parameter "
            f"{name!r} ranges over [{parameter.lower}, {parameter.upper}]."
        )
    slack = _TOLERANCE * (parameter.upper - parameter.lower)
    if marginal.lower < parameter.lower - slack or marginal.upper > parameter.upper + slack:
        raise InputError(
            f"{what}={marginal!r} reaches over [{marginal.lower:g}, "
            f"{marginal.upper:g}], outside the bounds [{parameter.lower:g}, {parameter.upper:g}] "
            f"of parameter {name!r}: widen the bounds, or narrow the marginal (of a sample, leave "
            "out what lies beyond them)."
        )
    if parameter.is_integer:
        atoms = atoms_of(marginal)
        if atoms is None or any(float(str(value)) != round(float(str(value))) for value in atoms):
            raise InputError(
                f"{what}={marginal!r} gives values that are not integers, but "
                f"parameter {name!r} is one: expected a Discrete or Empirical over integers."
            )


def _check_choice_marginal(what: str, parameter: Choice, marginal: Marginal) -> None:
    values, atoms = list(parameter.values), atoms_of(marginal)
    if atoms is None:
        raise InputError(
            f"{what}={marginal!r} is continuous, but parameter {parameter.name!r} is a choice "
            f"between {values}: expected a Discrete over these."
        )
    for value in atoms:
        try:
            parameter.index(value)
        except InputError as error:
            raise InputError(
                f"{what} gives the value {value!r}, which is not one of the values "
                f"{values} of parameter {parameter.name!r}."
            ) from error


class NoValues:
    """Values for a first decision before there is an experiment: all are zero."""

    def __init__(self, costs: Sequence[float]) -> None:
        self._costs = costs

    def __call__(self, indices: Sequence[int]) -> Sequence[float]:
        """Zeros."""
        return [0.0 for _ in indices]

    def lower(self, indices: Sequence[int], pointwise: bool = False) -> Sequence[float]:
        """Zeros."""
        return [0.0 for _ in indices]

    def upper(self, indices: Sequence[int], pointwise: bool = False) -> Sequence[float]:
        """Zeros."""
        return [0.0 for _ in indices]

    def worst(self) -> float:
        """Zero."""
        return 0.0

    def costs(self, indices: Sequence[int]) -> Sequence[CostEstimate]:
        """The costs that it was made with."""
        return [CostEstimate(self._costs[i], 0.0) for i in indices]


def least_cost(control_set: ControlSet) -> float:
    """What a trial costs, or costs at least."""
    return control_set.fixed_cost if control_set.cost is None else control_set.cost


def checked_names(names: object) -> tuple[object, ...]:
    """Names of control sets as a tuple, whatever they are; empty for None."""
    if names is None:
        return ()
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputError(f"initial_control_sets={names!r}: expected a list of names.")
    return tuple(names)


def checked_marginals(marginals: object) -> dict[str, Marginal]:
    """Marginals by name, as a dictionary of their own."""
    if not isinstance(marginals, Mapping):
        raise InputError(
            f"marginals={marginals!r}: expected a dictionary from parameter names to marginals."
        )
    for name, marginal in marginals.items():
        if not isinstance(name, str) or not isinstance(marginal, Marginal):
            raise InputError(
                f"marginals[{name!r}]={marginal!r}: expected a marginal such as Uniform(0, 1), "
                "under the name of a parameter."
            )
    return dict(marginals)


def check_joint(joint: object, marginals: Mapping[str, Marginal]) -> None:
    """Refuse what is no joint law, or one that does not go with the marginals."""
    if joint is None:
        return
    if not isinstance(joint, JointLaw):
        raise InputError(
            f"joint={joint!r}: expected a joint law such as JointEmpirical(frame), or None."
        )
    if twice := [name for name in joint.names if name in marginals]:
        raise InputError(
            f"marginals and joint both have {twice}: expected each input in one of them. Leave out "
            "of marginals what joint describes."
        )
    if learned := [name for name in joint.names if isinstance(joint.marginal(name), Learned)]:
        raise InputError(
            f"joint has Learned marginals, of {learned}: a joint law is not updated while the "
            "experiment runs. Give it marginals that stay, or move independent inputs to marginals."
        )


def check_budget_pays(budget: float | None, control_sets: tuple[ControlSet, ...]) -> None:
    """Refuse a budget that does not pay for one trial of the cheapest control set."""
    cheapest = min(least_cost(control_set) for control_set in control_sets)
    if budget is not None and budget * (1 + ROUNDING) < cheapest:
        raise InputError(
            f"budget={budget!r} is below the cost of the cheapest control set, {cheapest:g}: "
            "expected a budget that pays for at least one trial."
        )


def checked_beta(beta: object) -> float:
    """A finite weight of at least zero."""
    if not is_number(beta) or not math.isfinite(beta) or beta < 0:
        expected = "a finite number >= 0, or a TheoreticalBeta"
        raise InputError(f"beta={beta!r}: expected {expected}.")
    return float(beta)
