"""Choice of a control set and its values (Tay et al. 2023, Algorithm 1), and the initial design.

The expected acquisition value is maximised for each control set that the rule asks about, and the
rule chooses one. Values are in the unit of the objective, with the sign of maximization.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeAlias

from ax_costaware.core.account import ROUNDING, LedgerEntry
from ax_costaware.core.history import PastTrial
from ax_costaware.core.problem import Decision, Problem, Stop, decision_seed, feasibility_text
from ax_costaware.core.switching import kept_settings
from ax_costaware.costs.control_set import ControlSet
from ax_costaware.exceptions import InputError
from ax_costaware.methods.control_sets.checks import allowed_sets
from ax_costaware.methods.control_sets.query_space import QuerySpace
from ax_costaware.methods.control_sets.rules.rule import (
    ControlSetChoice,
    ControlSetHistory,
    PastChoice,
    checked_choice,
)
from ax_costaware.methods.control_sets.values import ControlSetValues
from ax_costaware.methods.stopping import at_price
from ax_costaware.space.parameters import Row, Value

if TYPE_CHECKING:
    from ax_costaware.methods.control_sets import ControlSets

MAX_DRAWS = 10_000
"""Points to try for one trial before the parameter constraints count as impossible to meet."""

_MOST_PRICED = 256
"""Initial points of one control set to try until one is affordable."""


def choose(problem: Problem, method: ControlSets) -> Decision | Stop:
    """Return the control set and the values of the next trial, or the reason to stop."""
    values = ControlSetValues(problem, method)
    least = values.space.costs.least
    able = _open_sets(values, least)
    if not any(able):
        return _stop(values, _exhausted(values, least))
    affordable = [i for i, is_able in enumerate(able) if is_able]
    stops, record = at_price(problem, method.lmbda, lambda: values.gain_per_cost(affordable))
    if stops is not None:
        stop = _stop(values, f"Stopped: {stops}. Spent {values.budget_state.spent:g}.")
        return replace(stop, is_final=False)
    rule = values.rule.oriented(problem.minimize)
    passed_over: list[str] = []
    while any(able):
        choice = checked_choice(rule, able, rule.decide(history_of(values, able), values))
        cost = values.cost_of(choice.index)
        if values.budget_state.pays(None if cost is None else cost.mean):
            return _decision(values, choice, passed_over, record)
        if not (method.affordable_only or values.budget_state.is_capped):
            chosen = f"the rule chose control set {method.names[choice.index]!r}"
            price = "" if cost is None else f", which costs {cost.mean:g}"
            return _stop(values, method.exhausted(problem, values.budget_state, chosen + price))
        # Affordable on average, or at other values, but not at its best values.
        able[choice.index] = False
        passed_over.append(method.names[choice.index])
    limit = "that" if values.budget_state.is_capped else "what is left of it"
    return _stop(
        values,
        f"{method.exhausted(problem, values.budget_state)} {_too_expensive(passed_over, limit)}.",
    )


def _decision(
    values: ControlSetValues,
    choice: ControlSetChoice,
    passed_over: Sequence[str],
    record: Mapping[str, float | str],
) -> Decision:
    method = values.method
    ((point, value),) = values.found([choice.index])
    cost, names = values.cost_of(choice.index), method.names
    chosen = method.control_sets[choice.index]
    arm = values.space.arm(chosen, values.space.controlled(point, chosen.parameters))
    reason = choice.reason
    log_feasibility = values.space.log_feasibility(point.unsqueeze(0), [choice.index])
    if not values.is_feasible:
        reason = (
            f"No query is feasible with a probability of {method.feasibility_threshold:g} yet, and "
            f"values are this probability. {reason}"
        )
    elif values.problem.minimize:
        reason += f" Values and bounds are of -{values.problem.objective}, which is maximized."
    if passed_over:
        limit = "max_trial_cost" if values.budget_state.is_capped else "what is left of the budget"
        reason += f" {_too_expensive(passed_over, limit)}, and passed over."
    details = {
        "in_play": [names[i] for i in choice.in_play],
        "values": {names[i]: float(v) for i, v in choice.values.items()},
        "rule": repr(method.rule),
        "problem": method.problem_digest,
        **values.budget_state.record(),
        **record,
        **({} if log_feasibility is None else {"feasibility": float(log_feasibility.exp())}),
        "state": dict(choice.state),
    }
    is_priced_alike = not (method.learns_costs or values.space.costs.ranges)
    if method.switching_cost is not None or not is_priced_alike:
        # Expected costs and standard errors of the control sets in play, as far as computed.
        details["costs"] = {
            names[i]: [found.mean, found.standard_error]
            for i in choice.in_play
            if values.is_priced(i) and (found := values.cost_of(i)) is not None
        }
    return Decision(
        parameters=arm,
        why=reason,
        expected_cost=None if cost is None else cost.mean,
        details=details,
        extra=_extra(chosen, arm),
        value=value,
    )


def _extra(chosen: ControlSet, arm: Row) -> dict[str, Any]:
    return {
        "control_set": chosen.name,
        "controlled": {name: arm[name] for name in chosen.parameters},
        "cost_above": chosen.fixed_cost if chosen.cost is None else None,
    }


def history_of(values: ControlSetValues, affordable: Sequence[bool]) -> ControlSetHistory:
    """Return the history of decisions in the form that a rule takes."""
    problem, method, state = values.problem, values.method, values.budget_state
    trials = {trial.index: trial for trial in problem.trials}
    past = [_past_choice(trials[e.trial_index], values, e) for e in state.entries if e.by_rule]
    rows = problem.earlier_in_batch
    past += [
        PastChoice(method.index_of(row), cost)
        for row, cost in zip(rows, method.reservations(problem, False) if rows else (), strict=True)
    ]
    plays = [decision.index for decision in past]
    return ControlSetHistory(
        parameters=tuple(frozenset(s.parameters) for s in method.control_sets),
        costs=_costs_for_rule(values, affordable),
        plays=tuple(plays.count(i) for i in range(len(method.control_sets))),
        affordable=tuple(affordable),
        round=len(plays) + 1,
        names=tuple(method.names),
        known=tuple(control_set.cost is not None for control_set in method.control_sets),
        reported=tuple(tuple(reported.values()) for reported in values.space.costs.reported),
        past=tuple(past),
        budget=method.budget,
        remaining=state.remaining,
        # Later rules must not use bounds with pending points or with parameters that were fixed.
        pending=problem.X_pending is not None or bool(problem.held),
        # Values that are chosen by their cost are not the best ones.
        monotone=not (problem.constraints or values.space.costs.ranges),
    )


def _costs_for_rule(values: ControlSetValues, affordable: Sequence[bool]) -> tuple[float, ...]:
    """Return average costs of control sets, or costs at the best values if they depend on these."""
    # Unknown costs count as equal.
    found = [1.0 if cost is None else cost for cost in values.space.costs.averages]
    ranges, able = values.space.costs.ranges, [i for i, is_able in enumerate(affordable) if is_able]
    if any(i in ranges for i in able):
        values.found(able)  # in one batch, since the result of a search depends on its batch
    for i in able:
        if i in ranges and (cost := values.cost_of(i)) is not None:
            found[i] = cost.mean
    return tuple(found)


def _past_choice(trial: PastTrial, now: ControlSetValues, entry: LedgerEntry) -> PastChoice:
    """Return an earlier decision in the form that a rule takes.

    Another strategy may have made it. The state of a rule of another class is left out.
    """
    decision, method, goal = trial.decision, now.method, now.problem.goal
    names = method.names
    values, remaining = decision.get("values") or {}, decision.get("remaining")
    same_rule = str(decision.get("rule")).split("(")[0] == type(method.rule).__name__
    return PastChoice(
        index=names.index(str(entry.control_set)),
        charged=entry.charged,
        state=(decision.get("state") or {}) if same_rule else {},
        values={names.index(name): float(v) for name, v in values.items() if name in names},
        comparable=decision.get("problem") == method.problem_digest
        and decision.get("objective", goal) == goal,
        budget=None if remaining is None else decision["spent"] + remaining,
    )


def _open_sets(values: ControlSetValues, costs: Sequence[float | None]) -> list[bool]:
    """Return a mask of the control sets that are affordable and open, in declared order.

    If the caller fixes parameters, a control set is open if

    - it is the fixed control set, if one is fixed, and
    - it controls all other fixed parameters that some control set controls.

    Raises:
        InputError: If no control set is open, or no open one is affordable.
    """
    method, fixed = values.method, values.problem.fixed
    affordable = [values.budget_state.pays(cost) for cost in costs]
    if not any(affordable):
        return affordable
    open_sets = [method.is_open(values.budget_state, cost, values.initial) for cost in costs]
    allowed = allowed_sets(values.problem, method.control_sets)
    able = [a and b for a, b in zip(allowed, open_sets, strict=True)]
    if not any(able):
        limit = f"{values.budget_state.limit:g} that a trial may cost, by "
        limit += "max_trial_cost" if values.budget_state.is_capped else "what is left of the budget"
        raise InputError(
            f"fixed_parameters={dict(fixed)} leave only control sets that cost more than the "
            f"{limit}."
        )
    return able


def _stop(values: ControlSetValues, why: str) -> Stop:
    """Return a stop with its reason and what to deploy."""
    best = values.method.recommend(values.problem)[0]
    settings = ", ".join(f"{name}={value!r}" for name, value in best.parameters.items())
    return Stop(
        f"{why} Deploy control set {best.control_set!r} with {settings}: expected value "
        f"{best.mean:.6g}, standard deviation {best.standard_deviation:.3g}"
        f"{feasibility_text(best.feasibility)}."
    )


def _exhausted(values: ControlSetValues, costs: Sequence[float | None]) -> str:
    """Return the reason to stop: the cheapest control set is not affordable."""
    problem, method, state = values.problem, values.method, values.budget_state
    known = [cost for cost in costs if cost is not None]
    if not known:
        return method.exhausted(problem, state)
    verb = "is expected to cost" if method.learns_costs else "costs"
    return method.exhausted(problem, state, f"the cheapest control set {verb} {min(known):g}")


def _too_expensive(names: Sequence[str], limit: str) -> str:
    """Return a clause that control sets cost too much at their best values."""
    what = f"Control set {names[0]!r} is" if len(names) == 1 else f"The control sets {names} are"
    return f"{what} expected to cost more than {limit} at the values that are best"


def initial_trial(problem: Problem, method: ControlSets) -> Decision | Stop:
    """Return the next trial of the initial design: scrambled Sobol points of the controlled inputs.

    Trial ``i`` uses the ``i``-th control set of a cycle, and the coordinates of its inputs in the
    ``i``-th point of one scrambled Sobol sequence, or of one of uniformly random points. The arm
    has nominal values of the uncontrolled inputs.

    If a cost depends on the values that are set, points are drawn until one leaves enough budget
    for the other initial trials; if none does, the first affordable one is used. If a control set
    is not affordable or not open, the next one of the cycle is used, then the cheapest of all.

    The paper starts from uniformly random points of all inputs; Sobol points spread better.

    Raises:
        InputError: If no point meets the parameter constraints, or what the caller fixes leaves no
            control set.
    """
    values, index = ControlSetValues(problem, method, initial=True), problem.num_initial
    costs = values.space.costs.averages
    able = _open_sets(values, costs)
    if not any(able):
        return method.unfinished_design(_exhausted(values, costs), values.budget_state)
    cycle = [method.names.index(name) for name in method.initial_control_sets]
    turn = index % len(cycle)
    rest = sorted(range(len(costs)), key=lambda i: costs[i] or 0.0)
    too_high = [cost for cost, is_able in zip(costs, able, strict=True) if not is_able]
    for place in dict.fromkeys(i for i in (*cycle[turn:], *cycle[:turn], *rest) if able[i]):
        chosen = method.control_sets[place]
        found, prices = _affordable_trial(values, index, chosen, costs)
        if found is not None:
            break
        too_high += prices
    else:  # with its switching cost each is too expensive
        return method.unfinished_design(_exhausted(values, too_high), values.budget_state)
    arm, cost = found
    known = "cost" if chosen.cost is not None else "expected cost"
    price = "cost not known yet" if cost is None else f"{known} {cost:g}"
    return method.initial_decision(
        problem,
        arm,
        cost,
        values.budget_state,
        f"control set {chosen.name!r} ({price}) comes next in the initial design, whose values "
        f"are {'quasi-' if method.initial_design == 'sobol' else 'uniformly '}random.",
        details={"in_play": [chosen.name], "values": {}, "rule": "initial design"},
        **_extra(chosen, arm),
        join=":",
    )


_Priced: TypeAlias = tuple[dict[str, Value], float | None]
"""A parameterization and its expected cost."""


def _affordable_trial(
    values: ControlSetValues, index: int, chosen: ControlSet, costs: Sequence[float | None]
) -> tuple[_Priced | None, list[float | None]]:
    """Return an affordable initial trial of a control set, and all costs that were computed.

    Args:
        values: Values and costs of the decision.
        index: Number of the trial in the initial design, from 0.
        chosen: The control set.
        costs: Average or least cost of each control set.
    """
    problem, method, state = values.problem, values.method, values.budget_state
    place = method.names.index(chosen.name)
    average, varies = costs[place], place in values.space.costs.declared
    later = method.initial_cost([cost or 0.0 for cost in costs], after=index)
    left = math.inf if state.remaining is None or not method.charge_initial else state.remaining
    prices: list[float | None] = []
    first: _Priced | None = None
    names, arms = chosen.parameters, _initial_arms(values.space, index, chosen)
    for arm in islice(arms, _MOST_PRICED if varies else 1):
        keeping = [
            {**arm, **settings} for settings in kept_settings(problem, method, chosen.parameters)
        ]
        for one in (arm, *(k for k in keeping if problem.space.meets(k, among=names))):
            declared = method.cost_in(chosen, one)
            cost = average if declared is None else declared
            price = method.with_switching_cost(problem, one, cost)
            prices.append(price)
            if not state.pays(price):
                continue
            first = first or (one, price)
            if not varies or (price or 0.0) + later <= left * (1 + ROUNDING):
                return (one, price), prices
    return first, prices


def _initial_arms(space: QuerySpace, index: int, chosen: ControlSet) -> Iterator[dict[str, Value]]:
    """Yield random values of a control set: those of a trial's index, then alternatives.

    Raises:
        InputError: If none meets the parameter constraints.
    """
    found = False
    problem, seed = space.problem, space.method.seed
    design = partial(problem.space.design, uniform=space.method.initial_design == "uniform")
    rows: Iterator[Row] = islice(design(seed), index, None)
    if not problem.space.equalities:
        rows = chain(islice(rows, 1), design(decision_seed(seed, index)))
    for row in islice(rows, MAX_DRAWS):
        drawn = {**row, **problem.fixed}
        arm = space.arm(chosen, {name: drawn[name] for name in chosen.parameters})
        if problem.space.meets(arm, among=chosen.parameters):
            found = True
            yield arm
    if found:
        return
    raise InputError(
        f"no point among {MAX_DRAWS} met the parameter constraints {problem.space.constraints} "
        f"with control set {chosen.name!r} and the rest at the nominal values {space.nominal}: "
        "loosen the constraints or change the control sets."
    )
