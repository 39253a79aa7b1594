"""What was used, what was measured of it, and what was not, over time: an Ax analysis.

Before each of its trials the costly-feedback strategy recorded the posterior of the objective at
the point that it chose, and whether it asked for a measurement (Wang et al. 2020, "Cost-Efficient
Online Hyperparameter Optimization"). The analysis shows this record beside what was reported. Costs
are in the user's own unit, values in the objective's unit and sign, times in their own unit.
"""

from __future__ import annotations

import math
from typing import Any, final

import pandas as pd
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard, create_plotly_analysis_card
from ax.core.experiment import Experiment
from ax.generation_strategy.generation_strategy import GenerationStrategy

from ax_costaware.analysis.feedback_figure import FeedbackLabels, feedback_figure
from ax_costaware.analysis.method_analysis import MethodAnalysis
from ax_costaware.analysis.objective import minimizes, objective_metric, outcomes
from ax_costaware.ax_bridge.records import decision_record, is_to_be_measured, ledger, past_trials
from ax_costaware.methods.costly_feedback import CostlyFeedback


@final
class FeedbackAnalysis(MethodAnalysis[CostlyFeedback]):
    """Which values were used, which of their outcomes were measured, and what the rest rested on.

    The card's data frame has one row per trial, by trial index:

    - ``trial_index``, ``initial``, ``status``, ``charged``, ``skipped``: as in the ledger;
    - ``time``: when the trial was, as reported, else as estimated; without a metric for it, its
      index;
    - ``measure``, ``why``: whether the strategy asked for a measurement, and its reason;
    - ``outcome``: reported objective (NaN without);
    - ``mean``, ``standard_deviation``: of the objective at the trial's point, expected by the
      model before the trial; NaN for trials that its model did not choose;
    - ``confidence``: probability that the point is better than its strongest rival, for a rule
      that asks for it;
    - ``cumulative_measurements``, ``cumulative_cost``: outcomes that this and all trials of lower
      index have, and what they were charged.
    """

    title = "What was used, and what was measured of it"
    method_class = CostlyFeedback

    def _card(
        self,
        experiment: Experiment,
        generation_strategy: GenerationStrategy,
        method: CostlyFeedback,
    ) -> PlotlyAnalysisCard:
        frame = _frame(experiment, method)
        labels = FeedbackLabels(
            metric=objective_metric(experiment),
            minimize=minimizes(experiment),
            time=method.time,
        )
        return create_plotly_analysis_card(
            name=type(self).__name__,
            title=self.title,
            subtitle=_subtitle(frame, method),
            df=frame,
            fig=feedback_figure(frame, labels),
        )


def _frame(experiment: Experiment, method: CostlyFeedback) -> pd.DataFrame:
    outcome, times = outcomes(experiment), method.times(past_trials(experiment, method))
    rows: list[dict[str, Any]] = []
    for entry in ledger(experiment, method):
        trial = experiment.trials[entry.trial_index]
        record = decision_record(trial)
        decision = record.get("decision") or {}
        rows.append(
            {
                "trial_index": entry.trial_index,
                "time": times[entry.trial_index],
                "initial": entry.initial,
                "status": entry.status,
                "measure": is_to_be_measured(trial),
                "skipped": entry.skipped,
                "outcome": outcome.get(entry.trial_index),
                "mean": decision.get("mean"),
                "standard_deviation": decision.get("standard_deviation"),
                "confidence": decision.get("confidence"),
                "charged": entry.charged,
                "why": str(record.get("why") or ""),
            }
        )
    floats = ("time", "outcome", "mean", "standard_deviation", "confidence", "charged")
    frame = pd.DataFrame(rows).astype(dict.fromkeys(floats, float))
    frame["cumulative_measurements"] = frame["outcome"].notna().cumsum()
    frame["cumulative_cost"] = frame["charged"].cumsum()
    return frame


def _subtitle(frame: pd.DataFrame, method: CostlyFeedback) -> str:
    last = frame.iloc[-1]
    measured, skipped = int(last["cumulative_measurements"]), int(frame["skipped"].sum())
    spent = f"{last['cumulative_cost']:.6g}"
    if method.budget is not None and math.isfinite(method.budget):
        spent += f" of {method.budget:.6g}"
    return (
        f"{measured} trials were measured and {skipped} were used without a measurement; spent "
        f"{spent}. Dots are outcomes as they were reported, hollow ones of trials that no model "
        "chose. The line is what the model expected of the objective at the point of each trial "
        "before it was run, with two standard deviations on either side; a tick on it is a trial "
        f"that was not measured. The last decision, on trial {last['trial_index']}: {last['why']}"
    )
