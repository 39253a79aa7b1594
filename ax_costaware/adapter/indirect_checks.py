"""Checks that an Ax experiment and the settings of the indirect-query method fit together.

They run before every trial is generated, so that nothing is spent on an experiment that the method
cannot go on with. What needs only the settings is checked in ``IndirectQuerySettings``.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from ax.core.experiment import Experiment
from ax.core.parameter import ChoiceParameter, FixedParameter, Parameter, RangeParameter
from ax.core.search_space import SearchSpace
from ax.core.types import TParamValue
from ax.exceptions.core import UserInputError
from torch.quasirandom import SobolEngine

from ax_costaware.adapter.cost_checks import check_cost
from ax_costaware.adapter.decoded_conditional import policy_indices, policy_key, query_rows
from ax_costaware.adapter.experiment_checks import (
    check_optimization_config,
    check_parameters,
    free_parameters,
)
from ax_costaware.adapter.model_space import discrete_values
from ax_costaware.exceptions import InputError
from ax_costaware.generators.indirect_settings import IndirectQuerySettings
from ax_costaware.generators.initial_design import value_at
from ax_costaware.generators.pairs import Pairs, grown, pairs_of
from ax_costaware.generators.target_settings import TargetSettings
from ax_costaware.ledger import measured_trials, with_one_arm
from ax_costaware.queries.conditionals import Conditional, FiniteConditional, LearnedConditional
from ax_costaware.records import CONTROL_SET

_MOST_CORNERS = 1024
"""Corners of the query space that are looked at."""

_NUM_LOOKS = 128
"""Other queries that are."""


def added_pairs(experiment: Experiment, settings: TargetSettings) -> Pairs:
    """The pairs that were added to an experiment, in the order of the conditional's columns."""
    names = settings.query_names(experiment.search_space.parameters)
    return pairs_of(experiment, settings.target_names, names)


def current_law(experiment: Experiment, settings: TargetSettings) -> Conditional:
    """The law of a point given a query, as far as it is known by now."""
    return grown(settings.law, added_pairs(experiment, settings))


def check_indirect_experiment(experiment: Experiment, settings: IndirectQuerySettings) -> None:
    """Check that the method can run on ``experiment``.

    Raises:
        UserInputError: If there is no objective, the parameters are not those of the conditional's
            queries, a query has a law that leaves the space of the points, or the cost does not fit
            the parameters; or if a trial with an outcome is no query of the conditional.
        UnsupportedError: If the experiment asks for what the method does not do.
    """
    search_space = experiment.search_space
    check_parameters(search_space)
    check_optimization_config(experiment.optimization_config)
    _check_names(search_space, settings)
    check_cost(search_space, settings.cost, settings.cost_at)
    law = current_law(experiment, settings)
    names = settings.query_names(search_space.parameters)
    if isinstance(law, FiniteConditional):
        _check_policies(search_space.parameters[names[0]], settings.conditional, law)
    elif not isinstance(law, LearnedConditional):
        _check_support(search_space, settings, law, names)
    check_trials(experiment, law, names)


def check_trials(experiment: Experiment, law: Conditional, names: tuple[str, ...]) -> None:
    """Check that every trial with an outcome is a query that the law answers for.

    Raises:
        UserInputError: By the index of the trial.
    """
    for index in sorted(measured_trials(experiment)):
        trial = with_one_arm(experiment.trials[index])
        assert trial.arm is not None
        try:
            law.check_queries(query_rows(law, names, [trial.arm.parameters]))
        except (InputError, KeyError) as error:
            raise UserInputError(
                f"trial {index}, {trial.arm.parameters}, has an outcome and is no query of the "
                f"conditional: {error}"
            ) from error


def _check_names(search_space: SearchSpace, settings: IndirectQuerySettings) -> None:
    known, columns = list(search_space.parameters), settings.law.num_query_columns
    names = settings.query_names(search_space.parameters)
    if CONTROL_SET in known:
        raise UserInputError(
            f"the experiment has a parameter {CONTROL_SET!r}, a name that is kept for the method "
            "of control sets: expected another name."
        )
    if not free_parameters(search_space):
        raise UserInputError(
            f"the experiment has the parameters {known}, none of which can be chosen: expected a "
            "range or choice parameter."
        )
    if set(names) != set(known):
        raise UserInputError(
            f"query_parameters={list(names)}, and the experiment has the parameters {known}: "
            "expected just these, in the order of the conditional's query columns."
        )
    if len(names) != columns:
        raise UserInputError(
            f"the experiment has the parameters {known}, and conditional={settings.conditional!r} "
            f"takes queries of {columns} columns: expected as many."
        )
    if isinstance(settings.conditional, FiniteConditional):
        return
    for name in names:
        if not search_space.parameters[name].is_numeric:
            raise UserInputError(
                f"parameter {name!r} has values that are no numbers, and conditional="
                f"{settings.conditional!r} takes numbers: expected a FiniteConditional, or numeric "
                "parameters."
            )


def _check_policies(parameter: Parameter, given: Conditional, law: FiniteConditional) -> None:
    """Every value of the parameter stands for a policy."""
    values: tuple[TParamValue, ...] | None = None
    if isinstance(parameter, FixedParameter):
        values = (parameter.value,)
    elif isinstance(parameter, ChoiceParameter | RangeParameter):
        values = discrete_values(parameter)
    index = policy_indices(law)
    if values is None or any(
        isinstance(value, bool) or policy_key(value) not in index for value in values
    ):
        shown = "a continuum of values" if values is None else f"the values {list(values)}"
        raise UserInputError(
            f"parameter {parameter.name!r} has {shown}, and conditional={given!r} has the queries "
            f"{list(index)}: expected a choice among these."
        )


def _check_support(
    search_space: SearchSpace,
    settings: IndirectQuerySettings,
    law: Conditional,
    names: tuple[str, ...],
) -> None:
    """The law of no query leaves the space of the points, unless the user says what then."""
    rows = [row for row in _looks(search_space) if search_space.check_membership(row)]
    try:
        law.check_queries(query_rows(law, names, rows))
    except InputError as error:
        raise UserInputError(
            f"conditional={settings.conditional!r} does not answer for all of the experiment's "
            f"search space, or not within the bounds of target_parameters: {error} Make the search "
            "space smaller, or say what happens to points outside of the bounds: outside='clip' "
            "moves them to the bounds, outside='keep' says that the objective exists there, too."
        ) from error


def _looks(search_space: SearchSpace) -> list[dict[str, Any]]:
    """Queries all over the search space, its corners among them."""
    fixed = {
        name: parameter.value
        for name, parameter in search_space.parameters.items()
        if isinstance(parameter, FixedParameter)
    }
    parameters = free_parameters(search_space)
    ends = {
        name: list(p.values) if isinstance(p, ChoiceParameter) else [p.lower, p.upper]
        for name, p in parameters.items()
    }
    rows: list[dict[str, Any]] = []
    if math.prod(len(values) for values in ends.values()) <= _MOST_CORNERS:
        rows = [
            {**fixed, **dict(zip(ends, c, strict=True))} for c in itertools.product(*ends.values())
        ]
    if parameters:
        engine = SobolEngine(len(parameters), scramble=True, seed=0)
        for point in engine.draw(_NUM_LOOKS, dtype=torch.double).tolist():
            inputs = zip(parameters.items(), point, strict=True)
            rows.append({**fixed, **{name: value_at(p, u) for (name, p), u in inputs}})
    return rows
