"""Trials that fail where nobody declared it: failures and regret with and without learning them.

On each problem about a third of the space fails, the best points that do not are next to such a
region, and a failed trial costs as much as any other. The regret is to the best of the points that
do not fail, found by a random search. Runs are kept as they finish.

    python benchmarks/failures.py [--seeds 6] [--trials 30] [--processes 1]

Results go to ``benchmarks/results/failures.jsonl``, and the table to standard output.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import torch
from kept_runs import KeptRuns

from ax_costaware.core.simulation import Outcome, simulate
from ax_costaware.methods import CostAware
from ax_costaware.space import Choice, Range, Space

FAST: dict[str, Any] = {"num_restarts": 4, "raw_samples": 256}
SOLVENTS = ("water", "ethanol", "toluene", "acetone")
CATALYSTS = ("Pd", "Pt", "Ni", "Cu", "Ru")
POWERS = tuple(2**i for i in range(6))


class Case(NamedTuple):
    """A problem: where it fails, and what is maximized."""

    space: Space
    value: Callable[[Mapping[str, Any]], float]
    fails: Callable[[Mapping[str, Any]], bool]


def _reaction(row: Mapping[str, Any]) -> float:
    i, j = CATALYSTS.index(row["catalyst"]), SOLVENTS.index(row["solvent"])
    height = 60 + 12 * math.sin(2.1 * i + 1.0) + 9 * math.cos(1.7 * j) + 8 * math.sin(3.0 * i * j)
    heat = ((float(row["temperature"]) - 60 - 8 * i) / 60) ** 2
    return height - 40 * heat - 15 * ((float(row["equivalents"]) - 2 - j % 3) / 4) ** 2


def _reaction_fails(row: Mapping[str, Any]) -> bool:
    """Combinations of a catalyst and a solvent, and of a solvent and its boiling."""
    i, j = CATALYSTS.index(row["catalyst"]), SOLVENTS.index(row["solvent"])
    boils = float(row["temperature"]) > (100.0, 78.0, 110.0, 90.0)[j]
    return boils or (i + 2 * j) % 5 == 1


def _tiles(row: Mapping[str, Any]) -> float:
    """Minus the logarithm of the time of a kernel, which has the best tile where memory ends."""
    m, n, k = (math.log2(row[name]) for name in ("m", "n", "k"))
    work = 0.35 * (m + n) + 0.25 * k - 0.12 * (m - n) ** 2 - 0.05 * (k - 2) ** 2
    by_rows = 0.4 * (m - 2) / 3 if row["layout"] == "rows" else 0.0
    return work + by_rows + 0.1 * float(row["unroll"])


def _tiles_fail(row: Mapping[str, Any]) -> bool:
    m, n, k, unroll = (int(row[name]) for name in ("m", "n", "k", "unroll"))
    memory = m * n * (2 if row["layout"] == "rows" else 1) + k * m
    return memory > 256 or unroll * k > 64


def _ridge(row: Mapping[str, Any]) -> float:
    x, y, z = (float(row[name]) for name in "xyz")
    return 2 * x + y - 2 * (z - 0.3 - 0.4 * x) ** 2 + 0.2 * math.sin(9 * y)


CASES = {
    "reaction: two choices, an integer, a real number": Case(
        Space.of(
            [
                Choice("catalyst", CATALYSTS),
                Choice("solvent", SOLVENTS),
                Range("temperature", 20, 120),
                Range("equivalents", 1, 6, is_integer=True),
            ]
        ),
        _reaction,
        _reaction_fails,
    ),
    "tiles of a kernel: 2,592 configurations": Case(
        Space.of(
            [
                *(Choice(n, POWERS, is_ordered=True, log_scale=True) for n in ("m", "n", "k")),
                Choice("layout", ("rows", "columns", "blocks")),
                Choice("unroll", (1, 2, 4, 8), is_ordered=True, log_scale=True),
            ]
        ),
        _tiles,
        _tiles_fail,
    ),
    "three real numbers": Case(
        Space.of([Range(name, 0, 1) for name in "xyz"]),
        _ridge,
        lambda row: row["x"] ** 2 + row["y"] ** 2 > 0.84,
    ),
}


@cache
def best_of(name: str) -> tuple[float, float]:
    """Return the best value that does not fail, and the share of the space that fails."""
    case = CASES[name]
    rows = case.space.sobol_rows(20_000)
    fails = [case.fails(row) for row in rows]
    kept = (case.value(r) for r, failed in zip(rows, fails, strict=True) if not failed)
    return max(kept), statistics.fmean(fails)


def run(task: tuple[str, Any, int, int]) -> dict[str, Any]:
    """Run one method once."""
    name, learn, seed, trials = task
    torch.set_num_threads(1)
    case, (best, _) = CASES[name], best_of(name)
    method = CostAware(1.0, budget=trials, learn_failures=learn, seed=seed, **FAST)

    def outcome(row: Mapping[str, Any], _: bool) -> Outcome:
        return Outcome(failed=True) if case.fails(row) else Outcome(case.value(row))

    found = simulate(method, case.space, outcome, trials).trials
    values = [t.outcome if t.outcome is not None else -math.inf for t in found]
    return {
        "failures": sum(t.has_failed for t in found),
        "half": best - max(values[: trials // 2]),
        "end": best - max(values),
    }


def main() -> None:
    """Make the missing runs, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    kept, learned = KeptRuns("failures"), (False, "auto")
    tasks = [
        (name, learn, seed, given.trials)
        for seed in range(given.seeds)
        for name in CASES
        for learn in learned
    ]
    kept.run_missing(
        run,
        tasks,
        lambda t: {"problem": t[0], "learn": str(t[1]), "trials": t[3], "seed": t[2]},
        given.processes,
    )
    print("| problem | fails | learned | failures | regret, half | regret, end |")
    print("|---|---|---|---|---|---|")
    for name in CASES:
        for learn in learned:
            rows = kept.rows(problem=name, learn=str(learn), trials=given.trials)
            cells = (
                f"{statistics.fmean(r[k] for r in rows):.3g} ± "
                f"{statistics.stdev(r[k] for r in rows) / len(rows) ** 0.5:.2g}"
                for k in ("failures", "half", "end")
            )
            print(f"| {name} | {best_of(name)[1]:.0%} | {learn} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
