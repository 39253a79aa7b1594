"""Ax analysis of possible deployments: expected value against cost.

They are the recommendation and its alternatives, as of ``ax_costaware.recommend``. Costs are in the
user's own unit, values in the objective's unit and sign.
"""

from __future__ import annotations

from typing import Any, final

import pandas as pd
from ax.core.analysis_card import AnalysisCard
from plotly import graph_objects as go

from ax_costaware.analysis.figures import (
    BLUE,
    DARK,
    GREY,
    Panel,
    cost_title,
    log_ticks,
    panels,
    value_title,
)
from ax_costaware.analysis.method_analysis import MethodAnalysis, Objective, Run
from ax_costaware.analysis.tables import deployments
from ax_costaware.core.method import Method
from ax_costaware.exceptions import InputError
from ax_costaware.methods.cost_aware.front import Front
from ax_costaware.session.recommendation import recommend

_HEIGHT_PIXELS = 420
_FRONT_PIXELS = 280

_BARS = "Bars are two posterior standard deviations."

_LOG_AXIS_RATIO = 100
"""Ratio of the largest to the smallest cost from which their axis is logarithmic."""


@final
class DeploymentAnalysis(MethodAnalysis[Method]):
    """Cost and expected value of each possible deployment.

    With outcome constraints only likely feasible ones are shown. The card's data frame has a row
    for each, cheapest first:

    - ``control_set`` (None for a method without), ``set``: the values to set, as text;
    - ``expected_cost``: of a trial there;
    - ``expected_value``, ``standard_deviation``: of the objective, by the present model;
    - ``worth_it``: True if ``recommend(client, max_cost=...)`` has it first for some limit.

    With several objectives the rows are the points of the front, with ``expected <name>`` and ``sd
    <name>`` of each objective, and without ``worth_it``; each objective has a panel of its own.
    """

    title = "Expected value against the cost of a deployment"
    method_class = Method
    takes_front = True

    @classmethod
    def applies_to(cls, method: Method) -> bool:
        """Return True if a deployment has the inputs, and the cost, of a trial."""
        return method.traits.measures_points and not method.traits.may_skip

    def _missing(self, run: Run[Method]) -> str | None:
        if not self.applies_to(run.method):
            return "A deployment has no cost of its own."
        return super()._missing(run)

    def _card(self, run: Run[Method]) -> AnalysisCard:
        best, objective = recommend(run.client), run.objective
        found = [r for r in (best, *best.alternatives) if r.expected_cost is not None]
        everything = len(found)
        if best.feasibility is not None:
            # If nothing is likely to be feasible, show the likeliest.
            least = min(best.feasibility, run.method.feasibility_threshold)
            found = [r for r in found if (r.feasibility or 0.0) >= least]
        if not found:
            raise InputError(_without_costs(run))
        if run.has_front:
            frame = deployments(found).sort_values("expected_cost", kind="stable")
            frame = frame.drop(columns=["expected_value", "standard_deviation"])
            frame = frame.reset_index(drop=True)
            text = f"The {len(frame)} points of the front. {_BARS}"
            return self._card_of(text, frame, _front_figure(frame, run))
        # Best first: a deployment is worth its cost if every better one costs more.
        frame = deployments(found).sort_values("expected_cost", kind="stable")
        rank = frame.index.to_series()
        frame["worth_it"] = rank < rank.cummin().shift(fill_value=len(frame))
        frame = frame.reset_index(drop=True)
        figure = deployment_figure(frame, objective, run.method.trial_costs.metric)
        subtitle = _subtitle(frame, objective)
        if len(found) < everything:
            subtitle += " Deployments that are less likely to be feasible are left out."
        return self._card_of(subtitle, frame, figure)


def _subtitle(frame: pd.DataFrame, objective: Objective) -> str:
    worth = frame[frame["worth_it"]]
    cheapest, best = worth.iloc[0], worth.iloc[-1]
    first = f"{objective.metric} = {cheapest['expected_value']:.6g}"
    if len(worth) > 1:
        found = (
            f"The line joins the Pareto-optimal deployments, from {first} at a cost of "
            f"{cheapest['expected_cost']:.6g} to {best['expected_value']:.6g} at "
            f"{best['expected_cost']:.6g}: recommend(client, max_cost=...) names the best within a "
            "limit."
        )
    else:
        found = (
            f"The recommendation, {first}, costs {best['expected_cost']:.6g}, and no alternative "
            "costs less."
        )
    return f"{found} {_BARS}"


def _without_costs(run: Run[Method]) -> str:
    """Return the reason why no deployment has an expected cost, where costs are learned."""
    missing = [t.index for t in run.trials if t.is_completed and t.reported_cost is None]
    if not missing:
        return "No trial has reported its cost yet."
    return (
        f"Costs are learned, and trials {missing} were completed without a "
        f"cost: report it with ax_costaware.report_cost(client, {missing[0]}, ...)."
    )


def deployment_figure(
    frame: pd.DataFrame, objective: Objective, cost_metric: str | None = None
) -> go.Figure:
    """Return the figure of a frame made by ``DeploymentAnalysis``.

    Args:
        frame: A row for each possible deployment, with the columns that ``DeploymentAnalysis``
            documents.
        objective: The objective.
        cost_metric: The metric of learned costs; None for declared costs.
    """
    figure = panels(_HEIGHT_PIXELS, legend=-0.2, top=40, rows=1)
    panel, x, y = Panel(figure), "expected_cost", "expected_value"
    text = "{control_set} {set}<br>cost {x:.6g}, expected value {y:.6g} ± {standard_deviation:.3g}"
    rows = frame.fillna({"control_set": ""})
    worth = rows["worth_it"]
    for name, shown, color in (
        ("dominated", rows[~worth], GREY),
        ("Pareto-optimal", rows[worth], BLUE),
    ):
        bars = {"array": 2 * shown["standard_deviation"]}
        panel.dots(shown, x, y, name, text, color=color, error_y=bars)
    step = {"line_shape": "hv", "line_width": 1, "showlegend": False}
    panel.line(rows[worth], x, y, None, color=DARK, **step)
    _cost_axis(panel, frame, cost_metric)
    panel.yaxis(title_text=value_title(objective, "Expected "))
    return figure


def _cost_axis(panel: Panel, frame: pd.DataFrame, cost_metric: str | None) -> None:
    title = cost_title("Expected cost of a trial", cost_metric)
    panel.xaxis(title_text=title, rangemode="nonnegative")
    low, high = float(frame["expected_cost"].min()), float(frame["expected_cost"].max())
    if 0 < low <= high / _LOG_AXIS_RATIO:
        panel.xaxis(**log_ticks(low, high))


def _front_figure(frame: pd.DataFrame, run: Run[Any]) -> go.Figure:
    """Return the figure of a front: a panel for each objective but the cost."""
    sides = [side for side in Front(run.method, run.problem()).sides if not side.is_cost]
    figure = panels(_FRONT_PIXELS * len(sides), top=40, rows=len(sides), vertical_spacing=0.12)
    for row, side in enumerate(sides, 1):
        panel, name = Panel(figure, row), side.name
        bars = {"array": 2 * frame[f"sd {name}"]}
        text = f"{{set}}<br>cost {{x:.6g}}, expected {name} {{y:.6g}}"
        values = f"expected {name}"
        options = {"error_y": bars, "showlegend": False}
        panel.dots(frame, "expected_cost", values, name, text, color=BLUE, **options)
        panel.yaxis(title_text=value_title(Objective(name, side.scale.sign < 0), "Expected "))
        _cost_axis(panel, frame, run.method.trial_costs.metric)
    return figure
