"""Tables of ``docs/measured.md`` that sum up the panel, and its figure, from the kept runs.

    python benchmarks/measured.py       # prints the tables, in seconds
    make gallery                        # draws the figure, with the others of the documentation

The kept runs are those of ``panel.py``.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import panel_cells
import plotly.graph_objects as go
from panel import END, HALF, RUNS, Losses, cost_to_reach, losses_of, summary
from plotly.colors import qualitative

SEEDS = 16
FLOOR = 0.001
"""Logarithms are of losses of at least this."""

FORMER = "EI over the best mean"
"""The default before it looked for noise; two slow cells have runs of it only."""

CHOICES = [
    ("Matern-5/2 kernel", "squared-exponential", "today's priors", "squared-exponential kernel"),
    ("BoTorch's priors until 2024", "its priors of today", FORMER, "today's priors"),
    ("cost model with a trend", "a GP alone", FORMER, "costs without a trend"),
    ("noisy EI where noise is found", "EI over the best mean", "default", FORMER),
]
"""What was chosen, what it was compared with, and the names of both in the panel."""

Array = npt.NDArray[np.float64]
Pairs = dict[str, tuple[Array, Array]]
"""Losses of two methods with the same seeds, by cell."""


def groups() -> dict[str, list[str]]:
    """Cells by group; two of the first twenty-six are among those with noise as well."""
    cells = panel_cells.CELLS
    first = [
        name
        for name in cells
        if not name.startswith(("noisy", "mixed")) or name in ("noisy hartmann3", "noisy hartmann4")
    ]
    return {
        "developed on": [name for name in first if not cells[name].confirms],
        "held out": [name for name in first if cells[name].confirms],
        "with noise": [name for name in cells if name.startswith("noisy")],
        "mixed inputs": [name for name in cells if name.startswith("mixed")],
    }


def pairs(losses: Losses, cells: list[str], method: str, rival: str) -> Pairs:
    """Losses of both methods where both were run."""
    found: Pairs = {}
    for cell in cells:
        if (cell, method) in losses and (cell, rival) in losses:
            seeds = min(len(losses[cell, method]), len(losses[cell, rival]), SEEDS)
            found[cell] = losses[cell, method][:seeds], losses[cell, rival][:seeds]
    return found


def against_plain_ax(losses: Losses) -> dict[str, Pairs]:
    """The default beside plain Ax, by group."""
    return {
        group: pairs(losses, cells, FORMER, "plain Ax")
        | pairs(losses, cells, "default", "plain Ax")
        for group, cells in groups().items()
    }


def verdict_table(losses: Losses) -> str:
    """Cells in which the default is ahead of plain Ax, level with it, and behind.

    Ahead and behind are by more than a standard error of the difference.
    """
    lines = [
        "| cells | | half of the budget | the whole budget | reaches plain Ax's final loss at |",
        "|---|---|---|---|---|",
    ]
    for group, cells in against_plain_ax(losses).items():
        counts = []
        for level in (HALF, END):
            signs = [_sign(summary(ours, level), summary(ax, level)) for ours, ax in cells.values()]
            counts.append(" / ".join(str(signs.count(sign)) for sign in (-1, 0, 1)))
        reach = np.median([cost_to_reach(o, summary(ax, END)[0]) for o, ax in cells.values()])
        shown = f"{100 * reach:.0f} % of the budget"
        lines.append(f"| {group} | {len(cells)} | {counts[0]} | {counts[1]} | {shown} |")
    return "\n".join(lines)


def _sign(one: tuple[float, float], other: tuple[float, float]) -> int:
    within = math.hypot(one[1], other[1])
    return int(one[0] > other[0] + within) - int(one[0] < other[0] - within)


def choice_table(losses: Losses) -> str:
    """Change of the logarithm of the loss by each choice: mean and standard error of the cells."""
    lines = ["| chosen | compared with | cells | half | end |", "|---|---|---|---|---|"]
    found = groups()
    quiet = {
        name: None
        for group in ("developed on", "held out", "mixed inputs")
        for name in found[group]
        if not name.startswith("noisy")
    }
    for chosen, compared, method, rival in CHOICES:
        if method == "default":
            parts = {" with noise": found["with noise"], " without noise": list(quiet)}
        else:
            parts = {"": [*found["developed on"], *found["held out"]]}
        for title, cells in parts.items():
            both = pairs(losses, cells, method, rival)
            half, end = (_change(both, level) for level in (HALF, END))
            lines.append(f"| {chosen} | {compared} | {len(both)}{title} | {half} | {end} |")
    return "\n".join(lines)


def _change(both: Pairs, level: int) -> str:
    means = [
        np.log(np.maximum(one[:, level], FLOOR) / np.maximum(other[:, level], FLOOR)).mean()
        for one, other in both.values()
    ]
    return f"{np.mean(means):+.2f} ± {np.std(means, ddof=1) / math.sqrt(len(means)):.2f}"


def panel() -> go.Figure:
    """Mean loss of the default over that of plain Ax, in every cell, at half and at the end."""
    drawn = go.Figure()
    losses = losses_of(RUNS.rows())
    shown: set[str] = set()
    for colour, (group, cells) in zip(
        qualitative.Dark2, against_plain_ax(losses).items(), strict=False
    ):
        new = {cell: both for cell, both in cells.items() if cell not in shown}
        shown |= set(new)
        for level, symbol, title in ((HALF, "circle-open", "half"), (END, "circle", "all")):
            drawn.add_scatter(
                x=list(new),
                y=[
                    max(summary(ours, level)[0], FLOOR) / max(summary(ax, level)[0], FLOOR)
                    for ours, ax in new.values()
                ],
                mode="markers",
                marker={"color": colour, "symbol": symbol, "size": 9},
                name=f"{group}, {title}",
            )
    drawn.add_hline(y=1, line_width=1)
    drawn.update_yaxes(title="loss / loss of plain Ax", type="log", dtick=1)
    drawn.update_xaxes(tickangle=-60)
    drawn.update_layout(
        template="plotly_white",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        margin={"l": 60, "r": 10, "t": 10, "b": 120},
    )
    return drawn


if __name__ == "__main__":
    kept = losses_of(RUNS.rows())
    print(verdict_table(kept), choice_table(kept), sep="\n\n")
