"""Nodes and weights of the joint distribution of independent inputs.

- ``sobol_nodes``: joint points of equal weight, for any integrand. A scrambled Sobol sequence (Owen
  1998) is mapped through the quantile functions.
- ``ProductNodes``: one rule per input, for integrands that are products over the inputs. Their
  integral is a product of one-dimensional sums.

Nodes of marginals are in raw units, and transformed ones in those of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ax_costaware.argument_checks import (
    SUM_TOLERANCE,
    checked_items,
    finite_tensor,
    instance_of,
    integer_at_least,
    set_fields,
)
from ax_costaware.exceptions import InputError
from ax_costaware.laws.marginals import Marginal
from ax_costaware.laws.quadrature import uniforms


def sobol_nodes(marginals: Sequence[Marginal], n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return joint quasi-random nodes of independent inputs.

    Args:
        marginals: Marginals of the ``d`` inputs.
        n: Number of nodes; a power of two is spread most evenly.
        seed: Seed of the scrambling. Equal seeds give equal nodes.

    Returns:
        Nodes ``n x d`` and weights ``n``, each ``1 / n``, both double. Nodes of a ``Discrete``
        marginal that is not on numbers are positions in its values.

    Raises:
        InputError: If there are no marginals, one is not a marginal, ``n < 1`` or ``seed < 0``.
    """
    laws = _checked_marginals(marginals)
    size = integer_at_least(n, 1, "n")
    u = uniforms(len(laws), size, seed)
    nodes = torch.stack([law.icdf(u[:, i]) for i, law in enumerate(laws)], dim=-1)
    return nodes, torch.full((size,), 1.0 / size, dtype=torch.double)


@dataclass(frozen=True, eq=False)
class ProductNodes:
    """Quadrature rules of independent blocks of input columns.

    A block has one column, or all columns of a one-hot encoded choice.

    Raises:
        InputError: Unless there is one rule per block, no column is in two blocks, shapes agree,
            nodes are finite, and the weights of each block are non-negative and sum to one.
    """

    columns: tuple[tuple[int, ...], ...]
    """Input columns of each block."""

    nodes: tuple[Tensor, ...]
    """Nodes of each block, ``m_b x len(columns[b])``."""

    weights: tuple[Tensor, ...]
    """Weights of each block, ``m_b``."""

    def __post_init__(self) -> None:
        columns = tuple(tuple(block) for block in self.columns)
        nodes, weights = tuple(self.nodes), tuple(self.weights)
        if not columns or not len(columns) == len(nodes) == len(weights):
            raise InputError(
                f"columns, nodes and weights have {len(columns)}, {len(nodes)} and {len(weights)} "
                "blocks: expected the same number, at least one."
            )
        flat = [column for block in columns for column in block]
        valid = all(type(column) is int and column >= 0 for column in flat)
        if not valid or len(set(flat)) < len(flat) or not all(columns):
            raise InputError(
                f"columns={columns!r}: expected blocks of one or more column indices, each index "
                "in one block only."
            )
        for b, block in enumerate(columns):
            shape = f"finite values of shape (number of nodes, {len(block)})"
            finite_tensor(nodes[b], f"nodes[{b}]", (None, len(block)), shape)
            check_weights(weights[b], nodes[b], f"weights[{b}]")
        set_fields(self, columns=columns, nodes=nodes, weights=weights)

    @classmethod
    def from_marginals(cls, marginals: Sequence[Marginal], n: int = 64) -> ProductNodes:
        """Make a block of one column for each marginal, in order.

        Args:
            marginals: Marginals of the ``d`` inputs.
            n: Largest number of nodes of each rule; see ``Marginal.nodes_and_weights``.

        Raises:
            InputError: If there are no marginals, one is not a marginal, or ``n < 1``.
        """
        rules = [law.nodes_and_weights(n) for law in _checked_marginals(marginals)]
        return cls(
            columns=tuple((column,) for column in range(len(rules))),
            nodes=tuple(nodes.unsqueeze(-1) for nodes, _ in rules),
            weights=tuple(weights for _, weights in rules),
        )


def _checked_marginals(marginals: Any) -> tuple[Marginal, ...]:
    expected = "a list of one or more marginals such as Uniform(0, 1)"
    check = partial(instance_of, kind=Marginal, expected=expected)
    return checked_items(marginals, "marginals", expected, check)


def check_weights(weights: Tensor, nodes: Tensor, name: str) -> None:
    """Refuse weights that do not fit nodes ``... x m x d``.

    Raises:
        InputError: If the shape is wrong, or weights are negative or do not sum to one.
    """
    if weights.shape != nodes.shape[:-1]:
        raise InputError(
            f"{name} has the shape {tuple(weights.shape)}: expected one weight for each node, "
            f"{tuple(nodes.shape[:-1])}."
        )
    total = float(weights.sum())
    if not bool((weights >= 0).all()) or not abs(total - 1.0) <= SUM_TOLERANCE:
        raise InputError(
            f"{name} has the minimum {float(weights.min())!r} and the sum {total!r}: "
            "expected weights >= 0 that sum to one."
        )
