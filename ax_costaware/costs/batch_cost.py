"""Cost of a batch of trials: a set-up that is paid once, and a cost of each trial.

Examples are an oven that heats up for all samples in it, or a plate of 96 wells. The trials of one
request are a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ax_costaware.argument_checks import check_fields, positive_number
from ax_costaware.exceptions import InputError


@dataclass(frozen=True)
class BatchCost:
    """Cost of setting up a batch, and of each of its trials.

    The set-up is charged to the first trial of a batch that ran. A cost that is reported for that
    trial includes it, as it includes switching costs.

    Raises:
        InputError: If ``setup`` is not a finite number > 0, or ``per_trial`` is a ``BatchCost``.
    """

    setup: float
    """Cost of setting up one batch, in the unit of the costs."""

    per_trial: Any
    """Cost of a trial without the set-up: any other ``cost`` of ``cost_aware_strategy``, also a
    ``SwitchingCost``."""

    def __post_init__(self) -> None:
        check_fields(self, setup=positive_number)
        if isinstance(self.per_trial, BatchCost):
            raise InputError(
                f"per_trial={self.per_trial!r}: expected the cost of a trial without the set-up."
            )
