"""Ax analysis of the stopping rule: index and incumbent over time.

A cost-aware strategy records, before each decision, the largest Gittins index of the affordable
trials and the incumbent: the best posterior mean at an evaluated point. If the index is no better
than the incumbent, no trial is worth its cost (Xie et al. 2024, "Cost-aware Bayesian Optimization
via the Pandora's Box Gittins Index"). The analysis shows these records, and both values for the
next trial. Costs are in the user's own unit, values in the objective's unit and sign.
"""

from __future__ import annotations

from typing import final

import numpy as np
import pandas as pd
from ax.core.analysis_card import AnalysisCard
from plotly import graph_objects as go

from ax_costaware.analysis.figures import (
    BLUE,
    BUDGET,
    DARK,
    GREEN,
    GREY,
    LONG_METRIC,
    RED,
    Panel,
    cost_title,
    hollow,
    log_ticks,
    panels,
    short_name,
    trial_ticks,
    value_title,
)
from ax_costaware.analysis.method_analysis import NEXT, MethodAnalysis, Objective, Run
from ax_costaware.ax_bridge.checks import constraints_of
from ax_costaware.ax_bridge.records import values_in_data
from ax_costaware.methods.cost_aware import CostAware
from ax_costaware.session.should_stop import StopAssessment, should_stop

_TWO_SIDED_95 = 1.959963984540054
"""Half-width of the 95 % interval of a standard normal variable."""

_RECORDED = {
    name: f"decision.{name}"
    for name in ("index", "incumbent", "lambda", "cost_log_mean", "cost_log_sd")
}

_HEIGHT_PIXELS = 660

_MANY = 60
"""Number of decisions above which a line has no dots."""

_REACH = 1.5
"""Extent of a value axis beyond the relevant values, in multiples of their span."""


@final
class StoppingAnalysis(MethodAnalysis[CostAware]):
    """Stopping decision of a cost-aware strategy, its outcomes, and its cost predictions.

    The card's data frame has one row per trial, by trial index, and a last one with the status
    ``NEXT`` for the next trial:

    - ``trial_index``, ``initial``, ``status``, ``charged``, ``reported_cost``: as in the ledger;
    - ``cumulative_cost``: charge of this and all earlier trials;
    - ``outcome``, ``best_outcome``: reported objective (NaN without), and the best feasible one so
      far;
    - ``index``, ``incumbent``, ``lambda``: as recorded before the decision on the trial, in the
      last row the present ones; NaN for trials that the model did not choose, or chose for another
      objective. With another acquisition function ``index`` is the index that it would have had;
    - ``expected_cost``: expected cost of the trial;
    - ``cost_median``, ``cost_lower``, ``cost_upper``: median and 95 % interval of a learned cost;
      NaN if nothing was predicted.
    """

    title = "Is another trial worth its price?"
    method_class = CostAware

    def _card(self, run: Run[CostAware]) -> AnalysisCard:
        assessment = should_stop(run.client)
        frame = _frame(run, assessment)
        figure = stopping_figure(frame, run.objective, run.method, assessment.stop)
        return self._card_of(_subtitle(frame, run, assessment), frame, figure)


def _frame(run: Run[CostAware], assessment: StopAssessment) -> pd.DataFrame:
    now = {"index": assessment.index, "incumbent": assessment.incumbent, "lambda": assessment.lmbda}
    frame = run.frame({**_RECORDED, "change": "switching_cost"}, now, list(now))
    # Decisions of another method have no index, and maybe an incumbent of another meaning.
    frame.loc[frame["index"].isna() & (frame["status"] != NEXT), ["incumbent", "lambda"]] = np.nan
    outcome, minimize = frame["outcome"].where(_are_feasible(run, frame)), run.objective.minimize
    frame["best_outcome"] = (outcome.cummin() if minimize else outcome.cummax()).ffill()
    mean, deviation = frame["cost_log_mean"], frame["cost_log_sd"]
    change = frame["change"].fillna(0.0)  # known, in addition to the learned cost
    frame["cost_median"] = np.exp(mean) + change
    frame["cost_lower"] = np.exp(mean - _TWO_SIDED_95 * deviation) + change
    frame["cost_upper"] = np.exp(mean + _TWO_SIDED_95 * deviation) + change
    columns = ["trial_index", "initial", "status", "charged", "reported_cost", "cumulative_cost"]
    columns += ["outcome", "best_outcome", "index", "incumbent", "lambda"]
    return frame[[*columns, "expected_cost", "cost_median", "cost_lower", "cost_upper"]]


def _are_feasible(run: Run[CostAware], frame: pd.DataFrame) -> pd.Series:
    """Return True for trials whose outcomes satisfy the constraints."""
    is_feasible = pd.Series(True, frame.index)
    for constraint in constraints_of(run.experiment.optimization_config):
        values = values_in_data(run.experiment, constraint.metric)
        is_feasible &= frame["trial_index"].map(values).between(*constraint.ends)
    return is_feasible


def _subtitle(frame: pd.DataFrame, run: Run[CostAware], assessment: StopAssessment) -> str:
    subtitle = (
        f"{assessment.reason} Spent {run.spent(frame)}. The index is the value at "
        "which the most promising trial would just repay its cost; the incumbent is the best "
        "posterior mean at an evaluated point. Both are as of each decision, by the model of the "
        "time."
    )
    if constraints_of(run.experiment.optimization_config):
        subtitle += (
            " They are of points that are likely to be feasible, and the best outcome is a "
            "feasible one."
        )
    if frame["cost_lower"].notna().any():
        subtitle += (
            " A bar is the 95 % interval of a trial's cost by the cost model before the trial; on "
            "the dotted line the prediction is exact."
        )
    return subtitle


def stopping_figure(
    frame: pd.DataFrame, objective: Objective, method: CostAware, stop: bool
) -> go.Figure:
    """Return the figure of a frame made by ``StoppingAnalysis``.

    Upper panel: the largest Gittins index and the incumbent before each decision. The index is the
    value at which a trial would just repay its cost, so the search continues as long as it is
    better than the incumbent. Lower left: outcomes over the cost spent. Lower right, if costs are
    learned: predicted interval of each trial's cost over its reported cost.

    Args:
        frame: One row per trial and one for the next, with the columns that ``StoppingAnalysis``
            documents.
        objective: The objective.
        method: The method, with its budget and its cost model.
        stop: True if there should be no further trial.
    """
    predicted = frame.dropna(subset=["cost_lower", "cost_upper", "reported_cost"])
    learned = not predicted.empty
    inside = predicted["reported_cost"].between(predicted["cost_lower"], predicted["cost_upper"])
    figure = panels(
        _HEIGHT_PIXELS,
        legend=-0.2,
        cols=2 if learned else 1,
        specs=[[{"colspan": 2}, None], [{}, {}]] if learned else [[{}], [{}]],
        vertical_spacing=0.26,
        horizontal_spacing=0.2,
        subplot_titles=[
            "Is another trial worth its price?",
            f"What was found{'<br>' if learned else ' '}for the cost",
            f"Learned cost: {inside.sum()} of {len(inside)}<br>within the predicted 95 %",
        ][: 3 if learned else 2],
    )
    cost = short_name(method.trial_costs.metric or "cost", LONG_METRIC)
    upper, lower = Panel(figure), Panel(figure, 2)
    _add_decisions(upper, frame, cost, stop)
    _add_outcomes(lower, frame, objective, method)
    if learned:
        _add_calibration(Panel(figure, 2, 2), predicted, inside, cost)
    for panel in (upper, lower):
        panel.yaxis(title_text=value_title(objective))
    figure.update_annotations(font={"size": 14})
    return figure


def _add_decisions(panel: Panel, frame: pd.DataFrame, cost: str, stop: bool) -> None:
    """Draw index and incumbent before each decision, and the present ones."""
    rows = frame.dropna(subset=["incumbent"])
    for name, column, color in (
        ("largest Gittins index", "index", BLUE),
        ("incumbent", "incumbent", DARK),
    ):
        panel.line(
            rows if rows[column].notna().any() else rows.iloc[:0],
            "trial_index",
            column,
            name,
            f"before trial {{x}}: {name} {{y:.6g}}<br>price of one unit of {{cost}} "
            "{lambda:.3g}, expected cost of the trial {expected_cost:.4g}",
            {"cost": cost},
            color=color,
            mode="lines+markers" if len(rows) <= _MANY else "lines",
            marker={"color": color, "size": 6},
        )
    now = rows[rows["status"] == NEXT]
    verdict, color = ("now: stop", RED) if stop else ("now: go on", GREEN)
    diamond = {"size": 18, "symbol": "diamond-open", "line_width": 3}
    y = now["index"].fillna(now["incumbent"])
    panel.dots(now, "trial_index", y, verdict, verdict, color=color, marker=diamond)
    pairs = rows[["index", "incumbent"]]
    late = pairs.iloc[len(rows) // 2 :]
    axis = _value_range(pairs.stack(), late.stack())
    panel.yaxis(range=axis)
    title = f"Before trial{_hidden(pairs.stack(), axis, 'value')}"
    panel.xaxis(title_text=title, **trial_ticks(len(rows)))


def _add_outcomes(
    panel: Panel, frame: pd.DataFrame, objective: Objective, method: CostAware
) -> None:
    """Draw outcomes and the best one so far over the cost spent."""
    rows = frame.dropna(subset=["outcome"])
    outcome = rows["outcome"]
    panel.dots(
        rows,
        "cumulative_cost",
        "outcome",
        "trial (hollow: initial)",
        "trial {trial_index}: {metric} {y:.6g}<br>charged {charged:.4g}",
        {"metric": objective.metric},
        color=GREY,
        cliponaxis=False,
        marker={"size": 7, "symbol": hollow(rows["initial"])},
    )
    x, name, text = "cumulative_cost", "best outcome so far", "best so far {y:.6g} at cost {x:.4g}"
    steps = {"line_shape": "hv", "line_dash": "dot"}
    best = rows.dropna(subset=["best_outcome"])
    panel.line(best, x, "best_outcome", name, text, color=DARK, **steps)
    # The axis resolves the better half of the trials.
    middle = outcome.median()
    axis = _value_range(
        outcome, outcome[outcome <= middle if objective.minimize else outcome >= middle]
    )
    panel.yaxis(range=axis)
    title = cost_title("Cost spent", method.trial_costs.metric)
    title += _hidden(outcome, axis, "outcome")
    budget = panel.spent_axis(title, frame["cumulative_cost"], method.budget)
    if budget is not None:
        place = {"annotation_position": "bottom left", **panel.place}
        panel.figure.add_vline(x=budget, **BUDGET, **place)


def _add_calibration(panel: Panel, rows: pd.DataFrame, inside: pd.Series, cost: str) -> None:
    """Draw the predicted 95 % interval of each trial's cost over the reported cost."""
    for name, chosen, color in (("inside", rows[inside], BLUE), ("outside", rows[~inside], RED)):
        lower, middle, upper = (chosen[f"cost_{at}"] for at in ("lower", "median", "upper"))
        panel.dots(
            chosen,
            "reported_cost",
            "cost_median",
            f"predicted cost, reported {name}",
            "trial {trial_index}: reported {x:.4g}<br>predicted {y:.4g}, 95 % between "
            "{cost_lower:.4g} and {cost_upper:.4g}",
            color=color,
            error_y={"array": upper - middle, "arrayminus": middle - lower, "width": 0},
            error_y_thickness=1.5,
            marker_size=6,
        )
    costs = rows[["reported_cost", "cost_lower", "cost_upper"]].to_numpy()
    ends = [float(costs.min()), float(costs.max())]
    dotted = {"line_dash": "dot", "line_width": 1}
    panel.line(None, ends, ends, None, color=DARK, showlegend=False, **dotted)
    ticks = log_ticks(*ends)
    panel.xaxis(title_text=f"Reported {cost}", **ticks)
    panel.yaxis(title_text=f"Predicted {cost}", **ticks)


def _hidden(values: pd.Series, axis: list[float] | None, name: str) -> str:
    """Return the number of values beyond the axis, for its title."""
    hidden = 0 if axis is None else int((~values.dropna().between(*axis)).sum())
    return f"<br>({hidden} {name}{'' if hidden == 1 else 's'} beyond the axis)" if hidden else ""


def _value_range(values: pd.Series, matter: pd.Series) -> list[float] | None:
    """Return the range of an axis with all relevant values, and others that fit at this scale.

    One outlier, such as a classifier that learned nothing, would otherwise compress the others.
    """
    values, matter = values.dropna(), matter.dropna()
    if matter.empty:
        return None
    low, high = float(matter.min()), float(matter.max())
    span = (high - low) or abs(high) or 1.0
    low = max(float(values.min()), low - _REACH * span)
    high = min(float(values.max()), high + _REACH * span)
    margin = 0.1 * ((high - low) or span)
    return [low - margin, high + margin]
