"""What the demonstration prints: the problem, and what every method found for the same budget."""

from __future__ import annotations

from collections.abc import Sequence

from demo.outcome import LABELS, Run

PROBLEM = """\
A plant oxidises ammonia (Brownlee 1965, 21 days). Every day it may set its air flow, the
temperature of its cooling water and the concentration of its acid, or leave any of them to chance,
which is then as on a random day of the table. Setting one costs 1, two 2, all three 10. The plant
is a Gaussian process fitted to the table, noise included; the margin to maximise is ammonia
absorbed less 20 times the ammonia that escapes, which is our assumption, like the costs."""


def comparison(runs: Sequence[Run]) -> str:
    """A table of the true expected margin that each method would deploy, seed by seed."""
    seeds = sorted({run.seed for run in runs})
    values = {(run.method, run.seed): run.value for run in runs}
    header = ["true expected margin deployed", *(f"seed {seed}" for seed in seeds), "mean"]
    rows = []
    for method, label in LABELS.items():
        of_seed = [values[method, seed] for seed in seeds]
        rows.append([label, *map(_number, of_seed), _number(sum(of_seed) / len(of_seed))])
    best = _number(runs[0].best_possible)
    rows.append(["best possible", *([best] * (len(seeds) + 1))])
    ahead = sum(values["control_sets", seed] > values["plain_ax", seed] for seed in seeds)
    return (
        f"{table(header, rows)}\n\n"
        f"Seven control sets came out ahead of plain Ax in {ahead} of {len(seeds)} seeds."
    )


def details(runs: Sequence[Run], seed: int) -> str:
    """What each method paid and would deploy in one seed."""
    header = [f"seed {seed}", "cost", "trials", "to deploy", "true expected margin"]
    rows = [
        [
            LABELS[run.method],
            _number(run.spent),
            str(len(run.chosen)),
            ", ".join(f"{name} {value:.1f}" for name, value in sorted(run.deployed.items())),
            _number(run.value),
        ]
        for run in runs
        if run.seed == seed
    ]
    return table(header, rows)


def _number(value: float) -> str:
    return f"{value:.2f}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines of text with aligned columns, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in (header, *rows)
    ]
    return "\n".join((lines[0], "  ".join("-" * width for width in widths), *lines[1:]))
