"""Switching costs: regret for what was spent in all, where they are counted and where they are not.

Functions of BoTorch on the unit cube, of which one or two inputs are expensive to change and the
others are free. A trial costs 1, and 10 more for each expensive input that is set to another value
than in the trial before. Methods are the same but for their cost: ``counted`` is ``SwitchingCost``,
``ignored`` is 1. All are charged for their switching costs. In one problem a trial leaves the third
input to chance, for 1, or sets it, too, for 2.

In the last two problems a trial costs 2, the budget is 60, and a search has few starts. An oven
costs 15 per unit up and 60 per unit down, and a choice of four resins costs 1.5 to 24, by the pair.
``ahead`` there compares the best trial that keeps its settings with the best one of all by the
expected improvement of up to four trials that share their settings, per cost of these. With ``4 at
once`` four trials are asked for at a time; ``unordered`` runs them in the order in which they were
chosen.

    python benchmarks/switching_costs.py --seeds 20 --processes 1     # resumable
    python benchmarks/switching_costs.py --table                      # of all that was run
    python benchmarks/switching_costs.py --designs                    # the order of a batch

A regret is that of the best outcome so far, in units of the distance from the best value to the
median one; with control sets that of the expectation that is recommended. Runs are kept in
``benchmarks/results/partial``; the table goes to ``benchmarks/results/switching_costs.md``.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.exceptions.warnings import BotorchWarning, OptimizationWarning
from botorch.test_functions.synthetic import Ackley, Branin, Hartmann
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.utils.warnings import NumericalWarning
from kept_runs import RESULTS, keep, path_of, read, run_all
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from ax_costaware.core import Best, Decision, Problem, Simulation, Stop
from ax_costaware.core.problem import Pending
from ax_costaware.core.simulation import Outcome
from ax_costaware.core.switching import settings_before, switching_cost
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.costs import ControlSet, LinearSwitch, SwitchingCost, TableSwitch
from ax_costaware.laws import Uniform
from ax_costaware.methods import ControlSets, CostAware, LargestValuePerCost, Method
from ax_costaware.space import Choice, Range, Space
from ax_costaware.space.parameters import Row

CHANGE = 10.0
"""What it costs to change an expensive input, where a trial costs 1 without."""

BUDGET = 200.0
"""What a run may spend."""

LEVELS = (0.25, 0.5, 0.75, 1.0)
"""Parts of the budget at which a run is looked at."""

REGRETS = (0.3, 0.1, 0.03)
"""Regrets of which it is asked what they cost."""


class Resin(NamedTuple):
    """A choice that moves and raises a function."""

    name: str
    shade: float
    shift: float
    offset: float


RESINS = (
    Resin("A", 0.0, 0.0, 0.3),
    Resin("B", 1.0, 0.05, 0.15),
    Resin("C", 2.0, 0.1, 0.0),
    Resin("D", 3.0, 0.15, 0.2),
)


@dataclass(frozen=True)
class Task:
    """A function to be minimised, on the unit cube."""

    function: Any
    """BoTorch's function."""

    num_expensive: int
    """Number of inputs, the first ones, that are expensive to change."""

    has_sets: bool = False
    """Whether a trial may leave the last input to chance."""

    change: float | LinearSwitch = CHANGE
    """Cost of changing an expensive input."""

    resins: tuple[Resin, ...] = ()
    """Values of a choice, which is expensive to change as well."""

    base: float = 1.0
    """Cost of a trial."""

    budget: float = BUDGET
    """What a run may spend."""

    @property
    def switching_cost(self) -> SwitchingCost:
        """Switching costs, which come on top of a trial's cost."""
        changes: dict[str, Any] = {f"x{i}": self.change for i in range(self.num_expensive)}
        if self.resins:
            pairs = permutations(self.resins, 2)
            # To a darker one it is quick; to a lighter one the line has to be cleaned.
            costs = {
                (a.name, b.name): 8.0 * (a.shade - b.shade) if a.shade > b.shade else 1.5
                for a, b in pairs
            }
            changes["resin"] = TableSwitch(costs)
        return SwitchingCost(changes)

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
        resins = [Choice("resin", tuple(r.name for r in self.resins))] if self.resins else []
        ranges = [Range(name, 0.0, 1.0) for name in self.names]
        return Space.of([*sets, *resins, *ranges], hidden=[each.name for each in sets])

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
        resin = next((r for r in self.resins if r.name == row["resin"]), None)
        if resin is None:
            return float(self.value(X).mean())
        worse = resin.offset * (self._median - float(self.function.optimal_value))
        return float(self.value((X - resin.shift).abs().clamp_max(1.0)).mean()) + worse

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
        "Hartmann, an oven by distance": Task(
            Hartmann(dim=3), 1, change=LinearSwitch(up=15.0, down=60.0), base=2.0, budget=60.0
        ),
        "Branin, resins by pairs": Task(Branin(), 0, resins=RESINS, base=2.0, budget=60.0),
    }


class Run(NamedTuple):
    """One run."""

    task: str
    method: str
    seed: int


METHODS = ("counted", "ignored")
AT_ONCE = ", 4 at once"
LATER = ("ahead", *(name + AT_ONCE for name in ("counted", "unordered", "ignored")))
"""Further methods, of the tasks with costs by distance or by pairs."""


@dataclass(frozen=True, kw_only=True)
class Ahead(CostAware):
    """A trial is chosen by several trials that share its settings."""

    most: int = 4
    """Largest number of trials."""

    def decide(self, problem: Problem) -> Decision | Stop:
        """Return the first trial of the block with the largest improvement per cost."""
        greedy, before = super().decide(problem), settings_before(problem, self)
        if isinstance(greedy, Stop) or before is None:
            return greedy
        assert isinstance(self.cost, SwitchingCost)
        base, given = float(self.cost.base), dict[str, Any](self.search_options)
        alone = CostAware(
            base, lmbda=1.0, stop=False, acquisition=self.acquisition, seed=self.seed, **given
        )
        state, best = self.budget_state(problem), (0.0, greedy)
        for fixed in ({}, dict(before)):
            block: list[Row] = []
            while len(block) < self.most:
                pending = (*problem.pending, *(Pending(None, dict(row)) for row in block))
                space = problem.space.held_at(fixed)
                changed = replace(problem, space=space, pending=pending, fixed=fixed)
                found = alone.decide(problem.prepare(changed))
                if isinstance(found, Stop):
                    break
                row = found.parameters
                block.append(row)
                fixed = {name: row[name] for name in before}
                cost = switching_cost(problem, self, block[0]) + base * len(block)
                if not state.pays(cost):
                    break
                ratio = self._improvement(problem, block) / cost
                if ratio > best[0]:
                    first = cost - base * (len(block) - 1)
                    best = ratio, replace(greedy, parameters=dict(block[0]), expected_cost=first)
        return best[1]

    def _improvement(self, problem: Problem, rows: Sequence[Row]) -> float:
        """Return the expected improvement of several trials on the best posterior mean."""
        with torch.no_grad():
            best = problem.posterior.mixture(problem.evaluated)[0].max()
            found: Any = problem.model.posterior(problem.space.encode(rows))
            chance = torch.Generator().manual_seed(self.seed)
            normal = torch.randn(512, len(rows), generator=chance, dtype=torch.double)
            root = psd_safe_cholesky(found.distribution.covariance_matrix)
            sample = found.distribution.mean + normal @ root.T
        return float((sample.amax(dim=-1) - best).clamp_min(0.0).mean())


def method_of(run: Run) -> Method:
    """The method of a run."""
    task, is_counted = tasks()[run.task], not run.method.startswith("ignored")
    if task.has_sets:
        return ControlSets(
            tuple(task.control_sets),
            {name: Uniform(0.0, 1.0) for name in task.names},
            budget=BUDGET,
            rule=LargestValuePerCost(above="worst"),
            switching_cost=task.switching_cost if is_counted else None,
            seed=run.seed,
        )
    few = {"num_restarts": 2, "raw_samples": 128} if task.base > 1 else {}
    given: dict[str, Any] = {"acquisition": "log_ei_per_cost", "seed": run.seed, **few}
    if is_counted:
        cost = SwitchingCost(task.switching_cost.changes, base=task.base)
        kind = Ahead if run.method == "ahead" else CostAware
        return kind(cost, budget=task.budget, **given)
    # A price is given so that none is looked for: nothing is stopped by it.
    return CostAware(task.base, lmbda=1.0, stop=False, **given)


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
    for decision, index in _decisions(simulation, run.method):
        row = decision.parameters
        change, is_set = task.switching_cost.between(before, row), row.get(CONTROL_SET) != "part"
        cost = task.base + (task.has_sets and is_set) + change
        if spent + cost > task.budget * (1 + 1e-9):
            break
        spent, changes, before = spent + cost, changes + change, row
        realized = {} if is_set else {task.names[-1]: float(chance.random())}
        value = task.expectation({**row, **realized}, is_set=True)
        simulation.tell(decision, Outcome(value, realized=realized), index)
        best = min(best, task.regret(value))
        if task.has_sets:
            found = simulation.recommend()
            best = task.regret(task.expectation(_whole(task, found), found.control_set == "all"))
        trace.append((spent, best))
    keep(
        key(run),
        {
            "trace": trace[1:],
            "changes": changes,
            "trials": len(simulation.trials),
            "cpu_s": round(time.process_time() - started, 1),
        },
    )


def _decisions(simulation: Simulation, method: str) -> Iterator[tuple[Decision, int | None]]:
    """Yield the trials of a run, one at a time or of batches that are started together."""
    while not method.endswith(AT_ONCE):
        decision = simulation.ask()
        if isinstance(decision, Stop):
            return
        yield decision, None
    while True:
        if method.startswith("counted"):
            batch = simulation.ask_batch(4)
            if isinstance(batch, Stop):
                return
            started = [(one, simulation.start(one).index) for one in batch]
        else:
            started = []
            while len(started) < 4 and not isinstance(one := simulation.ask(), Stop):
                started.append((one, simulation.start(one).index))
            if not started:
                return
        yield from started


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
    for task, given in tasks().items():
        levels = [part * given.budget for part in LEVELS]
        header = ["switching costs", "seeds", *(f"regret at {level:g}" for level in levels)]
        header += [f"cost of {regret:g}" for regret in REGRETS]
        header += ["spent on switching", "trials", "CPU s"]
        lines += [f"## {task}", "", f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
        for method in METHODS + LATER:
            kept = [r for r in runs if r.task == task and r.method == method]
            found = [read(key(run)) for run in kept if path_of(key(run)).exists()]
            if not found:
                continue
            traces = [result["trace"] for result in found]
            entries = [
                _quartiles([regret_at(t, level) for t in traces], "#.3g") for level in levels
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


def initial_designs(num_trials: int = 8, num_seeds: int = 10) -> str:
    """Mean costs to switch of initial trials that are asked for at once, and one by one."""
    lines = ["| | at once | one by one |", "|---|---|---|"]
    for name, task in tasks().items():
        if task.base == 1:
            continue
        cost, found = SwitchingCost(task.switching_cost.changes, base=task.base), []
        for seed in range(num_seeds):
            method = CostAware(cost, initial_trials=num_trials, seed=seed)
            ordered, single = (Simulation(method, task.space) for _ in range(2))
            for decision in ordered.ask_batch(num_trials):  # type: ignore[union-attr]
                ordered.start(decision)
            for _ in range(num_trials):
                single.start(single.ask())  # type: ignore[arg-type]
            found.append([sum(e.switching_cost for e in run.ledger) for run in (ordered, single)])
        lines.append(f"| {name} | {' | '.join(f'{mean:.1f}' for mean in np.mean(found, axis=0))} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--methods", nargs="+", choices=METHODS + LATER, default=list(METHODS))
    parser.add_argument("--tasks", nargs="+", default=list(tasks()))
    parser.add_argument("--table", action="store_true", help="only of what was run")
    parser.add_argument("--designs", action="store_true", help="only initial designs, in order")
    asked = parser.parse_args()
    if asked.designs:
        print(initial_designs())
        return
    runs = [Run(t, m, s) for s in range(asked.seeds) for t in asked.tasks for m in asked.methods]
    if not asked.table:
        run_all(simulate, runs, key, asked.processes, "switching costs")
    text = table(runs)
    (RESULTS / "switching_costs.md").write_text(f"# Switching costs\n\n{text}")
    print(text)


if __name__ == "__main__":
    main()
