"""What the tests of conditionals share."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ax_costaware.laws import ColumnNodes, Conditional, SharedNodes


def uniform(*shape: int) -> Tensor:
    """Always the same points of the unit cube."""
    return torch.rand(*shape, dtype=torch.double, generator=torch.Generator().manual_seed(0))


def column_average(rule: ColumnNodes, functions: list[Callable[[Tensor], Tensor]]) -> Tensor:
    """The average of a product of functions of one column each."""
    averages = [
        (rule.weights[..., i] * function(rule.nodes[..., i])).sum(-1)
        for i, function in enumerate(functions)
    ]
    return torch.stack(averages, dim=-1).prod(dim=-1)


def joint_average(
    conditional: Conditional, A: Tensor, function: Callable[[Tensor], Tensor]
) -> Tensor:
    """The average of a function of the nodes ``... x J x d``."""
    nodes, weights = conditional.nodes_and_weights(A)
    return (weights * function(nodes)).sum(-1)


def tensors_of(conditional: Conditional, A: Tensor) -> list[Tensor]:
    """All that a conditional returns and that depends on the query."""
    column, joint = conditional.column_rule(A), conditional.joint_rule(A)
    found = [] if column is None else [column.nodes, column.weights]
    if not isinstance(joint, SharedNodes):
        found.append(joint.nodes)
    return [tensor for tensor in [*found, joint.weights] if tensor.requires_grad]
