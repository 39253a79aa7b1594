"""Points of a target space as columns, and their scale."""

from __future__ import annotations

import torch

from ax_costaware.methods.averages.law import latent_space, latent_transform
from ax_costaware.space.parameters import Choice, Range


def test_the_space_of_searches_and_the_unit_cube() -> None:
    parameters = (
        Range("x", -1, 3),
        Range("n", 1, 100, is_integer=True, log_scale=True),
        Choice("c", ("a", "b", "c")),
    )
    space = latent_space(parameters)
    assert space.bounds.tolist() == [[-1, 1, 0], [3, 100, 2]]
    assert sorted(space.choices) == [1, 2]
    transform = latent_transform(parameters)
    transform.eval()
    points = torch.tensor([[-1.0, 1.0, 2.0], [1.0, 10.0, 1.0], [3.0, 100.0, 0.0]]).double()
    expected = [[0.0, 0.0, 2.0], [0.5, 0.5, 1.0], [1.0, 1.0, 0.0]]
    assert torch.allclose(transform(points), torch.tensor(expected).double())
    assert torch.allclose(transform.untransform(transform(points)), points)
    # A law may reach beyond the bounds, even below zero.
    outside = transform(torch.tensor([[0.0, -5.0, 0.0]]).double())
    assert outside.isfinite().all()
    assert latent_transform(parameters[2:]) is None
