"""A box as the domain of the costly-feedback loop.

After a measurement, the upper confidence bound is maximized and the rivals of its best point are
searched for. In a skipped round the posterior changes by a factor of the time alone, and the optima
hardly move. The moments at those of the last search then follow exactly, in a few operations on
vectors, until the weight of the observations has fallen enough to search again.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.kernels import ScaleKernel
from gpytorch.means import ZeroMean
from numpy.typing import ArrayLike
from torch import Tensor

from ax_costaware.acquisition.confidence_search import RAW_SAMPLES, ConfidenceSearch
from ax_costaware.acquisition.optimize import Region
from ax_costaware.exceptions import InputError
from ax_costaware.laws.tables import table
from ax_costaware.methods.costly_feedback.domain import (
    NO_FORGETTING,
    Hyperparameters,
    Observation,
    Point,
)
from ax_costaware.methods.costly_feedback.finite import TOLERANCE
from ax_costaware.methods.costly_feedback.round import Choice, RoundPoints, SearchedRound
from ax_costaware.methods.costly_feedback.rules import RIVAL_CORRELATION, FeedbackRule, Rivals
from ax_costaware.models.outcome_scale import OutcomeScale
from ax_costaware.models.posterior import ExactPosterior
from ax_costaware.models.time_varying_gp import TimeVaryingGP

MOST_OBSERVATIONS = 1_000
"""Most observations, the latest ones: the time of a measurement grows with their cube."""

SEARCHED_AGAIN = 0.05
"""Loss of weight of the latest observation after which the search is repeated. There are at most
twenty searches between two measurements."""

_NEAR = 128
"""Number of latest observations whose points are also starts of a search."""

Key: TypeAlias = tuple[float, ...]


class BoxDomain(RoundPoints):
    """All points of a box.

    Args:
        bounds: ``2 x d`` lower and upper bounds.
        unit_cube: True to scale points to the unit cube for the kernel.
        seed: Seed of the starts of searches.
        keep_point: False to search in each round.

    Raises:
        InputError: Unless ``bounds`` has two rows of finite numbers, the first below the second.
    """

    def __init__(
        self, bounds: ArrayLike, unit_cube: bool, seed: int, keep_point: bool = True
    ) -> None:
        self._bounds = _checked(bounds)
        self._lower, self._width = self._bounds[0], self._bounds[1] - self._bounds[0]
        self.dimension = len(self._lower)
        if unit_cube:
            self._shift, self._scale = self._lower, self._width
        else:
            self._shift, self._scale = np.zeros_like(self._lower), np.ones_like(self._width)
        self._seed = seed
        self._most_loss = SEARCHED_AGAIN if keep_point else 0.0
        self._posterior: ExactPosterior | None = None
        # The last search, and the keys of its optima.
        self._searched: tuple[SearchedRound, list[Key]] | None = None

    def point(self, key: Key) -> Point:
        """Return the point as an array."""
        return np.array(key)

    def inputs(self, key: Key) -> Point:
        """Return the coordinates for the kernel."""
        return np.asarray((np.array(key) - self._shift) / self._scale)

    def random_key(self, generator: np.random.Generator) -> Key:
        """Return a uniform random point."""
        return self._key(self._lower + self._width * generator.random(self.dimension))

    def condition(self, model: Hyperparameters, observations: Sequence[Observation]) -> None:
        """Take a model, and condition it on observations in the order of their rounds."""
        kernel = ScaleKernel(model.kernel).double()
        kernel.outputscale = torch.tensor(model.outputscale, dtype=torch.double)
        self._model, self._kernel = model, kernel
        self._log_decay = 0.5 * math.log1p(-model.forgetting)
        self._observations = deque(observations, maxlen=MOST_OBSERVATIONS)
        self._forget()

    def observe(self, observation: Observation) -> None:
        """Condition on one more observation, not older than any before it."""
        self._observations.append(observation)
        self._forget()

    def choose(self, now: float, beta: float) -> Choice:
        """Return the point with the largest upper confidence bound, by local searches."""
        last = self._searched
        if last is None or self._weight(last[0].now) - self._weight(now) > self._most_loss:
            last = self._search(now, beta)
        choice = last[0].choose(now, beta)
        return replace(choice, key=last[1][choice.key])

    def at(self, key: Key, now: float) -> Choice:
        """Return a point with its posterior."""
        x = self._row(key).unsqueeze(0)
        with torch.no_grad():
            if self._observations:
                mean, variance = self._at(now)(x)
            else:
                mean, variance = torch.zeros(1), self._kernel(x, diag=True)
        return Choice(key, self._model.mean + float(mean), float(variance))

    def rivals(self, choice: Choice, now: float, beta: float, rule: FeedbackRule) -> Rivals:
        """Return the rivals of the chosen point, among them the strongest ones."""
        if not self._observations:
            # Any other point is as good.
            return Rivals(np.array([choice.mean]), np.array([choice.variance]), np.zeros(1))
        found, keys = self._searched or self._search(now, beta)
        choice = replace(choice, key=keys.index(choice.key))
        return found.rivals(choice, now, beta, rule)

    def to_dict(self) -> dict[str, Any]:
        """Return the bounds as plain values, and time and beta of the last search."""
        searched = None
        if self._searched is not None:
            searched = [self._searched[0].now, self._searched[0].beta]
        return {"bounds": self._bounds.tolist(), "searched": searched}

    def restore(self, stored: dict[str, Any]) -> None:
        """Repeat the last search of a stored domain, so that the next answer is the same."""
        if stored["searched"] is not None:
            now, beta = stored["searched"]
            self._search(now, beta)

    def _key(self, point: Point) -> Key:
        """Return the key of a point, clipped to the bounds."""
        inside = np.clip(point, self._bounds[0], self._bounds[1])
        return tuple(float(number) for number in inside)

    def _row(self, key: Key) -> Tensor:
        return torch.as_tensor(self.inputs(key))

    def _weight(self, now: float) -> float:
        """Return the remaining weight of the latest observation in round ``now``."""
        return math.exp(self._log_decay * (now - self._observations[-1].round))

    def _forget(self) -> None:
        """Drop observations of negligible weight, and clear caches."""
        rows = self._observations
        while rows and self._log_decay * (rows[-1].round - rows[0].round) < math.log(TOLERANCE):
            rows.popleft()
        self._posterior = self._searched = None

    def _at(self, now: float) -> ExactPosterior:
        if self._posterior is None:
            rows = [[*self.inputs(o.key), o.round] for o in self._observations]
            values = [[o.value - self._model.mean] for o in self._observations]
            model = TimeVaryingGP(
                torch.tensor(rows, dtype=torch.double),
                torch.tensor(values, dtype=torch.double),
                covar_module=self._kernel,
                forgetting=max(self._model.forgetting, NO_FORGETTING),
                noise=self._model.noise,
                mean_module=ZeroMean(),
                outcome_transform=None,
            )
            self._posterior = ExactPosterior.of(model.requires_grad_(False))
        return self._posterior.at_time(now)

    def _search(self, now: float, beta: float) -> tuple[SearchedRound, list[Key]]:
        bounds = torch.as_tensor((self._bounds - self._shift) / self._scale)
        # Starts over the whole box and at observations, with new Sobol points for each search.
        seed = int(np.random.SeedSequence([self._seed, int(now)]).generate_state(1)[0])
        sobol = draw_sobol_samples(bounds, n=RAW_SAMPLES, q=1, seed=seed).squeeze(-2)
        latest = dict.fromkeys(o.key for o in list(self._observations)[-_NEAR:])
        starts = torch.cat([sobol, *(self._row(key).unsqueeze(0) for key in latest)])
        search = ConfidenceSearch(self._at(now), Region(bounds), RIVAL_CORRELATION, starts)
        found = SearchedRound(search, now, beta, OutcomeScale(self._model.mean))
        points = self._shift + self._scale * found.optima.point.numpy()
        self._searched = found, [self._key(point) for point in points]
        return self._searched


def _checked(bounds: ArrayLike) -> Point:
    expected = "a 2 x d array of finite numbers, lower bounds and, above them, upper ones"
    found = table(bounds, "bounds")
    if np.ndim(bounds) != 2 or len(found) != 2:
        raise InputError(f"bounds of shape {np.shape(bounds)}: expected {expected}.")
    if not (found[0] < found[1]).all():
        column = int((found[0] < found[1]).argmin())
        raise InputError(f"bounds[:, {column}]={found[:, column].tolist()!r}: expected {expected}.")
    return found
