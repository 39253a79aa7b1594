"""When choosing what to measure pays: the default rule beside chance, by drift, noise and length.

A function on [0, 1] that drifts as the model says, as in ``costly_feedback.py`` (Matern 3/2,
length-scale 0.2, variance 1, hyperparameters known). The default rule chooses what to measure; then
as large a share is measured at random, on the same function with the same noise. What is compared
is the regret: how much less than the best of its time the point in use is worth, on average.

    python benchmarks/costly_feedback_conditions.py           # about ten minutes on 2 cores

Finished runs are kept in ``benchmarks/results/partial``; the table is printed, and its numbers go
to ``benchmarks/results/costly_feedback_conditions.json``.
"""

from __future__ import annotations

import argparse
import json
import math
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from costly_feedback import NUM_POINTS, drifting_function, kernel
from kept_runs import RESULTS, keep, read, run_all

from ax_costaware.methods import (
    BernoulliRule,
    CostlyFeedbackLoop,
    FeedbackRule,
    MeasurementRule,
)

DRIFTS = (0.001, 0.003, 0.01, 0.03)
NOISES = (0.01, 0.1, 1.0, 4.0)
LENGTHS = (150, 500)


class Cell(NamedTuple):
    """A condition."""

    forgetting: float
    """How much of the function is forgotten from round to round."""

    noise: float
    """Variance of the noise, in variances of the function."""

    rounds: int
    """Length of a run."""


class Task(NamedTuple):
    """Both rules on one function."""

    cell: Cell
    seed: int

    @property
    def key(self) -> str:
        """The name of its file."""
        forgetting, noise, rounds = self.cell
        return f"costly_feedback_conditions_{forgetting}_{noise}_{rounds}_{self.seed}"


def regret_of(rule: FeedbackRule, task: Task) -> tuple[float, float]:
    """Mean regret of a rule, and the share of the rounds that it measured."""
    forgetting, noise, rounds = task.cell
    function = drifting_function(forgetting, task.seed)[:rounds]
    errors = math.sqrt(noise) * np.random.default_rng((2, task.seed)).standard_normal(rounds)
    loop = CostlyFeedbackLoop(
        np.arange(NUM_POINTS) / (NUM_POINTS - 1),
        kernel=kernel(),
        forgetting=forgetting,
        noise=noise,
        rule=rule,
        seed=task.seed,
    )
    regret = 0.0
    for values, error in zip(function, errors, strict=True):
        x, measure, _ = loop.ask()
        index = round(float(x) * (NUM_POINTS - 1))
        regret += values.max() - values[index]
        if measure:
            loop.tell(values[index] + error)
        else:
            loop.skip()
    return float(regret / rounds), loop.num_measured / rounds


def run_and_keep(task: Task) -> None:
    """Run both rules, and what measures all."""
    torch.set_num_threads(1)
    chosen, share = regret_of(MeasurementRule(), task)
    chance, _ = regret_of(BernoulliRule(share), task)
    every, _ = regret_of(BernoulliRule(1.0), task)
    keep(task.key, {"chosen": chosen, "chance": chance, "every": every, "share": share})


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    cells = [Cell(*each) for each in product(DRIFTS, NOISES, LENGTHS)]
    tasks = [Task(cell, seed) for seed in range(chosen.seeds) for cell in cells]
    run_all(run_and_keep, tasks, lambda task: task.key, chosen.processes, "conditions")
    kept: list[dict[str, Any]] = []
    print("Regret by chance less that of the default rule (bold: by two standard errors), and the")
    print("share of the rounds that is measured\n")
    print("| drift | rounds |" + "".join(f" noise {noise:g} |" for noise in NOISES))
    print("|---" * (len(NOISES) + 2) + "|")
    for drift, rounds in product(DRIFTS, LENGTHS):
        line = f"| {drift:g} | {rounds} |"
        for noise in NOISES:
            cell = Cell(drift, noise, rounds)
            rows = [read(Task(cell, seed).key) for seed in range(chosen.seeds)]
            gain = np.array([row["chance"] - row["chosen"] for row in rows])
            error = float(gain.std(ddof=1) / math.sqrt(len(gain))) if len(gain) > 1 else math.inf
            share = float(np.mean([row["share"] for row in rows]))
            mark = "**" if gain.mean() > 2 * error else ""
            line += f" {mark}{gain.mean():+.3f} ± {error:.3f}{mark}, {share:.0%} |"
            kept.append(
                {**cell._asdict(), "gain": float(gain.mean()), "error": error, "share": share}
            )
        print(line)
    (RESULTS / "costly_feedback_conditions.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
