"""What a training run of one method came to."""

from __future__ import annotations

from dataclasses import dataclass

OURS, FULL, BERNOULLI, FIXED = "costly_feedback", "full", "bernoulli", "fixed"

LABELS = {
    OURS: "costly feedback",
    FULL: "every round measured",
    BERNOULLI: "as many measured, at random",
    FIXED: "fixed: the middle of every range",
}
"""The methods, with what they are called."""


@dataclass(frozen=True)
class Run:
    """A training run."""

    method: str
    """One of ``LABELS``."""

    seed: int
    """Of the run."""

    settings: tuple[tuple[float, ...], ...]
    """What was used in each round."""

    measured: tuple[bool, ...]
    """Whether its gain was measured."""

    accuracy: float
    """Test accuracy in the end."""

    camera: tuple[float, ...]
    """What the camera does, in the order of the settings; it has no dropout."""

    @property
    def num_measured(self) -> int:
        """How many rounds were measured."""
        return sum(self.measured)
