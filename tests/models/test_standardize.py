"""Outcomes of any unit are brought to unit scale, at full precision."""

from __future__ import annotations

import pytest
import torch
from botorch.models.transforms.outcome import Standardize

from ax_costaware.models.standardize import StandardizeAnyScale

Y = torch.rand(9, 1, dtype=torch.double, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e-9, 1.0, 1e30])
@pytest.mark.parametrize("offset", [0.0, 1e6, 1e9])
def test_any_unit(scale: float, offset: float) -> None:
    """As in units of the spread, but for the digits that an offset has used up."""
    expected, _ = Standardize(1)(Y)
    transform = StandardizeAnyScale(1)
    found, noise = transform(scale * (Y + offset), torch.full_like(Y, scale**2))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12 + 1e-15 * offset)
    torch.testing.assert_close(noise, Y.new_ones(9, 1) / Y.var(), rtol=1e-6, atol=0)
    back, _ = transform.untransform(found)
    torch.testing.assert_close(back, scale * (Y + offset), rtol=1e-12, atol=0)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e-30, 1e9 / 3])
def test_outcomes_that_are_equal_are_not_scaled(value: float) -> None:
    """Their mean may differ from them by rounding."""
    transform = StandardizeAnyScale(1)
    found, _ = transform(torch.full_like(Y, value))
    assert float(transform.stdvs) == 1.0
    assert found.abs().max() <= 1e-15 * value
