"""The demonstration's figures: accuracy against seconds, and why the search stopped.

As HTML the comparison stands above the card of ``StoppingAnalysis``; as PNG, drawn by Matplotlib
because Plotly needs a browser for one, the comparison stands beside what that card shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from demo.gittins.outcome import GITTINS, LABELS, Search

COLORS = {GITTINS: "#0072B2", "plain_ax": "#D55E00", "random": "#999999"}
SECONDS = "CPU seconds of training"
ACCURACY = "best cross-validated accuracy so far"
SHOWN_BELOW_BEST = 0.03
"""Accuracy below the best one at which the axis ends; the first trials lie far below."""

PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Hyperparameters at the cost of training</title></head>
<body style="font-family: sans-serif; max-width: 1100px; margin: auto">
<h2>Accuracy for the seconds spent</h2>
{comparison}
<h2>Why the search stopped</h2>
<p>{stopped}</p>
{card}
</body>
</html>
"""


def write_html(searches: Sequence[Search], path: Path) -> None:
    """Write the interactive figures, which need no network to be looked at."""
    shown = _shown(searches)
    page = PAGE.format(
        comparison=_comparison(searches).to_html(full_html=False, include_plotlyjs=True),
        stopped=shown.stopped,
        card=go.Figure(shown.card).to_html(full_html=False, include_plotlyjs=False),
    )
    path.write_text(page, encoding="utf-8")


def _comparison(searches: Sequence[Search]) -> go.Figure:
    figure = go.Figure()
    labelled: set[str] = set()
    for search in searches:
        seconds, best = search.curve
        color = COLORS[search.method]
        common = {
            "legendgroup": search.method,
            "hovertext": f"{LABELS[search.method]}, seed {search.seed}",
        }
        figure.add_scatter(
            x=[*seconds, search.budget] if not search.stopped else seconds,
            y=[*best, best[-1]] if not search.stopped else best,
            mode="lines",
            line={"color": color, "width": 2, "shape": "hv"},
            name=LABELS[search.method],
            showlegend=search.method not in labelled,
            **common,
        )
        labelled.add(search.method)
        if search.stopped:
            figure.add_scatter(
                x=seconds[-1:],
                y=best[-1:],
                mode="markers",
                marker={"color": color, "size": 13, "symbol": "diamond"},
                name="stopped by itself",
                showlegend="stop" not in labelled,
                **common,
            )
            labelled.add("stop")
    top = max(search.best for search in searches)
    figure.update_xaxes(title_text=SECONDS, range=[0, 1.02 * searches[0].budget])
    figure.update_yaxes(title_text=ACCURACY, range=[top - SHOWN_BELOW_BEST, top + 0.002])
    figure.update_layout(template="plotly_white", height=420, margin={"t": 20})
    return figure


def write_png(searches: Sequence[Search], path: Path) -> None:
    """Write the figure as a picture."""
    figure = Figure(figsize=(15, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, middle, right = figure.subplots(1, 3)
    _draw_comparison(left, searches)
    history = _shown(searches).history
    if history is not None:
        _draw_decisions(middle, history)
        _draw_costs(right, history)
    for axes in (left, middle, right):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def _draw_comparison(axes: Axes, searches: Sequence[Search]) -> None:
    for search in searches:
        seconds, best = search.curve
        color = COLORS[search.method]
        first = next(s for s in searches if s.method == search.method) is search
        if search.stopped:
            axes.plot(
                seconds[-1], best[-1], "D", color=color, label="stopped by itself" * first, zorder=3
            )
        else:
            seconds, best = [*seconds, search.budget], [*best, best[-1]]
        axes.step(
            seconds,
            best,
            where="post",
            color=color,
            lw=1.8,
            label=LABELS[search.method] if first else "",
        )
    top = max(search.best for search in searches)
    axes.set_ylim(top - SHOWN_BELOW_BEST, top + 0.002)
    axes.set_xlim(0, 1.02 * searches[0].budget)
    axes.set(title="What was found for the seconds", xlabel=SECONDS, ylabel=ACCURACY)
    axes.legend(loc="lower right")


def _draw_decisions(axes: Axes, history: pd.DataFrame) -> None:
    rows = history.dropna(subset=["incumbent"])
    axes.plot(
        rows["trial_index"],
        rows["index"],
        "o-",
        ms=3,
        color=COLORS[GITTINS],
        label="largest Gittins index",
    )
    axes.plot(
        rows["trial_index"], rows["incumbent"], "o-", ms=3, color="#333333", label="incumbent"
    )
    end = rows.iloc[-1]
    axes.scatter(
        end["trial_index"],
        end["index"],
        s=120,
        marker="D",
        facecolors="none",
        edgecolors="#D55E00",
        linewidths=2,
        label="now",
    )
    late = rows[["index", "incumbent"]].iloc[len(rows) // 3 :].to_numpy()
    low, high = float(np.nanmin(late)), float(np.nanmax(late))
    margin = 0.1 * (high - low) or 0.1
    axes.set_ylim(low - margin, high + margin)
    axes.set(
        title="Is another trial worth its price?",
        xlabel="before trial",
        ylabel="log of the error rate (lower is better)",
    )
    axes.legend(loc="lower right")


def _draw_costs(axes: Axes, history: pd.DataFrame) -> None:
    rows = history.dropna(subset=["cost_lower", "reported_cost"])
    if rows.empty:  # The budget ended with the initial design, in which nothing is predicted.
        axes.set_axis_off()
        return
    middle = np.sqrt(rows["cost_lower"] * rows["cost_upper"])
    inside = rows["reported_cost"].between(rows["cost_lower"], rows["cost_upper"])
    axes.errorbar(
        rows["reported_cost"],
        middle,
        yerr=[middle - rows["cost_lower"], rows["cost_upper"] - middle],
        fmt="o",
        ms=4,
        lw=1,
        color=COLORS[GITTINS],
    )
    ends = [rows[["cost_lower", "reported_cost"]].to_numpy().min(), rows["cost_upper"].max()]
    axes.plot(ends, ends, color="#333333", ls=":")
    axes.set(
        title=f"Learned cost: {int(inside.sum())} of {len(rows)} within the predicted 95 %",
        xlabel="seconds measured",
        ylabel="seconds predicted",
        xscale="log",
        yscale="log",
    )


def _shown(searches: Sequence[Search]) -> Search:
    """The search whose decisions are shown."""
    return next(s for s in searches if s.method == GITTINS and s.history is not None)
