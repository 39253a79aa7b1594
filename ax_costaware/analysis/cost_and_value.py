"""Cost spent against the value of the recommendation: an Ax analysis.

For every trial the analysis says what would have been recommended after it, what that is worth by
the model of today, and what was spent by then (the recommendation of Tay et al. 2023 maximises the
expected objective under the posterior mean). Fitting the model anew after every trial would be
slow, so the hyperparameters are those of today; the data are those of the time. Costs are in
the user's own unit, values in the objective's unit and sign.
"""

from __future__ import annotations

import math
from typing import final

import pandas as pd
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard, create_plotly_analysis_card
from ax.core.experiment import Experiment
from ax.generation_strategy.generation_strategy import GenerationStrategy

from ax_costaware.analysis.cost_and_value_figure import cost_and_value_figure
from ax_costaware.analysis.method_analysis import MethodAnalysis
from ax_costaware.analysis.objective import minimizes, objective_metric
from ax_costaware.analysis.replay import Replay
from ax_costaware.ax_bridge.nodes import fitted_adapter
from ax_costaware.ax_bridge.records import ledger
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.past import LedgerEntry, spent


@final
class CostAndValueAnalysis(MethodAnalysis[ControlSets]):
    """What was spent, what the recommendation was worth by then, and which control sets were used.

    The card's data frame has one row per trial, by trial index:

    - ``trial_index``, ``control_set``, ``initial``, ``status``, ``charged``: as in the ledger;
    - ``cumulative_cost``: what this and all earlier trials were charged;
    - ``query_value``, ``query_sd``: expected objective of the trial's own query, with its standard
      deviation, by the model fitted to all data (NaN for a trial without data);
    - ``recommended_control_set``, ``recommendation_value``, ``recommendation_sd``: what would have
      been recommended after this trial, and its expected objective by the model fitted to all
      data (the last one before, if the trial brought no data or was left out because there are
      more than ``replay.MAX_REPLAYED``; missing before the first data).
    """

    title = "Cost spent against the value of the recommendation"
    method_class = ControlSets

    def _card(
        self,
        experiment: Experiment,
        generation_strategy: GenerationStrategy,
        method: ControlSets,
    ) -> PlotlyAnalysisCard:
        entries = ledger(experiment, method)
        fitted = fitted_adapter(experiment, generation_strategy)
        frame = _frame(experiment, entries, Replay(fitted.problem(), method))
        objective = objective_metric(experiment)
        return create_plotly_analysis_card(
            name=type(self).__name__,
            title=self.title,
            subtitle=_subtitle(frame, method, objective),
            df=frame,
            fig=cost_and_value_figure(
                frame=frame,
                control_sets=method.names,
                metric=objective,
                minimize=minimizes(experiment),
                budget=method.budget,
            ),
        )


def _frame(
    experiment: Experiment,
    entries: tuple[LedgerEntry, ...],
    replay: Replay,
) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "trial_index": [entry.trial_index for entry in entries],
            "control_set": [entry.control_set for entry in entries],
            "initial": [entry.initial for entry in entries],
            "status": [entry.status for entry in entries],
            "charged": [entry.charged for entry in entries],
            "cumulative_cost": [spent(entries[: i + 1]) for i in range(len(entries))],
        }
    )
    arms = {
        entry.trial_index: (entry.control_set, arm.parameters)
        for entry in entries
        if entry.control_set is not None and entry.trial_index in replay.trial_indices
        for arm in experiment.trials[entry.trial_index].arms
    }
    queries, recommendations = replay.queries(arms), replay.recommendations()
    index = frame["trial_index"]
    frame["query_value"] = index.map({i: value.mean for i, value in queries.items()})
    frame["query_sd"] = index.map({i: value.standard_deviation for i, value in queries.items()})
    for column, by_trial in (
        ("recommended_control_set", {i: v.control_set for i, v in recommendations.items()}),
        ("recommendation_value", {i: v.mean for i, v in recommendations.items()}),
        ("recommendation_sd", {i: v.standard_deviation for i, v in recommendations.items()}),
    ):
        frame[column] = index.map(by_trial).ffill()
    return frame


def _subtitle(frame: pd.DataFrame, method: ControlSets, objective: str) -> str:
    last = frame.iloc[-1]
    total = f"{last['cumulative_cost']:.6g}"
    if method.budget is not None and math.isfinite(method.budget):
        total += f" of {method.budget:.6g}"
    return (
        f"Spent {total}; the current recommendation controls {last['recommended_control_set']} and "
        f"is expected to give {objective} = {last['recommendation_value']:.6g} ± "
        f"{2 * last['recommendation_sd']:.2g} (two standard deviations). The line is the expected "
        "value, over the uncontrolled inputs, of what would have been recommended after each "
        "trial: chosen with the data up to that trial, valued with all data, both with the "
        "model's present hyperparameters. Dots are the expected values of the trials' own queries "
        "by the present model, not measured outcomes; hollow dots and pale bars are initial "
        "trials. A bar below spans what its trial was charged, in order of trial index."
    )
