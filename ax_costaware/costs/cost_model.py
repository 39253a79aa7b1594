"""Interface of all cost models, ``log_cost(X, trial)``, and its wrappers.

A cost model returns the natural logarithm of the expected cost of trials at points of the model's
space. Logarithms of learned costs neither overflow nor underflow, whatever the unit. ``trial`` is
the context of a trial: its control set, the settings of the trial before, and the trials that it
may resume. A model ignores the parts that do not concern it.

- Declared costs: ``DeclaredCost``.
- Learned costs: ``ax_costaware.models.LogNormalCostModel``, with control sets one for each of them.
- Wrappers: ``WithSwitchingCost`` adds the cost of changed settings, ``WithSetupCost`` that of a
  batch, ``ResumedCost`` subtracts the cost that is already paid, ``ScarcestCost`` compares the
  units of several budgets, and ``CostOfTrial`` binds the context.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from botorch.acquisition.cost_aware import CostAwareUtility, InverseCostWeightedUtility
from botorch.models.deterministic import DeterministicModel
from botorch.models.model import Model
from torch import Tensor

from ax_costaware.argument_checks import first_bad, positive_number
from ax_costaware.costs.control_set import ControlSet
from ax_costaware.costs.switching_cost import SwitchingCost
from ax_costaware.exceptions import InputError
from ax_costaware.space.parameters import Row, takes
from ax_costaware.space.space import Space

SAME_VALUE = 1e-12
"""Tolerance of equal values, relative to a column's range."""


@dataclass(frozen=True, eq=False)
class TrialContext:
    """Context of a trial, on which its cost depends besides its own settings."""

    control_set: ControlSet | None = None
    """Control set, whose parameters the trial sets; None if it sets all of them."""

    previous: Row | None = None
    """Settings of the trial before, by name, of parameters with a switching cost; None for the
    first trial, which has no switching cost."""

    resumable: Tensor | None = None
    """``k x d`` points of completed trials, which a trial at the same inputs resumes, or None."""


ANY_TRIAL = TrialContext()
"""Context without a control set, a previous trial, or trials to resume."""


@runtime_checkable
class CostModel(Protocol):
    """Model of the cost of trials."""

    def log_cost(self, X: Tensor, trial: TrialContext = ANY_TRIAL) -> Tensor:
        """Return the log of the expected cost of trials at points ``... x d``, ``...``."""


CostFunction: TypeAlias = (
    float | Callable[[Tensor], Tensor] | CostModel | DeterministicModel | InverseCostWeightedUtility
)
"""Costs that acquisition functions take: a number; a callable from points ``n x d`` to ``n`` costs;
a ``CostModel``; or of BoTorch a ``DeterministicModel`` whose one output is the cost, such as
``AffineFidelityCostModel``, or an ``InverseCostWeightedUtility``."""


def log_cost_function(
    cost: CostFunction, trial: TrialContext = ANY_TRIAL
) -> Callable[[Tensor], Tensor]:
    """Return the logarithm of a cost as a function of points.

    Args:
        cost: A number > 0; a callable from points ``n x d`` to ``n`` costs > 0; a ``CostModel``; a
            ``DeterministicModel`` with one output, the cost > 0; or an
            ``InverseCostWeightedUtility``, whose cost is its ``cost_objective`` of the posterior
            mean of its ``cost_model``.
        trial: The context that a ``CostModel`` is given.

    Returns:
        A function from points ``... x d`` to the logarithms of their costs, ``...``. It raises
        ``InputError`` where a cost is not a finite number > 0, or has the wrong shape.

    Raises:
        InputError: If ``cost`` is none of these.
    """
    if isinstance(cost, Real):
        return partial(_constant, math.log(positive_number(cost, "cost")))
    if isinstance(cost, CostModel) and not isinstance(cost, type):
        return partial(cost.log_cost, trial=trial)
    if isinstance(cost, DeterministicModel) and cost.num_outputs == 1:
        return partial(checked_log, partial(_only_output, cost))
    if isinstance(cost, InverseCostWeightedUtility):
        return partial(checked_log, partial(_weighted_by, cost))
    # BoTorch's other modules are callables, but of other arguments, or with other results.
    is_other = isinstance(cost, type | Model | CostAwareUtility)
    if is_other or not callable(cost):
        raise InputError(
            f"cost={_shown(cost)}: expected a number > 0, a callable of the points, a model with"
            " log_cost such as LogNormalCostModel, a DeterministicModel with one output such as"
            " AffineFidelityCostModel, or an InverseCostWeightedUtility."
        )
    return partial(checked_log, cost)


def _shown(cost: object) -> str:
    """Return an invalid cost as text; of a module its class only, since its repr is long."""
    if isinstance(cost, DeterministicModel):
        return f"a {type(cost).__name__} with {cost.num_outputs} outputs"
    return f"a {type(cost).__name__}" if isinstance(cost, torch.nn.Module) else repr(cost)


# Functions, and no lambdas, so that acquisition functions can be pickled, as BoTorch's can.
def _constant(log_cost: float, X: Tensor) -> Tensor:
    return X.new_full(X.shape[:-1], log_cost)


def _only_output(model: DeterministicModel, X: Tensor) -> Tensor:
    found: Tensor = model(X.unsqueeze(-2))  # a point is a batch of one
    return found.squeeze(-1).squeeze(-1)


def _weighted_by(utility: InverseCostWeightedUtility, X: Tensor) -> Tensor:
    batch = X.unsqueeze(-2)
    found: Tensor = utility.cost_objective(utility.cost_model.posterior(batch).mean, X=batch)
    return found.reshape(X.shape[:-1])


def checked_log(cost: Callable[[Tensor], Tensor], X: Tensor) -> Tensor:
    """Return the logarithm of costs of points ``... x d``, ``...``.

    Args:
        cost: A callable from points ``n x d`` to ``n`` costs.
        X: The points.

    Raises:
        InputError: If the callable returns another shape, or a cost that is not finite and > 0.
    """
    points = X.reshape(-1, X.shape[-1])
    costs = cost(points)
    if not isinstance(costs, Tensor) or costs.shape != points.shape[:1]:
        got = f"shape {tuple(costs.shape)}" if isinstance(costs, Tensor) else repr(costs)
        raise InputError(
            f"cost: for points of shape {tuple(points.shape)} the callable returned {got};"
            f" expected a tensor of shape {tuple(points.shape[:1])}."
        )
    # Comparisons with NaN are False, so this finds NaN, too.
    if (row := first_bad((costs > 0) & (costs < torch.inf))) is not None:
        raise InputError(
            f"cost: the callable returned {costs[row].item()!r} at {points[row].tolist()};"
            " expected finite costs > 0."
        )
    return costs.reshape(X.shape[:-1]).log()


@dataclass(frozen=True, eq=False)
class CostOfTrial:
    """Cost of trials in one bound context."""

    base: CostFunction
    """The cost in any context."""

    trial: TrialContext
    """The context."""

    def log_cost(self, X: Tensor, trial: TrialContext = ANY_TRIAL) -> Tensor:
        """Return the log of the expected cost in the bound context; ``trial`` is ignored."""
        return log_cost_function(self.base, self.trial)(X)


@dataclass(frozen=True, eq=False)
class WithSwitchingCost:
    """Cost of trials with the switching cost from the trial before.

    A switching cost is zero if a parameter keeps its value. Otherwise it is constant, or depends on
    the values, with a kink at the value to keep.
    """

    base: CostFunction
    """The cost without switching costs."""

    switching: SwitchingCost
    """Costs of changing each parameter."""

    space: Space
    """Search space, which encodes parameters as columns."""

    def log_cost(self, X: Tensor, trial: TrialContext = ANY_TRIAL) -> Tensor:
        """Return the log of the expected cost of trials at points ``... x d``, ``...``."""
        log_cost = log_cost_function(self.base, trial)(X)
        if trial.previous is None:
            return log_cost
        change = self.switching_cost(X, trial)
        # The logarithm of zero has no gradient, not even where it is masked.
        log_change = torch.where(change > 0, change, 1.0).log()
        return torch.where(change > 0, torch.logaddexp(log_cost, log_change), log_cost)

    def switching_cost(self, X: Tensor, trial: TrialContext) -> Tensor:
        """Return the switching cost of trials at points ``... x d``, ``...``."""
        found, previous = X.new_zeros(X.shape[:-1]), trial.previous or {}
        is_set = None if trial.control_set is None else trial.control_set.parameters
        widths = self.space.bounds[1] - self.space.bounds[0]
        for name, switch in self.switching.switches.items():
            column = self.space.columns.get(name)
            if column is None or (is_set is not None and name not in is_set):
                continue
            if name not in previous:
                found = found + switch.after_unset
                continue
            change = switch.at_points(column, previous[name], X)
            if takes(column.parameter, previous[name]):
                at = list(column.indices)
                before = X.new_tensor(column.encode(previous[name]))
                is_kept = (X.detach()[..., at] - before).abs() <= SAME_VALUE * widths[at].to(X)
                change = torch.where(is_kept.all(dim=-1), 0.0, change)
            found = found + change
        return found


@dataclass(frozen=True, eq=False)
class WithSetupCost:
    """Cost of trials with the set-up of their batch, or a share of it."""

    base: CostFunction
    """The cost without the set-up."""

    setup: float
    """Cost of the set-up."""

    def log_cost(self, X: Tensor, trial: TrialContext = ANY_TRIAL) -> Tensor:
        """Return the log of the expected cost of trials at points ``... x d``, ``...``."""
        log_cost = log_cost_function(self.base, trial)(X)
        return torch.logaddexp(log_cost, log_cost.new_tensor(self.setup).log())


@dataclass(frozen=True, eq=False)
class ResumedCost:
    r"""Cost of trials that may resume an earlier one: :math:`c(x, s) - c(x, s')`.

    A trial at the inputs of an earlier one with a larger fidelity :math:`s > s'` pays for the rest
    only. The cost has a step at the inputs of earlier trials.
    """

    base: CostFunction
    """The cost of a whole run."""

    space: Space
    """Search space, which encodes parameters as columns."""

    fidelity: str
    """Name of the fidelity that measures progress."""

    least: float
    """Smallest cost of a resumed trial, relative to the cost that is already paid."""

    def log_cost(self, X: Tensor, trial: TrialContext = ANY_TRIAL) -> Tensor:
        """Return the log of the expected cost of trials at points ``... x d``, ``...``."""
        log_cost = log_cost_function(self.base, trial)
        total = log_cost(X)
        if trial.resumable is None:
            return total
        (column,), widths = self.space.columns[self.fidelity].indices, self.space.bounds.diff(dim=0)
        with torch.no_grad():
            earlier = trial.resumable.to(X)
            ahead = X.unsqueeze(-2) - earlier
            differs = ahead.abs() > SAME_VALUE * widths.to(X)
            differs[..., column] = False
            is_alike = ~differs.any(dim=-1)
            paid = torch.where(is_alike, log_cost(earlier).exp(), 0.0)
            is_behind = (is_alike & (ahead[..., column] <= 0)).any(dim=-1)
            saved = torch.where(is_behind, 0.0, paid.amax(dim=-1))
        rest = torch.maximum(total.exp() - saved, self.least * saved)
        return torch.where(saved > 0, rest.log(), total)


@dataclass(frozen=True, eq=False)
class ScarcestCost:
    """Cost in the unit of the budget that it uses up most, in the first one's unit.

    That is ``limit_1 * max_k c_k(x) / limit_k`` for costs ``c_k`` with limits ``limit_k``. It is at
    most ``limit_1`` if and only if no limit is exceeded.
    """

    costs: tuple[CostFunction, ...]
    """The costs, each in its own unit."""

    limits: tuple[float, ...]
    """The amounts that they are compared with, > 0."""

    def log_cost(self, X: Tensor, trial: TrialContext = ANY_TRIAL) -> Tensor:
        """Return the log of the cost of trials at points ``... x d``, ``...``."""
        each = [
            log_cost_function(cost, trial)(X) - math.log(limit)
            for cost, limit in zip(self.costs, self.limits, strict=True)
        ]
        return torch.stack(each).amax(dim=0) + math.log(self.limits[0])


def own_cost(cost: CostFunction) -> CostFunction:
    """Return the cost in the unit of the first budget."""
    return cost.costs[0] if isinstance(cost, ScarcestCost) else cost


def whole_cost(cost: CostFunction) -> CostFunction:
    """Return the innermost cost of nested wrappers, in the unit of the first budget."""
    cost = own_cost(cost)
    while isinstance(cost, CostOfTrial | WithSwitchingCost | WithSetupCost | ResumedCost):
        cost = cost.base
    return cost
