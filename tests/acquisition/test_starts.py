import torch

from ax_costaware.acquisition.optimize import spaced_best
from ax_costaware.acquisition.starts import raw_points, regions_of


def _region(controlled, **changes):
    bounds = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.double)
    default = torch.tensor([0.5, 0.7], dtype=torch.double)
    return regions_of([controlled], bounds, default, **changes)[0]


def test_raw_points_fill_the_controlled_columns_only():
    near = torch.empty(0, 2, dtype=torch.double)
    points = raw_points(_region([0]), 256, near, torch.ones(2).double(), seed=0)
    assert points.shape == (256, 2)
    assert (points[:, 1] == 0.7).all()
    counts = torch.histc(points[:, 0], bins=8, min=0, max=1)
    assert (counts == 32).all()  # a Sobol design is balanced


def test_half_the_points_lie_near_the_data_within_bounds():
    near = torch.tensor([[0.9, 1.9]], dtype=torch.double)
    points = raw_points(_region([0, 1]), 200, near, torch.full((2,), 0.05).double(), seed=0)
    close = (points - near).abs().max(dim=-1).values < 0.25
    assert 100 <= int(close.sum()) <= 115
    assert float(points[:, 0].max()) <= 1.0
    assert float(points[:, 1].max()) <= 2.0


def test_rejection_reaches_small_feasible_sets():
    narrow = [(torch.tensor([0]), torch.ones(1).double(), 0.97)]
    near = torch.empty(0, 2, dtype=torch.double)
    points = raw_points(
        _region([0, 1], constraints=narrow), 32, near, torch.ones(2).double(), seed=0
    )
    assert len(points) == 32
    assert (points[:, 0] >= 0.97).all()


def test_spaced_best_takes_the_best_of_every_neighbourhood():
    scaled = torch.tensor([[0.0], [0.1], [1.0], [1.1], [5.0]])
    values = torch.tensor([3.0, 4.0, 2.0, 1.0, 0.0])
    assert spaced_best(values, scaled, 3, 0.5).tolist() == [1, 2, 4]
    assert spaced_best(values, scaled, 9, 0.5).tolist() == [1, 2, 4]
    assert values.tolist() == [3.0, 4.0, 2.0, 1.0, 0.0]
