"""A box as the domain of the costly-feedback loop.

After a measurement the upper confidence bound and the rivals of its best point are searched for. On
a skipped round the posterior changes by a factor of the time alone, and the optima hardly move:
what the last search found is evaluated at the new time, exactly, until the weight of the
observations has fallen so far that it is time to search again.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

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
    Choice,
    Hyperparameters,
    Observation,
    Point,
)
from ax_costaware.methods.costly_feedback.finite import TOLERANCE
from ax_costaware.methods.costly_feedback.rules import RIVAL_CORRELATION, Compare, Rivals
from ax_costaware.models.posterior import ExactPosterior
from ax_costaware.models.time_varying_gp import TimeVaryingGP

MOST_OBSERVATIONS = 1_000
"""Number of latest observations that are kept, however slowly they are forgotten: the time of a
measurement grows with its cube."""

SEARCHED_AGAIN = 0.05
"""Part of the weight of a new observation that the latest one loses before there is another search
without a new one: so there are twenty at most, however long nothing is measured."""

_NEAR = 128
"""Searches also start from the points of so many observations, the latest."""

_ROUNDING = 1e-9
"""A point that went to the user's coordinates and back is so close to what it was, as a part of the
box."""

Key: TypeAlias = tuple[float, ...]


class _Searched(NamedTuple):
    """Result of the last search."""

    search: ConfidenceSearch
    """The search."""

    now: float
    """Its time."""

    beta: float
    """Its beta."""

    optima: Tensor
    """Local optima of the bound, ``k x d``."""


class BoxDomain:
    """All points of a box.

    Args:
        bounds: ``2 x d`` lower and upper bounds.
        unit_cube: Whether the kernel is given points scaled to the unit cube.
        seed: Seed of where searches start.

    Raises:
        InputError: Unless ``bounds`` has two rows of finite numbers, the first below the second.
    """

    def __init__(self, bounds: ArrayLike, unit_cube: bool, seed: int) -> None:
        self._bounds = _checked(bounds)
        self._lower, self._width = self._bounds[0], self._bounds[1] - self._bounds[0]
        self.dimension = len(self._lower)
        if unit_cube:
            self._shift, self._scale = self._lower, self._width
        else:
            self._shift, self._scale = np.zeros_like(self._lower), np.ones_like(self._width)
        self._seed = seed
        self._posterior: ExactPosterior | None = None
        self._searched: _Searched | None = None
        # The rivals of a point, for which kind of rule.
        self._rivals: tuple[tuple[Key, Compare, bool], Tensor] | None = None

    def point(self, key: Key) -> Point:
        """The point as an array."""
        return np.array(key)

    def inputs(self, key: Key) -> Point:
        """The coordinates that the kernel is given."""
        return np.asarray((np.array(key) - self._shift) / self._scale)

    def random_key(self, generator: np.random.Generator) -> Key:
        """A point drawn uniformly."""
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

    def choose(self, now: int, beta: float) -> Choice:
        """The point with the largest upper confidence bound, by local searches."""
        last = self._searched
        if last is None or self._weight(last.now) - self._weight(now) > SEARCHED_AGAIN:
            last = self._search(now, beta)
        with torch.no_grad():
            mean, variance = self._at(now)(last.optima)
        best = int((mean + math.sqrt(beta) * variance.sqrt()).argmax())
        return self.at(self._key(self._shift + self._scale * last.optima[best].numpy()), now)

    def at(self, key: Key, now: int) -> Choice:
        """A point with its posterior."""
        x = self._row(key).unsqueeze(0)
        with torch.no_grad():
            if self._observations:
                mean, variance = self._at(now)(x)
            else:
                mean, variance = torch.zeros(1), self._kernel(x, diag=True)
        return Choice(key, self._model.mean + float(mean), float(variance))

    def rivals(
        self, choice: Choice, now: int, beta: float, compare: Compare, joint: bool
    ) -> Rivals:
        """The points that the chosen one is compared with, among them the strongest ones.

        Where the rule wants local optima and there is no other, and where it wants those of small
        prior correlation, they are points whose prior correlation with the chosen one is under
        ``RIVAL_CORRELATION``, or the least correlated, if none is.
        """
        last = self._searched or self._search(now, beta)
        point, wanted = self._row(choice.key), (choice.key, compare, joint)
        if self._rivals is None or self._rivals[0] != wanted:
            lower, upper = last.search.region.bounds
            same = ((last.optima - point).abs() <= _ROUNDING * (upper - lower)).all(dim=-1)
            others = last.optima[~same]
            self._rivals = wanted, last.search.rival_points(point, others, compare, joint)
        with torch.no_grad():
            found = self._at(now).compared_with(point)(self._rivals[1])
        covariance = found.covariance.numpy() if joint else None
        return Rivals(self._model.mean + found.mean.numpy(), found.variance.numpy(), covariance)

    def to_dict(self) -> dict[str, Any]:
        """The bounds as plain values, and when the last search was."""
        last = self._searched
        searched = None if last is None else [last.now, last.beta]
        return {"bounds": self._bounds.tolist(), "searched": searched}

    def restore(self, stored: dict[str, Any]) -> None:
        """Repeat the last search of the domain that ``to_dict`` stored: the next answer is its."""
        if stored["searched"] is not None:
            now, beta = stored["searched"]
            self._search(now, beta)

    def _key(self, point: Point) -> Key:
        """A point, but for rounding within the bounds."""
        inside = np.clip(point, self._bounds[0], self._bounds[1])
        return tuple(float(number) for number in inside)

    def _row(self, key: Key) -> Tensor:
        return torch.as_tensor(self.inputs(key))

    def _weight(self, now: float) -> float:
        """Return the remaining weight of the latest observation in round ``now``."""
        return math.exp(self._log_decay * (now - self._observations[-1].round))

    def _forget(self) -> None:
        """Drop the observations that hardly count any more, and what was computed before."""
        kept = self._observations
        while kept and self._log_decay * (kept[-1].round - kept[0].round) < math.log(TOLERANCE):
            kept.popleft()
        self._posterior = self._searched = self._rivals = None

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

    def _search(self, now: float, beta: float) -> _Searched:
        bounds = torch.as_tensor((self._bounds - self._shift) / self._scale)
        # From everywhere, and from where it was good: a seed per search, so that what one does not
        # hit the next one may.
        seed = int(np.random.SeedSequence([self._seed, int(now)]).generate_state(1)[0])
        sobol = draw_sobol_samples(bounds, n=RAW_SAMPLES, q=1, seed=seed).squeeze(-2)
        latest = dict.fromkeys(o.key for o in list(self._observations)[-_NEAR:])
        starts = torch.cat([sobol, *(self._row(key).unsqueeze(0) for key in latest)])
        search = ConfidenceSearch(self._at(now), Region(bounds), RIVAL_CORRELATION, starts)
        optima = search.upper_confidence_bound(beta).point
        self._searched, self._rivals = _Searched(search, now, beta, optima), None
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
