"""What the demonstration prints: the problem, and what every method came to."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from demo.feedback.outcome import FIXED, FULL, LABELS, OURS, Run
from demo.report import table

PROBLEM = """\
A network learns to read digits from 600 clean pictures, for a camera that turns and shifts them and
adds noise, by how much nobody knows. How strongly the training pictures are turned, shifted and
made noisy, and how much is dropped out, is tuned while the network is trained, in one run. To see
what a round of training has gained takes a look at 600 labelled pictures of the camera. Tuning
begins after 20 rounds in the middle of all ranges."""


def comparison(runs: Sequence[Run]) -> str:
    """A table with a row for each method."""
    fixed = {run.seed: run.accuracy for run in runs if run.method == FIXED}
    rows = []
    for method, label in LABELS.items():
        of_method = [run for run in runs if run.method == method]
        accuracy = np.array([run.accuracy for run in of_method])
        gain = accuracy - np.array([fixed[run.seed] for run in of_method])
        count = np.mean([run.num_measured for run in of_method])
        rows.append(
            [
                label,
                f"{count:.0f} of {len(of_method[0].measured)}",
                f"{100 * accuracy.mean():.1f}",
                "-" if method == FIXED else f"{100 * gain.mean():+.1f} ± {_error(100 * gain)}",
                " ".join(f"{100 * value:.0f}" for value in accuracy),
            ]
        )
    header = ["", "rounds measured", "test accuracy, %", "beside fixed", "by seed"]
    return table(header, rows)


def conclusion(runs: Sequence[Run]) -> str:
    """What the table says, with its uncertainty."""
    accuracy = {
        method: {run.seed: run.accuracy for run in runs if run.method == method}
        for method in LABELS
    }
    ours = accuracy[OURS]
    lines = []
    for method, label in LABELS.items():
        if method != OURS:
            gain = 100 * np.array([ours[seed] - accuracy[method][seed] for seed in ours])
            lines.append(f"{LABELS[OURS]}, less {label}: {gain.mean():+.1f} ± {_error(gain)}")
    measured = np.mean([run.num_measured for run in runs if run.method == OURS])
    every = len(next(run for run in runs if run.method == FULL).measured)
    lines.append(
        f"Mean and standard error over {len(ours)} seeds, in points of accuracy; "
        f"{100 * (1 - measured / every):.0f} % of the measurements are saved.\n"
        "A seed is another camera, another network and other pictures. Few seeds show the idea; a "
        "difference\nbelow twice its standard error may be chance."
    )
    return "\n".join(lines)


def _error(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    """Standard error of a mean; unknown from one value."""
    if len(values) < 2:
        return "?"
    return f"{values.std(ddof=1) / math.sqrt(len(values)):.1f}"
