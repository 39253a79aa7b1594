"""The published experiment on control sets whose costs are random and unknown.

Hoang et al. 2025, *Bayesian Optimization for Unknown Cost-Varying Variable Subsets with No-Regret
Costs*, section "Experiments": budget 100, of which exploration may take 60, tolerance 0.1, halved
after every d evaluations, beta = 2, costs with noise N(0, 0.02) where the mean is at least 0.1
(read as the standard deviation; a cost is at least a fifth of its mean). ETC-50 plays 50 times each
group of control sets of equal size; UCB-PSQ and TS-PSQ take the largest value whatever it costs.
"UnknownCosts, published" is the paper's rule, ``UnknownCosts.published``, with T = 500, which the
paper does not print: its square root of the logarithm differs by 6 % from those of 250 and 1,000.
``UnknownCosts`` is our variant. Beside them: the same method told the mean costs (what not knowing
them costs), ETC-Ada with known costs, and the rule that is the default today.

The published rule runs through the package's own loop, the others in one of this file, with the
same first observations, seeds, fixed models and numbers of restarts.

    python benchmarks/unknown_costs.py --problems hartmann6 --costs moderate --variances 0.02
    python benchmarks/unknown_costs.py --seeds 10

Five uniformly random initial observations are not charged. Hyperparameters are fixed: on the data
surfaces those of the first paper (length-scale 0.2), on Hartmann-6 and Ackley-6 a length-scale per
input, fitted once to 600 quasi-random points; the paper prints neither. Searches are shorter than
the package's, with 16 nodes, so that the experiment takes hours and not days. A run ends early
after ``MAX_TRIALS`` trials, and the default did after 400 on airfoil noise and 1,000 on the plant.
Finished runs are kept in ``benchmarks/results/unknown_costs.jsonl``; curves go to
``benchmarks/results/unknown_costs.json`` and figures to
``benchmarks/results/unknown_costs_<setting>.html``.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import torch
from control_sets import Truth, at_levels
from gpytorch.settings import skip_posterior_variances
from kept_runs import RESULTS, KeptRuns, keep, path_of, read
from problems import COSTS, NOISE_STD, Problem, airfoil, fixed_gp, plant
from torch import Tensor
from unknown_costs_problems import ackley6, hartmann6, lengthscales, worst_of
from unknown_costs_tables import PANELS, draw, table

from ax_costaware import ControlSet
from ax_costaware.acquisition import optimize, optimize_control_sets
from ax_costaware.core import Best, FixedHyperparameters, PastTrial, Simulation, Stop
from ax_costaware.core.simulation import Outcome
from ax_costaware.laws import ProductNodes, sobol_nodes
from ax_costaware.methods import (
    ControlSetHistory,
    ControlSetRule,
    ControlSets,
    CostEstimate,
    EpsilonSchedule,
    ExploreThenCommit,
    LargestValuePerCost,
    PastChoice,
    UnknownCosts,
)
from ax_costaware.models import FunctionalPosterior
from ax_costaware.space import Choice, Range, Space

Traces: TypeAlias = tuple[list[tuple[float, int, float]], list[tuple[float, float]], bool]
"""Per trial what was spent, the control set and its regret; regrets of recommendations; and whether
the run ended early."""

BUDGET = 100.0
MAX_TRIALS = 2000
RUNS = KeptRuns("unknown_costs")
TOLERANCE = 0.1
COST_NOISE_STD = 0.02
LEVELS = (1, 2, 5, 10, 15, 20, 30, 40, 50, 60, 65, 70, 75, 80, 85, 90, 95, 100)
NUM_NODES = 16
NUM_RESTARTS, RAW_SAMPLES = 4, 256
SEARCH_ITERATIONS, POLISH_ITERATIONS = 10, 25
PROBLEMS = {"hartmann6": hartmann6, "ackley6": ackley6, "plant": plant, "airfoil": airfoil}


@dataclass(frozen=True)
class Method:
    """A rule, the acquisition function it goes with, and whether it is told the mean costs."""

    rule: ControlSetRule
    acquisition: str = "ucb"
    knows_costs: bool = False
    in_package_loop: bool = False


HORIZON = 500
ALGORITHMS = {
    "UnknownCosts": Method(UnknownCosts()),
    "UnknownCosts, published": Method(UnknownCosts.published(HORIZON), in_package_loop=True),
    "known-cost oracle": Method(UnknownCosts(), knows_costs=True),
    "ETC-Ada, known costs": Method(ExploreThenCommit.adaptive(), knows_costs=True),
    "ETC-50 by size": Method(ExploreThenCommit(50, by="size")),
    "UCB-PSQ": Method(EpsilonSchedule.constant(0.0)),
    "TS-PSQ": Method(EpsilonSchedule.constant(0.0), acquisition="ts"),
    "default": Method(LargestValuePerCost("worst")),
}


@dataclass(frozen=True)
class Setting:
    """One panel of the published figure."""

    problem: str
    costs: str
    variance: float

    @property
    def key(self) -> str:
        return f"{self.problem}_{self.costs}_{self.variance:g}"


@lru_cache(maxsize=1)
def problem_of(name: str) -> Problem:
    return PROBLEMS[name]()


class Values:
    """What a rule asks of the model in one decision."""

    def __init__(
        self, run: Run, model: Any, history: ControlSetHistory, acquisition: str, seed: int
    ) -> None:
        self.run, self.model, self.history = run, model, history
        self.acquisition, self.seed = acquisition, seed
        self.posterior = FunctionalPosterior.of(model)
        self.found: dict[int, Tensor] = {}

    def __call__(self, indices: Sequence[int]) -> list[float]:
        optima = self._search(indices, self.acquisition)
        self.found.update(zip(indices, optima.point, strict=True))
        values: list[float] = optima.value.tolist()
        return values

    def lower(self, indices: Sequence[int], pointwise: bool = False) -> list[float]:
        name = "lcb" if pointwise else "lower"
        values: list[float] = self._search(indices, name, effort=2).value.tolist()
        return values

    def upper(self, indices: Sequence[int], pointwise: bool = False) -> list[float]:
        if pointwise:
            return self(indices)
        values: list[float] = self._search(indices, "upper", effort=2).value.tolist()
        return values

    def worst(self) -> float:
        with torch.no_grad(), skip_posterior_variances():
            points = torch.cat([self.run.sample, self.model.train_inputs[0]])
            return float(self.model.posterior(points).mean.min())

    def costs(self, indices: Sequence[int]) -> list[CostEstimate]:
        known = self.history.known
        assert known is not None
        return [CostEstimate(self.history.costs[i], 0.0 if known[i] else None) for i in indices]

    def _search(self, indices: Sequence[int], acquisition: str, effort: int = 1) -> Any:
        """The best values; lower bounds, highest near the data, are found with less effort."""
        run = self.run
        return optimize_control_sets(
            self.model, run.bounds, [run.problem.control_sets[i] for i in indices], run.nodes,
            run.weights, 2.0, acquisition=acquisition, product=run.product, seed=self.seed,
            num_restarts=NUM_RESTARTS // effort, raw_samples=RAW_SAMPLES // effort,
            posterior=self.posterior,
        )  # fmt: skip


class Run:
    """One run of one algorithm."""

    def __init__(self, setting: Setting, algorithm: str, seed: int) -> None:
        self.setting, self.method, self.seed = setting, ALGORITHMS[algorithm], seed
        problem = problem_of(setting.problem)
        self.problem = problem
        self.truth = Truth(problem, setting.variance, num_nodes=512)
        self.means = COSTS[setting.costs]
        self.marginals = problem.marginals(setting.variance)
        self.product = ProductNodes.from_marginals(self.marginals)
        self.nodes, self.weights = sobol_nodes(self.marginals, NUM_NODES)
        self.bounds = torch.stack([torch.zeros(problem.dim), torch.ones(problem.dim)]).double()
        self.sample = torch.quasirandom.SobolEngine(problem.dim, True, seed=0).draw(
            256, dtype=torch.double
        )
        self.lengthscales, self.outputscale = lengthscales(setting.problem, problem)
        # Noise of outcomes, realised inputs and costs does not depend on the algorithm.
        self.generator = torch.Generator().manual_seed(10_000 + seed)
        self.reported: list[list[float]] = [[] for _ in self.means]
        self.past: list[PastChoice] = []
        self.spent = 0.0

    def run(self) -> dict[str, Any]:
        """Until the chosen control set is expected to cost more than what is left."""
        torch.set_num_threads(1)
        optimize.SEARCH_ITERATIONS = SEARCH_ITERATIONS
        optimize.ITERATIONS = POLISH_ITERATIONS
        started = time.process_time()
        best = cached_best(self.setting, self.problem, self.truth)
        top = max(best)
        X = torch.rand(5, self.problem.dim, dtype=torch.double, generator=self.generator)
        y = torch.stack([self._observe(x) for x in X])
        loop = self._package_loop if self.method.in_package_loop else self._loop
        trace, recommended, ended_early = loop(X, y, top)
        return {
            **curves_of(self.setting, best, trace),
            "recommended": at_levels(recommended, LEVELS),
            "trials": len(trace),
            "ended_early": ended_early,
            "cpu_s": time.process_time() - started,
        }

    def _loop(self, X: Tensor, y: Tensor, top: float) -> Traces:
        """Run the rule in a loop of this file."""
        trace: list[tuple[float, int, float]] = []
        recommended: list[tuple[float, float]] = []
        next_recommendation = 0.0
        ended_early = True
        for trial in range(MAX_TRIALS):
            model = self._model(X, y)
            if self.spent >= next_recommendation:
                recommended.append((self.spent, top - self._recommended(model)))
                next_recommendation = self.spent + BUDGET / 20
            history = self._history()
            if not any(history.affordable):
                ended_early = False
                break
            values = Values(
                self, model, history, self.method.acquisition, 10_000 * self.seed + trial
            )
            decision = self.method.rule.decide(history, values)
            index = decision.index
            if index not in values.found:
                values([index])
            controlled = list(self.problem.control_sets[index])
            point = values.found[index]
            cost = self._cost(index)
            self.past.append(PastChoice(index, cost, decision.state, decision.values))
            trace.append((self.spent, index, top - self.truth.value(controlled, point)))
            x = self._realise(controlled, point)
            X, y = torch.cat([X, x.unsqueeze(0)]), torch.cat([y, self._observe(x).reshape(1)])
        recommended.append((self.spent, top - self._recommended(self._model(X, y))))
        return trace, recommended, ended_early

    def _package_loop(self, X: Tensor, y: Tensor, top: float) -> Traces:
        """Run the rule in the loop of a strategy, from past data that are not charged."""
        sets, names = self.problem.control_sets, [f"x{i}" for i in range(self.problem.dim)]
        rule = UnknownCosts.published(HORIZON, worst_value=worst_of(self.problem))
        method = ControlSets(
            tuple(ControlSet([names[i] for i in columns], cost=None) for columns in sets),
            dict(zip(names, self.marginals, strict=True)),
            rule=rule,
            budget=BUDGET,
            initial_trials=0,
            seed=self.seed,
            num_nodes=NUM_NODES,
            num_restarts=NUM_RESTARTS,
            raw_samples=RAW_SAMPLES,
        )
        # Past data need a control set and a cost: those of the last one, of which five more costs
        # are known than in the paper.
        past = [
            PastTrial(
                i,
                {"control_set": method.names[-1], **dict(zip(names, x, strict=True))},
                outcome=value,
                is_observed=True,
                reported_cost=self.means[-1],
                is_charged=False,
            )
            for i, (x, value) in enumerate(zip(X.tolist(), y.tolist(), strict=True))
        ]
        space = Space.of(
            [Choice("control_set", tuple(method.names)), *[Range(name, 0, 1) for name in names]],
            hidden=method.traits.hidden,
        )
        hyperparameters = FixedHyperparameters(
            tuple(self.lengthscales), self.outputscale, NOISE_STD**2
        )
        simulation = Simulation(method, space, hyperparameters=hyperparameters, trials=past)
        trace: list[tuple[float, int, float]] = []
        recommended: list[tuple[float, float]] = []
        for _ in range(MAX_TRIALS):
            if self.spent >= len(recommended) * BUDGET / 20:
                recommended.append((self.spent, top - self._value(simulation.recommend())))
            decision = simulation.ask()
            if isinstance(decision, Stop):
                break
            index = method.index_of(decision.parameters)
            controlled = list(sets[index])
            point = torch.tensor([decision.parameters[name] for name in names]).double()
            cost = self._cost(index)
            trace.append((self.spent, index, top - self.truth.value(controlled, point)))
            x = self._realise(controlled, point)
            realized = {n: float(x[i]) for i, n in enumerate(names) if i not in controlled}
            simulation.tell(decision, Outcome(float(self._observe(x)), cost, realized))
        recommended.append((self.spent, top - self._value(simulation.recommend())))
        return trace, recommended, len(trace) == MAX_TRIALS

    def _value(self, best: Best) -> float:
        """The expected value of a recommended query."""
        columns = [int(name[1:]) for name in best.parameters]
        x = torch.zeros(self.problem.dim, dtype=torch.double)
        x[columns] = x.new_tensor([float(value or 0.0) for value in best.parameters.values()])
        return self.truth.value(columns, x)

    def _model(self, X: Tensor, y: Tensor) -> Any:
        model = fixed_gp(X, y, self.lengthscales, self.outputscale)
        return model

    def _observe(self, x: Tensor) -> Tensor:
        noise = torch.randn((), dtype=torch.double, generator=self.generator)
        value: Tensor = self.problem.function(x) + NOISE_STD * noise
        return value

    def _realise(self, controlled: list[int], point: Tensor) -> Tensor:
        uniform = torch.rand(self.problem.dim, dtype=torch.double, generator=self.generator)
        x = torch.stack([m.icdf(u) for m, u in zip(self.marginals, uniform, strict=True)])
        x[controlled] = point[controlled]
        return x

    def _cost(self, index: int) -> float:
        """What a trial of a control set costs; it is paid."""
        mean = self.means[index]
        noise = float(torch.randn((), dtype=torch.double, generator=self.generator))
        cost = max(mean + COST_NOISE_STD * noise, mean / 5) if mean >= 0.1 else mean
        self.reported[index].append(cost)
        self.spent += cost
        return cost

    def _history(self) -> ControlSetHistory:
        sets = self.problem.control_sets
        known = self.method.knows_costs
        averages = [math.fsum(costs) / len(costs) if costs else None for costs in self.reported]
        seen = [average for average in averages if average is not None]
        guess = math.fsum(seen) / len(seen) if seen else 0.0
        learned = [guess if average is None else average for average in averages]
        expected = self.means if known else learned
        left = BUDGET - self.spent
        return ControlSetHistory(
            parameters=tuple(frozenset(map(str, s)) for s in sets),
            costs=tuple(cost or 1.0 for cost in expected),
            plays=tuple(sum(past.index == i for past in self.past) for i in range(len(sets))),
            affordable=tuple(cost <= left + 1e-9 for cost in expected),
            round=len(self.past) + 1,
            known=(known,) * len(sets),
            reported=tuple(map(tuple, self.reported)),
            past=tuple(self.past),
            budget=BUDGET,
            remaining=left,
        )

    def _recommended(self, model: Any) -> float:
        sets = self.problem.control_sets
        tops = [i for i, s in enumerate(sets) if not any(set(s) < set(other) for other in sets)]
        optima = optimize_control_sets(
            model, self.bounds, [sets[i] for i in tops], self.nodes, self.weights,
            acquisition="mean", product=self.product,
        )  # fmt: skip
        best = int(optima.value.argmax())
        return self.truth.value(sets[tops[best]], optima.point[best])


def cached_best(setting: Setting, problem: Problem, truth: Truth) -> list[float]:
    """The best expected value of every control set; searched for once and kept."""
    key = f"best_of_sets_{setting.problem}_{setting.variance:g}"
    if not path_of(key).exists():
        keep(key, [truth.best_of(controlled) for controlled in problem.control_sets])
    best: list[float] = read(key)
    return best


def run(task: tuple[Setting, str, int]) -> dict[str, Any]:
    return Run(*task).run()


def identity(task: tuple[Setting, str, int]) -> dict[str, Any]:
    """What is kept of a task."""
    setting, algorithm, seed = task
    return {"setting": setting.key, "method": algorithm, "seed": seed}


def curves_of(
    setting: Setting, best: Sequence[float], trace: Sequence[tuple[float, int, float]]
) -> dict[str, list[float]]:
    """Regrets and numbers of evaluations of a run, at the levels of the cost.

    Args:
        setting: The setting.
        best: The best expected value of every control set.
        trace: Of every trial what was spent, the control set, and the regret of the query.
    """
    means, tops = np.array(COSTS[setting.costs]), np.array(best)
    height = tops.max() - worst_of(problem_of(setting.problem))
    target = means[tops.max() - tops <= TOLERANCE * height].min()
    spent, played, regret = (np.array(column) for column in zip(*trace, strict=True))
    count = np.arange(1.0, len(regret) + 1)
    curves = {
        "simple": np.minimum.accumulate(regret),
        "quality": np.cumsum(regret - TOLERANCE * height) / count,
        "cost": np.cumsum(np.maximum(means[played.astype(int)] - target, 0.0)),
        "evaluations": count,
    }
    return {
        kind: at_levels(list(zip(spent, values, strict=True)), LEVELS)
        for kind, values in curves.items()
    }


def summarise(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means and standard errors over seeds: regrets and numbers of evaluations against cost."""
    summary: dict[str, Any] = {"seeds": len(runs), "cost_levels": list(LEVELS)}
    for kind in PANELS:
        matrix = np.array([result[kind] for result in runs])
        spread = matrix.std(axis=0, ddof=1) if len(runs) > 1 else 0 * matrix[0]
        summary[kind] = {
            "mean": matrix.mean(axis=0).tolist(),
            "standard_error": (spread / math.sqrt(len(runs))).tolist(),
        }
    summary["ended_early"] = sum(result["ended_early"] for result in runs)
    decisions = sum(result["trials"] for result in runs)
    summary["cpu_s_per_decision"] = sum(result["cpu_s"] for result in runs) / decisions
    return summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--costs", nargs="+", default=["moderate", "cheap"])
    parser.add_argument("--variances", nargs="+", type=float, default=[0.02, 0.04])
    parser.add_argument("--algorithms", nargs="+", choices=list(ALGORITHMS), metavar="NAME",
                        default=list(ALGORITHMS))  # fmt: skip
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only-read", action="store_true", help="summarise the finished runs")
    args = parser.parse_args()
    settings = [
        Setting(problem, costs, variance)
        for variance in args.variances
        for costs in args.costs
        for problem in args.problems
    ]
    tasks = [
        (setting, name, seed)
        for seed in range(args.seeds)
        for setting in settings
        for name in args.algorithms
    ]
    if not args.only_read:
        RUNS.run_missing(run, tasks, identity, args.processes, "unknown costs")
    path = RESULTS / "unknown_costs.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for setting in settings:
        curves = dict(results.get(setting.key, {}))
        for name in args.algorithms:
            runs = RUNS.rows(setting=setting.key, method=name)
            if runs:
                curves[name] = summarise(runs)
        if curves:
            results[setting.key] = curves
            print(table(setting.key, curves))
            print(f"drew {draw(RESULTS, setting.key, curves)}")
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
