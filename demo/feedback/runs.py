"""A training run whose settings are chosen by one method.

What is maximised is the gain of a round: by how much the logarithm of the validation loss falls
while the round's setting is in use. To measure it takes a look at the validation pictures before
and after the round; consecutive measurements share one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np
import torch
from botorch.exceptions.warnings import BotorchWarning
from scipy.stats import qmc

from ax_costaware.methods import (
    BernoulliRule,
    CostlyFeedbackLoop,
    FeedbackRule,
    FullFeedback,
    MeasurementRule,
    MixedRule,
)
from demo.feedback.outcome import BERNOULLI, FIXED, FULL, OURS, Run
from demo.feedback.training import BOUNDS, Training

LOWER, UPPER = np.array(list(BOUNDS.values())).T
NUM_CANDIDATES = 512
FIRST_ROUNDS = 20
RULE = MixedRule(MeasurementRule(0.8), lower=0.1, upper=1.0)
"""Measure unless the setting in use is better than others with a probability of 0.8, and a tenth of
the rounds in any case."""

MIDDLE = tuple((LOWER + UPPER) / 2)


def candidates() -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Settings to choose from, quasi-random in the box of ``BOUNDS``."""
    points = qmc.Sobol(len(BOUNDS), rng=np.random.default_rng(0)).random(NUM_CANDIDATES)
    scaled: np.ndarray[tuple[int, int], np.dtype[np.float64]] = qmc.scale(points, LOWER, UPPER)
    return scaled


def run(method: str, seed: int, rounds: int, on_round: Callable[[float], None]) -> list[Run]:
    """Train once, or, for ``OURS``, a second time with as many measurements at random.

    Args:
        method: One of ``LABELS``; ``BERNOULLI`` comes with ``OURS``.
        seed: Of the run.
        rounds: Rounds of training.
        on_round: Called with 1 for every round.
    """
    torch.set_num_threads(1)
    # The fit of hyperparameters says so when it tries again.
    warnings.simplefilter("ignore", BotorchWarning)
    if method == FIXED:
        return [_fixed(seed, rounds, on_round)]
    if method == FULL:
        return [_tuned(FULL, FullFeedback(), seed, rounds, on_round)]
    ours = _tuned(OURS, RULE, seed, rounds, on_round)
    # The first measurements are made in any case.
    first = 8
    share = (ours.num_measured - first) / max(rounds - first, 1)
    rule = BernoulliRule(min(max(share, 0.0), 1.0))
    return [ours, _tuned(BERNOULLI, rule, seed, rounds, on_round)]


def _begun(seed: int) -> Training:
    """A training run after its first rounds, which gain much with any setting."""
    training = Training(seed)
    for _ in range(FIRST_ROUNDS):
        training.train_round(MIDDLE)
    return training


def _fixed(seed: int, rounds: int, on_round: Callable[[float], None]) -> Run:
    training = _begun(seed)
    for _ in range(rounds):
        training.train_round(MIDDLE)
        on_round(1.0)
    return _outcome(FIXED, seed, training, [MIDDLE] * rounds, [False] * rounds)


def _tuned(
    method: str,
    rule: FeedbackRule,
    seed: int,
    rounds: int,
    on_round: Callable[[float], None],
) -> Run:
    training = _begun(seed)
    loop = CostlyFeedbackLoop(candidates(), rule=rule, seed=seed)
    settings, measured = [], []
    before: float | None = None
    for _ in range(rounds):
        setting, measure, _ = loop.ask()
        assert isinstance(setting, np.ndarray)
        if measure and before is None:
            before = training.validation_loss()
        training.train_round(setting.tolist())
        if measure and before is not None:
            after = training.validation_loss()
            loop.tell(math.log(before / after))
            before = after
        else:
            loop.skip()
            before = None
        settings.append(tuple(setting.tolist()))
        measured.append(measure)
        on_round(1.0)
    return _outcome(method, seed, training, settings, measured)


def _outcome(
    method: str,
    seed: int,
    training: Training,
    settings: list[tuple[float, ...]],
    measured: list[bool],
) -> Run:
    camera = training.camera
    return Run(
        method,
        seed,
        tuple(settings),
        tuple(measured),
        training.test_accuracy(),
        (camera.rotation, camera.shift, camera.noise),
    )
