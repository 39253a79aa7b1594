"""What is stored of an experiment, as a method sees it: parameters, trials, and the ledger.

What the package writes is under one key, so that nothing of the user's own metadata can be
overwritten: decisions in ``GeneratorRun.gen_metadata``, outcomes in ``Trial.run_metadata``, where
they are kept at full precision (Ax's own data keep ten decimals), pairs in the experiment's
properties.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.base_trial import BaseTrial
from ax.core.experiment import Experiment
from ax.core.parameter import (
    ChoiceParameter,
    FixedParameter,
    Parameter,
    ParameterType,
    RangeParameter,
)
from ax.core.search_space import SearchSpace
from ax.core.trial import Trial
from ax.exceptions.core import UnsupportedError, UserInputError

from ax_costaware.methods.method import Method
from ax_costaware.methods.parameters import Choice, Fixed, FreeParameter, Range
from ax_costaware.methods.parameters import Parameter as OurParameter
from ax_costaware.methods.past import LedgerEntry, PastTrial, ledger_of
from ax_costaware.methods.problem import Pending, Problem
from ax_costaware.methods.space import Space
from ax_costaware.precision import more_precise

RECORD = "ax_costaware"
"""Key of our record in ``run_metadata``, ``gen_metadata`` and the experiment's properties."""

PAIRS = "pairs"
"""Key of the pairs in the record of an experiment."""


def parameter_of(parameter: Parameter) -> OurParameter:
    """A parameter of Ax as a value object."""
    if isinstance(parameter, RangeParameter):
        return Range(
            parameter.name,
            parameter.lower,
            parameter.upper,
            is_integer=parameter.parameter_type is ParameterType.INT,
            log_scale=parameter.log_scale,
            logit_scale=parameter.logit_scale,
        )
    if isinstance(parameter, ChoiceParameter):
        return Choice(
            parameter.name,
            tuple(parameter.values),
            is_ordered=bool(parameter.is_ordered and parameter.is_numeric),
            log_scale=parameter.log_scale,
            is_ranked=bool(parameter.is_ordered and not parameter.is_numeric),
        )
    assert isinstance(parameter, FixedParameter)
    return Fixed(parameter.name, parameter.value)


def parameters_of_configs(configs: Any) -> tuple[FreeParameter, ...]:
    """Ax's configurations of parameters that are none of the experiment's, as value objects.

    Raises:
        UserInputError: If there is no list of them, or one is of another kind.
        InputError: If one cannot be used.
    """
    expected = "RangeParameterConfig and ChoiceParameterConfig"
    if not isinstance(configs, Iterable) or isinstance(configs, str | Mapping):
        raise UserInputError(f"target_parameters={configs!r}: expected a list of {expected}.")
    return tuple(_parameter_of_config(config) for config in configs)


def _parameter_of_config(config: Any) -> FreeParameter:
    if isinstance(config, Range | Choice):
        return config
    if isinstance(config, RangeParameterConfig):
        lower, upper = config.bounds
        if config.step_size is not None:
            # As Ax does, with values that rounding leaves alone.
            count = round((upper - lower) / config.step_size)
            values = tuple(lower + (upper - lower) * i / count for i in range(count + 1))
            return Choice(config.name, values, is_ordered=True)
        return Range(
            config.name,
            lower,
            upper,
            is_integer=config.parameter_type == "int",
            log_scale=config.scaling == "log",
        )
    if isinstance(config, ChoiceParameterConfig) and not config.dependent_parameters:
        is_number = config.parameter_type in ("int", "float")
        return Choice(config.name, tuple(config.values), bool(config.is_ordered and is_number))
    raise UserInputError(
        f"target_parameters has {config!r}: expected RangeParameterConfig or ChoiceParameterConfig "
        "objects, without dependent parameters."
    )


def space_of(search_space: SearchSpace, hidden: Sequence[str] = ()) -> Space:
    """A search space as a method sees it before there is a model."""
    return Space.of(
        [parameter_of(p) for p in search_space.parameters.values()],
        [(c.constraint_dict, c.bound) for c in search_space.parameter_constraints],
        hidden,
    )


def problem_of(
    experiment: Experiment,
    method: Method,
    pending: Iterable[Pending] = (),
    search_space: SearchSpace | None = None,
    observed: Mapping[int, float] | None = None,
    **more: Any,
) -> Problem:
    """What a method decides from.

    Args:
        experiment: The experiment.
        method: The method.
        pending: What is under way.
        search_space: Overrides the experiment's.
        observed: The outcomes that the model has learned from, by trial index.
        more: Further fields of the problem.

    Raises:
        UnsupportedError: If a trial has several arms.
    """
    config = experiment.optimization_config
    record = experiment._properties.get(RECORD) or {}
    if "space" not in more:
        more["space"] = space_of(search_space or experiment.search_space, method.hidden)
    return Problem(
        trials=past_trials(experiment, method, observed),
        pending=tuple(pending),
        minimize=config is not None and bool(config.objective.minimize),
        objective="" if config is None else str(config.objective.metric_names[0]),
        metrics=frozenset(experiment.metrics),
        pairs=record.get(PAIRS) or {},
        **more,
    )


def past_trials(
    experiment: Experiment, method: Method, observed: Mapping[int, float] | None = None
) -> tuple[PastTrial, ...]:
    """The trials of an experiment as a method sees them, by increasing index."""
    reported = reported_costs(experiment, method)
    metrics = {name: reported_values(experiment, name) for name in method.reads}
    measured = objective_values(experiment)
    found = []
    for index, base_trial in sorted(experiment.trials.items()):
        trial, record = with_one_arm(base_trial), outcome_record(base_trial)
        failed, last = _attempts(trial)
        arm = trial.arm
        value = (observed or {}).get(index, measured.get(index))
        found.append(
            PastTrial(
                index=index,
                parameters={} if arm is None else arm.parameters,
                status=trial.status.name,
                outcome=value,
                is_observed=index in (observed or {}),
                realized=record.get("realized") or {},
                reported_cost=reported.get(index),
                metrics={n: values[index] for n, values in metrics.items() if index in values},
                record=decision_record(trial),
                lost=tuple(failed),
                last_attempt=last,
                was_started=bool(record.get("attempts") or record.get("running")),
            )
        )
    return tuple(found)


def planned_trial(trial: Trial) -> PastTrial:
    """What was planned of one trial and recorded of its decision, without what came of it."""
    return PastTrial(
        index=trial.index,
        parameters={} if trial.arm is None else trial.arm.parameters,
        status=trial.status.name,
        record=decision_record(trial),
    )


def ledger(experiment: Experiment, method: Method) -> tuple[LedgerEntry, ...]:
    """The ledger of an experiment: one entry per trial, by increasing trial index.

    Raises:
        InputError: If the method does not fit a trial, as where it names no control set of it.
        UnsupportedError: If a trial has several arms.
    """
    return ledger_of(past_trials(experiment, method), method)


def _attempts(trial: Trial) -> tuple[list[float | None], float | None]:
    """What the attempts of a runner cost that another followed, and the last one; None: unknown."""
    record = outcome_record(trial)
    attempts = record.get("attempts") or []
    costs = [attempt.get("cost") for attempt in attempts]
    # The user may have completed by hand what the runner had not.
    by_hand = trial.status.is_completed and attempts and attempts[-1]["state"] != "completed"
    if record.get("running") or by_hand or not costs:
        return costs, None
    return costs[:-1], costs[-1]


def reported_costs(experiment: Experiment, method: Method) -> dict[int, float]:
    """What the trials were reported to have cost, at full precision; others are not in it.

    The cost that ``complete_trial`` recorded, or the value of the method's cost metric: recorded
    or, for a trial that has ended, among Ax's data. Where Ax's data were changed after the record,
    they count.
    """
    metric = method.cost_metric
    in_data = {} if metric is None else values_in_data(experiment, metric)
    reported: dict[int, float] = {}
    for index, trial in experiment.trials.items():
        record = outcome_record(trial)
        cost = record.get("cost")
        if cost is None and metric is not None:
            cost, _ = (record.get("outcomes") or {}).get(metric, (None, None))
        # Before a trial has ended, data are what it has cost so far.
        if index in in_data and trial.status.is_terminal:
            cost = more_precise(in_data[index], cost)
        if cost is not None:
            reported[index] = float(cost)
    return reported


def reported_values(experiment: Experiment, metric: str) -> dict[int, float]:
    """Finite values of ``metric`` in Ax's data, with the digits of the record where it has them."""
    found = values_in_data(experiment, metric)
    for index in found:
        outcomes = outcome_record(experiment.trials[index]).get("outcomes") or {}
        found[index] = more_precise(found[index], (outcomes.get(metric) or (None, None))[0])
    return found


def values_in_data(experiment: Experiment, metric: str) -> dict[int, float]:
    """Finite values of ``metric`` among Ax's data, by trial index; ten decimals of them."""
    frame = experiment.lookup_data().df
    rows = frame[frame["metric_name"] == metric]
    return {
        int(index): float(mean)
        for index, mean in zip(rows["trial_index"], rows["mean"], strict=True)
        if math.isfinite(mean)
    }


def objective_values(experiment: Experiment) -> dict[int, float]:
    """Finite values of the objective by trial index, in Ax's data or recorded on completion.

    No method runs with an objective of several metrics; a trial then counts as measured once it
    has all of them, and the value is that of the first.
    """
    config = experiment.optimization_config
    if config is None:
        return {}
    found = []
    for name in config.objective.metric_names:
        recorded = {
            index: float(outcomes[name][0])
            for index, trial in experiment.trials.items()
            if trial.status.is_completed and name in (outcomes := recorded_outcomes(trial))
        }
        found.append({**recorded, **values_in_data(experiment, name)})
    return {i: value for i, value in found[0].items() if all(i in values for values in found)}


def with_one_arm(trial: BaseTrial) -> Trial:
    """``trial``, which has one arm.

    Raises:
        UnsupportedError: If it can have several.
    """
    if not isinstance(trial, Trial):
        raise UnsupportedError(
            f"trial {trial.index} is a {type(trial).__name__}: a cost belongs to one arm, so each "
            "arm needs a trial of its own."
        )
    return trial


def decision_record(trial: BaseTrial) -> dict[str, Any]:
    """What was recorded about a decision; empty if the strategy did not generate the trial."""
    generator_run = trial.generator_run if isinstance(trial, Trial) else None
    gen_metadata = None if generator_run is None else generator_run.gen_metadata
    return dict((gen_metadata or {}).get(RECORD) or {})


def is_to_be_measured(trial: BaseTrial) -> bool:
    """Whether the strategy asks for the trial's outcome; True where it did not decide on it."""
    return bool(decision_record(trial).get("measure", True))


def outcome_record(trial: BaseTrial) -> dict[str, Any]:
    """What was reported on completion (realised inputs, cost, outcomes); empty before that."""
    return dict(trial.run_metadata.get(RECORD) or {})


def recorded_outcomes(trial: BaseTrial) -> dict[str, tuple[float, float | None]]:
    """Outcomes that were recorded, by metric."""
    return dict(outcome_record(trial).get("outcomes") or {})


def append_pairs(
    experiment: Experiment, added: Mapping[str, Mapping[str, Sequence[float]]]
) -> None:
    """Add pairs to those that an experiment has; the rest of its properties stays.

    Args:
        experiment: The experiment.
        added: Points ``X`` and queries ``A``, columns by name.
    """
    record = dict(experiment._properties.get(RECORD) or {})
    old = record.get(PAIRS) or {}
    record[PAIRS] = {
        side: {
            name: [*((old.get(side) or {}).get(name) or []), *values]
            for name, values in columns.items()
        }
        for side, columns in added.items()
    }
    experiment._properties[RECORD] = record
