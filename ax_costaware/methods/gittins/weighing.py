"""Weighing whether another trial is worth its cost: the decision of the Gittins method.

``weigh`` is asked by the loop, by ``should_stop``, and by the stopping rule for other strategies.
Inside, values have the sign of maximisation; what it returns has the objective's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from torch import Tensor

from ax_costaware.acquisition import (
    LogExpectedImprovementPerCost,
    PandoraBoxGittinsIndex,
    incumbent,
)
from ax_costaware.methods.gittins.prices import cost_function, price_of_cost, relative_lambda
from ax_costaware.methods.gittins.search import Found, Search
from ax_costaware.methods.parameters import Value
from ax_costaware.methods.past import Money
from ax_costaware.methods.problem import Decision, Problem, SpaceExhausted
from ax_costaware.models.log_normal_cost import LogNormalCostModel
from ax_costaware.models.point_posterior import PointPosterior
from ax_costaware.policies.gittins import GittinsStop, ImprovementPerCostStop, StopDecision

if TYPE_CHECKING:
    from ax_costaware.methods.gittins import Gittins, StopRule


@dataclass(frozen=True)
class Chosen:
    """The point that the acquisition function prefers among the affordable ones."""

    point: Tensor
    """The point in the model's space, ``d``."""

    value: float
    """Value of the acquisition function there."""

    index: float
    """Its Gittins index at the lambda in force."""

    mean: float
    """Posterior mean there."""

    standard_deviation: float
    """Posterior standard deviation there."""

    cost: float
    """Expected cost there."""

    log_cost: tuple[float, float] | None
    """Mean and standard deviation of the log of the cost of the next trial, where it is learned."""


@dataclass(frozen=True)
class Weighed:
    """What a decision came to, and from what."""

    method: Gittins
    """The method."""

    problem: Problem
    """What was decided from."""

    money: Money
    """What was spent, and what is left."""

    incumbent: float
    """The best posterior mean at an evaluated point."""

    incumbent_trial: int
    """The trial that evaluated it."""

    incumbent_parameters: dict[str, Value]
    """Its parameterization, as it was realised."""

    reason: str
    """Why to stop or to go on, as a phrase; empty where no rule was asked."""

    stop: bool = True
    """Whether the rule, or the budget, says to stop."""

    chosen: Chosen | None = None
    """The point to try next; None if nothing is affordable."""

    lmbda: float | None = None
    """The lambda in force; None if nothing is affordable."""

    relative: tuple[float | None, float | None] = (None, None)
    """The relative lambda of this and of the next decision; None without a decay."""

    compared: tuple[float, float] | None = None
    """The index that the stopping rule looked at, and its lambda; None where none was asked."""

    def decision(self) -> Decision:
        """The next trial, with what is stored of it."""
        method, chosen = self.method, self.chosen
        assert chosen is not None
        (row,) = self.problem.space.decode(chosen.point.unsqueeze(0))
        # A declared cost is that of the parameterization itself, which the ledger asks for.
        known = method.cost_at(row)
        mean, spread = (None, None) if chosen.log_cost is None else chosen.log_cost
        details = {
            "index": chosen.index,
            "incumbent": self.incumbent,
            "incumbent_trial": self.incumbent_trial,
            "mean": chosen.mean,
            "standard_deviation": chosen.standard_deviation,
            "lambda": self.lmbda,
            "lambda_source": method.lambda_source,
            "relative_lambda": self.relative[0],
            "next_relative_lambda": self.relative[1],
            "cost_log_mean": mean,
            "cost_log_sd": spread,
            "acquisition": method.acquisition,
            "stop_rule": None if method.rule is None else repr(method.rule),
            **self.money.record(),
        }
        return Decision(
            parameters=row,
            why=self._why(chosen),
            expected_cost=chosen.cost if known is None else known,
            details=details,
            extra=method.recorded,
            value=chosen.value,
        )

    def stop_message(self) -> str:
        """Why there is no further trial, what was saved, and what to deploy."""
        parts = [f"Stopped: {self.reason}."]
        if self.compared is not None:
            index, price = self.compared
            parts.append(
                f"Largest Gittins index {index:.6g}, best posterior mean "
                f"{self.incumbent:.6g}, lambda {price:.6g}."
            )
        money = f"Spent {self.money.spent:g}"
        if self.money.remaining is not None:
            saved = max(self.money.remaining, 0.0)
            money += f" of {self.method.budget:g}, which saves {saved:g}"
        values = ", ".join(f"{n}={v!r}" for n, v in self.incumbent_parameters.items())
        parts.append(
            f"{money}. Deploy trial {self.incumbent_trial} with {values}: expected value "
            f"{self.incumbent:.6g}."
        )
        return " ".join(parts)

    def _why(self, chosen: Chosen) -> str:
        method = self.method
        first = f"Its Gittins index, {chosen.index:.6g}, is the best"
        if method.acquisition != "gittins":
            first = (
                f"It is the best by {method.acquisition}, with the Gittins index {chosen.index:.6g}"
            )
        return (
            f"{first} at a price of {self.lmbda:.6g} for a unit of cost "
            f"({_SOURCES[method.lambda_source]}); the best posterior mean so far is "
            f"{self.incumbent:.6g}, of trial {self.incumbent_trial}."
        )


_SOURCES: Mapping[str, str] = {
    "given": "as given",
    "budget": "from the budget",
    "decay": "as it has decayed",
}


def weigh(method: Gittins, problem: Problem, rule: StopRule | None) -> Weighed:
    """The trial that is most worth its cost, and whether a rule would run it.

    Args:
        method: The method.
        problem: What the decision is made from.
        rule: The stopping rule; None: only the budget ends the run.

    Raises:
        InputError: If a cost is missing, or is no finite number > 0.
    """
    cost = cost_function(method, problem)
    money = method.money(problem)
    best, row = incumbent(problem.model, problem.evaluated, problem.direction)
    trial = problem.observed[row]
    start = Weighed(
        method, problem, money, problem.sign * best, trial.index, trial.inputs, reason=""
    )

    def stopped(reason: str) -> Weighed:
        return replace(start, reason=reason)

    if money.limit is not None and money.limit <= 0:
        return stopped(f"the budget is used up{_by_the_batch(problem)}")
    search = Search(problem, cost, money.limit, method.search_options, method.seed)
    relative = relative_lambda(method, problem)
    price = price_of_cost(method, problem, money, search, relative, best)
    scale = _Scale(method, problem, search, money, best, max(best, _believed(problem)))
    try:
        found = search.best(scale.criterion(price))
        if found is None:
            return stopped(f"what is left of the budget pays for no trial{_by_the_batch(problem)}")
        chosen = scale.describe(found, price)
        verdict = scale.verdict(rule, found, chosen, price)
        index = problem.sign * chosen.index
        under_way = problem.X_pending is not None
        if method.acquisition == "gittins" and under_way and index <= scale.reach:
            # Beside what is under evaluation nothing is worth the price: the trial that would
            # be at the highest price below it, and not once more one that is pending.
            found = search.best(scale.improvement(scale.reach)) or found
            chosen = scale.describe(found, price)
    except SpaceExhausted:
        return stopped(SpaceExhausted.REASON)
    after = relative
    # In the middle of a batch nothing is known that was not known at its start.
    if after is not None and method.decay is not None and not problem.undelivered:
        after = method.decay.after(after, index, best)
    return replace(
        start,
        reason="" if verdict is None else _among(verdict.decision, found),
        stop=verdict is not None and verdict.decision.stop,
        chosen=chosen,
        lmbda=price,
        relative=(relative, after),
        compared=None if verdict is None else (problem.sign * verdict.index, verdict.price),
    )


@dataclass(frozen=True)
class _Verdict:
    """What a stopping rule says, and of what."""

    decision: StopDecision
    """Whether to stop."""

    index: float
    """The index that it looked at, for maximisation."""

    price: float
    """The lambda of that index."""


@dataclass(frozen=True)
class _Scale:
    """What the parts of one weighing share."""

    method: Gittins
    problem: Problem
    search: Search
    money: Money
    best: float
    """The best posterior mean at an evaluated point, for maximisation."""
    reach: float
    """The same, with points under evaluation at what they are believed to be worth."""

    def criterion(self, price: float) -> AcquisitionFunction:
        """What is maximised."""
        method, money = self.method, self.money
        if method.acquisition == "gittins":
            return self.index(price)
        exponent = 1.0
        if method.acquisition == "log_ei_cost_cooling":
            assert money.remaining is not None
            assert method.budget is not None
            exponent = max(money.remaining, 0.0) / method.budget
        return self.improvement(self.reach, exponent)

    def index(self, price: float) -> PandoraBoxGittinsIndex:
        """The Gittins index at a price."""
        return PandoraBoxGittinsIndex(
            self.problem.model,
            self.search.cost,
            price,
            posterior_transform=self.problem.direction,
            X_pending=self.problem.X_pending,
        )

    def improvement(self, best_f: float, exponent: float = 1.0) -> LogExpectedImprovementPerCost:
        """Log expected improvement per cost."""
        return LogExpectedImprovementPerCost(
            self.problem.model,
            best_f,
            self.search.cost,
            exponent,
            posterior_transform=self.problem.direction,
            X_pending=self.problem.X_pending,
        )

    def describe(self, found: Found, price: float) -> Chosen:
        """What is recorded of a point."""
        problem, X = self.problem, found.point.unsqueeze(0)
        with torch.no_grad():
            posterior = PointPosterior.of(problem.model, problem.direction, problem.X_pending)
            mean, variance = posterior.mixture(X)
            index = self.index(price)(X.unsqueeze(0))
            log_cost = None
            if isinstance(self.search.cost, LogNormalCostModel):
                moments = self.search.cost.log_moments(X)
                log_cost = float(moments[0][0]), float(moments[1][0]) ** 0.5
        return Chosen(
            found.point,
            found.value,
            index=problem.sign * float(index),
            mean=problem.sign * float(mean[0]),
            standard_deviation=float(variance[0]) ** 0.5,
            cost=found.cost,
            log_cost=log_cost,
        )

    def verdict(
        self, rule: StopRule | None, found: Found, chosen: Chosen, price: float
    ) -> _Verdict | None:
        """What the stopping rule says, of its own maximum where the search was for another."""
        if rule is None or self.problem.undelivered:
            return None
        own, sign = rule.price(price), self.problem.sign
        if isinstance(rule, ImprovementPerCostStop):
            if self.method.acquisition != "log_ei_per_cost":
                found = self.search.best(self.improvement(self.best)) or found
            # Its index at that price is on the same side of the incumbent.
            index = sign * self.describe(found, own).index
            return _Verdict(rule.decide(found.value, price), index, own)
        index = sign * chosen.index
        if self.method.acquisition != "gittins" or own != price:
            other = self.search.best(self.index(own))
            index = index if other is None else other.value
        assert isinstance(rule, GittinsStop)
        return _Verdict(rule.decide(index, self.best, price), index, own)


def _believed(problem: Problem) -> float:
    """The best value that points under evaluation are believed to have, for maximisation."""
    if problem.X_pending is None:
        return -math.inf
    with torch.no_grad():
        posterior = PointPosterior.of(problem.model, problem.direction)
        return float(posterior.mixture(problem.X_pending)[0].max())


def _among(decision: StopDecision, found: Found) -> str:
    """The reason of a decision; of a stop it is said if only the cheap trials were compared."""
    if decision.stop and found.restricted:
        return f"{decision.reason}, of those that what is left of the budget pays for"
    return decision.reason


def _by_the_batch(problem: Problem) -> str:
    """A batch that cannot be filled is dropped as a whole, which is no reason to lose it."""
    count = len(problem.undelivered)
    return f", with {count} before it in the batch: ask for {count}" if count else ""
