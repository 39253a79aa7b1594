"""Several objectives: hypervolume against the cost spent, beside Ax's acquisition function.

Problems of BoTorch: ``BraninCurrin`` (2 inputs), ``DTLZ2`` (4), ``VehicleSafety`` (5 inputs, 3
objectives) and ``Penicillin`` (7 inputs, 3 objectives), on the unit cube. The cost of a trial
varies by a factor of ``RATIO``: it rises along all inputs, falls along them, or is a wave that has
nothing to do with the objectives; it is known, or learned from reported costs. ``reactions`` are
1,728 measured ones, read from ``../shared/data``: yield against the logarithm of the cost of the
reagents, which is what a trial costs. The budget pays for ``MEAN_COSTS`` trials of mean cost.
Rivals run with the same problems and budget:

- plain Ax: noisy expected hypervolume improvement, Ax's models, design and search, in our loop;
- ParEGO: random weights, without costs, in our loop;
- Optuna's TPE and NSGA-II (with its default population of 50).

    nice python benchmarks/fronts.py --seeds 3 --problems branin_currin     # resumable
    python benchmarks/fronts.py --table                                     # of all that was run

A run is kept as a line of ``benchmarks/results/fronts.jsonl``: the hypervolume of all outcomes so
far, as a part of the largest one that is known, after each twentieth of the budget; and the median
of the seconds of the model's decisions, which depend on what else the machine does. The table, in
``benchmarks/results/fronts.md``, says at what part of the budget a method reaches the final
hypervolume of plain Ax of the same seed.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.exceptions.warnings import BotorchWarning, OptimizationWarning
from botorch.models.model_list_gp_regression import ModelListGP
from botorch.test_functions.multi_objective import (
    DTLZ2,
    BraninCurrin,
    Penicillin,
    VehicleSafety,
)
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.utils.warnings import NumericalWarning
from kept_runs import RESULTS, KeptRuns
from torch import Tensor

from ax_costaware.acquisition.hypervolume_improvement import hypervolume
from ax_costaware.core import Decision, Objective, Outcome, Problem, Simulation, Stop
from ax_costaware.core.traits import Traits
from ax_costaware.costs import Cost
from ax_costaware.methods import CostAware, Method
from ax_costaware.methods.cost_aware.front import Front
from ax_costaware.space import Choice, Range, Space
from ax_costaware.space.candidates import Candidates
from ax_costaware.space.parameters import Row

REACTIONS = Path(__file__).parents[2] / "shared" / "data" / "reaction_yield_and_cost.csv"

RATIO = 20.0
"""The most expensive trial's cost by the cheapest one's."""

MEAN_COSTS = {
    "branin_currin": 20,
    "dtlz2": 30,
    "vehicle_safety": 25,
    "penicillin": 40,
    "reactions": 20,
}
"""Trials of mean cost that the budget pays for."""

LEVELS = tuple(i / 20 for i in range(1, 21))
"""Parts of the budget at which a run is looked at."""

LAWS: dict[str, Callable[[Tensor], Tensor]] = {
    "rising": lambda X: X.mean(dim=-1),
    "falling": lambda X: 1.0 - X.mean(dim=-1),
    "unrelated": lambda X: 0.5 + 0.5 * torch.sin(5 * X[..., 0] + 1) * torch.cos(3 * X[..., 1]),
}
"""Log of the cost by that of ``RATIO``, between 0 and 1, of points ``... x d`` of the unit cube."""


@dataclass(frozen=True)
class LawCost(Cost):
    """Cost of a law, known to the method."""

    law: str
    names: tuple[str, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return self.names

    def evaluate(self, columns: Mapping[Any, Tensor]) -> Tensor:
        """Return the costs of trials."""
        X = torch.stack([columns[name] for name in self.names], dim=-1)
        return (LAWS[self.law](X) * math.log(RATIO)).exp()


@dataclass(frozen=True, kw_only=True)
class PlainAx(Method):
    """Ax's default for several objectives."""

    traits = Traits(winsorize_iqr=1.5, refuses_objectives=None)

    def initial(self, problem: Problem) -> Decision | Stop | None:
        """The center of the search space, then quasi-random trials."""
        if problem.trials:
            return super().initial(problem)
        state = self.budget_state(problem, initial=True)
        return self.initial_decision(problem, problem.space.center, None, state)

    def decide(self, problem: Problem) -> Decision:
        """The trial of the largest noisy expected hypervolume improvement, whatever it costs."""
        front = Front(CostAware(1.0), problem)
        acquisition = qLogNoisyExpectedHypervolumeImprovement(
            ModelListGP(*cast(list[Any], problem.models)),
            front.ref_point,
            problem.evaluated,
            prune_baseline=True,
        )
        point = problem.maximize(acquisition, {}).point
        (row,) = problem.space.decode(point.unsqueeze(0))
        return Decision(row, "It has the largest noisy expected hypervolume improvement.")


COST_AWARE, OPTUNA = ("default", "ParEGO per cost"), ("TPE", "NSGA-II")

METHODS = ("default", "plain Ax", "ParEGO per cost", "ParEGO", *OPTUNA)


class Task(NamedTuple):
    """What is run."""

    problem: str
    law: str
    learned: bool
    method: str
    seed: int


@dataclass(frozen=True)
class Trials:
    """Objectives and cost of trials, all maximized."""

    space: Space
    """The search space."""

    values: Callable[[Row], Tensor]
    """Values of the objectives."""

    cost: Callable[[Row], float]
    """Cost of a trial."""

    known: Mapping[str, Any]
    """The same, as arguments of a method that knows it."""

    ref_point: Tensor
    """Reference point of the hypervolume."""

    most: float
    """Largest known hypervolume."""

    mean_cost: float
    """Cost of a trial on average."""


@cache
def trials_of(problem: str, law: str) -> Trials:
    """Return what trials of a problem show and cost."""
    return _reactions() if problem == "reactions" else _of_function(problem, law)


def _of_function(problem: str, law: str) -> Trials:
    made: dict[str, Callable[[], Any]] = {
        "branin_currin": lambda: BraninCurrin(negate=True),
        "dtlz2": lambda: DTLZ2(dim=4, negate=True),
        "vehicle_safety": lambda: VehicleSafety(negate=True),
        "penicillin": lambda: Penicillin(negate=True),
    }
    function = made[problem]().double()
    names = [f"x{i}" for i in range(function.dim)]
    cost = LawCost(law, tuple(names))
    cube = torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, function.dim)
    drawn = draw_sobol_samples(cube, 4096, 1, seed=0).squeeze(1)
    mean_cost = cost.evaluate(dict(zip(names, drawn.unbind(-1), strict=True))).mean()
    lower, upper = function.bounds.double()

    def values(row: Row) -> Tensor:
        x = torch.tensor([row[name] for name in names], dtype=torch.double)
        with torch.no_grad():
            found: Tensor = function((lower + (upper - lower) * x).unsqueeze(0))[0]
        return found

    space = Space.of([Range(name, 0.0, 1.0) for name in names])
    most = function._max_hv if function._max_hv is not None else 1.0
    known = {"cost": cost}
    ref_point = function.ref_point.double()
    return Trials(space, values, cost.at, known, ref_point, most, float(mean_cost))


def _reactions() -> Trials:
    names = "base", "ligand", "solvent", "concentration", "temperature"
    rows = list(csv.DictReader(REACTIONS.open()))
    for row in rows:
        row.update({name: float(row[name]) for name in names[3:]})
    found = {
        tuple(row[name] for name in names): torch.tensor(
            [float(row["yield"]), -math.log(float(row["cost"]))], dtype=torch.double
        )
        for row in rows
    }
    Y = torch.stack(list(found.values()))
    ref_point = Y.amin(dim=0)
    space = Space.of(
        [
            Choice(name, tuple(sorted({row[name] for row in rows})), is_ordered=name in names[3:])
            for name in names
        ]
    )
    table = {name: [row[name] for row in rows] for name in names}
    table["cost"] = [float(row["cost"]) for row in rows]

    def values(row: Row) -> Tensor:
        return found[tuple(row[name] for name in names)]

    return Trials(
        space,
        values,
        lambda row: math.exp(-float(values(row)[1])),
        {"cost": "cost", "candidates": Candidates(table, cost="cost")},
        ref_point,
        hypervolume(Y, ref_point),
        float((-Y[:, 1]).exp().mean()),
    )


def run(task: Task) -> dict[str, Any]:
    """Return the hypervolume after each part of the budget."""
    for kind in (BotorchWarning, OptimizationWarning, NumericalWarning, RuntimeWarning):
        warnings.simplefilter("ignore", kind)
    torch.set_num_threads(1)
    trials = trials_of(task.problem, task.law)
    budget = MEAN_COSTS[task.problem] * trials.mean_cost
    ask, tell = (_optuna if task.method in OPTUNA else _ours)(task, trials, budget)
    spent, values, seconds, found = 0.0, list[Tensor](), list[float](), [(0.0, 0.0)]
    while spent < budget:
        start = time.perf_counter()
        row, is_model = ask()
        if row is None:
            break
        if is_model:
            seconds.append(time.perf_counter() - start)
        values.append(trials.values(row))
        paid = trials.cost(row)
        spent += paid
        tell(values[-1].tolist(), paid)
        if spent <= budget * (1 + 1e-9):
            found.append((spent / budget, hypervolume(torch.stack(values), trials.ref_point)))
    return {
        "hypervolumes": [
            max(volume for part, volume in found if part <= level + 1e-9) / trials.most
            for level in LEVELS
        ],
        "trials": len(values),
        "seconds": statistics.median(seconds) if seconds else 0.0,
    }


Steps = tuple[Callable[[], tuple[Row | None, bool]], Callable[[list[float], float], None]]
"""The next trial, and whether a model chose it; and a function that takes its outcomes and cost."""


def _ours(task: Task, trials: Trials, budget: float) -> Steps:
    known = {"cost": "seconds"} if task.learned else trials.known
    made: dict[str, Callable[[], Method]] = {
        "default": lambda: CostAware(**known, budget=budget, seed=task.seed),
        "ParEGO per cost": lambda: CostAware(
            **known, budget=budget, seed=task.seed, acquisition="parego_per_cost"
        ),
        "ParEGO": lambda: CostAware(1.0, seed=task.seed, acquisition="parego_per_cost"),
        "plain Ax": lambda: PlainAx(seed=task.seed),
    }
    names = [f"f{i}" for i in range(len(trials.ref_point))]
    objectives = [
        Objective(name, threshold=float(trials.ref_point[i])) for i, name in enumerate(names)
    ]
    simulation = Simulation(made[task.method](), trials.space, objectives=objectives)
    asked: list[Decision] = []

    def ask() -> tuple[Row | None, bool]:
        decision = simulation.ask()
        if isinstance(decision, Stop):
            return None, False
        asked.append(decision)
        return decision.parameters, decision.phase == "rule"

    def tell(values: list[float], paid: float) -> None:
        metrics = dict(zip(names[1:], values[1:], strict=True))
        reported = paid if "seconds" in simulation.method.reads else None
        simulation.tell(asked[-1], Outcome(values[0], cost=reported, metrics=metrics))

    return ask, tell


def _optuna(task: Task, trials: Trials, budget: float) -> Steps:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    samplers = {"TPE": optuna.samplers.TPESampler, "NSGA-II": optuna.samplers.NSGAIISampler}
    directions: list[Any] = ["maximize"] * len(trials.ref_point)
    sampler = samplers[task.method](seed=task.seed)
    study = optuna.create_study(directions=directions, sampler=sampler)
    asked: list[Any] = []

    def ask() -> tuple[Row, bool]:
        trial = study.ask()
        asked.append(trial)
        row: dict[str, Any] = {}
        for name, one in trials.space.parameters.items():
            if isinstance(one, Range):
                row[name] = float(trial.suggest_float(name, one.lower, one.upper))
            elif isinstance(one, Choice):
                row[name] = trial.suggest_categorical(name, one.values)
        return row, True

    def tell(values: list[float], paid: float) -> None:
        study.tell(asked[-1], values)

    return ask, tell


def table() -> str:
    """Return the medians over seeds, per cell and method."""
    kept = KeptRuns("fronts")
    cells = sorted({(r["problem"], r["law"], r["learned"]) for r in kept.rows()})
    lines = [
        "| problem | cost | seeds | method | final hypervolume | trials | reaches plain Ax's final "
        "at (part of its cost) | behind it in | seconds per decision |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for problem, law, learned in cells:
        cell = {"problem": problem, "law": law, "learned": learned}
        unlearned = {**cell, "learned": False}  # other methods see no costs
        plain = {r["seed"]: r for r in kept.rows(**unlearned, method="plain Ax")}
        for method in METHODS:
            rows = [r for r in kept.rows(**cell, method=method) if r["seed"] in plain]
            if not rows:
                continue
            parts, behind = [], 0
            for row in rows:
                goal = plain[row["seed"]]["hypervolumes"][-1]
                reached = [
                    level
                    for level, volume in zip(LEVELS, row["hypervolumes"], strict=True)
                    if volume >= goal * (1 - 1e-9)
                ]
                parts.append(reached[0] if reached else math.inf)
                behind += not reached
            half = statistics.median(parts)
            lines.append(
                f"| {problem} | {law}, {'learned' if learned else 'known'} | {len(rows)} | {method}"
                f" | {statistics.median(r['hypervolumes'][-1] for r in rows):.3f} | "
                f"{statistics.median(r['trials'] for r in rows):g} | "
                f"{f'{half:.2f}' if half < math.inf else 'not reached'} | {behind} | "
                f"{statistics.median(r['seconds'] for r in rows):.2f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--problems", nargs="+", default=list(MEAN_COSTS), choices=MEAN_COSTS)
    parser.add_argument("--laws", nargs="+", default=list(LAWS), choices=LAWS)
    parser.add_argument("--costs", nargs="+", default=["known", "learned"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if not arguments.table:
        tasks = [
            Task(problem, law, costs == "learned", method, seed)
            for seed in range(arguments.seeds)
            for problem in arguments.problems
            for law in (arguments.laws if problem != "reactions" else ["reagents"])
            for costs in arguments.costs
            for method in arguments.methods
            if costs == "known" or method in COST_AWARE
        ]
        KeptRuns("fronts").run_missing(run, tasks, Task._asdict, arguments.processes)
    text = table()
    (RESULTS / "fronts.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
