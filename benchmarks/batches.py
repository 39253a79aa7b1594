"""Batches under learned hyperparameters: how many trials repeat another one of their batch.

Samples of a Gaussian process over three inputs (two for averages) with the length-scale 0.7,
without noise, so smooth that a budget of some 25 trials finds the optimum. All hyperparameters,
the noise included, are fitted to the outcomes. Methods, costs and marginals are those of
``in_flight.py``; ``gittins_stops`` is the Gittins index with its stopping rule, and ``ax`` is plain
Ax with its own defaults and as many trials. Batches are asked for by ``client.get_next_trials``,
one after the other has reported.

Repeats are trials by the model of which another one of the same batch has the same control set and
lies within a hundredth of the range of every input that is controlled. Those that leave inputs to
chance are counted by themselves: what they tell differs. Regret is that of ``recommend(client)``
(of the best trial for Ax), by the true expected value, when some part of the budget is spent and in
the end.

    python benchmarks/batches.py --methods gittins --seeds 4
    python benchmarks/batches.py --tables         # all that was run, as Markdown

Finished runs are kept in ``benchmarks/results/partial``; means and standard errors go to
``benchmarks/results/batches.json``.
"""

from __future__ import annotations

import argparse
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
from ax.exceptions.core import OptimizationShouldStop
from ax.generation_strategy.generation_strategy import GenerationStrategy
from in_flight import CONTROL_SETS, COST, MARGINAL, SPREAD, Sample, Setting
from kept_runs import RESULTS, keep, path_of, read, run_all

from ax_costaware import (
    GaussianConditional,
    control_set_strategy,
    gittins_strategy,
    indirect_query_strategy,
)
from ax_costaware.ax_bridge.records import decision_record

METHODS = ("gittins_stops", "gittins", "control_sets", "indirect", "ax")
BATCHES = (1, 4)
LEVELS = (0.4, 0.7)
"""Parts of the budget at which regret is compared."""

BUDGETS = {"control_sets": 8.0, "indirect": 26.0, "ax": 26.0}
GITTINS_BUDGET = 45.0
LENGTHSCALE = 0.7
NEAR = 0.01
"""Part of an input's range within which a trial repeats another one."""


@dataclass(frozen=True)
class Run:
    """One seed of one method in batches of some size."""

    method: str
    batch: int
    seed: int

    @property
    def key(self) -> str:
        return f"batches_{self.method}_{self.batch}_{self.seed}"


class FittedSetting(Setting):
    """A method's problem, of which the model is told nothing, and whose outcomes are exact."""

    def __init__(self, method: str, seed: int) -> None:
        super().__init__("gittins" if method in ("gittins_stops", "ax") else method, seed)
        self.asked = method
        self.lengthscale, self.noise = LENGTHSCALE, 0.0
        self.sample = Sample(len(self.names), LENGTHSCALE, seed)
        self.budget = BUDGETS.get(method, GITTINS_BUDGET)

    def client(self) -> Client:
        """A client of the experiment."""
        if self.asked != "ax":
            return super().client()
        client = Client(random_seed=self.seed)
        inputs = [RangeParameterConfig(name, (0, 1), "float") for name in self.names]
        client.configure_experiment(inputs, name="batches")
        client.configure_optimization("y")
        client.configure_generation_strategy(initialization_random_seed=self.seed)
        return client

    def strategy(self) -> GenerationStrategy:
        """The strategy under test, with its own model."""
        common: dict[str, Any] = {"budget": self.budget, "seed": self.seed}
        if self.method == "control_sets":
            return control_set_strategy(CONTROL_SETS, dict.fromkeys(self.names, MARGINAL), **common)
        if self.method == "gittins":
            return gittins_strategy(COST, stop=self.asked == "gittins_stops", **common)
        targets = [RangeParameterConfig(name, (0, 1), "float") for name in self.names]
        conditional = GaussianConditional(((1, 0), (0, 1)), covariance=SPREAD**2, outside="keep")
        return indirect_query_strategy(targets, conditional, **common)

    def cost(self, arm: Mapping[str, Any]) -> float:
        """What a trial costs."""
        return 1.0 if self.asked == "ax" else super().cost(arm)

    def complete(self, client: Client, index: int, arm: Mapping[str, Any]) -> None:
        """Simulate a trial and report it."""
        if self.asked != "ax":
            super().complete(client, index, arm)
            return
        X = np.array([[float(arm[name]) for name in self.names]])
        client.complete_trial(index, {"y": float(self.sample(X)[0])})

    def value(self, client: Client) -> float:
        """The true expected value of what is recommended."""
        if self.asked != "ax":
            return super().value(client)
        frame = client.summarize()
        return float(self.sample(frame[list(self.names)].to_numpy(dtype=float)).max())


def repeats(setting: FittedSetting, batch: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Which trials of a batch repeat another one."""
    found = []
    for i, arm in enumerate(batch):
        names = setting.controlled(arm)
        others = [o for j, o in enumerate(batch) if j != i and setting.controlled(o) == names]
        gaps = [max(abs(float(arm[n]) - float(o[n])) for n in names) for o in others]
        found.append(min(gaps, default=math.inf) <= NEAR)
    return found


def simulate(run: Run) -> dict[str, Any]:
    """One run: repeats and their cost, and regret by cost."""
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    started = time.process_time()
    setting = FittedSetting(run.method, run.seed)
    client, maximum = setting.client(), setting.sample.maximum()
    experiment = client._experiment
    levels, regrets = [level * setting.budget for level in LEVELS], []
    paid, sizes, trials, ended = 0.0, [], [], ""
    while paid < setting.budget - 1e-9:
        try:
            batch = dict(client.get_next_trials(max_trials=run.batch))
        except OptimizationShouldStop as stop:
            ended = str(stop)
            break
        arms = [dict(arm) for arm in batch.values()]
        sizes.append(len(arms))
        for index, arm, again in zip(batch, arms, repeats(setting, arms), strict=True):
            phase = decision_record(experiment.trials[index]).get("phase")
            by_model = index >= 5 if run.method == "ax" else phase == "rule"
            whole = len(setting.controlled(arm)) == len(setting.names)
            cost = setting.cost(arm)
            trials.append({"by_model": by_model, "again": again, "whole": whole, "cost": cost})
            paid += cost
            setting.complete(client, index, arm)
        while levels and paid >= levels[0] - 1e-9:
            levels.pop(0)
            regrets.append(maximum - setting.value(client))
    final = maximum - setting.value(client)
    return {
        "regrets": [*regrets, *[final] * (len(LEVELS) + 1 - len(regrets))],
        "trials": trials,
        "sizes": sizes,
        "paid": paid,
        "ended": ended,
        "cpu_s": time.process_time() - started,
    }


def run_and_keep(run: Run) -> None:
    """Run one seed and keep it."""
    keep(run.key, simulate(run))


def summarise(method: str, batch: int, seeds: Sequence[int]) -> dict[str, Any]:
    """Means and standard errors over seeds, and repeats in all of them."""
    runs = [read(Run(method, batch, seed).key) for seed in seeds]
    regrets = np.array([run["regrets"] for run in runs])
    trials = [trial for run in runs for trial in run["trials"] if trial["by_model"]]
    again = [trial for trial in trials if trial["again"]]
    return {
        "seeds": len(seeds),
        "levels": [*LEVELS, "end"],
        "mean": regrets.mean(axis=0).tolist(),
        "standard_error": (regrets.std(axis=0, ddof=1) / math.sqrt(len(runs))).tolist(),
        "trials": len(trials),
        "repeats": sum(trial["whole"] for trial in again),
        "repeats_with_chance": sum(not trial["whole"] for trial in again),
        "share_of_cost": math.fsum(t["cost"] for t in again if t["whole"])
        / math.fsum(t["cost"] for t in trials),
        "paid": float(np.mean([run["paid"] for run in runs])),
        "batches": float(np.mean([len(run["sizes"]) for run in runs])),
        "cpu_s": float(np.mean([run["cpu_s"] for run in runs])),
    }


def tables() -> None:
    """Write everything that was run, over the seeds that all have finished, and print it."""
    results: dict[str, Any] = {}
    shares = " | ".join(f"regret at {level:.0%}" for level in LEVELS)
    print(
        f"| | batches of | {shares} | at the end | paid | asked | repeats | of the cost | others |"
    )
    print("|---" * (len(LEVELS) + 8) + "|")
    for method in METHODS:
        done = [{s for s in range(100) if path_of(Run(method, k, s).key).exists()} for k in BATCHES]
        common = sorted(set.intersection(*done))
        if len(common) < 2:
            continue
        results[method] = {str(k): summarise(method, k, common) for k in BATCHES}
        for k, row in results[method].items():
            pairs = zip(row["mean"], row["standard_error"], strict=True)
            regrets = " | ".join(f"{mean:.4f} ± {error:.4f}" for mean, error in pairs)
            print(
                f"| {method} ({row['seeds']} seeds) | {k} | {regrets} | {row['paid']:.1f} | "
                f"{row['batches']:.1f} | {row['repeats']} of {row['trials']} | "
                f"{row['share_of_cost']:.0%} | {row['repeats_with_chance']} |"
            )
    (RESULTS / "batches.json").write_text(json.dumps(results, indent=1) + "\n")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--tables", action="store_true", help="only summarise what was run")
    args = parser.parse_args()
    if not args.tables:
        runs = [
            Run(method, batch, seed)
            for seed in range(args.seeds)
            for method in args.methods
            for batch in BATCHES
        ]
        run_all(run_and_keep, runs, lambda run: run.key, args.processes, "batches")
    tables()


if __name__ == "__main__":
    main()
