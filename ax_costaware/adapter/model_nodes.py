"""Nodes of the inputs that are left to chance, in the model's space.

Independent inputs get joint quasi-random nodes and one-dimensional quadrature rules; inputs with a
joint law get nodes of that law, which depend on the point where a control set controls some of
them. Everything starts from raw values, which the adapter's own transforms map to points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from ax.core.types import TParamValue
from torch import Tensor

from ax_costaware.adapter.experiment_checks import atoms_of
from ax_costaware.generators.control_set_settings import ControlSetSettings
from ax_costaware.queries.joint import NodesGiven, Placement
from ax_costaware.queries.marginals import Marginal
from ax_costaware.queries.nodes import sobol_nodes

NUM_QUADRATURE_NODES = 64
"""Nodes of the one-dimensional rules: exact to rounding for the smooth kernels in use."""

Transform = Callable[[Sequence[Mapping[str, TParamValue]]], Tensor]
"""From raw values that differ from the nominal ones to points of the model's space."""


@dataclass(frozen=True)
class RandomNodes:
    """Nodes that stand for the law of the inputs left to chance, for each control set."""

    nodes: Tensor
    """Nodes ``n x d`` for control sets that the point does not matter to."""

    weights: Tensor
    """Weights of ``nodes``, ``n``."""

    given: tuple[NodesGiven | None, ...]
    """For each control set, in the order of the settings: nodes and weights given a point, where it
    controls some of the inputs with a joint law and leaves others to chance; else None."""


def random_nodes(
    at_random: Sequence[str],
    marginals: Mapping[str, Marginal],
    settings: ControlSetSettings,
    transform: Transform,
    columns: Mapping[str, tuple[int, ...]],
) -> RandomNodes:
    """The nodes of a strategy's inputs.

    Args:
        at_random: Names of the parameters that some control set leaves to chance.
        marginals: The present laws of those that are independent of the others.
        settings: The settings of the strategy, with the joint law if there is one.
        transform: From raw values to points of the model's space.
        columns: Columns of each parameter in that space.
    """
    joint, control_sets = settings.joint, settings.control_sets
    if joint is None or not set(joint.names) & set(at_random):
        nodes, weights = _independent_nodes(at_random, marginals, settings, transform)
        return RandomNodes(nodes, weights, tuple(None for _ in control_sets))

    def nodes_given(controlled: Sequence[str]) -> NodesGiven:
        independent = {
            name: marginals[name]
            for name in at_random
            if name not in joint.names and name not in controlled
        }
        place = Placement(
            transform=transform,
            columns=columns,
            independent=independent,
            num_nodes=settings.num_nodes,
            seed=settings.seed,
        )
        return joint.nodes_given(controlled, place)

    (default,) = transform([{}])
    nodes, weights = nodes_given(())(default.unsqueeze(0))
    given = []
    for control_set in control_sets:
        held = set(joint.names) & set(control_set.parameters)
        splits = bool(held) and held != set(joint.names)
        given.append(nodes_given(control_set.parameters) if splits else None)
    return RandomNodes(nodes[0], weights[0], tuple(given))


def quadrature_rule(
    name: str, marginal: Marginal, is_discrete: bool, transform: Transform
) -> tuple[Tensor, Tensor]:
    """Quadrature rule of one parameter: points that differ in its columns only, and weights."""
    atoms = atoms_of(marginal) if is_discrete else None
    # A sample of a discrete input must be taken whole: a Gauss rule lies between its values.
    count = NUM_QUADRATURE_NODES if atoms is None else max(NUM_QUADRATURE_NODES, len(atoms))
    positions, weights = marginal.nodes_and_weights(count)
    return transform([{name: value} for value in marginal.decode(positions)]), weights


def _independent_nodes(
    at_random: Sequence[str],
    marginals: Mapping[str, Marginal],
    settings: ControlSetSettings,
    transform: Transform,
) -> tuple[Tensor, Tensor]:
    if not at_random:
        return transform([{}]), torch.ones(1, dtype=torch.double)
    laws = [marginals[name] for name in at_random]
    positions, weights = sobol_nodes(laws, settings.num_nodes, seed=settings.seed)
    raw = [law.decode(positions[:, i]) for i, law in enumerate(laws)]
    rows = [dict(zip(at_random, values, strict=True)) for values in zip(*raw, strict=True)]
    return transform(rows), weights
