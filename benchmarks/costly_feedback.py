"""Table A2 of CE-GP-UCB: regret and measurements on a drifting function, beside the paper's.

Wang et al. 2020, "Cost-Efficient Online Hyperparameter Optimization", section 4.1 and appendix E:
1000 points on [0, 1], T = 500 rounds, 50 trials, a Gaussian process (Matern 3/2) that forgets at
the rate eps, noise variance 0.01. The paper does not print the rest; here the length-scale is 0.2,
the outputscale 1, beta_t = 0.8 log(4 t), and the first point random. The hyperparameters are known
to the method, as in the paper. Methods, each through ``CostlyFeedbackLoop``:

- ``R-GP-UCB``: everything is measured, and forgotten every ``min(T, 12 eps^(-1/4))`` rounds;
- ``TV-GP-UCB``: everything is measured; ``Ber(q)``: a share q of it at random;
- ``kappa``: the paper's rule, local optima of the upper confidence bound without those within 0.1
  of a better one, independent moments; of a single optimum, points of small prior correlation;
- ``single kappa``: line 8 to the letter, ten trials: a single optimum is not measured, and all
  others are compared;
- ``LCB-UCB``: the paper's stricter rule, on the same rivals as ``kappa``;
- ``default kappa``: the defaults: rivals by prior correlation, joint moments, a point that is kept.

All but the last use the largest upper confidence bound in each round (``keep_point=False``).

    python benchmarks/costly_feedback.py                   # about ten minutes on 2 cores
    python benchmarks/costly_feedback.py --methods kappa   # those whose names begin so; others stay
    python benchmarks/costly_feedback.py --tables          # prints what was run

Finished runs are kept in ``benchmarks/results/partial``, so that a run that was stopped goes on;
all figures go to ``benchmarks/results/costly_feedback.json``.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from costly_feedback_paper import A2, FORGETTING
from gpytorch.kernels import MaternKernel
from kept_runs import RESULTS, keep, path_of, read, run_all
from numpy.typing import NDArray

from ax_costaware.methods import (
    BernoulliRule,
    CostlyFeedbackLoop,
    FeedbackRule,
    FullFeedback,
    LCBUCBRule,
    MeasurementRule,
    ResetEvery,
)

ROUNDS, NUM_POINTS, NOISE = 500, 1000, 0.01
TRIALS, SINGLE_TRIALS = 50, 10
KAPPAS = (0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99)
POINTS = np.linspace(0, 1, NUM_POINTS)
RESULT = RESULTS / "costly_feedback.json"
BANDWIDTH = 0.1
"""The paper prints 0.2, for another experiment."""

VARIANTS = ("default", "single")
METHODS = (*A2, *(f"{name} kappa {kappa:g}" for name in VARIANTS for kappa in KAPPAS))


@dataclass(frozen=True)
class Run:
    """All trials of one method at one forgetting rate."""

    method: str
    forgetting: float
    trials: int

    @property
    def key(self) -> str:
        return f"costly_feedback_{self.forgetting}_{self.method}_{self.trials}"


def kernel() -> MaternKernel:
    matern = MaternKernel(nu=1.5).double()
    matern.lengthscale = 0.2
    return matern


@cache
def _root() -> NDArray[np.float64]:
    with torch.no_grad():
        covariance = kernel()(torch.tensor(POINTS).unsqueeze(-1)).to_dense().numpy()
    factor: NDArray[np.float64] = np.linalg.cholesky(covariance + 1e-10 * np.eye(NUM_POINTS))
    return factor


def drifting_function(forgetting: float, trial: int) -> NDArray[np.float64]:
    """Values at every round (rows) and point (columns) of one sample of the process."""
    generator = np.random.default_rng((1, trial))
    values = generator.standard_normal((ROUNDS, NUM_POINTS)) @ _root().T
    for t in range(1, ROUNDS):
        values[t] = math.sqrt(1 - forgetting) * values[t - 1] + math.sqrt(forgetting) * values[t]
    return values


def rule_of(method: str) -> FeedbackRule:
    number = float(method.split()[-1].removeprefix("Ber(").removesuffix(")")) if _has(method) else 0
    if method.startswith("default"):
        return MeasurementRule(number)
    if method.startswith("single"):
        return MeasurementRule(number, compare="local_optima_only", joint=False)
    if "kappa" in method:
        return MeasurementRule(number, compare="local_optima", joint=False, bandwidth=BANDWIDTH)
    if method.startswith("Ber"):
        return BernoulliRule(number)
    return LCBUCBRule("local_optima", BANDWIDTH) if method == "LCB-UCB" else FullFeedback()


def _paper_row(method: str) -> str:
    """Row of the paper that a variant is compared with."""
    return "kappa" + method.rpartition("kappa")[2] if "kappa" in method else method


def _has(method: str) -> bool:
    return method[-1].isdigit() or method.endswith(")")


def one_trial(method: str, forgetting: float, trial: int) -> tuple[float, int]:
    """Average regret, and the number of measurements."""
    function = drifting_function(forgetting, trial)
    generator = np.random.default_rng((2, trial))
    noise = math.sqrt(NOISE) * generator.standard_normal(ROUNDS)
    block = ResetEvery(math.ceil(min(ROUNDS, 12 * forgetting**-0.25)))
    loop = CostlyFeedbackLoop(
        np.arange(NUM_POINTS) / (NUM_POINTS - 1),
        kernel=kernel(),
        forgetting=block if method == "R-GP-UCB" else forgetting,
        noise=NOISE,
        rule=rule_of(method),
        seed=trial,
        keep_point=method.startswith("default"),
    )
    regret = 0.0
    for values, error in zip(function, noise, strict=True):
        x, measure, _ = loop.ask()
        index = round(float(x) * (NUM_POINTS - 1))
        regret += values.max() - values[index]
        if measure:
            loop.tell(values[index] + error)
        else:
            loop.skip()
    return float(regret / ROUNDS), loop.num_measured


def perform(run: Run) -> None:
    torch.set_num_threads(1)
    start = time.process_time()
    trials = [one_trial(run.method, run.forgetting, trial) for trial in range(run.trials)]
    keep(run.key, {"trials": trials, "cpu_seconds": time.process_time() - start})


def summary(run: Run) -> dict[str, float]:
    trials = np.array(read(run.key)["trials"])
    mean, deviation = trials.mean(axis=0), trials.std(axis=0)
    return {
        "regret": mean[0],
        "regret_sd": deviation[0],
        "measurements": mean[1],
        "measurements_sd": deviation[1],
        "trials": len(trials),
    }


def agreement(found: dict[str, Any]) -> list[str]:
    """How many of the paper's means are within two standard errors of the difference from ours."""
    counts: dict[tuple[str, str], list[bool]] = {}
    for method in METHODS:
        group = method.split("(")[0].rpartition(" ")[0] if _has(method) else method
        for eps, theirs in zip(FORGETTING, A2[_paper_row(method)], strict=True):
            ours = found.get(method, {}).get(str(eps))
            for kind in ("regret", "measurements") if ours is not None else ():
                own = ours[f"{kind}_sd"] / math.sqrt(ours["trials"])
                error = math.hypot(own, getattr(theirs, f"{kind}_sd") / math.sqrt(TRIALS))
                # All is 500 measurements here; the paper counts 499.
                error = max(error, 0.5 if kind == "measurements" else 0.0)
                is_near = abs(ours[kind] - getattr(theirs, kind)) <= 2 * error
                counts.setdefault((group or "Ber", kind), []).append(is_near)
    return [f"{group}, {kind}: {sum(c)} of {len(c)}" for (group, kind), c in counts.items()]


def paper_curve(column: int, measurements: float) -> float | None:
    """The paper's regret at a number of measurements, between its kappa rows; None outside them."""
    rows = [A2[f"kappa {kappa:g}"][column] for kappa in KAPPAS] + [A2["TV-GP-UCB"][column]]
    counts = [row.measurements for row in rows]
    if not counts[0] <= measurements <= counts[-1] + 1:
        return None
    return float(np.interp(measurements, counts, [row.regret for row in rows]))


def tables(runs: list[Run]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for run in runs:
        if path_of(run.key).exists():
            found.setdefault(run.method, {})[str(run.forgetting)] = summary(run)
    return found


def print_tables(found: dict[str, Any]) -> None:
    print("\nR_T/T, measurements; below, the paper's (mean, standard deviation)")
    print("| method |" + "".join(f" eps = {eps} |" for eps in FORGETTING))
    print("|---|" + "---|" * len(FORGETTING))
    outside: list[str] = []
    for method, cells in found.items():
        ours, paper = [], []
        for column, eps in enumerate(FORGETTING):
            cell = cells.get(str(eps))
            if cell is None:
                ours.append("")
                continue
            ours.append(
                f"{cell['regret']:.3f} ± {cell['regret_sd']:.3f}, "
                f"{cell['measurements']:.0f} ± {cell['measurements_sd']:.0f}"
            )
            if method not in A2:
                continue
            row = A2[method][column]
            paper.append(
                f"{row.regret:.3f} ± {row.regret_sd:.3f}, "
                f"{row.measurements:.0f} ± {row.measurements_sd:.0f}"
            )
            # All is 500 measurements here; the paper counts 499.
            spread = max(row.measurements_sd, 1)
            distances = (
                (cell["regret"] - row.regret) / row.regret_sd,
                (cell["measurements"] - row.measurements) / spread,
            )
            if max(map(abs, distances)) > 1:
                outside.append(
                    f"{method}, eps = {eps}: regret {distances[0]:+.2f}, "
                    f"measurements {distances[1]:+.2f}"
                )
        print(f"| {method} | " + " | ".join(ours) + " |")
        if paper:
            print("| paper | " + " | ".join(paper) + " |")
    print("\nMore than one of the paper's standard deviations away:")
    print("\n".join(outside) or "none")
    print("\nWithin two standard errors of the difference:")
    print("\n".join(agreement(found)))
    print("\nDefault rule: regret less that of the paper's curve at as many measurements")
    for kappa in KAPPAS:
        cells = found.get(f"default kappa {kappa:g}", {})
        line = []
        for column, eps in enumerate(FORGETTING):
            cell = cells.get(str(eps))
            curve = None if cell is None else paper_curve(column, cell["measurements"])
            error = 0 if cell is None else cell["regret_sd"] / math.sqrt(cell["trials"])
            line.append("-" if curve is None else f"{cell['regret'] - curve:+.3f} ± {error:.3f}")
        print(f"| {kappa:g} | " + " | ".join(line) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--methods", default="", help="only those whose names begin so")
    parser.add_argument("--tables", action="store_true", help="only print what was run")
    arguments = parser.parse_args()
    chosen = [method for method in METHODS if method.startswith(arguments.methods)]
    trials = {m: SINGLE_TRIALS if m.startswith("single") else TRIALS for m in chosen}
    runs = [Run(method, eps, trials[method]) for method in chosen for eps in FORGETTING]
    if arguments.tables:
        print_tables(json.loads(RESULT.read_text())["methods"])
        return
    run_all(perform, runs, lambda run: run.key, arguments.processes, "table A2")
    # Methods that were not asked for stay as they are.
    kept = json.loads(RESULT.read_text())["methods"] if RESULT.exists() else {}
    found = {**kept, **tables(runs)}
    found = {method: found[method] for method in METHODS if method in found}
    seconds = sum(read(run.key)["cpu_seconds"] for run in runs)
    RESULT.write_text(json.dumps({"methods": found}, indent=1) + "\n")
    print_tables(found)
    print(f"\n{seconds:.0f} CPU seconds")


if __name__ == "__main__":
    main()
