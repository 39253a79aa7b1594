"""A classifier's hyperparameters at the cost of training it: accuracy against measured seconds.

The problem is the one of the demonstration, ``demo/gittins/digits.py``: four hyperparameters of a
neural network on scikit-learn's digits, five-fold cross-validated accuracy (searched for by the
logarithm of the error), and as cost the CPU seconds that the cross-validation took. Every method
has the same seconds; those that know of costs are told nothing but what was reported.

Accuracies and seconds come from a table of measurements, not from a model of them: a setting (with
three digits of its learning rate) is trained when it is first asked for, by whichever method and
seed, and its accuracy and seconds are kept and given to everybody who asks for it again. So a
setting has one cost, whatever else the machine did meanwhile, and running this again repeats it
without training; ``results/gittins_real_table.jsonl`` holds what was measured.

``default`` is ``cost_aware_strategy(cost=..., budget=...)`` as it is today, which spends all.
``gittins`` takes its price of a second from the budget, ``gittins, 0.03/s`` is told that a second
has to buy three per cent less error; ``log EI per cost`` stops by the price of the first. These
three have the design, the kernel and the outcomes of the published method.

    python benchmarks/gittins_real.py
    python benchmarks/gittins_real.py --methods gittins random --seeds 3

A trial that is still running when the seconds are used up does not count. Where a method stops by
itself, its curve stays where it is from there on. ``confirmed`` is the accuracy of what the method
would deploy in the end on five other shuffles of the folds, which it was not chosen by; ``total``
is the logarithm of that error plus 0.03 for each second spent, which who stops in time keeps low.
Finished runs are kept in ``results/partial`` and are not run again; the figures go to
``results/gittins_real.json``.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import logging
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from kept_runs import RESULTS, keep, read, run_all

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the demonstration's problem

from ax.api.client import Client
from ax.exceptions.core import OptimizationShouldStop

from ax_costaware import (
    ImprovementPerCostStop,
    complete_trial,
    cost_aware_strategy,
    gittins_strategy,
    recommend,
)
from demo.gittins.digits import BOUNDS, COST, OBJECTIVE, Measured, hyperparameters, train

BUDGET = 20.0
LEVELS = (1, 2, 3, 5, 7.5, 10, 12.5, 15, 17.5, 20)
SHUFFLES = 5
TABLE = RESULTS / "gittins_real_table.jsonl"
PRICE = 0.03
PUBLISHED = {
    "initial_share": None,
    "initialize_with_center": False,
    "winsorize": False,
    "kernel": "squared_exponential",
    "cost_model": "gp",
}
OURS: dict[str, dict[str, Any]] = {
    "default": {},
    "gittins": {"stop": True, **PUBLISHED},
    f"gittins, {PRICE:g}/s": {"lmbda": PRICE, **PUBLISHED},
    "log EI per cost": {
        "acquisition": "log_ei_per_cost",
        "stop": ImprovementPerCostStop(),
        **PUBLISHED,
    },
}
METHODS = (*OURS, "plain Ax", "random")


@dataclass(frozen=True)
class Task:
    """One run."""

    method: str
    seed: int
    budget: float

    @property
    def key(self) -> str:
        return f"gittins_real_{self.budget:g}_{self.method.replace('/', ' per ')}_{self.seed}"


class Table:
    """Measurements by setting and shuffle; shared by all processes through its file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, Measured] = {}
        self.read_until = 0
        path.parent.mkdir(parents=True, exist_ok=True)

    def measure(self, parameters: Mapping[str, Any], shuffle: int = 0) -> Measured:
        """The measurement of a setting; it is made now if nobody has made it."""
        point = rounded(parameters)
        key = json.dumps([*point.values(), shuffle])
        with self.path.open("a+") as file:
            self._update(file)
        if key not in self.known:
            measured = train(point, shuffle)
            with self.path.open("a+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                self._update(file)
                if key not in self.known:  # the other process may have been faster
                    entry = {"accuracy": measured.accuracy, "seconds": round(measured.seconds, 6)}
                    file.write(json.dumps({"point": json.loads(key), **entry}) + "\n")
                    file.flush()
                self._update(file)
        return self.known[key]

    def _update(self, file: Any) -> None:
        file.seek(self.read_until)
        text = file.read()
        complete = text[: text.rfind("\n") + 1]
        for line in complete.splitlines():
            entry = json.loads(line)
            key = json.dumps(entry["point"])
            self.known[key] = Measured(entry["accuracy"], entry["seconds"])
        self.read_until += len(complete.encode())


def rounded(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The setting that is measured: three digits of the rate, whole numbers as they are."""
    return {
        name: float(f"{value:.3g}") if isinstance(value, float) else int(value)
        for name, value in ((name, parameters[name]) for name in BOUNDS)
    }


def run(task: Task) -> None:
    """One search, which is kept."""
    logging.disable(logging.WARNING)
    started = time.process_time()
    table = Table(TABLE)
    client = new_client(task)
    trials: list[dict[str, float]] = []
    chosen: list[Mapping[str, Any]] = []
    spent, stopped = 0.0, ""
    while True:
        deciding = time.process_time()
        try:
            ((index, parameters),) = client.get_next_trials(max_trials=1).items()
        except OptimizationShouldStop as stop:
            stopped = str(stop)
            break
        decided = time.process_time() - deciding
        measured = table.measure(parameters)
        if spent + measured.seconds > task.budget:
            break
        spent += measured.seconds
        trials.append({**asdict(measured), "spent": spent, "decision_cpu_s": decided})
        chosen.append(parameters)
        if task.method in OURS:
            complete_trial(client, index, measured.log_error, cost=measured.seconds)
        else:
            client.complete_trial(index, {OBJECTIVE: measured.log_error})
    best = max(range(len(trials)), key=lambda i: trials[i]["accuracy"])
    deployed = to_deploy(task, client, best_seen=chosen[best])
    other = [table.measure(deployed, 1 + i).accuracy for i in range(SHUFFLES)]
    result = {
        "trials": trials,
        "stopped": stopped,
        "deployed": rounded(deployed),
        "confirmed": float(np.mean(other)),
        "cpu_s": time.process_time() - started,
    }
    keep(task.key, result)


def new_client(task: Task) -> Client:
    """An experiment with the strategy of the task."""
    client = Client(random_seed=task.seed)
    client.configure_experiment(name=task.key, parameters=hyperparameters())
    client.configure_optimization(objective=f"-{OBJECTIVE}")
    if task.method in OURS:
        make = gittins_strategy if task.method.startswith("gittins") else cost_aware_strategy
        client.set_generation_strategy(
            make(cost=COST, budget=task.budget, seed=task.seed, **OURS[task.method])
        )
    elif task.method == "random":
        client.configure_generation_strategy(
            method="random_search", initialization_random_seed=task.seed
        )
    return client


def to_deploy(task: Task, client: Client, best_seen: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the method itself calls best; for random search the best that was seen."""
    if task.method in OURS:
        return recommend(client).parameters
    if task.method == "random":
        return best_seen
    return client.get_best_parameterization()[0]


def best_at(trials: list[dict[str, float]], level: float) -> float:
    """The best accuracy for so many seconds; NaN before the first trial is done."""
    within = [trial["accuracy"] for trial in trials if trial["spent"] <= level]
    return max(within, default=float("nan"))


def quartiles(values: list[float]) -> list[float]:
    """Lower quartile, median and upper quartile."""
    return [float(q) for q in np.nanquantile(values, [0.25, 0.5, 0.75])]


def summarise(method: str, seeds: int, budget: float, levels: list[float]) -> dict[str, Any]:
    """Quartiles over seeds of what a method found, took and deployed."""
    runs = [read(Task(method, seed, budget).key) for seed in range(seeds)]
    decisions = [trial["decision_cpu_s"] for result in runs for trial in result["trials"]]
    return {
        "seeds": seeds,
        "seconds": levels,
        "best_accuracy": [
            quartiles([best_at(result["trials"], level) for result in runs]) for level in levels
        ],
        "trials": quartiles([float(len(result["trials"])) for result in runs]),
        "spent": quartiles([result["trials"][-1]["spent"] for result in runs]),
        "final_accuracy": quartiles([best_at(result["trials"], budget) for result in runs]),
        "confirmed": quartiles([result["confirmed"] for result in runs]),
        "total": quartiles(
            [
                float(np.log(1 - result["confirmed"])) + PRICE * result["trials"][-1]["spent"]
                for result in runs
            ]
        ),
        "confirmed_mean": float(np.mean([result["confirmed"] for result in runs])),
        "stopped_at": [
            result["trials"][-1]["spent"] if result["stopped"] else None for result in runs
        ],
        "messages": [result["stopped"] for result in runs],
        "cpu_s_per_decision": float(np.mean(decisions)),
        "cpu_s": sum(result["cpu_s"] for result in runs),
    }


def print_table(summaries: Mapping[str, Mapping[str, Any]]) -> None:
    """Medians with quartiles of the best accuracy, per method and seconds, in per cent."""
    names = list(summaries)
    print("best cross-validated accuracy in %, median [quartiles] over seeds, by CPU seconds")
    print(f"{'seconds':>8s}  " + "  ".join(f"{name:>23s}" for name in names))
    for row, level in enumerate(summaries[names[0]]["seconds"]):
        cells = [_percent(summaries[name]["best_accuracy"][row]) for name in names]
        print(f"{level:8g}  " + "  ".join(f"{cell:>23s}" for cell in cells))
    for title, key, show in (
        ("confirmed", "confirmed", _percent),
        ("total", "total", _two_digits),
        ("trials", "trials", _plain),
        ("spent, s", "spent", _plain),
    ):
        print(f"{title:>8s}  " + "  ".join(f"{show(summaries[n][key]):>23s}" for n in names))
    stops = [
        f"{sum(s is not None for s in summaries[n]['stopped_at'])} of {summaries[n]['seeds']}"
        for n in names
    ]
    print(f"{'stopped':>8s}  " + "  ".join(f"{cell:>23s}" for cell in stops))
    print(f"{'CPU s':>8s}  " + "  ".join(
        f"{summaries[n]['cpu_s_per_decision']:>15.2f} a trial" for n in names))  # fmt: skip


def _percent(values: list[float]) -> str:
    low, median, high = (100 * value for value in values)
    return f"{median:.2f} [{low:.2f}, {high:.2f}]"


def _two_digits(values: list[float]) -> str:
    low, median, high = values
    return f"{median:.2f} [{low:.2f}, {high:.2f}]"


def _plain(values: list[float]) -> str:
    low, median, high = values
    return f"{median:.1f} [{low:.1f}, {high:.1f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, metavar="NAME")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=float, default=BUDGET)
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    # Seed by seed, so that a run that is cut short has compared all methods.
    tasks = [Task(m, seed, args.budget) for seed in range(args.seeds) for m in args.methods]
    run_all(run, tasks, lambda task: task.key, args.processes, "gittins_real")
    levels = [level * args.budget / LEVELS[-1] for level in LEVELS]
    summaries = {
        method: summarise(method, args.seeds, args.budget, levels) for method in args.methods
    }
    print_table(summaries)
    path = RESULTS / "gittins_real.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    results[f"{args.budget:g} s"] = {**results.get(f"{args.budget:g} s", {}), **summaries}
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
