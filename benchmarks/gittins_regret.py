"""The published experiments on the Gittins index: best value found against cost spent.

Xie et al. 2024, "Cost-aware Bayesian Optimization via the Pandora's Box Gittins Index", section 4:
Ackley, Levy and Rosenbrock (d = 4, 8, 16) and samples of a Gaussian process (d = 8, 16), costs
between 1 and 21, 2 (d + 1) Sobol points that are not charged, 200 d raw samples and 10 d restarts,
budget 25 d, as in the authors' script. lambda is in units of standardised outcomes per unit of
cost. Methods:

- ``PBGI``: lambda = 1e-4; ``PBGI-D``: lambda from 0.1, halved where the stopping rule fires;
- ``PBGI-B``: lambda solved once from the budget, ``PBGI-R``: solved again before every trial from
  what is left (``lambda_for_budget`` on 1024 Sobol points);
- ``LogEIPC`` and, with the cost's exponent falling to zero, ``LogEICC``; ``LogEI`` ignores costs;
- ``PBGI, strategy`` and ``PBGI-D, strategy``: the same by ``gittins_strategy``, given the initial
  points as past data;
- ``default``: ``cost_aware_strategy`` as it is today, given them likewise;
- ``EI over the best mean``: the same with ``acquisition="log_ei_per_cost"``;
- ``random``: the Sobol sequence goes on.

Those by a strategy, ``default`` and ``EI over the best mean`` run the package's loop. The others
share a loop of their own, that of the authors' script.

    python benchmarks/gittins_regret.py --problem ackley --dim 8
    python benchmarks/gittins_regret.py --problem gpsample --dim 16 --methods PBGI-D --seeds 5
    python benchmarks/gittins_regret.py --problem ackley --dim 8 --costs unknown
    python benchmarks/gittins_regret.py --tables      # all that was run

With ``--costs unknown`` all but random and LogEI learn the cost by ``LogNormalCostModel``; with
``--costs uniform`` every trial costs 1, and functions have 10 d trials; with ``--costs printed``
costs are those of equation 83, between 1 and 20 d + 1. Trials are run while what
was spent is below the budget; an outcome counts if it is paid within it. Finished runs are kept in
``benchmarks/results/gittins_regret.jsonl``; medians and quartiles go to
``benchmarks/results/gittins_regret.json``, figures to ``benchmarks/results/gittins_*.html``.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch
from botorch import fit_gpytorch_mll
from botorch.exceptions.warnings import BotorchWarning, OptimizationWarning
from botorch.models import SingleTaskGP
from botorch.optim.optimize import optimize_acqf
from botorch.utils.sampling import draw_sobol_samples
from gittins_problems import (
    GP_LENGTHSCALE,
    GP_NOISE,
    FixedMaternGP,
    Problem,
    cost_of,
    model_of,
    problem,
)
from gpytorch.utils.warnings import NumericalWarning
from kept_runs import RESULTS, KeptRuns
from panel_trials import VARIANTS, made
from torch import Tensor

from ax_costaware.acquisition import (
    LogExpectedImprovementPerCost,
    PandoraBoxGittinsIndex,
    incumbent,
    lambda_for_budget,
)
from ax_costaware.core import Simulation, Stop
from ax_costaware.core.history import PastTrial
from ax_costaware.core.model import FixedHyperparameters, ModelOptions
from ax_costaware.core.simulation import Outcome
from ax_costaware.costs import AffineCost, CostFunction, log_cost_function
from ax_costaware.methods import Gittins, GittinsDecay, Method, StandardizedPrice
from ax_costaware.models import (
    DenseMarginalLogLikelihood,
    FunctionalPosterior,
    LogNormalCostModel,
)
from ax_costaware.space import Range, Space

METHODS = (
    *("PBGI", "PBGI-D", "PBGI-B", "PBGI-R", "LogEIPC", "LogEICC", "LogEI"),
    *("default", "EI over the best mean", "today's priors", "random"),
)
PUBLISHED: dict[str, dict[str, Any]] = {
    "PBGI, strategy": {"lmbda": StandardizedPrice(1e-4), "stop": False},
    "PBGI-D, strategy": {"decay": GittinsDecay(per_mean_cost=False)},
}
"""Settings of ``gittins_strategy`` by method; compared in pairs, see ``pairs``."""
FIXED_LAMBDA = 1e-4
NUM_BOXES = 1024
RUNS = KeptRuns("gittins_regret")
LEVELS = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Parts of the budget at which curves are compared."""


COSTS = ("known", "unknown", "uniform", "printed")


def setting_of(problem: str, dim: int, costs: str) -> str:
    """The key of a setting."""
    return f"{problem}{dim}{'' if costs == 'known' else f'_{costs}'}"


@dataclass(frozen=True)
class Run:
    """One seed of one method on one problem."""

    problem: str
    dim: int
    costs: str
    method: str
    seed: int

    @property
    def setting(self) -> str:
        return setting_of(self.problem, self.dim, self.costs)

    def identity(self) -> dict[str, Any]:
        """What is kept of a run beside its result."""
        return {"setting": self.setting, "method": self.method, "seed": self.seed}


class Price:
    """The price of cost in force: lambda in raw units, and how it is found."""

    def __init__(self, method: str, problem: Problem) -> None:
        self.method = method
        self.problem = problem
        self.decay = GittinsDecay(initial=0.1, factor=2.0)
        self.lmbda = self.decay.initial if method == "PBGI-D" else FIXED_LAMBDA
        self.solved: float | None = None

    def __call__(
        self, model: SingleTaskGP, cost: CostFunction, scale: float, best: float, left: float
    ) -> float:
        """Lambda in units of the outcome per unit of cost; ``scale`` is the outcomes' deviation."""
        if self.method in ("PBGI", "PBGI-D"):
            return self.lmbda * scale
        solved = self.solved
        if solved is None or self.method == "PBGI-R":
            bounds = unit_cube(self.problem.dim)
            boxes = draw_sobol_samples(bounds, n=NUM_BOXES, q=1, seed=0).squeeze(1)
            with torch.no_grad():
                mean, variance = FunctionalPosterior.of(model)(boxes)
                costs = log_cost_function(cost)(boxes).exp()
            solved = lambda_for_budget(mean, variance.sqrt(), costs, left, best_f=best)
        self.solved = solved
        return solved

    def learn(self, index: float, best: float) -> None:
        """Decay, where the stopping rule fires."""
        if self.method == "PBGI-D":
            self.lmbda = self.decay.after(self.lmbda, index=index, incumbent=best)


def unit_cube(dim: int) -> Tensor:
    return torch.stack([torch.zeros(dim), torch.ones(dim)]).double()


def simulate(run: Run) -> dict[str, Any]:
    """One run: cost spent, best value found and lambda after every trial."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", NumericalWarning)
    warnings.simplefilter("ignore", BotorchWarning)
    warnings.simplefilter("ignore", OptimizationWarning)
    started = time.process_time()
    task = problem(run.problem, run.dim, run.seed, run.costs)
    cost = cost_of(run.dim, run.costs)
    bounds = unit_cube(run.dim)
    num_initial = 2 * (run.dim + 1)
    sequence = torch.quasirandom.SobolEngine(run.dim, scramble=True, seed=run.seed)
    X = sequence.draw(num_initial, dtype=torch.double)
    y = task.function(X)
    price = Price(run.method, task)
    is_shipped = run.method in ("default", *VARIANTS, *PUBLISHED)
    shipped = Shipped(run, task, cost, X, y) if is_shipped else None
    spent, best = 0.0, float(y.max())
    trace = [(0.0, best, math.nan)]
    while spent < task.budget:
        torch.manual_seed(run.seed * 10_000 + len(y))
        lmbda = math.nan
        if run.method == "random":
            x = sequence.draw(1, dtype=torch.double)[0]
        elif shipped is not None:
            chosen = shipped.ask()
            if chosen is None:
                break
            x = chosen
        else:
            x, lmbda = decide(run, task, cost, price, X, y, bounds, task.budget - spent)
        value = task.function(x.unsqueeze(0))
        X, y = torch.cat([X, x.unsqueeze(0)]), torch.cat([y, value])
        spent += float(cost(x))
        if shipped is not None:
            shipped.tell(float(value), float(cost(x)))
        best = max(best, float(value))
        trace.append((spent, best, lmbda))
    return {
        "best": at_levels(trace, task.budget),
        "trials": len(trace) - 1,
        "cpu_s": time.process_time() - started,
    }


class Shipped:
    """What ``cost_aware_strategy`` or ``gittins_strategy`` does, in a loop without Ax."""

    def __init__(self, run: Run, task: Problem, cost: AffineCost, X: Tensor, y: Tensor) -> None:
        self.names = [f"x{i}" for i in range(run.dim)]
        named = AffineCost(
            dict(zip(self.names, (weight for _, weight in cost.weights), strict=True)), cost.fixed
        )
        learned = run.costs == "unknown"
        paid = "cost" if learned else named
        model: ModelOptions | FixedHyperparameters | None = VARIANTS.get(run.method)
        if run.method in PUBLISHED:
            searches: dict[str, Any] = {"num_restarts": 10 * run.dim, "raw_samples": 200 * run.dim}
            method: Method = Gittins(paid, seed=run.seed, **searches, **PUBLISHED[run.method])
            if task.fixed_model:
                model = FixedHyperparameters(
                    GP_LENGTHSCALE, noise_variance=GP_NOISE, kernel="matern"
                )
        else:
            method = made(run.method, paid, task.budget, run.seed)
            if task.fixed_model:
                model = ModelOptions("given", FixedMaternGP, is_fitted=False, normalizes=False)
        space = Space.of([Range(name, 0.0, 1.0) for name in self.names])
        self.simulation = Simulation(method, space, hyperparameters=model)
        # The first points are free, and count as the initial design, as data that are attached do.
        for i, (x, outcome) in enumerate(zip(X, y.tolist(), strict=True)):
            price = float(cost(x))
            self.simulation.trials.append(
                PastTrial(
                    i,
                    dict(zip(self.names, x.tolist(), strict=True)),
                    outcome=outcome,
                    is_observed=True,
                    reported_cost=price,
                    metrics={"cost": price},
                    is_charged=False,
                    record={"phase": "initial"},
                )
            )

    def ask(self) -> Tensor | None:
        """The next point; None where the budget pays for no further one."""
        decision = self.simulation.ask()
        if isinstance(decision, Stop):
            return None
        self.decision = decision
        return torch.tensor([decision.parameters[name] for name in self.names]).double()

    def tell(self, value: float, paid: float) -> None:
        """What came of it."""
        self.simulation.tell(self.decision, Outcome(value, paid))


def decide(
    run: Run,
    task: Problem,
    true_cost: CostFunction,
    price: Price,
    X: Tensor,
    y: Tensor,
    bounds: Tensor,
    left: float,
) -> tuple[Tensor, float]:
    """The next point, and lambda in units of standardised outcomes."""
    model = model_of(task, X, y)
    if not task.fixed_model:
        fit_gpytorch_mll(DenseMarginalLogLikelihood(model.likelihood, model))
    cost: CostFunction = true_cost
    if run.costs == "unknown" and run.method != "LogEI":
        paid = log_cost_function(true_cost)(X).exp()
        cost = LogNormalCostModel(X, paid, bounds=bounds)
    best, _ = incumbent(model, X)
    scale = 1.0 if task.fixed_model else float(y.std())
    acquisition: PandoraBoxGittinsIndex | LogExpectedImprovementPerCost
    lmbda = math.nan
    if run.method.startswith("PBGI"):
        lmbda = price(model, cost, scale, best, left)
        acquisition = PandoraBoxGittinsIndex(model, cost, lmbda)
    else:
        exponent = {"LogEIPC": 1.0, "LogEICC": left / task.budget, "LogEI": 0.0}[run.method]
        acquisition = LogExpectedImprovementPerCost(model, best, cost, exponent)
    point, value = optimize_acqf(
        acquisition, bounds, q=1, num_restarts=10 * run.dim, raw_samples=200 * run.dim
    )
    assert value is not None
    price.learn(float(value), best)
    return point[0].detach(), lmbda / scale


def at_levels(trace: Sequence[tuple[float, float, float]], budget: float) -> list[float]:
    """Best value found with each part of the budget."""
    costs = np.array([step[0] for step in trace])
    reached = np.searchsorted(costs, np.array(LEVELS) * budget + 1e-9, side="right") - 1
    return [trace[i][1] for i in reached]


def summarise(task: Problem, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Median and quartiles over seeds of the regret, or of the best value without an optimum."""
    table = np.array([result["best"] for result in runs])
    if task.optimum is not None:
        table = task.optimum - table
    quartiles = np.quantile(table, [0.25, 0.5, 0.75], axis=0)
    trials = [result["trials"] for result in runs]
    return {
        "seeds": len(runs),
        "cost_levels": [level * task.budget for level in LEVELS],
        "measure": "best value" if task.optimum is None else "regret",
        "lower_quartile": quartiles[0].tolist(),
        "median": quartiles[1].tolist(),
        "upper_quartile": quartiles[2].tolist(),
        "trials_median": float(np.median(trials)),
        "cpu_s_per_trial": sum(result["cpu_s"] for result in runs) / sum(trials),
    }


def draw(setting: str, curves: dict[str, Any]) -> Path:
    """Medians against cost, with the quartiles as bars."""
    figure = go.Figure()
    colors = [
        "#4477AA",
        "#EE6677",
        "#228833",
        "#CCBB44",
        "#66CCEE",
        "#AA3377",
        "#999999",
        "#222222",
        "#DDAA33",
    ]
    measure = next(iter(curves.values()))["measure"]
    for color, (name, curve) in zip(colors, curves.items(), strict=False):
        median = np.array(curve["median"])
        figure.add_scatter(
            x=curve["cost_levels"], y=median, mode="lines+markers", name=name,
            line={"color": color},
            error_y={
                "array": np.array(curve["upper_quartile"]) - median,
                "arrayminus": median - np.array(curve["lower_quartile"]),
                "symmetric": False, "thickness": 1,
            },
        )  # fmt: skip
    figure.update_layout(
        title=f"{setting}: {measure} against cost",
        xaxis_title="cost spent after the initial design",
        yaxis_title=f"{measure} (median and quartiles over seeds)",
        yaxis_type="log" if measure == "regret" else "linear",
        template="plotly_white",
    )
    path = RESULTS / f"gittins_{setting}.html"
    figure.write_html(path, include_plotlyjs=True)
    return path


def tables() -> None:
    """Write and print everything that was run, over the seeds that all methods have finished."""
    path = RESULTS / "gittins_regret.json"
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for name in ("ackley", "levy", "rosenbrock", "gpsample"):
        for dim in (4, 8, 16):
            for costs in COSTS[:-1]:  # of the printed law there are pairs only
                setting = setting_of(name, dim, costs)
                task = problem(name, dim, 0, costs)
                done = {m: RUNS.rows(setting=setting, method=m) for m in METHODS}
                done = {method: runs for method, runs in done.items() if runs}
                # The same seeds for all, whatever was finished when a run was cut short.
                seeds = [{run["seed"] for run in runs} for runs in done.values()]
                common = set.intersection(*seeds) if seeds else set()
                if not common:
                    continue
                curves = {
                    method: summarise(task, [run for run in runs if run["seed"] in common])
                    for method, runs in done.items()
                }
                # Of some methods only the summary is kept, from before runs were.
                results[setting] = {**results.get(setting, {}), **curves}
                draw(setting, results[setting])
                print(f"\n{setting}, {next(iter(curves.values()))['measure']}")
                for method, curve in results[setting].items():
                    ends = [curve[q][-1] for q in ("lower_quartile", "median", "upper_quartile")]
                    half = curve["median"][2]
                    print(
                        f"  {method:16s} {curve['seeds']:3d} seeds, at 40% {half:10.4g}, at the end"
                        f" {ends[1]:10.4g} [{ends[0]:.4g}, {ends[2]:.4g}], "
                        f"{curve['trials_median']:.0f} trials,"
                        f" {curve['cpu_s_per_trial']:.2f} CPU s each"
                    )
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwrote {path}")


def pairs() -> None:
    """Print by how much the strategies' log regret is larger than that of the loop and of EI.

    On functions; of GP samples the optimum is not known.
    """
    settings = {row["setting"] for row in RUNS.rows()}
    for setting in sorted(each for each in settings if not each.startswith("gpsample")):
        for method in PUBLISHED:
            for rival in (method.removesuffix(", strategy"), "LogEIPC"):
                ends = [
                    {run["seed"]: -run["best"][-1] for run in RUNS.rows(setting=setting, method=m)}
                    for m in (method, rival)
                ]
                seeds = [*(ends[0].keys() & ends[1].keys())]
                if len(seeds) > 1:
                    apart = np.log([ends[0][i] for i in seeds]) - np.log(
                        [ends[1][i] for i in seeds]
                    )
                    error = apart.std(ddof=1) / math.sqrt(len(seeds))
                    print(
                        f"{setting:20s} {method:16s} - {rival:8s} {apart.mean():5.2f} +- "
                        f"{error:.2f}, {len(seeds)} seeds, {(abs(apart) < 0.02).sum()} alike"
                    )


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--problem", choices=["ackley", "levy", "rosenbrock", "gpsample"])
    parser.add_argument("--dim", type=int, choices=[4, 8, 16], default=8)
    parser.add_argument("--costs", choices=COSTS, default="known")
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=list(dict.fromkeys([*METHODS, *PUBLISHED, *VARIANTS])),
        default=list(METHODS),
    )
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--tables", action="store_true", help="only summarise what was run")
    args = parser.parse_args()
    if args.problem is not None:
        runs = [
            Run(args.problem, args.dim, args.costs, method, seed)
            for seed in range(args.seeds)
            for method in args.methods
        ]
        title = runs[0].setting
        RUNS.run_missing(simulate, runs, Run.identity, args.processes, title)
    elif not args.tables:
        parser.error("--problem or --tables is needed")
    tables()
    pairs()


if __name__ == "__main__":
    main()
