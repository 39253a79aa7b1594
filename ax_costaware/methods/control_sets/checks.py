"""Checks of the arguments of the control-set method, alone and against an experiment."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ax_costaware.argument_checks import (
    finite_number,
    finite_tensor,
    instance_of,
    one_of,
    plain_value,
    sequence_of,
)
from ax_costaware.core.account import ROUNDING
from ax_costaware.core.history import PastTrial, blaming
from ax_costaware.core.problem import Problem
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.costs import ControlSet
from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.laws import JointLaw, Learned, Marginal
from ax_costaware.laws.nodes import check_weights
from ax_costaware.methods.control_sets.learned import atoms_of
from ax_costaware.methods.control_sets.rules.rule import (
    ControlSetHistory,
    ControlSetRule,
    CostEstimate,
    checked_choice,
)
from ax_costaware.methods.costs import check_cost, cost_range
from ax_costaware.space.parameter_constraints import shown
from ax_costaware.space.parameters import Choice, Fixed, FreeParameter, Parameter, Range

if TYPE_CHECKING:
    from ax_costaware.methods.control_sets import ControlSets

_HAVE_RUN = ("COMPLETED", "EARLY_STOPPED")

_TOLERANCE = 1e-9
"""Relative excess of a marginal over a bound of its parameter that is rounding only."""


_NUM_CHECKED = 8
"""Nodes and draws at which a marginal is checked."""


def check_control_sets_fit(problem: Problem, method: ControlSets) -> None:
    """Check the parameters of an experiment against the control sets and distributions.

    Raises:
        InputError: If the search space lacks something, or the marginals do not fit it.
    """
    if CONTROL_SET in problem.space.parameters:
        raise InputError(
            f"space does not hide its parameter {CONTROL_SET!r}, which the model is not to see: "
            f"expected Space.of(parameters, hidden=[{CONTROL_SET!r}])."
        )
    _check_control_set_parameter(problem.space.hidden.get(CONTROL_SET), method)
    free = {name: column.parameter for name, column in problem.space.columns.items()}
    for control_set in method.control_sets:
        for weights, _ in problem.space.sums:
            left = [name for name in weights if name not in control_set.parameters]
            if left and len(left) < len(weights):
                raise InputError(
                    f"a parameter constraint reads {list(weights)}, of which control set "
                    f"{control_set.name!r} does not control {left}, so that it cannot be met. "
                    "Expected constraints on inputs that are controlled together."
                )
        for equality in problem.space.equalities:
            left = [n for n in equality[0] if n in free and n not in control_set.parameters]
            if left:
                raise InputError(
                    f"equality constraint {shown(equality)!r}: control set {control_set.name!r} "
                    f"does not control {left}, so that it cannot be met. Expected equality "
                    "constraints on inputs that every control set sets."
                )
        for name in control_set.parameters:
            controls = f"control set {control_set.name!r} controls {name!r}, which"
            if name in problem.space.fixed:
                raise InputError(
                    f"{controls} the experiment fixes to one value: expected a range or choice "
                    "parameter."
                )
            if name not in free:
                raise InputError(
                    f"{controls} is no parameter of the experiment: expected names out of "
                    f"{sorted(problem.space.parameters)}."
                )
    for name in method.laws:
        if name not in free:
            raise InputError(
                f"{'marginals' if name in method.marginals else 'joint'} has an entry for "
                f"{name!r}, which is no free parameter of the experiment: expected names out of "
                f"{sorted(free)}."
            )
    # Distributions were checked in detail before the first trial.
    is_new = not any(trial.record for trial in problem.trials)
    for parameter in free.values():
        _check_law(parameter, method, is_new)


def check_declared_costs(problem: Problem, method: ControlSets) -> None:
    """Check costs that depend on the values that are set against the experiment, and the budget.

    Raises:
        InputError: If one does not fit the parameters, is no finite number > 0 somewhere, or the
            budget pays for no trial, or not for the initial ones.
    """
    least = method.least_costs
    for i, cost in enumerate(method.declared_costs):
        if not isinstance(cost, float | None):
            check_cost(problem, cost)
            least[i] = cost_range(problem, cost)[0]
    is_new = not any(trial.record for trial in problem.trials)
    # Parameters that the caller fixes hold for one trial only, so they do not count.
    if is_new and problem.fixed.keys() <= {*problem.disabled}:
        check_budget(method, least)


def check_realized(problem: Problem, method: ControlSets) -> None:
    """Check that every trial with an outcome has the realized values of its uncontrolled inputs.

    A trial that the user attached has the values of its arm.

    Raises:
        InputError: If values are missing, as after Ax's own ``complete_trial``.
    """
    for trial, missing in without_realized(problem, method):
        if trial.status in _HAVE_RUN:
            ended = trial.status.lower().replace("_", " ")
            raise InputError(
                f"trial {trial.index} was {ended} without the values of {missing}, which it does "
                "not control, so that its outcome would count as that of their nominal values. "
                f"Add them, with ax_costaware.complete_trial(client, {trial.index}, realized="
                f"{{{missing[0]!r}: ...}}), and complete other trials by that function, with "
                "realized=... and their outcome."
            )


def without_realized(
    problem: Problem, method: ControlSets
) -> Iterator[tuple[PastTrial, list[str]]]:
    """Yield trials with an outcome that lack values of uncontrolled inputs, with these inputs."""
    for trial in problem.trials:
        if trial.outcome is not None and trial.record and not trial.has_failed:
            with blaming(trial):
                controlled = method.chosen(trial).parameters
            missing = [n for n in method.laws if n not in controlled and n not in trial.realized]
            if missing:
                yield trial, missing


def check_constraints(problem: Problem, method: ControlSets) -> None:
    """Refuse outcome constraints with a rule that compares bounds of the objective alone.

    Raises:
        UnsupportedInputError: For such a rule.
    """
    rule = method.rule
    if problem.constraints and rule is not None and rule.refuses_constraints:
        raise UnsupportedInputError(
            f"rule={rule!r} with outcome constraints {', '.join(map(str, problem.constraints))}: "
            "it compares control sets by bounds of the objective alone. Expected "
            "LargestValuePerCost, the default, EpsilonSchedule or ExploreThenCommit."
        )


def _check_control_set_parameter(parameter: Parameter | None, method: ControlSets) -> None:
    what = f"parameter {CONTROL_SET!r}"
    if parameter is None:
        found = f"the experiment has no {what}"
    elif isinstance(parameter, Range):
        found = f"{what} is {parameter}"
    else:
        values = [parameter.value] if isinstance(parameter, Fixed) else list(parameter.values)
        if set(values) == set(method.names):
            return
        found = (
            f"{what} has the values {values}, but the strategy has the control sets {method.names}"
        )
    raise InputError(
        f"{found}. Add control_set_parameter(control_sets) to the parameters of the experiment."
    )


def _check_law(parameter: FreeParameter, method: ControlSets, is_new: bool) -> None:
    """Check the distribution of an input in trials that do not control it."""
    name, law = parameter.name, method.laws.get(parameter.name)
    if law is None:
        uncontrolled = [s.name for s in method.control_sets if name not in s.parameters]
        if uncontrolled:
            raise InputError(
                f"parameter {name!r} has no marginal, and control set {uncontrolled[0]!r} does "
                f"not control it: add marginals[{name!r}], its distribution in such trials."
            )
        return
    what = f"marginals[{name!r}]" if name in method.marginals else f"joint.marginal({name!r})"
    if isinstance(parameter, Range):
        _check_range_marginal(f"{what}={law!r}", parameter, law, is_new)
    else:
        _check_choice_marginal(what, parameter, law)


def _check_range_marginal(what: str, parameter: Range, marginal: Marginal, is_new: bool) -> None:
    name, lower, upper = parameter.name, parameter.lower, parameter.upper
    if not marginal.is_numeric:
        raise InputError(
            f"{what} has values that are not numbers, but parameter {name!r} ranges over "
            f"[{lower}, {upper}]."
        )
    slack = _TOLERANCE * (upper - lower)
    if marginal.lower < lower - slack or marginal.upper > upper + slack:
        above = marginal.upper > upper + slack
        limit = f"{name} <= {upper:g}" if above else f"{name} >= {lower:g}"
        raise InputError(
            f"{what} reaches over [{marginal.lower:g}, {marginal.upper:g}], outside the bounds "
            f"[{lower:g}, {upper:g}] of parameter {name!r}: widen the bounds, or narrow the "
            "marginal (of a sample, leave out what lies beyond them). To keep only what trials set "
            f"within narrower limits, leave the bounds, and add a parameter constraint such as "
            f"'{limit}'."
        )
    atoms = atoms_of(marginal)
    if atoms is None and is_new:
        _check_answers(what, marginal)
    if parameter.is_integer and not all(float(v).is_integer() for v in atoms or (0.5,)):
        raise InputError(
            f"{what} gives values that are not integers, but parameter {name!r} is one: "
            "expected a Discrete or Empirical over integers."
        )


def _check_answers(what: str, marginal: Marginal) -> None:
    """Check nodes, draws and the nominal value of a marginal of a user's own class."""
    low, high = (
        finite_number(plain_value(x), f"a bound of {what}")
        for x in (marginal.lower, marginal.upper)
    )
    slack = _TOLERANCE * (high - low)
    u = torch.linspace(0.0, 1.0, _NUM_CHECKED + 1, dtype=torch.double)[:-1] + 0.5 / _NUM_CHECKED
    rule = marginal.nodes_and_weights(_NUM_CHECKED)
    if not isinstance(rule, tuple) or len(rule) != 2:
        raise InputError(f"{what}: nodes_and_weights gave {rule!r}; expected a pair of both.")
    nodes = finite_tensor(rule[0], f"{what}: its nodes", (None,), "finite nodes, a vector")
    expected = "a vector of finite weights, one for each node"
    weights = finite_tensor(rule[1], f"{what}: its weights", nodes.shape, expected)
    check_weights(weights, nodes.unsqueeze(-1), f"{what}: its weights")
    expected = f"a finite node for each of {len(u)} entries of u"
    drawn = finite_tensor(marginal.icdf(u), f"{what}: icdf", u.shape, expected)
    middle = torch.tensor([finite_number(plain_value(marginal.nominal), f"{what}: nominal")])
    for method, found in (("nodes_and_weights", nodes), ("icdf", drawn), ("nominal", middle)):
        least, most = float(found.min()), float(found.max())
        if least < low - slack or most > high + slack:
            raise InputError(
                f"{what}: {method} gave values in [{least:g}, {most:g}]; expected some between its "
                f"lower, {low:g}, and its upper, {high:g}."
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


def checked_marginals(marginals: Any) -> dict[str, Marginal]:
    """Return marginals by name, as a new dictionary."""
    expected = "a dictionary from parameter names to marginals"
    instance_of(marginals, "marginals", Mapping, expected)
    for name, marginal in marginals.items():
        if not isinstance(name, str) or not isinstance(marginal, Marginal):
            raise InputError(
                f"marginals[{name!r}]={marginal!r}: expected a marginal such as Uniform(0, 1), "
                "under the name of a parameter."
            )
    return dict(marginals)


def check_joint(joint: JointLaw | None, marginals: Mapping[str, Marginal]) -> None:
    """Refuse an invalid joint distribution, or one that overlaps with the marginals."""
    expected = "a joint law such as JointEmpirical(frame), or None"
    instance_of(joint, "joint", JointLaw | None, expected)
    if joint is None:
        return
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


def checked_initial_control_sets(method: ControlSets) -> tuple[str, ...]:
    """Return the names of the control sets of the initial design, or the default ones."""
    given = method.initial_control_sets or ()
    names = sequence_of(given, "initial_control_sets", "a list of names")
    for i, name in enumerate(names):
        one_of(name, f"initial_control_sets[{i}]", method.names)
    if names or not all(isinstance(cost, float) for cost in method.declared_costs):
        return names or tuple(method.names)
    costs = dict(zip(method.names, method.least_costs, strict=True))
    return tuple(name for name in costs if math.isclose(costs[name], min(costs.values())))


def allowed_sets(problem: Problem, control_sets: Sequence[ControlSet]) -> list[bool]:
    """Return a mask of the control sets that control all fixed parameters, in declared order.

    Raises:
        InputError: If none does, or if the fixed control set does not exist.
    """
    fixed = problem.fixed
    others = fixed.keys() - {CONTROL_SET, *problem.disabled}
    if CONTROL_SET in fixed:
        one_of(str(fixed[CONTROL_SET]), CONTROL_SET, [s.name for s in control_sets])
    allowed = [
        fixed.get(CONTROL_SET, s.name) == s.name and others <= set(s.parameters)
        for s in control_sets
    ]
    if not any(allowed):
        raise InputError(
            f"fixed_parameters={dict(fixed)}: no control set "
            f"{'of that name ' if CONTROL_SET in fixed else ''}controls all of {sorted(others)}. "
            "Fix only what one control set controls; the rest is random."
        )
    return allowed


def check_budget(method: ControlSets, least: Sequence[float]) -> None:
    """Refuse a budget that does not pay for one trial, or for the initial ones.

    Args:
        method: The method.
        least: Least cost of a trial of each control set.
    """
    if method.budget is None:
        return
    limit = method.budget * (1 + ROUNDING)
    cheapest = min(least)
    if cheapest > limit:
        raise InputError(
            f"budget={method.budget!r} is below the cost of the cheapest control set, "
            f"{cheapest:g}: expected a budget that pays for at least one trial."
        )
    initial_cost = method.initial_cost(least)
    if initial_cost > limit:
        raise InputError(
            f"initial_trials={method.initial_trials} with initial_control_sets="
            f"{list(method.initial_control_sets)} cost {initial_cost:g}, more than budget="
            f"{method.budget:g}: plan fewer or cheaper initial trials, raise the budget, or pass "
            "charge_initial=False."
        )


def check_rule(method: ControlSets) -> None:
    """Refuse an invalid rule, or one that does not fit the control sets."""
    rule, control_sets = method.rule, method.control_sets
    if not isinstance(rule, ControlSetRule) or isinstance(rule, type):
        raise InputError(f"rule={rule!r}: expected a rule such as ExploreThenCommit.adaptive().")
    costs = dict(zip(method.names, method.declared_costs, strict=True))
    if (refusal := rule.refusal(costs)) is not None:
        raise InputError(f"rule={rule!r} {refusal}")
    first = ControlSetHistory(
        parameters=tuple(frozenset(s.parameters) for s in control_sets),
        costs=tuple(cost if isinstance(cost, float) else 1.0 for cost in costs.values()),
        plays=(0,) * len(control_sets),
        affordable=(True,) * len(control_sets),
        round=1,
        known=tuple(s.cost is not None for s in control_sets),
        budget=method.budget,
        remaining=method.budget,
    )
    try:
        # A decision on artificial values raises now if the rule does not fit the control sets, for
        # example with too few numbers of plays, and not after the initial trials.
        decision = rule.decide(first, _NoValues(first.costs))
        checked_choice(rule, first.affordable, decision)
    except InputError as error:
        raise InputError(f"rule={rule!r} does not fit: {error}") from error


class _NoValues:
    """Values of zero for a decision without an experiment."""

    def __init__(self, costs: Sequence[float]) -> None:
        self._costs = costs

    def __call__(self, indices: Sequence[int], pointwise: bool = False) -> Sequence[float]:
        return [0.0 for _ in indices]

    lower = upper = __call__

    def worst(self) -> float:
        return 0.0

    def costs(self, indices: Sequence[int]) -> Sequence[CostEstimate]:
        return [CostEstimate(self._costs[i], 0.0) for i in indices]
