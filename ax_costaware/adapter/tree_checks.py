"""Checks that an Ax experiment and the settings of the resolution-tree method fit together.

They run before every trial is generated, so that nothing is spent on an experiment that the method
cannot go on with. What needs only the settings is checked in ``ResolutionTreeSettings``.
"""

from __future__ import annotations

import math

from ax.core.experiment import Experiment
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from ax.core.trial_status import TrialStatus
from ax.exceptions.core import UnsupportedError, UserInputError

from ax_costaware.adapter.experiment_checks import check_optimization_config, check_parameters
from ax_costaware.generators.tree_settings import ResolutionTreeSettings
from ax_costaware.ledger import measured_trials, with_one_arm
from ax_costaware.policies.resolution_tree import Cell
from ax_costaware.records import LEVEL

_LIVE = frozenset({TrialStatus.CANDIDATE, TrialStatus.STAGED, TrialStatus.RUNNING})


def check_tree_experiment(experiment: Experiment, settings: ResolutionTreeSettings) -> None:
    """Check that the method can run on ``experiment``.

    Raises:
        UserInputError: If there is no objective, the parameters are not the level and those of the
            points, or a trial is no cell of the tree.
        UnsupportedError: If the experiment asks for what the method does not do.
    """
    search_space = experiment.search_space
    check_parameters(search_space)
    check_optimization_config(experiment.optimization_config)
    _check_search_space(search_space, settings)
    measured_cells(experiment, settings)


def measured_cells(experiment: Experiment, settings: ResolutionTreeSettings) -> list[Cell]:
    """The cells of the trials that have an outcome, or are under way.

    Raises:
        UserInputError: If one is no cell of the tree.
    """
    measured, cells = measured_trials(experiment), []
    for index, trial in sorted(experiment.trials.items()):
        if index not in measured and trial.status not in _LIVE:
            continue
        arm = with_one_arm(trial).arm
        assert arm is not None
        try:
            cells.append(settings.cell_of(arm.parameters))
        except UserInputError as error:
            raise UserInputError(f"trial {index}: {error}") from error
    return cells


def _check_search_space(search_space: SearchSpace, settings: ResolutionTreeSettings) -> None:
    expected = [LEVEL, *settings.target_names]
    if set(search_space.parameters) != set(expected):
        raise UserInputError(
            f"the experiment has the parameters {list(search_space.parameters)}: expected "
            f"{expected}, the first of which level_parameter({settings.max_level}) gives."
        )
    level = search_space.parameters[LEVEL]
    if (
        not isinstance(level, RangeParameter)
        or level.parameter_type is not ParameterType.INT
        or (level.lower, level.upper) != (0, settings.max_level)
        or level.log_scale
    ):
        raise UserInputError(
            f"parameter {LEVEL!r} is {level}: expected level_parameter({settings.max_level})."
        )
    for name, low, high in zip(
        settings.target_names, settings.tree.lower, settings.tree.upper, strict=True
    ):
        parameter = search_space.parameters[name]
        if (
            not isinstance(parameter, RangeParameter)
            or parameter.parameter_type is not ParameterType.FLOAT
            or parameter.log_scale
            or parameter.logit_scale
            or not math.isclose(parameter.lower, low, rel_tol=1e-12)
            or not math.isclose(parameter.upper, high, rel_tol=1e-12)
        ):
            raise UserInputError(
                f"parameter {name!r} is {parameter}: expected the range of real numbers from "
                f"{low:g} to {high:g} that target_parameters has, where the centre of a cell is."
            )
    if search_space.parameter_constraints:
        raise UnsupportedError(
            f"parameter constraints {search_space.parameter_constraints} are not supported: the "
            "cells of the tree fill a box."
        )
