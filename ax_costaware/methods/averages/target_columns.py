"""Points of a target space as the model and its searches see them: columns and their scale."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from botorch.models.transforms.input import (
    ChainedInputTransform,
    InputTransform,
    Normalize,
    ReversibleInputTransform,
)
from torch import Tensor
from torch.nn import Module

from ax_costaware.acquisition.target_space import TargetSpace
from ax_costaware.methods.parameters import FreeParameter
from ax_costaware.queries.conditionals import Conditional, FiniteConditional

_LEAST = 1e-3
"""A column on a log scale is kept above this part of its lower bound: a law may reach beyond it."""


def target_space(
    parameters: Sequence[FreeParameter], law: Conditional | None = None
) -> TargetSpace:
    """Where points may be; the points of a ``FiniteConditional`` are all that there are."""
    candidates = None
    if isinstance(law, FiniteConditional) and law.points is not None:
        candidates = torch.tensor(law.points, dtype=torch.double)
    ends = [[p.lower for p in parameters], [p.upper for p in parameters]]
    return TargetSpace(
        torch.tensor(ends, dtype=torch.double),
        choices={i: p.grid for i, p in enumerate(parameters) if p.grid is not None},
        candidates=candidates,
    )


def target_transform(parameters: Sequence[FreeParameter]) -> InputTransform | None:
    """From points in raw units to the unit cube, logarithms first; codes stay as they are."""
    numeric = [i for i, p in enumerate(parameters) if p.is_numeric]
    if not numeric:
        return None
    logs = [i for i in numeric if parameters[i].log_scale]

    def bound(side: str) -> list[float]:
        values = [float(getattr(p, side)) for p in parameters]
        return [math.log10(v) if i in logs else v for i, v in enumerate(values)]

    normalize = Normalize(
        d=len(parameters),
        indices=numeric if len(numeric) < len(parameters) else None,
        bounds=torch.tensor([bound("lower"), bound("upper")], dtype=torch.double),
    )
    if not logs:
        return normalize
    least = [_LEAST * parameters[i].lower for i in logs]
    return ChainedInputTransform(log=_LogColumns(logs, least), unit=normalize)


class _LogColumns(ReversibleInputTransform, Module):
    """Decimal logarithms of some columns, which are kept above least values."""

    def __init__(self, indices: Sequence[int], least: Sequence[float]) -> None:
        super().__init__()
        self.transform_on_train = self.transform_on_eval = True
        self.transform_on_fantasize = True
        self.reverse = False
        self.is_one_to_many = False
        self.columns = list(indices)
        self.least = list(least)

    def _transform(self, X: Tensor) -> Tensor:
        found = X.clone()
        least = X.new_tensor(self.least)
        found[..., self.columns] = torch.maximum(X[..., self.columns], least).log10()
        return found

    def _untransform(self, X: Tensor) -> Tensor:
        found = X.clone()
        found[..., self.columns] = 10.0 ** X[..., self.columns]
        return found
