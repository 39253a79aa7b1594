"""Checks that an Ax experiment and the settings of a method fit together.

They run before the first trial is generated, so that nothing is spent on an experiment that the
method cannot finish. What needs only the settings is checked where these are made.
"""

from __future__ import annotations

from ax.core.experiment import Experiment
from ax.core.optimization_config import OptimizationConfig
from ax.core.parameter import (
    ChoiceParameter,
    DerivedParameter,
    FixedParameter,
    Parameter,
    ParameterType,
    RangeParameter,
)
from ax.core.search_space import SearchSpace
from ax.exceptions.core import UnsupportedError, UserInputError

from ax_costaware.generators.control_set_settings import ControlSetSettings
from ax_costaware.queries.marginals import Discrete, Empirical, Learned, Marginal
from ax_costaware.records import CONTROL_SET

_TOLERANCE = 1e-9
"""How far a marginal may pass a bound, relative to the parameter's range: rounding only."""


def check_experiment(experiment: Experiment, settings: ControlSetSettings) -> None:
    """Check that the method can run on ``experiment``.

    Raises:
        UserInputError: If the search space lacks something or the marginals do not fit it.
        UnsupportedError: If the experiment asks for what the method does not do.
    """
    check_search_space(experiment.search_space, settings)
    check_optimization_config(experiment.optimization_config)


def check_search_space(search_space: SearchSpace, settings: ControlSetSettings) -> None:
    """Check the parameters of ``search_space`` against the control sets and marginals."""
    _check_control_set_parameter(search_space, settings)
    check_parameters(search_space)
    parameters = {n: p for n, p in search_space.parameters.items() if n != CONTROL_SET}
    _check_controlled(parameters, settings)
    _check_marginals(parameters, settings)


def check_parameters(search_space: SearchSpace) -> None:
    """Check what every method asks of a search space: free-standing parameters, no equality.

    Raises:
        UnsupportedError: If a parameter, or a constraint, is of another kind.
    """
    if search_space.is_hierarchical:
        raise UnsupportedError(
            "the search space is hierarchical: every parameter is needed in every trial."
        )
    for name, parameter in search_space.parameters.items():
        if isinstance(parameter, DerivedParameter):
            raise UnsupportedError(
                f"parameter {name!r} is derived from others: it has no value of its own to "
                "control or to realise. Compute it where the trial is run."
            )
        if isinstance(parameter, ChoiceParameter) and parameter.is_task:
            raise UnsupportedError(
                f"parameter {name!r} is a task parameter, which is not supported."
            )
        if isinstance(parameter, RangeParameter | ChoiceParameter) and parameter.is_fidelity:
            raise UnsupportedError(
                f"parameter {name!r} is a fidelity parameter, which is not supported."
            )
    if any(constraint.is_equality for constraint in search_space.parameter_constraints):
        raise UnsupportedError(
            "the search space has an equality constraint: only inequalities are supported."
        )


def check_optimization_config(config: OptimizationConfig | None) -> None:
    """Check that there is one objective, a single metric, and no outcome constraint."""
    if config is None:
        raise UserInputError(
            "the experiment has no objective: call configure_optimization before asking for trials."
        )
    names = sorted(config.objective.metric_names)
    if config.is_moo_problem or len(names) != 1:
        raise UnsupportedError(
            f"the objective has several metrics, {names}: only a single one is supported. Combine "
            "them into one metric, or choose one."
        )
    if config.outcome_constraints:
        raise UnsupportedError(
            f"outcome constraints {config.outcome_constraints} are not supported: remove them, or "
            "let the objective carry a penalty."
        )


def free_parameters(search_space: SearchSpace) -> dict[str, RangeParameter | ChoiceParameter]:
    """The parameters that a trial controls or leaves to chance, by name, in declared order."""
    return {
        name: parameter
        for name, parameter in search_space.parameters.items()
        if name != CONTROL_SET and isinstance(parameter, RangeParameter | ChoiceParameter)
    }


def _check_control_set_parameter(search_space: SearchSpace, settings: ControlSetSettings) -> None:
    parameter = search_space.parameters.get(CONTROL_SET)
    hint = "Add control_set_parameter(control_sets) to the parameters of the experiment."
    if parameter is None:
        raise UserInputError(f"the experiment has no parameter {CONTROL_SET!r}. {hint}")
    if isinstance(parameter, ChoiceParameter):
        values = [str(value) for value in parameter.values]
    elif isinstance(parameter, FixedParameter):
        values = [str(parameter.value)]
    else:
        raise UserInputError(f"parameter {CONTROL_SET!r} is {parameter}. {hint}")
    if parameter.parameter_type is not ParameterType.STRING or set(values) != set(settings.names):
        raise UserInputError(
            f"parameter {CONTROL_SET!r} has the values {values} of type "
            f"{parameter.parameter_type.name}, but the strategy has the control sets "
            f"{settings.names}. {hint}"
        )


def _check_controlled(parameters: dict[str, Parameter], settings: ControlSetSettings) -> None:
    for control_set in settings.control_sets:
        for name in control_set.parameters:
            if name not in parameters:
                raise UserInputError(
                    f"control set {control_set.name!r} controls {name!r}, which is no parameter of "
                    f"the experiment: expected names out of {sorted(parameters)}."
                )
            if isinstance(parameters[name], FixedParameter):
                raise UserInputError(
                    f"control set {control_set.name!r} controls {name!r}, which the experiment "
                    "fixes to one value: expected a range or choice parameter."
                )


def _check_marginals(parameters: dict[str, Parameter], settings: ControlSetSettings) -> None:
    laws = settings.laws
    for name in laws:
        if name not in parameters or isinstance(parameters[name], FixedParameter):
            argument = "marginals" if name in settings.marginals else "joint"
            raise UserInputError(
                f"{argument} has an entry for {name!r}, which is no free parameter of the "
                f"experiment: expected names out of "
                f"{sorted(n for n, p in parameters.items() if not isinstance(p, FixedParameter))}."
            )
    for name, parameter in parameters.items():
        if isinstance(parameter, FixedParameter):
            continue
        marginal = laws.get(name)
        what = f"marginals[{name!r}]" if name in settings.marginals else f"joint.marginal({name!r})"
        if marginal is None:
            uncontrolled = [s.name for s in settings.control_sets if name not in s.parameters]
            if uncontrolled:
                raise UserInputError(
                    f"parameter {name!r} has no marginal, and control set {uncontrolled[0]!r} does "
                    f"not control it: add marginals[{name!r}], its distribution in such trials."
                )
        elif isinstance(parameter, RangeParameter):
            _check_range_marginal(what, parameter, marginal)
        elif isinstance(parameter, ChoiceParameter):
            _check_choice_marginal(what, parameter, marginal)


def _check_range_marginal(what: str, parameter: RangeParameter, marginal: Marginal) -> None:
    name = parameter.name
    if not marginal.is_numeric:
        raise UserInputError(
            f"{what}={marginal!r} has values that are not numbers, but parameter "
            f"{name!r} ranges over [{parameter.lower}, {parameter.upper}]."
        )
    slack = _TOLERANCE * (parameter.upper - parameter.lower)
    if marginal.lower < parameter.lower - slack or marginal.upper > parameter.upper + slack:
        raise UserInputError(
            f"{what}={marginal!r} reaches over [{marginal.lower:g}, "
            f"{marginal.upper:g}], outside the bounds [{parameter.lower:g}, {parameter.upper:g}] "
            f"of parameter {name!r}: widen the bounds, or narrow the marginal (of a sample, leave "
            "out what lies beyond them)."
        )
    if parameter.parameter_type is ParameterType.INT:
        atoms = atoms_of(marginal)
        if atoms is None or any(float(str(value)) != round(float(str(value))) for value in atoms):
            raise UserInputError(
                f"{what}={marginal!r} gives values that are not integers, but "
                f"parameter {name!r} is one: expected a Discrete or Empirical over integers."
            )


def _check_choice_marginal(what: str, parameter: ChoiceParameter, marginal: Marginal) -> None:
    name = parameter.name
    atoms = atoms_of(marginal)
    if atoms is None:
        raise UserInputError(
            f"{what}={marginal!r} is continuous, but parameter {name!r} is a choice "
            f"between {parameter.values}: expected a Discrete over these."
        )
    for value in atoms:
        if not _is_choice(value, parameter):
            raise UserInputError(
                f"{what} gives the value {value!r}, which is not one of the values "
                f"{parameter.values} of parameter {name!r}."
            )


def _is_choice(value: object, parameter: ChoiceParameter) -> bool:
    boolean = parameter.parameter_type is ParameterType.BOOL
    return isinstance(value, bool) == boolean and value in parameter.values


def atoms_of(marginal: Marginal) -> tuple[float | int | str | bool, ...] | None:
    """The values that ``marginal`` can take, if they are finitely many; None otherwise."""
    if isinstance(marginal, Discrete):
        return tuple(marginal.values)
    if isinstance(marginal, Empirical):
        return tuple(sorted(set(marginal.samples)))
    if isinstance(marginal, Learned):
        atoms = atoms_of(marginal.prior)
        return None if atoms is None else tuple(dict.fromkeys((*atoms, *marginal.samples)))
    return None
