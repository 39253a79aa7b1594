"""Whether two inputs went together as much as a sample of them did before."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.stats import norm

from ax_costaware.exceptions import InputError
from ax_costaware.queries.input_fit import Dependence, dependence_of
from ax_costaware.queries.marginals import RawValue

_SPREAD = 1.06
"""Of Fisher's transform of Spearman's correlation of ``n`` pairs, the variance is this over
``n - 3`` (Fieller, Hartley and Pearson 1957)."""

_LARGEST = 1.0 - 1e-9
"""Fisher's transform of a perfect correlation is infinite."""

_LEAST_PAIRS = 10
"""The variance above is an approximation."""


def dependence_beyond(
    names: tuple[str, str],
    first: Sequence[RawValue],
    second: Sequence[RawValue],
    sample: tuple[Sequence[RawValue], Sequence[RawValue]],
) -> Dependence:
    """Test whether two inputs went together as they do in a sample.

    Both Spearman correlations are put through Fisher's transform, whose difference is compared
    with its normal law; the error of the sample counts.

    Args:
        names: The two inputs.
        first: The values of the first, one for each trial that left both to chance.
        second: Those of the second, in the same trials.
        sample: Columns of the sample, for the first and the second input.

    Returns:
        The test, whose ``correlation`` is the realised one less that of the sample.

    Raises:
        InputError: As ``dependence_of``, and for fewer than 10 pairs in either.
    """
    realised, past = dependence_of(names, first, second), dependence_of(names, *sample)
    if min(realised.n, past.n) < _LEAST_PAIRS:
        raise InputError(
            f"{names[0]!r} and {names[1]!r} have {realised.n} pairs of values and the sample "
            f"{past.n}: expected {_LEAST_PAIRS} or more."
        )
    z, past_z = (
        math.atanh(max(min(found.correlation, _LARGEST), -_LARGEST)) for found in (realised, past)
    )
    spread = math.sqrt(_SPREAD / (realised.n - 3) + _SPREAD / (past.n - 3))
    p_value = 2.0 * float(norm.sf(abs(z - past_z) / spread))
    difference = realised.correlation - past.correlation
    return Dependence(realised.names, realised.n, difference, min(p_value, 1.0))
