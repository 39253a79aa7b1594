"""Batches that share a setting: how the setting is chosen, by what was spent.

A plate has eight wells at one temperature, the first input. Setting up a plate costs 8, and each
well 1.
What is compared is the choice of the shared setting:

- together: by what the trials of a plate are worth together, and as many as are worth it (ours);
- full: the same, with full plates;
- first trial: the best single trial decides, and the others join it;
- random: a quasi-random setting;
- kept: one trial after the other, with 8 for each change of the setting (``SwitchingCost``).

    nice python benchmarks/shared_batches.py --seeds 8      # resumable: finished runs are kept
    python benchmarks/shared_batches.py --table

A regret is that of the best outcome so far, in units of the distance from the best value to the
median one. Rows are kept in ``benchmarks/results/shared_batches.jsonl``, the table in
``benchmarks/results/shared_batches.md``.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.exceptions.warnings import BotorchWarning, OptimizationWarning
from botorch.test_functions.synthetic import Ackley, Hartmann
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.utils.warnings import NumericalWarning
from kept_runs import RESULTS, KeptRuns

from ax_costaware.core import Outcome, Simulation, Stop
from ax_costaware.core.traits import Traits
from ax_costaware.costs import BatchCost, SwitchingCost
from ax_costaware.methods import CostAware
from ax_costaware.space import Range, Space
from ax_costaware.space.parameters import Row

RUNS = KeptRuns("shared_batches")
SETUP, WELLS, BUDGET = 8.0, 8, 192.0
LEVELS = 0.25, 0.5, 1.0
METHODS = "together", "full", "first trial", "random", "kept"


@dataclass(frozen=True, kw_only=True)
class FirstTrial(CostAware):
    """The first trial of a plate is chosen as if it were alone, and sets what the others share."""

    @property
    def traits(self) -> Traits:
        """The first input is shared."""
        return replace(super().traits, shared=("x0",))


@cache
def _function(name: str) -> tuple[Any, float, float]:
    """Return a function with its best and its median value."""
    found: Any = {
        "Hartmann 3": Hartmann(dim=3),
        "Hartmann 6": Hartmann(dim=6),
        "Ackley 4": Ackley(dim=4, bounds=[(-2.0, 3.0), (-3.0, 2.0), (-1.5, 3.5), (-2.5, 2.5)]),
    }[name]
    X = draw_sobol_samples(found.bounds, 2**14, 1, seed=1).squeeze(1)
    return found, float(found.optimal_value), float(found(X, noise=False).median())


def _regret(name: str, row: Row) -> float:
    function, best, median = _function(name)
    lower, upper = function.bounds
    X = torch.tensor([[row[f"x{i}"] for i in range(function.dim)]], dtype=torch.double)
    return (float(function(lower + (upper - lower) * X, noise=False)) - best) / (median - best)


class Run(NamedTuple):
    """One run."""

    task: str
    method: str
    seed: int


def _method(run: Run) -> CostAware:
    given: dict[str, Any] = {"budget": BUDGET, "seed": run.seed}
    if run.method == "kept":
        return CostAware(SwitchingCost({"x0": SETUP}, base=1.0), **given)
    cost = BatchCost(SETUP, 1.0)
    if run.method in ("first trial", "random"):
        return FirstTrial(cost, fill=True, **given)
    return CostAware(cost, shared=["x0"], fill=run.method == "full", **given)


def simulate(run: Run) -> dict[str, Any]:
    """Return the best regret at each level of the budget, and the size of plates."""
    torch.set_num_threads(1)
    for category in (BotorchWarning, OptimizationWarning, NumericalWarning, RuntimeWarning):
        warnings.simplefilter("ignore", category)
    dim = _function(run.task)[0].dim
    space = Space.of([Range(f"x{i}", 0.0, 1.0) for i in range(dim)])
    simulation = Simulation(_method(run), space, minimize=True)
    settings = torch.quasirandom.SobolEngine(1, scramble=True, seed=run.seed)
    trace, best, sizes = [(0.0, 1.0)], 1.0, []
    size = 1 if run.method == "kept" else WELLS
    while True:
        fixed = {"x0": float(settings.draw(1))} if run.method == "random" else None
        batch = simulation.ask_batch(size, fixed)
        if isinstance(batch, Stop):
            break
        sizes.append(len(batch))
        started = [(decision, simulation.start(decision).index) for decision in batch]
        for decision, index in started:
            regret = _regret(run.task, decision.parameters)
            best = min(best, regret)
            simulation.tell(decision, Outcome(regret), index)
        trace.append((sum(entry.charged for entry in simulation.ledger), best))
    found = [next(b for c, b in reversed(trace) if c <= level * BUDGET) for level in LEVELS]
    return {"regrets": found, "batches": len(sizes), "trials": sum(sizes)}


def table() -> str:
    """Return median regrets with quartiles."""
    header = ["problem", "setting", "seeds", *(f"at {level:.0%}" for level in LEVELS)]
    header += ["batches", "trials"]
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for task in ("Hartmann 3", "Hartmann 6", "Ackley 4"):
        for method in METHODS:
            rows = RUNS.rows(task=task, method=method)
            if not rows:
                continue
            low, middle, high = np.quantile([r["regrets"] for r in rows], [0.25, 0.5, 0.75], axis=0)
            entries = [
                f"{m:.3f} ({a:.3f}-{b:.3f})" for a, m, b in zip(low, middle, high, strict=True)
            ]
            rest = [f"{np.mean([row[name] for row in rows]):.0f}" for name in ("batches", "trials")]
            lines.append(f"| {' | '.join([task, method, str(len(rows)), *entries, *rest])} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="only of what was run")
    asked = parser.parse_args()
    if not asked.table:
        tasks = ("Hartmann 3", "Hartmann 6", "Ackley 4")
        runs = [Run(t, m, s) for s in range(asked.seeds) for t in tasks for m in METHODS]
        RUNS.run_missing(simulate, runs, Run._asdict, asked.processes, "shared batches")
    text = table()
    (RESULTS / "shared_batches.md").write_text(f"# Batches that share a setting\n\n{text}\n")
    print(text)


if __name__ == "__main__":
    main()
