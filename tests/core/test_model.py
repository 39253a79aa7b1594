"""What a method models with."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.models import SingleTaskGP

from ax_costaware.core.model import FixedHyperparameters, ModelOptions, winsorized
from ax_costaware.exceptions import InputError
from ax_costaware.methods import CostAware
from ax_costaware.models import FidelityGP, MaternGP
from ax_costaware.space import Choice, Range, Space


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"lengthscale": 0.0}, "lengthscale=0.0"),
        ({"lengthscale": (0.1, -1.0)}, r"lengthscale\[1\]=-1.0"),
        ({"lengthscale": ()}, "lengthscale"),
        ({"lengthscale": 0.1, "outputscale": float("inf")}, "outputscale=inf"),
        ({"lengthscale": 0.1, "noise_variance": 0.0}, "noise_variance=0.0"),
        ({"lengthscale": 0.1, "mean": float("nan")}, "mean=nan"),
    ],
)
def test_bad_hyperparameters(change: dict[str, Any], name: str) -> None:
    """Fixed hyperparameters are checked where they are written."""
    with pytest.raises(InputError, match=name):
        FixedHyperparameters(**change)


@pytest.mark.parametrize("model_class", ["SingleTaskGP", 3, dict])
def test_a_class_that_is_none(model_class: Any) -> None:
    """It is refused where it is written, not by the first model, after the initial design."""
    with pytest.raises(InputError, match="model_class="):
        ModelOptions("own", model_class)
    with pytest.raises(InputError, match=r"options=\[1\]"):
        ModelOptions("own", SingleTaskGP, [1])  # type: ignore[arg-type]


def test_fixed_hyperparameters_are_in_raw_units_on_the_unit_cube() -> None:
    """One observation at the prior's scale: the posterior is the textbook one."""
    fixed = FixedHyperparameters(lengthscale=0.5, outputscale=4.0, noise_variance=0.25, mean=1.0)
    X, bounds = torch.tensor([[1.0], [3.0]]).double().split(1)[0], torch.tensor([[0.0], [4.0]])
    options = CostAware(1.0).model(fixed)
    scale = options.scale_of(X.new_tensor([3.0]), minimize=True)
    model = options.fitted(X, scale.to_model(X.new_tensor([3.0])), bounds.double())
    with torch.no_grad():
        posterior = model.posterior(X + 2.0)
    mean, variance = scale.moments(posterior.mean, posterior.variance)
    k = 4.0 * float(torch.tensor(-0.5, dtype=torch.double).exp())
    assert float(mean) == pytest.approx(1.0 + k / 4.25 * 2.0, rel=1e-6)
    assert float(variance) == pytest.approx(4.0 - k**2 / 4.25, rel=1e-6)


def test_a_fitted_model_is_of_standardized_outcomes() -> None:
    """Outcomes of the order of 1000 come back as such, with their standard deviation."""
    X = torch.linspace(0.0, 1.0, 6, dtype=torch.double).unsqueeze(-1)
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    options, Y = ModelOptions(), 1000.0 + 50.0 * X.squeeze(-1)
    scale = options.scale_of(Y, minimize=False)
    model: Any = options.fitted(X, scale.to_model(Y), bounds)
    assert not hasattr(model, "outcome_transform")
    with torch.no_grad():
        posterior = model.posterior(X.new_tensor([[0.5]]))
    mean, variance = scale.moments(posterior.mean, posterior.variance)
    assert float(mean) == pytest.approx(1025.0, abs=2.0)
    assert 0.0 < float(variance) < 50.0**2


def test_models_that_ask_for_it_are_told_of_choices() -> None:
    space = Space.of([Range("dose", 0, 1), Choice("soil", ("sand", "clay", "peat"))])
    for model_class in (MaternGP, FidelityGP):
        found = ModelOptions("its name", model_class, {"bounds": None}).within(space)
        assert found.options == {"bounds": None, "choices": [[1, 2, 3]]}
    assert "choices" not in ModelOptions("usual", SingleTaskGP).within(space).options
    assert ModelOptions().within(space) == ModelOptions()
    assert ModelOptions("m", MaternGP).within(Space.of([Range("dose", 0, 1)])).options == {}


@pytest.mark.parametrize("minimize", [False, True])
@pytest.mark.parametrize(
    ("outcomes", "limit"),
    [
        ([-99, 0, 1, 2, 3, 4, 5, 6, 7], 1 - 1.5 * (5 - 1)),
        ([-99, 0, 1, 2, 3, 4, 5, 6], 0 - 1.5 * (5 - 0)),  # the nearest values, outwards
        ([-99, 1, 1, 1, 1, 1, 1, 1, 5], 1 - 1.5 * (5 - 1)),  # the best replaces equal quartiles
        ([-99, 1, 1, 1, 1, 1, 1, 1, 1], -99),
        ([0, 1, 2, 3, 4, 5, 6, 7, 99], 0),
    ],
)
def test_bad_outliers_alone_are_clipped(
    outcomes: list[float], limit: float, minimize: bool
) -> None:
    values = (-1 if minimize else 1) * torch.tensor(outcomes, dtype=torch.double)
    found = winsorized(values.flip(0), minimize, 1.5).flip(0)
    assert found.abs().tolist() == [abs(limit), *(abs(value) for value in outcomes[1:])]
    assert bool((found.sign() == values.sign()).all())
