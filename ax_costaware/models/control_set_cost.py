"""Learned cost of a trial of one control set, with model selection.

There are three models of the reported costs:

- a constant;
- a logarithm that is linear in the controlled values;
- a logarithm that is a Gaussian process of them (``LogNormalCostModel``).

They are compared by the leave-one-out log predictive density of the cost's logarithm (Rasmussen and
Williams 2006, *Gaussian Processes for Machine Learning*, section 5.4.2). Costs are in the user's
unit.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias, cast, get_args

import torch
from torch import Tensor

from ax_costaware.argument_checks import nonnegative_number, one_of
from ax_costaware.models.log_normal_cost import (
    CostKind,
    LogNormalCostModel,
    check_width,
    checked_costs,
    checked_inputs,
    widened,
)

ControlSetCostKind: TypeAlias = Literal["constant", "linear", "gp"]
"""A constant, or a kind of ``LogNormalCostModel``."""

# Variance of a constant that fits equal costs exactly, so that its log density is finite.
_LEAST_VARIANCE = 1e-20


def least_gain(kind: CostKind, num_inputs: int) -> float:
    """Return the gain in leave-one-out log density over a constant that a model needs, in nats.

    Hyperparameters are fitted to all costs, including those left out, so that a richer model seems
    to gain on pure noise. That gain was below 2 nats for a line, and below ``3 + d`` for a Gaussian
    process with ``d`` length-scales, in nine of ten simulations of log-normal scatter (``d`` up to
    6, ``n`` up to 40).
    """
    return 2.0 if kind == "linear" else 3.0 + num_inputs


class ControlSetCostModel:
    """Expected cost of a trial of one control set.

    A known fixed part is subtracted, and the rest is modelled. With ``kind="auto"`` the cost is a
    constant unless a richer model is clearly better:

    - there are at least ``2 (d + 1) + 2`` costs;
    - its leave-one-out log density is higher by more than 2 nats for ``"linear"``, or ``3 + d`` for
      ``"gp"``;
    - the difference is larger than its standard error.

    If both are, the one that exceeds its threshold by more is taken.

    Args:
        X: ``n x d`` controlled values of past trials in the model's space, ``n >= 1``.
        cost: ``n`` costs of these trials, each larger than ``fixed``.
        fixed: The known part of every cost, at least zero.
        bounds: ``2 x d`` bounds of the controlled values; the range of ``X`` where not given.
        kind: ``"constant"``, ``"linear"``, ``"gp"`` or ``"auto"``.

    Raises:
        InputError: If a cost is not finite or not larger than ``fixed``, which is named with its
            row; for inputs that are not finite, wrong shapes, bounds or kinds.
    """

    kind: ControlSetCostKind
    """The model in use."""

    def __init__(
        self,
        X: Tensor,
        cost: Tensor,
        fixed: float = 0.0,
        bounds: Tensor | None = None,
        kind: ControlSetCostKind | Literal["auto"] = "auto",
    ) -> None:
        one_of(kind, "kind", [*get_args(ControlSetCostKind), "auto"])
        fixed = nonnegative_number(fixed, "fixed")
        inputs = checked_inputs(X)
        costs = checked_costs(cost, inputs, above=fixed)
        widened(inputs, bounds)
        unknown = costs - fixed
        self._fixed = fixed
        self._mean = costs.mean()
        self._num_inputs = inputs.shape[-1]
        self._model: LogNormalCostModel | None = None
        if kind == "auto":
            self._model = _clearly_better(inputs, unknown, bounds)
        elif kind != "constant":
            self._model = LogNormalCostModel(inputs, unknown, kind, bounds)
        found = "constant" if self._model is None else self._model.kind
        self.kind = cast(ControlSetCostKind, found)

    def estimate(self, X: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the expected cost of a trial.

        Args:
            X: ``batch_shape x d`` controlled values.

        Returns:
            The expected cost, fixed part included, and its standard error: how well that mean is
            known, not how costs scatter about it. Each has the shape ``batch_shape`` and is in the
            unit of the costs. For a constant they are the mean of the costs and ``None``.

        Raises:
            InputError: If ``X`` has another number of columns than the inputs of the fit.
        """
        if self._model is not None:
            expected = self._fixed + self._model.expected_cost(X)
            return expected, self._model.expected_cost_error(X)
        check_width(X, self._num_inputs)
        dtype = X.dtype if X.is_floating_point() else torch.double
        return self._mean.to(X.device, dtype).expand(X.shape[:-1]), None


def _clearly_better(X: Tensor, cost: Tensor, bounds: Tensor | None) -> LogNormalCostModel | None:
    """Return the richer model that predicts left-out costs clearly better than a constant."""
    n, d = X.shape
    if n < 2 * (d + 1) + 2:
        return None
    log_cost = cost.log()
    constant = _log_density(log_cost, *_constant_leave_one_out(log_cost))
    best, best_spare = None, 0.0
    kinds: tuple[CostKind, ...] = ("linear", "gp")
    for kind in kinds:
        model = LogNormalCostModel(X, cost, kind, bounds)
        gains = _log_density(log_cost, *model.leave_one_out()) - constant
        gain, error = float(gains.sum()), math.sqrt(n) * float(gains.std())
        spare = gain - least_gain(kind, d)
        if gain > error and spare > best_spare:
            best, best_spare = model, spare
    return best


def _constant_leave_one_out(log_cost: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and variance of each log cost from the others, with the variance of all."""
    n = len(log_cost)
    variance = log_cost.var().clamp_min(_LEAST_VARIANCE)
    others = (log_cost.sum() - log_cost) / (n - 1)
    return others, variance * n / (n - 1)


def _log_density(value: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Return log densities of normal distributions."""
    return -0.5 * ((value - mean).square() / variance + (2 * math.pi * variance).log())
