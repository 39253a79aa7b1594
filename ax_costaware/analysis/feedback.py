"""What was used, what was measured of it, and what was not, over time: an Ax analysis.

Before each of its trials the costly-feedback strategy recorded the posterior of the objective at
the point that it chose, and whether it asked for a measurement (Wang et al. 2020, "Cost-Efficient
Online Hyperparameter Optimization"). The analysis shows this record beside what was reported. Costs
are in the user's own unit, values in the objective's unit and sign, times in their own unit.
"""

from __future__ import annotations

from textwrap import wrap
from typing import final

import pandas as pd
from ax.core.analysis_card import AnalysisCard
from plotly import graph_objects as go

from ax_costaware.analysis.figures import (
    BLUE,
    DARK,
    GREY,
    RED,
    Panel,
    hollow,
    panels,
    trial_ticks,
    value_title,
)
from ax_costaware.analysis.method_analysis import MethodAnalysis, Objective, Run
from ax_costaware.methods.costly_feedback import CostlyFeedback

_RECORDED = {
    "mean": "decision.mean",
    "standard_deviation": "decision.standard_deviation",
    "confidence": "decision.confidence",
    "why": "why",
}

_HEIGHT_PIXELS = 480
"""A card shows as much without scrolling."""

_HOVER_CHARACTERS = 70
"""Width of the text that appears over a point."""


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
      model before the trial; NaN for trials that its model did not choose, or chose for another
      objective;
    - ``confidence``: probability that the point is better than its strongest rival, for a rule
      that asks for it; NaN as above;
    - ``cumulative_measurements``, ``cumulative_cost``: outcomes that this and all trials of lower
      index have, and what they were charged.
    """

    title = "What was used, and what was measured of it"
    method_class = CostlyFeedback

    def _card(self, run: Run[CostlyFeedback]) -> AnalysisCard:
        frame = _frame(run)
        figure = feedback_figure(frame, run.objective, run.method.time)
        return self._card_of(_subtitle(frame, run), frame, figure)


def _frame(run: Run[CostlyFeedback]) -> pd.DataFrame:
    frame = run.frame(_RECORDED, values=["mean", "standard_deviation", "confidence"])
    times = run.method.times(run.trials)
    frame["time"] = [float(times[trial.index]) for trial in run.trials]
    frame["measure"] = [trial.is_to_be_measured for trial in run.trials]
    frame["cumulative_measurements"] = frame["outcome"].notna().cumsum()
    frame["why"] = frame["why"].astype(object).fillna("").astype(str)
    columns = ["trial_index", "time", "initial", "status", "measure", "skipped", "outcome", "mean"]
    columns += ["standard_deviation", "confidence", "charged", "why"]
    return frame[[*columns, "cumulative_measurements", "cumulative_cost"]]


def _subtitle(frame: pd.DataFrame, run: Run[CostlyFeedback]) -> str:
    measured, skipped = int(frame["outcome"].notna().sum()), int(frame["skipped"].sum())
    # Those that the user attached are none.
    decisions = frame.loc[frame["why"] != "", ["trial_index", "why"]].itertuples(index=False)
    said = [f" The last decision, on trial {index}: {why}" for index, why in decisions][-1:]
    return (
        f"{measured} trial{' was' if measured == 1 else 's were'} measured and {skipped} "
        f"{'was' if skipped == 1 else 'were'} used without a measurement; spent "
        f"{run.spent(frame)}. Dots are outcomes as they were reported, hollow ones "
        "of trials that no model chose for this objective. The line is what the model expected of "
        "it at the point of each trial before it was run, with two standard deviations on either "
        f"side; a tick on it is a trial that was not measured.{''.join(said)}"
    )


def feedback_figure(frame: pd.DataFrame, objective: Objective, time: str | None) -> go.Figure:
    """The figure of a frame made by ``FeedbackAnalysis``.

    Upper panel: the expected objective at the point of each trial, by the model of its time, with
    the outcomes that were measured and ticks where none was. Lower panel: measurements so far,
    beside the trials so far.

    Args:
        frame: One row per trial, with the columns that ``FeedbackAnalysis`` documents.
        objective: The objective.
        time: The metric in which times are reported; None where the index of a trial is its time.
    """
    frame = frame.sort_values("time", kind="stable")
    # The reason of each decision, broken into lines.
    frame["why"] = frame["why"].map(lambda why: "<br>".join(wrap(why, _HOVER_CHARACTERS)))
    figure = panels(
        _HEIGHT_PIXELS,
        legend=-0.18,
        top=40,
        shared_xaxes=True,
        row_heights=[0.68, 0.32],
        vertical_spacing=0.06,
    )
    upper, lower = Panel(figure), Panel(figure, 2)
    _add_expected(upper, frame)
    skipped = frame[frame["skipped"] & frame["mean"].notna()]
    tick = {"symbol": "line-ns", "size": 9, "line_width": 1.5}
    text = "trial {trial_index}: not measured<br>{why}"
    upper.dots(skipped, "time", "mean", "not measured", text, color=RED, marker=tick)
    rows = frame.dropna(subset=["outcome"])
    upper.dots(
        rows,
        "time",
        "outcome",
        "measured (hollow: initial)",
        "trial {trial_index}: {metric} {y:.6g}, charged {charged:.6g}<br>{why}",
        {"metric": objective.metric},
        color=DARK,
        marker={"size": 7, "symbol": hollow(rows["mean"].isna())},
    )
    measured = frame["outcome"].notna()
    for name, counted, color, dash in (
        ("trials", measured | frame["skipped"], GREY, "dot"),
        ("measurements", measured, DARK, None),
    ):
        text, style = f"{{y}} {name} by {{x:.6g}}", {"line_shape": "hv", "line_dash": dash}
        lower.line(frame, "time", counted.cumsum(), name, text, color=color, **style)
    upper.yaxis(title_text=value_title(objective))
    lower.yaxis(title_text="Number so far", rangemode="tozero")
    ticks = trial_ticks(len(frame)) if time is None else {}
    lower.xaxis(title_text=time or "Trial", **ticks)
    return figure


def _add_expected(panel: Panel, frame: pd.DataFrame) -> None:
    """Posterior mean at the point of each trial, as it was before the trial, with its band."""
    rows = frame.dropna(subset=["mean", "standard_deviation"])
    panel.band(rows["time"], rows["mean"], rows["standard_deviation"], BLUE)
    panel.line(
        rows,
        "time",
        "mean",
        "expected at the point in use",
        "before trial {trial_index}: expected {y:.6g} ± {standard_deviation:.3g}",
        color=BLUE,
    )
