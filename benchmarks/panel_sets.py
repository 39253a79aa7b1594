"""The cells of the panel on control sets, and one run of a rule on a cell, without Ax.

The objectives of the published experiments and Hartmann's of six inputs. Hyperparameters are
fitted. What is judged is the recommendation, which is what a user gets: the true expectation of the
recommended query, below the best one's in standard deviations of the objective under its law.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from botorch.exceptions.warnings import BotorchWarning, OptimizationWarning
from botorch.test_functions.synthetic import Hartmann
from control_sets import Truth, cached_best
from gpytorch.utils.warnings import NumericalWarning
from panel_trials import LEVELS
from problems import COSTS, NOISE_STD, PROBLEMS, Problem

import ax_costaware as ac
from ax_costaware.core import Best, Decision, Simulation, Stop
from ax_costaware.core.simulation import Outcome
from ax_costaware.laws import TruncatedNormal
from ax_costaware.methods import ControlSetRule, ControlSets
from ax_costaware.space import Choice, Range, Space

_SPREAD = 0.2
"""Standard deviation of the logarithm of a cost that has to be learned."""

_MOST_TRIALS = 150

SIX = (1.0, 1.0, 1.0, 3.0, 3.0, 10.0)
WIDE = (1.0, 1.0, 1.0, 10.0, 10.0, 100.0)


def _hartmann6() -> Problem:
    base = Hartmann(dim=6, negate=True, dtype=torch.double)
    sets = ((0,), (1, 2), (3,), (0, 1, 2), (3, 4, 5), (0, 1, 2, 3, 4, 5))
    return Problem("hartmann6", lambda X: base(X, noise=False), 6, 0.2, sets, 3.32237)


_PROBLEMS: dict[str, Callable[[], Problem]] = {**PROBLEMS, "hartmann6": _hartmann6}


@dataclass(frozen=True)
class SetCell:
    """A problem with control sets, their costs, and a budget."""

    name: str
    """Name on the command line and in tables."""

    problem: str
    """Name of the objective."""

    costs: tuple[float, ...]
    """Cost of each control set."""

    budget: float
    """What all trials may cost together."""

    known: bool = True
    """Whether costs are declared; else they are learned, and random."""

    variance: float = 0.02
    """Variance of an uncontrolled input."""

    confirms: bool = False
    """Whether the cell was kept aside while defaults were chosen."""

    @cached_property
    def objective(self) -> Problem:
        """The objective."""
        return _PROBLEMS[self.problem]()

    @property
    def law(self) -> TruncatedNormal:
        """The law of every input that is not controlled."""
        (law, *_) = self.objective.marginals(self.variance)
        return law

    @cached_property
    def truth(self) -> Truth:
        """What queries are worth."""
        return Truth(self.objective, self.variance)

    @cached_property
    def spread(self) -> float:
        """Standard deviation of the objective over the unit cube."""
        points = torch.quasirandom.SobolEngine(self.objective.dim, seed=0).draw(4096)
        return float(self.objective.function(points.double()).std())

    @cached_property
    def best(self) -> float:
        """The largest expectation of any query, found once by a search."""
        return cached_best(self.truth)

    def value(self, best: Best) -> float:
        """The true expectation of a recommendation."""
        columns = [int(name[1:]) for name in best.parameters]
        x = torch.zeros(self.objective.dim, dtype=torch.double)
        x[columns] = x.new_tensor([float(value or 0.0) for value in best.parameters.values()])
        return self.truth.value(columns, x)


CELLS = {
    cell.name: cell
    for cell in [
        SetCell("sets hartmann6", "hartmann6", SIX, 120),
        SetCell("sets hartmann6, costs unknown", "hartmann6", SIX, 120, known=False),
        SetCell("sets airfoil, expensive", "airfoil", COSTS["expensive"], 30),
        SetCell("sets hartmann, moderate, small budget", "hartmann", COSTS["moderate"], 3),
        SetCell("sets GP sample, cheap, unknown", "gpsample", COSTS["cheap"], 4, known=False),
        SetCell("sets plant, moderate", "plant", COSTS["moderate"], 12),
        SetCell("sets hartmann6, out of reach", "hartmann6", SIX, 120, variance=0.004),
        SetCell("sets hartmann6, wide", "hartmann6", WIDE, 200, confirms=True),
        SetCell("sets hartmann6, wide, unknown", "hartmann6", WIDE, 200, False, confirms=True),
        SetCell(
            "sets airfoil, moderate, unknown", "airfoil", COSTS["moderate"], 8, False, confirms=True
        ),
        SetCell(
            "sets hartmann, cheap", "hartmann", COSTS["cheap"], 2, variance=0.04, confirms=True
        ),
        SetCell("sets GP sample, moderate", "gpsample", COSTS["moderate"], 12, confirms=True),
        SetCell(
            "sets plant, expensive, unknown", "plant", COSTS["expensive"], 40, False, confirms=True
        ),
        SetCell("sets hartmann6, small budget", "hartmann6", SIX, 30, confirms=True),
    ]
}
"""The cells by name."""


def _published(known: bool) -> ControlSetRule:
    """ETC-Ada, as published; with unknown costs our variant of the published rule."""
    return ac.ExploreThenCommit.adaptive() if known else ac.UnknownCosts()


METHODS: dict[str, Callable[[bool], tuple[ControlSetRule | None, str]]] = {
    "default": lambda known: (None, "ucb"),
    "published": lambda known: (_published(known), "ucb"),
    "value per cost": lambda known: (ac.LargestValuePerCost(), "ucb"),
    "EI per cost": lambda known: (ac.LargestValuePerCost(), "ei"),
    "largest control sets": lambda known: (ac.EpsilonSchedule.constant(0.0), "ei"),
}
"""Rules with their acquisition function, by name and by whether costs are known. The last is what
plain Ax would do, which always sets what it can."""


def trials(
    cell: SetCell, name: str, seed: int, **settings: Any
) -> Iterator[tuple[Simulation, Decision, float, float]]:
    """The trials of a run, each before it is made.

    Args:
        cell: The cell.
        name: Name of the method.
        seed: Seed of the method and of the problem's chance.
        settings: Further ones of the method.

    Yields:
        The simulation so far, the decision, what was spent before it, and what it is charged.
    """
    problem, law = cell.objective, cell.law
    names = [f"x{i}" for i in range(problem.dim)]
    sets = tuple(
        ac.ControlSet([names[i] for i in columns], cost=cost if cell.known else None)
        for columns, cost in zip(problem.control_sets, cell.costs, strict=True)
    )
    rule, acquisition = METHODS[name](cell.known)
    method = ControlSets(
        sets,
        dict.fromkeys(names, law),
        rule=rule,
        acquisition=acquisition,
        budget=cell.budget,
        seed=seed,
        **settings,
    )
    parameters: list[Range | Choice] = [
        Choice("control_set", tuple(method.names)),
        *[Range(n, 0, 1) for n in names],
    ]
    simulation = Simulation(method, Space.of(parameters, hidden=method.traits.hidden))
    chance = np.random.default_rng(seed + 1000)
    spent = 0.0
    while len(simulation.trials) < _MOST_TRIALS:
        decision = simulation.ask()
        if isinstance(decision, Stop):
            break
        charge = cell.costs[method.index_of(decision.parameters)]
        if not cell.known:
            charge *= math.exp(_SPREAD * chance.standard_normal() - _SPREAD**2 / 2)
        if spent + charge > cell.budget * (1 + 1e-9):
            break
        yield simulation, decision, spent, charge
        x = law.icdf(torch.tensor(chance.uniform(size=problem.dim)))
        for parameter, value in decision.extra["controlled"].items():
            x[names.index(parameter)] = float(value)
        outcome = float(problem.function(x.unsqueeze(0))) + NOISE_STD * chance.standard_normal()
        realized = {n: float(v) for n, v in zip(names, x, strict=True)}
        for parameter in decision.extra["controlled"]:
            realized.pop(parameter)
        spent += charge
        simulation.tell(decision, Outcome(outcome, charge, realized))


def simulate(cell: SetCell, name: str, seed: int) -> dict[str, Any]:
    """One run: how good the recommendation is at each part of the budget.

    Returns:
        ``values`` at each of ``LEVELS``, minus the best, in standard deviations; ``spent``,
        ``trials`` and ``cpu_s``.
    """
    torch.set_num_threads(1)
    for category in (BotorchWarning, OptimizationWarning, NumericalWarning):
        warnings.simplefilter("ignore", category)
    started = time.process_time()
    spent, levels = 0.0, list(LEVELS)
    values: list[float] = []
    for simulation, _, before, charge in trials(cell, name, seed):
        spent = before + charge
        while levels and spent > levels[0] * cell.budget * (1 + 1e-9):
            values.append(incumbent_of(cell, simulation))
            levels.pop(0)
    final = incumbent_of(cell, simulation)
    values += [final] * len(levels)
    return {
        "values": [round((value - cell.best) / cell.spread, 6) for value in values],
        "spent": round(spent / cell.budget, 4),
        "trials": len(simulation.trials),
        "cpu_s": round(time.process_time() - started, 1),
    }


def incumbent_of(cell: SetCell, simulation: Simulation) -> float:
    """The true expectation of what is recommended; of the middle before there is a model."""
    if len(simulation.trials) < 2:
        return cell.value(Best({f"x{i}": 0.5 for i in range(cell.objective.dim)}, 0.0, 0.0))
    return cell.value(simulation.recommend())
