"""The demonstration's figure: what one run used and measured, and what all runs came to.

As HTML by Plotly, and as PNG by Matplotlib, because Plotly needs a browser for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from plotly.subplots import make_subplots

from demo.feedback.outcome import LABELS, OURS, Run
from demo.feedback.training import BOUNDS

COLORS = dict(zip(LABELS, ("#0072B2", "#333333", "#D55E00", "#999999"), strict=True))
UNITS = {"rotation": "degrees", "shift": "pixels", "noise": "standard deviation", "dropout": ""}
USED = (
    "What one run used (filled: measured, dotted line: what its camera does), and what all came to"
)


def write_html(runs: Sequence[Run], path: Path) -> None:
    """Write the interactive figure, which needs no network to be looked at."""
    shown = next(run for run in runs if run.method == OURS)
    names = list(BOUNDS)
    figure = make_subplots(
        rows=2,
        cols=3,
        subplot_titles=[*names[:2], "test accuracy", *names[2:], "rounds measured so far"],
    )
    rounds = np.arange(1, len(shown.measured) + 1)
    for number, (name, bounds) in enumerate(BOUNDS.items()):
        place = {"row": 1 + number // 2, "col": 1 + number % 2}
        for is_measured, symbol in ((True, "circle"), (False, "circle-open")):
            chosen = np.array(shown.measured) == is_measured
            figure.add_scatter(
                x=rounds[chosen],
                y=np.array(shown.settings)[chosen, number],
                mode="markers",
                marker={"color": COLORS[OURS], "symbol": symbol, "size": 5},
                name="measured" if is_measured else "not measured",
                showlegend=number == 0,
                **place,
            )
        if number < len(shown.camera):
            figure.add_hline(y=shown.camera[number], line_dash="dot", **place)
        figure.update_yaxes(range=_padded(bounds), title_text=UNITS[name], **place)
        figure.update_xaxes(title_text="round", **place)
    for method, label in LABELS.items():
        of_method = [run for run in runs if run.method == method]
        figure.add_box(
            y=[run.accuracy for run in of_method],
            name=label,
            marker_color=COLORS[method],
            boxpoints="all",
            row=1,
            col=3,
        )
        figure.add_scatter(
            x=rounds,
            y=_mean_count(of_method),
            line_color=COLORS[method],
            name=label,
            showlegend=False,
            row=2,
            col=3,
        )
    figure.update_xaxes(showticklabels=False, row=1, col=3)
    figure.update_xaxes(title_text="round", row=2, col=3)
    figure.update_layout(
        template="plotly_white", height=700, legend={"orientation": "h", "y": -0.12}, title=USED
    )
    path.write_text(figure.to_html(include_plotlyjs=True), encoding="utf-8")


def write_png(runs: Sequence[Run], path: Path) -> None:
    """Write the figure as a picture."""
    shown = next(run for run in runs if run.method == OURS)
    figure = Figure(figsize=(15, 8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 3)
    rounds = np.arange(1, len(shown.measured) + 1)
    settings = np.array(shown.settings)
    for number, (name, bounds) in enumerate(BOUNDS.items()):
        place = axes[number // 2, number % 2]
        place.scatter(
            rounds,
            settings[:, number],
            s=14,
            facecolors=np.where(shown.measured, COLORS[OURS], "none"),
            edgecolors=COLORS[OURS],
            linewidths=0.8,
        )
        if number < len(shown.camera):
            place.axhline(shown.camera[number], color="#333333", ls=":")
        place.set(title=name, xlabel="round", ylabel=UNITS[name], ylim=_padded(bounds))
    above, below = axes[0, 2], axes[1, 2]
    for position, (method, label) in enumerate(LABELS.items()):
        of_method = [run for run in runs if run.method == method]
        values = [run.accuracy for run in of_method]
        above.scatter([position] * len(values), values, s=16, color=COLORS[method], alpha=0.5)
        above.hlines(np.mean(values), position - 0.3, position + 0.3, color=COLORS[method], lw=3)
        below.plot(rounds, _mean_count(of_method), color=COLORS[method], lw=2, label=label)
    above.set(title="test accuracy: a dot per seed, a bar for the mean", xticks=[])
    below.set(title="rounds measured so far, mean", xlabel="round")
    below.legend(loc="upper left", fontsize=8)
    for place in axes.flat:
        place.grid(alpha=0.3)
        place.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{USED} (seed {shown.seed})")
    figure.savefig(path, dpi=120)


def _mean_count(runs: Sequence[Run]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Rounds measured so far, mean over runs."""
    counts: np.ndarray[tuple[int], np.dtype[np.float64]] = np.mean(
        [np.cumsum(run.measured) for run in runs], axis=0
    )
    return counts


def _padded(bounds: tuple[float, float]) -> tuple[float, float]:
    margin = 0.04 * (bounds[1] - bounds[0])
    return bounds[0] - margin, bounds[1] + margin
