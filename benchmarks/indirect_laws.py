"""What a decision about averages costs, by the law of the points of a query.

One thread, hyperparameters fitted anew: queries in two or three columns, normal laws about them
with a standard deviation of a tenth of the bounds, whose columns are independent or depend on each
other, clipped at the bounds or not. For each law and number of observations, in a process of its
own: the median CPU seconds of three decisions, and what the peak memory grew by.

    python benchmarks/indirect_laws.py              # about two minutes

Results go to ``benchmarks/results/indirect_laws.json``.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import resource
import statistics
import time
from typing import Any

import numpy as np
import torch
from kept_runs import RESULTS

from ax_costaware.core import Outcome, Simulation, Stop
from ax_costaware.laws import GaussianConditional
from ax_costaware.methods import IndirectQueries
from ax_costaware.space import Range, Space

DEVIATION, CORRELATION, NOISE_STD = 0.1, 0.6, 0.05
OBSERVATIONS = (20, 60)
LAWS = {
    "independent, clipped": (2, 0.0, "clip"),
    "dependent, not clipped": (2, CORRELATION, "keep"),
    "dependent, clipped": (2, CORRELATION, "clip"),
    "three independent, clipped": (3, 0.0, "clip"),
    "three dependent, clipped": (3, CORRELATION, "clip"),
}
DECISIONS = 3


def megabytes() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name: str, observations: int) -> dict[str, Any]:
    """Seconds and memory of decisions after so many observations."""
    torch.set_num_threads(1)
    d, correlation, outside = LAWS[name]
    covariance = DEVIATION**2 * ((1 - correlation) * np.eye(d) + correlation)
    options: dict[str, Any] = {"covariance": covariance, "outside": outside}
    unit = [Range(f"x{i}", 0.0, 1.0) for i in range(d)]
    law = GaussianConditional(tuple(map(tuple, np.eye(d).tolist())), **options)
    method = IndirectQueries(
        target_parameters=tuple(unit), conditional=law, initial_trials=observations
    )
    rng = np.random.default_rng(0)
    simulation = Simulation(method, Space.of([Range(f"a{i}", 0.0, 1.0) for i in range(d)]))
    before, seconds = megabytes(), []
    for _ in range(observations + DECISIONS):
        start = time.process_time()
        decision = simulation.ask()
        seconds.append(time.process_time() - start)
        assert not isinstance(decision, Stop)
        first, second = (decision.parameters[name] for name in ("a0", "a1"))
        assert isinstance(first, float)
        assert isinstance(second, float)
        value = math.sin(5 * first) * math.cos(4 * second) + NOISE_STD * rng.standard_normal()
        simulation.tell(decision, Outcome(value))
    return {
        "law": name,
        "observations": observations,
        "seconds": statistics.median(seconds[observations:]),
        "MB": megabytes() - before,
    }


def main() -> None:
    rows: list[dict[str, Any]] = []
    for observations in OBSERVATIONS:
        base: dict[int, float] = {}
        for name, (d, *_) in LAWS.items():
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                row = pool.apply(measure, (name, observations))
            # The first law of as many columns is the independent one.
            row["ratio"] = row["seconds"] / base.setdefault(d, row["seconds"])
            rows.append(row)
            print(
                f"{observations} observations, {name}: {row['seconds']:.2f} s "
                f"({row['ratio']:.1f}x), {row['MB']:.0f} MB"
            )
    (RESULTS / "indirect_laws.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
