"""The published experiments on indirect queries: regret against iterations, and against cost.

Zhang et al. 2024, "Indirect Query Bayesian Optimization with Integrated Feedback", section 7: the
function is queried through averages under p(x | a), and the best x is wanted. What the paper does
not print is set here: functions are scaled to standard deviation 1, the noise of an average has
standard deviation 0.1 (``two_hills``: 0.02), the conditional is learned from 300 pairs, both spaces
are grids of 31 x 31, and the first five queries are random.

- ``linear`` and ``cosine``: Branin through the paper's two maps, tau^2 = 0.5; ``_wide``: tau^2 = 4;
- ``two_hills``: the best query is not where the best point is;
- ``tree_linear`` and ``tree_cosine``: averages over the cells of a tree with four children and
  levels 0 to 6, whose cost is 0.5 (level + 1) and whose noise 0.5 / cost; budget 100. The tree's
  methods choose among active cells, the others among the 4096 cells of the last level.

Methods: ``joint`` (``ConditionalJointEntropySearch``; ``joint_truncated`` also uses g <= f*),
``cmes`` and ``cmes_noise_aware`` (``ConditionalMaxValueEntropySearch``), and with a plain Gaussian
process of (a, z) ``mes``, ``ucb`` (2 standard deviations), ``ei``; ``random``. All recommend the
largest posterior mean of the same conditional mean process. Hyperparameters are fixed, or fitted
after the first five queries and after every tenth from there on.

The loop is its own, and not the package's: all methods choose among the points of one grid, as in
the paper, while the package searches continuous spaces.

    python benchmarks/indirect.py                               # all of it, about two hours
    python benchmarks/indirect.py --problems linear --seeds 4   # a part
    python benchmarks/indirect.py --tables                      # of all that was run

Finished runs are kept in ``benchmarks/results/partial``; means and 95 % confidence intervals go to
``benchmarks/results/indirect.json``, figures to ``benchmarks/results/indirect_*.html``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from botorch.exceptions.warnings import BotorchWarning, OptimizationWarning
from gpytorch.utils.warnings import NumericalWarning
from indirect_methods import Chooser, GridChooser, TreeChooser
from indirect_problems import PUBLISHED
from indirect_tables import tables
from kept_runs import keep, run_all

METHODS = ("joint", "joint_truncated", "cmes", "cmes_noise_aware", "mes", "ucb", "ei", "random")
TREE_METHODS = ("tree_joint", "tree_cmes", "joint", "cmes", "mes", "ucb", "ei", "random")
TREES = ("tree_linear", "tree_cosine")
ITERATIONS = 100
BUDGET = 100.0


@dataclass(frozen=True)
class Run:
    """One seed of one method on one problem."""

    problem: str
    hyperparameters: str
    method: str
    seed: int

    @property
    def key(self) -> str:
        return f"indirect_{self.problem}_{self.hyperparameters}_{self.method}_{self.seed}"


def simulate(run: Run) -> dict[str, Any]:
    """One run: per iteration the cost so far and three regrets.

    ``simple``: of the best point recommended so far, before or after the query; ``instant``: of the
    best average queried so far; ``current``: of the point that is recommended now.
    """
    torch.set_num_threads(1)
    for category in (NumericalWarning, BotorchWarning, OptimizationWarning):
        warnings.simplefilter("ignore", category)
    started = time.process_time()
    chooser: Chooser
    if run.problem in TREES:
        chooser = TreeChooser(run.problem.removeprefix("tree_"), run.method, run.seed)
    else:
        chooser = GridChooser(run.problem, run.method, run.seed)
    fitted = run.hyperparameters == "fitted"
    spent, best_point, best_average = 0.0, -torch.inf, -torch.inf
    trace: list[tuple[float, float, float, float]] = []
    while (spent < BUDGET - 1e-9) if run.problem in TREES else len(trace) < ITERATIONS:
        step = len(trace)
        if fitted and step >= chooser.num_initial and (step - chooser.num_initial) % 10 == 0:
            chooser.fit()
        cost, average = chooser.query(BUDGET - spent)
        if cost == 0.0:
            break
        spent += cost
        current = chooser.recommended()
        best_point, best_average = max(best_point, current), max(best_average, average)
        top = chooser.optimum
        trace.append((spent, top - best_point, top - best_average, top - current))
    return {"trace": trace, "cpu_s": time.process_time() - started}


def run_and_keep(run: Run) -> None:
    """Run one seed and keep it."""
    keep(run.key, simulate(run))


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    names = [*PUBLISHED, *TREES]
    parser.add_argument("--problems", nargs="+", choices=names, default=names)
    parser.add_argument(
        "--hyperparameters", nargs="+", choices=["fixed", "fitted"], default=["fixed", "fitted"]
    )
    parser.add_argument("--methods", nargs="+", choices=sorted({*METHODS, *TREE_METHODS}))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--tables", action="store_true", help="only summarise what was run")
    args = parser.parse_args()
    if not args.tables:
        runs = [
            Run(problem, hyperparameters, method, seed)
            for hyperparameters in args.hyperparameters
            for seed in range(args.seeds)
            for problem in args.problems
            for method in (TREE_METHODS if problem in TREES else METHODS)
            if args.methods is None or method in args.methods
        ]
        run_all(run_and_keep, runs, lambda run: run.key, args.processes, "indirect")
    tables([*PUBLISHED, *TREES], {*METHODS, *TREE_METHODS})


if __name__ == "__main__":
    main()
