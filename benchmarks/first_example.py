"""The README's first example: what is recommended, by the default, its rivals, and plain Ax.

The same function, noise, costs and space, without Ax: "plain Ax" is its model and its acquisition
function in the same loop. What is measured is the true accuracy of the trial with the best
posterior mean, once the budget is used up or the method has stopped. Beside it are two examples in
which little is to be gained by counting costs: the center of the search space, with which both
begin, is the best trial; or the best trial is the most expensive.

    python benchmarks/first_example.py --seeds 16
    python benchmarks/first_example.py --example epochs

Finished runs are kept in ``benchmarks/results/partial`` and are not run again; the table is
printed, and its numbers go to ``benchmarks/results``.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from botorch.exceptions.warnings import BotorchWarning, OptimizationWarning
from gpytorch.utils.warnings import NumericalWarning
from kept_runs import RESULTS, keep, read, run_all
from panel_trials import METHODS

from ax_costaware.core import Simulation, Stop
from ax_costaware.core.simulation import Outcome
from ax_costaware.space import Range, Space
from ax_costaware.space.parameters import Row

OVERRUNS = "plain Ax, its last trial beyond the budget"
"""Plain Ax knows no budget: it ends before the trial that would pass it, or with that one."""

SHOWN = (
    "default",
    "PBGI, price held",
    "PBGI, price found again",
    "log EI per cost",
    "plain Ax",
    OVERRUNS,
)


class Example(NamedTuple):
    """A training, without noise."""

    parameter: Range
    """What is tuned beside the learning rate."""

    accuracy: Callable[[float, float], float]
    """The true accuracy, of that parameter and the learning rate."""

    seconds: Callable[[float], float]
    """What a trial takes, of that parameter."""

    best: float
    """The largest true accuracy."""

    budgets: tuple[float, ...]
    """Seconds that a run has."""


EXAMPLES = {
    "width": Example(
        Range("width", 16, 1024, is_integer=True, log_scale=True),
        lambda width, rate: (
            0.95
            - 0.03 * (math.log2(width / 64) / 2) ** 2
            - 0.05 * (math.log10(rate * width / 64) + 2.5) ** 2
        ),
        lambda width: width / 16,
        0.95,
        (50.0, 75.0, 150.0, 300.0),
    ),
    "center": Example(
        Range("width", 16, 1024, is_integer=True, log_scale=True),
        lambda width, rate: (
            0.95 - 0.03 * (math.log2(width / 128) / 2) ** 2 - 0.05 * (math.log10(rate) + 2) ** 2
        ),
        lambda width: width / 16,
        0.95,
        (75.0, 150.0, 300.0),
    ),
    "epochs": Example(
        Range("epochs", 1, 100, is_integer=True),
        lambda epochs, rate: 1 - math.exp(-epochs / 30) - 0.08 * (math.log10(rate) + 2) ** 2,
        lambda epochs: 0.5 * epochs,
        1 - math.exp(-100 / 30),
        (150.0, 300.0, 600.0),
    ),
}
"""The README's example, and others whose best trial is the center, or the most expensive."""


class Task(NamedTuple):
    """One run."""

    example: str
    budget: float
    method: str
    seed: int


def key_of(task: Task) -> str:
    """The name of a run's file."""
    return f"first_example_{task.example}_{task.budget:g}_{task.method}_{task.seed}"


def run_and_keep(task: Task) -> None:
    """Make one run."""
    torch.set_num_threads(1)
    for category in (BotorchWarning, OptimizationWarning, NumericalWarning):
        warnings.simplefilter("ignore", category)
    started, chance = time.process_time(), np.random.default_rng(task.seed + 1000)
    example = EXAMPLES[task.example]
    tuned = example.parameter.name
    overruns = task.method == OVERRUNS
    name = "plain Ax" if overruns else task.method
    method = METHODS[name]("seconds", task.budget, task.seed)
    space = Space.of([example.parameter, Range("learning_rate", 1e-4, 1.0, log_scale=True)])
    simulation, spent = Simulation(method, space), 0.0

    def accuracy(parameters: Row) -> float:
        first, rate = (float(parameters[name] or 0) for name in (tuned, "learning_rate"))
        return example.accuracy(first, rate)

    while spent < task.budget and not isinstance(decision := simulation.ask(), Stop):
        size = float(decision.parameters[tuned] or 0)
        seconds = example.seconds(size) * chance.uniform(0.9, 1.1)
        if spent + seconds > task.budget and method.budget is None and not overruns:
            break
        spent += seconds
        outcome = accuracy(decision.parameters) + chance.normal(0, 0.003)
        simulation.tell(decision, Outcome(outcome, seconds))
    reached = accuracy(simulation.recommend().parameters)
    cpu = round(time.process_time() - started, 1)
    trials = len(simulation.trials)
    keep(key_of(task), {"accuracy": reached, "spent": spent, "trials": trials, "cpu_s": cpu})


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--example", choices=EXAMPLES, default="width")
    names = [*METHODS, OVERRUNS]
    parser.add_argument("--methods", nargs="+", choices=names, default=list(SHOWN))
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    example = EXAMPLES[chosen.example]
    cells = [(chosen.example, b, method) for b in example.budgets for method in chosen.methods]
    tasks = [Task(*cell, seed) for seed in range(chosen.seeds) for cell in cells]
    run_all(run_and_keep, tasks, key_of, chosen.processes, "first example")
    print(f"Mean true accuracy of what is recommended, and its shortfall of {example.best:.4f}\n")
    print("| budget | method | accuracy | shortfall | spent | trials |\n|---|---|---|---|---|---|")
    path = RESULTS / f"first_example_{chosen.example}.json"
    before = json.loads(path.read_text()) if path.exists() else []
    kept = {(row["budget"], row["method"]): row for row in before}  # and what is not run anew
    for cell in cells:
        rows = [read(key_of(Task(*cell, seed))) for seed in range(chosen.seeds)]
        found = np.array([row["accuracy"] for row in rows])
        error = found.std(ddof=1) / math.sqrt(len(found)) if len(found) > 1 else 0.0
        spent, trials = (float(np.mean([row[k] for row in rows])) for k in ("spent", "trials"))
        print(
            f"| {cell[1]:g} | {cell[2]} | {found.mean():.4f} ± {error:.4f} | "
            f"{example.best - found.mean():.4f} | {spent:.0f} | {trials:.0f} |"
        )
        kept[cell[1:]] = {"budget": cell[1], "method": cell[2], "runs": rows}
    path.write_text(json.dumps(list(kept.values()), indent=1) + "\n")


if __name__ == "__main__":
    main()
