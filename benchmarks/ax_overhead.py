"""CPU time of ``get_next_trials`` of every strategy, beside Ax's default on the same problem.

The problem is Hartmann's function of four inputs with a little noise. Every strategy gets the same
number of observations (100, 500, 1,000), as trials that were attached and completed, and is asked
for the next trial three times, the answer being reported in between; the hyperparameters are fitted
each time. Ax's default, after its initial trials, is asked in turns with the others in the same
process on one thread, so that the ratios do not depend on the machine. Where a strategy's trials
are something else than points (averages, cells), the same number of these is observed. What
importing the package adds to importing Ax is measured in fresh processes.

    python benchmarks/ax_overhead.py [--tables]

Results go to ``benchmarks/results/ax_overhead.json``.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.exceptions.core import OptimizationShouldStop
from ax.generation_strategy.generation_strategy import GenerationStrategy
from botorch.test_functions.synthetic import Hartmann
from kept_runs import RESULTS
from scipy.stats import qmc

import ax_costaware as ac

SIZES = (100, 500, 1000)
NAMES = ("x1", "x2", "x3", "x4")
DECISIONS = 3
STARTS = 5
NOISE = 0.01
INPUTS = [RangeParameterConfig(name, bounds=(0, 1), parameter_type="float") for name in NAMES]
MAX_LEVEL = 4
CONTROL_SETS = [
    ac.ControlSet(list(names), cost=len(names) ** 2)
    for size in (1, 2, 4)
    for names in combinations(NAMES, size)
]
UNKNOWN = [ac.ControlSet(control_set.parameters) for control_set in CONTROL_SETS]
MARGINALS = {name: ac.Uniform(0, 1) for name in NAMES}
PATH = RESULTS / "ax_overhead.json"
AX = "Ax's default"

Floats = npt.NDArray[np.float64]
Arm = dict[str, Any]

# Functionals reach beyond the unit cube.
_FUNCTION = Hartmann(dim=4, negate=True, bounds=[(-10.0, 10.0)] * 4)


def hartmann(points: Floats) -> Floats:
    """Values at points, ``n x 4``."""
    values = _FUNCTION(torch.as_tensor(points, dtype=torch.double))
    found: Floats = np.array(values.tolist())
    return found


@dataclass(frozen=True)
class Case:
    """A strategy with what its trials are."""

    parameters: list[Any]
    strategy: Callable[[], GenerationStrategy] | None
    observed: Callable[[int], list[Arm]]
    reach: Callable[[Arm], Floats]
    """The points whose mean is the outcome of an arm, ``n x 4``."""
    cost: Callable[[Arm], float] | None = None
    realized: bool = False


def sobol(size: int) -> list[Arm]:
    points = qmc.Sobol(len(NAMES), rng=np.random.default_rng(0)).random(1024)[:size]
    return [dict(zip(NAMES, map(float, point), strict=True)) for point in points]


def with_control_sets(size: int) -> list[Arm]:
    return [
        {**arm, "control_set": str(CONTROL_SETS[i % len(CONTROL_SETS)].name)}
        for i, arm in enumerate(sobol(size))
    ]


def cells(size: int) -> list[Arm]:
    """The cells of the tree, the coarsest first."""
    found: list[Arm] = []
    for level in range(MAX_LEVEL + 1):
        middles = (np.arange(2**level) + 0.5) / 2**level
        for centre in product(map(float, middles), repeat=len(NAMES)):
            if len(found) == size:
                return found
            found.append({"level": level, **dict(zip(NAMES, centre, strict=True))})
    raise ValueError(f"{size} are more than all cells of {MAX_LEVEL} levels.")


def point(arm: Arm) -> Floats:
    return np.array([[arm[name] for name in NAMES]])


def scatter(arm: Arm) -> Floats:
    return point(arm) + 0.1 * np.random.default_rng(1).standard_normal((256, len(NAMES)))


def inside(arm: Arm) -> Floats:
    steps = np.linspace(-0.5, 0.5, 7) / 2 ** int(arm["level"])
    offsets: Floats = np.array(list(product(steps, repeat=len(NAMES))))
    return point(arm) + offsets


def seconds(arm: Arm) -> float:
    return float(1 + 4 * arm["x1"])


AFFINE = ac.AffineCost({"x1": 4.0}, fixed=1.0)
CONDITIONAL = ac.GaussianConditional(
    tuple(map(tuple, np.eye(len(NAMES)))), (0.0,) * len(NAMES), covariance=0.01, outside="keep"
)
SETS = ac.control_set_parameter(CONTROL_SETS)
BUDGET = 1e4
CASES = {
    AX: Case(INPUTS, None, sobol, point),
    "control sets, known costs": Case(
        [SETS, *INPUTS],
        lambda: ac.control_set_strategy(CONTROL_SETS, MARGINALS, budget=BUDGET, initial_trials=0),
        with_control_sets,
        point,
        realized=True,
    ),
    "control sets, unknown costs": Case(
        [SETS, *INPUTS],
        lambda: ac.control_set_strategy(UNKNOWN, MARGINALS, budget=BUDGET, initial_trials=0),
        with_control_sets,
        point,
        cost=lambda arm: len(str(arm["control_set"]).split("+")) ** 2 * seconds(arm),
        realized=True,
    ),
    "Gittins index, known costs": Case(
        INPUTS,
        lambda: ac.cost_aware_strategy(AFFINE, budget=BUDGET, initial_trials=0),
        sobol,
        point,
    ),
    "Gittins index, learned costs": Case(
        INPUTS,
        lambda: ac.cost_aware_strategy("seconds", initial_trials=0),
        sobol,
        point,
        cost=seconds,
    ),
    "fidelities": Case(
        INPUTS,
        lambda: ac.fidelity_strategy(AFFINE, target={"x1": 1.0}, budget=BUDGET, initial_trials=0),
        sobol,
        point,
    ),
    "costly feedback": Case(
        INPUTS, lambda: ac.costly_feedback_strategy(initial_trials=0), sobol, point
    ),
    "indirect queries": Case(
        INPUTS,
        lambda: ac.indirect_query_strategy(INPUTS, CONDITIONAL, initial_trials=0),
        sobol,
        scatter,
    ),
    "resolution tree": Case(
        [ac.level_parameter(MAX_LEVEL), *INPUTS],
        lambda: ac.resolution_tree_strategy(INPUTS, MAX_LEVEL, initial_trials=0),
        cells,
        inside,
    ),
}


def observe(client: Client, case: Case, index: int, arm: Arm) -> None:
    """Complete a trial with what its arm gives."""
    noise = NOISE * np.random.default_rng([2, index]).standard_normal()
    outcome = float(hartmann(case.reach(arm)).mean() + noise)
    if case.strategy is None:
        client.complete_trial(index, {"y": outcome})
        return
    ac.complete_trial(
        client,
        index,
        outcome,
        realized={name: arm[name] for name in NAMES} if case.realized else None,
        cost=None if case.cost is None else case.cost(arm),
    )


def decisions(case: Case, size: int) -> Iterator[float]:
    """CPU seconds of one decision after the other, from ``size`` observations on."""
    client = Client(random_seed=0)
    client.configure_experiment(parameters=case.parameters)
    client.configure_optimization(objective="y")
    if case.strategy is None:
        client.configure_generation_strategy(initialize_with_center=False)
    else:
        client.set_generation_strategy(case.strategy())
    for arm in case.observed(size):
        observe(client, case, client.attach_trial(arm), arm)
    while True:
        start = time.process_time()
        try:
            trials = client.get_next_trials(max_trials=1)
        except OptimizationShouldStop:
            # That no trial is worth its cost is a decision, too.
            trials = {}
        yield time.process_time() - start
        for index, parameters in trials.items():
            observe(client, case, index, dict(parameters))


def measure(size: int, names: list[str], progress: Callable[[str], None]) -> dict[str, float]:
    """Median CPU seconds of a decision by each of the cases, all asked in turns."""
    running = {name: decisions(CASES[name], size) for name in names}
    taken: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(DECISIONS):
        for name, run in running.items():
            taken[name].append(next(run))
            progress(f"{size} observations, {name}: {taken[name][-1]:.2f} s")
    return {name: statistics.median(values) for name, values in taken.items()}


_IMPORTS = """
import time
start = time.process_time()
import ax.api.client
middle = time.process_time()
import ax_costaware
print(middle - start, time.process_time() - middle)
"""


def start_up() -> dict[str, float]:
    """Median CPU seconds of importing Ax, and of importing the package after it."""
    taken = []
    # Installed packages have their byte code, and so are both to have it.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(STARTS + 1):
        run = subprocess.run(
            [sys.executable, "-c", _IMPORTS],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        taken.append([float(value) for value in run.stdout.split()])
    # The first one writes the byte code that the others read.
    ax, ours = (statistics.median(values) for values in zip(*taken[1:], strict=True))
    return {"ax": ax, "ax_costaware": ours}


def table(results: dict[str, dict[str, float]]) -> str:
    """Markdown: seconds of Ax's default, and each strategy as a multiple of them."""
    imports, results = results["import"], {k: v for k, v in results.items() if k != "import"}
    lines = ["| | " + " | ".join(f"{size} observations" for size in results) + " |"]
    lines.append("|" + "---|" * (len(results) + 1))
    lines.append(f"| {AX} | " + " | ".join(f"{row[AX]:.2f} s" for row in results.values()) + " |")
    for name in CASES:
        if name != AX:
            ratios = [f"{row[name] / row[AX]:.2f}x" for row in results.values()]
            lines.append(f"| {name} | " + " | ".join(ratios) + " |")
    lines.append(
        f"\n`import ax_costaware` adds {imports['ax_costaware'] / imports['ax']:.1%} to the"
        f" {imports['ax']:.1f} s of importing Ax."
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time of a decision beside Ax's default.")
    parser.add_argument("--tables", action="store_true", help="only print what was measured")
    parser.add_argument("--only", help="only this strategy, beside Ax's default; nothing is kept")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N")
    arguments = parser.parse_args()
    if arguments.tables:
        print(table(json.loads(PATH.read_text())))
        return
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    names = list(CASES) if arguments.only is None else [AX, arguments.only]
    results = {"import": start_up()} if arguments.only is None else {}
    for size in arguments.sizes:
        results[str(size)] = measure(size, names, print)
    if arguments.only is None and tuple(arguments.sizes) == SIZES:
        PATH.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results) if arguments.only is None else json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
