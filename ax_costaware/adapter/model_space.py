"""Control sets, marginals and discrete values as the GP sees them.

Everything here starts from raw values of the parameters and is mapped to the model's input space
by the adapter's own transforms, one raw point at a time. Log, Logit, one-hot, integer and ordered
parameters are thereby right without a line about any of them: a node moves with its input, and its
weight stays (section 0 of Tay et al. 2023 integrates over the same law in either space).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from ax.adapter.adapter_utils import extract_inequality_constraints, extract_search_space_digest
from ax.core.observation import ObservationFeatures
from ax.core.parameter import ChoiceParameter, FixedParameter, ParameterType, RangeParameter
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace
from ax.core.types import TParamValue
from botorch.models.model import Model
from torch import Tensor

from ax_costaware.adapter.experiment_checks import atoms_of, free_parameters
from ax_costaware.adapter.model_nodes import quadrature_rule, random_nodes
from ax_costaware.generators.control_set_settings import ControlSetSettings
from ax_costaware.models import expectation_posterior
from ax_costaware.queries.joint import NodesGiven
from ax_costaware.queries.marginals import Marginal
from ax_costaware.queries.nodes import ProductNodes
from ax_costaware.records import CONTROL_SET

if TYPE_CHECKING:
    from ax.adapter.torch import TorchAdapter

MAX_INTEGER_VALUES = 256
"""An integer parameter with more values than this is searched as a continuous one and rounded."""


@dataclass(frozen=True)
class ModelSpace:
    """The control-set problem in the input space of the model, with ``d`` columns."""

    columns: dict[str, tuple[int, ...]]
    """Columns of each free parameter; several for a one-hot encoded one."""

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

    discrete: dict[str, tuple[tuple[TParamValue, ...], Tensor]]
    """Raw values of each discrete parameter, and the same in its columns, ``m x len(columns)``."""

    nominal: dict[str, TParamValue]
    """Raw value that an arm carries for a parameter that its trial does not control."""

    default: Tensor
    """``nominal`` in the model's space, ``d``."""

    bounds: Tensor
    """Bounds of the columns, ``2 x d``."""

    constraints: list[tuple[Tensor, Tensor, float]]
    """Parameter constraints as ``(indices, coefficients, rhs)``, ``sum_i c_i x_i >= rhs``."""

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
        columns = self.control_sets[control_set]
        if self.product is not None:
            return _with_held(self.product, point, columns)
        given = self.given[control_set]
        if given is not None:
            nodes, weights = given(point.unsqueeze(0))
            return nodes[0], weights[0]
        nodes = self.nodes.to(point).clone()
        nodes[:, list(columns)] = point[list(columns)]
        return nodes, self.weights.to(point)

    def discrete_columns(self, fixed: Mapping[int, float]) -> list[tuple[tuple[int, ...], Tensor]]:
        """Discrete columns with their values, for the parameters that ``fixed`` leaves open."""
        return [
            (self.columns[name], values)
            for name, (_, values) in self.discrete.items()
            if self.columns[name] and not set(self.columns[name]) & set(fixed)
        ]

    def exact_values(self, point: Tensor, parameters: Sequence[str]) -> dict[str, TParamValue]:
        """Raw values of the discrete ones among ``parameters`` at a point of the model's space.

        Going back through the transforms could end a rounding error below an integer.
        """
        exact: dict[str, TParamValue] = {}
        for name in parameters:
            if name in self.discrete:
                raw, values = self.discrete[name]
                distance = (values - point[list(self.columns[name])]).abs().sum(dim=-1)
                exact[name] = raw[int(distance.argmin())]
        return exact


def model_space(
    adapter: TorchAdapter,
    search_space: SearchSpace,
    settings: ControlSetSettings,
    marginals: Mapping[str, Marginal],
) -> ModelSpace:
    """The control-set problem in the model space of a fitted adapter.

    Args:
        adapter: The adapter, after ``fit``, whose experiment passed ``check_experiment``.
        search_space: The search space of that experiment.
        settings: The settings of the strategy.
        marginals: The settings' marginals with what was learned of them. Arms carry the nominal
            values of the settings' own, which stay the same while the experiment runs.
    """
    parameters = free_parameters(search_space)
    nominal = nominal_values(parameters, settings.laws)
    base: dict[str, TParamValue] = {
        **nominal,
        **{
            name: p.value
            for name, p in search_space.parameters.items()
            if isinstance(p, FixedParameter)
        },
        CONTROL_SET: settings.names[0],
    }

    def transform(rows: Sequence[Mapping[str, TParamValue]]) -> Tensor:
        points = adapter.transform_observation_features(
            [ObservationFeatures(parameters={**base, **row}) for row in rows]
        )
        assert isinstance(points, Tensor)
        return points

    transformed = search_space.clone()
    for step in adapter.transforms.values():
        transformed = step.transform_search_space(transformed)
    digest = extract_search_space_digest(transformed, adapter.parameters)
    default = transform([{}])[0]
    columns: dict[str, tuple[int, ...]] = {}
    discrete: dict[str, tuple[tuple[TParamValue, ...], Tensor]] = {}
    for name, parameter in parameters.items():
        raw = discrete_values(parameter)
        probes: Sequence[TParamValue] = raw or (parameter.lower, parameter.upper)  # type: ignore[union-attr]
        points = transform([{name: value} for value in probes])
        moved = (points != default).any(dim=0) | (points != points[:1]).any(dim=0)
        columns[name] = tuple(int(i) for i in moved.nonzero().flatten())
        if raw is not None:
            discrete[name] = (raw, points[:, list(columns[name])])

    at_random = [
        name for name in parameters if any(name not in s.parameters for s in settings.control_sets)
    ]
    nodes = random_nodes(at_random, marginals, settings, transform, columns)
    is_product = all(name in marginals for name in at_random)
    rules = {
        name: quadrature_rule(name, marginals[name], name in discrete, transform)
        if name in at_random
        else (default.unsqueeze(0), default.new_ones(1))
        for name in parameters
        if columns[name] and is_product
    }
    return ModelSpace(
        columns=columns,
        control_sets=tuple(
            tuple(sorted(i for name in s.parameters for i in columns[name]))
            for s in settings.control_sets
        ),
        nodes=nodes.nodes,
        weights=nodes.weights.to(default),
        given=nodes.given,
        product=ProductNodes(
            columns=tuple(columns[name] for name in rules),
            nodes=tuple(points[:, list(columns[name])] for name, (points, _) in rules.items()),
            weights=tuple(weights.to(default) for _, weights in rules.values()),
        )
        if is_product
        else None,
        discrete=discrete,
        nominal=nominal,
        default=default,
        bounds=default.new_tensor(digest.bounds).T.contiguous(),
        constraints=_inequality_constraints(transformed.parameter_constraints, adapter.parameters),
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


def _inequality_constraints(
    constraints: list[ParameterConstraint], columns: list[str]
) -> list[tuple[Tensor, Tensor, float]]:
    """Ax says ``A x <= b``, BoTorch ``sum_i c_i x_i >= rhs``."""
    extracted = extract_inequality_constraints(constraints, columns)
    if extracted is None:
        return []
    matrix, bound = (torch.as_tensor(part, dtype=torch.double) for part in extracted)
    converted = []
    for row, limit in zip(matrix, bound.flatten(), strict=True):
        indices = row.nonzero().flatten()
        converted.append((indices, -row[indices], -float(limit)))
    return converted


def discrete_values(parameter: RangeParameter | ChoiceParameter) -> tuple[TParamValue, ...] | None:
    """The raw values of a choice or (not too wide) integer parameter; None for any other."""
    if isinstance(parameter, ChoiceParameter):
        return tuple(parameter.values)
    if parameter.parameter_type is not ParameterType.INT:
        return None
    lower, upper = int(parameter.lower), int(parameter.upper)
    return tuple(range(lower, upper + 1)) if upper - lower < MAX_INTEGER_VALUES else None


def nominal_values(
    parameters: Mapping[str, RangeParameter | ChoiceParameter], marginals: Mapping[str, Marginal]
) -> dict[str, TParamValue]:
    """Raw value of each parameter where a trial does not control it.

    The marginal's nominal value; for a parameter that every control set controls, and that may
    therefore lack a marginal, its middle value, which no trial ever uses.
    """
    return {
        name: _middle(parameter) if name not in marginals else _nominal(parameter, marginals[name])
        for name, parameter in parameters.items()
    }


def _nominal(parameter: RangeParameter | ChoiceParameter, marginal: Marginal) -> TParamValue:
    value = marginal.nominal
    atoms = atoms_of(marginal)
    if discrete_values(parameter) is not None or parameter.parameter_type is ParameterType.INT:
        # The mean of a sample need not be a value of the parameter: take the nearest that is.
        assert atoms is not None
        if value not in atoms:
            value = min(atoms, key=lambda atom: abs(float(atom) - float(value)))
        if parameter.parameter_type is ParameterType.INT:
            return int(value)
        return value
    return min(max(float(value), float(parameter.lower)), float(parameter.upper))  # type: ignore[union-attr]


def _middle(parameter: RangeParameter | ChoiceParameter) -> TParamValue:
    if isinstance(parameter, ChoiceParameter):
        return parameter.values[len(parameter.values) // 2]
    lower, upper = float(parameter.lower), float(parameter.upper)
    middle = (lower * upper) ** 0.5 if parameter.log_scale else (lower + upper) / 2
    return round(middle) if parameter.parameter_type is ParameterType.INT else middle
