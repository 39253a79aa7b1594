"""Seconds of a decision on the CPU and on a GPU, by the number of trials that it is made from.

Four methods decide in the plain loop on Hartmann's function of three inputs, on the CPU with one
thread and on a GPU if torch finds one. Two times are taken, since a user waits for both: to fit the
model, where the method's hyperparameters are not given, and then to decide, which has the model's
factor to make first. Both end with numbers on the CPU, so that a GPU has finished.
Each is the mean of several states, after a small one that warms the device up.

    python benchmarks/device_speed.py                  # 100, 300, 1000 and 3000 trials
    python benchmarks/device_speed.py --trials 100     # as many as are named

Results go to ``benchmarks/results/device_speed.json``, by the name of the device.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from kept_runs import RESULTS
from plain_loop import METHODS, SETS, outcome, parameters_of

from ax_costaware.core import Simulation
from ax_costaware.core.history import PastTrial
from ax_costaware.methods import ControlSets, Method
from ax_costaware.space import Space

PATH = RESULTS / "device_speed.json"
CHOSEN = ("Gittins index", "control sets", "costly feedback", "indirect queries")
TRIALS, WARM_UP = (100, 300, 1000, 3000), 20


def past(method: Method, num_trials: int, seed: int) -> list[PastTrial]:
    """Trials at random points, with what came of them."""
    generator, trials = np.random.default_rng(seed), []
    for index in range(num_trials):
        parameters: dict[str, Any] = {f"x{i}": float(generator.random()) for i in (1, 2, 3)}
        controlled = None
        if isinstance(method, ControlSets):
            chosen = SETS[int(generator.integers(len(SETS)))]
            parameters["control_set"], controlled = chosen.name, list(chosen.parameters)
        found = outcome(parameters, index, controlled)
        trials.append(
            PastTrial(
                index=index,
                parameters=parameters,
                outcome=found.value,
                is_observed=True,
                realized=found.realized or {},
                reported_cost=1.0,
                record={"phase": "initial", "measure": True},
            )
        )
    return trials


def seconds(call: Callable[[], Any]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measured(method: Method, device: str, num_trials: int, seed: int) -> tuple[float, float]:
    """Seconds to fit the model, and to decide with it."""
    space = Space.of(parameters_of(method), hidden=method.traits.hidden).to(torch.device(device))
    simulation = Simulation(method, space, trials=past(method, num_trials, seed))
    return seconds(lambda: simulation.problem().model), seconds(simulation.ask)


def devices() -> dict[str, str]:
    """Devices by what they are called in the table."""
    found = {"CPU, one thread": "cpu"}
    if torch.cuda.is_available():
        found[torch.cuda.get_device_name()] = "cuda"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--trials", type=int, nargs="+", default=TRIALS)
    parser.add_argument("--states", type=int, default=3)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = json.loads(PATH.read_text()) if PATH.exists() else {}
    print("| device | method | trials | fit, s | decide, s |\n|---|---|---|---|---|")
    for label, device in devices().items():
        for name in CHOSEN:
            measured(METHODS[name], device, WARM_UP, seed=0)
        for num_trials in chosen.trials:
            for name in CHOSEN:
                states = range(1, 1 + chosen.states)
                times = [measured(METHODS[name], device, num_trials, seed) for seed in states]
                fit, decide = (statistics.mean(column) for column in zip(*times, strict=True))
                row = results.setdefault(label, {}).setdefault(name, {})
                row[str(num_trials)] = {"fit": fit, "decide": decide}
                print(f"| {label} | {name} | {num_trials} | {fit:.2f} | {decide:.2f} |", flush=True)
                PATH.write_text(f"{json.dumps(results, indent=1)}\n")


if __name__ == "__main__":
    main()
