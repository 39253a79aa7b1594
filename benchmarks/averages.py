"""What a query about averages is to tell of: the acquisition functions beside each other.

The methods themselves, without Ax, as a user has them: hyperparameters are fitted to all answers
before each query, queries and points are of continuous spaces. Half of the problems were looked at
while the default was chosen; the others were kept aside. Trees split boxes of the points. "quasi-
random" is the initial design, gone on with. What counts is the regret of the point that would be
deployed, in standard deviations of the function.

"regressed law" is the default with a ``RegressedConditional`` of the pairs where the others have a
``LearnedConditional``, on problems whose law is not known; two more have another than normal
scatter.

    python benchmarks/averages.py                    # all of it, about four CPU hours
    python benchmarks/averages.py --seeds 0 4 --problems linear two_hills
    python benchmarks/averages.py --tables           # what was run

Finished runs are kept in ``benchmarks/results/averages.jsonl``, the table in
``benchmarks/results/averages.md``.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import torch
from botorch.exceptions.warnings import BotorchWarning, OptimizationWarning
from gpytorch.utils.warnings import NumericalWarning
from indirect_methods import tree_of
from indirect_problems import PROBLEMS, conditional_of, optimum, value
from kept_runs import RESULTS, KeptRuns

from ax_costaware.core import Simulation, Stop
from ax_costaware.core.problem import Decision
from ax_costaware.core.simulation import Outcome
from ax_costaware.laws import LearnedConditional, PairsConditional, RegressedConditional
from ax_costaware.methods import IndirectQueries, TreeSearch
from ax_costaware.methods.averages.information import Information
from ax_costaware.space import Range, Space

RUNS = KeptRuns("averages")

DEVELOPING = ("linear", "cosine_wide", "two_hills", "linear, few pairs", "peaks", "tree linear")
NOT_NORMAL = ("camel, two modes", "peaks, uneven")
ASIDE = ("camel", "cosine, noisy", "peaks, few pairs", "bowl", "ackley", "tree two_hills")

QUERIES, BUDGET_OF_TREE = 30.0, 60.0
LEVELS = (1 / 3, 0.5, 0.75, 1.0)
"""Shares of the budget after which regret is kept."""

DESIGN, REGRESSED = "quasi-random", "regressed law"
METHODS = (*get_args(Information), DESIGN, REGRESSED)
DEFAULT = "joint_entropy"
LEARNED = [name for name, problem in PROBLEMS.items() if not problem.known]
"""Problems whose law is learned from pairs."""
REFERENCE = "max_value_entropy"
"""What the paper has."""

_LEAST = 1e-3
"""Of a regret whose logarithm is taken."""


class Step(NamedTuple):
    """What there is before a query, or at the end."""

    simulation: Simulation
    spent: float
    decision: Decision | None

    def regret(self, name: str) -> float:
        """Of the point that would be deployed now, in standard deviations of the function."""
        key = name.removeprefix("tree ")
        best = self.simulation.recommend().parameters
        point = torch.tensor([float(best[f"x{i}"] or 0.0) for i in range(2)], dtype=torch.double)
        return optimum(key) - float(value(key, point))


def steps(
    name: str,
    seed: int,
    budget: float,
    of_pairs: type[PairsConditional] = LearnedConditional,
    **options: Any,
) -> Iterator[Step]:
    """A run on a problem, or with ``tree`` before its name on cells of its points.

    Args:
        name: The problem.
        seed: Seed of the method, of the noise and of the pairs.
        budget: Cost of all queries: a plain one costs 1.
        of_pairs: The class of a law that is not known.
        options: Further ones of the method.
    """
    key = name.removeprefix("tree ")
    problem = PROBLEMS[key]
    lower, upper = problem.box().tolist()
    targets = tuple(Range(f"x{i}", lower[i], upper[i]) for i in range(2))
    common: dict[str, Any] = {"budget": budget, "seed": seed, **options}
    chance = torch.Generator().manual_seed(seed)
    unit = torch.quasirandom.SobolEngine(2, scramble=True, seed=0).draw(2048, dtype=torch.double)
    normals = torch.special.ndtri(unit.clamp(1e-9, 1 - 1e-9))
    method: IndirectQueries | TreeSearch
    if key == name:
        law = conditional_of(key, seed, of_pairs)
        method = IndirectQueries(target_parameters=targets, conditional=law, **common)
        space = Space.of([Range(f"a{i}", 0, 1) for i in range(2)])
    else:
        tree = tree_of()
        method = TreeSearch(
            target_parameters=targets,
            max_level=tree.max_level,
            costs=tree.costs,
            noise=tree.noise,
            **common,
        )
        space = Space.of([Range("level", 0, tree.max_level, is_integer=True), *targets])

    def answer(row: Mapping[str, Any]) -> float:
        if isinstance(method, TreeSearch):
            cell = method.cell_of(row)
            centre, half = method.tree.centre(cell), method.tree.half_widths(cell.level)
            points = unit.new_tensor(centre) + unit.new_tensor(half) * (2 * unit - 1)
            noise = method.tree.noise_of(cell.level) or 0.0
        else:
            points = problem.draw(unit.new_tensor([[row["a0"], row["a1"]]]), normals)
            noise = problem.noise
        random = float(torch.randn(1, generator=chance, dtype=torch.double))
        return float(value(key, points).mean()) + noise * random

    simulation, spent = Simulation(method, space), 0.0
    while not isinstance(decision := simulation.ask(), Stop):
        yield Step(simulation, spent, decision)
        spent += decision.expected_cost or 0.0
        simulation.tell(decision, Outcome(answer(decision.parameters)))
    yield Step(simulation, spent, None)


def quiet() -> None:
    """One thread, and none of the warnings that fits on few data give."""
    torch.set_num_threads(1)
    for category in (NumericalWarning, BotorchWarning, OptimizationWarning):
        warnings.simplefilter("ignore", category)


class Task(NamedTuple):
    """One run."""

    problem: str
    method: str
    seed: int


def run(task: Task) -> dict[str, Any]:
    """Make one run: regrets at the levels, and how many queries were asked before."""
    quiet()
    budget = BUDGET_OF_TREE if task.problem.startswith("tree") else QUERIES
    options: dict[str, Any] = {"acquisition": task.method}
    if task.method == DESIGN:
        options = {"initial_trials": 1000}
    elif task.method == REGRESSED:
        options = {"of_pairs": RegressedConditional}
    regrets: list[float] = []
    asked: list[tuple[float, ...]] = []
    for step in steps(task.problem, task.seed, budget, **options):
        while len(regrets) < len(LEVELS) and step.spent >= LEVELS[len(regrets)] * budget - 1e-9:
            regrets.append(step.regret(task.problem))
        if step.decision is not None:
            asked.append(tuple(float(v or 0.0) for v in step.decision.parameters.values()))
    # A tree may end with less left than any cell costs.
    regrets += [step.regret(task.problem)] * (len(LEVELS) - len(regrets))
    points = np.array(asked)
    unit = points / np.maximum(np.ptp(points, axis=0), 1e-12)
    apart = np.abs(unit[:, None] - unit[None]).max(axis=-1) > 0.01
    new = [bool(apart[i, :i].all()) for i in range(len(points))]
    found = {"regrets": regrets, "asked": len(points), "again": len(points) - sum(new)}
    if task.method == REGRESSED:
        laws = RegressedConditional, LearnedConditional
        of_pairs = [conditional_of(task.problem, task.seed, law) for law in laws]
        found["leave_one_out"] = [
            law.leave_one_out for law in of_pairs if isinstance(law, PairsConditional)
        ]
    return found


def _means(values: npt.NDArray[np.float64], places: int, sign: str = "") -> list[str]:
    """Means of columns with their standard errors."""
    errors = values.std(axis=0, ddof=1) / len(values) ** 0.5
    return [
        f"{mean:{sign}.{places}f} ± {error:.{places}f}"
        for mean, error in zip(values.mean(axis=0), errors, strict=True)
    ]


def _compare(
    places: Mapping[str, Sequence[str]], methods: Sequence[str], reference: str
) -> list[str]:
    """Regrets of all that was run, on the seeds that a method shares with the reference."""
    kept: defaultdict[tuple[str, str], dict[int, dict[str, Any]]] = defaultdict(dict)
    for row in RUNS.rows():
        kept[row["problem"], row["method"]][row["seed"]] = row
    levels = " | ".join(f"{level:.0%}" for level in LEVELS)
    lines = [f"| problem | method | seeds | {levels} | again |", "|---" * (len(LEVELS) + 4) + "|"]
    changes: defaultdict[tuple[str, str], list[npt.NDArray[np.float64]]] = defaultdict(list)
    for place, problems in places.items():
        for problem, method in itertools.product(problems, methods):
            runs, others = kept[problem, method], kept[problem, reference]
            seeds = sorted(set(runs) & set(others))
            if len(seeds) < 2:
                continue
            regrets, given = (
                np.array([some[seed]["regrets"] for seed in seeds]) for some in (runs, others)
            )
            ratio = np.maximum(regrets, _LEAST) / np.maximum(given, _LEAST)
            changes[place, method].append(np.log(ratio).mean(axis=0))
            again = np.mean([runs[seed]["again"] / runs[seed]["asked"] for seed in seeds])
            cells = [problem, method, str(len(seeds)), *_means(regrets, 3), f"{again:.0%}"]
            lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"Changes of the logarithm of the regret beside {reference}, in pairs:", ""]
    for (place, method), means in changes.items():
        cells = _means(np.array(means), 2, "+")
        lines.append(f"- {place}, {len(means)} problems, {method}: {', '.join(cells)}")
    return lines


def table() -> str:
    """What queries are to tell of, and what is learned of a law from the same pairs."""
    criteria = [name for name in METHODS if name != REGRESSED]
    lines = _compare({"developing": DEVELOPING, "kept aside": ASIDE}, criteria, REFERENCE)
    lines += ["", "A law that is learned, or regressed:", ""]
    normal = [name for name in (*DEVELOPING, *ASIDE) if name in LEARNED]
    places = {"normal scatter": normal, "another": NOT_NORMAL}
    lines += _compare(places, (DEFAULT, REGRESSED), DEFAULT)
    lines += ["", "| leave-one-out error | regressed | learned | smaller in |", "|---|---|---|---|"]
    for name in (*normal, *NOT_NORMAL):
        rows = RUNS.rows(problem=name, method=REGRESSED)
        if rows:
            errors = np.array([row["leave_one_out"] for row in rows])
            fewer = int((errors[:, 0] < errors[:, 1]).sum())
            means = " | ".join(f"{mean:.3f}" for mean in errors.mean(axis=0))
            lines.append(f"| {name} | {means} | {fewer} of {len(rows)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    names = [*DEVELOPING, *ASIDE, *NOT_NORMAL]
    parser.add_argument("--problems", nargs="+", choices=names, default=names)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 16), help="from, and up to")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--tables", action="store_true", help="only summarise what was run")
    args = parser.parse_args()
    if not args.tables:
        tasks = [
            Task(problem, method, seed)
            for seed in range(*args.seeds)
            for problem in args.problems
            for method in args.methods
            if method != REGRESSED or problem in LEARNED
        ]
        RUNS.run_missing(run, tasks, Task._asdict, args.processes, "averages")
    text = table()
    print(text)
    (RESULTS / "averages.md").write_text(text)


if __name__ == "__main__":
    main()
