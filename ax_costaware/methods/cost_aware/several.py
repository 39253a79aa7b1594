"""Decisions and recommendations of the cost-aware methods with several objectives.

A trial is chosen by its expected improvement of the front's hypervolume per cost; or with a random
weight of the objectives by the rule for a single one (Knowles 2006, "ParEGO"), unless that would
repeat an exact trial.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ax_costaware.acquisition.noisy_improvement import has_found_noise
from ax_costaware.acquisition.optimize import Optimum
from ax_costaware.argument_checks import nonnegative_number
from ax_costaware.core.problem import Best, Decision, Problem, SpaceExhausted, Stop
from ax_costaware.exceptions import InputError
from ax_costaware.methods.cost_aware.assessment import assess
from ax_costaware.methods.cost_aware.front import AUGMENTATION, Front
from ax_costaware.methods.cost_aware.rules import ImprovementPerCostStop
from ax_costaware.methods.cost_aware.search import GITTINS, PAREGO
from ax_costaware.methods.priced import StandardizedPrice

if TYPE_CHECKING:
    from ax_costaware.methods.cost_aware import CostAware


def has_several(method: CostAware, problem: Problem) -> bool:
    """True if a front is wanted: of several objectives, or of one and the cost."""
    return bool(problem.objectives) or method.front is not None


_UNITLESS = (
    "with a random weight of several objectives, which has no unit: expected a StandardizedPrice, "
    "or None."
)


def check_price(method: CostAware) -> None:
    """Refuse a price that does not fit the settings for several objectives.

    Raises:
        InputError: With the price, and the reason.
    """
    if method.lmbda is None:
        return
    if method.front is not None:
        raise InputError(
            f"lmbda={method.lmbda!r} with front='cost': the cost is an objective, so no price "
            "exchanges it for another. Expected lmbda=None, and a budget."
        )
    if method.acquisition == PAREGO and not isinstance(method.lmbda, StandardizedPrice):
        raise InputError(f"lmbda={method.lmbda!r} {_UNITLESS}")


def check_several(method: CostAware, problem: Problem) -> None:
    """Refuse settings that do not fit the number of objectives.

    Raises:
        InputError: With the argument, and the reason.
    """
    scalarizes = method.acquisition in (PAREGO, GITTINS)
    if not has_several(method, problem):
        if method.acquisition == PAREGO:
            raise InputError(
                f"acquisition={PAREGO!r} with the single objective {problem.objective!r}: expected "
                "several, or front='cost'."
            )
        return
    for name in ("repeats", "confirm"):
        if getattr(method, name) is not None:
            raise InputError(
                f"{name}={getattr(method, name)!r} with several objectives: the knowledge gradient "
                "is of one value. Expected None; noise is averaged by the model."
            )
    rule = method.stop_rule
    if rule is not None and scalarizes:
        raise InputError(
            f"stop={method.stop!r} and lmbda={method.lmbda!r} with a random weight of several "
            "objectives: no trial is worth its cost for one weight, and another is for the next. "
            "Expected stop=False, or an improvement of the hypervolume per cost."
        )
    if rule is not None and not isinstance(rule, ImprovementPerCostStop):
        raise InputError(
            f"stop={method.stop!r} with several objectives: the Gittins index is of one value. "
            "Expected False, or ImprovementPerCostStop() with a lmbda in hypervolume per cost."
        )
    if method.lmbda is None:
        return
    if scalarizes:
        if not isinstance(method.lmbda, StandardizedPrice):
            raise InputError(f"lmbda={method.lmbda!r} {_UNITLESS}")
        return
    without = [each.metric for each in problem.objectives if each.threshold is None]
    if without:
        raise InputError(
            f"lmbda={method.lmbda!r} is in hypervolume per unit of cost, and the objectives "
            f"{without} have no threshold, so that the hypervolume is measured from a point that "
            "moves. Give each one, as in outcome_constraints=['accuracy >= 0.5'], or lmbda=None."
        )


def decide_on_front(method: CostAware, problem: Problem) -> Decision | Stop:
    """Return the affordable trial that improves the front most per cost, or the reason to stop."""
    front = Front(method, problem)
    search = front.search
    if not search.budget_state.pays(None):
        return _stop(front, "the budget is used up")
    try:
        if method.acquisition in (PAREGO, GITTINS):
            weighted = _by_weight(front)
            if isinstance(weighted, Stop) or not _teaches_nothing(front, weighted):
                return weighted
        if any(front.is_feasible) or search.problem.feasibility is None:
            found = _best_improvement(front)
        else:
            found = search.maximize_affordable(search.log_feasibility_per_cost())
            if found is not None:
                return _decision(front, found, None)
    except SpaceExhausted:
        return _stop(front, SpaceExhausted.REASON)
    if found is None:
        return _stop(front, search.unaffordable_reason)
    log_improvement = found.value + math.log(front.unit)
    rule, price = method.stop_rule, _price(front)
    if isinstance(rule, ImprovementPerCostStop) and not problem.known:
        stops, reason = rule.decide(log_improvement, price)
        if stops:
            return _stop(front, f"of the hypervolume, {reason}", is_final=False)
    return _decision(front, found, log_improvement)


def _price(front: Front) -> float | None:
    """Return ``lmbda`` in hypervolume per unit of cost, in the units of the objectives."""
    price = front.method.lmbda
    return price.value * front.unit if isinstance(price, StandardizedPrice) else price


def _best_improvement(front: Front) -> Optimum[float] | None:
    """Return the best affordable trial.

    The front is sampled if a fit has found noise; or if it has found hardly any, and the trial
    would repeat another one, which would teach nothing.
    """
    search, acquisition = front.search, front.improvement(front.is_noisy)
    found = search.maximize_affordable(acquisition)
    if found is None or front.is_noisy or not search.is_repeat(found.point):
        return found
    if front.may_be_noisy:
        acquisition = front.improvement(True)
        found = search.maximize_affordable(acquisition)
        if found is None or not search.is_repeat(found.point):
            return found
    elif not search.repeats_exactly(found.point):
        return found
    return search.best_untried(acquisition) or found


def _teaches_nothing(front: Front, decision: Decision) -> bool:
    """True if a trial repeats an exact one, as where a fit takes a kink of weights for noise."""
    (point,) = front.problem.space.encode([decision.parameters])
    is_exact = not any(map(has_found_noise, front.learned))
    return is_exact and bool(front.search.is_repeat(point))


def _by_weight(front: Front) -> Decision | Stop:
    """Return the decision with a random weight of the objectives."""
    method, problem = front.method, front.problem
    generator = np.random.default_rng([method.seed, problem.next_index])
    weights = generator.dirichlet(np.ones(len(front.sides))).tolist()
    named = {side.name: weight for side, weight in zip(front.sides, weights, strict=True)}
    single = method if method.acquisition == GITTINS else replace(
        method, acquisition="log_nei_per_cost", front=None
    )  # fmt: skip
    assessment = assess(single, front.scalarized(weights), None)
    decision = assessment.decision
    if decision is None:
        return _stop(front, assessment.reason)
    shown = ", ".join(f"{name} {weight:.3g}" for name, weight in named.items())
    return replace(
        decision,
        why=f"The objectives have the random weights {shown}. {decision.why}",
        details={
            **decision.details,
            "acquisition": method.acquisition,
            "objective": problem.goal,
            "weights": named,
        },
    )


def _decision(front: Front, found: Optimum[float], log_improvement: float | None) -> Decision:
    """Return the next trial with its record.

    Args:
        front: The front.
        found: The trial.
        log_improvement: Log of its expected hypervolume improvement per cost, in the units of the
            objectives; None before anything is feasible.
    """
    method, problem, search = front.method, front.problem, front.search
    X = found.point.unsqueeze(0)
    (row,) = problem.space.decode(X)
    declared = method.with_switching_cost(problem, row, method.cost_at(row))
    means, deviations = described(front, X)
    chance = None if search.feasibility is None else float(search.feasibility.probability(X))
    volume = front.hypervolume
    if log_improvement is None:
        why = (
            f"No trial is feasible with a probability of {method.feasibility_threshold:g} yet, and "
            f"this one is the likeliest to be, per cost: with a probability of {chance:.3g}."
        )
    else:
        why = (
            "It has the largest expected improvement of the hypervolume per unit of cost, "
            f"{math.exp(log_improvement):.3g}; the front of {len(front.rows)} trials has "
            f"{volume:.6g}."
        )
        if chance is not None:
            why += f" It is feasible with a probability of {chance:.3g}."
    details: dict[str, Any] = {
        "means": means[0],
        "standard_deviations": deviations[0],
        "hypervolume": volume,
        "log_improvement_per_cost": log_improvement,
        "lambda": _price(front),
        "objective": problem.goal,
        "acquisition": method.acquisition,
        "stop_rule": None if method.stop_rule is None else repr(method.stop_rule),
        **({} if chance is None else {"feasibility": chance}),
        **search.budget_state.record(),
    }
    cost = search.charge_at(found.point) if declared is None else declared
    return Decision(row, why, cost, details, value=found.value)


def described(front: Front, X: torch.Tensor) -> tuple[list[dict[str, float]], ...]:
    """Return means and standard deviations at points ``n x d``, by objective, in the user's unit.

    Args:
        front: The front.
        X: The points.
    """
    found: tuple[list[dict[str, float]], ...] = ([], [])
    for means, variances in zip(*map(torch.Tensor.tolist, front.moments_at(X)), strict=True):
        sides = zip(front.sides, means, variances, strict=True)
        pairs = [side.described(mean, variance) for side, mean, variance in sides]
        for into, part in zip(found, zip(*pairs, strict=True), strict=True):
            into.append(dict(zip([side.name for side in front.sides], part, strict=True)))
    return found


def recommend_front(method: CostAware, problem: Problem) -> list[Best]:
    """Return the front, best first by ``problem.weights``.

    The order is by the augmented Chebyshev distance to the best values of the front, relative to
    its range; without weights all objectives count equally.

    Raises:
        InputError: If the weights name no objective, are negative, or all zero.
    """
    front = Front(method, problem)
    if not front.deployable:
        raise InputError(
            "no trial with an outcome is in the search space: expected one to recommend from."
        )
    weights = _checked_weights(problem.weights, [side.name for side in front.sides])
    rows = front.rows
    Y = front.moments[0][rows]
    best = Y.amax(dim=0)
    width = best - Y.amin(dim=0)
    far = (best - Y) / torch.where(width > 0, width, 1.0) * Y.new_tensor(weights)
    order = (far.amax(dim=-1) + AUGMENTATION * far.sum(dim=-1)).argsort(stable=True).tolist()
    rows = [rows[i] for i in order]
    parameters = [dict(front.deployable[i][0]) for i in rows]
    try:
        costs = method.trial_costs.expected(problem, parameters)
    except InputError:
        costs = [None] * len(rows)
    means, deviations = described(front, front.X[rows])
    chances = front.log_feasibility
    return [
        Best(
            parameters[k],
            means[k][front.sides[0].name],
            deviations[k][front.sides[0].name],
            costs[k],
            trial_index=front.deployable[i][1],
            feasibility=None if chances is None else float(chances[i].exp()),
            means=means[k],
            standard_deviations=deviations[k],
        )
        for k, i in enumerate(rows)
    ]


def _checked_weights(given: Mapping[str, float], names: list[str]) -> list[float]:
    unknown = [name for name in given if name not in names]
    weights = [nonnegative_number(w, f"weights[{name!r}]") for name, w in given.items()]
    if unknown or (given and not any(weights)):
        raise InputError(
            f"weights={dict(given)!r}: expected numbers >= 0, not all zero, for some of {names}."
        )
    return [float(given.get(name, 0.0)) if given else 1.0 for name in names]


def _stop(front: Front, reason: str, is_final: bool = True) -> Stop:
    trials = sorted(front.deployable[i][1] for i in front.rows)
    deploy = f"Deploy one of the trials {trials} of the front, see recommend(client)"
    if not any(front.is_feasible):
        deploy = f"No trial is as likely to be feasible as it has to be; the likeliest is {trials}"
    summary = front.search.budget_state.summary
    return Stop(f"Stopped: {reason}. {summary}. {deploy}.", is_final)
