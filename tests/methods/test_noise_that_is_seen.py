"""What a fit says of noise, and which outliers a model is told of as less bad ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from botorch.models import ModelListGP, SingleTaskGP
from torch import Tensor

from ax_costaware.methods import Gittins, Range, Simulation, Space
from ax_costaware.methods.model import (
    ModelOptions,
    fitted_to_winsorized,
    seen_share_of_noise,
    winsorized,
)
from ax_costaware.methods.simulation import Outcome
from ax_costaware.models import FixedHyperparameterGP, MaternGP

PLANE = Space.of([Range("x", 0.0, 1.0), Range("y", 0.0, 1.0)])
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
SPREAD = [-10.0, 3.0, 1.0, -4.0, 2.0]
CLUSTER = [2.0 + 0.1 * (-1) ** i for i in range(20)]


def fitted(noise: float, n: int = 40) -> Any:
    """The default's model of a smooth function of ``n`` points, seen through noise."""
    generator = torch.Generator().manual_seed(3)
    X = torch.rand(n, 2, generator=generator, dtype=torch.double)
    y = (3 * X[:, 0]).sin() + X[:, 1] + noise * torch.randn(n, generator=generator).double()
    return ModelOptions("MaternGP", MaternGP).fitted(X, y, BOUNDS)


def test_noise_is_seen_where_there_is_some() -> None:
    quiet, noisy = fitted(0.0), fitted(0.3)
    assert seen_share_of_noise(quiet) == 0.0
    fraction = float(noisy.likelihood.noise.detach())
    mode = float(noisy.likelihood.noise_covar.noise_prior.mode)
    assert fraction > 3 * mode
    share = seen_share_of_noise(noisy)
    assert share == pytest.approx(1 - 1.1 * mode / fraction)
    # Beside models of other outcomes Ax has a list.
    assert seen_share_of_noise(ModelListGP(noisy)) == share


def test_noise_that_is_given_is_known() -> None:
    X, Y = torch.rand(5, 2).double(), torch.rand(5, 1).double()
    assert seen_share_of_noise(FixedHyperparameterGP(X, Y, lengthscale=0.3)) == 1.0
    assert seen_share_of_noise(SingleTaskGP(X, Y, torch.full_like(Y, 1e-6))) == 1.0


@pytest.mark.parametrize("minimize", [False, True])
@pytest.mark.parametrize(
    ("aware", "noise", "least"), [(True, 0.5, -10.0), (True, 0.005, 1.6), (False, 0.5, 1.6)]
)
def test_with_noise_trials_about_the_best_one_do_not_make_outliers(
    minimize: bool, aware: bool, noise: float, least: float
) -> None:
    told: list[Tensor] = []
    covar = SimpleNamespace(
        noise=torch.tensor([noise]), noise_prior=SimpleNamespace(mode=torch.tensor(0.0067))
    )

    def fit(Y: Tensor) -> Any:
        told.append(Y)
        return SimpleNamespace(likelihood=SimpleNamespace(noise_covar=covar), number=len(told))

    sign = -1.0 if minimize else 1.0
    outcomes = sign * torch.tensor(SPREAD + CLUSTER, dtype=torch.double)
    model: Any = fitted_to_winsorized(fit, outcomes, minimize, aware)
    assert model.number == len(told) == (2 if least < 0 else 1)
    assert torch.equal(told[0], winsorized(outcomes, minimize))
    assert float((sign * told[-1]).min()) == pytest.approx(least)


def test_without_noise_nothing_is_another() -> None:
    """An improvement that looks at noise is the whole one where none is seen."""

    def chosen(acquisition: str) -> list[dict[str, Any]]:
        method = Gittins(1.0, budget=12.0, acquisition=acquisition)
        simulation = Simulation(method, PLANE)
        for _ in range(9):
            decision: Any = simulation.ask()
            x, y = decision.parameters["x"], decision.parameters["y"]
            simulation.tell(decision, Outcome(-((x - 0.3) ** 2) - (y - 0.6) ** 2))
        return [dict(trial.parameters) for trial in simulation.trials]

    for one, other in zip(
        chosen("log_ei_per_cost"), chosen("log_ei_per_cost_noise_aware"), strict=True
    ):
        assert one == pytest.approx(other, abs=1e-4)
