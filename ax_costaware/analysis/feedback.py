"""Ax analysis of costly feedback: used points, and measured outcomes, over time.

The costly-feedback strategy records, before each of its trials, the posterior of the objective at
the chosen point and the decision to measure (Wang et al. 2020, "Cost-Efficient Online
Hyperparameter Optimization"). The analysis shows these records next to the reported outcomes. Costs
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
"""Height that a card shows without scrolling."""

_HOVER_CHARACTERS = 70
"""Width of a hover text."""


@final
class FeedbackAnalysis(MethodAnalysis[CostlyFeedback]):
    """Used points, their measured outcomes, and the reasons of skipped measurements.

    The card's data frame has one row per trial, by trial index:

    - ``trial_index``, ``initial``, ``status``, ``charged``, ``skipped``: as in the ledger;
    - ``time``: time of the trial, as reported, else as estimated; without a metric for it, its
      index;
    - ``measure``, ``why``: True if the strategy asked for a measurement, and its reason;
    - ``outcome``: reported objective (NaN without);
    - ``mean``, ``standard_deviation``: posterior of the objective at the trial's point, before the
      trial; NaN for trials that the model did not choose, or chose for another objective;
    - ``confidence``: probability that the point is better than its strongest rival, if the rule
      uses it; NaN as above;
    - ``cumulative_measurements``, ``cumulative_cost``: number of outcomes, and charge, of this and
      all earlier trials.
    """

    title = "Used points and measured outcomes"
    method_class = CostlyFeedback

    def _card(self, run: Run[CostlyFeedback]) -> AnalysisCard:
        frame = _frame(run)
        figure = feedback_figure(frame, run.objective, run.method.time)
        return self._card_of(_subtitle(frame, run), frame, figure)


def _frame(run: Run[CostlyFeedback]) -> pd.DataFrame:
    frame = run.frame(_RECORDED, values=["mean", "standard_deviation", "confidence"])
    times = run.method.times(run.trials)
    assert times is not None
    frame["time"] = [float(times[trial.index]) for trial in run.trials]
    frame["measure"] = [trial.is_to_be_measured for trial in run.trials]
    frame["cumulative_measurements"] = frame["outcome"].notna().cumsum()
    frame["why"] = frame["why"].astype(object).fillna("").astype(str)
    columns = ["trial_index", "time", "initial", "status", "measure", "skipped", "outcome", "mean"]
    columns += ["standard_deviation", "confidence", "charged", "why"]
    return frame[[*columns, "cumulative_measurements", "cumulative_cost"]]


def _subtitle(frame: pd.DataFrame, run: Run[CostlyFeedback]) -> str:
    measured, skipped = int(frame["outcome"].notna().sum()), int(frame["skipped"].sum())
    # Attached trials have no decision.
    decisions = frame.loc[frame["why"] != "", ["trial_index", "why"]].itertuples(index=False)
    said = [f" The last decision, on trial {index}: {why}" for index, why in decisions][-1:]
    return (
        f"{measured} trial{' was' if measured == 1 else 's were'} measured and {skipped} "
        f"{'was' if skipped == 1 else 'were'} used without a measurement; spent "
        f"{run.spent(frame)}. Dots are reported outcomes, hollow for trials that no model chose "
        "for this objective. The line is the posterior mean at the point of each trial before it "
        "was run, with two standard deviations on either side. A tick on it is a trial that was "
        f"not measured.{''.join(said)}"
    )


def feedback_figure(frame: pd.DataFrame, objective: Objective, time: str | None) -> go.Figure:
    """Return the figure of a frame made by ``FeedbackAnalysis``.

    Upper panel: posterior mean at the point of each trial, by the model of its time, with the
    measured outcomes, and ticks for trials without one. Lower panel: number of measurements and of
    trials so far.

    Args:
        frame: One row per trial, with the columns that ``FeedbackAnalysis`` documents.
        objective: The objective.
        time: The metric of reported times; None if the index of a trial is its time.
    """
    frame = frame.sort_values("time", kind="stable")
    # Break the reason of each decision into lines.
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
    """Draw the posterior mean at the point of each trial, before the trial, with its band."""
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
