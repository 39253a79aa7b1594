"""The parameters of an experiment in the input space of its model, and back.

In the model's space a parameter may be a logarithm, a logit, a code, or a block of one-hot columns.
This module decodes points of that space into parameterizations in raw units, differentiably where a
parameter is numeric, and spreads quasi-random valid points over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from ax.adapter.adapter_utils import extract_inequality_constraints, extract_search_space_digest
from ax.adapter.torch import TorchAdapter
from ax.adapter.transforms.one_hot import OH_PARAM_INFIX
from ax.core.observation import ObservationFeatures
from ax.core.parameter import ChoiceParameter, FixedParameter, ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from ax.core.types import TParamValue
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from ax_costaware.adapter.experiment_checks import free_parameters

_MOST_DRAWS = 32
"""Times the wanted number of points that are drawn to meet parameter constraints."""

_EMPTY = 1e-12
"""Weight of a value whose one-hot column is zero, so that a block of zeros has a mean, too."""


@dataclass(frozen=True)
class Column:
    """One free parameter in the model's space."""

    parameter: RangeParameter | ChoiceParameter
    """The parameter."""

    indices: tuple[int, ...]
    """Its columns; several for a one-hot encoded one."""

    codes: Tensor | None
    """The columns for each value of a choice, ``m x len(indices)``; None for a range."""

    @property
    def is_smooth(self) -> bool:
        """Whether it is a range of real numbers."""
        return self.codes is None and self.parameter.parameter_type is ParameterType.FLOAT

    def weights(self, X: Tensor) -> Tensor:
        """How much of each value of a choice is in points ``... x d``: ``... x m``, sum one.

        Between the corners of a one-hot block they follow its columns, which keeps what depends on
        them smooth; an ordered choice takes the nearest value.
        """
        assert self.codes is not None
        codes, block = self.codes.to(X), X[..., list(self.indices)]
        if len(self.indices) > 1:
            parts = block.clamp_min(0.0) @ codes.T + _EMPTY
            shares: Tensor = parts / parts.sum(dim=-1, keepdim=True)
            return shares
        nearest = (block - codes.flatten()).abs().argmin(dim=-1)
        return torch.nn.functional.one_hot(nearest, len(codes)).to(X)

    def raw(self, X: Tensor) -> Tensor:
        """Raw values of a numeric parameter at points ``... x d``, differentiable: ``...``."""
        parameter = self.parameter
        if isinstance(parameter, ChoiceParameter) and len(self.indices) > 1:
            return self.weights(X) @ X.new_tensor([float(str(v)) for v in parameter.values])
        values: Tensor = X[..., self.indices[0]]
        if parameter.log_scale:
            return torch.pow(10.0, values)
        if isinstance(parameter, RangeParameter) and parameter.logit_scale:
            return values.sigmoid()
        return values

    def decode(self, X: Tensor) -> list[TParamValue]:
        """Valid raw values at points ``n x d``, rounded and clamped as Ax does."""
        parameter = self.parameter
        if isinstance(parameter, ChoiceParameter):
            return [parameter.values[i] for i in self.weights(X).argmax(dim=-1).tolist()]
        values = self.raw(X).clamp(float(parameter.lower), float(parameter.upper)).tolist()
        if parameter.parameter_type is ParameterType.INT:
            return [round(value) for value in values]
        return list(values)

    def encode(self, u: Tensor, bounds: Tensor) -> Tensor:
        """The columns of valid values spread like ``u``, ``n``, in [0, 1): ``n x len(indices)``."""
        if self.codes is not None:
            return self.codes[(u * len(self.codes)).long().clamp_max(len(self.codes) - 1)]
        lower, upper = bounds[:, self.indices[0]]
        values: Tensor = (lower + u * (upper - lower)).unsqueeze(-1)
        if self.parameter.parameter_type is not ParameterType.INT:
            return values
        if self.parameter.log_scale:
            return torch.pow(10.0, values).round().log10()
        return values.round()


@dataclass(frozen=True)
class DecodedSpace:
    """The search space in the model's input space, with ``d`` columns."""

    columns: dict[str, Column]
    """The free parameters by name."""

    fixed: dict[str, TParamValue]
    """Values of the fixed ones."""

    bounds: Tensor
    """Bounds of the columns, ``2 x d``."""

    constraints: tuple[Tensor, Tensor] | None
    """Parameter constraints ``A x <= b``: ``k x d`` and ``k``."""

    @property
    def names(self) -> list[str]:
        """Names of all parameters."""
        return [*self.columns, *self.fixed]

    @property
    def inequality_constraints(self) -> list[tuple[Tensor, Tensor, float]]:
        """``constraints`` as BoTorch has them, ``(indices, coefficients, rhs)``."""
        if self.constraints is None:
            return []
        found = []
        for row, limit in zip(*self.constraints, strict=True):
            (indices,) = row.nonzero(as_tuple=True)
            # Ax says ``A x <= b``, BoTorch ``sum_i c_i x_i >= rhs``.
            found.append((indices, -row[indices], -float(limit)))
        return found

    def is_numeric(self, name: str) -> bool:
        """Whether a parameter has raw values that a formula can read."""
        if name in self.columns:
            return self.columns[name].parameter.is_numeric
        return isinstance(self.fixed.get(name), int | float)

    def raw(self, name: str, X: Tensor) -> Tensor:
        """Raw values of a numeric parameter at points ``... x d``, differentiable: ``...``."""
        if name in self.columns:
            return self.columns[name].raw(X)
        return X.new_full(X.shape[:-1], float(str(self.fixed[name])))

    def decode(self, X: Tensor) -> list[dict[str, TParamValue]]:
        """Parameterizations in raw units at points ``n x d``."""
        values = [column.decode(X) for column in self.columns.values()]
        rows = zip(*values, strict=True) if values else [()] * len(X)
        return [{**dict(zip(self.columns, row, strict=True)), **self.fixed} for row in rows]

    def sobol_points(self, n: int, seed: int, fixed: Mapping[int, float] | None = None) -> Tensor:
        """Quasi-random points of the space that are valid and different.

        Args:
            n: How many to look for.
            seed: Seed of the sequence.
            fixed: Values of columns that are held.

        Returns:
            At most ``n x d`` points; fewer where the space has fewer, or where constraints leave
            little of it, and possibly none.
        """
        cube = self.bounds.new_tensor([[0.0] * len(self.columns), [1.0] * len(self.columns)])
        draws = n * (1 if self.constraints is None else _MOST_DRAWS)
        u = draw_sobol_samples(cube, n=draws, q=1, seed=seed).squeeze(-2)
        X = self.bounds.new_zeros(draws, self.bounds.shape[-1])
        for i, column in enumerate(self.columns.values()):
            X[:, list(column.indices)] = column.encode(u[:, i], self.bounds).to(X)
        for index, value in (fixed or {}).items():
            X[:, index] = value
        if self.constraints is not None:
            A, b = (part.to(X) for part in self.constraints)
            X = X[(b + 1e-9 >= X @ A.T).all(dim=-1)][:n]
        different: Tensor = X.unique(dim=0)
        return different


def decoded_space(adapter: TorchAdapter, search_space: SearchSpace) -> DecodedSpace:
    """How a fitted adapter encodes the parameters of ``search_space``.

    The codes of a choice are asked of the adapter's own transforms, one value at a time.

    Args:
        adapter: The adapter, after ``fit``.
        search_space: The search space in raw units.
    """
    transformed = search_space.clone()
    for step in adapter.transforms.values():
        transformed = step.transform_search_space(transformed)
    digest = extract_search_space_digest(transformed, adapter.parameters)
    constraints = extract_inequality_constraints(
        transformed.parameter_constraints, adapter.parameters
    )
    bounds = torch.tensor(digest.bounds, dtype=torch.double, device=adapter.device).T.contiguous()
    parameters, names = free_parameters(search_space), list(adapter.parameters)
    fixed = {
        name: parameter.value
        for name, parameter in search_space.parameters.items()
        if isinstance(parameter, FixedParameter)
    }
    probe: dict[str, TParamValue] = {
        name: p.values[0] if isinstance(p, ChoiceParameter) else p.lower
        for name, p in parameters.items()
    }
    columns: dict[str, Column] = {}
    for name, parameter in parameters.items():
        one_hot = f"{name}{OH_PARAM_INFIX}"
        indices = tuple(
            i
            for i, other in enumerate(names)
            if other == name or (other.startswith(one_hot) and other[len(one_hot) :].isdigit())
        )
        codes = None
        if isinstance(parameter, ChoiceParameter):
            points = adapter.transform_observation_features(
                [
                    ObservationFeatures(parameters={**probe, **fixed, name: value})
                    for value in parameter.values
                ]
            )
            assert isinstance(points, Tensor)
            codes = points[:, list(indices)].to(bounds)
        columns[name] = Column(parameter, indices, codes)
    return DecodedSpace(
        columns,
        fixed,
        bounds,
        None
        if constraints is None
        else (torch.as_tensor(constraints[0]), torch.as_tensor(constraints[1]).flatten()),
    )
