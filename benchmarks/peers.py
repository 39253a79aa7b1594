"""Beside the peers: other optimizers that a user would take, on the panel's cells and real tables.

    pip install -c constraints.txt -e '.[peers]'
    python benchmarks/peers.py                    # resumable; some hours on one core
    python benchmarks/peers.py --problems reactions --methods CFO --seeds 3
    python benchmarks/peers.py --table            # of all that was run

All have the same budget, and are asked for one trial after the other. Costs are told to those that
take them: FLAML's BlendSearch and CFO (which are also told where trials are cheapest, as they ask
for it) and scikit-optimize's expected improvement per second. Optuna's TPE and Gaussian process and
SMAC's Gaussian process take none. A peer deploys its best trial so far, SMAC with noise its
incumbent; the value is that without noise.

- The panel's cells whose inputs are all numbers. Our runs and those of plain Ax are the panel's
  own, ``benchmarks/results/panel.jsonl``.
- ``reactions``, ``cloud``: measured tables, see ``choices.py``, whose runs of ours are taken.
- ``crossed barrel``: printed structures with three replicates, see ``repeats.py``. A trial is one
  print.

Runs are kept in ``benchmarks/results/peers.jsonl``, the table in ``benchmarks/results/peers.md``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import math
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import choices
import numpy as np
import numpy.typing as npt
import panel
import panel_cells
import plotly.graph_objects as go
import repeats
import torch
from kept_runs import RESULTS, KeptRuns
from panel_trials import LEVELS, PlainAx
from plotly.subplots import make_subplots

from ax_costaware.core import Decision, Simulation, Stop
from ax_costaware.core.simulation import Outcome
from ax_costaware.methods import CostAware, Method
from ax_costaware.space import Choice, Space
from ax_costaware.space.parameters import FreeParameter, Row

RUNS = KeptRuns("peers")
SEEDS = 8
TABLES = ("reactions", "cloud", "crossed barrel")
_MOST_TRIALS = 1000
_MOST_ASKED = 100
"""How often FLAML, which answers None for a trial that it has made already, is asked again."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """What is searched, with the cost of each trial."""

    parameters: tuple[FreeParameter, ...]
    """All numbers between zero and one, or all choices."""

    value: Callable[[Row], float]
    """The objective without noise: 0 at its best, -1 at its median."""

    trial: Callable[[Row, np.random.Generator], tuple[float, float]]
    """Outcome and cost of a trial."""

    budget: float
    """What all trials may cost together."""

    cheapest: Row
    """The cheapest combination: of a corner of the cube, or of a table."""

    is_noisy: bool
    """True if a trial that is made again has another outcome."""

    choice_costs: Mapping[str, list[float]]
    """Mean costs of the values of each choice without an order."""


def _of_cell(name: str) -> Problem:
    cell = panel_cells.CELLS[name]

    def trial(row: Row, generator: np.random.Generator) -> tuple[float, float]:
        X = cell.point(row)
        outcome = float(cell.value(X)) + cell.noise * generator.standard_normal()
        cost = float(cell.cost(X))
        if cell.learned:
            cost *= math.exp(panel_cells.LEARNED_SPREAD * generator.standard_normal())
        return outcome, cost

    corners = torch.tensor(list(itertools.product([0.0, 1.0], repeat=cell.dim))).double()
    corner = corners[cell.cost(corners).argmin()].tolist()
    return Problem(
        tuple(column.parameter for column in cell.space.columns.values()),
        lambda row: float(cell.value(cell.point(row))),
        trial,
        cell.mean_costs,
        dict(zip(cell.names, corner, strict=True)),
        cell.noise > 0,
        {},
    )


def _of_table(name: str) -> Problem:
    table = choices.problem_of(name)
    width = table.best - table.median

    def trial(row: Row, generator: np.random.Generator) -> tuple[float, float]:
        value, cost = table.evaluate(row)
        return (value - table.best) / width, cost / table.mean_cost

    return _of_choices(
        table.parameters,
        lambda row: (table.evaluate(row)[0] - table.best) / width,
        trial,
        lambda row: table.evaluate(row)[1],
        choices.MEAN_COSTS,
        is_noisy=False,
    )


def _barrel() -> Problem:
    task = repeats.task_of("crossed barrel")

    def cost(row: Row) -> float:
        return float(
            repeats.SETUP
            + task.cost({n: torch.tensor(float(str(row[n]))).double() for n in task.space.names})
        )

    return _of_choices(
        tuple(column.parameter for column in task.space.columns.values()),
        task.value,
        lambda row, generator: (task.sample(row, generator), cost(row)),
        cost,
        task.budget,
        is_noisy=True,
    )


def _of_choices(
    parameters: tuple[FreeParameter, ...],
    value: Callable[[Row], float],
    trial: Callable[[Row, np.random.Generator], tuple[float, float]],
    cost: Callable[[Row], float],
    budget: float,
    is_noisy: bool,
) -> Problem:
    names = [p.name for p in parameters]
    values = [p.values if isinstance(p, Choice) else () for p in parameters]
    rows = [dict(zip(names, row, strict=True)) for row in itertools.product(*values)]
    costs = {
        p.name: [float(np.mean([cost(r) for r in rows if r[p.name] == v])) for v in p.values]
        for p in parameters
        if isinstance(p, Choice) and not _has_order(p)
    }
    return Problem(parameters, value, trial, budget, min(rows, key=cost), is_noisy, costs)


def _has_order(choice: Choice) -> bool:
    return choice.is_ordered or choice.is_ranked


CELLS = [
    name
    for name, cell in panel_cells.CELLS.items()
    # Of smooth6 there are no runs of the default.
    if not (cell.choices or cell.integers or cell.limit or name == "smooth6")
]
PROBLEMS = [*CELLS, *TABLES]


@cache
def problem_of(name: str) -> Problem:
    """The problem of this name."""
    if name in CELLS:
        return _of_cell(name)
    return _barrel() if name == "crossed barrel" else _of_table(name)


class Peer:
    """An optimizer that is asked for trials and told their losses and costs.

    Subclasses see the place of a value among the values of a choice that has an order.

    Args:
        problem: What is searched.
        seed: Seed of the optimizer.
    """

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem, self.seed = problem, seed
        self.told: list[tuple[float, Row]] = []

    def ask(self) -> Row | None:
        """The next trial; None if there is none."""
        raise NotImplementedError

    def tell(self, row: Row, loss: float, cost: float) -> None:
        """Record a trial that was asked for."""
        self.told.append((loss, row))

    def deployed(self) -> Row:
        """What would be deployed: the best trial so far."""
        return min(self.told, key=lambda told: told[0])[1]

    def decoded(self, suggested: Mapping[str, Any]) -> Row:
        """Values of a suggestion, with places among ordered values."""

        def value(parameter: FreeParameter) -> Any:
            found = suggested[parameter.name]
            if isinstance(parameter, Choice):
                return parameter.values[int(found)] if _has_order(parameter) else found
            return float(found)

        return {parameter.name: value(parameter) for parameter in self.problem.parameters}


class Flaml(Peer):
    """FLAML's BlendSearch or CFO (Wang et al. 2021; Wu et al. 2021)."""

    kind = "BlendSearch"

    def __init__(self, problem: Problem, seed: int) -> None:
        super().__init__(problem, seed)
        from flaml import tune
        from flaml.tune.searcher import blendsearch

        logging.getLogger("flaml").setLevel(logging.ERROR)
        space, cheap = {}, {}
        for parameter in problem.parameters:
            name, at = parameter.name, problem.cheapest[parameter.name]
            if not isinstance(parameter, Choice):
                space[name], cheap[name] = tune.uniform(0.0, 1.0), at
            elif _has_order(parameter):
                space[name] = tune.randint(0, len(parameter.values))
                cheap[name] = parameter.values.index(at)
            else:
                space[name] = tune.choice(list(parameter.values))
        self._search = getattr(blendsearch, self.kind)(
            metric="loss",
            mode="min",
            space=space,
            low_cost_partial_config=cheap,
            cat_hp_cost=dict(problem.choice_costs),
            cost_attr="cost",
            cost_budget=problem.budget,
            seed=seed,
        )
        self._asked = 0

    def ask(self) -> Row | None:
        for _ in range(_MOST_ASKED):
            self._asked += 1
            self._suggested = self._search.suggest(str(self._asked))
            if self._suggested is not None:
                return self.decoded(self._suggested)
        return None

    def tell(self, row: Row, loss: float, cost: float) -> None:
        super().tell(row, loss, cost)
        result = {"loss": loss, "cost": cost, "config": self._suggested}
        self._search.on_trial_complete(str(self._asked), result)


class Cfo(Flaml):
    kind = "CFO"


class Optuna(Peer):
    """Optuna's tree-structured Parzen estimator, or its Gaussian process."""

    kind = "TPESampler"

    def __init__(self, problem: Problem, seed: int) -> None:
        super().__init__(problem, seed)
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = getattr(optuna.samplers, self.kind)(seed=seed)
        self._study = optuna.create_study(direction="minimize", sampler=sampler)

    def ask(self) -> Row | None:
        self._trial = self._study.ask()

        def suggested(parameter: FreeParameter) -> Any:
            if not isinstance(parameter, Choice):
                return self._trial.suggest_float(parameter.name, 0.0, 1.0)
            if _has_order(parameter):
                return self._trial.suggest_int(parameter.name, 0, len(parameter.values) - 1)
            return self._trial.suggest_categorical(parameter.name, parameter.values)

        return self.decoded({p.name: suggested(p) for p in self.problem.parameters})

    def tell(self, row: Row, loss: float, cost: float) -> None:
        super().tell(row, loss, cost)
        self._study.tell(self._trial, loss)


class OptunaGP(Optuna):
    kind = "GPSampler"


class Smac(Peer):
    """SMAC's Gaussian process (Lindauer et al. 2022), told how many mean trials can be paid."""

    def __init__(self, problem: Problem, seed: int) -> None:
        super().__init__(problem, seed)
        from ConfigSpace import Categorical, ConfigurationSpace, Float, Integer
        from smac import BlackBoxFacade, Scenario

        def parameter(p: FreeParameter) -> Any:
            if not isinstance(p, Choice):
                return Float(p.name, (0.0, 1.0))
            if _has_order(p):
                return Integer(p.name, (0, len(p.values) - 1))
            return Categorical(p.name, list(p.values))

        self._folder = tempfile.TemporaryDirectory()
        space = ConfigurationSpace(seed=seed)
        space.add([parameter(p) for p in problem.parameters])
        scenario = Scenario(
            space,
            output_directory=self._folder.name,
            deterministic=not problem.is_noisy,
            n_trials=round(problem.budget),
            seed=seed,
        )
        # Trials are made by whoever asks for them.
        self._facade = BlackBoxFacade(scenario, lambda config, seed=0: 0.0, logging_level=False)

    def ask(self) -> Row | None:
        self._info = self._facade.ask()
        return self.decoded(self._info.config)

    def tell(self, row: Row, loss: float, cost: float) -> None:
        from smac.runhistory.dataclasses import TrialValue

        super().tell(row, loss, cost)
        self._facade.tell(self._info, TrialValue(cost=loss, time=cost), save=False)

    def deployed(self) -> Row:
        incumbent = self._facade.intensifier.get_incumbent() if self.problem.is_noisy else None
        return super().deployed() if incumbent is None else self.decoded(incumbent)


class Skopt(Peer):
    """scikit-optimize's expected improvement per second."""

    _SHIFT = 1e4
    """Subtracted from losses. It takes the least of all losses and logarithms of costs for the best
    outcome; so that this is a loss, losses have to be the smaller ones."""

    def __init__(self, problem: Problem, seed: int) -> None:
        super().__init__(problem, seed)
        from skopt import Optimizer
        from skopt.space import Categorical, Integer, Real

        def dimension(p: FreeParameter) -> Any:
            if not isinstance(p, Choice):
                return Real(0.0, 1.0, name=p.name)
            if _has_order(p):
                return Integer(0, len(p.values) - 1, name=p.name)
            return Categorical(p.values, name=p.name)

        dimensions = [dimension(p) for p in problem.parameters]
        self._optimizer = Optimizer(dimensions, "GP", acq_func="EIps", random_state=seed)

    def ask(self) -> Row | None:
        self._asked = self._optimizer.ask()
        names = [p.name for p in self.problem.parameters]
        return self.decoded(dict(zip(names, self._asked, strict=True)))

    def tell(self, row: Row, loss: float, cost: float) -> None:
        super().tell(row, loss, cost)
        self._optimizer.tell(self._asked, (loss - self._SHIFT, cost))


class Ours(Peer):
    """A method of this package, whose costs are learned, in the plain loop."""

    def __init__(self, problem: Problem, seed: int) -> None:
        super().__init__(problem, seed)
        self._simulation = Simulation(self.method(), Space.of(problem.parameters))

    def method(self) -> Method:
        """The method."""
        return CostAware("cost", budget=self.problem.budget, seed=self.seed)

    def ask(self) -> Row | None:
        self._decision = self._simulation.ask()
        return None if isinstance(self._decision, Stop) else self._decision.parameters

    def tell(self, row: Row, loss: float, cost: float) -> None:
        super().tell(row, loss, cost)
        assert isinstance(self._decision, Decision)
        self._simulation.tell(self._decision, Outcome(-loss, cost))

    def deployed(self) -> Row:
        return self._simulation.recommend().parameters


class OursPlainAx(Ours):
    def method(self) -> Method:
        return PlainAx(seed=self.seed)


METHODS: dict[str, type[Peer]] = {
    "default": Ours,
    "plain Ax": OursPlainAx,
    "BlendSearch": Flaml,
    "CFO": Cfo,
    "Optuna TPE": Optuna,
    "Optuna GP": OptunaGP,
    "SMAC": Smac,
    "skopt EIps": Skopt,
}
"""Methods by name: ours, plain Ax, and the peers."""

PEERS = list(METHODS)[2:]


class Task(NamedTuple):
    """One run."""

    problem: str
    method: str
    seed: int


def run(task: Task) -> dict[str, Any]:
    """Make one run.

    Returns:
        ``losses`` of what would be deployed at each of ``LEVELS``, the part of the budget that is
        ``spent``, the number of ``trials``, and ``cpu_s``.
    """
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    started = time.process_time()
    problem = problem_of(task.problem)
    peer = METHODS[task.method](problem, task.seed)
    generator = np.random.default_rng(task.seed + 1000)
    spent, trials = 0.0, 0
    losses: list[float] = []
    marks = [level * problem.budget * (1 + 1e-9) for level in LEVELS]
    while trials < _MOST_TRIALS and (row := peer.ask()) is not None:
        outcome, cost = problem.trial(row, generator)
        while marks[len(losses) :] and spent + cost > marks[len(losses)]:
            losses.append(-problem.value(peer.deployed()) if trials else 1.0)
        if spent + cost > marks[-1]:
            break
        peer.tell(row, -outcome, cost)
        spent, trials = spent + cost, trials + 1
    last = -problem.value(peer.deployed())
    losses += [last] * (len(LEVELS) - len(losses))
    return {
        "losses": losses,
        "spent": spent / problem.budget,
        "trials": trials,
        "cpu_s": time.process_time() - started,
    }


@cache
def kept() -> dict[tuple[str, str], Array]:
    """Losses of the kept runs, seeds by levels, by problem and method."""
    found = {
        key: losses[: panel.SEEDS]
        for key, losses in panel.losses_of(panel.RUNS.rows()).items()
        if key[0] in CELLS and key[1] in ("default", "plain Ax")
    }
    rows = [(row["cell"], row) for row in choices.RUNS.rows() if row["cell"] in TABLES]
    rows = [(name, row) for name, row in rows if row["method"] in ("default", "plain Ax")]
    rows += [(row["problem"], row) for row in RUNS.rows()]
    runs: defaultdict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for name, row in rows:
        runs[name, row["method"]].append(row["losses"])
    return found | {key: np.array(losses) for key, losses in runs.items()}


def groups() -> dict[str, list[str]]:
    """Problems by kind."""
    measured = [name for name in CELLS if panel_cells.CELLS[name].law == "measured"]
    return {
        "functions": [n for n in CELLS if n not in measured and not n.startswith("noisy")],
        "functions with noise": [n for n in CELLS if n not in measured and n.startswith("noisy")],
        "trainings": measured,
        "tables": list(TABLES),
    }


def standing(ours: Array, theirs: Array, level: int) -> int:
    """1 if our mean loss is smaller by more than a standard error of the difference, -1 if larger.

    A single seed has no standard error: that of the other method counts.
    """
    (mean, error), (other, its) = panel.summary(ours, level), panel.summary(theirs, level)
    within = math.hypot(error, its)
    return int(mean < other - within) - int(mean > other + within)


def summary_table() -> str:
    """Problems in which the default is ahead of each rival, level with it, and behind.

    Of a kind there are the rivals that were run on all its problems.
    """
    found = kept()
    lines = ["| kind | rival | seeds | half of the budget | the whole budget |", "|---" * 5 + "|"]
    for group, names in groups().items():
        for rival in [*PEERS, "plain Ax"]:
            if not all({(n, "default"), (n, rival)} <= found.keys() for n in names):
                continue
            pairs = [(found[n, "default"], found[n, rival]) for n in names]
            counts = []
            for level in (panel.HALF, panel.END):
                signs = [standing(o, t, level) for o, t in pairs]
                counts.append(" / ".join(str(signs.count(sign)) for sign in (1, 0, -1)))
            seeds = sorted({len(theirs) for _, theirs in pairs})
            shown = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
            lines.append(f"| {group} ({len(pairs)}) | {rival} | {shown} | {' | '.join(counts)} |")
    return "\n".join(lines)


def full_table() -> str:
    """Mean losses and standard errors of all methods, at half and at the end of the budget."""
    found, lines = kept(), []
    for level, title in ((panel.HALF, "half of the budget"), (panel.END, "the whole budget")):
        lines += [f"## Loss with {title}", "", "| problem | " + " | ".join(METHODS) + " |"]
        lines.append("|---" * (len(METHODS) + 1) + "|")
        for name in PROBLEMS:
            entries = []
            for method in METHODS:
                if (losses := found.get((name, method))) is None:
                    entries.append("")
                    continue
                mean, error = panel.summary(losses, level)
                entries.append(f"{mean:.4f} ± {error:.4f} ({len(losses)})")
            lines.append(f"| {name} | " + " | ".join(entries) + " |")
        lines.append("")
    return "\n".join(lines)


CURVES = {
    "default": ("cost_aware_strategy", "black"),
    "plain Ax": ("plain Ax", "#7f7f7f"),
    "BlendSearch": ("FLAML BlendSearch", "#1f77b4"),
    "CFO": ("FLAML CFO", "#17becf"),
    "Optuna TPE": ("Optuna TPE", "#d62728"),
    "Optuna GP": ("Optuna GP", "#ff7f0e"),
    "SMAC": ("SMAC", "#2ca02c"),
    "skopt EIps": ("scikit-optimize EIps", "#9467bd"),
}
"""Names and colours in the figure."""

FIDELITY_CURVES = {
    "fidelity": ("fidelity_strategy", "black"),
    "log EI": ("cost_aware_strategy, full size", "#7f7f7f"),
    "knowledge gradient": ("BoTorch knowledge gradient", "#e377c2"),
    "max-value entropy": ("BoTorch max-value entropy", "#bcbd22"),
    "successive halving": ("Hyperband", "#8c564b"),
}
"""The same of methods that choose the size of the training set."""

_FLOOR = 0.01
"""Logarithms are of losses of at least this, so that the last digits do not decide."""


def figure() -> go.Figure:
    """Loss against the part of the budget that is spent, a panel for each kind of problem.

    Of a kind the geometric mean, over its problems, of mean losses. A method is drawn where it was
    run on all problems of the kind.
    """
    kinds, found = groups(), kept()
    results = json.loads((RESULTS / "fidelity.json").read_text()).get("cloud", {})
    titles = [*kinds, *(["training-set size"] if results else [])]
    drawn = make_subplots(rows=2, cols=3, subplot_titles=titles, vertical_spacing=0.14)
    named: set[str] = set()
    for place, names in enumerate(kinds.values()):
        for method, (title, colour) in CURVES.items():
            if not all((n, method) in found for n in names):
                continue
            means = [found[n, method].mean(axis=0) for n in names]
            losses = np.exp(np.log(np.maximum(means, _FLOOR)).mean(axis=0))
            title += " (1 seed)" if min(len(found[n, method]) for n in names) == 1 else ""
            _add_curve(drawn, place, losses, title, colour, method not in named)
            named.add(method)
    for method, (title, colour) in FIDELITY_CURVES.items():
        if method in results:
            means = results[method]["mean regrets"]
            regrets = [None if r is None else max(r, _FLOOR) for r in means]
            _add_curve(drawn, len(kinds), regrets, title, colour, True, "legend2")
    drawn.update_yaxes(type="log", dtick=1)
    drawn.update_yaxes(title="loss", col=1)
    if results:
        drawn.update_yaxes(title="accuracy below the best, points", row=2, col=2)
    drawn.update_xaxes(title="part of the budget")
    drawn.update_layout(
        template="plotly_white",
        margin={"l": 60, "r": 10, "t": 40, "b": 50},
        legend={"x": 0.71, "y": 0.48, "yanchor": "top"},
        legend2={"x": 0.71, "y": 0.16, "yanchor": "top"},
    )
    return drawn


def _add_curve(
    drawn: go.Figure,
    place: int,
    losses: Sequence[float | None] | Array,
    title: str,
    colour: str,
    is_named: bool,
    legend: str = "legend",
) -> None:
    row, column = divmod(place, 3)
    drawn.add_scatter(
        x=list(LEVELS),
        y=list(losses),
        name=title,
        legend=legend,
        showlegend=is_named,
        line={"color": colour, "width": 3 if colour == "black" else 1.5},
        row=row + 1,
        col=column + 1,
    )


def main() -> None:
    """Run what is missing, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="run nothing")
    chosen = parser.parse_args()
    tasks = [
        Task(problem, method, seed)
        for seed in range(chosen.seeds)
        for method in chosen.methods
        for problem in chosen.problems
        # Other runs of ours and of plain Ax are kept by their own benchmarks.
        if method in PEERS or problem == "crossed barrel"
    ]
    if not chosen.table:
        RUNS.run_missing(run, tasks, lambda task: dict(task._asdict()), chosen.processes, "peers")
    text = f"{summary_table()}\n\n{full_table()}"
    (RESULTS / "peers.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
