"""Asynchronous decisions: regret against cost and against time with 1, 4 and 16 trials in flight.

A simulated clock: a trial takes a random time of mean one (log-normal, 0.5 standard deviations of
its logarithm), whatever it costs, and as soon as one ends the next is asked for through Ax's
``Client``. The objectives are samples of a Gaussian process whose hyperparameters the model is
given, so that what differs between the columns is the decisions alone:

- ``control_sets``: three inputs with the length-scale 0.3, truncated normal marginals of variance
  0.02, seven control sets at 0.1 for one input, 0.2 for two and 1 for all; budget 10;
- ``gittins``: three inputs with the length-scale 0.3, a cost between 0.5 and 3.5; budget 80, the
  stopping rule off;
- ``indirect``: averages around queries over two inputs with the length-scale 0.2, at cost 1;
  budget 40.

Initial trials are charged. Regret is that of ``recommend(client)``, by the true expected value,
once the trials that have ended cost some part of the budget, or at some time. Also kept of every
decision: how many trials were pending, and how far it is from the closest of its control set (root
mean squared difference of the controlled inputs on the unit cube). Two pending trials at one point
are one too many where all inputs are controlled; the uncontrolled inputs differ between them.

    python benchmarks/in_flight.py --methods gittins --seeds 8
    python benchmarks/in_flight.py --tables         # all that was run, as Markdown

Finished runs are kept in ``benchmarks/results/partial``; means and standard errors go to
``benchmarks/results/in_flight.json``.
"""

from __future__ import annotations

import argparse
import heapq
import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.exceptions.core import DataRequiredError, OptimizationShouldStop
from ax.exceptions.generation_strategy import MaxParallelismReachedException
from ax.generation_strategy.generation_strategy import GenerationStrategy
from kept_runs import RESULTS, keep, path_of, read, run_all
from scipy.optimize import minimize

from ax_costaware import (
    AffineCost,
    ControlSet,
    FixedHyperparameters,
    GaussianConditional,
    TruncatedNormal,
    complete_trial,
    control_set_parameter,
    control_set_strategy,
    gittins_strategy,
    indirect_query_strategy,
    recommend,
    spending,
)
from ax_costaware.core.traits import CONTROL_SET

METHODS = ("control_sets", "gittins", "indirect")
IN_FLIGHT = (1, 4, 16)
LEVELS = (0.4, 0.6, 0.8, 1.0)
"""Parts of the budget at which regret is compared."""

TIMES = (5.0, 10.0, 20.0)
"""Mean durations of a trial after which regret is compared."""

NOISE_STD = 0.01
DUPLICATE = 1e-3
"""Pending points closer than this are one trial twice."""

FAST: dict[str, Any] = {"num_restarts": 4, "raw_samples": 64}
SPREAD = 0.05
"""Standard deviation of a point around its query."""

SUBSETS = (("x1",), ("x2",), ("x3",), ("x1", "x2"), ("x1", "x3"), ("x2", "x3"), ("x1", "x2", "x3"))
CONTROL_SETS = tuple(ControlSet(list(s), cost={1: 0.1, 2: 0.2, 3: 1.0}[len(s)]) for s in SUBSETS)
MARGINAL = TruncatedNormal.from_variance(0.5, 0.02, 0.0, 1.0)
COST = AffineCost({"x1": 2.0, "x2": 1.0}, fixed=0.5)


@dataclass(frozen=True)
class Run:
    """One seed of one method with some number of trials in flight."""

    method: str
    in_flight: int
    seed: int

    @property
    def key(self) -> str:
        return f"in_flight_{self.method}_{self.in_flight}_{self.seed}"


class Sample:
    """A sample of a Gaussian process of variance one on the unit cube, by 1024 Fourier features.

    Args:
        dim: The number of inputs.
        lengthscale: Of the squared-exponential kernel.
        seed: Which sample.
    """

    def __init__(self, dim: int, lengthscale: float, seed: int) -> None:
        random = np.random.default_rng([seed, dim])
        self.dim = dim
        self.frequencies = random.standard_normal((1024, dim)) / lengthscale
        self.phases = random.uniform(0, 2 * math.pi, 1024)
        self.weights = random.standard_normal(1024) * math.sqrt(2 / 1024)

    def __call__(self, X: np.ndarray, spread: float = 0.0) -> np.ndarray:
        """Values at ``n x d`` points, or the exact averages over normal laws around them."""
        damping = np.exp(-0.5 * spread**2 * np.square(self.frequencies).sum(axis=-1))
        values: np.ndarray = np.cos(X @ self.frequencies.T + self.phases) @ (damping * self.weights)
        return values

    def maximum(self) -> float:
        """Of the function on the unit cube."""
        starts = np.random.default_rng(0).uniform(size=(4096, self.dim))
        best = starts[np.argsort(self(starts))[-10:]]

        def negated(x: np.ndarray) -> tuple[float, np.ndarray]:
            angles = self.frequencies @ x + self.phases
            gradient = (self.weights * np.sin(angles)) @ self.frequencies
            return -float(self.weights @ np.cos(angles)), gradient

        limits = [(0.0, 1.0)] * self.dim
        return max(-float(minimize(negated, x, jac=True, bounds=limits).fun) for x in best)


class Setting:
    """A method's problem: strategy, simulated outcomes and the value of a recommendation."""

    def __init__(self, method: str, seed: int) -> None:
        self.method = method
        self.seed = seed
        self.names = ("x1", "x2", "x3") if method != "indirect" else ("x1", "x2")
        self.lengthscale = 0.2 if method == "indirect" else 0.3
        self.noise = NOISE_STD
        self.sample = Sample(len(self.names), self.lengthscale, seed)
        self.budget = {"control_sets": 10.0, "gittins": 80.0, "indirect": 40.0}[method]
        nodes = MARGINAL.nodes_and_weights(16)
        self.values, self.weights = np.asarray(nodes[0]), np.asarray(nodes[1])

    def client(self) -> Client:
        """A client of the experiment."""
        client = Client()
        if self.method == "indirect":
            parameters = [RangeParameterConfig(n, (0, 1), "float") for n in ("a1", "a2")]
            client.configure_experiment(parameters, name="in_flight")
        else:
            inputs = [RangeParameterConfig(name, (0, 1), "float") for name in self.names]
            sets = [control_set_parameter(CONTROL_SETS)] if self.method == "control_sets" else []
            client.configure_experiment([*sets, *inputs], name="in_flight")
        client.configure_optimization("y")
        client.set_generation_strategy(self.strategy())
        return client

    def strategy(self) -> GenerationStrategy:
        """The strategy under test, which is given the true hyperparameters."""
        given = FixedHyperparameters(self.lengthscale, noise_variance=self.noise**2)
        common: dict[str, Any] = {"budget": self.budget, "seed": self.seed, **FAST}
        if self.method == "control_sets":
            marginals = dict.fromkeys(self.names, MARGINAL)
            return control_set_strategy(
                CONTROL_SETS, marginals, surrogate_spec=given, num_nodes=64, **common
            )
        if self.method == "gittins":
            return gittins_strategy(COST, surrogate_spec=given, **common)
        targets = [RangeParameterConfig(name, (0, 1), "float") for name in self.names]
        conditional = GaussianConditional(((1, 0), (0, 1)), covariance=SPREAD**2, outside="keep")
        return indirect_query_strategy(
            targets, conditional, hyperparameters=given, num_samples=16, **common
        )

    def cost(self, arm: Mapping[str, Any]) -> float:
        """What a trial costs."""
        if self.method == "control_sets":
            return _control_set(arm).cost_at(arm) or 0.0
        if self.method == "gittins":
            return 0.5 + 2 * float(arm["x1"]) + float(arm["x2"])
        return 1.0

    def controlled(self, arm: Mapping[str, Any]) -> list[str]:
        """The inputs that a trial controls."""
        if self.method == "control_sets":
            return list(_control_set(arm).parameters)
        return ["a1", "a2"] if self.method == "indirect" else list(self.names)

    def complete(self, client: Client, index: int, arm: Mapping[str, Any]) -> None:
        """Simulate a trial and report it; what is random depends on its index alone."""
        random = np.random.default_rng([self.seed, index, 1])
        noise = self.noise * random.standard_normal()
        if self.method == "indirect":
            X, spread = np.array([[float(arm["a1"]), float(arm["a2"])]]), SPREAD
            complete_trial(client, index, {"y": float(self.sample(X, spread)[0]) + noise})
            return
        realized = {
            name: float(random.choice(self.values, p=self.weights / self.weights.sum()))
            for name in self.names
            if name not in self.controlled(arm)
        }
        point = {**arm, **realized}
        X = np.array([[float(point[name]) for name in self.names]])
        complete_trial(client, index, {"y": float(self.sample(X)[0]) + noise}, realized=realized)

    def value(self, client: Client) -> float:
        """The true expected value of what is recommended."""
        chosen: Mapping[str, Any] = recommend(client).parameters
        axes = [
            (np.array([float(chosen[name])]), np.ones(1))
            if name in chosen
            else (self.values, self.weights)
            for name in self.names
        ]
        grid = np.meshgrid(*(points for points, _ in axes), indexing="ij")
        weights = np.ones(())
        for _, w in axes:
            weights = np.multiply.outer(weights, w)
        values = self.sample(np.stack([g.ravel() for g in grid], axis=-1))
        return float(weights.ravel() @ values / weights.sum())


def _control_set(arm: Mapping[str, Any]) -> ControlSet:
    return next(s for s in CONTROL_SETS if s.name == arm[CONTROL_SET])


def distance(
    setting: Setting, arm: Mapping[str, Any], others: Sequence[Mapping[str, Any]]
) -> float:
    """To the closest of the others with the same control set; infinite if there is none."""
    names = setting.controlled(arm)
    alike = [o for o in others if o.get(CONTROL_SET) == arm.get(CONTROL_SET)]
    gaps = [[float(arm[n]) - float(other[n]) for n in names] for other in alike]
    return min((math.sqrt(np.square(gap).mean()) for gap in gaps), default=math.inf)


def simulate(run: Run) -> dict[str, Any]:
    """One run: regret by cost and by time, and what was pending at each decision."""
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    started = time.process_time()
    setting = Setting(run.method, run.seed)
    client = setting.client()
    costs, times = [level * setting.budget for level in LEVELS], list(TIMES)
    regrets: dict[str, list[float]] = {"cost": [], "time": []}
    clock, paid, waited, ended = 0.0, 0.0, 0, ""
    running: list[tuple[float, int]] = []
    arms: dict[int, dict[str, Any]] = {}
    decisions: list[dict[str, Any]] = []
    decision_s = 0.0
    maximum = setting.sample.maximum()

    def note(new_cost: float, new_clock: float) -> None:
        """Note the regret so far for all levels that the next trial to end passes."""
        passed = [
            (kind, levels)
            for kind, levels, now in (("cost", costs, new_cost), ("time", times, new_clock))
            if levels and now > levels[0] + 1e-9
        ]
        regret = maximum - setting.value(client) if passed else math.nan
        for kind, levels in passed:
            now = new_cost if kind == "cost" else new_clock
            while levels and now > levels[0] + 1e-9:
                levels.pop(0)
                regrets[kind].append(regret)

    while True:
        while len(running) < run.in_flight and not ended:
            before = time.process_time()
            try:
                ((index, arm),) = client.get_next_trials(max_trials=1).items()
            except (DataRequiredError, MaxParallelismReachedException):
                waited += 1
                break
            except OptimizationShouldStop as stop:
                ended = str(stop)
                break
            decision_s += time.process_time() - before
            pending = [arms[i] for _, i in running]
            arms[index] = dict(arm)
            decisions.append(
                {
                    "pending": len(pending),
                    "closest": distance(setting, arms[index], pending),
                    "whole": len(setting.controlled(arm)) == len(setting.names),
                }
            )
            duration = np.random.default_rng([run.seed, index, 2]).lognormal(-0.125, 0.5)
            heapq.heappush(running, (clock + float(duration), index))
        if not running:
            break
        ends, index = heapq.heappop(running)
        cost = setting.cost(arms[index])
        note(paid + cost, ends)
        clock, paid = ends, paid + cost
        setting.complete(client, index, arms[index])
    note(math.inf, math.inf)
    return {
        "regrets": regrets,
        "decisions": decisions,
        "waited": waited,
        "trials": len(arms),
        "duration": clock,
        "paid": paid,
        "spent": spending(client).spent,
        "budget": setting.budget,
        "ended": ended,
        "decision_cpu_s": decision_s / len(arms),
        "cpu_s": time.process_time() - started,
    }


def run_and_keep(run: Run) -> None:
    """Run one seed and keep it."""
    keep(run.key, simulate(run))


def summarise(method: str, in_flight: int, seeds: Sequence[int]) -> dict[str, Any]:
    """Means and standard errors over seeds, and what went wrong in any of them."""
    runs = [read(Run(method, in_flight, seed).key) for seed in seeds]
    summary: dict[str, Any] = {"seeds": len(seeds)}
    for kind, levels in (("cost", LEVELS), ("time", TIMES)):
        regrets = np.array([run["regrets"][kind] for run in runs])
        summary[kind] = {
            "levels": list(levels),
            "mean": regrets.mean(axis=0).tolist(),
            "median": np.median(regrets, axis=0).tolist(),
            "standard_error": (regrets.std(axis=0, ddof=1) / math.sqrt(len(runs))).tolist(),
        }
    decisions = [decision for run in runs for decision in run["decisions"]]
    twice = [d for d in decisions if d["whole"] and d["closest"] < DUPLICATE]
    return {
        **summary,
        "trials": float(np.mean([run["trials"] for run in runs])),
        "duration": float(np.mean([run["duration"] for run in runs])),
        "most_spent_of_budget": max(run["spent"] / run["budget"] for run in runs),
        "decisions": len(decisions),
        "duplicates_of_pending": len(twice),
        "decision_cpu_s": float(np.mean([run["decision_cpu_s"] for run in runs])),
    }


def tables() -> None:
    """Write everything that was run, over the seeds that all have finished, and print it."""
    results: dict[str, Any] = {}
    shares = " | ".join(f"regret at {level:.0%}" for level in LEVELS)
    times = " | ".join(f"at time {at:g}" for at in TIMES)
    print(f"| method | in flight | {shares} | {times} | duration | duplicates | spent at most |")
    print("|---" * (len(LEVELS) + len(TIMES) + 5) + "|")
    for method in METHODS:
        done = [
            {s for s in range(100) if path_of(Run(method, k, s).key).exists()} for k in IN_FLIGHT
        ]
        common = sorted(set.intersection(*done))
        if len(common) < 2:
            continue
        results[method] = {str(k): summarise(method, k, common) for k in IN_FLIGHT}
        for k, row in results[method].items():
            regrets = [
                f"{mean:.3f} ± {error:.3f}"
                for kind in ("cost", "time")
                for mean, error in zip(row[kind]["mean"], row[kind]["standard_error"], strict=True)
            ]
            print(
                f"| {method} ({row['seeds']} seeds) | {k} | {' | '.join(regrets)} | "
                f"{row['duration']:.1f} | {row['duplicates_of_pending']} of {row['decisions']} | "
                f"{row['most_spent_of_budget']:.1%} |"
            )
    path = RESULTS / "in_flight.json"
    path.write_text(json.dumps(results, indent=1) + "\n")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--tables", action="store_true", help="only summarise what was run")
    args = parser.parse_args()
    if not args.tables:
        runs = [
            Run(method, k, seed)
            for seed in range(args.seeds)
            for method in args.methods
            for k in IN_FLIGHT
        ]
        run_all(run_and_keep, runs, lambda run: run.key, args.processes, "in flight")
    tables()


if __name__ == "__main__":
    main()
