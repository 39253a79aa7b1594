"""The published experiment on control sets with known costs: regret against cost spent.

Tay et al. 2023, *Bayesian Optimization with Cost-varying Variable Subsets*, section 5 and figure 2:
five uniformly random initial observations that are not charged, fixed hyperparameters, beta = 2,
budget 50 (plant 200). A rule that divides by the cost has 400 trials at most, and so has EI-PSQ
with cheap costs; what it has then stands for the rest of the budget. Regret of the best query
*played*, by its true expected value, and regret of the query that would be *recommended* (largest
posterior mean), which is what a user deploys.

The loop is Algorithm 1 as printed, and not the package's: rivals that ignore costs or control sets
run in it with the same searches, seeds and fixed models.

    python benchmarks/control_sets.py --problem hartmann --costs moderate --variance 0.02
    python benchmarks/control_sets.py --problem airfoil --algorithms ETC-Ada UCB-PSQ --seeds 5

Finished runs are kept in ``benchmarks/results/control_sets.jsonl`` and are not run again, so that a
run that was killed goes on where it stopped. Curves of all that was run go to
``benchmarks/results/control_sets.json`` and the figure to
``benchmarks/results/control_sets_<problem>_<costs>_<variance>.html``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch
from kept_runs import RESULTS, KeptRuns, keep, path_of, read
from problems import COSTS, DRAWN, NOISE_STD, PROBLEMS, Problem, fixed_gp
from torch import Tensor

from ax_costaware.acquisition import optimize_control_sets
from ax_costaware.laws import ProductNodes, sobol_nodes
from ax_costaware.methods import (
    ControlSetHistory,
    ControlSetRule,
    EpsilonSchedule,
    ExploreThenCommit,
    LargestValuePerCost,
)

REFERENCE = Path(__file__).resolve().parents[2] / "shared" / "reference"
BUDGETS = {"plant": 200.0}
RUNS = KeptRuns("control_sets")
LEVELS = (1, 2, 5, 8, 10, 12, 15, 20, 25, 30, 40, 50)
ALGORITHMS: dict[str, tuple[ControlSetRule, str]] = {
    "ETC-Ada": (ExploreThenCommit.adaptive(), "ucb"),
    "ETC-50": (ExploreThenCommit(50), "ucb"),
    "ETC-100": (ExploreThenCommit(100), "ucb"),
    "UCB-PSQ": (EpsilonSchedule.constant(0.0), "ucb"),
    "TS-PSQ": (EpsilonSchedule.constant(0.0), "ts"),
    "EI-PSQ": (EpsilonSchedule.constant(0.0), "ei"),
    "UCB-PSQ per cost": (LargestValuePerCost(), "ucb"),
    "TS-PSQ per cost": (LargestValuePerCost(), "ts"),
    "EI-PSQ per cost": (LargestValuePerCost(), "ei"),
}
MOST_TRIALS = 400
"""Trials of a rule that may play the cheapest control set to the end, 5000 times."""


@dataclass(frozen=True)
class Setting:
    """One panel of the published figure."""

    problem: str
    costs: str
    variance: float

    @property
    def budget(self) -> float:
        return BUDGETS.get(self.problem, 50.0)

    @property
    def key(self) -> str:
        return f"{self.problem}_{self.costs}_{self.variance:g}"

    @property
    def levels(self) -> list[float]:
        """What is spent where curves are compared."""
        return [level * self.budget / 50 for level in LEVELS]


_FEW = 128
"""Nodes by which the best query is looked for."""


class Truth:
    """The true expected value of a query, and the best one."""

    def __init__(self, problem: Problem, variance: float, num_nodes: int = 2048) -> None:
        self.problem = problem
        self.variance = variance
        self.nodes, self.weights = sobol_nodes(problem.marginals(variance), num_nodes)
        self._averages: dict[tuple[int, ...], Callable[[Tensor], Tensor]] = {}

    def value(self, controlled: Sequence[int], x: Tensor) -> float:
        """``E f`` with the controlled columns at ``x``."""
        columns = list(controlled)
        if self._controls_all(columns):
            return float(self.problem.function(x))
        if self.problem.average is not None:
            return float(self._average(tuple(columns))(x))
        points = self.nodes.clone()
        points[:, columns] = x[columns]
        return float(self.weights @ self.problem.function(points))

    def _average(self, columns: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
        """``E f`` of one control set, by the problem's own way."""
        if columns not in self._averages:
            assert self.problem.average is not None
            self._averages[columns] = self.problem.average(list(columns), self.nodes, self.weights)
        return self._averages[columns]

    def best(self) -> float:
        """The largest expected value of any control set, which one that no other contains has."""
        sets = self.problem.control_sets
        maximal = [s for s in sets if not any(set(s) < set(other) for other in sets)]
        return max(self.best_of(columns) for columns in maximal)

    def best_of(self, controlled: Sequence[int]) -> float:
        """The largest expected value of one control set."""
        if self.problem.optimum is not None and self._controls_all(controlled):
            return self.problem.optimum
        generator = torch.Generator().manual_seed(0)
        dim, steps = self.problem.dim, 30 * len(controlled)
        X = torch.rand(2**14 if len(controlled) == dim else 256, dim, generator=generator).double()
        for step in range(steps):
            X = X[self._values(controlled, X).topk(8).indices]
            width = 0.2 * 1e-4 ** (step / steps)
            moves = width * torch.randn(4, *X.shape, generator=generator).double()
            X = torch.cat([X, (X + moves).clamp(0.0, 1.0).flatten(0, 1)])
        return max(self.value(controlled, x) for x in X[:8])

    def _values(self, controlled: Sequence[int], X: Tensor) -> Tensor:
        """``E f`` at ``n`` points, by fewer nodes."""
        if self._controls_all(controlled):
            return self.problem.function(X)
        columns = list(controlled)
        points = self.nodes[:_FEW].expand(len(X), -1, -1).clone()
        points[..., columns] = X[:, columns].unsqueeze(-2)
        return self.problem.function(points) @ (self.weights[:_FEW] / self.weights[:_FEW].sum())

    def _controls_all(self, columns: Sequence[int]) -> bool:
        """True if every input that matters is controlled."""
        return (self.problem.relevant or frozenset(range(self.problem.dim))) <= set(columns)


@lru_cache(maxsize=1)
def problem_of(name: str, seed: int) -> Problem:
    """The objective; of GP samples each seed has its own, as in the paper."""
    return DRAWN[name](seed) if name in DRAWN else PROBLEMS[name]()


def run(task: tuple[Setting, str, int]) -> dict[str, Any]:
    """One run until the chosen control set costs more than what is left (Algorithm 1, line 7)."""
    setting, algorithm, seed = task
    torch.set_num_threads(1)
    started = time.process_time()
    problem = problem_of(setting.problem, seed)
    truth = Truth(problem, setting.variance)
    best = cached_best(truth, seed)
    rule, acquisition = ALGORITHMS[algorithm]
    marginals = problem.marginals(setting.variance)
    product = ProductNodes.from_marginals(marginals)
    nodes, weights = sobol_nodes(marginals, 64)
    costs = COSTS[setting.costs]
    bounds = torch.stack([torch.zeros(problem.dim), torch.ones(problem.dim)]).double()
    generator = torch.Generator().manual_seed(10_000 + seed)

    def observe(x: Tensor) -> Tensor:
        noise = torch.randn((), dtype=torch.double, generator=generator)
        return problem.function(x) + NOISE_STD * noise

    X = torch.rand(5, problem.dim, dtype=torch.double, generator=generator)
    y = torch.stack([observe(x) for x in X])
    plays = [0] * len(costs)
    spent, regret = 0.0, np.inf
    trace: list[tuple[float, int, float]] = []
    recommended: list[tuple[float, float]] = []
    next_recommendation = 0.0
    cheap = algorithm == "EI-PSQ" and setting.costs == "cheap"
    most = MOST_TRIALS if cheap or isinstance(rule, LargestValuePerCost) else 100_000
    for trial in range(most + 1):
        model = fixed_gp(X, y, problem.lengthscale)
        if spent >= next_recommendation or trial == most:
            recommended.append((spent, best - _recommend(model, bounds, problem, truth, product)))
            next_recommendation += setting.budget / 50
        if trial == most:
            break
        found: dict[int, Tensor] = {}

        def evaluate(
            indices: Sequence[int],
            model: Any = model,
            found: dict[int, Tensor] = found,
            trial: int = trial,
        ) -> list[float]:
            optima = optimize_control_sets(
                model, bounds, [problem.control_sets[i] for i in indices], nodes, weights, 2.0,
                acquisition=acquisition, product=product, seed=1_000_000 * seed + trial,
            )  # fmt: skip
            found.update(zip(indices, optima.point, strict=True))
            values: list[float] = optima.value.tolist()
            return values

        history = ControlSetHistory(
            parameters=tuple(frozenset(map(str, s)) for s in problem.control_sets),
            costs=costs,
            plays=tuple(plays),
            affordable=(True,) * len(costs),
            round=trial + 1,
        )
        index = rule.decide(history, evaluate).index
        if spent + costs[index] > setting.budget + 1e-9:
            break
        controlled = list(problem.control_sets[index])
        uniform = torch.rand(problem.dim, dtype=torch.double, generator=generator)
        x = torch.stack([m.icdf(u) for m, u in zip(marginals, uniform, strict=True)])
        x[controlled] = found[index][controlled]
        regret = min(regret, best - truth.value(controlled, found[index]))
        X, y = torch.cat([X, x.unsqueeze(0)]), torch.cat([y, observe(x).reshape(1)])
        spent += costs[index]
        plays[index] += 1
        trace.append((spent, index, regret))
    return {
        "played": at_levels(trace, setting.levels),
        "recommended": at_levels(recommended, setting.levels),
        "decisions": len(trace) + 1,
        "cpu_s": time.process_time() - started,
    }


def _recommend(
    model: Any, bounds: Tensor, problem: Problem, truth: Truth, product: ProductNodes
) -> float:
    optima = optimize_control_sets(
        model, bounds, problem.control_sets, truth.nodes[:64], torch.full((64,), 1 / 64).double(),
        acquisition="mean", product=product,
    )  # fmt: skip
    index = int(optima.value.argmax())
    return truth.value(problem.control_sets[index], optima.point[index])


def cached_best(truth: Truth, seed: int = 0) -> float:
    """The best expected value; searched for once per objective and kept."""
    name = truth.problem.name
    key = f"best_{name}_{truth.variance:g}_{seed if name in DRAWN else 0}"
    if not path_of(key).exists():
        keep(key, truth.best())
    best: float = read(key)
    return best


def identity(task: tuple[Setting, str, int]) -> dict[str, Any]:
    """What is kept of a task."""
    setting, algorithm, seed = task
    return {"setting": setting.key, "method": algorithm, "seed": seed}


def at_levels(steps: Sequence[Sequence[float]], levels: Sequence[float]) -> list[float]:
    """The last value at or below each cost level; NaN before the first."""
    costs = np.array([step[0] for step in steps])
    values = np.array([step[-1] for step in steps])
    reached = np.searchsorted(costs, np.array(levels) + 1e-9, side="right") - 1
    return [float(values[i]) if i >= 0 else float("nan") for i in reached]


def summarise(setting: Setting, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard error over seeds at the cost levels."""
    seeds = len(runs)
    summary: dict[str, Any] = {"seeds": seeds, "cost_levels": setting.levels}
    for kind in ("played", "recommended"):
        table = np.array([result[kind] for result in runs])
        error = table.std(axis=0, ddof=1) / np.sqrt(seeds) if seeds > 1 else 0 * table[0]
        summary[kind] = {"mean": table.mean(axis=0).tolist(), "standard_error": error.tolist()}
    decisions = sum(result["decisions"] for result in runs)
    summary["cpu_s_per_decision"] = sum(result["cpu_s"] for result in runs) / decisions
    return summary


def compare(setting: Setting, curves: dict[str, Any]) -> None:
    """Beside the authors' measured curve, where there is one."""
    path = REFERENCE / "control_sets_hartmann.json"
    if setting.key != "hartmann_moderate_0.02" or not path.exists():
        return
    for name, reference in json.loads(path.read_text())["curves"].items():
        if name not in curves:
            continue
        print(f"{name}: cost, ours, the authors' mean and standard error")
        rows = zip(
            reference["cost_levels"],
            curves[name]["played"]["mean"],
            reference["mean"],
            reference["standard_error"],
            strict=True,
        )
        for level, ours, mean, error in rows:
            fine = ours <= max(mean + error, 0.02)
            print(f"  {level:5g} {ours:8.4f} {mean:8.4f} {error:7.4f} {'' if fine else 'WORSE'}")


def draw(setting: Setting, curves: dict[str, Any]) -> Path:
    """The paper's figure: simple regret against cost, logarithmic."""
    figure = go.Figure()
    colors = ["#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#BBBBBB"]
    for color, (name, curve) in zip(colors * 2, curves.items(), strict=False):
        for kind, dash in (("played", "solid"), ("recommended", "dot")):
            figure.add_scatter(
                x=curve["cost_levels"], y=curve[kind]["mean"], mode="lines+markers",
                name=f"{name}, {kind}", line={"color": color, "dash": dash},
                error_y={"array": curve[kind]["standard_error"], "thickness": 1},
            )  # fmt: skip
    figure.update_layout(
        title=f"{setting.problem}, {setting.costs} costs, variance {setting.variance:g}",
        xaxis_title="cost spent",
        yaxis_title="regret (mean and standard error over seeds)",
        yaxis_type="log",
        template="plotly_white",
    )
    path = RESULTS / f"control_sets_{setting.key}.html"
    figure.write_html(path, include_plotlyjs=True)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--problem", choices=list({**PROBLEMS, **DRAWN}), default="hartmann")
    parser.add_argument("--costs", choices=list(COSTS), default="moderate")
    parser.add_argument("--variance", type=float, default=0.02)
    parser.add_argument("--algorithms", nargs="+", choices=list(ALGORITHMS), metavar="NAME",
                        default=["ETC-Ada", "ETC-50", "UCB-PSQ", "TS-PSQ"])  # fmt: skip
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    setting = Setting(args.problem, args.costs, args.variance)
    tasks = [(setting, name, seed) for name in args.algorithms for seed in range(args.seeds)]
    RUNS.run_missing(run, tasks, identity, args.processes, setting.key)
    by_name = {name: RUNS.rows(setting=setting.key, method=name) for name in ALGORITHMS}
    curves = {name: summarise(setting, runs) for name, runs in by_name.items() if runs}
    path = RESULTS / "control_sets.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    results[setting.key] = {**results.get(setting.key, {}), **curves}
    path.write_text(json.dumps(results, indent=1) + "\n")
    for name, curve in curves.items():
        print(
            f"{name:18s} final regret played {curve['played']['mean'][-1]:.4f}, recommended "
            f"{curve['recommended']['mean'][-1]:.4f}, "
            f"{curve['cpu_s_per_decision']:.2f} CPU s a decision"
        )
    compare(setting, curves)
    print(f"wrote {path} and {draw(setting, curves)}")


if __name__ == "__main__":
    main()
