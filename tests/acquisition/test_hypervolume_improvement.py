"""Expected hypervolume improvement per cost: against BoTorch, brute force, and quadrature."""

from __future__ import annotations

import math

import pytest
import torch
from botorch.acquisition.multi_objective.analytic import ExpectedHypervolumeImprovement
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.model import Model, ModelList
from botorch.utils.multi_objective.box_decompositions.non_dominated import (
    FastNondominatedPartitioning,
)
from torch import Tensor

from ax_costaware.acquisition import LogExpectedHypervolumeImprovementPerCost
from ax_costaware.acquisition.hypervolume_improvement import hypervolume, non_dominated
from ax_costaware.exceptions import InputError, UnsupportedInputError

X = torch.rand(12, 2, generator=torch.Generator().manual_seed(3), dtype=torch.double)
POINTS = torch.rand(6, 2, generator=torch.Generator().manual_seed(5), dtype=torch.double)


def models(number: int = 2, noise: float = 1e-4) -> ModelListGP:
    """Return models of waves, with given hyperparameters."""
    parts = []
    for i in range(number):
        Y = torch.sin(3 * X[:, [i % 2]] + 2 * i) + X[:, [(i + 1) % 2]] - 0.5
        Y = (Y - Y.mean()) / Y.std()
        model = SingleTaskGP(X, Y, torch.full_like(Y, noise), outcome_transform=None)
        model.covar_module.lengthscale = 0.4
        parts.append(model)
    return ModelListGP(*parts)


def ref_point(number: int = 2) -> Tensor:
    """Return a reference point that some points are better than."""
    return torch.full((number,), -0.5, dtype=torch.double)


def samples_at(model: Model, points: Tensor, number: int, seed: int = 0) -> Tensor:
    """Return independent samples ``number x n x m`` of the joint posterior."""
    torch.manual_seed(seed)
    with torch.no_grad():
        return model.posterior(points).rsample(torch.Size([number]))


@pytest.mark.parametrize("number", [2, 3])
def test_the_closed_form_is_botorchs(number: int) -> None:
    """Where that does not underflow, per a power of the cost and by a weight."""
    model, ref = models(number), ref_point(number)
    front = model.posterior(X).mean.detach()
    known = ExpectedHypervolumeImprovement(
        model, ref.tolist(), FastNondominatedPartitioning(ref, Y=front)
    )
    ours = LogExpectedHypervolumeImprovementPerCost(
        model, ref, X, lambda Z: 1.0 + Z[:, 0], exponent=2.0, log_weight=lambda Z: -Z[:, 1]
    )
    expected = known(POINTS.unsqueeze(1)).log() - 2.0 * (1.0 + POINTS[:, 0]).log() - POINTS[:, 1]
    found = ours(POINTS.unsqueeze(1))
    is_plain = expected > -20
    assert is_plain.sum() > 2
    assert torch.allclose(found[is_plain], expected[is_plain], rtol=1e-6)
    assert found.isfinite().all()


@pytest.mark.parametrize(("number", "draws"), [(2, 256), (3, 64)])
def test_noisy_improvement_is_the_mean_over_joint_samples(number: int, draws: int) -> None:
    """Of the hypervolume with a point less that without, by brute force."""
    model, ref = models(number, noise=0.05), ref_point(number)
    ours = LogExpectedHypervolumeImprovementPerCost(model, ref, X, 1.0, num_samples=draws)
    for point in POINTS[:2]:
        drawn = samples_at(model, torch.cat([X, point.unsqueeze(0)]), draws)
        gains = torch.tensor([hypervolume(Y, ref) - hypervolume(Y[:-1], ref) for Y in drawn])
        error = float(gains.std()) / math.sqrt(len(gains))
        found = float(ours(point.reshape(1, 1, -1)).detach().exp())
        assert found == pytest.approx(float(gains.mean()), abs=4 * error + 1e-3)


def test_hypervolume_is_the_share_of_a_box() -> None:
    """By counting points of a grid; points below the reference do not count."""
    Y = torch.rand(9, 2, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    axis = (torch.arange(400, dtype=torch.double) + 0.5) / 400
    grid = torch.cartesian_prod(axis, axis)
    covered = (grid.unsqueeze(1) <= Y).all(dim=-1).any(dim=-1).double().mean()
    assert hypervolume(Y, torch.zeros(2).double()) == pytest.approx(float(covered), abs=5e-3)
    assert hypervolume(-Y, torch.zeros(2).double()) == 0.0


def test_non_dominated_rows() -> None:
    """By comparing all pairs; only rows that count."""
    Y = torch.rand(30, 3, generator=torch.Generator().manual_seed(2), dtype=torch.double)

    def brute(rows: list[int]) -> list[int]:
        return [
            i
            for i in rows
            if not any(bool((Y[j] >= Y[i]).all() and (Y[j] > Y[i]).any()) for j in rows)
        ]

    assert non_dominated(Y) == brute([*range(30)])
    may_be = [i % 2 == 0 for i in range(30)]
    assert non_dominated(Y, may_be) == brute([*range(0, 30, 2)])
    assert non_dominated(Y, [False] * 30) == []


@pytest.mark.parametrize("num_samples", [None, 4])
def test_gradients(num_samples: int | None) -> None:
    """By finite differences; finite at evaluated points, where the improvement underflows."""
    acquisition = LogExpectedHypervolumeImprovementPerCost(
        models(noise=0.01), ref_point(), X, lambda Z: 0.1 + Z[:, 0], num_samples=num_samples
    )
    points = POINTS[:3].unsqueeze(1).clone().requires_grad_()
    assert torch.autograd.gradcheck(acquisition, (points,), atol=1e-4, rtol=1e-3)
    there = X.unsqueeze(1).clone().requires_grad_()
    acquisition(there).sum().backward()
    assert there.grad is not None
    assert there.grad.isfinite().all()


@pytest.mark.parametrize("num_samples", [None, 16])
def test_an_outcome_that_is_known(num_samples: int | None) -> None:
    """Its improvement is that over the other outcome's front at the same value."""
    value = GenericDeterministicModel(lambda Z: 1.0 - Z[..., :1])
    model, ref = ModelList(models().models[0], value), ref_point()
    acquisition = LogExpectedHypervolumeImprovementPerCost(
        model, ref, X, 1.0, num_samples=num_samples
    )
    drawn = samples_at(models().models[0], torch.cat([X, POINTS[:1]]), 300)[..., 0]
    known = 1.0 - torch.cat([X, POINTS[:1]])[:, 0]
    if num_samples is None:
        drawn[:, :-1] = models().models[0].posterior(X).mean.squeeze(-1).detach()
    Y = torch.stack([drawn, known.expand_as(drawn)], dim=-1)
    gains = torch.tensor([hypervolume(one, ref) - hypervolume(one[:-1], ref) for one in Y])
    found = float(acquisition(POINTS[:1].unsqueeze(1)).detach().exp())
    assert found == pytest.approx(float(gains.mean()), rel=0.15, abs=1e-3)


@pytest.mark.parametrize("num_samples", [None, 16])
def test_pending_points_and_points_that_do_not_count(num_samples: int | None) -> None:
    """A pending point is hardly worth a repeat; without a feasible point all are improvements."""

    def values(**arguments: object) -> Tensor:
        acquisition = LogExpectedHypervolumeImprovementPerCost(
            models(), ref_point(), X, 1.0, num_samples=num_samples, **arguments  # type: ignore[arg-type]
        )  # fmt: skip
        with torch.no_grad():
            found: Tensor = acquisition(POINTS.unsqueeze(1))
        return found

    plain = values()
    best = int(plain.argmax())
    pending = values(X_pending=POINTS[[best]])
    assert pending[best] < plain[best] - 2
    empty = values(is_feasible=torch.zeros(len(X), dtype=torch.bool))
    assert (empty > plain).all()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model": models().models[0]}, UnsupportedInputError, "SingleTaskGP; hypervolume"),
        ({"ref_point": torch.zeros(3)}, InputError, "ref_point.*2 finite numbers"),
        ({"X_baseline": X[0]}, InputError, "X_baseline"),
        ({"is_feasible": torch.ones(12)}, InputError, "is_feasible.*12 booleans"),
        ({"num_samples": 0}, InputError, "num_samples=0"),
        ({"exponent": -1.0}, InputError, "exponent=-1.0"),
        ({"cost": -1.0}, InputError, "cost=-1.0"),
    ],
)
def test_refusals(change: dict[str, object], error: type[Exception], message: str) -> None:
    """Each by the argument's name."""
    arguments = {"model": models(), "ref_point": ref_point(), "X_baseline": X, "cost": 1.0}
    with pytest.raises(error, match=message):
        LogExpectedHypervolumeImprovementPerCost(**{**arguments, **change})  # type: ignore[arg-type]
