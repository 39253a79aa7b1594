"""What the demonstration prints: the problem, and what every method found for the same seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from demo.gittins.outcome import GITTINS, LABELS, Search
from demo.report import table

PROBLEM = """\
A neural network with one hidden layer learns to read the 1797 digits that ship with scikit-learn.
To be chosen: its learning rate (0.0003 to 0.05), hidden units (16 to 256), epochs (3 to 40) and
batch size (16 to 256), for the best accuracy under five-fold cross-validation. A trial costs the
CPU seconds that it takes, 0.04 to 4, measured as it runs; nothing is computed beforehand. All
methods minimise the logarithm of the error; ours is told that a second has to buy three per cent
less error, learns what trials cost, and stops when none is worth its seconds."""


def comparison(searches: Sequence[Search]) -> str:
    """A table of what each search took and found."""
    header = ["", "seed", "trials", "seconds", "saved", "best accuracy", "confirmed", "to deploy"]
    rows = [
        [
            LABELS[search.method],
            str(search.seed),
            str(len(search.trials)),
            f"{search.seconds:.1f}",
            f"{search.budget - search.seconds:.1f}" if search.stopped else "-",
            f"{search.best:.4f}",
            f"{search.confirmed:.4f}",
            setting(search.deployed),
        ]
        for method in LABELS
        for search in searches
        if search.method == method
    ]
    return table(header, rows)


def conclusion(searches: Sequence[Search]) -> str:
    """Why the kept search stopped, and what its saving cost or gained beside the others."""
    ours = [search for search in searches if search.method == GITTINS]
    lines = [f"Seed {ours[0].seed} stopped by itself: {ours[0].stopped}", ""]
    for method, label in LABELS.items():
        confirmed = [search.confirmed for search in searches if search.method == method]
        seconds = [search.seconds for search in searches if search.method == method]
        if confirmed:
            lines.append(
                f"{label}: mean confirmed accuracy {_mean(confirmed):.4f} for "
                f"{_mean(seconds):.1f} seconds"
            )
    return "\n".join(
        [
            *lines,
            "",
            "Confirmed is the accuracy of what would be deployed, on five other shuffles of the",
            "folds: the best of many accuracies on the same folds is partly luck. Few seeds show",
            "the idea; benchmarks/gittins_real.py measures the difference.",
        ]
    )


def setting(parameters: Mapping[str, Any]) -> str:
    """The hyperparameters in a few words."""
    return (
        f"rate {parameters['learning_rate']:.2g}, {parameters['units']} units, "
        f"{parameters['epochs']} epochs, batch {parameters['batch_size']}"
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
