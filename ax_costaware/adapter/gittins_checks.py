"""Checks that an Ax experiment and the settings of the Gittins method fit together.

They run before the first trial is generated, so that nothing is spent on an experiment that the
method cannot finish. What needs only the settings is checked in ``GittinsSettings``.
"""

from __future__ import annotations

from ax.core.experiment import Experiment
from ax.core.parameter import ChoiceParameter, FixedParameter, Parameter, RangeParameter
from ax.core.search_space import SearchSpace
from ax.core.types import TParamValue
from ax.exceptions.core import UserInputError

from ax_costaware.adapter.experiment_checks import (
    check_optimization_config,
    check_parameters,
    free_parameters,
)
from ax_costaware.adapter.model_space import discrete_values
from ax_costaware.generators.gittins_settings import GittinsSettings
from ax_costaware.queries.costs import AffineCost, Cost, TableCost


def check_gittins_experiment(experiment: Experiment, settings: GittinsSettings) -> None:
    """Check that the method can run on ``experiment``.

    Raises:
        UserInputError: If there is no objective, or the cost does not fit the parameters.
        UnsupportedError: If the experiment asks for what the method does not do.
    """
    check_parameters(experiment.search_space)
    config = experiment.optimization_config
    check_optimization_config(config)
    assert config is not None
    if settings.cost_metric in config.objective.metric_names:
        raise UserInputError(
            f"cost={settings.cost!r} is the objective: expected another metric, in which the cost "
            "of each trial is reported."
        )
    _check_cost(experiment.search_space, settings)


def _check_cost(search_space: SearchSpace, settings: GittinsSettings) -> None:
    cost, parameters = settings.cost, search_space.parameters
    if not isinstance(cost, Cost):
        return
    if unknown := [name for name in cost.parameters if name not in parameters]:
        raise UserInputError(
            f"cost={cost!r} reads {unknown}, which the experiment does not have: expected names "
            f"out of {list(parameters)}."
        )
    if isinstance(cost, TableCost):
        _check_table(parameters[str(cost.parameter)], settings)
    if isinstance(cost, AffineCost):
        for name in cost.parameters:
            if not parameters[str(name)].is_numeric:
                raise UserInputError(
                    f"cost={cost!r} multiplies parameter {name!r}, whose values are no numbers: "
                    "expected numeric parameters, or a TableCost over this one."
                )
        if not search_space.parameter_constraints:
            settings.cost_at(_cheapest(cost, search_space))


def _check_table(parameter: Parameter, settings: GittinsSettings) -> None:
    """Every value of the parameter has a cost."""
    values: tuple[TParamValue, ...] | None = None
    if isinstance(parameter, FixedParameter):
        values = (parameter.value,)
    elif isinstance(parameter, ChoiceParameter | RangeParameter):
        values = discrete_values(parameter)
    if values is None:
        raise UserInputError(
            f"cost={settings.cost!r}: parameter {parameter.name!r} has more values than a table "
            "holds; expected a choice or a short range of integers, or an AffineCost."
        )
    for value in values:
        settings.cost_at({parameter.name: value})


def _cheapest(cost: AffineCost, search_space: SearchSpace) -> dict[str, object]:
    """The corner of a search space without constraints at which an affine cost is least."""
    corner: dict[str, object] = {}
    free = free_parameters(search_space)
    for name, weight in cost.weights:
        parameter = search_space.parameters[str(name)]
        if isinstance(parameter, FixedParameter):
            corner[str(name)] = parameter.value
            continue
        choice = free[str(name)]
        ends = (
            choice.values if isinstance(choice, ChoiceParameter) else [choice.lower, choice.upper]
        )
        numbers = [float(str(end)) for end in ends]
        corner[str(name)] = min(numbers) if weight > 0 else max(numbers)
    return corner
