"""Run the demonstration: ``python -m demo``, or ``make demo``."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from pathlib import Path

from demo.figure import write_html, write_png
from demo.outcome import LABELS, Run
from demo.parallel import run_all
from demo.report import PROBLEM, comparison, details

BUDGET = 120.0
LEAST_BUDGET = 10
"""Of one trial that controls everything, without which two of the methods do nothing."""

SEEDS = 4
OUTPUT = Path("demo_output")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run every method for every seed, print the tables, and write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="number of repetitions")
    parser.add_argument("--budget", type=float, default=BUDGET, help="what the trials may cost")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder of the files written")
    parser.add_argument("--quiet", action="store_true", help="without the progress bar")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"--seeds {options.seeds}: expected at least 1")
    if not LEAST_BUDGET <= options.budget < math.inf:
        parser.error(f"--budget {options.budget:g}: expected a number of at least {LEAST_BUDGET}")

    started = time.monotonic()
    options.output.mkdir(parents=True, exist_ok=True)
    print(PROBLEM, f"Budget {options.budget:g}, {options.seeds} seeds.\n", sep="\n", flush=True)
    kept = {("control_sets", 0): options.output}
    # The long runs first, so that no process waits for one at the end.
    tasks = [
        (method, seed, options.budget, kept.get((method, seed)))
        for method in LABELS
        for seed in range(options.seeds)
    ]
    total = len(tasks) * options.budget
    runs: list[Run] = run_all("demo.runs", tasks, total, progress=not options.quiet)
    print(f"\n{details(runs, seed=0)}\n\n{runs[0].summary}\n\n{comparison(runs)}\n")
    write_html(runs, options.output / "figure.html")
    write_png(runs, options.output / "figure.png")
    print(f"Written to {options.output.resolve()}:")
    print("  figure.html, figure.png          what would be deployed against the cost")
    print("  experiment.db, experiment.json   the first seed's experiment, to load with Ax")
    print(f"{time.monotonic() - started:.0f} seconds.")


if __name__ == "__main__":
    main()
