"""Outcome constraints: loss for the cost, and how many trials are infeasible, beside BoTorch's.

Two problems of BoTorch, on the unit cube: ``ConstrainedHartmann`` in six dimensions (one
constraint) and ``PressureVessel`` (four inputs, four constraints). What a trial costs rises
thirtyfold along all inputs together. The rival is BoTorch's constrained log expected improvement,
less the logarithm of the cost, with the same models in the same loop; before anything is feasible
it takes BoTorch's probability of feasibility per cost.

    python benchmarks/constraints.py --seeds 10 --processes 2     # resumable
    python benchmarks/constraints.py --table                      # of all that was run

A loss is that of the best feasible outcome so far, in units of the distance from the best feasible
value to the median one; 1 before anything is feasible. Runs are kept in
``benchmarks/results/partial``; the table goes to ``benchmarks/results/constraints.md``.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import (
    LogConstrainedExpectedImprovement,
    LogProbabilityOfFeasibility,
)
from botorch.exceptions.warnings import BotorchWarning, OptimizationWarning
from botorch.models.model_list_gp_regression import ModelListGP
from botorch.test_functions.synthetic import ConstrainedHartmann, PressureVessel
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.utils.warnings import NumericalWarning
from kept_runs import RESULTS, keep, path_of, read, run_all
from torch import Tensor

from ax_costaware.core import Decision, OutcomeConstraint, Problem, Simulation, Stop
from ax_costaware.core.simulation import Outcome
from ax_costaware.core.traits import Traits
from ax_costaware.methods import CostAware, Gittins, Method
from ax_costaware.space import Range, Space

RATIO = 30.0
"""The most expensive trial's cost by the cheapest one's."""

LEVELS = (0.25, 0.5, 0.75, 1.0)
"""Parts of the budget at which a run is looked at."""


@dataclass(frozen=True)
class Task:
    """A problem to be minimised under constraints, on the unit cube."""

    function: Any
    """BoTorch's function."""

    mean_costs: float
    """The budget, in mean costs of a trial."""

    @property
    def dim(self) -> int:
        """Number of inputs."""
        return int(self.function.dim)

    @property
    def constraints(self) -> list[OutcomeConstraint]:
        """What is feasible: no slack is negative."""
        return [OutcomeConstraint(f"slack{i}", 0.0) for i in range(self.function.num_constraints)]

    def outcome(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Values ``n`` and slacks ``n x m`` at points ``n x d``."""
        lower, upper = self.function.bounds
        raw = lower + (upper - lower) * X
        return self.function(raw, noise=False), self.function.evaluate_slack(raw, noise=False)

    def cost(self, X: Tensor) -> Tensor:
        """What trials cost, ``n``: 1 for the mean trial."""
        return torch.exp(math.log(RATIO) * X.mean(dim=-1)) / self._mean_cost

    @cached_property
    def _looks(self) -> Tensor:
        cube = torch.stack([torch.zeros(self.dim), torch.ones(self.dim)]).double()
        return draw_sobol_samples(cube, 2**14, 1, seed=1).squeeze(1)

    @cached_property
    def _mean_cost(self) -> float:
        return float(torch.exp(math.log(RATIO) * self._looks.mean(dim=-1)).mean())

    def loss(self, value: float) -> float:
        """The loss of a feasible value."""
        values, slacks = self.outcome(self._looks)
        median = float(values[(slacks >= 0).all(dim=-1)].median())
        best = float(self.function.optimal_value)
        return max(value - best, 0.0) / (median - best)


@cache
def tasks() -> dict[str, Task]:
    """The problems by name."""
    return {
        "Hartmann6": Task(ConstrainedHartmann(), 40.0),
        "PressureVessel": Task(PressureVessel(dtype=torch.double), 40.0),
    }


class _PerCost(AcquisitionFunction):
    """An acquisition function in logarithms, less that of the cost."""

    def __init__(self, of: AcquisitionFunction, cost: Callable[[Tensor], Tensor]) -> None:
        super().__init__(model=of.model)
        self.of, self.cost = of, cost

    def forward(self, X: Tensor) -> Tensor:
        """Values of points ``b x 1 x d``: ``b``."""
        value: Tensor = self.of(X) - self.cost(X.squeeze(-2)).log()
        return value


@dataclass(frozen=True)
class BoTorchPerCost(Method):
    """BoTorch's constrained expected improvement per cost, after five Sobol trials."""

    traits = Traits(refuses_constraints=None)

    task: str

    def decide(self, problem: Problem) -> Decision:
        """The trial with the largest value."""
        models: list[Any] = [problem.model, *(c.fit() for c in problem.constraints)]
        bounds: dict[int, tuple[float | None, float | None]]
        zeros = [bound.scale.to_model(0.0) for bound in problem.constraints]
        bounds = {i: (zero, None) for i, zero in enumerate(zeros, start=1)}
        feasible = [t for t in problem.observed if min(t.metrics.values()) >= 0]
        of: AcquisitionFunction
        if feasible:
            best = max(problem.scale.to_model(float(trial.outcome or 0.0)) for trial in feasible)
            of = LogConstrainedExpectedImprovement(ModelListGP(*models), best, 0, bounds)
        else:
            of = LogProbabilityOfFeasibility(ModelListGP(*models), bounds)
        point = problem.maximize(_PerCost(of, tasks()[self.task].cost), {}).point
        (row,) = problem.space.decode(point.unsqueeze(0))
        return Decision(row, "It has the largest constrained improvement per cost.")


@dataclass(frozen=True)
class Random(Method):
    """Quasi-random trials."""

    traits = Traits(refuses_constraints=None)

    def decide(self, problem: Problem) -> Decision:
        """The next one."""
        return Decision(dict(problem.draw()), "It is quasi-random.")


METHODS: dict[str, dict[str, Any] | None] = {
    "log EI per cost": {"acquisition": "log_ei_per_cost", "stop": False},
    "log EI, cooled": {"acquisition": "log_ei_cost_cooling", "stop": False},
    "PBGI, price held": {"stop": True},
    "PBGI, price found again": {"stop": False},
    "BoTorch per cost": None,
    "random": None,
}
"""The methods by name, with the settings of ``CostAware``, or of ``Gittins`` for PBGI."""


class Run(NamedTuple):
    """One run."""

    task: str
    method: str
    seed: int


def method_of(run: Run) -> Method:
    """The method of a run."""
    task, settings = tasks()[run.task], METHODS[run.method]
    if run.method == "random":
        return Random(seed=run.seed)
    if settings is None:
        return BoTorchPerCost(run.task, seed=run.seed)
    kind = Gittins if run.method.startswith("PBGI") else CostAware
    return kind(
        lambda row: float(task.cost(_point(row, task.dim))),
        budget=task.mean_costs,
        seed=run.seed,
        # As the rivals' design and models.
        initial_share=None,
        initialize_with_center=False,
        winsorize=False,
        **settings,
    )


def _point(row: Any, dim: int) -> Tensor:
    return torch.tensor([[row[f"x{i}"] for i in range(dim)]], dtype=torch.double)


def key(run: Run) -> str:
    """The key of a run's result."""
    return f"constraints {run.task} {run.method} {run.seed}"


def simulate(run: Run) -> None:
    """Make one run and keep its losses, its share of infeasible trials, and what it took."""
    torch.set_num_threads(1)
    for category in (BotorchWarning, OptimizationWarning, NumericalWarning):
        warnings.simplefilter("ignore", category)
    started, task, method = time.process_time(), tasks()[run.task], method_of(run)
    space = Space.of([Range(f"x{i}", 0.0, 1.0) for i in range(task.dim)])
    simulation = Simulation(method, space, minimize=True, constraints=task.constraints)
    spent, trace, infeasible = 0.0, [(0.0, 1.0)], 0
    while not isinstance(decision := simulation.ask(), Stop):
        X = _point(decision.parameters, task.dim)
        cost, (value, slacks) = float(task.cost(X)), task.outcome(X)
        if spent + cost > task.mean_costs * (1 + 1e-9):
            break
        spent += cost
        is_feasible = bool((slacks >= 0).all())
        infeasible += decision.phase == "rule" and not is_feasible
        loss = task.loss(float(value)) if is_feasible else math.inf
        trace.append((spent, min(trace[-1][1], loss)))
        metrics = {f"slack{i}": float(slack) for i, slack in enumerate(slacks[0])}
        simulation.tell(decision, Outcome(float(value), cost, metrics=metrics))
    costs = np.array([step[0] for step in trace])
    reached = np.searchsorted(costs, np.array(LEVELS) * task.mean_costs + 1e-9, "right") - 1
    chosen = len(simulation.trials) - method.initial_trials
    best = simulation.recommend() if isinstance(method, CostAware) else None
    deployed = None
    if best is not None:
        value, slacks = task.outcome(_point(best.parameters, task.dim))
        is_feasible = bool((slacks >= 0).all())
        deployed = task.loss(float(value)) if is_feasible else 1.0
    keep(
        key(run),
        {
            "losses": [trace[i][1] for i in reached],
            "infeasible": infeasible / max(1, chosen),
            "deployed": deployed,
            "spent": spent / task.mean_costs,
            "trials": len(simulation.trials),
            "cpu_s": round(time.process_time() - started, 1),
        },
    )


def table(runs: Sequence[Run]) -> str:
    """Mean loss with its standard error, and the share of infeasible trials, by problem."""
    lines = []
    for task in tasks():
        levels = [f"loss at {level:.0%}" for level in LEVELS]
        header = ["method", "seeds", *levels, "deployed", "infeasible", "trials", "CPU s"]
        lines += [f"## {task}", "", f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
        for method in METHODS:
            kept = [r for r in runs if r.task == task and r.method == method]
            found = [read(key(run)) for run in kept if path_of(key(run)).exists()]
            if not found:
                continue
            losses = np.array([result["losses"] for result in found])
            error = losses.std(axis=0, ddof=1) / math.sqrt(len(found)) if len(found) > 1 else 0.0
            entries = [
                f"{mean:.4f} ± {one:.4f}"
                for mean, one in zip(losses.mean(axis=0), np.broadcast_to(error, 4), strict=True)
            ]
            deployed = [r["deployed"] for r in found if r["deployed"] is not None]
            rest = [
                f"{np.mean(deployed):.4f}" if deployed else "",
                f"{np.mean([r['infeasible'] for r in found]):.0%}",
                f"{np.mean([r['trials'] for r in found]):.0f}",
                f"{np.mean([r['cpu_s'] for r in found]):.0f}",
            ]
            lines.append(f"| {' | '.join([method, str(len(found)), *entries, *rest])} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--tasks", nargs="+", default=["Hartmann6", "PressureVessel"])
    parser.add_argument("--table", action="store_true", help="only of what was run")
    asked = parser.parse_args()
    runs = [Run(t, m, s) for s in range(asked.seeds) for t in asked.tasks for m in asked.methods]
    if not asked.table:
        run_all(simulate, runs, key, asked.processes, "outcome constraints")
    text = table(runs)
    (RESULTS / "constraints.md").write_text(f"# Outcome constraints\n\n{text}")
    print(text)


if __name__ == "__main__":
    main()
