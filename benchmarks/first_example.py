"""The README's first example: what is recommended, by the default, its rivals, and plain Ax.

The same function, noise, costs and space, without Ax: "plain Ax" is its model and its acquisition
function in the same loop. What is measured is the true accuracy of the trial with the best
posterior mean, once the budget is used up or the method has stopped.

    python benchmarks/first_example.py --seeds 16 --budgets 150 300 600

Finished runs are kept in ``benchmarks/results/partial`` and are not run again; the table is
printed, and its numbers go to ``benchmarks/results/first_example.json``.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from typing import NamedTuple

import numpy as np
import torch
from botorch.exceptions.warnings import BotorchWarning, OptimizationWarning
from gpytorch.utils.warnings import NumericalWarning
from kept_runs import RESULTS, keep, read, run_all
from panel_trials import METHODS

from ax_costaware.methods import Range, Simulation, Space, Stop
from ax_costaware.methods.simulation import Outcome

SHOWN = ("default", "PBGI, price held", "PBGI, price found again", "log EI per cost", "plain Ax")
BEST = 1 - math.exp(-100 / 30)
"""The true accuracy of 100 epochs at the best learning rate."""


class Task(NamedTuple):
    """One run."""

    budget: float
    method: str
    seed: int


def accuracy(epochs: float, learning_rate: float) -> float:
    """The README's ``train``, without noise."""
    return 1 - math.exp(-epochs / 30) - 0.08 * (math.log10(learning_rate) + 2) ** 2


def key_of(task: Task) -> str:
    """The name of a run's file."""
    return f"first_example_{task.budget:g}_{task.method}_{task.seed}"


def run_and_keep(task: Task) -> None:
    """Make one run."""
    torch.set_num_threads(1)
    for category in (BotorchWarning, OptimizationWarning, NumericalWarning):
        warnings.simplefilter("ignore", category)
    started, chance = time.process_time(), np.random.default_rng(task.seed + 1000)
    method = METHODS[task.method]("seconds", task.budget, task.seed)
    space = Space.of(
        [
            Range("epochs", 1, 100, is_integer=True),
            Range("learning_rate", 1e-4, 1.0, log_scale=True),
        ]
    )
    simulation, spent = Simulation(method, space), 0.0
    while not isinstance(decision := simulation.ask(), Stop):
        epochs = float(decision.parameters["epochs"] or 0)
        learning_rate = float(decision.parameters["learning_rate"] or 0)
        seconds = 0.5 * epochs * chance.uniform(0.9, 1.1)
        if spent + seconds > task.budget and method.budget is None:
            break
        spent += seconds
        outcome = accuracy(epochs, learning_rate) + chance.normal(0, 0.003)
        simulation.tell(decision, Outcome(outcome, seconds))
    chosen = simulation.recommend().parameters
    reached = accuracy(float(chosen["epochs"] or 0), float(chosen["learning_rate"] or 0))
    cpu = round(time.process_time() - started, 1)
    trials = len(simulation.trials)
    keep(key_of(task), {"accuracy": reached, "spent": spent, "trials": trials, "cpu_s": cpu})


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--budgets", type=float, nargs="+", default=[150.0, 300.0, 600.0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(SHOWN))
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    cells = [(budget, method) for budget in chosen.budgets for method in chosen.methods]
    tasks = [Task(*cell, seed) for seed in range(chosen.seeds) for cell in cells]
    run_all(run_and_keep, tasks, key_of, chosen.processes, "first example")
    print(f"Mean true accuracy of what is recommended, of at most {BEST:.4f}, and its shortfall\n")
    print("| budget | method | accuracy | shortfall | spent | trials |\n|---|---|---|---|---|---|")
    kept = []
    for budget, method in cells:
        rows = [read(key_of(Task(budget, method, seed))) for seed in range(chosen.seeds)]
        found = np.array([row["accuracy"] for row in rows])
        error = found.std(ddof=1) / math.sqrt(len(found)) if len(found) > 1 else 0.0
        spent, trials = (float(np.mean([row[k] for row in rows])) for k in ("spent", "trials"))
        print(
            f"| {budget:g} | {method} | {found.mean():.4f} ± {error:.4f} | "
            f"{BEST - found.mean():.4f} | {spent:.0f} | {trials:.0f} |"
        )
        kept.append({"budget": budget, "method": method, "runs": rows})
    (RESULTS / "first_example.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
