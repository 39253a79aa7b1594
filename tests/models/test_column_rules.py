from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ax_costaware.models.column_rules import ColumnRules


def rules(seed: int, n: int = 20, distinct: int = 20) -> tuple[Tensor, Tensor]:
    """Nodes and weights of two columns, with four nodes each."""
    generator = torch.Generator().manual_seed(seed)
    nodes = torch.rand(2, distinct, 4, generator=generator, dtype=torch.double)
    weights = torch.rand(2, distinct, 4, generator=generator, dtype=torch.double)
    place = torch.randint(distinct, (2, n), generator=generator)
    place[:, :distinct] = torch.arange(distinct)
    return tuple(torch.stack([t[i, place[i]] for i in range(2)]) for t in (nodes, weights))


def brute_force(u: Tensor, w: Tensor, v: Tensor, z: Tensor, lengthscales: Tensor) -> Tensor:
    difference = u[:, :, :, None, None] - v[:, None, None, :, :]
    squares = (difference / lengthscales.reshape(-1, 1, 1, 1, 1)).square()
    return torch.einsum("dnjmk,dnj,dmk->dnm", squares.mul(-0.5).exp(), w, z)


@pytest.mark.parametrize("distinct", [3, 20])
@pytest.mark.parametrize("lengthscale", [0.01, 0.3, 5.0])
def test_sums_and_their_gradients(distinct: int, lengthscale: float) -> None:
    u, w = rules(0, distinct=distinct)
    v, z = rules(1, n=7, distinct=5)
    left, right = ColumnRules.of(u, w), ColumnRules.of(v, z)
    assert (left.place is None) == (distinct == 20)
    lengthscales = torch.tensor([lengthscale, 1.5 * lengthscale], dtype=torch.double)
    lengthscales.requires_grad_()
    for found, expected in (
        (left.sums(left, lengthscales), brute_force(u, w, u, w, lengthscales)),
        (left.sums(right, lengthscales), brute_force(u, w, v, z, lengthscales)),
    ):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
        factors = torch.sin(torch.arange(found.numel(), dtype=torch.double)).reshape(found.shape)
        gradients = [
            torch.autograd.grad((factors * sums).sum(), lengthscales)[0]
            for sums in (found, expected)
        ]
        torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-10)


def test_gradients_by_nodes() -> None:
    u, w = rules(0)
    u.requires_grad_()
    v, z = rules(1, n=3, distinct=3)
    lengthscales = torch.tensor([0.3, 0.4], dtype=torch.double)
    left = ColumnRules.of(u, w)
    assert left.place is None
    found = left.sums(ColumnRules.of(v, z), lengthscales).square().sum()
    expected = brute_force(u, w, v, z, lengthscales).square().sum()
    torch.testing.assert_close(
        torch.autograd.grad(found, u)[0], torch.autograd.grad(expected, u)[0]
    )


def test_nodes_very_far_apart_are_taken_in_pairs() -> None:
    u, w = rules(0)
    u = torch.cat([u, u + 1e6], dim=1)
    w = torch.cat([w, w], dim=1)
    lengthscales = torch.tensor([0.3, 0.4], dtype=torch.double)
    left = ColumnRules.of(u, w)
    torch.testing.assert_close(
        left.sums(left, lengthscales), brute_force(u, w, u, w, lengthscales), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("distinct", [3, 20])
@pytest.mark.parametrize("lengthscale", [1e-4, 0.3, 5.0])
def test_variances(distinct: int, lengthscale: float) -> None:
    """With the shortest length-scale nodes are so far apart that they are taken in pairs."""
    u, w = rules(0, distinct=distinct)
    left = ColumnRules.of(u, w)
    assert (left.place is None) == (distinct == 20)
    lengthscales = torch.tensor([lengthscale, 1.5 * lengthscale], dtype=torch.double)
    expected = brute_force(u, w, u, w, lengthscales).diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(left.variances(lengthscales), expected, rtol=1e-10, atol=1e-12)
