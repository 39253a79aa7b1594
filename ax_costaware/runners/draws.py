"""Draws of the inputs that a trial leaves to chance, for simulation. Values are in raw units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from ax.exceptions.core import UserInputError
from torch import Tensor

from ax_costaware.methods.parameters import Choice, Value
from ax_costaware.queries.conditionals.conditional import Conditional
from ax_costaware.queries.joint.law import JointLaw, Placement
from ax_costaware.queries.marginals import Discrete, Marginal
from ax_costaware.queries.marginals.marginal import RawValue

_NUM_NODES = 512
"""Nodes that stand for a joint law, one of which is drawn; they are others for each draw."""


def draw_independent(
    laws: Mapping[str, Marginal], random: np.random.Generator
) -> dict[str, RawValue]:
    """One value of each input, by the quantile functions of their laws."""
    values: dict[str, RawValue] = {}
    for name, law in laws.items():
        u = torch.tensor([random.uniform()], dtype=torch.double)
        values[name] = law.decode(law.icdf(u))[0]
    return values


def draw_given(
    law: JointLaw, given: Mapping[str, Any], random: np.random.Generator
) -> dict[str, Value]:
    """One value of each input of a joint law that is not given, given those that are.

    One of the law's nodes is drawn by its weight. A copula's nodes are draws themselves; those of a
    sample are its rows, moved as the law says.
    """
    names = list(dict.fromkeys((*law.names, *given)))
    # Texts and booleans as numbers: by their place.
    codes = {
        name: Choice(name, marginal.values)
        for name in law.names
        if isinstance(marginal := law.marginal(name), Discrete) and not marginal.is_numeric
    }

    def number(name: str, value: Any) -> float:
        if value is None or name not in law.names:
            # Of no consequence: no part of the law, or one that is overwritten.
            return 0.0
        return codes[name].encode(value) if name in codes else float(value)

    def transform(rows: Sequence[Mapping[str, RawValue]]) -> Tensor:
        numbers = [[number(n, row.get(n, given.get(n))) for n in names] for row in rows]
        return torch.tensor(numbers, dtype=torch.double)

    placement = Placement(
        transform=transform,
        columns={name: (i,) for i, name in enumerate(names)},
        independent={},
        num_nodes=_NUM_NODES,
        seed=int(random.integers(2**31)),
    )
    nodes, weights = law.nodes_given([n for n in given if n in law.names], placement)(
        transform([given])
    )
    positive = weights[0].detach().clamp_min(0.0)
    chosen = random.choice(len(positive), p=np.asarray(positive / positive.sum()))
    drawn = dict(zip(names, nodes[0, chosen].tolist(), strict=True))
    return {
        name: codes[name].decode(drawn[name]) if name in codes else drawn[name]
        for name in law.names
        if name not in given
    }


def answer_points(
    conditional: Conditional, targets: Sequence[str], query: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], np.ndarray]:
    """The points that an indirect query is the average over, and their weights.

    Raises:
        UserInputError: If the conditional is of another number of columns than ``targets`` says.
    """
    values = [float(value) for value in query.values()]
    nodes, weights = conditional.nodes_and_weights(torch.tensor([values], dtype=torch.double))
    if nodes.shape[-1] != len(targets):
        raise UserInputError(
            f"targets={list(targets)!r}: expected {nodes.shape[-1]} names, one for each column of "
            "the conditional's points."
        )
    points = [dict(zip(targets, map(float, node), strict=True)) for node in nodes[0]]
    return points, weights[0].detach().numpy()
