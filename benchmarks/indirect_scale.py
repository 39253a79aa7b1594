"""What a learned conditional costs, and how exact it is, from a thousand pairs to a million.

One thread, five dimensions: queries uniform on the unit cube, ``x = sin(3 a) + 0.5 e`` in each
column with standard normal ``e``. For each number of pairs, in a process of its own: CPU seconds of
the fit (length-scale and regularisation chosen) and of the nodes and weights of 1000 queries, and
the peak memory beside that of the process with the data alone. Then the averages of 100 functions
sampled from a Gaussian process, whose length-scale is the standard deviation of the points (or two
and four times that): against the truth, which is closed for these functions, and against the same
fit with the weights of all pairs, before they are projected on nodes. Errors are root mean squares,
in parts of the standard deviation of the averages over queries.

    python benchmarks/indirect_scale.py             # about three minutes

Results go to ``benchmarks/results/indirect_scale.json``.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from kept_runs import RESULTS

from ax_costaware.laws import LearnedConditional
from ax_costaware.laws.conditionals.embedding import MOST_EXACT, Projection, fit
from ax_costaware.laws.conditionals.landmarks import rbf

SIZES = (1_000, 10_000, 100_000, 1_000_000)
COLUMNS, NOISE, NUM_QUERIES, NUM_FUNCTIONS, NUM_WAVES = 5, 0.5, 1000, 100, 500
LENGTHSCALES = (1.0, 2.0, 4.0)
"""Of the functions, in standard deviations of the points."""

MOST_UNPROJECTED = 100_000

Array = npt.NDArray[np.float64]


class Functions:
    """Functions of unit variance, sums of waves, and their averages over normal laws."""

    def __init__(self, lengthscale: float) -> None:
        rng = np.random.default_rng(1)
        self._frequencies = rng.standard_normal((COLUMNS, NUM_WAVES)) / lengthscale
        self._shifts = 2 * np.pi * rng.random(NUM_WAVES)
        self._weights = rng.standard_normal((NUM_WAVES, NUM_FUNCTIONS)) / np.sqrt(NUM_WAVES / 2)

    def __call__(self, X: Array) -> Array:
        found = np.empty((len(X), NUM_FUNCTIONS))
        for start in range(0, len(X), 4096):
            rows = slice(start, start + 4096)
            found[rows] = np.cos(X[rows] @ self._frequencies + self._shifts) @ self._weights
        return found

    def averages(self, mean: Array, variance: float) -> Array:
        """Functionals ``n x NUM_FUNCTIONS`` where points scatter around ``mean``."""
        damping = np.exp(-0.5 * variance * (self._frequencies**2).sum(0))
        waves = np.cos(mean @ self._frequencies + self._shifts)
        return np.asarray((waves * damping) @ self._weights)


def sums_of(values: Array) -> Projection:
    """In place of nodes: the sums of the values of functions over all points."""
    nodes = np.zeros((values.shape[1], 1))
    return Projection(nodes, lambda rows, weights: np.asarray(values[rows].T @ weights))


def mean_of(A: Array) -> Array:
    """The mean of the points given queries."""
    return np.asarray(np.sin(3 * A))


def relative(errors: Array, truth: Array) -> float:
    """The root mean square of errors, in parts of the standard deviation over the queries."""
    return float(np.sqrt(np.mean(errors**2) / np.mean((truth - truth.mean(0)) ** 2)))


def peak_megabytes() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(num_pairs: int) -> dict[str, Any]:
    """Seconds, memory and errors with this many pairs."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    A = rng.random((num_pairs, COLUMNS))
    X = mean_of(A)
    X += NOISE * rng.standard_normal((num_pairs, COLUMNS))
    queries = rng.random((NUM_QUERIES, COLUMNS))
    before = peak_megabytes()
    start = time.process_time()
    learned = LearnedConditional(X, A)
    fitted = learned.embedding
    middle = time.process_time()
    nodes, weights = (
        tensor.numpy() for tensor in _rule(learned, torch.tensor(queries, dtype=torch.double))
    )
    end = time.process_time()
    result: dict[str, Any] = {
        "pairs": num_pairs,
        "seconds of the fit": middle - start,
        "seconds of 1000 queries": end - middle,
        "peak MB": peak_megabytes(),
        "MB of the process with the data": before,
        "nodes": len(nodes),
        "landmarks": len(fitted.centres),
        "lengthscale": fitted.lengthscale,
        "regularization": fitted.regularization,
        "mean of the sum of squared weights": float((weights**2).sum(1).mean()),
        "largest |sum of weights - 1|": float(np.abs(weights.sum(1) - 1).max()),
    }
    unit = fitted.scales * fitted.lengthscale
    spread = float(X.std(0).mean())
    for factor in LENGTHSCALES:
        functions = Functions(factor * spread)
        truth = functions.averages(mean_of(queries), NOISE**2)
        found = weights @ functions(nodes)
        errors = {"of the average": relative(found - truth, truth)}
        if MOST_EXACT < num_pairs <= MOST_UNPROJECTED:
            options = (fitted.lengthscale, fitted.regularization)
            whole = fit(X, A, *options, projection=sums_of(functions(X)))
            unprojected = rbf(queries / unit, whole.centres / unit) @ whole.projection.T
            errors["of the average, not projected"] = relative(unprojected - truth, truth)
            errors["of the projection"] = relative(found - unprojected, truth)
        result[f"errors, lengthscale {factor:g}"] = errors
    return result


def _rule(learned: LearnedConditional, queries: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    learned.check_queries(queries)
    rule = learned.joint_rule(queries)
    return rule.nodes, rule.weights


def main() -> None:
    rows = []
    for num_pairs in SIZES:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            row = pool.apply(measure, (num_pairs,))
        rows.append(row)
        print(
            f"{num_pairs:>9,} pairs: fit {row['seconds of the fit']:.1f} s, 1000 queries "
            f"{row['seconds of 1000 queries']:.2f} s, peak {row['peak MB']:.0f} MB "
            f"({row['MB of the process with the data']:.0f} before)"
        )
        for factor in LENGTHSCALES:
            errors = row[f"errors, lengthscale {factor:g}"]
            shown = ", ".join(f"{name} {100 * value:.2f} %" for name, value in errors.items())
            print(f"          lengthscale {factor:g}: error {shown}")
    sizes = np.log([row["pairs"] for row in rows])
    seconds = np.log([row["seconds of the fit"] + row["seconds of 1000 queries"] for row in rows])
    slopes = {
        "over all": float(np.polyfit(sizes, seconds, 1)[0]),
        "of each step": (np.diff(seconds) / np.diff(sizes)).tolist(),
    }
    print(f"slope of seconds against pairs: {slopes['over all']:.2f}")
    rates = {}
    for factor in LENGTHSCALES:
        errors = [row[f"errors, lengthscale {factor:g}"]["of the average"] for row in rows]
        rates[f"lengthscale {factor:g}"] = float(np.polyfit(sizes, np.log(errors), 1)[0])
    result = {"rows": rows, "slope": slopes, "rate of the error": rates}
    (RESULTS / "indirect_scale.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
