"""Switching costs: what the trial before is, what is charged, and what the next trial keeps."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from ax_costaware.core import Decision, Simulation, Stop
from ax_costaware.core.account import costs_of_runs, ledger_of
from ax_costaware.core.history import PastTrial
from ax_costaware.core.problem import Pending, Problem
from ax_costaware.core.simulation import Outcome
from ax_costaware.core.switching import check_switching_cost, next_cost, switching_cost
from ax_costaware.costs import (
    AffineCost,
    ControlSet,
    LinearSwitch,
    SwitchingCost,
    TableSwitch,
    WithSwitchingCost,
)
from ax_costaware.costs.cost_model import TrialContext
from ax_costaware.exceptions import InputError
from ax_costaware.methods import CostAware
from ax_costaware.space import Choice, Range, Space
from ax_costaware.space.hierarchy import Condition
from ax_costaware.space.parameters import Row
from tests.priced import method_of

pytestmark = pytest.mark.usefixtures("short_searches")

SPACE = Space.of(
    [Range("oven", 100.0, 300.0), Choice("lamp", ("red", "green", "blue")), Range("days", 1, 8)]
)
CHANGES = {"oven": 5.0, "lamp": 2.0}
QUICK: dict[str, Any] = {"num_restarts": 2, "raw_samples": 16}


def gittins(base: Any = 1.0, **changes: Any) -> CostAware:
    """A method that has switching costs."""
    return method_of(SwitchingCost(CHANGES, base), **{**QUICK, **changes})


def row(oven: float, lamp: str = "red", days: float = 2.0) -> dict[str, Any]:
    """A parameterization."""
    return {"oven": oven, "lamp": lamp, "days": days}


def past(*rows: Row, **changes: Any) -> list[PastTrial]:
    """Trials that were completed."""
    return [PastTrial(i, r, outcome=1.0, is_observed=True, **changes) for i, r in enumerate(rows)]


def charged(trials: list[PastTrial], method: CostAware) -> list[float]:
    """What trials are charged."""
    return [entry.charged for entry in ledger_of(trials, method)]


def test_a_trial_is_charged_its_switching_cost() -> None:
    """The first has none; each later one pays for what it sets otherwise than the one before."""
    trials = past(row(200), row(200), row(210), row(210, "blue"), row(200, "red"))
    assert charged(trials, gittins()) == [1, 1, 6, 3, 8]
    assert charged(trials, gittins(AffineCost({"days": 0.5}))) == [1, 1, 6, 3, 8]
    entries = ledger_of(trials, gittins())
    assert [entry.switching_cost for entry in entries] == [0, 0, 5, 2, 7]
    assert charged(trials, CostAware(1.0)) == [1.0] * 5


def test_a_switching_cost_is_no_more_than_what_is_charged() -> None:
    """A trial may be reported to have cost less: then spending said that more went into them."""
    first, second = past(row(200), row(210))
    entry = ledger_of([first, replace(second, reported_cost=2.0)], gittins())[1]
    assert (entry.charged, entry.switching_cost) == (2.0, 2.0)


@pytest.mark.parametrize(
    ("changes", "after"),
    [
        ({}, [6, 6]),
        ({"status": "RUNNING"}, [6, 6]),
        ({"status": "FAILED"}, [6, 6]),
        ({"status": "ABANDONED"}, [0, 1]),  # never run: the oven is as it was
        ({"status": "ABANDONED", "reported_cost": 4.0}, [4, 6]),
        ({"status": "ABANDONED", "attempts": (None,)}, [6, 6]),
        ({"is_charged": False}, [0, 1]),  # of the past, from elsewhere
    ],
)
def test_which_trials_count_as_before(changes: dict[str, Any], after: list[float]) -> None:
    """The second of three trials is set otherwise, and has come to this or that."""
    first, second, third = past(row(200), row(210), row(200))
    second = replace(second, outcome=None, is_observed=False, **changes)
    assert charged([first, second, third], gittins()) == [1, *after]


def test_a_charge_follows_from_what_ran_in_the_end() -> None:
    """A trial was to keep the oven as one set it that never ran."""
    first, gone, last = past(row(200), row(210), row(210))
    gone = replace(gone, status="ABANDONED", outcome=None, is_observed=False)
    last = replace(last, record={"phase": "rule", "expected_cost": 1.1, "switching_cost": 0.0})
    assert charged([first, gone, last], gittins()) == [1, 0, 6.1]


def test_a_batch_is_set_one_after_the_other() -> None:
    """The trial before is the last pending one, of the same batch or of those that started."""
    rows = [row(210), row(210, "blue")]
    pending = tuple(Pending(None, r) for r in rows)
    problem = Problem(SPACE, tuple(past(row(200))), pending)
    assert gittins().reservations(problem, initial=False) == [6, 3]
    assert gittins(budget=20).budget_state(problem).remaining == 20 - 1 - 6 - 3
    assert switching_cost(problem, gittins(), row(210, "blue")) == 0
    assert switching_cost(problem, gittins(), row(200)) == 7
    assert switching_cost(Problem(SPACE), gittins(), row(200)) == 0


def test_points_cost_what_parameterizations_do() -> None:
    """In the model's space, differentiable in what is known of the rest."""
    problem, method = Problem(SPACE, tuple(past(row(200, "blue")))), gittins()
    cost = next_cost(method, problem, lambda X: 1.0 + X[..., -1])
    rows = [row(200, "blue"), row(201, "blue"), row(200), row(100, "green", 4.0)]
    X = SPACE.encode(rows).requires_grad_()
    log_cost = cost.log_cost(X)
    assert log_cost.exp().tolist() == pytest.approx([3, 8, 5, 12])
    log_cost.sum().backward()
    assert X.grad is not None
    assert X.grad[:, -1].tolist() == pytest.approx([1 / 3, 1 / 8, 1 / 5, 1 / 12])
    assert not X.grad[:, :-1].any()
    first = next_cost(method, Problem(SPACE), 2.0)
    assert torch.equal(first.log_cost(X), X.new_full((4,), math.log(2.0)))


@pytest.mark.parametrize(
    ("parameter", "before", "now", "changes"),
    [
        (Range("lot", 20240101, 20240131, is_integer=True), 20240101, 20240102, True),
        (Range("lot", 1, 10**9, is_integer=True, log_scale=True), 10**9 - 1, 10**9, True),
        (Range("lot", 1e-9, 1e3, log_scale=True), 1e-7 / 3, None, False),
        (Range("lot", 1e-9, 0.9, logit_scale=True), 1e-7 / 3, None, False),
        (Range("lot", 1e6, 2e6), 1e6, 1e6 + 0.5, True),
    ],
)
def test_search_and_ledger_agree_on_what_is_kept(
    parameter: Range, before: float, now: float | None, changes: bool
) -> None:
    """Settings that are alike are not the same; what is kept (None) comes back from the search."""
    space = Space.of([parameter])
    problem = Problem(space, tuple(past({"lot": before})))
    method = CostAware(SwitchingCost({"lot": 5.0}, 1.0))
    X = space.encode([{"lot": before if now is None else now}])
    (row,) = space.decode(X)
    cost = next_cost(method, problem, 1.0)
    assert isinstance(cost.base, WithSwitchingCost)
    assert (
        cost.base.switching_cost(X, cost.trial).tolist()
        == [switching_cost(problem, method, row)]
        == [5.0 * changes]
    )
    trials = past({"lot": before}, row)
    assert [entry.switching_cost for entry in ledger_of(trials, method)] == [0.0, 5.0 * changes]


LAMPS = {
    "red": {"green": 1.0, "blue": 2.0},
    "green": {"red": 3.0, "blue": 4.0},
    "blue": {"red": 5.0, "green": 6.0},
}


@pytest.mark.parametrize("log_scale", [False, True])
def test_points_cost_by_distance_and_direction(log_scale: bool) -> None:
    """In raw units whatever the scale, as the account charges, with the slope of either side."""
    lamp = Choice("lamp", ("red", "green", "blue"))
    space = Space.of([Range("oven", 100.0, 300.0, log_scale=log_scale), lamp])
    switching = SwitchingCost({"oven": LinearSwitch(0.5, 2.0), "lamp": TableSwitch(LAMPS)}, 1.0)
    method, start = CostAware(switching), {"oven": 200.0, "lamp": "blue"}
    problem = Problem(space, tuple(past(start)))
    ovens = [150.0, 150.0, 200.0, 200.0, 260.0, 260.0]
    rows = [{"oven": x, "lamp": y} for x, y in zip(ovens, ["blue", "red"] * 3, strict=True)]
    X = space.encode(rows).requires_grad_()
    costs = next_cost(method, problem).log_cost(X).exp()
    expected = [1.0 + switching_cost(problem, method, row) for row in rows]
    assert costs.tolist() == pytest.approx(expected)
    assert expected == [101.0, 106.0, 1.0, 6.0, 31.0, 36.0]
    (slopes,) = torch.autograd.grad(costs.sum(), X)
    rates = X.new_tensor([-2.0, -2.0, 0.0, 0.0, 0.5, 0.5])
    if log_scale:
        rates = rates * math.log(10.0) * X.new_tensor(ovens)
    assert slopes.isfinite().all()
    moved = rates != 0
    assert torch.allclose(slopes[moved, space.columns["oven"].indices[0]], rates[moved])


def test_control_sets_pay_for_what_they_set() -> None:
    """After a trial that left the oven uncontrolled, setting it costs ``unset``."""
    space = Space.of([Range("oven", 100.0, 300.0), Range("days", 1.0, 8.0)])
    switching = SwitchingCost({"oven": LinearSwitch(0.5, 2.0, unset=30.0)})
    whole, part = ControlSet(["oven", "days"], 1.0), ControlSet(["days"], 1.0)
    X = space.encode([{"oven": 150.0, "days": 1.0}, {"oven": 250.0, "days": 2.0}])
    cost = WithSwitchingCost(1.0, switching, space)
    cases: list[tuple[ControlSet, Row | None, list[float]]] = [
        (whole, {"oven": 200.0}, [101.0, 26.0]),
        (whole, {}, [31.0, 31.0]),
        (part, {"oven": 200.0}, [1.0, 1.0]),
        (whole, None, [1.0, 1.0]),
    ]
    for control_set, before, expected in cases:
        found = cost.log_cost(X, TrialContext(control_set, before)).exp()
        assert found.tolist() == pytest.approx(expected)


def run(method: CostAware, num_trials: int) -> Simulation:
    """A run whose best oven is at 230 degrees."""
    simulation = Simulation(method, SPACE)
    for _ in range(num_trials):
        decision = simulation.ask()
        if isinstance(decision, Stop):
            break
        values: Any = decision.parameters
        value = -(((values["oven"] - 230) / 60) ** 2) - (values["days"] - 5) ** 2 / 8
        cost = None
        if method.trial_costs.metric is not None:
            cost = 1.0 + switching_cost(simulation.problem(), method, values)
        simulation.tell(decision, Outcome(value + 0.3 * (values["lamp"] == "green"), cost))
    return simulation


@pytest.mark.usefixtures("full_searches")
@pytest.mark.parametrize(("base", "acquisition"), [(1.0, "log_ei_per_cost"), ("hours", "gittins")])
def test_an_expensive_oven_is_kept(base: Any, acquisition: str) -> None:
    """By known and by learned costs; what is expected and charged includes the switching cost."""
    # Three costs that agree leave a trend more open than a process alone.
    method = gittins(
        base, acquisition=acquisition, cost_model="gp", lmbda=0.05, stop=False, initial_trials=3
    )
    simulation = run(method, 8)
    entries = simulation.ledger
    # The oven costs 5 to change, and the lamp 2.
    assert sum(entry.switching_cost >= 5 for entry in entries[3:]) <= 1
    assert any(entry.switching_cost == 0 for entry in entries[3:])
    for trial, entry in zip(simulation.trials, entries, strict=True):
        assert trial.record["switching_cost"] == entry.switching_cost
        assert entry.charged == pytest.approx(1.0 + entry.switching_cost)
        if trial.record["phase"] == "rule":
            assert entry.expected_cost == pytest.approx(entry.charged, rel=0.2)
    # Ignored, it is changed for every trial.
    ignored = run(replace(method, cost=base), 5)
    assert len({trial.parameters["oven"] for trial in ignored.trials}) == 5


@pytest.mark.usefixtures("full_searches")
def test_learned_costs_are_learned_without_switching_costs() -> None:
    """A report is of the whole trial; what is no more than its switching cost is left out."""
    method = gittins("hours", initial_trials=3, lmbda=0.1, stop=False)
    simulation = run(method, 4)
    assert method.trial_costs.expected(simulation.problem(), [row(200)]) == pytest.approx(
        [1.0], rel=0.1
    )
    assert isinstance(simulation.ask(), Decision)
    last = simulation.trials[-1]
    cheap = replace(last, parameters=row(299, "blue"), reported_cost=5.0)
    simulation.trials[-1] = cheap
    (said,) = method.omitted(simulation.problem()).sentences
    assert "ignores the costs of trials [3]" in said
    alone = dict.fromkeys(range(3), 1.0)
    assert costs_of_runs(simulation.trials, method) == pytest.approx(alone)
    assert isinstance(simulation.ask(), Decision)


@pytest.mark.parametrize(
    ("changes", "base", "name"),
    [
        ({"moon": 1.0}, 1.0, "'moon'"),
        (CHANGES, AffineCost({"moon": 1.0}), "'moon'"),
        ({"lamp": LinearSwitch(1.0, 1.0)}, 1.0, r"changes\['lamp'\]: expected a range or ordered"),
        ({"oven": TableSwitch({(1, 2): 1.0})}, 1.0, r"changes\['oven'\]: expected a choice"),
        ({"lamp": TableSwitch({("red", "green"): 1.0})}, 1.0, "from 'red' to 'blue'"),
        ({"lamp": TableSwitch({**LAMPS, "pink": {"red": 1.0}})}, 1.0, "'pink'"),
        (CHANGES, None, "base"),
        (CHANGES, 0.0, "base"),
        (CHANGES, AffineCost({0: 1.0}), "cost=AffineCost"),
        (CHANGES, "", "base"),
    ],
)
def test_what_does_not_fit_is_refused(changes: Any, base: Any, name: str) -> None:
    with pytest.raises(InputError, match=name):
        Simulation(CostAware(SwitchingCost(changes, base)), SPACE)


def test_a_parameter_that_not_every_trial_has_costs_by_a_number_alone() -> None:
    """It has no value to change from after a trial without it."""
    kind, conditions = Choice("kind", ("oven", "air")), {"heat": Condition("kind", ("oven",))}
    space = Space.of([kind, Range("heat", 20.0, 200.0)], conditions=conditions)
    Simulation(CostAware(SwitchingCost({"heat": 2.0}, 1.0)), space)
    switching = SwitchingCost({"heat": LinearSwitch(0.1, 0.2)}, 1.0)
    with pytest.raises(InputError, match=r"changes\['heat'\]: expected a number, since not every"):
        Simulation(CostAware(switching), space)


def test_a_choice_may_lose_a_value_later() -> None:
    """Refused before the first trial, and taken once a trial has a record."""
    space = Space.of([Choice("lamp", ("red", "green")), Range("days", 1, 8)])
    method = CostAware(SwitchingCost({"lamp": TableSwitch(LAMPS)}, 1.0))
    with pytest.raises(InputError, match="'blue'"):
        Simulation(method, space)
    trial = PastTrial(0, {"lamp": "blue", "days": 2}, outcome=1.0, record={"phase": "rule"})
    problem = Problem(space, (trial,))
    check_switching_cost(problem, method)
    assert switching_cost(problem, method, {"lamp": "red", "days": 2}) == 5.0
    X = space.encode([{"lamp": "red", "days": 2}, {"lamp": "green", "days": 2}])
    assert next_cost(method, problem).log_cost(X).exp().tolist() == pytest.approx([6.0, 7.0])


def test_a_budget_pays_for_switching_costs() -> None:
    """The design keeps settings where its share pays for no others; no trial is beyond the end."""
    simulation = run(gittins(budget=12.0, initial_trials=4, initial_share=0.6), 12)
    entries = simulation.ledger
    assert len(entries) < 12
    assert sum(entry.charged for entry in entries) <= 12.0
    assert sum(entry.charged for entry in entries[:4]) <= 0.6 * 12.0
    points = [trial.parameters for trial in simulation.trials[:4]]
    assert all(point not in points[:i] for i, point in enumerate(points))
    assert gittins(budget=24.0).trial_costs.num_payable(Problem(SPACE), initial=True) == 3
    far = SwitchingCost({"oven": LinearSwitch(0.01, 0.02), "lamp": TableSwitch(LAMPS)}, 1.0)
    assert far.largest(SPACE) == 0.02 * 200.0 + 6.0
    assert CostAware(far, budget=24.0).trial_costs.num_payable(Problem(SPACE), initial=True) == 2
