"""What is stored of an experiment, as a method sees it: parameters, trials, and the ledger.

What the package writes is under one key, so that nothing of the user's own metadata can be
overwritten: decisions in ``GeneratorRun.gen_metadata``, outcomes in ``Trial.run_metadata``, where
they are kept at full precision (Ax's own data keep ten decimals), pairs in the experiment's
properties.
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

from ax_costaware.ax_bridge.checks import ax_errors, constraints_of
from ax_costaware.ax_bridge.search_space import space_of
from ax_costaware.core import PastTrial, Problem
from ax_costaware.core.history import check_complete
from ax_costaware.core.problem import Pending
from ax_costaware.methods import Method
from ax_costaware.methods.averages.law import joined
from ax_costaware.space.parameters import check_fixed

RECORD = "ax_costaware"
"""Key of our record in ``run_metadata``, ``gen_metadata`` and the experiment's properties."""

EXCLUDED = "excluded"
"""Key of the reason why a trial is left out of everything, in its record."""

PAIRS = "pairs"
"""Key of the pairs in the record of an experiment."""

CHARGED = "charged"
"""Key of whether a trial is paid from the budget, in its record; it is, where that says nothing."""

GENERATOR_KEY = "CostAware"
"""Prefix of the names of this package's generators."""

_WARM_START = "Warm start from Experiment"
"""Prefix of the source that Ax records of a copied trial."""

_TOO_SMALL_TO_ROUND = 1e-6
"""Observations that differ by no more than this are left as they are: rounding would harm them."""

STORED_DECIMALS = 10
"""Decimals that Ax's stores keep of an observation."""

Curves: TypeAlias = dict[str, dict[float, tuple[float, float | None]]]
"""Mean and standard error (None: unknown) by metric and step."""

PendingObservations: TypeAlias = Mapping[str, list[ObservationFeatures]]
"""Points under evaluation by metric, as Ax has them."""


def live_observations(
    experiment: Experiment, pending: PendingObservations | None
) -> list[ObservationFeatures]:
    """What is under way: trials that can still report, and decisions that are no trials yet.

    Ax also counts trials that were completed without data, or abandoned, as pending for ever; and
    leaves out those that have a value of every metric, as from the first step of a learning curve
    on, or are out of bounds.

    Args:
        experiment: The experiment.
        pending: Points under evaluation, by metric; those without a trial index are no trials yet.
            None: nothing is asked about what is under way.
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
    live: Iterable[ObservationFeatures] = (),
    fixed_features: ObservationFeatures | None = None,
    measures: Callable[[TParameterization], bool] = lambda _: True,
    device: torch.device | None = None,
    num_attached: int = 0,
) -> Problem:
    """Return what a method decides from, without model and optimizer, see ``Loop.prepared``.

    Args:
        experiment: The experiment.
        method: The method.
        live: What is under way, as of ``live_observations``.
        fixed_features: Parameters that the caller fixes.
        measures: Whether a decision that is no trial yet, of which Ax keeps the arm only, is to be
            measured.
        device: Where the model computes; None for the CPU.
        num_attached: Trials that count towards the initial design, see ``Problem``.

    Raises:
        UnsupportedError: If a trial has several arms, or no method takes the search space.
        UserInputError: If a trial has no value of a parameter that was added after it, or what is
            fixed is no parameter, or none of its values.
    """
    config = experiment.optimization_config
    record = experiment._properties.get(RECORD) or {}
    objective = "" if config is None else str(config.objective.metric_names[0])
    # Those that were disabled keep their values, as Ax's own adapters see to in ``gen``.
    held = experiment.search_space.get_disabled_parameter_fixed_features(fixed_features)
    fixed = {} if held is None else dict(held.parameters)
    by_caller = {} if fixed_features is None else fixed_features.parameters
    space = space_of(experiment.search_space, method.hidden)
    space = space if device is None else space.to(device)
    constraints = constraints_of(config)
    trials = tuple(
        replace(trial, has_lost_value=True, is_observed=False)
        if space.lost(trial.inputs)
        else trial
        for trial in past_trials(experiment, method, [bound.metric for bound in constraints])
    )
    # In earlier trials, of parameters that were added while the experiment ran.
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
                {**added, **o.parameters},
                measures(o.parameters)
                if o.trial_index is None
                else trials[int(o.trial_index)].is_to_be_measured,
            )
            for o in live
            if not space.lost(o.parameters)
        ),
        fixed=fixed,
        disabled=fixed.keys() - by_caller.keys(),
        minimize=config is not None and bool(config.objective.minimize),
        objective=objective,
        metrics=frozenset(experiment.metrics),
        constraints=constraints,
        num_attached=num_attached,
        pairs=record.get(PAIRS) or {},
    )
    with ax_errors():
        left_out = {*method.not_learned(problem)}
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
    """The space and the pairs alone, whatever else of the experiment does not fit."""
    record = experiment._properties.get(RECORD) or {}
    space = space_of(experiment.search_space, method.hidden)
    return Problem(space, pairs=record.get(PAIRS) or {})


def past_trials(
    experiment: Experiment, method: Method, bounded: Sequence[str] = ()
) -> tuple[PastTrial, ...]:
    """The trials of an experiment as a method sees them, by increasing index.

    Costs and metrics are those that were recorded on the trials, at full precision; where Ax's data
    were changed after the record, they count. An objective of several metrics, with which no method
    runs, is measured once a trial has all of them, and the value is that of the first.

    Args:
        experiment: The experiment.
        method: Says which metrics are read.
        bounded: Metrics that have bounds, which are learned, too.

    Raises:
        UnsupportedError: If a trial has several arms.
    """
    objectives = objective_metrics(experiment)
    metric = method.cost_metric or ""  # no metric has the empty name
    data = {n: values_in_data(experiment, n) for n in {*objectives, *method.reads}}
    data[metric] = values_in_data(experiment, metric, finite=False)  # a method refuses such costs
    curves, realized = curves_in_data(experiment, method), realized_inputs(experiment, method)
    learned = {
        name: outcomes_to_learn(experiment, name, realized) for name in {*objectives[:1], *bounded}
    }
    observed = learned.get(objectives[0], {}) if objectives else {}
    found = []
    for index, base_trial in sorted(experiment.trials.items()):
        planned = planned_trial(base_trial)
        # Ax leaves a trial without an arm behind where it refuses to attach one: it never ran.
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
            # Before a trial has ended, data are what it has cost so far.
            cost, unit = more_precise(values[metric], cost), metric
        measured = {**recorded, **values} if trial.status.is_completed else values
        is_measured = bool(objectives) and measured.keys() >= set(objectives)
        found.append(
            replace(
                planned,
                outcome=observed[index][0]
                if index in observed
                else (float(measured[objectives[0]]) if is_measured else None),
                is_observed=index in observed,
                was_measured=planned.record.get("objective") in recorded,
                realized=realized.get(index, {}),
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

    ``Experiment.warm_start_from_old_experiment`` copies what was reported of a trial, and drops
    what was recorded of the decision on it: the trial that it resumed, its rule, and its price.

    Raises:
        UserInputError: By the indices of the trials.
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
            "experiment, with ax_costaware.attach_table(client, ...); or go on without a trial, "
            f"with ax_costaware.exclude_trial(client, {copied[0]})."
        )


def objective_metrics(experiment: Experiment) -> list[str]:
    """Names of the metrics of the objective; none where the experiment has no objective."""
    config = experiment.optimization_config
    return [] if config is None else list(config.objective.metric_names)


def planned_trial(trial: BaseTrial) -> PastTrial:
    """What was planned of one trial and recorded of its decision, without what came of it."""
    arm = trial.arms[0].parameters if len(trial.arms) == 1 else {}
    return PastTrial(
        index=trial.index,
        parameters={**trial.experiment.search_space.backfill_values(), **arm},
        status=trial.status.name,
        record=decision_record(trial),
    )


def _attempts(trial: BaseTrial, record: Mapping[str, Any]) -> tuple[float | None, ...]:
    """Cost of each attempt of a runner, see ``PastTrial``."""
    attempts = record.get("attempts") or []
    costs = [attempt.get("cost") for attempt in attempts]
    # The user may have completed by hand what the runner had not.
    by_hand = trial.status.is_completed and attempts and attempts[-1]["state"] != "completed"
    return (*costs, None) if record.get("running") or by_hand else tuple(costs)


def more_precise(value: float, recorded: float | None) -> float:
    """``recorded`` if it is ``value`` before Ax's stores rounded it; else ``value``.

    What is reported is recorded on the trial at full precision before Ax stores it. The two agree
    until somebody changes Ax's data afterwards, and then what was changed counts.
    """
    if recorded is None or not math.isclose(
        value, recorded, rel_tol=1e-12, abs_tol=10.0**-STORED_DECIMALS
    ):
        return value
    return float(recorded)


def values_in_data(experiment: Experiment, metric: str, finite: bool = True) -> dict[int, float]:
    """Values of ``metric`` among Ax's data, by trial index, as Ax's stores keep them.

    Args:
        experiment: The experiment.
        metric: The metric.
        finite: Whether infinite ones are left out, as those are that are not numbers.
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

    They have the digits that were recorded, and otherwise those that Ax's stores keep: ten
    decimals, unless all of them differ by less. What is not finite is none, nor is what an
    abandoned trial has.

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
    """What trials reported with their progress among Ax's data, if the method learns from that."""
    found = dict[int, Curves]()
    if progress_parameter(experiment, method) is None:
        return found
    data = experiment.lookup_data()
    if not data.has_step_column:
        return found
    frame = data.full_df
    frame = frame[np.isfinite(frame[MAP_KEY]) & np.isfinite(frame["mean"])]
    # As Ax's stores keep them.
    frame = frame.round({MAP_KEY: STORED_DECIMALS, "mean": STORED_DECIMALS})
    columns = [frame[name] for name in ("trial_index", "metric_name", MAP_KEY, "mean", "sem")]
    for index, metric, step, mean, sem in zip(*columns, strict=True):
        curve = found.setdefault(index, {}).setdefault(metric, {})
        curve[step] = mean, sem if math.isfinite(sem) else None
    return found


def realized_inputs(experiment: Experiment, method: Method) -> dict[int, dict[str, Any]]:
    """Inputs of trials as they were reported, with the progress of an outcome where it has one.

    Trials are left out that are excluded, or have made less progress than the least that counts.
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
    """The parameter that progress is measured in; None if there is none."""
    ranges = {n: p for n, p in experiment.parameters.items() if isinstance(p, RangeParameter)}
    return ranges.get(method.progress(ranges) or "")


def with_one_arm(trial: BaseTrial) -> BaseTrial:
    """``trial``, which has one arm; a ``BatchTrial`` of one is a trial like any other.

    Raises:
        UnsupportedError: If it is a ``BatchTrial`` of several arms, or of none.
    """
    if not isinstance(trial, Trial) and len(trial.arms) != 1:
        raise UnsupportedError(
            f"trial {trial.index} is a {type(trial).__name__} of {len(trial.arms)} arms: a cost "
            "belongs to one arm, so each arm needs a trial of its own. To go on without the trial: "
            f"ax_costaware.exclude_trial(client, {trial.index})."
        )
    return trial


def decision_record(trial: BaseTrial) -> dict[str, Any]:
    """What was recorded about a decision; empty if the strategy did not generate the trial."""
    runs = trial.generator_runs
    if len(runs) != 1:
        return {}
    (run,) = runs
    if run.gen_metadata is None and None not in (run.db_id, run._generation_node_name):
        # ``Orchestrator.from_stored_experiment`` leaves it in the database.
        run._gen_metadata = _stored_metadata(run)
    return dict((run.gen_metadata or {}).get(RECORD) or {})


def _stored_metadata(run: GeneratorRun) -> dict[str, Any]:
    from ax.storage.json_store.decoder import object_from_json
    from ax.storage.sqa_store.db import session_scope
    from ax.storage.sqa_store.sqa_classes import SQAGeneratorRun
    from sqlalchemy import column, select, table

    # The text itself: of Ax's type of column SQLAlchemy warns where a query asks for one alone.
    stored = table(SQAGeneratorRun.__tablename__, column("id"), column("gen_metadata"))
    with session_scope() as session:
        query = select(stored.c.gen_metadata).where(stored.c.id == run.db_id)
        return dict(object_from_json(json.loads(session.execute(query).scalar() or "{}")))


def is_excluded(trial: BaseTrial) -> bool:
    """Whether the user left the trial out of everything, by ``exclude_trial``."""
    return EXCLUDED in outcome_record(trial)


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
    record[PAIRS] = joined(record.get(PAIRS) or {}, added)
    experiment._properties[RECORD] = record
