"""What a round of the costly-feedback loop costs, beside a BoTorch GP that is refitted each round.

One thread; the setting is that of ``costly_feedback.py``: 1000 candidates, Matern 3/2, forgetting
rate 0.01. Rounds are timed at 500 measurements in memory, measured and skipped ones, with the
default rule and with the paper's. The peer does what a user without the loop would do each round,
at the same 500 measurements: a new ``TimeVaryingGP`` with known hyperparameters (and, apart from
that, with fitted ones), its posterior at the candidates and the largest upper confidence bound.
Then the same in a box with three dimensions, where points are searched for, with 200 measurements
in memory; and 100,000 rounds with candidates, with the memory that the process takes.

    python benchmarks/costly_feedback_speed.py             # about two minutes

Results go to ``benchmarks/results/costly_feedback_speed.json``.
"""

from __future__ import annotations

import json
import resource
import statistics
import time
from typing import Any

import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import MaternKernel
from gpytorch.means import ZeroMean
from gpytorch.mlls import ExactMarginalLogLikelihood
from kept_runs import RESULTS
from torch import Tensor

from ax_costaware.methods import CostlyFeedbackLoop, FeedbackRule, MeasurementRule
from ax_costaware.models import TimeVaryingGP

NUM_CANDIDATES, NUM_MEASURED, FORGETTING, NOISE, LONG = 1000, 500, 0.01, 0.01, 100_000
CANDIDATES = np.linspace(0, 1, NUM_CANDIDATES)
RULES = {
    "default rule": MeasurementRule(0.9),
    "paper's rule": MeasurementRule(0.9, compare="local_optima", joint=False),
}


def kernel() -> MaternKernel:
    matern = MaternKernel(nu=1.5).double()
    matern.lengthscale = 0.2
    return matern


def outcome(x: Any, t: int) -> float:
    noise = np.random.default_rng(t).standard_normal()
    return float(np.sin(6 * x + 0.01 * t) + NOISE**0.5 * noise)


def loop_with(rule: FeedbackRule) -> CostlyFeedbackLoop:
    return CostlyFeedbackLoop(
        CANDIDATES, kernel=kernel(), forgetting=FORGETTING, noise=NOISE, rule=rule
    )


def rounds(rule: FeedbackRule) -> dict[str, float]:
    """Median seconds of a round that is measured, and of one that is skipped.

    First every round is measured, as where things drift fast: the point moves nearly every time,
    which costs most. Then nine of ten rounds are skipped.
    """
    loop = loop_with(rule)
    for t in range(NUM_MEASURED):
        loop.tell(outcome(loop.ask().x, t))
    seconds: dict[str, list[float]] = {"measured": [], "skipped": []}
    for t in range(NUM_MEASURED, NUM_MEASURED + 200):
        for kind in ("measured", *["skipped"] * (9 if t >= NUM_MEASURED + 100 else 0)):
            start = time.process_time()
            x = loop.ask().x
            taken = time.process_time() - start
            y = outcome(x, t)
            start = time.process_time()
            if kind == "measured":
                loop.tell(y)
            else:
                loop.skip()
            seconds[kind].append(taken + time.process_time() - start)
    return {
        "measured": statistics.median(seconds["measured"][:100]),
        "measured after skipped ones": statistics.median(seconds["measured"][100:]),
        "skipped": statistics.median(seconds["skipped"]),
        "skipped, 95 of 100 below": float(np.quantile(seconds["skipped"], 0.95)),
    }


def box_rounds() -> dict[str, float]:
    """Median seconds of measured and of skipped rounds in a box."""
    matern = MaternKernel(nu=2.5, ard_num_dims=3).double()
    matern.lengthscale = 0.4
    loop = CostlyFeedbackLoop(
        bounds=[[0.0] * 3, [1.0] * 3],
        kernel=matern,
        forgetting=FORGETTING,
        noise=NOISE,
        rule=MeasurementRule(0.9),
    )
    seconds: dict[str, list[float]] = {"measured": [], "skipped": []}
    for t in range(220):
        for kind in ("measured", *["skipped"] * (3 if t >= 200 else 0)):
            start = time.process_time()
            x = loop.ask().x
            if kind == "measured":
                loop.tell(float(np.sin(np.asarray(x) * [2, 3, 5] + 0.01 * t).sum()))
            else:
                loop.skip()
            seconds[kind].append(time.process_time() - start)
    return {
        # The search for the point of a round is in the first one after a measurement.
        "measured": statistics.median(seconds["measured"][150:200]),
        "skipped": statistics.median(seconds["skipped"]),
    }


def refitting(X: Tensor, Y: Tensor, fitted: bool) -> float:
    """Seconds of a round of the peer."""
    start = time.process_time()
    model = TimeVaryingGP(
        X,
        Y,
        covar_module=None if fitted else kernel().requires_grad_(False),
        forgetting=None if fitted else FORGETTING,
        noise=None if fitted else NOISE,
        mean_module=None if fitted else ZeroMean(),
        outcome_transform=None,
    )
    if fitted:
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    now = torch.full((NUM_CANDIDATES, 1), float(NUM_MEASURED + 1), dtype=torch.double)
    with torch.no_grad():
        posterior = model.posterior(torch.cat([torch.tensor(CANDIDATES).unsqueeze(-1), now], -1))
        (posterior.mean + 2 * posterior.variance.sqrt()).argmax()
    return time.process_time() - start


def peers() -> dict[str, float]:
    loop = loop_with(MeasurementRule(0.9))
    told = []
    for t in range(NUM_MEASURED):
        x = loop.ask().x
        y = outcome(x, t)
        told.append((float(x), t + 1.0, y))
        loop.tell(y)
    data = torch.tensor(told, dtype=torch.double)
    X, Y = data[:, :2], data[:, 2:]
    return {
        "known hyperparameters": statistics.median(refitting(X, Y, False) for _ in range(9)),
        "fitted hyperparameters": statistics.median(refitting(X, Y, True) for _ in range(3)),
    }


def long_run() -> dict[str, float]:
    """A hundred thousand rounds, all measured in the worst case, with the default rule beside."""
    found = {}
    for name, rule in (("as the rule says", MeasurementRule(0.9)), ("every round", None)):
        loop = loop_with(rule or MeasurementRule(0.9))
        start = time.process_time()
        half = 0.0
        for t in range(LONG):
            x, measure, _ = loop.ask()
            if measure or rule is None:
                loop.tell(outcome(x, t))
            else:
                loop.skip()
            if t == LONG // 2:
                half = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        found[f"{name}: seconds"] = time.process_time() - start
        found[f"{name}: measured"] = loop.num_measured
        found[f"{name}: peak MB after half"] = half
        found[f"{name}: peak MB after all"] = (
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        )
    return found


def main() -> None:
    torch.set_num_threads(1)
    result: dict[str, Any] = {name: rounds(rule) for name, rule in RULES.items()}
    result["refitted each round"] = peers()
    ours = result["default rule"]["measured"]
    result["ratio"] = {name: s / ours for name, s in result["refitted each round"].items()}
    for name in RULES:
        times = result[name]
        print(
            f"{name}: measured {1e3 * times['measured']:.2f} ms, "
            f"skipped {1e6 * times['skipped']:.0f} microseconds "
            f"(95 %: {1e6 * times['skipped, 95 of 100 below']:.0f})"
        )
    for name, seconds in result["refitted each round"].items():
        print(f"BoTorch, {name}: {1e3 * seconds:.0f} ms, {result['ratio'][name]:.0f}x")
    result["box"] = box_rounds()
    for kind, value in result["box"].items():
        print(f"box, {kind}: {1e3 * value:.1f} ms")
    result["long run"] = long_run()
    for name, value in result["long run"].items():
        print(f"{LONG} rounds, {name}: {value:.0f}")
    path = RESULTS / "costly_feedback_speed.json"
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
