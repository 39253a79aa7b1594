"""Stopping at a price beside spending everything: control sets and averages.

A run spends its budget and records before each decision what further trials are worth and how good
the recommendation is. The price does not change which trial comes next, so one run says where it
would have ended at each price. Compared is the regret plus the price of what was spent, in standard
deviations of the objective; at the prices the whole budget is worth 0.1, 0.3, 1 or 3 of these.

Control sets: the cells of the panel. Functionals: problems of ``averages.py``. Hyperparameters are
fitted.

    python benchmarks/stopping.py                 # half a CPU hour
    python benchmarks/stopping.py --seeds 14 20   # other seeds: from, and up to
    python benchmarks/stopping.py --tables        # what was run

Finished runs are kept in ``benchmarks/results/partial``, the table in
``benchmarks/results/stopping.md``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import averages
import numpy as np
from kept_runs import RESULTS, keep, path_of, read, run_all
from panel_sets import CELLS, incumbent_of
from panel_sets import trials as trials_of_sets

from ax_costaware.core import Simulation
from ax_costaware.methods.stopping import IN_A_ROW

PRICES = (0.1, 0.3, 1.0, 3.0)
"""What the whole budget is worth, in standard deviations of the objective."""

AVERAGES = {
    "linear": 40.0,
    "cosine_wide": 40.0,
    "two_hills": 40.0,
    "tree linear": 60.0,
    "tree two_hills": 60.0,
}
"""Budgets of the problems of averages, whose objectives have standard deviation 1."""

_LEAST = 1e-12
"""A price that turns no trial away."""

Step = tuple[float, float, float | None]
"""What was spent before a decision, the regret of the recommendation, and what further trials are
worth per unit of cost; None where nothing was recorded."""

Task = tuple[str, int]


def _sets(name: str, seed: int) -> Iterator[Step]:
    """A run on a cell of control sets, in standard deviations of its objective."""
    cell = CELLS[name]

    def regret(simulation: Simulation) -> float:
        return (cell.best - incumbent_of(cell, simulation)) / cell.spread

    spent = 0.0
    for simulation, decision, before, charge in trials_of_sets(cell, "default", seed, lmbda=_LEAST):
        worth = decision.details.get("worth_per_cost")
        if worth is not None:
            yield before, regret(simulation), worth / cell.spread
        spent = before + charge
    yield spent, regret(simulation), None


def _averages(name: str, seed: int) -> Iterator[Step]:
    """A run on a problem of averages."""
    for step in averages.steps(name, seed, AVERAGES[name], lmbda=_LEAST):
        worth = None if step.decision is None else step.decision.details.get("worth_per_cost")
        if worth is not None or step.decision is None:
            yield step.spent, step.regret(name), worth


def _key(task: Task) -> str:
    return f"stopping_{task[0].replace(',', '')}_{task[1]}"


def _run(task: Task) -> None:
    """Run one seed and keep it."""
    averages.quiet()
    started, (name, seed) = time.process_time(), task
    steps = list((_averages if name in AVERAGES else _sets)(name, seed))
    keep(_key(task), {"steps": steps, "cpu_s": time.process_time() - started})


def _totals(task: Task, price: float) -> tuple[float, float, float, float]:
    """Of a run at a price: where it ends, with everything, at best, and the share that it spends.

    The first three are regret plus price.
    """
    name, steps = task[0], read(_key(task))["steps"]
    budget = AVERAGES[name] if name in AVERAGES else CELLS[name].budget
    lmbda = price / budget
    totals = [regret + lmbda * spent for spent, regret, _ in steps]
    low = [worth is not None and worth <= lmbda for _, _, worth in steps]
    ends = (
        i for i in range(len(steps)) if i + 1 >= IN_A_ROW and all(low[i + 1 - IN_A_ROW : i + 1])
    )
    end = next(ends, len(steps) - 1)
    return totals[end], totals[-1], min(totals), steps[end][0] / steps[-1][0]


def tables(names: list[str]) -> None:
    """Print what was run, and keep it."""
    lines = [
        "Regret plus price of what was spent, where the run ends at the price / spending all / at",
        "best, and the share of the budget that is spent; by what the whole budget is worth, in",
        "standard deviations of the objective.",
        "",
        f"| cell | runs | {' | '.join(f'{price:g}' for price in PRICES)} |",
        "|---|---" + "|---" * len(PRICES) + "|",
    ]
    means = []
    for name in names:
        kept = [(name, seed) for seed in range(100) if path_of(_key((name, seed))).exists()]
        if not kept:
            continue
        found = np.array([[_totals(task, price) for price in PRICES] for task in kept]).mean(axis=0)
        means.append(found)
        cells = " | ".join("{:.2f} / {:.2f} / {:.2f}, {:.0%}".format(*row) for row in found)
        lines.append(f"| {name} | {len(kept)} | {cells} |")
    cells = " | ".join("{:.2f} / {:.2f} / {:.2f}, {:.0%}".format(*row) for row in np.mean(means, 0))
    lines.append(f"| mean | | {cells} |")
    text = "\n".join(lines) + "\n"
    print(text)
    (RESULTS / "stopping.md").write_text(text)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    names = [*AVERAGES, *CELLS]
    developing = [*AVERAGES, *(name for name, cell in CELLS.items() if not cell.confirms)]
    parser.add_argument("--cells", nargs="+", choices=names, default=developing)
    parser.add_argument("--seeds", nargs=2, type=int, default=(10, 14))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--tables", action="store_true", help="only summarise what was run")
    args = parser.parse_args()
    if not args.tables:
        tasks = [(name, seed) for seed in range(*args.seeds) for name in args.cells]
        run_all(_run, tasks, _key, args.processes, "stopping")
    tables(args.cells)


if __name__ == "__main__":
    main()
