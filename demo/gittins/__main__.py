"""Run the demonstration: ``python -m demo.gittins``, or ``make demo-gittins``."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from pathlib import Path

from demo.gittins.figure import write_html, write_png
from demo.gittins.outcome import GITTINS, LABELS, Search
from demo.gittins.report import PROBLEM, comparison, conclusion
from demo.parallel import run_all

BUDGET = 30.0
LEAST_BUDGET = 5
"""More than the most expensive trial takes."""

SEEDS = 2
OUTPUT = Path("demo_output") / "gittins"


def main(arguments: Sequence[str] | None = None) -> None:
    """Search by every method for every seed, print the tables, and write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="number of repetitions")
    parser.add_argument("--budget", type=float, default=BUDGET, help="CPU seconds of training")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder of the files written")
    parser.add_argument("--quiet", action="store_true", help="without the progress bar")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"--seeds {options.seeds}: expected at least 1")
    if not LEAST_BUDGET <= options.budget < math.inf:
        parser.error(f"--budget {options.budget:g}: expected at least {LEAST_BUDGET} seconds")

    started = time.monotonic()
    options.output.mkdir(parents=True, exist_ok=True)
    print(f"{PROBLEM}\nBudget {options.budget:g} seconds a search, {options.seeds} seeds.\n")
    tasks = [
        (method, seed, options.budget, options.output if (method, seed) == (GITTINS, 0) else None)
        for method in LABELS
        for seed in range(options.seeds)
    ]
    total = len(tasks) * options.budget
    searches: list[Search] = run_all(
        "demo.gittins.runs", tasks, total, unit="s", progress=not options.quiet
    )
    print(f"\n{comparison(searches)}\n\n{conclusion(searches)}\n")
    write_html(searches, options.output / "figure.html")
    write_png(searches, options.output / "figure.png")
    print(f"Written to {options.output.resolve()}:")
    print("  figure.html, figure.png          accuracy against seconds, and why the search stopped")
    print("  experiment.db, experiment.json   the first seed's experiment, to load with Ax")
    print(f"{time.monotonic() - started:.0f} seconds.")


if __name__ == "__main__":
    main()
