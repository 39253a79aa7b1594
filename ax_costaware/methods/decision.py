"""What comes out of a method: a decision or a stop, and what to deploy.

Numbers of the objective are in its own unit and sign here, costs in the user's own unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ax_costaware.methods.parameters import Value


@dataclass(frozen=True)
class Decision:
    """The next trial, and what is stored of how it was chosen."""

    parameters: dict[str, Value]
    """The trial's parameterization in raw units; what it leaves to chance has nominal values."""

    why: str
    """The reason, in sentences."""

    expected_cost: float | None = None
    """What the trial is expected to cost; None while nothing is known of it."""

    details: Mapping[str, Any] = field(default_factory=dict)
    """What the choice was made from, as plain JSON: ``decision`` in the stored record."""

    extra: Mapping[str, Any] = field(default_factory=dict)
    """What else is stored beside it: whether to ``measure``, the ``control_set``, and so on."""

    value: float | None = None
    """Value of what was maximised; None where nothing was."""

    phase: str = "rule"
    """``"initial"`` for a trial of the initial design, else ``"rule"``."""

    def record(self) -> dict[str, Any]:
        """What is stored with the trial."""
        return {
            **self.extra,
            "expected_cost": self.expected_cost,
            "why": self.why,
            "phase": self.phase,
            "decision": dict(self.details),
        }


@dataclass(frozen=True)
class Stop:
    """That no trial is worth its cost, or none can be paid."""

    reason: str
    """Why, what was saved, and what to deploy, in sentences."""


@dataclass(frozen=True)
class Best:
    """Something that could be deployed, and what the model says of it."""

    parameters: dict[str, Value]
    """The values to set, in raw units; the rest, if there is any, is left to chance."""

    mean: float
    """Posterior mean of the objective, of its expectation over what is left to chance."""

    standard_deviation: float
    """Posterior standard deviation of that."""

    expected_cost: float | None = None
    """What a trial there is expected to cost; None if it is no trial, or nothing is known."""

    control_set: str | None = None
    """Name of the control set, for a method that has them."""

    trial_index: int | None = None
    """The trial that evaluated it, if one did."""
