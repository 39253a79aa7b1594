"""Training data as it really was: realised inputs, full precision, one row order.

Ax's arms say what was planned. What happened is recorded in ``Trial.run_metadata`` before a trial
is completed (Ax's ``Data`` keeps ten decimals in storage, and SQL reverts later changes of an arm),
and this module lays it over the frames that Ax hands to an adapter. The frames are then a function
of what is stored, so that a reloaded experiment trains the same model.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from ax.core.base_trial import BaseTrial
from ax.core.data_utils import ExperimentData
from pandas import DataFrame, Index, Series

from ax_costaware.ledger import outcome_record
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
            outcome = outcome_record(trials[index[0]]).get("outcomes", {}).get(metric)
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
