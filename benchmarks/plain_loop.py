"""CPU time of a decision in the plain loop, which imports no Ax, beside the same method in Ax.

Every method runs on Hartmann's function of three inputs with given hyperparameters, so that nothing
is fitted: what is compared is the decision with what surrounds it. In the plain loop the run goes
on for ``TRIALS`` trials. Those trials are attached to an experiment of Ax, which is asked for the
last ``DECISIONS`` decisions, too. One process on one thread, so that the ratios do not depend on
the machine.

    python benchmarks/plain_loop.py            # a few minutes
    python benchmarks/plain_loop.py --quick    # 30 trials each

Results go to ``benchmarks/results/plain_loop.json``.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import statistics
import time
from itertools import combinations
from typing import Any

import numpy as np
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from botorch.test_functions.synthetic import Hartmann
from kept_runs import RESULTS
from tqdm import tqdm

import ax_costaware as ac
from ax_costaware.core import FixedHyperparameters, Simulation, Stop
from ax_costaware.core.simulation import Outcome
from ax_costaware.methods import (
    ControlSets,
    CostlyFeedback,
    Gittins,
    IndirectQueries,
    Method,
    TreeSearch,
)
from ax_costaware.space import Choice, Range, Space

TRIALS, QUICK_TRIALS, DECISIONS = 200, 30, 10
NAMES = ("x1", "x2", "x3")
PATH = RESULTS / "plain_loop.json"
HYPERPARAMETERS = FixedHyperparameters(lengthscale=0.3, outputscale=1.0, noise_variance=1e-4)
FUNCTION = Hartmann(dim=3, negate=True)
INPUTS = [Range(name, 0, 1) for name in NAMES]
FAST: dict[str, Any] = {"num_restarts": 4, "raw_samples": 128}
MAX_LEVEL = 3
SETS = tuple(
    ac.ControlSet(list(names), cost=len(names) ** 2)
    for size in (1, 2, 3)
    for names in combinations(NAMES, size)
)
IDENTITY = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
METHODS: dict[str, Method] = {
    "Gittins index": Gittins(cost=ac.AffineCost({"x1": 4.0}, fixed=1.0), budget=1e4, **FAST),
    "control sets": ControlSets(SETS, {name: ac.Uniform(0, 1) for name in NAMES}, **FAST),
    "costly feedback": CostlyFeedback(forgetting=0.01, **FAST),
    "indirect queries": IndirectQueries(
        target_parameters=tuple(INPUTS),
        conditional=ac.GaussianConditional(IDENTITY, (0, 0, 0), covariance=0.01, outside="clip"),
        hyperparameters=HYPERPARAMETERS,
        num_samples=8,
        **FAST,
    ),
    "resolution tree": TreeSearch(
        target_parameters=tuple(INPUTS),
        max_level=MAX_LEVEL,
        hyperparameters=HYPERPARAMETERS,
        num_samples=8,
    ),
}


def parameters_of(method: Method) -> list[Any]:
    """The parameters of an experiment for a method."""
    if isinstance(method, ControlSets):
        return [Choice("control_set", tuple(method.names)), *INPUTS]
    if isinstance(method, TreeSearch):
        return [Range("level", 0, MAX_LEVEL, is_integer=True), *INPUTS]
    return INPUTS


def given(method: Method) -> FixedHyperparameters | None:
    """Hyperparameters, where the method does not hold them itself."""
    return None if hasattr(method, "hyperparameters") else HYPERPARAMETERS


def outcome(arm: dict[str, Any], index: int, controlled: list[str] | None) -> Outcome:
    """What a trial gives; inputs that it does not control fall anywhere."""
    draws = np.random.default_rng([1, index])
    inputs = {name: float(arm[name]) for name in NAMES}
    chance = {name: float(draws.random()) for name in NAMES if name not in (controlled or NAMES)}
    X = torch.tensor([list({**inputs, **chance}.values())], dtype=torch.double)
    return Outcome(float(FUNCTION(X)) + 0.01 * float(draws.standard_normal()), realized=chance)


def plain(method: Method, trials: int, bar: tqdm[Any]) -> tuple[list[float], Simulation]:
    """CPU seconds of every decision of a run in the plain loop."""
    space = Space.of(parameters_of(method), hidden=method.traits.hidden)
    simulation = Simulation(method, space, hyperparameters=given(method))
    taken: list[float] = []
    for index in range(trials):
        start = time.process_time()
        decision = simulation.ask()
        taken.append(time.process_time() - start)
        if isinstance(decision, Stop):
            break
        controlled = decision.extra.get("controlled")
        simulation.tell(
            decision, outcome(decision.parameters, index, controlled and list(controlled))
        )
        bar.update()
    return taken, simulation


def in_ax(method: Method, simulation: Simulation, bar: tqdm[Any]) -> list[float]:
    """CPU seconds of the last decisions of the same run, asked of Ax."""
    client = Client(random_seed=0)
    names = [RangeParameterConfig(name, bounds=(0, 1), parameter_type="float") for name in NAMES]
    more: list[Any] = []
    if isinstance(method, ControlSets):
        more = [ac.control_set_parameter(SETS)]
    elif isinstance(method, TreeSearch):
        more = [ac.level_parameter(MAX_LEVEL)]
    client.configure_experiment(parameters=[*more, *names])
    client.configure_optimization(objective="y")
    attached = dataclasses.replace(method, initial_trials=0)
    client.set_generation_strategy(ac.strategy_of(attached, given(method)))
    taken: list[float] = []
    for position, trial in enumerate(simulation.trials):
        if position >= len(simulation.trials) - DECISIONS:
            start = time.process_time()
            asked = client.get_next_trials(max_trials=1)
            taken.append(time.process_time() - start)
            bar.update()
            for index in asked:
                client.mark_trial_abandoned(index)
                ac.exclude_trial(client, index)  # else it counts as a failure to keep away from
        index = client.attach_trial(dict(trial.parameters))  # type: ignore[arg-type]
        ac.complete_trial(client, index, trial.outcome, realized=dict(trial.realized))
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_TRIALS} trials each")
    trials = QUICK_TRIALS if parser.parse_args().quick else TRIALS
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    results: dict[str, dict[str, float]] = {}
    bar = tqdm(total=len(METHODS) * (trials + DECISIONS))
    for name, method in METHODS.items():
        bar.set_description(name)
        loop, simulation = plain(method, trials, bar)
        ax = in_ax(method, simulation, bar)
        results[name] = {
            "decisions": len(loop),
            "plain": statistics.median(loop[-DECISIONS:]),
            "ax": statistics.median(ax),
        }
    bar.close()
    print("\n| method | decisions | plain loop, ms | in Ax, ms | ratio |\n|---|---|---|---|---|")
    for name, row in results.items():
        print(
            f"| {name} | {row['decisions']} | {1e3 * row['plain']:.0f} | {1e3 * row['ax']:.0f} | "
            f"{row['plain'] / row['ax']:.2f} |"
        )
    PATH.write_text(f"{json.dumps(results, indent=1)}\n")


if __name__ == "__main__":
    main()
