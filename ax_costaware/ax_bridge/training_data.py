"""Training data as it really was: realised inputs, full precision, one row order, nothing lost.

Ax's arms say what was planned. What happened is recorded in ``Trial.run_metadata`` before a trial
is completed (SQL reverts later changes of an arm), and is laid over the frames that Ax hands to an
adapter, so that a reloaded experiment trains the same model.

Ax stores a strategy with its generator runs, trials with theirs, and data, in transactions of their
own. What a process that was killed in between has left is mended here, before anything is decided
or read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from ax.core.base_trial import BaseTrial
from ax.core.data_utils import ExperimentData
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.trial import Trial
from ax.generation_strategy.generation_strategy import GenerationStrategy
from pandas import DataFrame, Index, Series

from ax_costaware.ax_bridge.records import outcome_record, recorded_outcomes
from ax_costaware.precision import STORED_DECIMALS, more_precise

_TOO_SMALL_TO_ROUND = 1e-6
"""Observations that spread less than this are left as they are: rounding would harm them."""


def realized_data(
    experiment_data: ExperimentData,
    trials: Mapping[int, BaseTrial],
    metrics: Collection[str],
    parameters: Collection[str],
) -> ExperimentData:
    """Lay what was recorded on the trials over ``experiment_data``.

    Args:
        experiment_data: Data that Ax extracted from the experiment.
        trials: The trials of the experiment.
        metrics: The metrics to keep: those of the optimisation config, since the method models
            nothing else.
        parameters: Names of the parameters, whose columns are made where they are missing.

    Returns:
        Data in which inputs are the realised ones, observations have the precision with which they
        were reported, trials without a finite observation are left out, and rows are sorted.
    """
    observations = _kept_observations(experiment_data.observation_data, metrics)
    _restore_precision(observations, trials, metrics)
    arms = experiment_data.arm_data
    arms = arms.loc[arms.index.isin(_trial_and_arm(observations.index))].sort_index()
    return ExperimentData(
        arm_data=_overlaid(arms, trials, parameters), observation_data=observations
    )


def _kept_observations(observations: DataFrame, metrics: Collection[str]) -> DataFrame:
    kept = observations.loc[
        :, [c for c in observations.columns if c[0] not in ("mean", "sem") or c[1] in metrics]
    ]
    means = [c for c in kept.columns if c[0] == "mean"]
    if not means:
        return kept.iloc[:0].copy()
    # As for the ledger an infinite outcome, which Ax's own calls let pass, is none.
    return kept.loc[np.isfinite(kept[means].astype(float)).any(axis=1)].sort_index()


def _restore_precision(
    observations: DataFrame, trials: Mapping[int, BaseTrial], metrics: Collection[str]
) -> None:
    for metric in metrics:
        if ("mean", metric) not in observations.columns:
            continue
        means = observations["mean", metric].to_numpy(dtype=float).copy()
        sems = observations["sem", metric].to_numpy(dtype=float).copy()
        if (
            np.nanmax(means, initial=-np.inf) - np.nanmin(means, initial=np.inf)
            > _TOO_SMALL_TO_ROUND
        ):
            means, sems = np.round(means, STORED_DECIMALS), np.round(sems, STORED_DECIMALS)
        for row, index in enumerate(observations.index):
            outcome = recorded_outcomes(trials[index[0]]).get(metric)
            if outcome is not None:
                means[row] = more_precise(means[row], outcome[0])
                sems[row] = more_precise(sems[row], outcome[1])
        observations["mean", metric] = means
        observations["sem", metric] = sems


def _overlaid(
    arms: DataFrame, trials: Mapping[int, BaseTrial], parameters: Collection[str]
) -> DataFrame:
    columns: dict[str, Any] = {}
    realized = {
        index: outcome_record(trials[index[0]]).get("realized") or {} for index in arms.index
    }
    for name in parameters:
        planned = arms[name].tolist() if name in arms.columns else [None] * len(arms)
        values = [
            realized[index].get(name, plan) for index, plan in zip(arms.index, planned, strict=True)
        ]
        # Ax compares and encodes plain Python strings; pandas would infer its own string type.
        kind = object if any(isinstance(value, str) for value in values) else None
        columns[name] = Series(values, index=arms.index, dtype=kind)
    kept = {name: arms[name] for name in arms.columns if name not in columns}
    return DataFrame({**columns, **kept}, index=arms.index)


def _trial_and_arm(index: Index) -> Index:
    return index if index.nlevels == 2 else index.droplevel(list(range(2, index.nlevels)))


def restore_data(experiment: Experiment) -> list[int]:
    """Attach the recorded outcomes of completed trials that have no data in Ax.

    A trial and its data are stored in several transactions, the last of which delete what was there
    and write it anew. What was recorded of the trial is stored with its status, in the first one.

    Args:
        experiment: The experiment; metrics that it does not have are left out.

    Returns:
        Indices of the trials whose data were restored.
    """
    missing: dict[int, Mapping[str, tuple[float, float | None]]] = {}
    for index, trial in experiment.trials.items():
        if isinstance(trial, Trial) and trial.status.is_completed:
            recorded = recorded_outcomes(trial)
            known = {name: value for name, value in recorded.items() if name in experiment.metrics}
            if known:
                missing[index] = known
    if not missing:
        return []
    present = set(experiment.lookup_data(trial_indices=list(missing)).df["trial_index"])
    restored = sorted(missing.keys() - present)
    for index in restored:
        trial = experiment.trials[index]
        assert isinstance(trial, Trial)
        trial.update_trial_data(raw_data=raw_data_of(missing[index]))
    return restored


def raw_data_of(
    outcomes: Mapping[str, tuple[float, float | None]],
) -> dict[str, float | tuple[float, float]]:
    """Outcomes as Ax takes them: an unknown standard error is left out.

    Args:
        outcomes: Per metric the mean and its standard error (None: unknown).
    """
    return {
        metric: mean if sem is None else (mean, sem) for metric, (mean, sem) in outcomes.items()
    }


def match_generator_runs(strategy: GenerationStrategy, experiment: Experiment) -> None:
    """Let a strategy that was loaded from a database have the generator runs of its trials.

    A killed process leaves a generator run that belongs to no trial (``Client`` stores the strategy
    first), or a trial whose generator run the strategy does not know (``AxClient`` and the
    ``Orchestrator`` store trials first). Ax's quasi-random generator goes on from the last run of
    the strategy: it would leave a point out, or propose one twice. Runs that are not stored yet are
    left alone: their trials are still to come.
    """
    by_id: dict[int, GeneratorRun] = {}
    for _, trial in sorted(experiment.trials.items()):
        run = trial.generator_run if isinstance(trial, Trial) else None
        if run is not None and run.db_id is not None:
            by_id[run.db_id] = run
    runs = strategy._generator_runs
    known = {run.db_id for run in runs}
    kept = [run for run in runs if run.db_id is None or run.db_id in by_id]
    missing = [
        run
        for db_id, run in by_id.items()
        if db_id not in known and run._generation_node_name in strategy.nodes_by_name
    ]
    if missing or len(kept) < len(runs):
        runs[:] = [*kept, *missing]
