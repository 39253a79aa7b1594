r"""Distribution and quantile function of a section of the standard normal law.

``scipy.stats.truncnorm`` works with differences of log-probabilities, which leaves no digit once
the section is thousands of standard deviations out. Here a section on one side of the mode is
measured from its inner end ``a >= 0``: with the scaled complementary error function
:math:`\mathrm{erfcx}(x) = e^{x^2} \mathrm{erfc}(x)`, the probability to be further out than
``a + t``, given to be further out than ``a``, is

.. math:: R(t) = e^{-t (t + 2a) / 2}\,
          \mathrm{erfcx}((a + t) / \sqrt 2) \,/\, \mathrm{erfcx}(a / \sqrt 2),

which is exact to rounding at any distance. Everything is in units of the standard deviation.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, ndtr, ndtri

Array = npt.NDArray[np.float64]

_SQRT_2 = np.sqrt(2.0)

_FURTHEST = 40.0
"""No double is a probability beyond: ``R(40)`` is at most ``e^-800``."""

_MAX_STEPS = 50
"""Newton's iteration below needs 4 to 7 steps over the whole range; this is a bound, no choice."""


def tail_cdf(t: Array, a: float, width: float) -> Array:
    """Probability of ``[a, a + t]`` given ``[a, a + width]``, for ``0 <= t <= width``."""
    mass = np.expm1(_log_survival(np.array(min(width, _FURTHEST)), a))
    cdf: Array = np.expm1(_log_survival(np.minimum(t, _FURTHEST), a)) / mass
    return np.minimum(cdf, 1.0)


def tail_icdf(u: Array, a: float, width: float) -> Array:
    """The ``t`` where ``tail_cdf`` is ``u``.

    Newton's iteration on the log-survival function. That function is concave, and the start (the
    factor of erfcx, which is below one, left out) lies beyond the root, so the steps decrease
    towards it.
    """
    mass = np.expm1(_log_survival(np.array(min(width, _FURTHEST)), a))
    target = np.log1p(np.where(u < 1, u, 0.0) * mass)
    t = -2 * target / (np.sqrt(a * a - 2 * target) + max(a, np.finfo(np.float64).tiny))
    for _ in range(_MAX_STEPS):
        hazard = np.sqrt(2 / np.pi) / erfcx((a + t) / _SQRT_2)
        step = (_log_survival(t, a) - target) / hazard
        t = np.maximum(t + step, 0.0)
        if np.all(np.abs(step) <= 4 * np.finfo(np.float64).eps * t):
            break
    return np.where(u < 1, np.minimum(t, width), width)


def central_cdf(z: Array, a: float, b: float) -> Array:
    """Probability of ``[a, z]`` given ``[a, b]``, for ``a <= 0 <= b``."""
    cdf: Array = (ndtr(z) - ndtr(a)) / (ndtr(b) - ndtr(a))
    return np.clip(cdf, 0.0, 1.0)


def central_icdf(u: Array, a: float, b: float) -> Array:
    """The ``z`` where ``central_cdf`` is ``u``."""
    mass = ndtr(b) - ndtr(a)
    below = ndtr(a) + u * mass
    above = ndtr(-b) + (1 - u) * mass
    # Each half from its own tail: a probability near one has no digits left.
    z: Array = np.where(below <= 0.5, ndtri(below), -ndtri(above))
    return np.clip(z, a, b)


def _log_survival(t: Array, a: float) -> Array:
    ratio = erfcx((a + t) / _SQRT_2) / erfcx(a / _SQRT_2)
    log_survival: Array = -t * (t / 2 + a) + np.log(ratio)
    return log_survival
