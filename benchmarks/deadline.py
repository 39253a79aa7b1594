"""A deadline with workers: how long a run takes whose budget is the busy time of all workers.

A simulated clock and four workers. As soon as one is free it asks for a trial, until nothing can be
paid and nothing runs. Decisions take no time. The budget is four times the deadline, in hours of
busy time. With ``cap`` a trial may in addition cost no more than is left until the deadline, which
is ``max_trial_cost`` at each decision.

- ``equal``: each trial takes one hour;
- ``random``: one hour is declared, and a trial takes a log-normal time of mean one (0.5 standard
  deviations of its logarithm);
- ``by input``: from 0.25 to 3 hours, by the first input, as declared;
- ``learned``: the same times a log-normal error of 0.3, learned from reports.

The objective is Branin's function on the unit square. Regret is that of the best outcome that was
there at the deadline, in units of the distance from the best value to the median one.

    python benchmarks/deadline.py --seeds 8
"""

from __future__ import annotations

import argparse
import heapq
import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.exceptions.warnings import BotorchWarning, OptimizationWarning
from botorch.test_functions.synthetic import Branin
from gpytorch.utils.warnings import NumericalWarning
from kept_runs import KeptRuns

from ax_costaware.core import FixedHyperparameters, PastTrial, Simulation, Stop
from ax_costaware.core.simulation import Outcome
from ax_costaware.costs import AffineCost
from ax_costaware.methods import CostAware
from ax_costaware.space import Range, Space

WORKERS = 4
LAWS = ("equal", "random", "by input", "learned")
DEADLINES = (5.0, 10.0)
SPACE = Space.of([Range("x0", 0.0, 1.0), Range("x1", 0.0, 1.0)])
HOURS = AffineCost({"x0": 2.75}, fixed=0.25)
MODEL = FixedHyperparameters((0.2, 0.4), 2500.0, 0.01, mean=50.0)


class Run(NamedTuple):
    """One run."""

    law: str
    deadline: float
    is_capped: bool
    seed: int


def method_of(run: Run) -> CostAware:
    """The method of a run."""
    costs: dict[str, Any] = {"by input": HOURS, "learned": "hours"}
    return CostAware(
        costs.get(run.law, 1.0),
        budget=WORKERS * run.deadline,
        seed=run.seed,
        num_restarts=2,
        raw_samples=64,
    )


def simulation_of(method: CostAware, trials: Sequence[PastTrial] = ()) -> Simulation:
    """Return a run of a method."""
    return Simulation(method, SPACE, minimize=True, hyperparameters=MODEL, trials=list(trials))


def hours_of(run: Run, row: Any, chance: np.random.Generator) -> float:
    """The time that a trial takes."""
    hours = HOURS.at(row) if run.law in ("by input", "learned") else 1.0
    spread = {"random": 0.5, "learned": 0.3}.get(run.law, 0.0)
    return float(hours * chance.lognormal(-(spread**2) / 2, spread))


def simulate(run: Run) -> dict[str, Any]:
    """Make one run, and return when it ended and what it found."""
    torch.set_num_threads(1)
    for category in (BotorchWarning, OptimizationWarning, NumericalWarning, RuntimeWarning):
        warnings.simplefilter("ignore", category)
    method = method_of(run)
    simulation = simulation_of(method)
    chance, now = np.random.default_rng(run.seed), 0.0
    running: list[tuple[float, int, float, Any]] = []
    ended: list[tuple[float, float, float]] = []

    while True:
        while len(running) < WORKERS and now < run.deadline - 1e-9:
            if run.is_capped:
                capped = replace(method, max_trial_cost=run.deadline - now)
                simulation = simulation_of(capped, trials=simulation.trials)
            if isinstance(decision := simulation.ask(), Stop):
                break
            hours = hours_of(run, decision.parameters, chance)
            index = simulation.start(decision).index
            heapq.heappush(running, (now + hours, index, hours, decision))
        if not running:
            break
        now, index, hours, decision = heapq.heappop(running)
        value = _value(decision.parameters)
        simulation.tell(decision, Outcome(value, hours), index)
        ended.append((now, hours, _regret(value)))
    in_time = [each for each in ended if each[0] <= run.deadline * (1 + 1e-9)]
    return {
        "end": now,
        "busy": math.fsum(hours for _, hours, _ in ended),
        "busy_in_time": math.fsum(
            min(hours, max(0.0, run.deadline - end + hours)) for end, hours, _ in ended
        ),
        "longest": max(hours for _, hours, _ in ended),
        "trials": len(ended),
        "late": len(ended) - len(in_time),
        "regret": min((regret for *_, regret in in_time), default=math.inf),
    }


def _value(row: Any) -> float:
    function: Any = Branin()
    lower, upper = function.bounds
    X = torch.tensor([[row["x0"], row["x1"]]], dtype=torch.double)
    return float(function(lower + (upper - lower) * X, noise=False))


def _regret(value: float) -> float:
    return (value - 0.397887) / 35.8  # the median is about 36.2


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--processes", type=int, default=1)
    asked = parser.parse_args()
    runs = [
        Run(law, deadline, is_capped, seed)
        for seed in range(asked.seeds)
        for law in LAWS
        for deadline in DEADLINES
        for is_capped in (False, True)
    ]
    kept = KeptRuns("deadline")
    kept.run_missing(simulate, runs, Run._asdict, asked.processes, "deadline")
    print("| trials | deadline | cap | end | late | longest | busy until then | regret |")
    print("|---" * 8 + "|")
    for law in LAWS:
        for deadline in DEADLINES:
            for is_capped in (False, True):
                rows = kept.rows(law=law, deadline=deadline, is_capped=is_capped)
                if not rows:
                    continue
                names = ("end", "busy_in_time", "longest", "trials", "late", "regret")
                mean = {name: np.mean([row[name] for row in rows]) for name in names}
                most = max(row["end"] for row in rows)
                busy = mean["busy_in_time"] / (WORKERS * deadline)
                print(
                    f"| {law} | {deadline:g} | {is_capped} | {mean['end']:.2f} (to {most:.2f}) | "
                    f"{mean['late']:.1f} of {mean['trials']:.0f} | {mean['longest']:.2f} | "
                    f"{busy:.0%} | {mean['regret']:.3g} |"
                )


if __name__ == "__main__":
    main()
