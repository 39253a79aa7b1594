"""Switching costs: regret for what was spent in all, where they are counted and where they are not.

Functions of BoTorch on the unit cube, of which one or two inputs are expensive to change and the
others are free. A trial costs 1, and 10 more for each expensive input that is set to another value
than in the trial before. Both methods are the same but for their cost: ``SwitchingCost`` or 1. Both
are charged for their switching costs. In the last problem a trial leaves the third input to chance,
for 1, or sets it, too, for 2.

    python benchmarks/switching_costs.py --seeds 20 --processes 1     # resumable
    python benchmarks/switching_costs.py --table                      # of all that was run

A regret is that of the best outcome so far, in units of the distance from the best value to the
median one; with control sets that of the expectation that is recommended. Runs are kept in
``benchmarks/results/partial``; the table goes to ``benchmarks/results/switching_costs.md``.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.exceptions.warnings import BotorchWarning, OptimizationWarning
from botorch.test_functions.synthetic import Ackley, Branin, Hartmann
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.utils.warnings import NumericalWarning
from kept_runs import RESULTS, keep, path_of, read, run_all
from torch import Tensor

from ax_costaware.core import Best, Simulation, Stop
from ax_costaware.core.simulation import Outcome
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.costs import ControlSet, SwitchingCost
from ax_costaware.laws import Uniform
from ax_costaware.methods import ControlSets, CostAware, LargestValuePerCost, Method
from ax_costaware.space import Choice, Range, Space
from ax_costaware.space.parameters import Row

CHANGE = 10.0
"""What it costs to change an expensive input, where a trial costs 1 without."""

BUDGET = 200.0
"""What a run may spend."""

LEVELS = (50.0, 100.0, 150.0, 200.0)
"""Costs at which a run is looked at."""

REGRETS = (0.3, 0.1, 0.03)
"""Regrets of which it is asked what they cost."""


@dataclass(frozen=True)
class Task:
    """A function to be minimised, on the unit cube."""

    function: Any
    """BoTorch's function."""

    num_expensive: int
    """Number of inputs, the first ones, that are expensive to change."""

    has_sets: bool = False
    """Whether a trial may leave the last input to chance."""

    @property
    def switching_cost(self) -> SwitchingCost:
        """Switching costs, which come on top of a trial's cost."""
        return SwitchingCost({f"x{i}": CHANGE for i in range(self.num_expensive)})

    @property
    def names(self) -> list[str]:
        """Names of the inputs."""
        return [f"x{i}" for i in range(self.function.dim)]

    @property
    def control_sets(self) -> list[ControlSet]:
        """What trials control and cost: everything, or all but the last input."""
        return [ControlSet(self.names[:-1], 1.0, "part"), ControlSet(self.names, 2.0, "all")]

    @property
    def space(self) -> Space:
        """The inputs."""
        sets = [Choice(CONTROL_SET, ("part", "all"))] if self.has_sets else []
        ranges = [Range(name, 0.0, 1.0) for name in self.names]
        return Space.of([*sets, *ranges], hidden=[CONTROL_SET])

    def value(self, X: Tensor) -> Tensor:
        """Values ``n`` at points ``n x d``."""
        lower, upper = self.function.bounds
        found: Tensor = self.function(lower + (upper - lower) * X, noise=False)
        return found

    @cached_property
    def _median(self) -> float:
        bounds = torch.tensor([[0.0], [1.0]]).double().expand(2, self.function.dim)
        return float(self.value(draw_sobol_samples(bounds, 2**14, 1, seed=1).squeeze(1)).median())

    def expectation(self, row: Row, is_set: bool) -> float:
        """The mean over the last input, or the value where that is set."""
        X = torch.tensor([[row[name] for name in self.names]], dtype=torch.double)
        if not is_set:
            X = X.repeat(257, 1)
            X[:, -1] = torch.linspace(0.0, 1.0, 257, dtype=torch.double)
        return float(self.value(X).mean())

    def regret(self, value: float) -> float:
        """The regret of a value."""
        best = float(self.function.optimal_value)
        return max(value - best, 0.0) / (self._median - best)


@cache
def tasks() -> dict[str, Task]:
    """The problems by name."""
    shifted = Ackley(dim=3, bounds=[(-2.0, 3.0), (-3.0, 2.0), (-1.5, 3.5)])
    return {
        "Branin, 1 of 2 expensive": Task(Branin(), 1),
        "Ackley, 1 of 3 expensive": Task(shifted, 1),
        "Hartmann, 1 of 3 expensive": Task(Hartmann(dim=3), 1),
        "Hartmann, 2 of 6 expensive": Task(Hartmann(dim=6), 2),
        "Hartmann, 1 of 3 expensive, control sets": Task(Hartmann(dim=3), 1, has_sets=True),
    }


class Run(NamedTuple):
    """One run."""

    task: str
    method: str
    seed: int


METHODS = ("counted", "ignored")


def method_of(run: Run) -> Method:
    """The method of a run."""
    task, is_counted = tasks()[run.task], run.method == "counted"
    if task.has_sets:
        return ControlSets(
            tuple(task.control_sets),
            {name: Uniform(0.0, 1.0) for name in task.names},
            budget=BUDGET,
            rule=LargestValuePerCost(above="worst"),
            switching_cost=task.switching_cost if is_counted else None,
            seed=run.seed,
        )
    if is_counted:
        cost = SwitchingCost(task.switching_cost.changes, base=1.0)
        return CostAware(cost, budget=BUDGET, acquisition="log_ei_per_cost", seed=run.seed)
    # A price is given so that none is looked for: nothing is stopped by it.
    return CostAware(1.0, lmbda=1.0, stop=False, acquisition="log_ei_per_cost", seed=run.seed)


def key(run: Run) -> str:
    """The key of a run's result."""
    return f"switching costs {run.task} {run.method} {run.seed}"


def simulate(run: Run) -> None:
    """Make one run and keep its regrets by what was spent."""
    torch.set_num_threads(1)
    for category in (BotorchWarning, OptimizationWarning, NumericalWarning, RuntimeWarning):
        warnings.simplefilter("ignore", category)
    started, task = time.process_time(), tasks()[run.task]
    simulation = Simulation(method_of(run), task.space, minimize=True)
    spent, best, changes, trace, before = 0.0, math.inf, 0.0, [(0.0, math.inf)], None
    chance = np.random.default_rng(run.seed)
    while not isinstance(decision := simulation.ask(), Stop):
        row = decision.parameters
        change, is_set = task.switching_cost.between(before, row), row.get(CONTROL_SET) != "part"
        cost = 1.0 + (task.has_sets and is_set) + change
        if spent + cost > BUDGET * (1 + 1e-9):
            break
        spent, changes, before = spent + cost, changes + change, row
        realized = {} if is_set else {task.names[-1]: float(chance.random())}
        value = task.expectation({**row, **realized}, is_set=True)
        simulation.tell(decision, Outcome(value, realized=realized))
        best = min(best, task.regret(value))
        if task.has_sets:
            found = simulation.recommend()
            best = task.regret(task.expectation(_whole(task, found), found.control_set == "all"))
        trace.append((spent, best))
    keep(
        key(run),
        {
            "trace": trace[1:],
            "changes": changes / CHANGE,
            "trials": len(simulation.trials),
            "cpu_s": round(time.process_time() - started, 1),
        },
    )


def _whole(task: Task, best: Best) -> Row:
    """A recommendation with some value of what it leaves to chance."""
    return {**dict.fromkeys(task.names, 0.5), **best.parameters}


def regret_at(trace: Sequence[Sequence[float]], cost: float) -> float:
    """The regret of a run once so much was spent."""
    return next(regret for spent, regret in reversed(trace) if spent <= cost)


def cost_of(trace: Sequence[Sequence[float]], regret: float) -> float:
    """What a run spent until its regret was so small; infinite where it never was."""
    return next((spent for spent, found in trace if found <= regret), math.inf)


def table(runs: Sequence[Run]) -> str:
    """Median regrets by cost and median costs by regret, with quartiles, by problem."""
    lines = []
    for task in tasks():
        header = ["switching costs", "seeds", *(f"regret at {level:g}" for level in LEVELS)]
        header += [f"cost of {regret:g}" for regret in REGRETS]
        header += ["switching costs", "trials", "CPU s"]
        lines += [f"## {task}", "", f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
        for method in METHODS:
            kept = [r for r in runs if r.task == task and r.method == method]
            found = [read(key(run)) for run in kept if path_of(key(run)).exists()]
            if not found:
                continue
            traces = [result["trace"] for result in found]
            entries = [
                _quartiles([regret_at(t, level) for t in traces], "#.3g") for level in LEVELS
            ]
            entries += [_quartiles([cost_of(t, r) for t in traces], ".0f") for r in REGRETS]
            rest = [f"{np.mean([r[name] for r in found]):.0f}" for name in ("changes", "trials")]
            rest.append(f"{np.mean([r['cpu_s'] for r in found]):.0f}")
            lines.append(f"| {' | '.join([method, str(len(found)), *entries, *rest])} |")
        lines.append("")
    return "\n".join(lines)


def _quartiles(numbers: Sequence[float], form: str) -> str:
    """The median of some numbers, and between what half of them are."""
    low, middle, high = np.quantile(numbers, [0.25, 0.5, 0.75], method="nearest")
    return f"{middle:{form}} ({low:{form}}-{high:{form}})"


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--tasks", nargs="+", default=list(tasks()))
    parser.add_argument("--table", action="store_true", help="only of what was run")
    asked = parser.parse_args()
    runs = [Run(t, m, s) for s in range(asked.seeds) for t in asked.tasks for m in asked.methods]
    if not asked.table:
        run_all(simulate, runs, key, asked.processes, "switching costs")
    text = table(runs)
    (RESULTS / "switching_costs.md").write_text(f"# Switching costs\n\n{text}")
    print(text)


if __name__ == "__main__":
    main()
