"""Outcomes of any unit are brought to order one, at full precision."""

from __future__ import annotations

import pytest
import torch
from botorch.models.transforms.outcome import Standardize

from ax_costaware.models.outcome_scale import OutcomeScale

Y = torch.rand(9, 1, dtype=torch.double, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("minimize", [False, True])
@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e-9, 1.0, 1e30])
@pytest.mark.parametrize("offset", [0.0, 1e6, 1e9])
def test_any_unit(scale: float, offset: float, minimize: bool) -> None:
    """As in units of the spread, but for the digits that an offset has used up."""
    expected, _ = Standardize(1)(Y)
    given = scale * (Y + offset)
    found = OutcomeScale.of(given, minimize)
    sign = -1.0 if minimize else 1.0
    tolerance = 1e-12 + 1e-15 * offset
    torch.testing.assert_close(found.to_model(given), sign * expected, rtol=0, atol=tolerance)
    assert found.unit == pytest.approx(scale * float(Y.std()), rel=1e-6)
    torch.testing.assert_close(found.from_model(found.to_model(given)), given, rtol=1e-12, atol=0)
    assert found.maximized(0.5) == pytest.approx(sign * found.from_model(0.5), rel=1e-12)
    mean, variance = found.moments(Y, Y)
    assert torch.equal(mean, found.from_model(Y))
    torch.testing.assert_close(variance, found.unit**2 * Y)


@pytest.mark.parametrize("power", [-100, -7, 3, 100])
def test_powers_of_two_change_no_digit(power: int) -> None:
    """So that decisions in such units are the same ones."""
    scale = OutcomeScale.of(2.0**power * Y)
    assert torch.equal(scale.to_model(2.0**power * Y), OutcomeScale.of(Y).to_model(Y))


@pytest.mark.parametrize("value", [0.0, 0.1, 1e-30, 1e9 / 3])
@pytest.mark.parametrize("count", [1, 9])
def test_outcomes_that_are_equal_are_not_scaled(value: float, count: int) -> None:
    """Their mean may differ from them by rounding."""
    given = torch.full((count,), value, dtype=torch.double)
    scale = OutcomeScale.of(given)
    assert scale.unit == 1.0
    assert scale.to_model(given).abs().max() <= 1e-15 * value
