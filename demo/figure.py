"""The demonstration's figure: what would be deployed at what cost, and what was controlled when.

The same two panels twice: interactive as HTML by Plotly, and as PNG by Matplotlib, because Plotly
needs a browser to write a PNG.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import plotly.graph_objects as go
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from plotly.subplots import make_subplots

from demo.outcome import LABELS, Run

COLORS = {"control_sets": "#0072B2", "full_control": "#009E73", "plain_ax": "#D55E00"}
COST = "cost spent"
VALUE_TITLE = "True expected margin of what would be deployed"
BEST = "best possible"


def write_html(runs: Sequence[Run], path: Path) -> None:
    """Write the interactive figure, which needs no network to be looked at."""
    figure = make_subplots(
        cols=2, horizontal_spacing=0.18, subplot_titles=(VALUE_TITLE, _choice_title(runs))
    )
    for method, color in COLORS.items():
        for run in _of(method, runs):
            figure.add_scatter(
                x=[spent for spent, _ in run.values],
                y=[value for _, value in run.values],
                mode="lines",
                line={"color": color, "width": 1, "shape": "hv"},
                opacity=0.3,
                name=f"{LABELS[method]}, seed {run.seed}",
                legendgroup=method,
                showlegend=False,
                col=1,
                row=1,
            )
        spent, values = mean_values(_of(method, runs))
        figure.add_scatter(
            x=spent,
            y=values,
            mode="lines",
            line={"color": color, "width": 3, "shape": "hv"},
            name=LABELS[method],
            legendgroup=method,
            col=1,
            row=1,
        )
    figure.add_hline(y=runs[0].best_possible, line_dash="dot", annotation_text=BEST, col=1, row=1)
    shown = _shown(runs)
    figure.add_scatter(
        x=[spent for spent, _ in shown.chosen],
        y=[control_set for _, control_set in shown.chosen],
        mode="markers",
        marker={"color": COLORS["control_sets"], "size": 8, "opacity": 0.6},
        name="trial",
        showlegend=False,
        col=2,
        row=1,
    )
    figure.update_xaxes(title_text=COST, rangemode="tozero")
    figure.update_yaxes(
        categoryorder="array",
        categoryarray=shown.control_sets,
        automargin=True,
        col=2,
    )
    figure.update_layout(
        template="plotly_white",
        legend={"orientation": "h", "y": -0.15, "title": _legend_title(runs)},
        margin={"t": 60},
    )
    go.Figure(figure).write_html(path, include_plotlyjs=True)


def write_png(runs: Sequence[Run], path: Path) -> None:
    """Write the figure as a picture."""
    figure = Figure(figsize=(13, 5), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for method, color in COLORS.items():
        for run in _of(method, runs):
            left.step(*zip(*run.values, strict=True), where="post", color=color, lw=0.8, alpha=0.35)
        spent, values = mean_values(_of(method, runs))
        left.step(spent, values, where="post", color=color, lw=2.5, label=LABELS[method])
    left.axhline(runs[0].best_possible, color="black", ls=":", label=BEST)
    left.set(title=VALUE_TITLE, xlabel=COST)
    left.legend(loc="lower right", title=_legend_title(runs))
    shown = _shown(runs)
    names = shown.control_sets
    right.scatter(
        [spent for spent, _ in shown.chosen],
        [names.index(control_set) for _, control_set in shown.chosen],
        color=COLORS["control_sets"],
        alpha=0.6,
        edgecolors="none",
    )
    right.set_yticks(range(len(names)), names)
    right.set(title=_choice_title(runs), xlabel=COST)
    for axes in (left, right):
        axes.set_xlim(left=0)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def mean_values(runs: Sequence[Run]) -> tuple[list[float], list[float]]:
    """Costs, and the mean over ``runs`` of what would be deployed at each; where all have one."""
    start = max(run.values[0][0] for run in runs)
    costs = sorted({cost for run in runs for cost, _ in run.values if cost >= start})
    means = [sum(_value_at(run, cost) for run in runs) / len(runs) for cost in costs]
    return costs, means


def _value_at(run: Run, cost: float) -> float:
    return next(value for spent, value in reversed(run.values) if spent <= cost)


def _of(method: str, runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.method == method]


def _shown(runs: Sequence[Run]) -> Run:
    """The run whose trials the right panel shows."""
    return _of("control_sets", runs)[0]


def _legend_title(runs: Sequence[Run]) -> str:
    return f"thick: mean of {len({run.seed for run in runs})} seeds"


def _choice_title(runs: Sequence[Run]) -> str:
    return f"What each trial controlled (seed {_shown(runs).seed})"
