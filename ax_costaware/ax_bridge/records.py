"""Stored experiments as a method sees them: parameters, trials, and the ledger.

The package writes under one key, so that it never overwrites the user's metadata:

- decisions in ``GeneratorRun.gen_metadata``,
- outcomes in ``Trial.run_metadata``, at full precision (Ax's own data keep ten decimals),
- pairs in the experiment's properties.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from ax.core.base_trial import BaseTrial
from ax.core.data import MAP_KEY
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.parameter import RangeParameter
from ax.core.trial import Trial
from ax.core.trial_status import STATUSES_EXPECTING_DATA
from ax.core.types import TParameterization
from ax.exceptions.core import UnsupportedError, UserInputError

from ax_costaware.ax_bridge.checks import ax_errors, constraints_of, objectives_of
from ax_costaware.ax_bridge.search_space import completed, space_of
from ax_costaware.core import PastTrial, Problem
from ax_costaware.core.history import check_complete
from ax_costaware.core.problem import Pending
from ax_costaware.core.repeats import realized_repeats
from ax_costaware.methods import Method
from ax_costaware.methods.averages.law import joined
from ax_costaware.space.parameters import check_fixed

RECORD = "ax_costaware"
"""Key of the package's record in ``run_metadata``, ``gen_metadata`` and the properties."""

EXCLUDED = "excluded"
"""Key of the reason of an exclusion, in the record of a trial."""

PAIRS = "pairs"
"""Key of the pairs in the record of an experiment."""

REPEATS = "repeats"
"""Key of the values of repeats, by metric, in the record of a trial."""

CHARGED = "charged"
"""Key of a flag in the record of a trial: charged to the budget (the default) or not."""

GENERATOR_KEY = "CostAware"
"""Prefix of the names of this package's generators."""

_WARM_START = "Warm start from Experiment"
"""Prefix of the source that Ax records of a copied trial."""

_TOO_SMALL_TO_ROUND = 1e-6
"""Largest difference of observations that are not rounded: rounding would lose too much."""

STORED_DECIMALS = 10
"""Decimals of an observation in Ax's stores."""

Curves: TypeAlias = dict[str, dict[float, tuple[float, float | None]]]
"""Mean and standard error (None: unknown) by metric and step."""

PendingObservations: TypeAlias = Mapping[str, list[ObservationFeatures]]
"""Points under evaluation by metric, as of Ax."""


def pending_points(
    experiment: Experiment, pending: PendingObservations | None
) -> list[ObservationFeatures]:
    """Return the pending points: trials that can still report, and decisions without a trial yet.

    Ax's pending points differ. They contain trials that were abandoned or completed without data.
    They lack trials that are out of bounds, or have a value of every metric, such as the first step
    of a learning curve.

    Args:
        experiment: The experiment.
        pending: Points under evaluation, by metric; those without a trial index are no trials yet.
            None: pending points do not matter.
    """
    if pending is None:
        return []
    decisions = ([o for o in each if o.trial_index is None] for each in pending.values())
    return [
        ObservationFeatures.from_arm(arm, trial_index=index)
        for index, trial in sorted(experiment.trials.items())
        if not trial.status.is_terminal and not is_excluded(trial)
        for arm in trial.arms
    ] + max(decisions, key=len, default=[])


def problem_of(
    experiment: Experiment,
    method: Method,
    pending: Iterable[ObservationFeatures] = (),
    fixed_features: ObservationFeatures | None = None,
    measures: Callable[[TParameterization], bool] = lambda _: True,
    device: torch.device | None = None,
    num_attached: int = 0,
    batch_size: int | None = None,
) -> Problem:
    """Return the problem of a method without model and optimizer, see ``Loop.prepared``.

    Args:
        experiment: The experiment.
        method: The method.
        pending: Pending points, as of ``pending_points``.
        fixed_features: Parameters that the caller fixes.
        measures: For decisions that are no trials yet, of which Ax keeps only the arm: True if they
            are to be measured.
        device: Device of the model; None for the CPU.
        num_attached: Number of trials that count towards the initial design, see ``Problem``.
        batch_size: Number of trials that are asked for together; None without a request.

    Raises:
        UnsupportedError: If a trial has several arms, or no method supports the search space.
        UserInputError: If a trial lacks a value of a parameter that was added later, or a fixed
            parameter is unknown or has an invalid value.
    """
    config = experiment.optimization_config
    record = experiment._properties.get(RECORD) or {}
    objective = "" if config is None else str(config.objective.metric_names[0])
    # Disabled parameters keep their values, as in ``gen`` of Ax's own adapters.
    held = experiment.search_space.get_disabled_parameter_fixed_features(fixed_features)
    fixed = {} if held is None else dict(held.parameters)
    by_caller = {} if fixed_features is None else fixed_features.parameters
    space = space_of(experiment.search_space, method.traits)
    space = space if device is None else space.to(device)
    constraints, objectives = constraints_of(config), objectives_of(config)
    learned = [bound.metric for bound in constraints] + [one.metric for one in objectives[1:]]
    if objectives:
        minimize = objectives[0].minimize
    else:
        minimize = config is not None and bool(config.objective.minimize)
    trials = tuple(
        replace(trial, has_lost_value=True, is_observed=False)
        if space.lost(trial.inputs)
        else trial
        for trial in past_trials(experiment, method, learned)
    )
    # Values in earlier trials of parameters that were added while the experiment ran.
    added = experiment.search_space.backfill_values()
    with ax_errors():
        check_fixed(by_caller, space.parameters, space.order)
        fixed = {name: experiment.parameters[name].cast(value) for name, value in fixed.items()}
        space = space.held_at(fixed)
        check_complete((trial for trial in trials if trial.counts), space)
    problem = Problem(
        space=space,
        trials=trials,
        pending=tuple(
            Pending(
                None if o.trial_index is None else int(o.trial_index),
                space.pinned({**added, **o.parameters}),
                measures(o.parameters)
                if o.trial_index is None
                else trials[int(o.trial_index)].is_to_be_measured,
            )
            for o in pending
            if not space.lost(o.parameters)
        ),
        fixed=fixed,
        disabled=fixed.keys() - by_caller.keys(),
        minimize=minimize,
        objective=objective,
        objectives=objectives,
        metrics=frozenset(experiment.metrics),
        constraints=constraints,
        num_attached=num_attached,
        batch_size=batch_size,
        pairs=record.get(PAIRS) or {},
    )
    with ax_errors():
        left_out = {*method.omitted(problem).trials}
    if not left_out:
        return problem
    return replace(
        problem,
        trials=tuple(
            replace(
                trial,
                is_observed=False,
                metrics={n: trial.metrics[n] for n in method.reads if n in trial.metrics},
            )
            if trial.index in left_out
            else trial
            for trial in trials
        ),
    )


def problem_without_trials(experiment: Experiment, method: Method) -> Problem:
    """Return a problem with the space and the pairs only, which need not fit the experiment."""
    record = experiment._properties.get(RECORD) or {}
    space = space_of(experiment.search_space, method.traits)
    return Problem(space, pairs=record.get(PAIRS) or {})


def past_trials(
    experiment: Experiment, method: Method, bounded: Sequence[str] = ()
) -> tuple[PastTrial, ...]:
    """Return the trials of an experiment as a method sees them, by increasing index.

    Costs and metrics are those of the trials' records, at full precision. If Ax's data were changed
    after the record, they count. The outcome is the first of several objectives; a trial with all
    of them is measured.

    Args:
        experiment: The experiment.
        method: The method, which names the metrics that it reads.
        bounded: Metrics with bounds and further objectives, which are learned, too.

    Raises:
        UnsupportedError: If a trial has several arms.
    """
    objectives = objective_metrics(experiment)
    metric = method.trial_costs.metric or ""  # no metric has the empty name
    data = {n: values_in_data(experiment, n) for n in {*objectives, *method.reads}}
    data[metric] = values_in_data(experiment, metric, finite=False)  # methods refuse infinite costs
    curves, realized = curves_in_data(experiment, method), realized_inputs(experiment, method)
    learned = {
        name: outcomes_to_learn(experiment, name, realized) for name in {*objectives[:1], *bounded}
    }
    observed = learned.get(objectives[0], {}) if objectives else {}
    found = []
    for index, base_trial in sorted(experiment.trials.items()):
        planned = planned_trial(base_trial)
        # Ax leaves a trial without an arm behind when it refuses to attach one: it never ran.
        if is_excluded(base_trial) or not base_trial.arms:
            found.append(replace(planned, status="ABANDONED", is_excluded=True))
            continue
        trial, record = with_one_arm(base_trial), outcome_record(base_trial)
        recorded = {name: mean for name, (mean, _) in recorded_outcomes(trial).items()}
        values = {
            name: more_precise(known[index], recorded.get(name))
            for name, known in data.items()
            if index in known
        }
        cost, unit = record.get("cost"), record.get("cost_metric")
        if unit is None:
            unit = metric if metric in recorded else planned.record.get("cost_metric")
        if cost is None:
            cost, unit = recorded.get(metric), metric
        if metric in values and trial.status.is_terminal:
            # Before the end of a trial, data have its cost so far.
            cost, unit = more_precise(values[metric], cost), metric
        measured = {**recorded, **values} if trial.status.is_completed else values
        counts = {name: len(several) for name, several in (record.get(REPEATS) or {}).items()}
        repeats = realized_repeats(
            method.traits.repeats, planned.parameters, counts.get((objectives or [""])[0])
        )
        is_measured = bool(objectives) and measured.keys() >= set(objectives)
        found.append(
            replace(
                planned,
                outcome=observed[index][0]
                if index in observed
                else (float(measured[objectives[0]]) if is_measured else None),
                is_observed=index in observed,
                was_measured=planned.record.get("objective") in recorded,
                realized={**repeats, **realized.get(index, {})},
                num_repeats=counts,
                curves=curves.get(index, {}),
                reported_cost=None if cost is None else float(cost),
                cost_metric=None if cost is None else unit,
                metrics={
                    **{name: learned[name][index][0] for name in bounded if index in learned[name]},
                    **{name: values[name] for name in method.reads if name in values},
                },
                errors={
                    name: error
                    for name, outcomes in learned.items()
                    if index in outcomes and (error := outcomes[index][1]) is not None
                },
                attempts=_attempts(trial, record),
                is_charged=record.get(CHARGED, True),
            )
        )
    return tuple(found)


def check_copied(experiment: Experiment) -> None:
    """Refuse trials of this package's strategies that were copied without their records.

    ``Experiment.warm_start_from_old_experiment`` copies the outcomes of a trial and drops the
    record of its decision: the trial that it resumed, its rule, and its price.

    Raises:
        UserInputError: If there are any; the error has their indices.
    """
    copied = [
        index
        for index, trial in sorted(experiment.trials.items())
        if str(trial._properties.get("source")).startswith(_WARM_START)
        and str(trial._properties.get("generation_model_key")).startswith(GENERATOR_KEY)
        and not is_excluded(trial)
    ]
    if copied:
        raise UserInputError(
            f"trials {copied} were copied by warm_start_from_old_experiment, which drops the "
            "records of the decisions on them. Attach their inputs, outcomes and costs to a new "
            "experiment, with ax_costaware.attach_table(client, ...); or leave a trial out, "
            f"with ax_costaware.exclude_trial(client, {copied[0]})."
        )


def objective_metrics(experiment: Experiment) -> list[str]:
    """Return the metrics of the objective; none without an objective."""
    config = experiment.optimization_config
    return [] if config is None else list(config.objective.metric_names)


def planned_trial(trial: BaseTrial) -> PastTrial:
    """Return the plan and the decision of a trial, without its outcome.

    Inactive parameters of a hierarchical search space have their middle values.
    """
    arm = trial.arms[0].parameters if len(trial.arms) == 1 else {}
    search_space = trial.experiment.search_space
    return PastTrial(
        index=trial.index,
        parameters=completed(search_space, {**search_space.backfill_values(), **arm}),
        status=trial.status.name,
        record=decision_record(trial),
    )


def _attempts(trial: BaseTrial, record: Mapping[str, Any]) -> tuple[float | None, ...]:
    """Return the cost of each attempt of a runner, see ``PastTrial``."""
    attempts = record.get("attempts") or []
    costs = [attempt.get("cost") for attempt in attempts]
    # The user may have completed a trial by hand before the runner did.
    by_hand = trial.status.is_completed and attempts and attempts[-1]["state"] != "completed"
    return (*costs, None) if record.get("running") or by_hand else tuple(costs)


def more_precise(value: float, recorded: float | None) -> float:
    """Return ``recorded`` if Ax's stores round it to ``value``; else ``value``.

    Reports are recorded at full precision before Ax stores them. The two agree until somebody
    changes Ax's data, and then the change counts.
    """
    if recorded is None or not math.isclose(
        value, recorded, rel_tol=1e-12, abs_tol=10.0**-STORED_DECIMALS
    ):
        return value
    return float(recorded)


def values_in_data(experiment: Experiment, metric: str, finite: bool = True) -> dict[int, float]:
    """Return the values of a metric in Ax's data, by trial index, as Ax's stores keep them.

    Args:
        experiment: The experiment.
        metric: The metric.
        finite: True to leave out infinite values; NaN is always left out.
    """
    frame = experiment.lookup_data().df
    columns = (frame[name].tolist() for name in ("trial_index", "metric_name", "mean"))
    is_value = math.isfinite if finite else lambda x: not math.isnan(x)
    found = {i: x for i, n, x in zip(*columns, strict=True) if n == metric and is_value(x)}
    rounded = np.round(list(found.values()), STORED_DECIMALS).tolist()
    return dict(zip(found, rounded, strict=True))


def outcomes_to_learn(
    experiment: Experiment, metric: str, among: Collection[int]
) -> dict[int, tuple[float, float | None]]:
    """Return means and standard errors (None: unknown) that a model learns from, by trial index.

    Values have the recorded digits, otherwise those of Ax's stores: ten decimals, unless all of
    them differ by less. Values that are not finite, or of abandoned trials, are left out.

    Args:
        experiment: The experiment.
        metric: The metric.
        among: Indices of the trials that count.
    """
    frame = experiment.lookup_data().df
    frame = frame[frame["metric_name"] == metric]
    rows = {
        int(i): (float(mean), float(sem))
        for i, mean, sem in zip(frame["trial_index"], frame["mean"], frame["sem"], strict=True)
        if i in among
        and math.isfinite(mean)
        and experiment.trials[i].status in STATUSES_EXPECTING_DATA
    }
    means = [mean for mean, _ in rows.values()]
    is_rounded = not rows or not 0 < max(means) - min(means) <= _TOO_SMALL_TO_ROUND
    found: dict[int, tuple[float, float | None]] = {}
    for index, row in sorted(rows.items()):
        recorded = recorded_outcomes(experiment.trials[index]).get(metric, (None, None))
        mean, sem = (
            more_precise(round(value, STORED_DECIMALS) if is_rounded else value, known)
            for value, known in zip(row, recorded, strict=True)
        )
        found[index] = mean, sem if math.isfinite(sem) else None
    return found


def curves_in_data(experiment: Experiment, method: Method) -> dict[int, Curves]:
    """Return the learning curves in Ax's data, if the method learns from them."""
    found = dict[int, Curves]()
    if progress_parameter(experiment, method) is None:
        return found
    data = experiment.lookup_data()
    if not data.has_step_column:
        return found
    frame = data.full_df
    frame = frame[np.isfinite(frame[MAP_KEY]) & np.isfinite(frame["mean"])]
    # Rounded as in Ax's stores.
    frame = frame.round({MAP_KEY: STORED_DECIMALS, "mean": STORED_DECIMALS})
    columns = [frame[name] for name in ("trial_index", "metric_name", MAP_KEY, "mean", "sem")]
    for index, metric, step, mean, sem in zip(*columns, strict=True):
        curve = found.setdefault(index, {}).setdefault(metric, {})
        curve[step] = mean, sem if math.isfinite(sem) else None
    return found


def realized_inputs(experiment: Experiment, method: Method) -> dict[int, dict[str, Any]]:
    """Return the reported inputs of trials, with the progress of each outcome.

    Excluded trials are left out, and those with less progress than the smallest that counts.
    """
    found = {
        index: dict(outcome_record(trial).get("realized") or {})
        for index, trial in experiment.trials.items()
        if not is_excluded(trial)
    }
    objectives, parameter = objective_metrics(experiment), progress_parameter(experiment, method)
    if not objectives or parameter is None:
        return found
    data = experiment.lookup_data()
    if not data.has_step_column:
        return found
    frame = data.df
    is_outcome = frame["metric_name"] == objectives[0]
    outcomes = frame[is_outcome & np.isfinite(frame[MAP_KEY])]
    for index, step in zip(outcomes["trial_index"], outcomes[MAP_KEY], strict=True):
        if index in found:
            found[index].setdefault(parameter.name, parameter.cast(round(step, STORED_DECIMALS)))
            if step < parameter.lower:
                del found[index]
    return found


def progress_parameter(experiment: Experiment, method: Method) -> RangeParameter | None:
    """Return the parameter of progress; None if there is none."""
    ranges = {n: p for n, p in experiment.parameters.items() if isinstance(p, RangeParameter)}
    return ranges.get(method.traits.progress_parameter(ranges) or "")


def with_one_arm(trial: BaseTrial) -> BaseTrial:
    """Return the trial, after a check that it has one arm; a ``BatchTrial`` may have one, too.

    Raises:
        UnsupportedError: If it is a ``BatchTrial`` of several arms, or of none.
    """
    if not isinstance(trial, Trial) and len(trial.arms) != 1:
        raise UnsupportedError(
            f"trial {trial.index} is a {type(trial).__name__} of {len(trial.arms)} arms: a cost "
            "belongs to one arm, so each arm needs a trial of its own. To leave the trial out: "
            f"ax_costaware.exclude_trial(client, {trial.index})."
        )
    return trial


def decision_record(trial: BaseTrial) -> dict[str, Any]:
    """Return the record of a decision; empty if the strategy did not generate the trial."""
    runs = trial.generator_runs
    if len(runs) != 1:
        return {}
    (run,) = runs
    if run.gen_metadata is None and None not in (run.db_id, run._generation_node_name):
        # ``Orchestrator.from_stored_experiment`` does not load it from the database.
        run._gen_metadata = _stored_metadata(run)
    return dict((run.gen_metadata or {}).get(RECORD) or {})


def _stored_metadata(run: GeneratorRun) -> dict[str, Any]:
    from ax.storage.json_store.decoder import object_from_json
    from ax.storage.sqa_store.db import session_scope
    from ax.storage.sqa_store.sqa_classes import SQAGeneratorRun
    from sqlalchemy import column, select, table

    # Query the text itself: SQLAlchemy warns if a query asks for one column of Ax's type.
    stored = table(SQAGeneratorRun.__tablename__, column("id"), column("gen_metadata"))
    with session_scope() as session:
        query = select(stored.c.gen_metadata).where(stored.c.id == run.db_id)
        return dict(object_from_json(json.loads(session.execute(query).scalar() or "{}")))


def is_excluded(trial: BaseTrial) -> bool:
    """True if the user excluded the trial, by ``exclude_trial``."""
    return EXCLUDED in outcome_record(trial)


def outcome_record(trial: BaseTrial) -> dict[str, Any]:
    """Return the record of a completion (realized inputs, cost, outcomes); empty before that."""
    return dict(trial.run_metadata.get(RECORD) or {})


def recorded_outcomes(trial: BaseTrial) -> dict[str, tuple[float, float | None]]:
    """Return the recorded outcomes, by metric."""
    return dict(outcome_record(trial).get("outcomes") or {})


def append_pairs(
    experiment: Experiment, added: Mapping[str, Mapping[str, Sequence[float]]]
) -> None:
    """Add pairs to the properties of an experiment; other properties stay.

    Args:
        experiment: The experiment.
        added: Points ``X`` and queries ``A``, columns by name.
    """
    record = dict(experiment._properties.get(RECORD) or {})
    record[PAIRS] = joined(record.get(PAIRS) or {}, added)
    experiment._properties[RECORD] = record
