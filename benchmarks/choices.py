"""Choices without an order: ours, plain Ax and Optuna's TPE on measured tables and panel cells.

    python benchmarks/choices.py                           # resumable; two hours on one core
    python benchmarks/choices.py --cells reactions --methods default --seeds 3
    python benchmarks/choices.py --table                   # of all that was run

A run ends when the budget, in mean costs of a trial, is spent; costs are learned. Its loss is the
distance of the best outcome so far from the best value, in units of the distance from the best
value to the median one. Runs are kept in ``benchmarks/results/choices.jsonl``. Tables are read from
``../shared/data``. Optuna is not needed for the other methods.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import panel_cells
import torch
from botorch.exceptions.warnings import BotorchWarning, OptimizationWarning
from gpytorch.kernels import AdditiveKernel
from gpytorch.utils.warnings import NumericalWarning
from kept_runs import KeptRuns
from panel_trials import LEVELS, PlainAx, Random
from torch import Tensor

from ax_costaware.core import Simulation, Stop
from ax_costaware.core.model import ModelOptions
from ax_costaware.core.simulation import Outcome
from ax_costaware.methods import CostAware, Method
from ax_costaware.models.matern_gp import MaternGP
from ax_costaware.space import Choice, Space
from ax_costaware.space.parameters import FreeParameter, Row

DATA = Path(__file__).parents[2] / "shared" / "data"
MEAN_COSTS = 25.0
RUNS = KeptRuns("choices")


@dataclass(frozen=True)
class Problem:
    """A function of parameters with the cost of each of its values, larger values are better."""

    parameters: tuple[FreeParameter, ...]
    evaluate: Callable[[Row], tuple[float, float]]
    """Value and cost at a parameterization."""

    best: float
    median: float
    mean_cost: float

    @cached_property
    def space(self) -> Space:
        """The search space."""
        return Space.of(self.parameters)


def _of_table(
    rows: list[dict[str, Any]], parameters: tuple[FreeParameter, ...], value: str, cost: str
) -> Problem:
    names = [parameter.name for parameter in parameters]
    known = {
        tuple(row[name] for name in names): (float(row[value]), float(row[cost])) for row in rows
    }
    values, costs = zip(*known.values(), strict=True)
    return Problem(
        parameters,
        lambda row: known[tuple(row[name] for name in names)],
        max(values),
        float(np.median(values)),
        float(np.mean(costs)),
    )


def _rows(name: str) -> list[dict[str, Any]]:
    with (DATA / name).open() as file:
        return list(csv.DictReader(file))


def reactions() -> Problem:
    """Yields of 1,728 reactions: three choices without an order, two with one."""
    rows = _rows("reaction_yield_and_cost.csv")
    for row in rows:
        row |= {name: float(row[name]) for name in ("concentration", "temperature")}
    return _of_table(rows, _choices(rows, "base", "ligand", "solvent"), "yield", "cost")


def cloud() -> Problem:
    """Accuracies of 288 trainings: 24 kinds of clusters, and three settings."""
    rows = [row for row in _rows("cloud_training.csv") if row["training_set_size"] == "60000"]
    for row in rows:
        row["cluster"] = f"{row['n_workers']} x {row['vm_flavor']}"
        row |= {name: float(row[name]) for name in ("learning_rate", "batch_size")}
        row["accuracy"] = str(np.log(1 / (1 - float(row["accuracy"]))))
    names = "cluster", "synchronism", "learning_rate", "batch_size"
    rows = [{name: row[name] for name in (*names, "accuracy", "dollars")} for row in rows]
    return _of_table(rows, _choices(rows, "cluster", "synchronism"), "accuracy", "dollars")


def _choices(rows: list[dict[str, Any]], *without_order: str) -> tuple[FreeParameter, ...]:
    def choice(name: str) -> Choice:
        values = tuple(sorted({row[name] for row in rows}))
        if name in without_order:
            return Choice(name, values, is_ranked=len(values) == 2)
        return Choice(name, values, is_ordered=True, log_scale=name == "learning_rate")

    return tuple(choice(name) for name in list(rows[0])[:-2])


def _panel(name: str) -> Problem:
    cell = replace(panel_cells.CELLS[name], limit=None)  # Optuna takes no constraint

    def evaluate(row: Row) -> tuple[float, float]:
        X = cell.point(row)
        return float(cell.value(X)), float(cell.cost(X))

    parameters = tuple(column.parameter for column in cell.space.columns.values())
    return Problem(parameters, evaluate, 0.0, -1.0, 1.0)


CELLS: dict[str, Callable[[], Problem]] = {
    "reactions": reactions,
    "cloud": cloud,
    "mixed levy5": lambda: _panel("mixed levy5"),
    "mixed michalewicz5": lambda: _panel("mixed michalewicz5"),
}

problem_of = cache(lambda name: CELLS[name]())

Make = Callable[[float, int], Method]


class WithoutEffects(MaternGP):
    """The default's model without effects of the values of a choice."""

    def __init__(self, train_X: Tensor, train_Y: Tensor, **options: Any) -> None:
        super().__init__(train_X, train_Y, **options)
        if isinstance(self.covar_module, AdditiveKernel):
            self.covar_module = self.covar_module.kernels[-1]


MODELS = {"without effects": ModelOptions("WithoutEffects", WithoutEffects)}
"""Models other than the method's own."""

METHODS: dict[str, Make] = {
    "default": lambda budget, seed: CostAware("cost", budget=budget, seed=seed),
    "without effects": lambda budget, seed: CostAware("cost", budget=budget, seed=seed),
    "plain Ax": lambda budget, seed: PlainAx(seed=seed),
    "random": lambda budget, seed: Random(seed=seed),
}
TPE = "Optuna TPE"


def run(task: tuple[str, str, int]) -> dict[str, Any]:
    """Make one run.

    Returns:
        ``losses`` at each of ``LEVELS`` of the budget, the number of ``trials``, and ``cpu_s``.
    """
    torch.set_num_threads(1)
    for category in (BotorchWarning, OptimizationWarning, NumericalWarning):
        warnings.simplefilter("ignore", category)
    cell, name, seed = task
    problem, started = problem_of(cell), time.process_time()
    trials = (_tpe if name == TPE else _ours)(problem, name, seed)
    spent = np.cumsum([cost for _, cost in trials]) / (MEAN_COSTS * problem.mean_cost)
    losses = [(problem.best - v) / (problem.best - problem.median) for v, _ in trials]
    return {
        "losses": [
            min((loss for loss, s in zip(losses, spent, strict=True) if s <= level), default=1.0)
            for level in LEVELS
        ],
        "trials": len(trials),
        "cpu_s": time.process_time() - started,
    }


def _ours(problem: Problem, name: str, seed: int) -> list[tuple[float, float]]:
    budget = MEAN_COSTS * problem.mean_cost
    method = METHODS[name](budget, seed)
    simulation, trials = Simulation(method, problem.space, hyperparameters=MODELS.get(name)), []
    while not isinstance(decision := simulation.ask(), Stop):
        value, cost = problem.evaluate(decision.parameters)
        trials.append((value, cost))
        if sum(cost for _, cost in trials) > budget:
            break
        simulation.tell(decision, Outcome(value, cost))
    return trials


def _tpe(problem: Problem, name: str, seed: int) -> list[tuple[float, float]]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed, multivariate=True)
    )
    trials: list[tuple[float, float]] = []
    while sum(cost for _, cost in trials) <= MEAN_COSTS * problem.mean_cost:
        trial, row = study.ask(), {}
        for parameter in problem.parameters:
            if isinstance(parameter, Choice):
                row[parameter.name] = trial.suggest_categorical(parameter.name, parameter.values)
            elif parameter.is_integer:
                row[parameter.name] = trial.suggest_int(
                    parameter.name, int(parameter.lower), int(parameter.upper)
                )
            else:
                row[parameter.name] = trial.suggest_float(
                    parameter.name, parameter.lower, parameter.upper
                )
        trials.append(problem.evaluate(row))
        study.tell(trial, trials[-1][0])
    return trials


def table(cells: list[str], methods: list[str]) -> str:
    """Mean loss and its standard error at a quarter, at half and at the end of the budget."""
    places = [LEVELS.index(level) for level in (0.25, 0.5, 1.0)]
    lines = ["| cell | method | seeds | quarter | half | end |", "|---|---|---|---|---|---|"]
    for cell in cells:
        for method in methods:
            runs = RUNS.rows(cell=cell, method=method)
            if not runs:
                continue
            shown = []
            for place in places:
                losses = np.array([row["losses"][place] for row in runs])
                error = losses.std(ddof=1) / len(losses) ** 0.5 if len(losses) > 1 else 0.0
                shown.append(f"{losses.mean():.3f} +- {error:.3f}")
            lines.append(f"| {cell} | {method} | {len(runs)} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", nargs="+", default=list(CELLS))
    parser.add_argument("--methods", nargs="+", default=[*METHODS, TPE])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    tasks = [
        (c, m, s) for s in range(options.seeds) for c in options.cells for m in options.methods
    ]
    if not options.table:
        RUNS.run_missing(
            run,
            tasks,
            lambda task: dict(zip(("cell", "method", "seed"), task, strict=True)),
            options.processes,
        )
    print(table(options.cells, options.methods))


if __name__ == "__main__":
    main()
