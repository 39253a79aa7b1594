"""A choice among three models of scikit-learn, each with parameters of its own, at learned costs.

The problem is the error of a classifier of handwritten digits (three-fold cross-validation, of
which the logarithm to base ten is minimized), and the cost is the CPU seconds that it took. The
space is hierarchical: a random forest, a support vector machine and nearest neighbors have two or
three parameters each. Plain Ax has the same space, and the same seconds. A setting is measured
once, by whichever method asks for it first, and kept in ``results/hierarchical_table.jsonl``.

    python benchmarks/hierarchical.py [--seeds 3] [--processes 1]

Runs are kept as they finish in ``results/hierarchical.jsonl``; the table is printed.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import statistics
import time
from collections.abc import Mapping
from typing import Any

import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import OptimizationShouldStop
from kept_runs import RESULTS, KeptRuns
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

import ax_costaware as ac

BUDGET, MOST_TRIALS = 4.0, 40
TABLE = RESULTS / "hierarchical_table.jsonl"
METHODS = ("cost-aware", "plain Ax")
PARAMETERS: list[RangeParameterConfig | ChoiceParameterConfig] = [
    ChoiceParameterConfig(
        "model",
        ["forest", "nearest", "machine"],
        "str",
        is_ordered=False,
        dependent_parameters={
            "forest": ["trees", "depth", "features"],
            "machine": ["penalty", "width"],
            "nearest": ["neighbors", "weights"],
        },
    ),
    RangeParameterConfig("trees", (5, 200), "int", scaling="log"),
    RangeParameterConfig("depth", (2, 20), "int"),
    RangeParameterConfig("features", (0.05, 0.5), "float"),
    RangeParameterConfig("penalty", (1e-2, 1e3), "float", scaling="log"),
    RangeParameterConfig("width", (1e-5, 1e1), "float", scaling="log"),
    RangeParameterConfig("neighbors", (1, 30), "int"),
    ChoiceParameterConfig("weights", ["uniform", "distance"], "str", is_ordered=True),
]


def _classifier(p: Mapping[str, Any]) -> Any:
    if p["model"] == "forest":
        return RandomForestClassifier(
            p["trees"], max_depth=p["depth"], max_features=p["features"], random_state=0
        )
    if p["model"] == "machine":
        return SVC(C=p["penalty"], gamma=p["width"])
    return KNeighborsClassifier(p["neighbors"], weights=p["weights"])


def measure(parameters: Mapping[str, Any]) -> tuple[float, float]:
    """Return the log of the error and the CPU seconds, as they were first measured."""
    rounded = {n: float(f"{v:.3g}") if type(v) is float else v for n, v in parameters.items()}
    key = json.dumps(rounded, sort_keys=True)
    rows = map(json.loads, TABLE.read_text().splitlines()) if TABLE.exists() else ()
    known = {row["key"]: (row["log_error"], row["seconds"]) for row in rows}
    if key not in known:
        X, y = load_digits(return_X_y=True)
        started = time.process_time()
        accuracy = float(cross_val_score(_classifier(rounded), X, y, cv=3).mean())
        seconds = time.process_time() - started
        known[key] = round(math.log10(1 - accuracy + 1e-3), 5), round(seconds, 4)
        row = {"key": key, "log_error": known[key][0], "seconds": known[key][1]}
        with TABLE.open("a") as file:
            file.write(json.dumps(row) + "\n")
    log_error, seconds = known[key]
    return float(log_error), float(seconds)


def run(task: tuple[str, int]) -> dict[str, Any]:
    """Run one method once: the best log error at half of the seconds, and at their end."""
    method, seed = task
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    client = Client(random_seed=seed)
    client.configure_experiment(PARAMETERS)
    client.configure_optimization("-log_error")
    if method == "cost-aware":
        client.set_generation_strategy(ac.cost_aware_strategy("seconds", budget=BUDGET, seed=seed))
    else:
        client.configure_generation_strategy(initialization_random_seed=seed)
    spent, best, half = 0.0, math.inf, math.inf
    models: list[str] = []
    for _ in range(MOST_TRIALS):
        try:
            ((index, parameters),) = client.get_next_trials(max_trials=1).items()
        except OptimizationShouldStop:
            break
        log_error, seconds = measure(parameters)
        spent += seconds
        if spent > BUDGET:
            break
        models.append(str(parameters["model"]))
        best = min(best, log_error)
        half = best if spent <= BUDGET / 2 else half
        if method == "cost-aware":
            ac.complete_trial(client, index, log_error, cost=seconds)
        else:
            client.complete_trial(index, {"log_error": log_error})
    return {
        "half": half,
        "end": best,
        "trials": len(models),
        **{name: models.count(name) for name in ("forest", "machine", "nearest")},
    }


def main() -> None:
    """Make the missing runs, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    kept = KeptRuns("hierarchical")
    tasks = [(method, seed) for seed in range(given.seeds) for method in METHODS]
    kept.run_missing(run, tasks, lambda t: {"method": t[0], "seed": t[1]}, given.processes)
    print("| method | seeds | log error, half | log error, end | trials |")
    print("|---|---|---|---|---|")
    for method in METHODS:
        rows = kept.rows(method=method)
        cells = []
        for name in ("half", "end", "trials"):
            values = [row[name] for row in rows]
            error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
            cells.append(f"{statistics.fmean(values):.3g} ± {error:.2g}")
        print(f"| {method} | {len(rows)} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
