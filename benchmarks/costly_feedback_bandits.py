"""Table A1 of CE-GP-UCB: three arms whose rewards drift, beside the paper's figures.

Wang et al. 2020, "Cost-Efficient Online Hyperparameter Optimization", appendix E.1: independent
arms, T = 2000 rounds, noise variance 0.01, 100 trials, kappa = 0.95. The paper prints neither its
shapes nor its hyperparameters, which it fits. Assumed here, all rewards between 0 and 1:

- ``sine``: ``0.5 + 0.5 sin(pi t / T + pi / 6 + 2 pi i / 3)``, half a period;
- ``bumps``: ``exp(-(t - c_i)^2 / (2 w^2))``, ``c_i = T / 6, T / 2, 5 T / 6``, ``w = T / 6``;
- ``steps``: three blocks; rewards 1, 0.5 and 0.2, which the arms exchange from block to block.

The model: prior mean 0.5, prior variance 0.015, noise variance 0.01, forgetting rate 0.003 for the
smooth shapes and 0.015 for the steps, chosen by hand. For scale: what UCB1 and time-varying GP-UCB
do with the tenth of the measurements that is drawn at random, as in the paper.

    python benchmarks/costly_feedback_bandits.py           # about two minutes

Results go to ``benchmarks/results/costly_feedback_bandits.json``.
"""

from __future__ import annotations

import json

import numpy as np
import torch
from costly_feedback_paper import A1
from gpytorch.kernels import ScaleKernel
from kept_runs import RESULTS
from numpy.typing import NDArray
from tqdm import tqdm

from ax_costaware.methods import (
    BernoulliRule,
    CostlyFeedbackLoop,
    FeedbackRule,
    MeasurementRule,
)
from ax_costaware.models import IndependentKernel

ROUNDS, TRIALS, NOISE, PRIOR_MEAN, PRIOR_VARIANCE = 2000, 100, 0.01, 0.5, 0.015
TIME = np.arange(1, ROUNDS + 1) / ROUNDS
ARMS = np.arange(3)
FORGETTING = {"sine": 0.003, "bumps": 0.003, "steps": 0.015}
REWARDS = {
    "sine": 0.5 + 0.5 * np.sin(np.pi * (TIME[:, None] + 1 / 6 + 2 * ARMS / 3)),
    "bumps": np.exp(-0.5 * ((TIME[:, None] - (2 * ARMS + 1) / 6) * 6) ** 2),
    "steps": np.array([1, 0.5, 0.2])[(ARMS - np.ceil(3 * TIME[:, None]).astype(int)) % 3],
}
METHODS: dict[str, FeedbackRule | None] = {
    "CE-GP-UCB": MeasurementRule(0.95),
    "TV-GP-UCB Ber(0.1)": BernoulliRule(0.1),
    "UCB Ber(0.1)": None,
}


def loop_trial(
    rewards: NDArray[np.float64], forgetting: float, rule: FeedbackRule, trial: int
) -> tuple[float, int]:
    """Average regret, and the number of measurements."""
    generator = np.random.default_rng((3, trial))
    kernel = ScaleKernel(IndependentKernel()).double()
    kernel.outputscale = PRIOR_VARIANCE
    loop = CostlyFeedbackLoop(
        ARMS, kernel=kernel, forgetting=forgetting, noise=NOISE, rule=rule, seed=trial
    )
    regret = 0.0
    for row in rewards:
        arm, measure, _ = loop.ask()
        reward = row[int(arm)]
        regret += row.max() - reward
        error = NOISE**0.5 * generator.standard_normal()
        if measure:
            loop.tell(reward - PRIOR_MEAN + error)
        else:
            loop.skip()
    return regret / ROUNDS, loop.num_measured


def ucb_trial(rewards: NDArray[np.float64], trial: int) -> tuple[float, int]:
    """UCB1 of Auer et al. 2002, told of a tenth of the rounds."""
    generator = np.random.default_rng((3, trial))
    counts, totals, regret = np.zeros(3), np.zeros(3), 0.0
    for row in rewards:
        n = counts.sum()
        with np.errstate(divide="ignore", invalid="ignore"):
            bounds = totals / counts + np.sqrt(2 * np.log(n) / counts)
        arm = int(np.where(counts == 0, np.inf, bounds).argmax())
        regret += row.max() - row[arm]
        if generator.random() < 0.1:
            counts[arm] += 1
            totals[arm] += row[arm] + NOISE**0.5 * generator.standard_normal()
    return regret / ROUNDS, int(counts.sum())


def main() -> None:
    torch.set_num_threads(1)
    found: dict[str, dict[str, dict[str, float]]] = {}
    progress = tqdm(total=len(METHODS) * len(REWARDS) * TRIALS, desc="table A1")
    for method, rule in METHODS.items():
        for shape, rewards in REWARDS.items():
            trials = []
            for trial in range(TRIALS):
                trials.append(
                    ucb_trial(rewards, trial)
                    if rule is None
                    else loop_trial(rewards, FORGETTING[shape], rule, trial)
                )
                progress.update()
            mean, deviation = np.mean(trials, axis=0), np.std(trials, axis=0)
            found.setdefault(method, {})[shape] = {
                "regret": mean[0],
                "regret_sd": deviation[0],
                "measurements": mean[1],
                "measurements_sd": deviation[1],
            }
    progress.close()
    path = RESULTS / "costly_feedback_bandits.json"
    path.write_text(json.dumps({"trials": TRIALS, "methods": found}, indent=1) + "\n")
    print("| method | " + " | ".join(REWARDS) + " |")
    print("|---|" + "---|" * len(REWARDS))
    for method, cells in found.items():
        line = [
            f"{c['regret']:.3f} ± {c['regret_sd']:.3f}, "
            f"{c['measurements']:.0f} ± {c['measurements_sd']:.0f}"
            for c in cells.values()
        ]
        print(f"| {method} | " + " | ".join(line) + " |")
    for method, figures in A1.items():
        line = [
            f"{f.regret:.3f} ± {f.regret_sd:.3f}, {f.measurements:.0f} ± {f.measurements_sd:.0f}"
            for f in figures.values()
        ]
        print(f"| {method}, paper | " + " | ".join(line) + " |")


if __name__ == "__main__":
    main()
