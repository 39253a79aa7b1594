"""The panel: what the defaults are worth beside their rivals, on many problems.

Trials that cost differently, and control sets, in cells of (problem, law of costs, budget). Half of
the cells are for developing defaults; the others are kept aside, and run once a default was chosen.
Hyperparameters are fitted. Where Ax is not what is measured there is no Ax: "plain Ax" is its model
and its acquisition function in the same loop.

    python benchmarks/panel.py --develop                 # hours on two cores; resumable
    python benchmarks/panel.py --develop --sets          # the same for control sets
    python benchmarks/panel.py --cells ackley4 --methods default "plain Ax" --seeds 4
    python benchmarks/panel.py --confirm                 # the cells that are kept aside
    python benchmarks/panel.py --table                   # of all that was run

Finished runs are kept in ``benchmarks/results/panel.jsonl`` and are not run again; the table goes
to ``benchmarks/results/panel_trials.md`` (``panel_sets.md``), the figure (loss against cost, a
panel for each cell) to ``panel_trials.html``. Losses are in units of the distance from the best
value to the median one; for control sets, of the recommended query, in standard deviations.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import panel_cells
import panel_sets
import panel_trials
import plotly.graph_objects as go
from kept_runs import RESULTS, KeptRuns
from plotly.colors import qualitative
from plotly.subplots import make_subplots

CELLS: dict[str, panel_cells.Cell | panel_sets.SetCell] = {
    **panel_cells.CELLS,
    **panel_sets.CELLS,
}
RUNS = KeptRuns("panel")
SEEDS = 16
HALF, END = 9, 19
"""Places of the half and of the end of the budget among ``panel_trials.LEVELS``."""

REFERENCES = ("plain Ax", "largest control sets")
"""What a user has without this package: for trials that cost differently, and for control sets."""

Losses = dict[tuple[str, str], npt.NDArray[np.float64]]
"""By cell and method: seeds by levels."""


class Task(NamedTuple):
    """One run."""

    cell: str
    method: str
    seed: int


def run(task: Task) -> dict[str, Any]:
    """Make one run."""
    cell = CELLS[task.cell]
    if isinstance(cell, panel_sets.SetCell):
        return panel_sets.simulate(cell, task.method, task.seed)
    return panel_trials.simulate(cell, task.method, task.seed)


def losses_of(rows: Iterable[dict[str, Any]]) -> Losses:
    """The losses of runs, in the order of their seeds."""
    by_method: defaultdict[tuple[str, str], dict[int, list[float]]] = defaultdict(dict)
    for row in rows:
        by_method[row["cell"], row["method"]][row["seed"]] = row["values"]
    return {
        key: -np.array([values for _, values in sorted(runs.items())])
        for key, runs in by_method.items()
    }


def summary(losses: npt.NDArray[np.float64], level: int) -> tuple[float, float]:
    """Mean and standard error of the loss at a level."""
    at = losses[:, level]
    return float(at.mean()), float(at.std(ddof=1) / math.sqrt(len(at))) if len(at) > 1 else 0.0


def cost_to_reach(losses: npt.NDArray[np.float64], target: float) -> float:
    """Part of the budget at which the mean loss is first no larger than a target; else infinity.

    Between two levels the loss is taken to fall in a straight line.
    """
    mean, levels = losses.mean(axis=0), panel_trials.LEVELS
    reached = np.flatnonzero(mean <= target)
    if not len(reached):
        return math.inf
    part = slice(max(int(reached[0]) - 1, 0), int(reached[0]) + 1)
    return float(np.interp(-target, -mean[part], levels[part]))


def table(losses: Losses, cells: Sequence[str], methods: Sequence[str]) -> str:
    """The table of cells by methods, at half and at the end of the budget."""
    lines = []
    for level, title in ((HALF, "half of the budget"), (END, "the whole budget")):
        lines += [f"## Loss with {title}", "", "| cell | seeds | " + " | ".join(methods) + " |"]
        lines.append("|---" * (len(methods) + 2) + "|")
        for cell in cells:
            found = {m: losses[cell, m] for m in methods if (cell, m) in losses}
            if not found:
                continue
            best = min(summary(values, level)[0] for values in found.values())
            entries = []
            for method in methods:
                if method not in found:
                    entries.append("")
                    continue
                mean, error = summary(found[method], level)
                mark = "**" if mean == best else ""
                entries.append(f"{mark}{mean:.4f}{mark} ± {error:.4f}")
            seeds = min(len(values) for values in found.values())
            lines.append(f"| {cell} | {seeds} | " + " | ".join(entries) + " |")
        lines.append("")
    return "\n".join([*lines, *verdicts(losses, cells, methods)])


def verdicts(losses: Losses, cells: Sequence[str], methods: Sequence[str]) -> list[str]:
    """Of each method: cells in which it is level with the best, ahead of plain Ax and behind."""
    lines = [
        "## Verdicts",
        "",
        "Level: within one standard error of every rival's loss with the same seeds, or better. "
        "Ahead of plain Ax and behind: by more than one (of the difference).",
        "",
        "| method | level, half | level, end | ahead of plain Ax | behind | cost to its end |",
        "|---|---|---|---|---|---|",
    ]
    for method in methods:
        mine = [cell for cell in cells if (cell, method) in losses]
        level = {
            at: sum(_is_level(losses, c, method, methods, at) for c in mine) for at in (HALF, END)
        }
        ahead = behind = 0
        parts = []
        for cell in mine:
            reference = next((r for r in REFERENCES if (cell, r) in losses), method)
            if method == reference:
                continue
            (mean, error), (other, its) = (
                summary(losses[cell, m], END) for m in (method, reference)
            )
            within = math.hypot(error, its)
            ahead += mean < other - within
            behind += mean > other + within
            parts.append(cost_to_reach(losses[cell, method], other))
        reach = f"{float(np.median(parts)):.2f}" if parts else ""
        lines.append(
            f"| {method} | {level[HALF]} of {len(mine)} | {level[END]} of {len(mine)} | {ahead} | "
            f"{behind} | {reach} |"
        )
    return lines


def _is_level(losses: Losses, cell: str, method: str, methods: Sequence[str], at: int) -> bool:
    own = losses[cell, method]
    for rival in (losses[cell, m] for m in methods if m != method and (cell, m) in losses):
        seeds = min(len(own), len(rival))
        (mean, error), (other, its) = (summary(each[:seeds], at) for each in (own, rival))
        if mean > other + math.hypot(error, its):
            return False
    return True


def figure(losses: Losses, cells: Sequence[str], methods: Sequence[str]) -> go.Figure:
    """Mean loss against the part of the budget that is spent, a panel for each cell."""
    columns = 4
    rows = math.ceil(len(cells) / columns)
    drawn = make_subplots(rows=rows, cols=columns, subplot_titles=cells)
    shown: set[str] = set()
    for place, cell in enumerate(cells):
        row, column = divmod(place, columns)
        for colour, method in zip(qualitative.Dark24, methods, strict=False):
            if (cell, method) not in losses:
                continue
            drawn.add_scatter(
                x=panel_trials.LEVELS,
                y=np.maximum(losses[cell, method].mean(axis=0), 1e-6),
                name=method,
                legendgroup=method,
                showlegend=method not in shown,
                line={"color": colour, "width": 3 if method == "default" else 1.5},
                row=row + 1,
                col=column + 1,
            )
            shown.add(method)
    drawn.update_yaxes(type="log")
    drawn.update_layout(
        height=260 * rows, width=1200, title="Mean loss against the part of the budget spent"
    )
    return drawn


def main() -> None:
    """Run what is missing, and write the table and the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--develop", action="store_true", help="cells for developing")
    parser.add_argument("--confirm", action="store_true", help="cells that are kept aside")
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=[])
    known = [*panel_trials.METHODS, *panel_trials.VARIANTS, *panel_sets.METHODS]
    parser.add_argument("--methods", nargs="+", choices=known, default=[])
    parser.add_argument("--sets", action="store_true", help="control sets, else the other trials")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="run nothing")
    chosen = parser.parse_args()
    usual = list(panel_sets.METHODS if chosen.sets else panel_trials.METHODS)
    possible = usual if chosen.sets else [*usual, *panel_trials.VARIANTS]
    methods = [name for name in possible if name in (chosen.methods or usual)]
    cells = [
        name
        for name, cell in (panel_sets.CELLS if chosen.sets else panel_cells.CELLS).items()
        if name in chosen.cells or (chosen.confirm if cell.confirms else chosen.develop)
    ]
    if not chosen.table:
        tasks = [Task(c, m, s) for s in range(chosen.seeds) for c in cells for m in methods]
        RUNS.run_missing(run, tasks, Task._asdict, chosen.processes)
    losses = losses_of(RUNS.rows())
    kind = "sets" if chosen.sets else "trials"
    all_cells = panel_sets.CELLS if chosen.sets else panel_cells.CELLS
    done = [name for name in cells or all_cells if any(cell == name for cell, _ in losses)]
    text = table(losses, done, methods)
    print(text)
    (RESULTS / f"panel_{kind}.md").write_text(text + "\n")
    drawn = figure(losses, done, methods)
    drawn.write_html(RESULTS / f"panel_{kind}.html", include_plotlyjs="cdn")


if __name__ == "__main__":
    main()
