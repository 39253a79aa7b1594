"""Repeats chosen by the strategy, beside fixed numbers of them.

Noisy objectives with costs per repeat. What counts is the noise-free value of what would be
deployed, at half and at the end of the budget. Rivals measure every trial 1, 3 or 5 times, and
report the mean: our default, Ax's own acquisition function in the same loop ("plain Ax"), Optuna's
TPE, and quasi-random trials. "repeats 0.1" has ``confirm=0.1``; "repeats cooled" has an exponent of
the cost that cools, and a squared-exponential kernel.

    nice python benchmarks/repeats.py --seeds 16       # resumable: finished runs are kept
    python benchmarks/repeats.py --table

- ``digits``, ``boosting``: the measured tables of ``panel_tables.py``, with the noise of the panel
  for a mean of five folds; a fold costs what its training takes (a quadratic fit of its logarithm).
- ``crossed barrel``: 600 printed structures with three replicates each (Gongora et al. 2020), read
  from ``../shared/data``; a print costs struts x wall x radius. Missing combinations have the
  outcomes of the nearest structure.
- ``rising``, ``falling``: Hartmann's function of three inputs, whose noise rises or falls towards
  the optimum.

Losses are in units of the distance from the best value to the median one. All optimizers have
the same, smaller numbers of starts. Rows are kept in ``benchmarks/results/repeats.jsonl``, the
table in ``benchmarks/results/repeats.md``.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from kept_runs import RESULTS, KeptRuns
from panel_cells import CELLS, Cell
from panel_trials import PlainAx, Random
from torch import Tensor

from ax_costaware.core import Decision, Problem, Simulation, Stop
from ax_costaware.core.simulation import Outcome
from ax_costaware.costs import Cost
from ax_costaware.methods import CostAware, Method
from ax_costaware.space import Choice, Range, Space
from ax_costaware.space.parameters import Row

RUNS = KeptRuns("repeats")
BARREL = Path(__file__).parents[2] / "shared" / "data" / "crossed_barrel.csv"
REPEATS, MOST = "repeats", 10
SETUP = 0.2
"""Cost of a trial besides its repeats, in mean costs of a repeat."""

SEARCH: dict[str, Any] = {"num_restarts": 4, "raw_samples": 256}
LEVELS = 0.5, 1.0
MOST_TRIALS = 200


@dataclass(frozen=True)
class Task:
    """A noisy objective with the cost of a repeat."""

    space: Space
    """The search space, without the number of repeats."""

    value: Callable[[Row], float]
    """The noise-free objective: 0 at its best, -1 at its median."""

    sample: Callable[[Row, np.random.Generator], float]
    """One measurement."""

    cost: Callable[[Mapping[str, Tensor]], Tensor]
    """Cost of a repeat, of columns by name: one on average."""

    budget: float = 60.0
    """The budget, in mean costs of a repeat."""


def _log_quadratic(cell: Cell) -> Callable[[Tensor], Tensor]:
    """Return a quadratic fit of the logarithm of the cost, which is fast and has gradients."""

    def features(X: Tensor) -> Tensor:
        products = (X.unsqueeze(-1) * X.unsqueeze(-2)).flatten(-2)
        return torch.cat([torch.ones_like(X[..., :1]), X, products], dim=-1)

    X = torch.quasirandom.SobolEngine(cell.dim, scramble=True, seed=1).draw(2048).double()
    fit = torch.linalg.lstsq(features(X), cell.cost(X).log().unsqueeze(-1), driver="gelsd")
    weights = fit.solution.squeeze(-1)
    mean = (features(X) @ weights).exp().mean()
    return lambda X: (features(X) @ weights).exp() / mean


def _of_cell(cell: Cell, deviation: Callable[[float], float]) -> Task:
    log_quadratic = _log_quadratic(cell)

    def value(row: Row) -> float:
        return float(cell.value(cell.point(row)))

    def cost(columns: Mapping[str, Tensor]) -> Tensor:
        return log_quadratic(torch.stack([columns[name] for name in cell.names], dim=-1))

    def sample(row: Row, generator: np.random.Generator) -> float:
        found = value(row)
        return found + deviation(found) * generator.standard_normal()

    return Task(cell.space, value, sample, cost)


def _barrel() -> Task:
    names = "n", "theta", "r", "t"
    rows = list(csv.DictReader(BARREL.open()))
    found: dict[tuple[float, ...], list[float]] = {}
    for row in rows:
        found.setdefault(tuple(float(row[n]) for n in names), []).append(float(row["toughness"]))
    designs = np.array(list(found))
    values = np.array(list(found.values()))
    width = np.ptp(designs, axis=0)
    means = values.mean(axis=1)
    best, spread = means.max(), means.max() - np.median(means)
    mean_cost = float(designs[:, [0, 2, 3]].prod(axis=1).mean())

    def place(row: Row) -> int:
        point = np.array([float(str(row[name])) for name in names])
        return int((((designs - point) / width) ** 2).sum(axis=1).argmin())

    space = Space.of(
        [
            Choice(name, tuple(np.unique(designs[:, i]).tolist()), is_ordered=True)
            for i, name in enumerate(names)
        ]
    )
    return Task(
        space,
        lambda row: float((means[place(row)] - best) / spread),
        lambda row, rng: float((rng.choice(values[place(row)]) - best) / spread),
        lambda columns: columns["n"] * columns["r"] * columns["t"] / mean_cost,
    )


@cache
def task_of(name: str) -> Task:
    """Return a task by name."""
    if name == "crossed barrel":
        return _barrel()
    hartmann = Cell("hartmann3", 3, "hartmann", "flat")
    tasks: dict[str, tuple[Cell, Callable[[float], float]]] = {
        "digits": (CELLS["noisy digits"], lambda _: 0.11 * math.sqrt(5)),
        "boosting": (CELLS["noisy boosting"], lambda _: 0.1 * math.sqrt(5)),
        "rising": (hartmann, lambda value: 0.6 * math.exp(2 * value)),
        "falling": (hartmann, lambda value: 0.03 + 0.6 * (1 - math.exp(2 * value))),
    }
    return _of_cell(*tasks[name])


TASKS = "digits", "boosting", "crossed barrel", "rising", "falling"


@dataclass(frozen=True)
class TrialCost(Cost):
    """Cost of a trial: its setup and its repeats, whose number is a parameter or fixed."""

    task: str
    count: int | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of all parameters on which it depends."""
        names = tuple(task_of(self.task).space.names)
        return names if self.count else (*names, REPEATS)

    def evaluate(self, columns: Mapping[str, Tensor]) -> Tensor:
        """Return costs of the shape of the columns."""
        count = self.count or columns[REPEATS]
        return SETUP + count * task_of(self.task).cost(columns)


class PlainAxFewStarts(PlainAx):
    """Plain Ax with the starts of the others."""

    def decide(self, problem: Problem) -> Decision:
        """Return the trial of the largest noisy expected improvement."""
        acquisition = qLogNoisyExpectedImprovement(
            problem.model, problem.evaluated, prune_baseline=True
        )
        point = problem.maximize(acquisition, SEARCH).point
        (row,) = problem.space.decode(point.unsqueeze(0))
        return Decision(row, "It has the largest noisy expected improvement.")


def method_of(name: str, task: str, seed: int) -> tuple[Method, int | None]:
    """Return a method, and its fixed number of repeats; None if it chooses."""
    kind, _, number = name.rpartition(" ")
    budget = task_of(task).budget
    if kind in ("", "repeats"):
        cost, settings = TrialCost(task), {**SEARCH}
        if number == "cooled":
            settings |= {"acquisition": "log_ei_cost_cooling", "kernel": "squared_exponential"}
        elif kind:
            settings["confirm"] = float(number)
        return CostAware(cost, budget=budget, seed=seed, repeats=REPEATS, **settings), None
    count = int(number)
    if kind == "default":
        return CostAware(TrialCost(task, count), budget=budget, seed=seed, **SEARCH), count
    if kind == "plain Ax":
        return PlainAxFewStarts(seed=seed), count
    return Random(seed=seed), count


METHODS = (
    "repeats",
    "repeats 0.1",
    "repeats cooled",
    *(f"{kind} {n}" for kind in ("default", "plain Ax", "TPE") for n in (1, 3, 5)),
    "random 1",
)


class Run(NamedTuple):
    """One run."""

    task: str
    method: str
    seed: int


def run(which: Run) -> dict[str, Any]:
    """Make one run: the losses of what would be deployed at ``LEVELS``."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    started = time.process_time()
    task = task_of(which.task)
    generator = np.random.default_rng(which.seed + 1000)
    ask, tell, deploy = _optuna(which) if which.method.startswith("TPE") else _ours(which)
    marks, losses, spent, trials, total = list(LEVELS), [], 0.0, 0, 0
    while trials < MOST_TRIALS:
        row = ask()
        if row is None:
            break
        count = int(str(row[REPEATS]))
        tensors = {n: torch.tensor(float(str(row[n]))).double() for n in task.space.names}
        charge = SETUP + count * float(task.cost(tensors))
        if spent + charge > task.budget * (1 + 1e-9):
            break
        while marks and spent + charge > marks[0] * task.budget:
            losses.append(-task.value(deploy()) if trials else 1.0)
            marks.pop(0)
        tell([task.sample(row, generator) for _ in range(count)], charge)
        spent, trials, total = spent + charge, trials + 1, total + count
    losses += [-task.value(deploy()) for _ in marks]
    return {
        "losses": losses,
        "spent": spent / task.budget,
        "trials": trials,
        "repeats": total / trials,
        "cpu_s": time.process_time() - started,
    }


Steps = tuple[Callable[[], Row | None], Callable[[list[float], float], None], Callable[[], Row]]


def _ours(which: Run) -> Steps:
    method, count = method_of(which.method, which.task, which.seed)
    space = task_of(which.task).space
    if count is None:
        space = Space.of([*space.parameters.values(), Range(REPEATS, 1, MOST, is_integer=True)])
    simulation = Simulation(method, space)
    asked: list[Decision] = []

    def ask() -> Row | None:
        decision = simulation.ask()
        if isinstance(decision, Stop):
            return None
        asked.append(decision)
        return {REPEATS: count or 0, **decision.parameters}

    def tell(values: list[float], charge: float) -> None:
        mean = float(np.mean(values))
        told = Outcome(repeats=values, cost=charge) if count is None else Outcome(mean, charge)
        simulation.tell(asked[-1], told)

    return ask, tell, lambda: simulation.recommend().parameters


def _optuna(which: Run) -> Steps:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space, count = task_of(which.task).space, int(which.method.split()[-1])
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=which.seed)
    )
    asked: list[Any] = []

    def ask() -> Row:
        trial = study.ask()
        asked.append(trial)
        row: dict[str, Any] = {REPEATS: count}
        for name, one in space.parameters.items():
            if isinstance(one, Range):
                row[name] = trial.suggest_float(name, one.lower, one.upper)
            elif isinstance(one, Choice):
                values = one.values
                row[name] = values[trial.suggest_int(name, 0, len(values) - 1)]
        trial.set_user_attr("row", row)
        return row

    def tell(values: list[float], charge: float) -> None:
        study.tell(asked[-1], float(np.mean(values)))

    return ask, tell, lambda: study.best_trial.user_attrs["row"]


def table() -> str:
    """Return the losses of all runs, and the differences to the method with chosen repeats."""
    rows = RUNS.rows()
    lines = []
    for level, title in enumerate(("half of the budget", "the whole budget")):
        lines += [
            f"## Loss with {title}",
            "",
            "Mean and standard error over the seeds; in parentheses the mean of the paired "
            "differences to `repeats` with their standard error.",
            "",
            "| method | " + " | ".join(TASKS) + " |",
            "|---" * (len(TASKS) + 1) + "|",
        ]
        for method in METHODS:
            entries = []
            for task in TASKS:
                mine = {r["seed"]: r["losses"][level] for r in rows if _is(r, task, method)}
                ours = {r["seed"]: r["losses"][level] for r in rows if _is(r, task, "repeats")}
                entries.append(_entry(mine, ours, method))
            if any(entries):
                lines.append(f"| {method} | " + " | ".join(entries) + " |")
        lines.append("")
    return "\n".join(lines)


def _is(row: Mapping[str, Any], task: str, method: str) -> bool:
    return bool(row["task"] == task and row["method"] == method)


def _entry(mine: Mapping[int, float], ours: Mapping[int, float], method: str) -> str:
    if not mine:
        return ""
    values = np.array(list(mine.values()))
    text = f"{values.mean():.3f} ± {_error(values):.3f} ({len(values)} seeds)"
    both = [mine[seed] - ours[seed] for seed in mine if seed in ours]
    if method == "repeats" or len(both) < 2:
        return text
    return f"{text} ({np.mean(both):+.3f} ± {_error(np.array(both)):.3f})"


def _error(values: Any) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def main() -> None:
    """Run what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="*", default=TASKS)
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if not given.table:
        runs = [
            Run(task, method, seed)
            for seed in range(given.seeds)
            for task in given.tasks
            for method in given.methods
        ]
        RUNS.run_missing(run, runs, lambda one: dict(one._asdict()), given.processes, "repeats")
    (RESULTS / "repeats.md").write_text(table() + "\n")
    print(table())


if __name__ == "__main__":
    main()
