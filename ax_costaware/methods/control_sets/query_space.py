"""Control sets, marginals and discrete values as the GP sees them.

Everything here starts from raw values of the parameters, which the space encodes. Log, Logit,
one-hot, integer and ordered parameters are thereby right without a line about any of them: a node
moves with its input, and its weight stays (section 0 of Tay et al. 2023 integrates over the same
law in either space). Independent inputs get joint quasi-random nodes and one-dimensional quadrature
rules; inputs with a joint law get nodes of that law, which depend on the point where a control set
controls some of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from botorch.models.model import Model
from torch import Tensor

from ax_costaware.acquisition import ControlSetOptima, optimize_control_sets
from ax_costaware.methods.control_sets.chance import atoms_of, realized_inputs, updated_marginals
from ax_costaware.methods.costs import MOST_VALUES
from ax_costaware.methods.parameters import Choice, FreeParameter, Value
from ax_costaware.methods.problem import Problem, decision_seed
from ax_costaware.methods.space import Space
from ax_costaware.models import expectation_posterior
from ax_costaware.queries.joint import NodesGiven, Placement
from ax_costaware.queries.marginals import Marginal
from ax_costaware.queries.nodes import ProductNodes, sobol_nodes

if TYPE_CHECKING:
    from ax_costaware.methods.control_sets import ControlSets

NUM_QUADRATURE_NODES = 64
"""Nodes of the one-dimensional rules: exact to rounding for the smooth kernels in use."""

Transform = Callable[[Sequence[Mapping[str, Value]]], Tensor]
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
    method: ControlSets,
    transform: Transform,
    columns: Mapping[str, tuple[int, ...]],
) -> RandomNodes:
    """The nodes of a method's inputs.

    Args:
        at_random: Names of the parameters that some control set leaves to chance.
        marginals: The present laws of those that are independent of the others.
        method: The method, with the joint law if there is one.
        transform: From raw values to points of the model's space.
        columns: Columns of each parameter in that space.
    """
    joint, control_sets = method.joint, method.control_sets
    if joint is None or not set(joint.names) & set(at_random):
        nodes, weights = _independent_nodes(at_random, marginals, method, transform)
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
            num_nodes=method.num_nodes,
            seed=method.seed,
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
    method: ControlSets,
    transform: Transform,
) -> tuple[Tensor, Tensor]:
    if not at_random:
        return transform([{}]), torch.ones(1, dtype=torch.double)
    laws = [marginals[name] for name in at_random]
    positions, weights = sobol_nodes(laws, method.num_nodes, seed=method.seed)
    raw = [law.decode(positions[:, i]) for i, law in enumerate(laws)]
    rows = [dict(zip(at_random, values, strict=True)) for values in zip(*raw, strict=True)]
    return transform(rows), weights


@dataclass(frozen=True)
class QuerySpace:
    """The control-set problem in the input space of the model, with ``d`` columns."""

    space: Space
    """How the parameters are encoded."""

    control_sets: tuple[tuple[int, ...], ...]
    """Columns that each control set controls, in the order of the settings."""

    nodes: Tensor
    """Joint quasi-random nodes of the uncontrolled inputs, ``n x d``."""

    weights: Tensor
    """Weights of ``nodes``, ``n``."""

    given: tuple[NodesGiven | None, ...]
    """For each control set, what takes the place of ``nodes`` and ``weights`` where it controls
    some of the inputs that depend on each other, and leaves others to chance; else None."""

    product: ProductNodes | None
    """One-dimensional quadrature rules, one block of columns per parameter; None where inputs that
    are left to chance depend on each other."""

    discrete: dict[str, Tensor]
    """The values of each discrete parameter in its columns, ``m x len(columns)``."""

    nominal: dict[str, Value]
    """Raw value that an arm carries for a parameter that its trial does not control."""

    default: Tensor
    """``nominal`` in the model's space, ``d``."""

    def search(
        self,
        model: Model,
        problem: Problem,
        indices: Sequence[int],
        acquisition: str,
        seed: int,
        beta: float = 2.0,
        pending: Tensor | None = None,
        held: Mapping[int, float] | None = None,
        options: Mapping[str, int] | None = None,
    ) -> ControlSetOptima:
        """The best point of some control sets, see ``optimize_control_sets``."""
        held = held or {}
        return optimize_control_sets(
            model,
            self.space.bounds,
            [self.control_sets[i] for i in indices],
            self.nodes,
            self.weights,
            beta,
            acquisition=acquisition,
            product=self.product,
            given=[self.given[i] for i in indices],
            posterior_transform=problem.direction,
            X_pending=pending,
            discrete=[
                (columns, values)
                for name, values in self.discrete.items()
                if (columns := self.space.columns[name].indices) and not set(columns) & set(held)
            ],
            inequality_constraints=self.space.inequality_constraints,
            fixed_features=dict(held),
            default=self.default,
            seed=seed,
            **(options or {}),
        )

    def best_means(
        self,
        model: Model,
        problem: Problem,
        method: ControlSets,
        indices: Sequence[int],
        trial: int,
    ) -> ControlSetOptima:
        """The points with the best expected posterior mean.

        Args:
            model: The fitted model, or one like it that has seen less.
            problem: The problem.
            method: The method.
            indices: Of control sets, in declared order.
            trial: Which trial could follow; the search is seeded by it.
        """
        return self.search(model, problem, indices, "mean", decision_seed(method.seed, trial))

    def expectations(
        self, model: Model, queries: Sequence[tuple[Tensor, int]]
    ) -> tuple[Tensor, Tensor]:
        """Posterior mean and variance of the objective's expectation over what is left to chance.

        Args:
            model: A model of this space.
            queries: Points ``d``, each with the index of the control set that sets its controlled
                columns.

        Returns:
            Means and variances, one for each query, in the units of the model's posterior.
        """
        found = []
        with torch.no_grad():
            for point, control_set in queries:
                law = self.query(point, control_set)
                rule, weights = (law, None) if isinstance(law, ProductNodes) else law
                found.append(expectation_posterior(model, rule, weights))
        means, variances = zip(*found, strict=True)
        return torch.stack(means), torch.stack(variances)

    def query(self, point: Tensor, control_set: int) -> ProductNodes | tuple[Tensor, Tensor]:
        """The law of the inputs when a control set is set as in ``point``, ``d``.

        Returns:
            Quadrature rules of independent inputs; or nodes ``n x d`` with weights ``n`` where
            inputs that are left to chance depend on each other.
        """
        if self.product is not None:
            return _with_held(self.product, point, self.control_sets[control_set])
        return self.nodes_of(point, control_set)

    def nodes_of(self, point: Tensor, control_set: int) -> tuple[Tensor, Tensor]:
        """The same law as quasi-random nodes ``n x d`` with weights ``n``."""
        columns, given = self.control_sets[control_set], self.given[control_set]
        if given is not None:
            nodes, weights = given(point.unsqueeze(0))
            return nodes[0], weights[0]
        nodes = self.nodes.to(point).clone()
        nodes[:, list(columns)] = point[list(columns)]
        return nodes, self.weights.to(point)

    def controlled(self, point: Tensor, parameters: Sequence[str]) -> dict[str, Value]:
        """Raw values of some parameters at a point of the model's space, ``d``."""
        (row,) = self.space.decode(point.unsqueeze(0))
        return {name: row[name] for name in parameters}


def query_space(problem: Problem, method: ControlSets) -> QuerySpace:
    """The control-set problem in the model's space, with what was learned of the marginals.

    Arms carry the nominal values of the method's own marginals, which stay the same while the
    experiment runs.
    """
    space = problem.space
    marginals = updated_marginals(method.marginals, realized_inputs(problem.trials, method))
    nominal = nominal_values(space, method.laws)

    def transform(rows: Sequence[Mapping[str, Value]]) -> Tensor:
        return space.encode([{**nominal, **row} for row in rows])

    default = transform([{}])[0]
    columns = {name: column.indices for name, column in space.columns.items()}
    discrete: dict[str, Tensor] = {}
    for name, column in space.columns.items():
        values = column.parameter.values_up_to(MOST_VALUES)
        if values is not None:
            discrete[name] = default.new_tensor([column.encode(value) for value in values])
    at_random = [n for n in columns if any(n not in s.parameters for s in method.control_sets)]
    nodes = random_nodes(at_random, marginals, method, transform, columns)
    product = None
    if all(name in marginals for name in at_random):
        rules = {
            name: quadrature_rule(name, marginals[name], name in discrete, transform)
            if name in at_random
            else (default.unsqueeze(0), default.new_ones(1))
            for name in columns
        }
        product = ProductNodes(
            columns=tuple(columns[name] for name in rules),
            nodes=tuple(points[:, list(columns[name])] for name, (points, _) in rules.items()),
            weights=tuple(weights.to(default) for _, weights in rules.values()),
        )
    return QuerySpace(
        space=space,
        control_sets=tuple(
            tuple(sorted(i for name in s.parameters for i in columns.get(name, ())))
            for s in method.control_sets
        ),
        nodes=nodes.nodes,
        weights=nodes.weights.to(default),
        given=nodes.given,
        product=product,
        discrete=discrete,
        nominal=nominal,
        default=default,
    )


def _with_held(product: ProductNodes, point: Tensor, columns: Sequence[int]) -> ProductNodes:
    """``product`` with point masses at the ``columns`` of ``point``."""
    nodes, weights = [], []
    for block, block_nodes, block_weights in zip(
        product.columns, product.nodes, product.weights, strict=True
    ):
        is_held = set(columns).issuperset(block)
        nodes.append(point[list(block)].unsqueeze(0) if is_held else block_nodes)
        weights.append(point.new_ones(1) if is_held else block_weights)
    return ProductNodes(columns=product.columns, nodes=tuple(nodes), weights=tuple(weights))


def nominal_values(space: Space, laws: Mapping[str, Marginal]) -> dict[str, Value]:
    """Raw value of each parameter where a trial does not control it.

    The marginal's nominal value; for a parameter that every control set controls, and that may
    therefore lack a marginal, its middle value, which no trial ever uses.
    """
    found: dict[str, Value] = dict(space.fixed)
    for name, column in space.columns.items():
        p = column.parameter
        found[name] = _nominal(p, laws[name]) if name in laws else _middle(p)
    return found


def _nominal(parameter: FreeParameter, marginal: Marginal) -> Value:
    value, atoms = marginal.nominal, atoms_of(marginal)
    if isinstance(parameter, Choice) or parameter.is_integer:
        # The mean of a sample need not be a value of the parameter: take the nearest that is.
        assert atoms is not None
        if value not in atoms:
            value = min(atoms, key=lambda atom: abs(float(atom) - float(value)))
        return int(value) if parameter.is_integer else value
    return min(max(float(value), parameter.lower), parameter.upper)


def _middle(parameter: FreeParameter) -> Value:
    if isinstance(parameter, Choice):
        return parameter.values[len(parameter.values) // 2]
    lower, upper = parameter.lower, parameter.upper
    middle = (lower * upper) ** 0.5 if parameter.log_scale else (lower + upper) / 2
    return round(middle) if parameter.is_integer else middle
