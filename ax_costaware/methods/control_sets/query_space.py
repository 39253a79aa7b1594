"""Control sets, distributions and discrete values in the model's input space.

Nodes are raw values of the parameters, which the space encodes. Log, logit, one-hot, integer and
ordered parameters need no special case: a node is transformed with its input and keeps its weight.
Independent inputs have joint quasi-random nodes and one-dimensional quadrature rules. Inputs with a
joint distribution have nodes of that distribution, which are conditional on the point if a control
set controls some of these inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from botorch.models.model import Model
from torch import Tensor

from ax_costaware.acquisition import Optimum, optimize_control_sets
from ax_costaware.acquisition.batch_knowledge import batch_knowledge
from ax_costaware.acquisition.feasibility import Feasibility
from ax_costaware.acquisition.objectives import log_probability_of_queries
from ax_costaware.acquisition.partial_query import QueryNodes
from ax_costaware.acquisition.starts import regions_of
from ax_costaware.core.problem import Problem, decision_seed
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.costs.control_set import ControlSet
from ax_costaware.laws.joint import NodesGiven, Placement
from ax_costaware.laws.marginals import Marginal
from ax_costaware.laws.nodes import ProductNodes, sobol_nodes
from ax_costaware.methods.control_sets.learned import (
    ExpectedCosts,
    atoms_of,
    learned_from,
    realized_inputs,
    values_of,
)
from ax_costaware.methods.costs import MOST_VALUES
from ax_costaware.models import expectation_posterior
from ax_costaware.models.posterior import FunctionalPosterior
from ax_costaware.space.parameters import Choice, FreeParameter, Row, Value
from ax_costaware.space.space import Space

if TYPE_CHECKING:
    from ax_costaware.methods.control_sets import ControlSets

NUM_QUADRATURE_NODES = 64
"""Nodes of a one-dimensional rule, which is then exact to rounding for smooth kernels."""


@dataclass(frozen=True)
class QuerySpace:
    """The control-set problem in the input space of the model, with ``d`` columns."""

    problem: Problem
    """The problem."""

    method: ControlSets
    """The method."""

    @property
    def space(self) -> Space:
        """The search space."""
        return self.problem.space

    @cached_property
    def control_sets(self) -> tuple[tuple[int, ...], ...]:
        """Columns that each control set controls, in the order of the settings."""
        columns = self.space.columns
        return tuple(
            tuple(sorted(i for n in s.parameters if n in columns for i in columns[n].indices))
            for s in self.method.control_sets
        )

    @cached_property
    def at_random(self) -> list[str]:
        """Names of the parameters that some control set does not control."""
        control_sets = self.method.control_sets
        return [n for n in self.space.columns if any(n not in s.parameters for s in control_sets)]

    @cached_property
    def marginals(self) -> dict[str, Marginal]:
        """Current distributions of the independent inputs, by name."""
        realized = realized_inputs(self.problem.trials, self.method)
        laws = self.method.marginals.items()
        return {name: learned_from(law, values_of(name, realized)) for name, law in laws}

    @cached_property
    def nominal(self) -> dict[str, Value]:
        """Raw values that an arm has for parameters that its trial does not control.

        They are the nominal values of the declared marginals, which stay the same while the
        experiment runs. A parameter that every control set controls may have no marginal; its
        middle value is a placeholder that no trial uses.
        """
        laws, columns = self.method.laws, self.space.columns
        values = {name: _nominal(c.parameter, laws.get(name)) for name, c in columns.items()}
        return {**self.space.fixed, **values}

    @cached_property
    def default(self) -> Tensor:
        """``nominal`` in the model's space, ``d``."""
        return self.points([{}])[0]

    @cached_property
    def discrete(self) -> dict[str, Tensor]:
        """The values of each discrete parameter in its columns, ``m x len(columns)``."""
        found: dict[str, Tensor] = {}
        for name, column in self.space.columns.items():
            values = column.parameter.values_up_to(MOST_VALUES)
            if values is not None:
                found[name] = self.default.new_tensor([column.encode(value) for value in values])
        return found

    @cached_property
    def nodes(self) -> tuple[Tensor, Tensor]:
        """Joint quasi-random nodes of the uncontrolled inputs, ``n x d``, with weights ``n``.

        They serve the control sets whose nodes do not depend on the point.
        """
        method, joint, names = self.method, self.method.joint, self.at_random
        if joint is not None and set(joint.names) & set(names):
            nodes, weights = self._nodes_given(())(self.default.unsqueeze(0))
            return nodes[0], weights[0]
        if not names:
            return self.default.unsqueeze(0), self.default.new_ones(1)
        laws = [self.marginals[name] for name in names]
        positions, weights = sobol_nodes(laws, method.num_nodes, method.seed)
        values = [law.decode(positions[:, i]) for i, law in enumerate(laws)]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
        return self.points(rows), weights.to(self.default)

    @cached_property
    def given(self) -> tuple[NodesGiven | None, ...]:
        """Conditional nodes of each control set that controls a part of the dependent inputs.

        None for any other, which uses ``nodes``.
        """
        joint = self.method.joint
        dependent = set() if joint is None else set(joint.names)
        return tuple(
            self._nodes_given(s.parameters)
            if 0 < len(dependent & {*s.parameters}) < len(dependent)
            else None
            for s in self.method.control_sets
        )

    @cached_property
    def laws(self) -> list[NodesGiven]:
        """Functions from points to nodes and weights of the inputs, by control set."""
        return [
            law or QueryNodes(*self.nodes, columns)
            for law, columns in zip(self.given, self.control_sets, strict=True)
        ]

    @cached_property
    def product(self) -> ProductNodes | None:
        """One-dimensional quadrature rules, one block of columns per parameter.

        None if uncontrolled inputs depend on each other.
        """
        if any(name not in self.marginals for name in self.at_random):
            return None
        nodes, weights = zip(*(self._quadrature(name) for name in self.space.columns), strict=True)
        blocks = tuple(column.indices for column in self.space.columns.values())
        return ProductNodes(columns=blocks, nodes=nodes, weights=weights)

    @cached_property
    def costs(self) -> ExpectedCosts:
        """Expected costs of the control sets."""
        return ExpectedCosts(self)

    def points(self, rows: Sequence[Row]) -> Tensor:
        """Return points of the model's space, ``n x d``; missing raw values are nominal."""
        return self.space.encode([{**self.nominal, **row} for row in rows])

    def arm(self, control_set: ControlSet, controlled: Row) -> dict[str, Value]:
        """Return the parameterization of a trial that sets some raw values, in declared order."""
        chosen = {**controlled, CONTROL_SET: str(control_set.name)}
        return self.space.ordered({**self.nominal, **chosen})

    def controlled(self, point: Tensor, parameters: Sequence[str]) -> dict[str, Value]:
        """Return raw values of some parameters at a point of the model's space, ``d``."""
        (row,) = self.space.decode(point.unsqueeze(0))
        return {name: row[name] for name in parameters}

    def search(
        self,
        indices: Sequence[int],
        acquisition: str,
        seed: int,
        model: Model | None = None,
        held: Mapping[int, float] | None = None,
        **options: Any,
    ) -> Optimum[Tensor]:
        """Return the best point of each of some control sets.

        Args:
            indices: Indices of the control sets, in declared order.
            acquisition: Name of the acquisition function, see ``optimize_control_sets``.
            seed: Seed of the search.
            model: A model with other data; None for the fitted model.
            held: Columns that are fixed, with their values.
            options: Further options of ``optimize_control_sets``.
        """
        held = dict(held or {})
        if model is None and options.get("X_pending") is None:
            options["posterior"] = self.problem.posterior
        return optimize_control_sets(
            model or self.problem.model,
            self.space.bounds,
            [self.control_sets[i] for i in indices],
            *self.nodes,
            acquisition=acquisition,
            product=self.product,
            given=[self.given[i] for i in indices],
            discrete=self._discrete_but(held),
            inequality_constraints=self.space.inequality_constraints,
            elimination=self.space.elimination,
            fixed_features=held,
            default=self.default,
            seed=seed,
            **options,
        )

    def knowledge(self, indices: Sequence[int], count: int) -> list[float]:
        """Return the expected gain in the best expectation by ``count`` trials of each control set.

        It is in the unit of the objective; see ``batch_knowledge``.
        """
        problem, space = self.problem, self.space
        gains = batch_knowledge(
            FunctionalPosterior.of(problem.model, X_pending=problem.X_pending),
            self.laws,
            [list(columns) for columns in self.control_sets],
            regions_of(
                self.control_sets,
                space.bounds,
                self.default,
                self._discrete_but(problem.held),
                space.inequality_constraints,
                problem.held,
                space.elimination,
            ),
            problem.evaluated,
            [count if i in indices else 0 for i in range(len(self.control_sets))],
            decision_seed(self.method.seed, problem.next_index),
            Feasibility.of(
                problem.constraints,
                lambda model: FunctionalPosterior.of(model, None, problem.X_pending),
            ),
        )
        return [problem.scale.unit * gains[i] for i in indices]

    def best_means(
        self, indices: Sequence[int], trial: int, model: Model | None = None, **options: Any
    ) -> Optimum[Tensor]:
        """Return the points of some control sets with the best expected posterior mean.

        Args:
            indices: Indices of the control sets, in declared order.
            trial: Index of the next trial, which seeds the search.
            model: As for ``search``.
            options: As for ``search``.
        """
        seed = decision_seed(self.method.seed, trial)
        return self.search(indices, "mean", seed, model, **options)

    @cached_property
    def feasibility(self) -> Feasibility[FunctionalPosterior]:
        """The posteriors of the constrained outcomes, with their bounds."""
        return Feasibility.of(self.problem.constraints, FunctionalPosterior.of)

    def log_feasibility(self, points: Tensor, sets: Sequence[int]) -> Tensor | None:
        """Return the log probability that expectations satisfy all outcome constraints.

        Args:
            points: ``n x d`` points.
            sets: Index of each point's control set.

        Returns:
            ``n`` log probabilities; None without constraints.
        """
        if not self.problem.constraints:
            return None
        log_probability = log_probability_of_queries(self.feasibility, self.laws, self.product)
        with torch.no_grad():
            return log_probability(points, torch.tensor(sets))

    def expectations(self, points: Tensor, sets: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return posterior mean and variance of the expectation over the uncontrolled inputs.

        Args:
            points: ``n x d`` points.
            sets: Index of each point's control set.

        Returns:
            Means and variances, ``n`` each, on the scale of the model.
        """
        queries = zip(points, sets, strict=True)
        with torch.no_grad():
            found = [expectation_posterior(self.problem.model, *self.query(*q)) for q in queries]
        means, variances = zip(*found, strict=True)
        return torch.stack(means), torch.stack(variances)

    def query(
        self, point: Tensor, control_set: int
    ) -> tuple[ProductNodes, None] | tuple[Tensor, Tensor]:
        """Return the distribution of the inputs given the controlled values of ``point``, ``d``.

        Returns:
            Quadrature rules of independent inputs; or nodes ``n x d`` with weights ``n`` if
            uncontrolled inputs depend on each other.
        """
        columns, product = self.control_sets[control_set], self.product
        if product is None:
            return self.nodes_of(point, control_set)
        rules = [
            (point[list(block)].unsqueeze(0), point.new_ones(1))
            if set(block) <= set(columns)
            else (product.nodes[i], product.weights[i])
            for i, block in enumerate(product.columns)
        ]
        block_nodes, block_weights = zip(*rules, strict=True)
        return replace(product, nodes=block_nodes, weights=block_weights), None

    def nodes_of(self, point: Tensor, control_set: int) -> tuple[Tensor, Tensor]:
        """Return the distribution of ``query`` as quasi-random nodes ``n x d``, weights ``n``."""
        nodes, weights = self.laws[control_set](point.unsqueeze(0))
        return nodes[0], weights[0]

    def _discrete_but(self, held: Mapping[int, float]) -> list[tuple[tuple[int, ...], Tensor]]:
        """Return the discrete columns and their values, except the fixed ones."""
        found = [(self.space.columns[n].indices, values) for n, values in self.discrete.items()]
        return [(columns, values) for columns, values in found if not {*columns} & {*held}]

    def _nodes_given(self, controlled: Sequence[str]) -> NodesGiven:
        """Return a function from points to nodes and weights, given the controlled parameters."""
        joint = self.method.joint
        assert joint is not None
        others = {*joint.names, *controlled}
        independent = [name for name in self.at_random if name not in others]
        place = Placement(
            transform=self.points,
            columns={name: column.indices for name, column in self.space.columns.items()},
            independent={name: self.marginals[name] for name in independent},
            num_nodes=self.method.num_nodes,
            seed=self.method.seed,
        )
        return joint.nodes_given(controlled, place)

    def _quadrature(self, name: str) -> tuple[Tensor, Tensor]:
        """Return the nodes of one parameter in its columns, and their weights."""
        columns = list(self.space.columns[name].indices)
        if name not in self.at_random:
            return self.default[columns].unsqueeze(0), self.default.new_ones(1)
        marginal = self.marginals[name]
        # A discrete input needs all its atoms: the nodes of a Gauss rule lie between them.
        atoms = atoms_of(marginal) if name in self.discrete else None
        positions, weights = marginal.nodes_and_weights(max(NUM_QUADRATURE_NODES, len(atoms or ())))
        points = self.points([{name: value} for value in marginal.decode(positions)])
        return points[:, columns], weights.to(points)


def _nominal(parameter: FreeParameter, marginal: Marginal | None) -> Value:
    if marginal is None:
        return parameter.at(0.5)
    value, atoms = marginal.nominal, atoms_of(marginal)
    if isinstance(parameter, Choice) or parameter.is_integer:
        # The mean of a sample need not be a value of the parameter: take the nearest value.
        assert atoms is not None
        if value not in atoms:
            value = min(atoms, key=lambda atom: abs(float(atom) - float(value)))
    return value if isinstance(parameter, Choice) else parameter.decode(float(value))
