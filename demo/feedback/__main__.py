"""Run the demonstration: ``python -m demo.feedback``, or ``make demo-feedback``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from demo.feedback.figure import write_html, write_png
from demo.feedback.outcome import FIXED, FULL, OURS, Run
from demo.feedback.report import PROBLEM, comparison, conclusion
from demo.parallel import run_all

ROUNDS = 150
SEEDS = 8
OUTPUT = Path("demo_output") / "feedback"


def main(arguments: Sequence[str] | None = None) -> None:
    """Train by every method for every seed, print the table, and write the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="number of repetitions")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of a training run")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder of the files written")
    parser.add_argument("--quiet", action="store_true", help="without the progress bar")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"--seeds {options.seeds}: expected at least 1")
    if options.rounds < 10:
        parser.error(f"--rounds {options.rounds}: expected at least 10")

    started = time.monotonic()
    options.output.mkdir(parents=True, exist_ok=True)
    print(f"{PROBLEM}\n{options.rounds} rounds a run, {options.seeds} seeds.\n")
    tasks = [
        (method, seed, options.rounds)
        for seed in range(options.seeds)
        for method in (OURS, FULL, FIXED)
    ]
    total = 4 * options.seeds * options.rounds
    found = run_all("demo.feedback.runs", tasks, total, unit="rounds", progress=not options.quiet)
    runs: list[Run] = [run for of_task in found for run in of_task]
    print(f"\n{comparison(runs)}\n\n{conclusion(runs)}\n")
    write_html(runs, options.output / "figure.html")
    write_png(runs, options.output / "figure.png")
    print(f"Written to {options.output.resolve()}: figure.html, figure.png")
    print(f"{time.monotonic() - started:.0f} seconds.")


if __name__ == "__main__":
    main()
