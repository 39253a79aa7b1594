"""Whether another trial is worth its price, and how that came about: an Ax analysis.

Before each of its decisions the Gittins strategy recorded the largest Gittins index of the trials
that it could run and the incumbent, the best posterior mean at a trial that was run; an index that
is no better than the incumbent means that no trial is expected to repay its cost (Xie et al. 2024,
"Cost-aware Bayesian Optimization via the Pandora's Box Gittins Index"). The analysis shows this
record, with the same two for the next trial as they are now. Costs are in the user's own unit,
values in the objective's unit and sign.
"""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
import pandas as pd
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard, create_plotly_analysis_card
from ax.core.experiment import Experiment
from ax.generation_strategy.generation_strategy import GenerationStrategy

from ax_costaware.analysis.method_analysis import MethodAnalysis
from ax_costaware.analysis.objective import minimizes, objective_metric, outcomes
from ax_costaware.analysis.stopping_figure import StoppingLabels, stopping_figure
from ax_costaware.ax_bridge.records import decision_record, ledger
from ax_costaware.methods.gittins import Gittins
from ax_costaware.session.should_stop import StopAssessment, should_stop

_TWO_SIDED_95 = 1.959963984540054
"""Standard deviations on either side of a normal mean that hold 95 % of it."""

NEXT = "NEXT"
"""Status of the last row of the frame, which is about the trial that would come next."""


@final
class StoppingAnalysis(MethodAnalysis[Gittins]):
    """Why the Gittins strategy stopped, or has not; what it found, and how well it knew the costs.

    The card's data frame has one row per trial, by trial index, and a last one with the status
    ``NEXT`` for the trial that would come next:

    - ``trial_index``, ``initial``, ``status``, ``charged``, ``reported_cost``: as in the ledger;
    - ``cumulative_cost``: what this and all earlier trials were charged;
    - ``outcome``, ``best_outcome``: reported objective (NaN without), and the best one so far;
    - ``index``, ``incumbent``, ``lambda``: as the strategy recorded them before it decided on the
      trial, in the last row as they are now; NaN for trials that its model did not choose. With
      another acquisition function than the index they say what the index would have been;
    - ``expected_cost``: what the trial was expected to cost;
    - ``cost_lower``, ``cost_upper``: the interval in which a learned cost was predicted to lie with
      a probability of 95 %; NaN where nothing was predicted.
    """

    title = "Is another trial worth its price?"
    method_class = Gittins

    def _card(
        self,
        experiment: Experiment,
        generation_strategy: GenerationStrategy,
        method: Gittins,
    ) -> PlotlyAnalysisCard:
        assessment = should_stop((experiment, generation_strategy))
        frame = _frame(experiment, method, assessment)
        labels = StoppingLabels(
            metric=objective_metric(experiment),
            minimize=minimizes(experiment),
            cost_metric=method.cost_metric,
            budget=method.budget,
            stop=assessment.stop,
        )
        return create_plotly_analysis_card(
            name=type(self).__name__,
            title=self.title,
            subtitle=_subtitle(frame, method, assessment),
            df=frame,
            fig=stopping_figure(frame, labels),
        )


def _frame(experiment: Experiment, method: Gittins, assessment: StopAssessment) -> pd.DataFrame:
    outcome = outcomes(experiment)
    rows: list[dict[str, Any]] = []
    for entry in ledger(experiment, method):
        record = decision_record(experiment.trials[entry.trial_index])
        rows.append(
            {
                "trial_index": entry.trial_index,
                "initial": entry.initial,
                "status": entry.status,
                "charged": entry.charged,
                "reported_cost": entry.reported_cost,
                "outcome": outcome.get(entry.trial_index),
                "expected_cost": entry.expected_cost,
                **_decision(record.get("decision") or {}),
            }
        )
    now = {
        "trial_index": max(experiment.trials) + 1,
        "initial": False,
        "status": NEXT,
        "charged": 0.0,
        "index": assessment.index,
        "incumbent": assessment.incumbent,
        "lambda": assessment.lmbda,
    }
    frame = pd.DataFrame([*rows, now])
    floats = [name for name in frame if name not in ("trial_index", "initial", "status")]
    frame = frame.astype(dict.fromkeys(floats, float))
    best = frame["outcome"].cummin() if minimizes(experiment) else frame["outcome"].cummax()
    frame["best_outcome"] = best.ffill()
    frame["cumulative_cost"] = frame["charged"].cumsum()
    return frame[list(_COLUMNS)]


_COLUMNS = (
    "trial_index",
    "initial",
    "status",
    "charged",
    "reported_cost",
    "cumulative_cost",
    "outcome",
    "best_outcome",
    "index",
    "incumbent",
    "lambda",
    "expected_cost",
    "cost_lower",
    "cost_upper",
)


def _decision(record: dict[str, Any]) -> dict[str, float | None]:
    """What a trial's decision recorded, with the interval of its cost."""
    mean, sd = record.get("cost_log_mean"), record.get("cost_log_sd")
    lower, upper = (
        (None, None)
        if mean is None or sd is None
        else np.exp([mean - _TWO_SIDED_95 * sd, mean + _TWO_SIDED_95 * sd]).tolist()
    )
    return {
        "index": record.get("index"),
        "incumbent": record.get("incumbent"),
        "lambda": record.get("lambda"),
        "cost_lower": lower,
        "cost_upper": upper,
    }


def _subtitle(frame: pd.DataFrame, method: Gittins, assessment: StopAssessment) -> str:
    total = f"{assessment.spent:.6g}"
    if method.budget is not None and math.isfinite(method.budget):
        total += f" of {method.budget:.6g}"
    parts = [
        f"{assessment.reason} Spent {total}. The index is the value at which the most promising "
        "trial would only just repay its cost; the incumbent is the best expected value of a trial "
        "that was run. Both stand as they were before each decision, by the model of the time."
    ]
    if frame["cost_lower"].notna().any():
        parts.append(
            "A bar is the interval in which the learned model expected the cost of a trial to lie "
            "with a probability of 95 %, before it was run; on the dotted line it would be right."
        )
    return " ".join(parts)
