"""Objectives of an experiment that has several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from botorch.models.model import Model

from ax_costaware.argument_checks import check_fields, finite_number, optional
from ax_costaware.exceptions import unavailable
from ax_costaware.models.outcome_scale import OutcomeScale


@dataclass(frozen=True)
class Objective:
    """One of several objectives.

    Raises:
        InputError: If the threshold is not finite.
    """

    metric: str
    """Name of the metric."""

    minimize: bool = False
    """True if smaller values are better."""

    threshold: float | None = None
    """Worst value that is of use: the hypervolume counts better values only. None: inferred from
    the front, as in BoTorch's ``infer_reference_point``."""

    fit: Callable[[], Model] = field(default=unavailable, compare=False, repr=False)
    """Function that returns the model of the metric, fitted to its values on their scale."""

    find_scale: Callable[[], OutcomeScale] = field(default=unavailable, compare=False, repr=False)
    """Function that returns this scale."""

    def __post_init__(self) -> None:
        check_fields(self, threshold=optional(finite_number))

    @cached_property
    def scale(self) -> OutcomeScale:
        """Scale of the metric in its model, where larger values are better."""
        return self.find_scale()

    def __str__(self) -> str:
        return f"{'-' if self.minimize else ''}{self.metric}"
