"""What the costly-feedback loop needs to know about its points: a domain.

A domain holds the points that can be used, finitely many or a box, and the posterior of the model
there. The loop holds what is common: rounds, rules, measurements. Outcomes are in the user's own
unit throughout, and are maximised.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from gpytorch.kernels import Kernel
from numpy.typing import NDArray

from ax_costaware.policies.query_rules import Compare, Rivals
from ax_costaware.queries.argument_checks import integer_at_least

Point: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class ResetEvery:
    """Forget everything after every so many rounds, and nothing between: R-GP-UCB.

    A baseline of Bogunovic, Scarlett and Cevher 2016, *Time-Varying Gaussian Process Bandit
    Optimization*.

    Raises:
        InputError: Unless ``rounds`` is an integer >= 1.
    """

    rounds: int
    """How many rounds a block has."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", integer_at_least(self.rounds, 1, "rounds"))


@dataclass(frozen=True)
class Hyperparameters:
    """The model of an outcome: ``mean`` plus a process plus noise.

    The covariance is ``outputscale * kernel(x, x') * (1 - forgetting)^(|t - t'| / 2)``.
    """

    kernel: Kernel
    """Kernel over points, in the coordinates that the domain gives it."""

    forgetting: float
    """Forgetting rate per round, in ``[0, 1)``."""

    noise: float
    """Variance of the noise of a measurement."""

    outputscale: float = 1.0
    """Factor of the kernel."""

    mean: float = 0.0
    """Prior mean."""


class Observation(NamedTuple):
    """A measurement."""

    key: Any
    """What the domain knows the point by, a plain value: an index, or a tuple of coordinates."""

    round: int
    """When it was made."""

    value: float
    """What was measured."""


@dataclass(frozen=True)
class Choice:
    """The point of a round."""

    key: Any
    """What the domain knows the point by."""

    mean: float
    """Posterior mean there."""

    variance: float
    """Posterior variance there."""


class Domain(ABC):
    """Points that can be used, with the posterior of the model there."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of coordinates of a point."""

    @abstractmethod
    def point(self, key: Any) -> Point | float:
        """The point as the user sees it."""

    @abstractmethod
    def inputs(self, key: Any) -> Point:
        """The coordinates that the kernel is given, of shape ``d``."""

    @abstractmethod
    def random_key(self, generator: np.random.Generator) -> Any:
        """A point drawn uniformly."""

    @abstractmethod
    def condition(self, model: Hyperparameters, observations: Sequence[Observation]) -> None:
        """Take a model, and condition it on observations in the order of their rounds."""

    @abstractmethod
    def observe(self, observation: Observation) -> None:
        """Condition on one more observation, not older than any before it."""

    @abstractmethod
    def choose(self, now: int, beta: float) -> Choice:
        """The point with the largest ``mean + sqrt(beta) * sd`` in round ``now``.

        On a skipped round the last answer may be kept while it is as good as the best.
        """

    @abstractmethod
    def at(self, key: Any, now: int) -> Choice:
        """A point with its posterior in round ``now``."""

    @abstractmethod
    def rivals(
        self, choice: Choice, now: int, beta: float, compare: Compare, joint: bool
    ) -> Rivals:
        """What the point chosen in round ``now`` is compared with; at least one point."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The points as plain values, with what ``restore`` needs."""

    @abstractmethod
    def restore(self, stored: dict[str, Any]) -> None:
        """After ``condition``, take from what ``to_dict`` stored what no observation says."""
