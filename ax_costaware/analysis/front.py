"""Ax analysis of several objectives: the front, and its hypervolume against the cost spent.

Values are posterior means of the present model, in the units of the objectives. Costs are in the
user's own unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import pandas as pd
from ax.core.analysis_card import AnalysisCard
from plotly import graph_objects as go

from ax_costaware.acquisition.hypervolume_improvement import hypervolume
from ax_costaware.analysis.figures import BUDGET, DARK, GREY, Panel, cost_title, panels, short_name
from ax_costaware.analysis.method_analysis import MethodAnalysis, Run
from ax_costaware.methods.cost_aware import CostAware
from ax_costaware.methods.cost_aware.front import Front
from ax_costaware.methods.cost_aware.several import described

_HEIGHT_PIXELS = 760


@final
class FrontAnalysis(MethodAnalysis[CostAware]):
    """Front of several objectives, with uncertainty and cost, and hypervolume against cost.

    The card's data frame has one row per trial with an outcome, by trial index:

    - ``trial_index``; ``cumulative_cost``: charge of this and all earlier trials;
    - ``expected <name>``, ``sd <name>``: each objective by the present model;
    - ``expected_cost``: of a trial there; NaN if it is unknown;
    - ``on_front``: True if no other feasible trial is better in all objectives;
    - ``hypervolume``: of the front of this and all earlier trials by the present model, above the
      thresholds, or above a reference point that is inferred from the front.
    """

    title = "Front, and hypervolume against cost"
    method_class = CostAware
    takes_front = True

    def _missing(self, run: Run[CostAware]) -> str | None:
        if not run.has_front:
            return "The experiment has one objective."
        return super()._missing(run)

    def _card(self, run: Run[CostAware]) -> AnalysisCard:
        front = Front(run.method, run.problem())
        if not front.deployable:
            return self._card_of("No trial is in the search space.", pd.DataFrame(), go.Figure())
        frame = _frame(run, front)
        names = [side.name for side in front.sides]
        figure = front_figure(frame, names, [s.scale.sign < 0 for s in front.sides], run.method)
        last = frame.iloc[-1]
        text = (
            f"{int(frame['on_front'].sum())} of {len(frame)} trials are on the front; its "
            f"hypervolume is {last['hypervolume']:.6g}, after a cost of "
            f"{last['cumulative_cost']:.6g}. Bars are two posterior standard deviations."
        )
        if len(names) > len(_SHOWN):
            text += f" Drawn are the first two of the objectives {names}."
        return self._card_of(text, frame, figure)


_SHOWN = (0, 1)
"""Positions of the objectives that are drawn."""


def _frame(run: Run[CostAware], front: Front) -> pd.DataFrame:
    means, deviations = described(front, front.X)
    ledger = run.frame().set_index("trial_index")["cumulative_cost"]
    rows = [row for row, _ in front.deployable]
    costs = run.method.trial_costs.expected(front.problem, rows)
    found = []
    for i, (_, index) in enumerate(front.deployable):
        useful = [k for k in range(i + 1) if front.is_feasible[k]]
        volume = hypervolume(front.moments[0][useful], front.ref_point) if useful else 0.0
        found.append(
            {
                "trial_index": index,
                "cumulative_cost": float(ledger[index]),
                **{f"expected {name}": value for name, value in means[i].items()},
                **{f"sd {name}": value for name, value in deviations[i].items()},
                "expected_cost": costs[i],
                "on_front": i in front.rows,
                "hypervolume": front.unit * volume,
            }
        )
    return pd.DataFrame(found).astype({"expected_cost": float})


def front_figure(
    frame: pd.DataFrame, names: Sequence[str], minimized: Sequence[bool], method: CostAware
) -> go.Figure:
    """Return the figure of a frame made by ``FrontAnalysis``.

    Args:
        frame: The frame.
        names: Names of the objectives; the first two are drawn.
        minimized: True for each objective that is minimized.
        method: The method, which has the budget and the metric of learned costs.
    """
    figure = panels(_HEIGHT_PIXELS, rows=2, row_heights=[0.6, 0.4], vertical_spacing=0.14)
    upper, lower = Panel(figure), Panel(figure, 2)
    x, y = (f"expected {names[i]}" for i in _SHOWN)
    bars = {
        axis: {"array": 2 * frame[f"sd {names[i]}"], "color": GREY, "thickness": 1}
        for i, axis in zip(_SHOWN, ("error_x", "error_y"), strict=True)
    }
    best = frame[frame["on_front"]].sort_values(x)
    upper.line(best, x, y, "front", color=DARK, line_width=1)
    title = cost_title("Cost of a trial", method.trial_costs.metric)
    upper.add(
        "scatter",
        frame,
        x,
        y,
        "trials",
        "trial {trial_index}: {x:.6g}, {y:.6g}<br>cost of a trial {expected_cost:.6g}",
        mode="markers",
        marker={
            "color": frame["expected_cost"].tolist(),
            "colorscale": "Viridis",
            "size": [11 if on else 7 for on in frame["on_front"]],
            "colorbar": {"title": {"text": title}, "len": 0.6, "y": 0.72},
        },
        **bars,
    )
    for i, axis in zip(_SHOWN, (upper.xaxis, upper.yaxis), strict=True):
        better = "lower" if minimized[i] else "higher"
        axis(title_text=f"Expected {short_name(names[i])} ({better} is better)")
    text = "after trial {trial_index}: cost {x:.6g}, hypervolume {y:.6g}"
    cost, volume = "cumulative_cost", "hypervolume"
    lower.line(frame, cost, volume, "hypervolume", text, color=DARK, line_shape="hv")
    budget = lower.spent_axis("Cost spent", frame[cost], method.budget)
    if budget is not None:
        figure.add_vline(x=budget, annotation_position="top", **BUDGET, **lower.place)
    lower.yaxis(title_text="Hypervolume", rangemode="tozero")
    return figure
