"""One run of the panel on trials that cost differently: a method on a cell, without Ax."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.exceptions.warnings import BotorchWarning, OptimizationWarning
from gpytorch.utils.warnings import NumericalWarning
from panel_cells import LEARNED_SPREAD, Cell
from torch import Tensor

from ax_costaware.acquisition import incumbent
from ax_costaware.methods import Decision, Gittins, Method, Problem, Range, Simulation, Space, Stop
from ax_costaware.methods.priced import CostArgument
from ax_costaware.methods.simulation import Outcome
from ax_costaware.policies import GittinsDecay

LEVELS = tuple(i / 20 for i in range(1, 21))
"""Parts of the budget at which a run is looked at."""

_MOST_TRIALS = 400


@dataclass(frozen=True)
class PlainAx(Method):
    """Ax's default for one objective: its acquisition function, after five Sobol trials."""

    def decide(self, problem: Problem) -> Decision:
        """The trial that noisy expected improvement likes best, whatever it costs."""
        acquisition = qLogNoisyExpectedImprovement(
            problem.model, problem.evaluated, prune_baseline=True
        )
        point, _ = problem.maximize(acquisition, {})
        (row,) = problem.space.decode(point.unsqueeze(0))
        return Decision(row, "It has the largest noisy expected improvement.")


@dataclass(frozen=True)
class Random(Method):
    """Quasi-random trials."""

    def decide(self, problem: Problem) -> Decision:
        """The next one."""
        return Decision(dict(problem.draw()), "It is quasi-random.")


Make = Callable[[CostArgument, float, int], Method]
"""Makes a method of a cost, a budget and a seed."""


def _gittins(**settings: Any) -> Make:
    return lambda cost, budget, seed: Gittins(cost, budget=budget, seed=seed, **settings)


METHODS: dict[str, Make] = {
    "default": _gittins(),
    "plain Ax": lambda cost, budget, seed: PlainAx(seed=seed),
    "log EI": lambda cost, budget, seed: Gittins(1.0, seed=seed, initial_share=None),
    "log EI per cost": _gittins(initial_share=None),
    "log EI, cooled": _gittins(acquisition="log_ei_cost_cooling", initial_share=None),
    "PBGI, price held": _gittins(acquisition="gittins", stop=True, initial_share=None),
    "PBGI, price found again": _gittins(acquisition="gittins", initial_share=None),
    "PBGI-D": _gittins(acquisition="gittins", decay=GittinsDecay(), initial_share=None),
    "PBGI found again, design": _gittins(acquisition="gittins"),
    "random": lambda cost, budget, seed: Random(seed=seed),
}
"""The methods by name: the default, and its rivals."""


def simulate(cell: Cell, name: str, seed: int) -> dict[str, Any]:
    """One run: what was in hand at each part of the budget.

    Returns:
        ``values``: the true value of what would be deployed at each of ``LEVELS`` (-1, that of the
        median point, before there is anything); ``spent``, ``trials`` and ``cpu_s``.
    """
    torch.set_num_threads(1)
    for category in (BotorchWarning, OptimizationWarning, NumericalWarning):
        warnings.simplefilter("ignore", category)
    started = time.process_time()
    names = [f"x{i}" for i in range(cell.dim)]

    def point_of(row: Any) -> Tensor:
        return torch.tensor([[row[n] for n in names]], dtype=torch.double)

    cost: CostArgument = "cost" if cell.learned else lambda row: float(cell.cost(point_of(row)))
    method = METHODS[name](cost, cell.mean_costs, seed)
    simulation = Simulation(method, Space.of([Range(n, 0.0, 1.0) for n in names]))
    noise = np.random.default_rng(seed + 1000)
    spent, trace = 0.0, [(0.0, -1.0)]
    values: list[float] = []
    while len(values) < _MOST_TRIALS:
        decision = simulation.ask()
        if values:
            trace.append((spent, values[_in_hand(simulation)]))
        if isinstance(decision, Stop):
            break
        X = point_of(decision.parameters)
        charge, value = float(cell.cost(X)), float(cell.value(X))
        outcome = value + cell.noise * noise.standard_normal()
        if cell.learned:
            charge *= math.exp(LEARNED_SPREAD * noise.standard_normal())
        if spent + charge > cell.mean_costs * (1 + 1e-9):
            break
        spent += charge
        values.append(value)
        simulation.tell(decision, Outcome(outcome, charge))
    costs = np.array([step[0] for step in trace])
    reached = np.searchsorted(costs, np.array(LEVELS) * cell.mean_costs + 1e-9, "right") - 1
    return {
        "values": [round(trace[i][1], 6) for i in reached],
        "spent": round(spent / cell.mean_costs, 4),
        "trials": len(values),
        "cpu_s": round(time.process_time() - started, 1),
    }


def _in_hand(simulation: Simulation) -> int:
    """The trial with the best posterior mean, or in the initial design the best outcome."""
    problem = simulation.problem()
    if problem.num_initial < simulation.method.initial_trials and all(
        trial.record.get("phase") == "initial" for trial in simulation.trials
    ):
        return int(np.argmax([trial.outcome or 0.0 for trial in simulation.trials]))
    return int(incumbent(problem.model, problem.evaluated)[1])
