"""What is refused of an Ax experiment whatever the method, and our errors as Ax's.

Methods and what is below them raise the package's own errors, which know no Ax; its users expect
Ax's. They are turned into those here, once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ax.core.experiment import Experiment
from ax.core.optimization_config import OptimizationConfig
from ax.core.parameter import ChoiceParameter, DerivedParameter, RangeParameter
from ax.core.search_space import SearchSpace
from ax.exceptions.core import UnsupportedError, UserInputError

from ax_costaware.ax_bridge.records import problem_of
from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.methods.method import Method


@contextmanager
def ax_errors() -> Iterator[None]:
    """Turn the package's own errors into Ax's; also a decorator."""
    try:
        yield
    except UnsupportedInputError as error:
        raise UnsupportedError(str(error)) from error
    except InputError as error:
        raise UserInputError(str(error)) from error


def check_experiment(experiment: Experiment, method: Method) -> None:
    """Check that a method can run on an experiment, before anything is spent.

    Raises:
        UserInputError: If there is no objective, or the experiment does not fit the method.
        UnsupportedError: If the experiment asks for what no method, or this one, does.
    """
    check_search_space(experiment.search_space)
    check_optimization_config(experiment.optimization_config)
    with ax_errors():
        method.check(problem_of(experiment, method))


def check_search_space(search_space: SearchSpace) -> None:
    """Check what every method asks of a search space: free-standing parameters, no equality."""
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


def check_one_arm(n: int | None) -> None:
    """Refuse several arms for one trial."""
    if n is not None and n != 1:
        raise UnsupportedError(
            f"n={n}: a cost belongs to one arm, so a trial takes one arm. Ask for several "
            "trials instead."
        )
