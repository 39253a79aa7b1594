"""What the demonstration prints: the problem, and what every method found for the same seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from demo.gittins.outcome import GITTINS, LABELS, PRICE, Search
from demo.report import table

PROBLEM = """\
A neural network with one hidden layer learns to read the 1797 digits that ship with scikit-learn.
To be chosen: its learning rate (0.0003 to 0.05), hidden units (16 to 256), epochs (3 to 40) and
batch size (16 to 256), for the best accuracy under five-fold cross-validation. A trial costs the
CPU seconds that it takes, 0.04 to 4, measured as it runs; nothing is computed beforehand. All
methods minimise the logarithm of the error; ours is told that a second has to buy three per cent
less error, learns what trials cost, and stops when none is worth its seconds."""

COLUMNS = f"""\
best       the best cross-validated accuracy seen in the search: partly luck with its folds
confirmed  accuracy of what would be deployed, on five other shuffles of the folds
total      log of the confirmed error, plus {PRICE:g} for each second; lower is better. Who goes on
           finds more, and whether that is worth the seconds is what the total says
Few seeds show the idea; benchmarks/gittins_real.py measures the difference."""


def comparison(searches: Sequence[Search]) -> str:
    """A table of what each search took and found."""
    header = ["", "seed", "trials", "seconds", "saved", "best", "confirmed", "total", "to deploy"]
    rows = [
        [
            LABELS[search.method],
            str(search.seed),
            str(len(search.trials)),
            f"{search.seconds:.1f}",
            f"{search.budget - search.seconds:.1f}" if search.stopped else "-",
            f"{search.best:.4f}",
            f"{search.confirmed:.4f}",
            f"{search.total:.2f}",
            setting(search.deployed),
        ]
        for method in LABELS
        for search in searches
        if search.method == method
    ]
    return table(header, rows)


def conclusion(searches: Sequence[Search]) -> str:
    """Why the kept search stopped, the means over seeds, and what the columns are."""
    ours = [search for search in searches if search.method == GITTINS]
    lines = [f"Seed {ours[0].seed}. {ours[0].stopped}", ""]
    for method, label in LABELS.items():
        of_method = [search for search in searches if search.method == method]
        if of_method:
            lines.append(
                f"{label}: mean confirmed accuracy {_mean([s.confirmed for s in of_method]):.4f} "
                f"for {_mean([s.seconds for s in of_method]):.1f} seconds, "
                f"total {_mean([s.total for s in of_method]):.2f}"
            )
    return "\n".join([*lines, "", COLUMNS])


def setting(parameters: Mapping[str, Any]) -> str:
    """The hyperparameters in a few words."""
    return (
        f"rate {parameters['learning_rate']:.2g}, {parameters['units']} units, "
        f"{parameters['epochs']} epochs, batch {parameters['batch_size']}"
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
