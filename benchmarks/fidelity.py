"""Regret at the target fidelity per cost: ``fidelity_strategy`` beside what else there is.

Five problems, each with a budget of a few runs at the target; see ``fidelity_problems.py``. Every
method runs in a plain loop, without Ax. What counts after each trial is the regret, at the target
and without noise, of what the method would deploy then.

- ``fidelity``: ``fidelity_strategy``.
- ``knowledge gradient``, ``max-value entropy``: BoTorch's for several fidelities, per cost, on
  its ``SingleTaskMultiFidelityGP``, as in its tutorials, with the initial design of ``fidelity``.
- ``gittins``: the Gittins index, at the target only, and ``log EI``, which plain Ax chooses by, on
  Ax's model; at the target all trials cost the same, but in the cloud, where it is per cost.
- On the table, whose trials have learning curves: ``fidelity, curves``, which learns from them;
  ``fidelity, checkpoints``, which goes on from where a run stopped, too; ``successive halving`` of
  quasi-random inputs, which does so; and ``hyperband``, Optuna's pruner with its default sampler,
  which stops runs on their way (``pip install -c constraints.txt -e '.[benchmarks]'``). In the
  cloud, where nothing resumes, ``successive halving`` goes through the brackets of Hyperband.

    python benchmarks/fidelity.py --seeds 10          # an hour or two; the knowledge gradient not
    python benchmarks/fidelity.py --methods fidelity  # only some

Runs are kept in ``benchmarks/results/partial``; the table goes to
``benchmarks/results/fidelity.json``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from botorch.acquisition.analytic import PosteriorMean
from botorch.acquisition.cost_aware import InverseCostWeightedUtility
from botorch.acquisition.fixed_feature import FixedFeatureAcquisitionFunction
from botorch.acquisition.knowledge_gradient import qMultiFidelityKnowledgeGradient
from botorch.acquisition.max_value_entropy_search import qMultiFidelityMaxValueEntropy
from botorch.exceptions.errors import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.gp_regression_fidelity import SingleTaskMultiFidelityGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim.optimize import optimize_acqf, optimize_acqf_mixed
from botorch.utils.sampling import draw_sobol_samples, manual_seed
from fidelity_problems import PROBLEMS, Problem, point_of, problem_of
from fidelity_tables import EPOCHS
from gpytorch.mlls import ExactMarginalLogLikelihood
from kept_runs import RESULTS, keep, path_of, read, run_all
from torch import Tensor

from ax_costaware.core import Decision, Simulation, Stop
from ax_costaware.core.simulation import Outcome
from ax_costaware.methods import CostAware, Gittins, MultiFidelity
from ax_costaware.space import Space
from ax_costaware.space.parameters import Row

PATH = RESULTS / "fidelity.json"
FAST: dict[str, Any] = {"num_restarts": 5, "raw_samples": 256}
SHARES = (0.25, 0.5, 1.0)
LEVELS = tuple(i / 20 for i in range(1, 21))
"""Parts of the budget at which means are kept."""
MOST_TRIALS = 150


class Record(NamedTuple):
    """How things stand after a trial."""

    spent: float
    """What was spent."""

    regret: float
    """Regret of what would be deployed."""

    seconds: float
    """CPU seconds of the decision."""

    fidelity: float
    """Mean of the trial's fidelities."""


def _simulated(
    problem: Problem,
    seed: int,
    acquisition: str | None = None,
    curves: bool = False,
    resumes: bool = False,
) -> Iterator[Record]:
    """A method of the package: with fidelities, or the Gittins method at the target."""
    names = list(problem.space.names)
    target = {names[column]: value for column, value in problem.target.items()}
    shared: dict[str, Any] = {"budget": problem.budget, "seed": seed, **FAST}
    if acquisition is None:
        method: Any = MultiFidelity(problem.cost_of, target=target, resumes=resumes, **shared)
        space = problem.space
    else:

        def cost(row: Row) -> float:
            return problem.cost_of({**row, **target})

        by_index = acquisition == "gittins"
        method = (
            Gittins(cost, **shared)
            if by_index
            else CostAware(cost, acquisition=acquisition, **shared)
        )
        space = Space.of([p for name, p in problem.space.parameters.items() if name not in target])
    simulation, fitting = Simulation(method, space), 0.0
    while len(simulation.trials) < MOST_TRIALS:
        started = time.process_time()
        decision = simulation.ask()
        seconds = fitting + time.process_time() - started
        if isinstance(decision, Stop):
            return
        X = point_of({**target, **decision.parameters})
        curve = _curve(problem, X) if curves else None
        simulation.tell(decision, Outcome(float(problem.function(X)), curve=curve))
        spent = sum(entry.charged for entry in simulation.ledger)
        started = time.process_time()
        best = {**simulation.recommend().parameters, **target}
        fitting = time.process_time() - started  # the model that the next decision is made by
        fidelity = float(X[:, list(problem.target)].mean())
        yield Record(spent, problem.regret(point_of(best)), seconds, fidelity)


def _curve(problem: Problem, x: Tensor) -> dict[float, float]:
    """The outcomes of a trial ``1 x d`` after each epoch, as parts of all."""
    steps = x.new_tensor([e / EPOCHS for e in range(1, int(float(x[0, -1]) * EPOCHS) + 1)])
    at = torch.cat([x[:, :-1].expand(len(steps), -1), steps.unsqueeze(-1)], dim=-1)
    return dict(zip(steps.tolist(), problem.function(at).tolist(), strict=True))


def _initial(problem: Problem, seed: int) -> list[Decision]:
    """The initial design of the package's method."""
    names = list(problem.space.names)
    target = {names[column]: value for column, value in problem.target.items()}
    method = MultiFidelity(problem.cost_of, target=target, budget=problem.budget, seed=seed)
    simulation, found = Simulation(method, problem.space), []
    for _ in range(method.initial_trials):
        decision = simulation.ask()
        assert isinstance(decision, Decision)
        found.append(decision)
        simulation.tell(decision, Outcome(float(problem.function(point_of(decision.parameters)))))
    return found


def _botorch(problem: Problem, seed: int, by_gradient: bool) -> Iterator[Record]:
    """BoTorch's knowledge gradient or max-value entropy for several fidelities, per cost."""
    bounds, target = problem.bounds, problem.target
    d, columns = bounds.shape[-1], list(target)
    X = torch.cat([point_of(decision.parameters) for decision in _initial(problem, seed)])
    spent = float(problem.cost(X).sum())
    cost_model = GenericDeterministicModel(lambda Z: problem.cost(Z).unsqueeze(-1))
    utility = InverseCostWeightedUtility(cost_model)

    def project(Z: Tensor) -> Tensor:
        at = Z.clone()
        at[..., columns] = 1.0
        return at

    seconds = 0.0
    for _ in range(MOST_TRIALS):
        Y = problem.function(X).unsqueeze(-1)
        started = time.process_time()
        with manual_seed(seed + len(X)):
            model = SingleTaskMultiFidelityGP(
                X,
                Y,
                data_fidelities=columns,
                input_transform=Normalize(d, bounds=bounds),
                outcome_transform=Standardize(1),
            )
            try:
                fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            except ModelFittingError:  # the run ends with what it had
                return
            mean = FixedFeatureAcquisitionFunction(
                PosteriorMean(model), d, columns, [1.0] * len(target)
            )
            free = [i for i in range(d) if i not in target]
            best, value = optimize_acqf(mean, bounds[:, free], 1, **FAST)
            deployed = torch.cat([best, best.new_ones(1, len(target))], dim=-1)
            fidelity = float(X[-1, columns].mean())
            yield Record(spent, problem.regret(deployed), seconds, fidelity)
            if by_gradient:
                acquisition: Any = qMultiFidelityKnowledgeGradient(
                    model,
                    num_fantasies=16,
                    current_value=torch.as_tensor(value).detach(),
                    cost_aware_utility=utility,
                    project=project,
                )
            else:
                candidates = project(draw_sobol_samples(bounds, 1000, 1, seed=len(X)).squeeze(1))
                acquisition = qMultiFidelityMaxValueEntropy(
                    model, candidates, cost_aware_utility=utility, project=project
                )
            options: dict[str, Any] = {"batch_limit": 5, "maxiter": 100}
            if problem.levels:
                fixed = [{columns[0]: level} for level in problem.levels]
                point, _ = optimize_acqf_mixed(
                    acquisition, bounds, 1, fixed_features_list=fixed, options=options, **FAST
                )
            else:
                point, _ = optimize_acqf(acquisition, bounds, 1, options=options, **FAST)
        seconds = time.process_time() - started
        point = problem.rounded(point.detach())
        spent += float(problem.cost(point))
        if spent > problem.budget * (1 + 1e-9):
            return
        X = torch.cat([X, point])


def _halving(problem: Problem, seed: int) -> Iterator[Record]:
    """Successive halving (Jamieson and Talwalkar 2016) by thirds, again and again.

    Where runs do not resume, with the brackets of Hyperband (Li et al. 2018).
    """
    resumes = not problem.levels
    rungs = problem.levels or (1 / 27, 1 / 9, 1 / 3, 1.0)
    spent, best = 0.0, (-1.0, -math.inf, torch.empty(0))
    draws = problem.rounded(draw_sobol_samples(problem.bounds, 27 * 32, 1, seed=seed).squeeze(1))
    for start in itertools.cycle(range(1 if resumes else len(rungs))):
        left = rungs[start:]
        number = math.ceil(len(rungs) / len(left) * 3 ** (len(left) - 1))
        X, draws, before = draws[:number], draws[number:], 0.0
        for rung in left:
            values = []
            for x in X:
                at = torch.cat([x[:-1], x.new_tensor([rung])]).unsqueeze(0)
                # A run that goes on from its checkpoint costs what is new.
                goes_on = resumes and before > 0
                spent += rung - before if goes_on else float(problem.cost(at))
                if spent > problem.budget:
                    return
                values.append(float(problem.function(at)))
                best = max(best, (rung, values[-1], at), key=lambda found: found[:2])
                yield Record(spent, problem.regret(best[2]), 0.0, rung)
            X = X[torch.tensor(values).argsort(descending=True)[: max(1, len(X) // 3)]]
            before = rung


def _hyperband(problem: Problem, seed: int) -> Iterator[Record]:
    """Optuna's Hyperband pruner (Li et al. 2018), and its tree-structured Parzen estimator."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        study_name=str(seed),  # by which trials are put into brackets
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=optuna.pruners.HyperbandPruner(max_resource=EPOCHS),
    )
    spent, best = 0.0, (-1.0, -1.0, torch.empty(0))
    while True:
        trial = study.ask()
        x = [trial.suggest_float(f"x{i}", *ends) for i, ends in enumerate(problem.bounds.T[:-1])]
        curve = _curve(problem, torch.tensor([[*x, 1.0]], dtype=torch.double))
        state = optuna.trial.TrialState.COMPLETE
        for epoch, value in enumerate(curve.values(), 1):
            trial.report(value, epoch)
            if epoch < EPOCHS and trial.should_prune():
                state = optuna.trial.TrialState.PRUNED
                break
        study.tell(trial, None if state.name == "PRUNED" else value, state=state)
        at = torch.tensor([[*x, epoch / EPOCHS]], dtype=torch.double)
        spent += float(problem.cost(at))
        if spent > problem.budget:
            return
        best = max(best, (epoch, value, at), key=lambda found: found[:2])
        yield Record(spent, problem.regret(best[2]), 0.0, epoch / EPOCHS)


ON_CURVES = ("fidelity, curves", "fidelity, checkpoints", "hyperband")
"""Methods that are for the table of learning curves only."""

ON_TABLES = (*ON_CURVES, "successive halving")
"""Methods that are for measured trainings only."""

METHODS: dict[str, Callable[[Problem, int], Iterator[Record]]] = {
    "fidelity": _simulated,
    "fidelity, curves": partial(_simulated, curves=True),
    "fidelity, checkpoints": partial(_simulated, curves=True, resumes=True),
    "log EI": lambda problem, seed: _simulated(problem, seed, "log_ei_per_cost"),
    "gittins": lambda problem, seed: _simulated(problem, seed, "gittins"),
    "max-value entropy": lambda problem, seed: _botorch(problem, seed, by_gradient=False),
    "knowledge gradient": lambda problem, seed: _botorch(problem, seed, by_gradient=True),
    "successive halving": _halving,
    "hyperband": _hyperband,
}
"""Methods by name, the quick ones first."""


class Task(NamedTuple):
    """One run."""

    problem: str
    """Name of the problem."""

    method: str
    """Name of the method."""

    seed: int
    """Seed of the run."""


def key(task: Task) -> str:
    """Key of its result."""
    return f"fidelity {task.problem} {task.method} {task.seed}"


def run(task: Task) -> None:
    """Run a task, and keep its result."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    keep(key(task), list(METHODS[task.method](problem_of(task.problem), task.seed)))


def table(tasks: list[Task]) -> dict[str, Any]:
    """Medians over seeds of the regret at shares of the budget, and of the time of a decision.

    Means at more shares are None where a seed has deployed nothing yet.
    """
    found: dict[str, Any] = {}
    for problem in PROBLEMS:
        for method in METHODS:
            seeds = [t.seed for t in tasks if (t.problem, t.method) == (problem, method)]
            runs = [[Record(*r) for r in read(key(Task(problem, method, s)))] for s in seeds]
            if not runs:
                continue
            at = {}
            for share in (*SHARES, *LEVELS):
                limit = share * problem_of(problem).budget + 1e-9
                ends = [[r.regret for r in one if r.spent <= limit] for one in runs]
                at[share] = [end[-1] for end in ends if end]
            regrets = [at[share] for share in SHARES]
            curve = [statistics.fmean(at[s]) if len(at[s]) == len(runs) else None for s in LEVELS]
            # Decisions of the initial design take no time.
            seconds = [r.seconds for one in runs for r in one if r.seconds > 0.05]
            found.setdefault(problem, {})[method] = {
                "seeds": len(runs),
                "regret": [statistics.median(each) if each else None for each in regrets],
                "mean regret": statistics.fmean(regrets[-1]),
                "mean regrets": curve,
                "worst regret": max(regrets[-1]),
                "seconds": statistics.median(seconds) if seconds else 0.0,
                "trials": statistics.median(len(one) for one in runs),
                "fidelity": statistics.fmean(r.fidelity for one in runs for r in one),
            }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    wanted = [
        Task(problem, method, seed)
        for seed in range(arguments.seeds)
        for method in arguments.methods
        for problem in arguments.problems
        if method not in ON_TABLES
        or problem == "network"
        or (problem == "cloud" and method not in ON_CURVES)
    ]
    run_all(run, wanted, key, arguments.processes, "fidelity")
    every = [Task(p, m, s) for p in PROBLEMS for m in METHODS for s in range(100)]
    results = table([task for task in every if path_of(key(task)).exists()])
    for problem, rows in results.items():
        print(
            f"\n### {problem}\n\n| method | seeds | regret at 25, 50, 100 % | worst | trials |"
            " fidelity | seconds a decision |\n|---|---|---|---|---|---|---|"
        )
        for method, row in rows.items():
            shown = ", ".join("-" if r is None else f"{r:.3g}" for r in row["regret"])
            print(
                f"| {method} | {row['seeds']} | {shown} | {row['worst regret']:.3g} | "
                f"{row['trials']:.0f} | {row['fidelity']:.2f} | {row['seconds']:.2g} |"
            )
    known = json.loads(PATH.read_text())
    merged = {problem: known.get(problem, {}) | results.get(problem, {}) for problem in PROBLEMS}
    PATH.write_text(f"{json.dumps(merged, indent=1)}\n")


if __name__ == "__main__":
    main()
