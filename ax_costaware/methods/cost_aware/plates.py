r"""Batches that share settings or a set-up: which setting, and how many trials.

Trials of one request are a batch, such as the samples in one oven. Trials :math:`x_1 \dots x_m` are
worth what they are expected to improve together,

.. math:: G_m = E[\max_{i \le m} f(x_i) - \max f(X_b)]^+, \quad C_m = s + \sum_{i \le m} c(x_i),

over the evaluated points :math:`X_b`, with the set-up cost :math:`s`. The expectation is over joint
samples of the posterior; a trial is feasible in a sample with its probability.

- The first decision of a batch compares values of the shared settings. For each of them a batch is
  built of quasi-random points, always by the largest further gain per cost. The value with the
  largest :math:`G_m / C_m` is taken, or with a given price :math:`\lambda` that with the largest
  :math:`G_m - \lambda C_m`. The trials themselves are then searched one after the other.
- With a set-up cost, a further trial is added as long as it raises :math:`G_m / C_m`, that is if
  its gain per cost is at least that of the batch so far; or, with a price, if it is worth it.

The rate :math:`G / C` of the best batch is what the cost of the set-up could have bought elsewhere:
the batches of a run are alike, and each pays its own set-up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from botorch.utils.sampling import draw_sobol_normal_samples
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from ax_costaware.core.batches import batch_size
from ax_costaware.core.optimize import possible
from ax_costaware.core.problem import Decision, Problem, Stop
from ax_costaware.core.switching import switching_cost
from ax_costaware.exceptions import InputError
from ax_costaware.methods.cost_aware.front import Front
from ax_costaware.methods.cost_aware.search import Search
from ax_costaware.methods.cost_aware.several import has_several
from ax_costaware.space.parameters import Range, Row, Value

if TYPE_CHECKING:
    from ax_costaware.methods.cost_aware import CostAware

_NUM_SAMPLES = 512
"""Joint samples of the posterior."""

_NUM_BASELINE = 32
"""Most evaluated points that the samples see: those with the best bounds."""

_NUM_VALUES = 24
"""Quasi-random values of the shared settings, besides those of the best trials."""

_NUM_BEST = 8
"""Best trials whose settings are compared, too."""

_JITTER = 1e-8
"""Variance that is added to that of the samples, relative to it, since points may be close."""

_NUM_POINTS = 96
"""Quasi-random points from which a batch is built."""

_STEPS = (0.1, 0.03)
"""Standard deviations, relative to a range, of further values around the best one so far."""

_PER_STEP = 8
"""Number of these values."""


@cache
def _normal_samples(dim: int) -> Tensor:
    """Return quasi-random normal samples, ``samples x dim``."""
    samples: Tensor = draw_sobol_normal_samples(dim, _NUM_SAMPLES, seed=0)
    return samples


@dataclass(frozen=True)
class Plan:
    """The best batch that was found."""

    shared: Row
    """Values of the shared settings."""

    num_trials: int
    """Number of trials that are worth their cost."""

    gain: float
    """Their expected improvement together, in units of the objective."""

    cost: float
    """Their cost together, with the set-up."""

    def is_worth(self, price: float) -> bool:
        """True if the batch is worth its cost at a price of a unit of cost."""
        return self.gain > price * self.cost

    @property
    def reason(self) -> str:
        """The reason for the settings, as a sentence."""
        trials = f"{self.num_trials} trial{'s' if self.num_trials > 1 else ''}"
        text = f"The best batch found has {trials}, an expected improvement of {self.gain:.3g} "
        text += f"and a cost of {self.cost:.3g}"
        values = ", ".join(f"{name}={value!r}" for name, value in self.shared.items())
        return f"{text}; its trials share {values}." if values else f"{text}."


def decide_in_batch(
    method: CostAware,
    problem: Problem,
    decide: Callable[[Problem, Plan | None], Decision | Stop],
) -> Decision | Stop:
    """Return the next trial of a batch, or the reason to stop or to end the batch.

    Args:
        method: The method.
        problem: Inputs of the decision.
        decide: Function that chooses a trial, of the problem and the plan of the batch, which is
            made for its first trial.
    """
    setup = method.trial_costs.setup
    if problem.earlier_in_batch:
        decision = decide(problem, None)
        if not setup or method.fill or isinstance(decision, Stop):
            return decision
        return Plates.of(method, problem).adds_to(decision) or decision
    plan = None
    if (method.shared or setup) and batch_size(problem) > 1:
        plan = Plates.of(method, problem).plan()
    if plan is None:
        return decide(problem, None)
    decision = decide(problem.sharing(plan.shared), plan)
    if isinstance(decision, Stop):
        return decision
    details = {**decision.details, "planned_trials": plan.num_trials}
    return replace(decision, why=f"{decision.why} {plan.reason}", details=details)


@dataclass(frozen=True)
class Plates:
    """Comparison of batches by what their trials are worth together."""

    method: CostAware
    """The method."""

    problem: Problem
    """Inputs of the decision; with several objectives of a scalarization."""

    price: float | None
    """Given price of a unit of cost, in units of the objective; None without one."""

    @classmethod
    def of(cls, method: CostAware, problem: Problem) -> Plates:
        """Return the comparison for a decision.

        Several objectives have a random weight each, the same for all trials of a batch.
        """
        if not has_several(method, problem):
            return cls(method, problem, method.given_lambda(problem))
        front = Front(method, problem)
        generator = np.random.default_rng([method.seed, len(problem.trials)])
        weights = generator.dirichlet(np.ones(len(front.sides))).tolist()
        return cls(replace(method, front=None), front.scalarized(weights), None)

    @cached_property
    def search(self) -> Search[CostAware]:
        """Search without the batch: its trials are not pending, and the set-up is not counted."""
        problem = self.problem
        pending = tuple(o for o in problem.pending if o.trial_index is not None)
        before = replace(problem, pending=pending, batch_size=None)
        base = self.method.trial_costs.model(problem)
        assert base is not None
        return Search(self.method, before, base, self.method.budget_state(problem))

    @cached_property
    def _baseline(self) -> tuple[Tensor, Tensor]:
        """Evaluated and pending points with the best bounds, and which of them may be best."""
        X, may_be_best = self.search.baseline()
        with torch.no_grad():
            mean, variance = self.search.problem.posterior.mixture(X)
        bound = torch.where(may_be_best, mean + 2 * variance.sqrt(), -torch.inf)
        rows = bound.topk(min(_NUM_BASELINE, len(X))).indices
        return X[rows], may_be_best[rows]

    @cached_property
    def can_compare(self) -> bool:
        """True if a feasible trial may be deployed, so that there is something to improve on."""
        return bool(self._baseline[1].any()) and self.search.is_feasible(self.search.incumbent())

    def improvements(self, X: Tensor) -> Tensor:
        """Return samples of the improvement at points ``p x d``, ``samples x p``, at least zero."""
        base, may_be_best = self._baseline
        with torch.no_grad():
            mean, covariance = self.search.problem.posterior.joint(torch.cat([base, X]))
            jitter = _JITTER * covariance.diagonal().mean() * torch.eye(len(mean)).to(covariance)
            root = psd_safe_cholesky(covariance + jitter)
            values = mean + _normal_samples(len(mean)).to(root) @ root.mT
            best = values[:, : len(base)].masked_fill(~may_be_best, -torch.inf).amax(dim=-1)
            gains: Tensor = (values[:, len(base) :] - best.unsqueeze(-1)).clamp_min(0.0)
            if (log_weight := self.search.log_weight) is not None:
                draw = torch.rand(gains.shape, generator=torch.Generator().manual_seed(0))
                gains = gains * (draw.to(gains) < log_weight(X).exp())
        return gains

    def plan(self) -> Plan | None:
        """Return the best batch; None if there is nothing to improve on, or no trial can be paid.

        Raises:
            InputError: If a reported cost cannot be learned from.
        """
        if not self.can_compare:
            return None
        best = self._best(self._values())
        for step in _STEPS:
            if best is None or not (around := self._around(best.shared, step)):
                break
            best = max(best, self._best(around) or best, key=self._score)
        return best

    def _score(self, plan: Plan) -> float:
        price = self.price
        return plan.gain / plan.cost if price is None else plan.gain - price * plan.cost

    @property
    def _names(self) -> list[str]:
        """Names of the shared parameters that are free."""
        return [n for n in self.method.shared if n not in self.problem.fixed]

    @cached_property
    def _best_rows(self) -> list[dict[str, Value]]:
        """Realized parameterizations of the trials with the best posterior means."""
        problem = self.search.problem
        with torch.no_grad():
            mean, _ = problem.posterior.mixture(problem.evaluated)
        best = problem.evaluated[mean.argsort(descending=True)[:_NUM_BEST]]
        return problem.space.decode(best)

    def _values(self) -> list[Row]:
        """Return values of the shared settings: of the best trials, and quasi-random ones."""
        points, found = self.search.points[: 4 * _NUM_VALUES], list[Row]()
        for row in [*self._best_rows, *self.problem.space.decode(points)]:
            values = {name: row[name] for name in self._names}
            if values not in found:
                found.append(values)
        return found[: _NUM_VALUES + _NUM_BEST]

    def _around(self, values: Row, step: float) -> list[Row]:
        """Return further values around some, of real parameters."""
        parameters, found = self.problem.space.parameters, list[Row]()
        ranges = {n: p for n in values if isinstance(p := parameters[n], Range)}
        if not ranges:
            return []
        for each in draw_sobol_normal_samples(len(ranges), _PER_STEP, seed=1).tolist():
            moved = dict(values)
            for (name, parameter), off in zip(ranges.items(), each, strict=True):
                lower, upper = parameter.lower, parameter.upper
                at = parameter.encode(values[name]) + step * off * (upper - lower)
                moved[name] = parameter.decode(min(max(at, lower), upper))
            found.append(moved)
        return found

    def _best(self, candidates: Sequence[Row]) -> Plan | None:
        plans = [plan for values in candidates if (plan := self._at(values)) is not None]
        return max(plans, key=self._score, default=None)

    def _points(self, values: Row) -> Tensor:
        """Return possible points ``p x d`` with values of the shared settings, perhaps none."""
        problem = self.search.problem
        given = {**values, **problem.fixed}
        try:
            space = problem.space.held_at(given)
        except InputError:  # no point of the space has them
            return problem.evaluated[:0]
        held = problem.space.columns_of(given)
        points = space.sobol_points(_NUM_POINTS, self.method.seed, held)
        # The other settings of the best trials are often good here, too.
        rows = [{**row, **given} for row in self._best_rows]
        more = space.encode([row for row in rows if space.meets(row)])
        points = torch.cat([points, more.to(points)])
        points[:, list(held)] = points.new_tensor([*held.values()])
        return possible(problem, points).to(problem.evaluated)

    def _at(self, values: Row) -> Plan | None:
        """Return the best batch with values of the shared settings; None if none can be paid."""
        X = self._points(values)
        if not len(X):
            return None
        first = switching_cost(self.problem, self.method, values)
        costs, gains = self.search.costs(X), self.improvements(X)
        limit, most = self.search.budget_state.limit, batch_size(self.problem)
        reached, cost = gains.new_zeros(len(gains)), first
        found: Plan | None = None
        for number in range(1, most + 1):
            added = (gains - reached.unsqueeze(-1)).clamp_min(0.0).mean(dim=0)
            rates = added / costs
            if limit is not None:
                rates = rates.masked_fill(cost + costs > limit, -torch.inf)
            i = int(rates.argmax())
            if not float(rates[i]) >= 0:
                break
            reached = torch.maximum(reached, gains[:, i])
            cost += float(costs[i])
            gain = float(reached.mean()) * self.problem.scale.unit
            plan = Plan(values, number, gain, cost)
            is_free = self.method.trial_costs.setup and not self.method.fill
            if found is None or not is_free or self._score(plan) > self._score(found):
                found = plan
            if is_free and number > found.num_trials:
                break
        return found

    def adds_to(self, decision: Decision) -> Stop | None:
        """Return the stop of a batch that a further trial is not worth its cost to; else None."""
        problem, method = self.problem, self.method
        if decision.expected_cost is None or not self.can_compare:
            return None
        rows = [*problem.earlier_in_batch, decision.parameters]
        gains = self.improvements(problem.space.encode(rows).to(problem.evaluated))
        unit = problem.scale.unit
        before = float(gains[:, :-1].amax(dim=-1).mean()) * unit
        added = float(gains.amax(dim=-1).mean()) * unit - before
        if self.price is None:
            cost = sum(method.reservations(problem, initial=False))
            least, what = before / cost, "the batch so far has"
        else:
            least, what = self.price, "expected is"
        if added >= least * decision.expected_cost:
            return None
        return Stop(
            f"A further trial is expected to add {added / decision.expected_cost:.3g} per unit of "
            f"cost, and {what} {least:.3g}.",
            is_final=False,
        )
