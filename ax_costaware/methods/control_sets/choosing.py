"""Choosing a control set and values for it (Tay et al. 2023, Algorithm 1), and the initial design.

For a decision the expected acquisition value of the control sets that the rule asks about is
maximised, and the rule chooses. Values are in raw units of the objective, with the sign of
maximisation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.quasirandom import SobolEngine

from ax_costaware.exceptions import InputError
from ax_costaware.methods.control_sets.checks import CONTROL_SET
from ax_costaware.methods.control_sets.learned_costs import (
    ExpectedCosts,
    average_costs,
    costs_to_learn_from,
)
from ax_costaware.methods.control_sets.query_space import QuerySpace, nominal_values, query_space
from ax_costaware.methods.control_sets.values import ControlSetValues
from ax_costaware.methods.parameters import Value
from ax_costaware.methods.past import LedgerEntry, Money, PastTrial
from ax_costaware.methods.problem import Decision, Problem, Stop, decision_seed
from ax_costaware.models import information_gain
from ax_costaware.policies.beta import TheoreticalBeta
from ax_costaware.policies.control_set_rules import (
    ControlSetDecision,
    ControlSetHistory,
    PastDecision,
)
from ax_costaware.queries.control_sets import ControlSet

if TYPE_CHECKING:
    from ax_costaware.methods.control_sets import ControlSets

MAX_DRAWS = 10_000
"""Points tried for one trial before the parameter constraints count as impossible to meet."""


def choose(problem: Problem, method: ControlSets) -> Decision | Stop:
    """The control set and the values of the next trial."""
    space = query_space(problem, method)
    costs = expected_costs(problem, method, space)
    money = method.money(problem)
    affordable = [money.pays(cost) for cost in costs.least]
    if not any(affordable):
        return _stop(problem, method, money, costs.least, "")
    allowed = _allowed(problem, method, affordable, money)
    beta = method.beta
    if isinstance(beta, TheoreticalBeta):
        beta = float(beta(information_gain(problem.model), len(method.control_sets)))
    values = ControlSetValues(problem, method, space, costs, beta)
    rule: Any = method.rule
    orient = getattr(rule, "oriented", None)
    rule = rule if orient is None else orient(problem.minimize)
    passed_over: list[str] = []
    while True:
        able = [a and b for a, b in zip(affordable, allowed, strict=True)]
        if not any(able):
            rest = "expected to cost more than what is left of it at the values that are best."
            return _stop(problem, method, money, None, f" {_named(passed_over)} {rest}")
        decision = rule.decide(_history(problem, method, money, costs, able), values)
        cost = values.cost_of(decision.index)
        if money.pays(None if cost is None else cost.mean) or not able[decision.index]:
            break
        # Its average was affordable, or some of its values are.
        allowed[decision.index] = False
        passed_over.append(method.names[decision.index])
    reason = decision.reason
    if passed_over:
        reason += (
            f" {_named(passed_over)} expected to cost more than what is left of the budget at "
            "the values that are best, and passed over."
        )
    return _decision(problem, method, values, decision, reason, money)


def _decision(
    problem: Problem,
    method: ControlSets,
    values: ControlSetValues,
    decision: ControlSetDecision,
    reason: str,
    money: Money,
) -> Decision:
    ((point, value),) = values.found([decision.index])
    cost, names = values.cost_of(decision.index), method.names
    chosen = method.control_sets[decision.index]
    controlled = values.space.controlled(point, chosen.parameters)
    details = {
        "in_play": [names[i] for i in decision.in_play],
        "values": {names[i]: float(v) for i, v in decision.values.items()},
        "rule": repr(method.rule),
        "problem": method.problem_digest,
        **money.record(),
        "state": dict(decision.state),
    }
    if method.learns_costs:
        # Expected costs and their standard errors of those in play, as far as looked at.
        details["costs"] = {
            names[i]: [found.mean, found.standard_error]
            for i in decision.in_play
            if values.is_priced(i) and (found := values.cost_of(i)) is not None
        }
    return Decision(
        parameters=_arm(problem, values.space.nominal, controlled, chosen),
        why=reason,
        expected_cost=None if cost is None else cost.mean,
        details=details,
        extra=_extra(chosen, controlled),
        value=value,
    )


def _arm(
    problem: Problem,
    nominal: Mapping[str, Value],
    controlled: Mapping[str, Value],
    chosen: ControlSet,
) -> dict[str, Value]:
    return problem.space.ordered({**nominal, **controlled, CONTROL_SET: str(chosen.name)})


def _extra(chosen: ControlSet, controlled: Mapping[str, Value]) -> dict[str, Any]:
    return {
        "control_set": chosen.name,
        "controlled": dict(controlled),
        "cost_above": chosen.fixed_cost if chosen.cost is None else None,
    }


def _history(
    problem: Problem,
    method: ControlSets,
    money: Money,
    costs: ExpectedCosts,
    affordable: Sequence[bool],
) -> ControlSetHistory:
    """What the rule is told."""
    names, control_sets = method.names, method.control_sets
    place = {name: i for i, name in enumerate(names)}
    by_rule = [entry for entry in money.entries if entry.by_rule]
    trials = {trial.index: trial for trial in problem.trials}
    past = [_past_decision(trials[e.trial_index], method, place, e) for e in by_rule]
    rows = problem.undelivered
    past += [
        PastDecision(place[str(row[CONTROL_SET])], cost)
        for row, cost in zip(rows, method.reserved(problem, False) if rows else (), strict=True)
    ]
    plays = [decision.index for decision in past]
    reported = costs_to_learn_from(problem.trials, method)
    return ControlSetHistory(
        parameters=tuple(frozenset(s.parameters) for s in control_sets),
        # Where nothing is known, all are alike.
        costs=tuple(1.0 if cost is None else cost for cost in costs.averages),
        plays=tuple(plays.count(i) for i in range(len(names))),
        affordable=tuple(affordable),
        round=len(plays) + 1,
        names=tuple(names),
        known=tuple(control_set.cost is not None for control_set in control_sets),
        reported=tuple(tuple(reported.get(name, {}).values()) for name in names),
        past=tuple(past),
        budget=method.budget,
        remaining=money.remaining,
        # Bounds under what the caller fixes, as those with pending points, say nothing for later.
        pending=problem.X_pending is not None or bool(problem.held),
    )


def _past_decision(
    trial: PastTrial, method: ControlSets, place: Mapping[str, int], entry: LedgerEntry
) -> PastDecision:
    """What the rule is told of an earlier decision, which another strategy may have made.

    What a rule of another kind wanted to remember means nothing to this one.
    """
    decision = trial.decision
    values = decision.get("values") or {}
    same_rule = str(decision.get("rule")).split("(")[0] == type(method.rule).__name__
    return PastDecision(
        index=place[str(entry.control_set)],
        charged=entry.charged,
        state=(decision.get("state") or {}) if same_rule else {},
        values={place[name]: float(value) for name, value in values.items() if name in place},
        comparable=decision.get("problem") == method.problem_digest,
    )


def expected_costs(problem: Problem, method: ControlSets, space: QuerySpace) -> ExpectedCosts:
    """What the control sets are expected to cost, declared or learned from reported costs."""
    costs = costs_to_learn_from(problem.trials, method)
    by_index = {trial.index: trial for trial in problem.trials}
    indices = sorted(index for by_trial in costs.values() for index in by_trial)
    X = problem.space.encode([by_index[i].inputs for i in indices])
    points = dict(zip(indices, X, strict=True))
    return ExpectedCosts.learned(method, costs, points, space.control_sets, problem.space.bounds)


def _allowed(
    problem: Problem, method: ControlSets, affordable: Sequence[bool], money: Money
) -> list[bool]:
    """Which control sets the caller's fixed parameters leave open, in declared order.

    A control set is open if it is the fixed one, if one is fixed, and controls all other fixed
    parameters.

    Raises:
        InputError: If no control set is open, or the budget pays for none that is.
    """
    fixed = problem.fixed
    values = {name for name in fixed if name != CONTROL_SET}
    if CONTROL_SET in fixed:
        method.control_set(str(fixed[CONTROL_SET]))
    allowed = [
        fixed.get(CONTROL_SET, s.name) == s.name and values <= set(s.parameters)
        for s in method.control_sets
    ]
    if not any(allowed):
        raise InputError(
            f"fixed_parameters={dict(fixed)}: no control set "
            f"{'of that name ' if CONTROL_SET in fixed else ''}controls all of {sorted(values)}. "
            "Fix only what one control set controls; the rest is left to chance."
        )
    if not any(a and b for a, b in zip(allowed, affordable, strict=True)):
        raise InputError(
            f"fixed_parameters={dict(fixed)} leave only control sets that cost more than the "
            f"{money.remaining:g} left of the budget."
        )
    return allowed


def _stop(
    problem: Problem,
    method: ControlSets,
    money: Money,
    costs: Sequence[float | None] | None,
    more: str,
) -> Stop:
    """Why no further trial is chosen, and what to deploy."""
    best = method.recommend(problem)[0]
    values = ", ".join(f"{name}={value!r}" for name, value in best.parameters.items())
    return Stop(
        f"{_exhausted(method, money, costs)}{more} Deploy control set {best.control_set!r} with "
        f"{values}: expected value {best.mean:.6g}, standard deviation "
        f"{best.standard_deviation:.3g}."
    )


def _exhausted(method: ControlSets, money: Money, costs: Sequence[float | None] | None) -> str:
    message = (
        f"The budget is exhausted: {money.spent:g} of {method.budget:g} is spent (reservations for "
        "unfinished trials included)"
    )
    known = [cost for cost in costs or () if cost is not None]
    if known:
        verb = "is expected to cost" if method.learns_costs else "costs"
        message += f", and the cheapest control set {verb} {min(known):g}"
    return f"{message}."


def _named(names: Sequence[str]) -> str:
    """Control sets as the beginning of a sentence about them."""
    if len(names) == 1:
        return f"Control set {names[0]!r} is"
    return f"The control sets {list(names)} are"


def initial_trial(problem: Problem, method: ControlSets) -> Decision | Stop:
    """The next trial of the initial design: scrambled Sobol points, for the inputs it controls.

    Trial ``i`` uses the ``i``-th control set of a cycle and the ``i``-th point of one scrambled
    Sobol sequence, of which only the coordinates of controlled inputs are read; the other inputs
    are left to chance, and the arm carries their nominal values. (The paper starts from uniformly
    random points under the cheapest control set; Sobol points spread better.)

    Raises:
        InputError: If no point meets the parameter constraints, or what the caller fixes leaves no
            control set.
    """
    money = method.money(problem, initial=True)
    costs = average_costs(method, costs_to_learn_from(problem.trials, method))
    affordable = [money.pays(cost) for cost in costs]
    index = problem.num_initial
    open_sets = [False] * len(costs)
    if any(affordable):
        allowed = _allowed(problem, method, affordable, money)
        open_sets = [a and b for a, b in zip(affordable, allowed, strict=True)]
    place = _next_control_set(method, index, open_sets, costs)
    if place is None:
        return Stop(
            f"{_exhausted(method, money, costs)} The initial design is not finished, so no model "
            "says what to deploy: compare the trials themselves, or raise the budget."
        )
    chosen, cost = method.control_sets[place], costs[place]
    arm = _initial_arm(problem, method, index, chosen)
    known = "cost" if chosen.cost is not None else "expected cost"
    price = "cost not known yet" if cost is None else f"{known} {cost:g}"
    return method.initial_decision(
        problem,
        arm,
        cost,
        money,
        f"control set {chosen.name!r} ({price}) comes next in the initial design, whose values "
        "are quasi-random.",
        details={"in_play": [chosen.name], "values": {}, "rule": "initial design"},
        **_extra(chosen, {name: arm[name] for name in chosen.parameters}),
        join=":",
    )


def _next_control_set(
    method: ControlSets, index: int, open_sets: Sequence[bool], costs: Sequence[float | None]
) -> int | None:
    """Place of the control set of the ``index``-th initial trial.

    The first one that may be used, from that place of the cycle on; or else, of all control sets
    that may be used, the cheapest; None if there is none.
    """
    cycle, names = method.initial_control_sets, method.names
    for step in range(len(cycle)):
        place = names.index(cycle[(index + step) % len(cycle)])
        if open_sets[place]:
            return place
    rest = [i for i, is_open in enumerate(open_sets) if is_open]
    return min(rest, key=lambda i: costs[i] or 0.0, default=None)


def _initial_arm(
    problem: Problem, method: ControlSets, index: int, chosen: ControlSet
) -> dict[str, Value]:
    space = problem.space
    free = {name: column.parameter for name, column in space.columns.items()}
    nominal = nominal_values(space, method.laws)
    fixed = {name: v for name, v in problem.fixed.items() if name in chosen.parameters}
    open_inputs = [name for name in chosen.parameters if name not in fixed]
    first = SobolEngine(len(free), scramble=True, seed=method.seed)
    spare = SobolEngine(len(free), scramble=True, seed=decision_seed(method.seed, index))
    point = first.fast_forward(index).draw(1, dtype=torch.double)[0]
    place = {name: i for i, name in enumerate(free)}
    for _ in range(MAX_DRAWS):
        controlled = {n: free[n].at(float(point[place[n]])) for n in open_inputs}
        arm = _arm(problem, nominal, {**controlled, **fixed}, chosen)
        if space.meets(arm, among=chosen.parameters):
            return arm
        point = spare.draw(1, dtype=torch.double)[0]
    raise InputError(
        f"no point among {MAX_DRAWS} met the parameter constraints {list(space.sums)} with control "
        f"set {chosen.name!r} and the rest at the nominal values {nominal}: loosen the constraints "
        "or change the control sets."
    )
