"""Ax analysis of control sets: cost spent against the value of the recommendation.

For every trial the analysis has the recommendation after it, its value under the final model, and
the cost spent by then. The recommendation maximizes the expected objective under the posterior mean
(Tay et al. 2023). The data are those of the time; the hyperparameters are the final ones, since a
fit per trial would be slow. Costs are in the user's own unit, values in the objective's unit and
sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import pandas as pd
from ax.core.analysis_card import AnalysisCard
from plotly import graph_objects as go

from ax_costaware.analysis.figures import (
    BUDGET,
    COLORS,
    DARK,
    PALE,
    Panel,
    hollow,
    panels,
    short_names,
    value_title,
)
from ax_costaware.analysis.method_analysis import MethodAnalysis, Objective, Run
from ax_costaware.analysis.replay import MAX_REPLAYED, expected_values, recommendations
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.control_sets.query_space import QuerySpace

_VALUE_PANEL_PIXELS = 240
_LANE_PIXELS = 26
_TOP_PIXELS = 50
_BOTTOM_PIXELS = 120
_LEGEND_PIXELS = 72
"""Distance of the legend below the lower panel."""

_WIDE_BAR = 0.01
"""Fraction of the axis above which bars have a white border, which would cover narrower ones."""


@final
class CostAndValueAnalysis(MethodAnalysis[ControlSets]):
    """Cost spent, value of the recommendation, and control sets in use, over time.

    The card's data frame has one row per trial, by trial index:

    - ``trial_index``, ``control_set``, ``initial``, ``status``, ``charged``: as in the ledger;
    - ``cumulative_cost``: charge of this and all earlier trials;
    - ``query_value``, ``query_sd``: expected objective of the trial's own query, with its standard
      deviation, by the model of all data (NaN for a trial without data);
    - ``recommended_control_set``, ``recommendation_value``, ``recommendation_sd``: the
      recommendation after this trial, and its expected objective by the model of all data. A trial
      without data, or beyond ``replay.MAX_REPLAYED``, has the values of the one before; they are
      missing before the first data.
    """

    title = "Cost spent against the value of the recommendation"
    method_class = ControlSets

    def _card(self, run: Run[ControlSets]) -> AnalysisCard:
        frame, method = _frame(run), run.method
        figure = cost_and_value_figure(frame, run.objective, method.names, method.budget)
        return self._card_of(_subtitle(frame, run), frame, figure)


def _frame(run: Run[ControlSets]) -> pd.DataFrame:
    space = QuerySpace(run.problem(), run.method)
    frame = run.frame().set_index("trial_index", drop=False)
    trials = space.problem.observed
    arms = [trial.parameters for trial in trials]
    found = expected_values(space, space.points(arms), list(map(run.method.index_of, arms)))
    queries = pd.DataFrame(found, [trial.index for trial in trials])
    queries = queries.set_axis(["control_set", "query_value", "query_sd"], axis="columns")
    recommended = pd.DataFrame.from_dict(
        recommendations(space),
        orient="index",
        columns=["recommended_control_set", "recommendation_value", "recommendation_sd"],
    )
    columns = ["trial_index", "control_set", "initial", "status", "charged", "cumulative_cost"]
    frame = frame[columns].join([queries[["query_value", "query_sd"]], recommended])
    frame[list(recommended)] = frame[list(recommended)].ffill()
    return frame.reset_index(drop=True)


def _subtitle(frame: pd.DataFrame, run: Run[ControlSets]) -> str:
    last = frame.iloc[-1]
    has_data = frame["query_value"].notna()
    which = "each trial" if has_data.sum() <= MAX_REPLAYED else f"{MAX_REPLAYED} of the trials"
    drawn = (
        "The line is the expected value, over the uncontrolled inputs, of the recommendation "
        f"after {which}: chosen with the data up to that trial, valued with all "
        "data, both with the model's present hyperparameters."
    )
    if frame["recommendation_value"].notna().idxmax() > has_data.idxmax():
        drawn = "Earlier recommendations are not computed."
    return (
        f"Spent {run.spent(frame)}; the current recommendation controls "
        f"{last['recommended_control_set']} and is expected to give {run.objective.metric} = "
        f"{last['recommendation_value']:.6g} ± {2 * last['recommendation_sd']:.2g} (two standard "
        f"deviations). {drawn} Dots are the expected values of the trials' own queries by the "
        "present model, not measured outcomes; hollow dots and pale bars are initial trials. A bar "
        "below spans what its trial was charged, in order of trial index."
    )


def cost_and_value_figure(
    frame: pd.DataFrame, objective: Objective, control_sets: Sequence[str], budget: float | None
) -> go.Figure:
    """Return the figure of a frame made by ``CostAndValueAnalysis``.

    Upper panel: expected value of the recommendation, and of every trial's own query, over the cost
    spent. Lower panel: control set of each trial, as a bar with the length of its charge.

    Args:
        frame: One row per trial, with the columns that ``CostAndValueAnalysis`` documents.
        objective: The objective.
        control_sets: Names of the control sets in declared order; those that no trial used are
            left out.
        budget: Total budget, drawn as a vertical line if it is near; None for none.
    """
    used = [name for name in control_sets if (frame["control_set"] == name).any()]
    names = short_names(used)
    lanes = max(len(used), 4) * _LANE_PIXELS
    total_cost = float(frame["cumulative_cost"].max())
    figure = panels(
        _VALUE_PANEL_PIXELS + lanes + _TOP_PIXELS + _BOTTOM_PIXELS,
        legend=-_LEGEND_PIXELS / (_VALUE_PANEL_PIXELS + lanes),
        top=_TOP_PIXELS,
        shared_xaxes=True,
        row_heights=[_VALUE_PANEL_PIXELS, lanes],
        vertical_spacing=0.05,
    )
    upper, lower = Panel(figure), Panel(figure, 2)
    _add_recommendation(upper, frame)
    for position, name in enumerate(used):
        color = COLORS[position % len(COLORS)]
        rows = frame[frame["control_set"] == name]
        _add_control_set(upper, lower, rows, names[name], color, total_cost)
    title = "Cost spent (in the unit of the control sets' costs)"
    budget = lower.spent_axis(title, frame["cumulative_cost"], budget)
    if budget is not None:
        figure.add_vline(x=budget, annotation_position="top", **BUDGET, **upper.place)
        figure.add_vline(x=budget, line=BUDGET["line"], **lower.place)
    upper.yaxis(title_text=value_title(objective, "Expected "))
    order = [names[name] for name in used[::-1]]
    lower.yaxis(title_text="Control set", categoryorder="array", categoryarray=order)
    figure.update_layout(
        barmode="overlay", bargap=0.25, margin_b=_BOTTOM_PIXELS, legend_groupclick="togglegroup"
    )
    return figure


def _add_recommendation(panel: Panel, frame: pd.DataFrame) -> None:
    """Draw the value of the recommendation as a step line with a band; the last one is a star."""
    steps = frame.dropna(subset=["recommendation_value"])
    x, y, deviation = "cumulative_cost", "recommendation_value", "recommendation_sd"
    if not steps.empty:
        panel.band(steps[x], steps[y], steps[deviation], DARK, line_shape="hv")
    text = (
        "after trial {trial_index}: recommended {recommended_control_set}<br>cost {x:.6g}, "
        "expected value {y:.6g} ± {recommendation_sd:.3g}"
    )
    panel.line(steps, x, y, "recommendation", text, color=DARK, line_shape="hv")
    name = "current recommendation"
    text = (
        f"{name}: {{recommended_control_set}}<br>expected value {{y:.6g}} ± "
        "{recommendation_sd:.3g}"
    )
    star = {"marker_symbol": "star", "marker_size": 15}
    panel.dots(steps.iloc[-1:], x, y, name, text, color=DARK, **star)


def _add_control_set(
    upper: Panel, lower: Panel, rows: pd.DataFrame, name: str, color: str, total_cost: float
) -> None:
    """Draw the trials of one control set: queries in the upper panel, bars in the lower one."""
    upper.dots(
        rows,
        "cumulative_cost",
        "query_value",
        name,
        "trial {trial_index}: {control_set}<br>charged {charged:.6g}, expected value of its "
        "query {y:.6g} ± {query_sd:.3g}",
        color=color,
        marker={"size": 8, "symbol": hollow(rows["initial"]), "line_width": 1.5},
        legendgroup=name,
        showlegend=False,
    )
    upper.entry("scatter", name, mode="markers", marker={"color": color, "size": 8})
    is_wide = rows["charged"] > _WIDE_BAR * total_cost
    lower.add(
        "bar",
        rows,
        "charged",
        [name] * len(rows),
        name,
        "trial {trial_index}: {control_set}, {status}<br>charged {charged:.6g}",
        orientation="h",
        base=rows["cumulative_cost"] - rows["charged"],
        marker_color=color,
        marker_opacity=[PALE if initial else 1.0 for initial in rows["initial"]],
        marker_line={"color": ["white" if wide else color for wide in is_wide], "width": 1},
        legendgroup=name,
        showlegend=False,
    )
