"""What a rule is told before a decision: plays, budget, and what of the past holds for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ax_costaware.core.problem import Decision, Pending, Problem, Stop
from ax_costaware.core.simulation import Simulation
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.exceptions import InputError
from ax_costaware.laws.joint import JointEmpirical
from ax_costaware.laws.marginals import Empirical, Uniform
from ax_costaware.methods import (
    ControlSetHistory,
    EpsilonSchedule,
    LargestValuePerCost,
    UnknownCosts,
)
from ax_costaware.methods.control_sets import ControlSets, choosing
from ax_costaware.methods.control_sets.values import ControlSetValues
from tests.methods.control_sets.toy import (
    CONTROL_SETS,
    FAST,
    MARGINALS,
    MODEL,
    SPACE,
    UNKNOWN_SETS,
    Asking,
    run,
    told_by,
)

ARM = {CONTROL_SET: "x1+x2", "x1": 0.5, "x2": 0.5, "x3": 0.5}


def history_of(method: ControlSets, problem: Problem) -> ControlSetHistory:
    """What a rule is told, all control sets being affordable."""
    return choosing.history_of(ControlSetValues(problem, method), [True] * 3)


@pytest.fixture(scope="module")
def asked() -> Simulation:
    """Four trials, two of them initial, of a rule that plays the most expensive control set."""
    method = ControlSets(
        CONTROL_SETS, MARGINALS, budget=3.0, rule=Asking(), initial_trials=2, **FAST
    )
    return run(method, 4)


def test_decisions_that_are_no_trials_yet_count(asked: Simulation) -> None:
    """As plays, as costs, and for the next index; initial decisions are no plays."""
    method, problem = asked.method, asked.problem()
    told = told_by(method.decide(problem))
    assert (told["plays"], told["round"]) == ([0, 0, 2], 3)
    assert told["remaining"] == pytest.approx(3.0 - 2 * 0.1 - 2 * 1.0)
    assert told["affordable"] == [True, True, False]
    later = replace(problem, pending=(Pending(None, ARM),))
    assert later.next_index == 5
    told = told_by(method.decide(later))
    assert (told["plays"], told["round"]) == ([0, 1, 2], 4)
    assert told["remaining"] == pytest.approx(0.5)
    assert told["affordable"] == [True, True, False]
    assert told["past"][-1][:2] == [1, 0.3]
    assert told["pending"]
    two = replace(problem, pending=(Pending(None, ARM), Pending(None, ARM)))
    assert told_by(method.decide(two))["affordable"] == [True, False, False]


def test_fixed_parameters_leave_control_sets_open(asked: Simulation) -> None:
    """Those that control all of them; refused where there is none, or none that can be paid."""
    method, problem = asked.method, asked.problem()

    def chosen(**fixed: Any) -> Decision:
        decision = method.decide(replace(problem, fixed=fixed))
        assert isinstance(decision, Decision)
        return decision

    assert chosen(control_set="x1").parameters[CONTROL_SET] == "x1"
    told = told_by(chosen(x2=0.25))
    assert told["affordable"] == [False, True, False]
    assert told["pending"], "such bounds say nothing for later"
    assert chosen(x2=0.25).parameters["x2"] == 0.25
    with pytest.raises(InputError, match=r"leave only control sets that cost more than the 0[.]8"):
        chosen(x3=0.5)
    with pytest.raises(InputError, match=r"no control set of that name controls all of \['x2'\]"):
        chosen(control_set="x1", x2=0.5)


@pytest.mark.parametrize("budget", [3.4, 2.55])
def test_a_run_may_end_with_the_first_choice_that_is_not_payable(budget: float) -> None:
    """Algorithm 1 of Tay et al. 2023, lines 3 to 7: break if C - sum of costs < c_i."""
    costs, epsilon = [0.1, 0.3, 1.0], 0.15
    method = ControlSets(
        CONTROL_SETS, MARGINALS, budget=budget, rule=EpsilonSchedule.polynomial(epsilon, 1.0),
        charge_initial=False, affordable_only=False, **FAST,
    )  # fmt: skip
    made = run(method, 30)
    played, left = [trial.parameters[CONTROL_SET] for trial in made.trials[5:]], budget
    for t in range(1, len(played) + 2):
        past = Simulation(method, SPACE, hyperparameters=MODEL, trials=made.trials[: 4 + t])
        u = ControlSetValues(past.problem(), method)([0, 1, 2])
        S1 = [i for i in range(3) if u[i] + epsilon / t >= max(u)]
        chosen = min(S1, key=lambda i: costs[i])
        if left < costs[chosen]:
            break
        assert played[t - 1] == method.names[chosen]
        left -= costs[chosen]
    assert t == len(played) + 1
    stop = method.decide(made.problem())
    assert isinstance(stop, Stop)
    assert f"the rule chose control set {method.names[chosen]!r}, which costs" in stop.reason
    onward = replace(method, affordable_only=True).decide(made.problem())
    assert isinstance(onward, Decision) is (left >= 0.1)
    capped = replace(method, max_trial_cost=0.5).decide(made.problem())
    assert isinstance(capped, Decision) is (left >= 0.3)


def test_another_strategy_is_told_what_of_the_past_holds_for_it() -> None:
    """Bounds hold for the same sets, laws and objective, a rule's memory for rules of its kind."""
    rule = UnknownCosts()
    method = ControlSets(UNKNOWN_SETS, MARGINALS, budget=30.0, rule=rule, initial_trials=3, **FAST)
    problem = run(method, 5).problem()

    def past(**changes: Any) -> Any:
        *_, last = history_of(replace(method, **changes), problem).past
        return last

    assert past().state["phase"] == "explore"
    assert past().comparable
    looser = past(rule=UnknownCosts(tolerance=0.5), budget=50.0)
    assert looser.state == past().state
    assert looser.comparable
    assert past(rule=LargestValuePerCost("worst")).state == {}
    laws = {**MARGINALS, "x3": Uniform(0.4, 0.6)}
    assert not past(marginals=laws).comparable
    for other in (replace(problem, objective="another"), replace(problem, minimize=True)):
        assert not history_of(method, other).past[-1].comparable
    samples = [{**laws, "x3": Empirical([0.1 * i for i in range(n)])} for n in (9, 10)]
    digests = [replace(method, marginals=marginals).problem_digest for marginals in samples]
    assert len({method.problem_digest, *digests}) == 3
    frame = {"x1": [0.1 * i for i in range(10)], "x2": [0.1 * i for i in range(10)]}
    moved = {**frame, "x2": [0.1 * ((i + 1) % 10) for i in range(10)]}
    rest = {"x3": MARGINALS["x3"]}
    joint = [replace(method, marginals=rest, joint=JointEmpirical(f)) for f in (frame, moved)]
    assert joint[0].problem_digest != joint[1].problem_digest
