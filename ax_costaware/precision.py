"""A value as it was reported, where Ax's stores kept ten decimals of it.

What is reported is recorded on the trial at full precision before Ax stores it. The two agree
until somebody changes Ax's data afterwards, and then what was changed counts.
"""

from __future__ import annotations

import math

STORED_DECIMALS = 10
"""Decimals that Ax's stores keep of an observation."""


def more_precise(value: float, recorded: float | None) -> float:
    """``recorded`` if it is ``value`` before rounding; else ``value``, which was changed since."""
    if recorded is None or not math.isclose(
        value, recorded, rel_tol=1e-12, abs_tol=10.0**-STORED_DECIMALS
    ):
        return value
    return float(recorded)
