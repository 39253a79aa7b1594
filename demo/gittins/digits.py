"""A neural network that reads digits: its error, and what training it really cost.

The data are the 1797 images of 8 x 8 pixels that ship with scikit-learn (Alpaydin and Kaynak 1998,
UCI repository), the classifier is scikit-learn's ``MLPClassifier`` with one hidden layer and Adam.
What counts is its accuracy under five-fold cross-validation. The folds and the network's random
state are fixed, so one setting has one accuracy.

The objective, to be minimised, is the natural logarithm of the error rate. It orders settings as
the accuracy does, but a Gaussian process cannot do much with accuracies: they go down to 0.1 in the
corners, and what is sought is the difference between 0.975 and 0.980. On the log scale both are
visible, and a difference of 0.01 means one per cent less error, wherever it is.

The cost of a trial is the time that its cross-validation, training and scoring, took: CPU seconds
of this process on one thread (``time.process_time``), measured anew each time. CPU seconds, not
elapsed ones, because what else the machine does would be charged to the trial otherwise. Costs run
from 0.04 to 4 s: they grow with epochs and units, and above all with small batches. An expensive
trial is not a good one by itself; with the wrong learning rate it is worse than a cheap one.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from ax.api.configs import RangeParameterConfig
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

OBJECTIVE = "log_error"
COST = "seconds"
FOLDS = 5

BOUNDS: dict[str, tuple[float, float]] = {
    "learning_rate": (3e-4, 5e-2),
    "units": (16, 256),
    "epochs": (3, 40),
    "batch_size": (16, 256),
}
"""Bounds of the hyperparameters, all of which belong on a log scale."""


@dataclass(frozen=True)
class Measured:
    """What came of training with one setting of the hyperparameters."""

    accuracy: float
    """Cross-validated accuracy, between 0 and 1."""

    seconds: float
    """CPU seconds that the cross-validation took."""

    @property
    def log_error(self) -> float:
        """Natural logarithm of the error rate; what is below one error in 10,000 counts as that."""
        return math.log(max(1.0 - self.accuracy, 1e-4))


def hyperparameters() -> list[RangeParameterConfig]:
    """The search space, for ``client.configure_experiment``."""
    return [
        RangeParameterConfig(
            name=name,
            bounds=bounds,
            parameter_type="float" if name == "learning_rate" else "int",
            scaling="log",
        )
        for name, bounds in BOUNDS.items()
    ]


def train(parameters: Mapping[str, Any], shuffle: int = 0) -> Measured:
    """Cross-validate one setting, on one thread.

    Args:
        parameters: A value for each of ``BOUNDS``.
        shuffle: Seed of the folds and of the network. Every search uses 0; another one measures
            what a setting is worth on folds that it was not chosen for.
    """
    images, labels, folds = _data(shuffle)
    correct = 0
    with threadpool_limits(1), warnings.catch_warnings():
        # That the number of epochs is a hyperparameter is the point.
        warnings.simplefilter("ignore", ConvergenceWarning)
        started = time.process_time()
        for learn, check in folds:
            network = MLPClassifier(
                hidden_layer_sizes=(int(parameters["units"]),),
                learning_rate_init=float(parameters["learning_rate"]),
                batch_size=int(parameters["batch_size"]),
                max_iter=int(parameters["epochs"]),
                n_iter_no_change=int(parameters["epochs"]),
                random_state=shuffle,
            )
            network.fit(images[learn], labels[learn])
            correct += int((network.predict(images[check]) == labels[check]).sum())
        seconds = time.process_time() - started
    return Measured(accuracy=correct / len(labels), seconds=seconds)


def confirmed_accuracy(parameters: Mapping[str, Any], shuffles: int = 5) -> float:
    """Mean accuracy of a setting under other shuffles than the one that it was chosen by.

    The best of many accuracies on the same folds is too good: part of it is luck with these folds.
    """
    return float(np.mean([train(parameters, 1 + i).accuracy for i in range(shuffles)]))


@cache
def _data(shuffle: int) -> tuple[Any, Any, tuple[tuple[Any, Any], ...]]:
    """Images (1797 x 64, in [0, 1]), labels, and the row numbers of each fold."""
    images, labels = load_digits(return_X_y=True)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=shuffle).split(images, labels)
    return images / 16, labels, tuple(folds)
