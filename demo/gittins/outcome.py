"""What comes of a search, apart from the searches themselves, whose import of Ax takes long."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

GITTINS = "gittins"
LABELS = {
    GITTINS: "ax_costaware, Gittins index",
    "plain_ax": "plain Ax",
    "random": "random search",
}


PRICE = 0.03
"""What a second has to buy: a log error lower by 0.03, which is three per cent less error."""


@dataclass(frozen=True)
class Trained:
    """One trial of a search."""

    parameters: dict[str, Any]
    """The hyperparameters."""

    accuracy: float
    """Cross-validated accuracy."""

    seconds: float
    """What measuring it took, in CPU seconds."""


@dataclass(frozen=True)
class Search:
    """What came of one search."""

    method: str
    """One of ``LABELS``."""

    seed: int

    budget: float
    """CPU seconds that the trials may take together."""

    trials: tuple[Trained, ...]
    """In order; without a trial that was still running when the budget ran out."""

    deployed: dict[str, Any]
    """The hyperparameters that the method would deploy."""

    confirmed: float
    """Accuracy of these on folds that they were not chosen by."""

    stopped: str = ""
    """What the method said when it stopped by itself."""

    card: Mapping[str, Any] | None = None
    """The figure of the stopping analysis, as Plotly's JSON object; of kept experiments only."""

    history: pd.DataFrame | None = None
    """The frame of the stopping analysis; of kept experiments only."""

    @property
    def seconds(self) -> float:
        """CPU seconds that the trials took."""
        return sum(trial.seconds for trial in self.trials)

    @property
    def best(self) -> float:
        """The best accuracy seen."""
        return max(trial.accuracy for trial in self.trials)

    @property
    def total(self) -> float:
        """Log of the confirmed error plus the price of the seconds: what the search is to keep low.

        With a price of time, a search is good if what it found and what it took are, together.
        """
        return math.log(1.0 - self.confirmed) + PRICE * self.seconds

    @property
    def curve(self) -> tuple[list[float], list[float]]:
        """Seconds after each trial, and the best accuracy by then."""
        seconds, best = [0.0], [0.0]
        for trial in self.trials:
            seconds.append(seconds[-1] + trial.seconds)
            best.append(max(best[-1], trial.accuracy))
        return seconds[1:], best[1:]
