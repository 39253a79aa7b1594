"""Training data as it really was: realised inputs, full precision, one row order, nothing lost.

Ax's arms say what was planned. What happened is recorded in ``Trial.run_metadata`` before a trial
is completed (SQL reverts later changes of an arm), and is laid over the frames that Ax hands to an
adapter, so that a reloaded experiment trains the same model.

Ax stores a strategy with its generator runs, trials with theirs, and data, in transactions of their
own. What a process that was killed in between has left is mended here, before anything is decided
or read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from ax.core.base_trial import BaseTrial
from ax.core.data import MAP_KEY
from ax.core.data_utils import ExperimentData
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.types import TEvaluationOutcome, TParamValue
from ax.generation_strategy.generation_strategy import GenerationStrategy
from botorch.utils.datasets import SupervisedDataset
from pandas import DataFrame, Series
from pandas.api.types import is_string_dtype

from ax_costaware.ax_bridge.records import (
    STORED_DECIMALS,
    more_precise,
    recorded_outcomes,
    with_one_arm,
)
from ax_costaware.core.curves import CurvePoint
from ax_costaware.queries.argument_checks import LARGEST
from ax_costaware.space.space import Space

_TOO_SMALL_TO_ROUND = 1e-6
"""Observations that differ by no more than this are left as they are: rounding would harm them."""


def realized_data(
    experiment_data: ExperimentData,
    trials: Mapping[int, BaseTrial],
    realized: Mapping[int, Mapping[str, TParamValue]],
    metrics: Sequence[str],
    parameters: Collection[str],
) -> ExperimentData:
    """Lay what was recorded on the trials over ``experiment_data``.

    Args:
        experiment_data: Data that Ax extracted from the experiment.
        trials: The trials of the experiment.
        realized: Inputs as they were reported, of the trials that count.
        metrics: The metrics to keep, the objective's first: the method models nothing else.
        parameters: Names of the parameters, whose columns are made where they are missing.

    Returns:
        Data in which inputs are the realised ones, observations have the precision with which they
        were reported, trials without a finite observation are left out, and rows are sorted.
    """
    arms, observed = experiment_data.arm_data, experiment_data.observation_data
    found = [metric for metric in metrics if ("mean", metric) in observed.columns]
    if metrics[0] not in found:
        return ExperimentData(arm_data=arms.iloc[:0], observation_data=observed.iloc[:0])
    kept = [c for c in observed.columns if c[0] not in ("mean", "sem") or c[1] in found]
    # As for the ledger an infinite outcome, which Ax's own calls let pass, is none.
    counts = np.isfinite(observed["mean"][found].astype(float)).any(axis="columns")
    counts &= np.array([i in realized for i, *_ in observed.index], dtype=bool)
    observed = observed.loc[counts, kept].sort_index()
    if observed.index.nlevels > 2:
        # Ax would model the last steps of curves, which differ, as one more input.
        observed = observed.groupby(level=[0, 1]).last()
    for metric in found:
        lacking = ~np.isfinite(observed["mean", metric].astype(float))
        if lacking.any():
            observed.loc[lacking, [("mean", metric), ("sem", metric)]] = np.nan
        observed = _at_full_precision(observed, trials, metric)
        observed["sem", metric] = _known_errors(observed["sem", metric])
    arms = arms.loc[arms.index.isin(observed.index)].sort_index()
    rows = []
    for (trial_index, *_), planned in zip(arms.index, arms.to_dict("records"), strict=True):
        reported = realized[trial_index].items()
        known = {name: value for name, value in reported if name in parameters}
        rows.append({**dict.fromkeys(parameters), **planned, **known})
    overlaid = DataFrame(rows, index=arms.index)
    # Ax compares and encodes plain Python strings; pandas infers its own string type.
    texts = [name for name in overlaid.columns if is_string_dtype(overlaid[name].dtype)]
    overlaid[texts] = overlaid[texts].astype(object)
    return ExperimentData(arm_data=overlaid, observation_data=observed)


def with_curves(
    data: SupervisedDataset, points: Sequence[CurvePoint], space: Space
) -> SupervisedDataset:
    """A data set with the points of the curves of its trials, which are encoded by ``space``."""
    X, Y, Yvar, trials = data.X, data.Y, data.Yvar, data.group_indices
    known = set() if trials is None else set(trials.tolist())
    points = [point for point in points if point.trial_index in known]
    if trials is None or not points:
        return data
    if Yvar is not None:
        mean = Yvar.mean().item()
        errors = [mean if point.sem is None else point.sem**2 for point in points]
        Yvar = torch.cat([Yvar, Y.new_tensor(errors).unsqueeze(-1)])
    return SupervisedDataset(
        torch.cat([X, space.encode([point.inputs for point in points]).to(X)]),
        torch.cat([Y, Y.new_tensor([point.mean for point in points]).unsqueeze(-1)]),
        Yvar=Yvar,
        feature_names=data.feature_names,
        outcome_names=data.outcome_names,
        group_indices=torch.cat([trials, trials.new_tensor([p.trial_index for p in points])]),
    )


def _at_full_precision(
    observed: DataFrame, trials: Mapping[int, BaseTrial], metric: str
) -> DataFrame:
    """Observations with the digits that were recorded; the others as Ax's stores keep them."""
    means = observed["mean", metric]
    is_rounded = not 0 < means.max() - means.min() <= _TOO_SMALL_TO_ROUND
    recorded = [recorded_outcomes(trials[i]).get(metric, (None, None)) for i, *_ in observed.index]
    for part, column in enumerate(("mean", "sem")):
        values = observed[column, metric].astype(float)
        observed[column, metric] = [
            more_precise(value, outcome[part])
            for value, outcome in zip(
                values.round(STORED_DECIMALS) if is_rounded else values, recorded, strict=True
            )
        ]
    return observed


def _known_errors(errors: Series) -> Series:
    """Standard errors; where some are known, the others are taken for their root mean square.

    A model that is told of the noise of its outcomes is to be told of all. One that is infinite, or
    as good as that, which Ax's own calls let pass, is none.
    """
    errors = errors.where(errors.astype(float).abs() <= LARGEST)
    known = errors.dropna()
    return errors if known.empty else errors.fillna(float((known**2).mean() ** 0.5))


def restore_data(experiment: Experiment) -> list[int]:
    """Attach the recorded outcomes of completed trials that have no data in Ax.

    A trial and its data are stored in several transactions, the last of which delete what was there
    and write it anew. What was recorded of the trial is stored with its status, in the first one.

    Args:
        experiment: The experiment.

    Returns:
        Indices of the trials whose data were restored.
    """
    has_data = experiment.lookup_data().trial_indices
    restored = []
    for index, trial in sorted(experiment.trials.items()):
        outcomes = recorded_outcomes(trial) if trial.status.is_completed else {}
        raw_data = raw_data_of(outcomes, experiment)
        if raw_data and index not in has_data:
            attach_raw_data(with_one_arm(trial), raw_data)
            restored.append(index)
    return restored


def attach_raw_data(trial: BaseTrial, raw_data: TEvaluationOutcome) -> None:
    """Attach outcomes to a trial's one arm, as Ax does where its trial is no ``BatchTrial``."""
    (arm,) = trial.arms
    trial.experiment.attach_data(trial._raw_evaluations_to_data({arm.name: raw_data}))


def raw_data_of(
    outcomes: Mapping[str, tuple[float, float | None]], experiment: Experiment
) -> dict[str, float | tuple[float, float]]:
    """Outcomes as Ax takes them: an unknown standard error is left out.

    Args:
        outcomes: Per metric the mean and its standard error (None: unknown).
        experiment: The experiment; metrics that it does not have are left out.
    """
    return {
        metric: mean if sem is None else (mean, sem)
        for metric, (mean, sem) in outcomes.items()
        if metric in experiment.metrics
    }


def metrics_without_step(experiment: Experiment, trial_index: int) -> set[str]:
    """Metrics of which Ax has a trial's value without a step of progress."""
    frame = experiment.lookup_data().full_df
    frame = frame[frame["trial_index"] == trial_index]
    return set(
        frame["metric_name"][frame[MAP_KEY].isna()] if MAP_KEY in frame else frame["metric_name"]
    )


def match_generator_runs(strategy: GenerationStrategy, experiment: Experiment) -> None:
    """Let a strategy that was loaded from a database have the generator runs of its trials.

    A killed process leaves a generator run that belongs to no trial (``Client`` stores the strategy
    first), or a trial whose generator run the strategy does not know (``AxClient`` and the
    ``Orchestrator`` store trials first). Ax's quasi-random generator goes on from the last run of
    the strategy: it would leave a point out, or propose one twice. Runs that are not stored yet are
    left alone: their trials are still to come. So are those of an earlier strategy, from which the
    design of this one does not go on: they come before its own, have ended before it had any, or
    were drawn with another seed.
    """
    trials, runs = sorted(experiment.trials.items()), strategy._generator_runs
    if not runs and any(trial.status.is_terminal for _, trial in trials):
        return
    stored = [(i, run) for i, trial in trials for run in trial.generator_runs if run.db_id]
    own, known = {run.db_id for _, run in stored}, {run.db_id for run in runs}
    last = max((index for index, run in stored if run.db_id in known), default=-1)
    kept = [run for run in runs if run.db_id is None or run.db_id in own]
    missing = [run for index, run in stored if index > last and _may_be_of(strategy, run)]
    if missing or len(kept) < len(runs):
        runs[:] = [*kept, *missing]


def _may_be_of(strategy: GenerationStrategy, run: GeneratorRun) -> bool:
    """Whether a node of a strategy may have made a run."""
    node = strategy.nodes_by_name.get(run._generation_node_name or "")
    seed = getattr(node, "seed", None)
    return node is not None and (run._generator_state_after_gen or {}).get("seed", seed) == seed
