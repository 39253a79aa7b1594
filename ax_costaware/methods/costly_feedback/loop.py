"""Costly feedback without Ax: a loop that chooses a point each round, and whether to measure it.

CE-GP-UCB of Wang, Ren, Bogunovic, Xiong and Urtasun 2020, *Cost-Efficient Online Hyperparameter
Optimization*, Algorithm 1, for a running process such as a training run, a service or a plant.
Outcomes are maximized, in the user's own unit.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.exceptions.errors import ModelFittingError
from gpytorch.kernels import Kernel
from numpy.typing import ArrayLike
from torch import Tensor

from ax_costaware.argument_checks import (
    boolean,
    instance_of,
    integer_at_least,
    number_between_zero_and_one,
    number_with_square,
    optional,
    plain_value,
    positive_number,
)
from ax_costaware.exceptions import InputError
from ax_costaware.methods.beta import BetaSchedule, checked_beta
from ax_costaware.methods.costly_feedback.box import BoxDomain
from ax_costaware.methods.costly_feedback.domain import (
    Hyperparameters,
    Observation,
    Point,
    ResetEvery,
    check_kernel,
)
from ax_costaware.methods.costly_feedback.finite import TOLERANCE, FiniteDomain
from ax_costaware.methods.costly_feedback.learned_model import initial_model, learned_model
from ax_costaware.methods.costly_feedback.plain_values import (
    kernel_from_dict,
    kernel_to_dict,
    value_from_dict,
    value_to_dict,
)
from ax_costaware.methods.costly_feedback.rules import (
    FeedbackRule,
    MeasurementChoice,
    checked_rule,
    default_rule,
)

_FIRST_FIT = 8
"""Measurements before the first fit of hyperparameters; fits follow at each doubling."""

_LARGEST_FIT = 256
"""Measurements at the last fit, after which hyperparameters stay."""

_REPLAYED = 4
"""Power of ``TOLERANCE``: the weight down to which a stored loop replays measurements."""

_MOST_REPLAYED = 20_000
"""Largest number of replayed measurements, the latest ones."""


class Ask(NamedTuple):
    """Advice for a round."""

    x: Point | float
    """The point to use: ``d`` numbers, or one if the candidates are numbers."""

    measure: bool
    """True if its outcome is worth measuring."""

    reason: str
    """The reason, a sentence."""


class CostlyFeedbackLoop:
    """Loop that chooses a point each round, and whether to measure its outcome.

    Each round, call ``ask`` and use its point; then ``tell`` the outcome, if it was measured, or
    ``skip``. Both are allowed whatever was advised.

    Args:
        candidates: The points that can be used: an ``m x d`` array, or ``m`` numbers; at least two,
            all different.
        bounds: Instead of candidates, a box: a ``2 x d`` array of lower and upper bounds.
        kernel: Covariance over points: a GPyTorch kernel over their own coordinates, whose
            hyperparameters stay as they are, in squared units of the outcome, whose prior mean is
            then zero; ``models.IndependentKernel`` for the arms of a bandit. None: kernel and mean
            are learned.
        forgetting: Forgetting rate per round, in (0, 1): between rounds the function keeps the
            share ``sqrt(1 - forgetting)`` of itself. Or ``ResetEvery(rounds)``. None: it is
            learned.
        noise: Variance of the noise of a measurement, > 0. None: it is learned.
        rule: Rule that decides on measurements. None: ``MeasurementRule(0.9)``; with a lower quota
            of a tenth if the forgetting rate is learned, since it may be learned too small.
        beta: Weight of the upper confidence bound ``mean + sqrt(beta) * sd``: a number >= 0, or a
            schedule; ``LogarithmicBeta()`` by default, 0.8 log(4 t) in round t.
        seed: Seed of all random numbers. None: 0.
        keep_point: Keep the point of the last round, if nothing was measured there, until a rival
            has a larger upper confidence bound. False: the largest bound in each round, as in the
            paper; in a box each round is searched then.

    Hyperparameters are learned by marginal likelihood, after 8 measurements and again each time
    their number has doubled, up to 256. Until there are 8, points are random and measured.
    ``ResetEvery`` forgets the function, not the hyperparameters: each block is another draw.

    A measurement whose weight has decayed below 1e-4 is dropped, so that memory and time of a round
    are bounded, however many there are.

    Raises:
        InputError: If an argument is not as described; not both or neither of ``candidates`` and
            ``bounds`` are given.
    """

    # Gradients are needed even if the user calls the loop in inference mode.
    @torch.inference_mode(False)
    def __init__(
        self,
        candidates: ArrayLike | None = None,
        bounds: ArrayLike | None = None,
        kernel: Kernel | None = None,
        forgetting: float | ResetEvery | None = None,
        noise: float | None = None,
        rule: FeedbackRule | None = None,
        beta: float | BetaSchedule | None = None,
        seed: int | None = None,
        keep_point: bool = True,
    ) -> None:
        if (candidates is None) == (bounds is None):
            raise InputError(
                f"candidates={candidates!r}, bounds={bounds!r}: expected exactly one of them."
            )
        instance_of(kernel, "kernel", Kernel | None, "a GPyTorch kernel, or None")
        if forgetting is not None and not isinstance(forgetting, ResetEvery):
            forgetting = number_between_zero_and_one(forgetting, "forgetting")
        optional(checked_rule)(rule, "rule")
        self._forgetting = forgetting
        self._noise = None if noise is None else positive_number(noise, "noise")
        self._rule = default_rule(forgetting is not None) if rule is None else rule
        self._beta = checked_beta(beta, "beta")
        self._seed = 0 if seed is None else integer_at_least(seed, 0, "seed")
        self._keep_point = boolean(keep_point, "keep_point")
        self._kernel = None if kernel is None else deepcopy(kernel).double().requires_grad_(False)
        self._domain: FiniteDomain | BoxDomain
        if candidates is not None:
            self._domain = FiniteDomain(candidates, kernel is None, keep_point)
        elif bounds is not None:
            self._domain = BoxDomain(bounds, kernel is None, self._seed, keep_point)
        if self._kernel is not None:
            check_kernel(self._kernel, self._domain.dimension, in_box=candidates is None)
        if self._learns and isinstance(forgetting, ResetEvery) and forgetting.rounds < _FIRST_FIT:
            raise InputError(
                f"forgetting={forgetting!r}: expected at least {_FIRST_FIT} rounds, to learn from."
            )
        self._round = 1
        self._num_measured = 0
        self._history: deque[Observation] = deque(maxlen=_MOST_REPLAYED)
        self._asked: tuple[Any, Ask] | None = None
        self._start: Any = self._domain.random_key(self._generator(0))
        rate = 0.0 if isinstance(forgetting, ResetEvery) else forgetting
        self._take(initial_model(self._domain.dimension, self._kernel, rate, self._noise))

    @property
    def round(self) -> int:
        """The round that ``ask`` answers for, counted from 1."""
        return self._round

    @property
    def num_measured(self) -> int:
        """Number of outcomes measured so far."""
        return self._num_measured

    @property
    def model(self) -> Hyperparameters:
        """The hyperparameters in force."""
        return self._model

    @torch.inference_mode(False)
    def ask(self) -> Ask:
        """Return the point to use in this round, whether to measure it, and the reason.

        The answer stays the same until the round is closed by ``tell`` or ``skip``.
        """
        if self._asked is None:
            key, decision = self._decide()
            answer = Ask(self._domain.point(key), decision.measure, decision.reason)
            self._asked = key, answer
        return self._asked[1]

    @torch.inference_mode(False)
    def tell(self, y: float | np.ndarray | Tensor) -> None:
        """Record the outcome of the point that was asked for, and go to the next round.

        Args:
            y: The outcome, of a size of 1e100 at most: a number, or an array or tensor without
                dimensions.

        Raises:
            InputError: If ``y`` is not a finite number or too large, or nothing was asked in this
                round; the loop is then unchanged.
        """
        key, _ = self._open("tell")
        value = number_with_square(plain_value(y), "y")
        observation = Observation(key, self._round, value)
        self._domain.observe(observation)
        self._history.append(observation)
        self._num_measured += 1
        self._prune()
        try:
            if self._learns and self._num_measured in _FITS:
                self._learn()
        finally:
            # The measurement counts even if the fit is interrupted.
            self._next_round()

    def skip(self) -> None:
        """Go to the next round without a measurement.

        Raises:
            InputError: If nothing was asked in this round; the loop is then unchanged.
        """
        self._open("skip")
        self._next_round()

    def to_dict(self) -> dict[str, Any]:
        """Return the loop as plain JSON values, for ``from_dict``.

        Raises:
            UnsupportedInputError: If the kernel, the rule or the schedule is not of a class that
                is known by name; the message says which.
        """
        return {
            **self._domain.to_dict(),
            "kernel": None if self._kernel is None else kernel_to_dict(self._kernel),
            "forgetting": value_to_dict(self._forgetting, "forgetting"),
            "noise": self._noise,
            "rule": value_to_dict(self._rule, "rule"),
            "beta": value_to_dict(self._beta, "beta"),
            "seed": self._seed,
            "keep_point": self._keep_point,
            "round": self._round,
            "num_measured": self._num_measured,
            "asked": self._asked is not None,
            "history": [list(observation) for observation in self._history],
            "model": {**vars(self._model), "kernel": kernel_to_dict(self._model.kernel)},
        }

    @classmethod
    @torch.inference_mode(False)
    def from_dict(cls, stored: dict[str, Any]) -> CostlyFeedbackLoop:
        """Return the loop that ``to_dict`` stored; its next answer is the same.

        Raises:
            InputError: If ``stored`` is not what ``to_dict`` returned.
        """
        try:
            kernel = stored["kernel"]
            loop = cls(
                candidates=stored.get("candidates"),
                bounds=stored.get("bounds"),
                kernel=None if kernel is None else kernel_from_dict(kernel),
                forgetting=value_from_dict(stored["forgetting"]),
                noise=stored["noise"],
                rule=value_from_dict(stored["rule"]),
                beta=value_from_dict(stored["beta"]),
                seed=stored["seed"],
                keep_point=stored["keep_point"],
            )
            loop._round = integer_at_least(stored["round"], 1, "round")
            loop._num_measured = integer_at_least(stored["num_measured"], 0, "num_measured")
            loop._history.extend(
                Observation(tuple(key) if isinstance(key, list) else key, when, value)
                for key, when, value in stored["history"]
            )
            model = stored["model"]
            loop._take(Hyperparameters(**{**model, "kernel": kernel_from_dict(model["kernel"])}))
            loop._domain.restore(stored)
            if stored["asked"]:
                loop.ask()
            return loop
        except InputError:
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"stored: expected what to_dict returned, got {type(error).__name__}: {error}."
            ) from error

    @property
    def _learns(self) -> bool:
        return self._kernel is None or self._forgetting is None or self._noise is None

    @property
    def _block(self) -> Sequence[Observation]:
        """The measurements since the last reset."""
        if not isinstance(self._forgetting, ResetEvery):
            return self._history
        first = self._round - (self._round - 1) % self._forgetting.rounds
        return [observation for observation in self._history if observation.round >= first]

    def _decide(self) -> tuple[Any, MeasurementChoice]:
        now, rule = self._round, self._rule
        if self._learns and self._num_measured < _FIRST_FIT:
            key = self._domain.random_key(self._generator(now))
            return key, MeasurementChoice(
                True,
                f"measurement {self._num_measured + 1} of the first {_FIRST_FIT}, at random, from "
                "which the model is learned",
            )
        beta = self._beta if isinstance(self._beta, float) else self._beta(now)
        # Where nothing is known the bound is the same everywhere: a random point is a maximizer.
        is_known = bool(self._block)
        choice = self._domain.choose(now, beta) if is_known else self._domain.at(self._start, now)
        draw = partial(next, self._draws())
        return choice.key, self._domain.measurement(rule, choice, now, beta, draw)

    def _learn(self) -> None:
        latest = list(self._history)[-_LARGEST_FIT:]
        try:
            model = learned_model(
                inputs=np.array([self._domain.inputs(o.key) for o in latest]),
                rounds=np.array([float(o.round) for o in latest]),
                values=np.array([o.value for o in latest]),
                kernel=self._kernel,
                forgetting=self._forgetting,
                noise=self._noise,
                seed=self._seed,
            )
        except ModelFittingError:
            return  # The hyperparameters in force stay.
        self._take(model)

    def _take(self, model: Hyperparameters) -> None:
        self._model = model
        self._domain.condition(model, list(self._block))

    def _next_round(self) -> None:
        self._round += 1
        self._asked = None
        forgetting = self._forgetting
        if isinstance(forgetting, ResetEvery) and (self._round - 1) % forgetting.rounds == 0:
            if not self._learns or self._num_measured >= _LARGEST_FIT:
                self._history.clear()
            self._domain.condition(self._model, [])

    def _prune(self) -> None:
        log_decay = 0.5 * math.log1p(-self._model.forgetting)
        if log_decay == 0 or (self._learns and self._num_measured <= _LARGEST_FIT):
            return
        age = _REPLAYED * math.log(TOLERANCE) / log_decay
        while self._round - self._history[0].round > age:
            self._history.popleft()

    def _open(self, call: str) -> tuple[Any, Ask]:
        """Key and answer of the open round."""
        if self._asked is None:
            raise InputError(f"{call} before ask: round {self._round} has not been asked for yet.")
        return self._asked

    def _generator(self, round_index: int) -> np.random.Generator:
        return np.random.default_rng((self._seed, round_index))

    def _draws(self) -> Iterator[float]:
        """Yield uniform numbers; the generator is created lazily, since most rules draw nothing."""
        generator = self._generator(self._round)
        while True:
            yield float(generator.random())


_FITS = frozenset(_FIRST_FIT * 2**k for k in range((_LARGEST_FIT // _FIRST_FIT).bit_length()))
