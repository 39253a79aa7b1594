from __future__ import annotations

import numpy as np
import pytest
import torch

from demo.stack_loss import DAYS, ESCAPE_PENALTY, INPUTS, Plant, margin


def test_table_has_the_published_least_squares_fit() -> None:
    """Coefficients and residual error as printed in the many texts that analyse this table."""
    X = np.column_stack([np.ones(len(DAYS)), DAYS[:, :3]])
    coefficients, squared_error, _, _ = np.linalg.lstsq(X, DAYS[:, 3], rcond=None)
    np.testing.assert_allclose(coefficients, [-39.9197, 0.7156, 1.2953, -0.1521], atol=5e-5)
    assert np.sqrt(squared_error.item() / 17) == pytest.approx(3.243, abs=5e-4)


def test_simulator_follows_the_table() -> None:
    plant = Plant(seed=0)
    predicted = plant.stack_loss(torch.from_numpy(DAYS[:, :3]))
    residuals = predicted - torch.from_numpy(DAYS[:, 3])
    assert residuals.square().mean().sqrt() < 2.0
    assert plant.noise_std == pytest.approx(2.0, abs=0.5)


def test_margin() -> None:
    X = torch.tensor([[50.0, 20.0, 80.0]])
    assert margin(X, torch.tensor([10.0])).item() == pytest.approx(49.5 - ESCAPE_PENALTY * 0.5)


@pytest.mark.parametrize("controlled", [{}, {"water_temp": 18.0}, dict.fromkeys(INPUTS, 75.0)])
def test_expected_margin_is_the_mean_of_measurements(controlled: dict[str, float]) -> None:
    plant = Plant(seed=1)
    measured = [plant.measure(plant.realize(controlled)) for _ in range(200)]
    error = np.std(measured) / np.sqrt(len(measured))
    assert plant.expected_margin(controlled) == pytest.approx(np.mean(measured), abs=4 * error)


def test_controlled_inputs_are_kept_and_the_others_drawn_from_the_table() -> None:
    inputs = Plant(seed=2).realize({"air_flow": 55.5})
    assert inputs["air_flow"] == 55.5
    assert inputs["water_temp"] in DAYS[:, 1]
    assert inputs["acid_conc"] in DAYS[:, 2]


def test_best_margin_bounds_every_expectation() -> None:
    plant = Plant(seed=0)
    best = plant.best_margin()
    nearby = {"air_flow": 70.2, "water_temp": 19.6, "acid_conc": 93.0}
    assert best > plant.expected_margin(nearby) - 1e-2
    assert best > plant.expected_margin({"water_temp": 18.0})
    assert plant.expected_margin({"water_temp": 18.0}) > plant.expected_margin({})
