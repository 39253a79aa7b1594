"""Another budget: for every method, stored, and as if it had been that from the start."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.core.experiment import Experiment
from ax.exceptions.core import OptimizationShouldStop, UserInputError

from ax_costaware import UnknownCosts, set_budget, spending
from tests.ax import cost_toy, feedback_toy, gittins_toy, indirect_toy, toy, tree_toy
from tests.fresh import FreshProcess
from tests.repeats import mostly_slow
from tests.resuming import Run, decide, load

from .conftest import ARM

pytestmark = pytest.mark.usefixtures("short_searches")


@dataclass(frozen=True)
class Case:
    """A method on its toy, with a budget that is soon used up."""

    make: Callable[..., Client]
    run: Callable[[Client, int], Any]
    budget: float
    options: dict[str, Any]

    def client(self, budget: float, **more: Any) -> Client:
        """A client with the toy experiment."""
        return self.make(**self.options, budget=budget, **more)


def _learned(client: Client, count: int) -> None:
    gittins_toy.run_trials(client, count, report=True)


GITTINS = gittins_toy.make_client
# A design that knows costs depends on the budget.
NEVER: dict[str, Any] = {"initial_share": None, "initial_trials": 2}
STOPS: dict[str, Any] = {**NEVER, "stop": True}
CASES = {
    "gittins": Case(GITTINS, gittins_toy.run_trials, 4.0, STOPS),
    "gittins, never stopped": Case(GITTINS, gittins_toy.run_trials, 4.0, NEVER),
    "gittins, learned costs": Case(GITTINS, _learned, 5.0, {"cost": "hours", **NEVER}),
    "cost cooling": Case(
        GITTINS, gittins_toy.run_trials, 4.0, {"acquisition": "log_ei_cost_cooling", **NEVER}
    ),
    "control sets": Case(toy.make_client, toy.run_trials, 0.5, {"initial_trials": 3}),
    "unknown costs": Case(cost_toy.make_cost_client, cost_toy.run_with_costs, 2.5, {}),
    "costly feedback": Case(
        feedback_toy.make_client, feedback_toy.run_trials, 3.0, {"initial_trials": 2}
    ),
    "indirect queries": Case(
        indirect_toy.make_client, indirect_toy.run_trials, 3.0, {"initial_trials": 2}
    ),
    "resolution tree": Case(tree_toy.make_client, tree_toy.run_trials, 6.0, {}),
}

VARIANTS = ["gittins, never stopped", "cost cooling"]
"""Cases that go the way of another one."""

MOST = 7
"""Trials after which a run is over that does not stop, as that of costly feedback."""


def run_until_stopped(client: Client, case: Case) -> bool:
    """Run trials until the strategy stops, or there are ``MOST`` more; whether it did."""
    try:
        for _ in range(MOST):
            case.run(client, 1)
    except OptimizationShouldStop:
        return True
    return False


@pytest.mark.parametrize("name", mostly_slow(CASES, CASES.keys() - VARIANTS))
def test_a_larger_budget(name: str, tmp_path: Path, fresh_process: FreshProcess) -> None:
    """What stopped goes on, as a strategy that had this budget from the start, also once stored."""
    case = CASES[name]
    stored = Run(tmp_path)
    client = case.client(case.budget, storage_config=stored.config)
    if name == "gittins, learned costs":
        client.configure_tracking_metrics(["hours"])
    assert run_until_stopped(client, case) is (name != "costly feedback")
    before = str(tmp_path / "before.json")
    client.save_to_json_file(before)
    large = 4 * case.budget
    set_budget(client, large)
    paid = spending(client)
    assert (paid.budget, paid.remaining) == (large, large - paid.spent)
    stored.store(client)
    stored.decide(client)
    stored.assert_resumed_alike(fresh_process)
    other = load(before)
    other.set_generation_strategy(case.client(large)._generation_strategy)
    assert decide(other)[1] == stored.decisions[0]


@pytest.mark.parametrize("name", mostly_slow(CASES, CASES.keys() - VARIANTS))
def test_a_smaller_budget(name: str) -> None:
    """It is kept to, from the next decision on; the initial design goes on where it was."""
    case = CASES[name]
    client, twin = (case.client(10 * case.budget) for _ in range(2))
    if name == "gittins, learned costs":
        for one in (client, twin):
            one.configure_tracking_metrics(["hours"])
    for one in (client, twin):
        case.run(one, 2)
    set_budget(client, case.budget)
    index, decision = decide(client)
    if name != "cost cooling":  # the power of the cost is the share of the budget that is left
        assert decision["arm"] == decide(twin)[1]["arm"]
    client.mark_trial_abandoned(index)
    run_until_stopped(client, case)
    # Learned costs come out otherwise than expected.
    overrun = 2.0 if "hours" in case.options.values() or name == "unknown costs" else 0.0
    assert case.budget / 2 < spending(client).spent <= case.budget * (1 + 1e-9) + overrun


def price(client: Client) -> float:
    """Lambda of the next decision."""
    ((index, arm),) = client.get_next_trials(max_trials=1).items()
    gittins_toy.complete(client, index, dict(arm))
    return float(gittins_toy.record(client, index)["decision"]["lambda"])


def test_a_price_is_found_anew_and_held() -> None:
    """From what the new budget leaves, also if it is one that there was before."""
    client = gittins_toy.make_client(budget=30.0, stop=True)
    gittins_toy.run_trials(client, 4)
    first = price(client)
    assert price(client) == first
    set_budget(client, 30.0)
    assert price(client) == first, "it is the same budget"
    set_budget(client, 60.0)
    second = price(client)
    assert second < first, "there is more to spend"
    assert price(client) == second
    set_budget(client, 30.0)
    assert price(client) not in (first, second)


def test_a_run_that_its_price_has_stopped_stops_again() -> None:
    client = gittins_toy.make_client(budget=30.0, lmbda=0.05)
    with pytest.raises(OptimizationShouldStop, match=r"not above the price of 0\.05"):
        gittins_toy.run_trials(client, 20)
    set_budget(client, 60.0)
    with pytest.raises(OptimizationShouldStop, match="of 60"):
        gittins_toy.run_trials(client, 1)


def test_any_client(any_client: tuple[Any, Experiment]) -> None:
    """Ax's two clients, and an experiment with its strategy; reservations count as spent."""
    client, experiment = any_client
    experiment.attach_trial([{**ARM, "control_set": "water+acid"}])
    spent = spending(client).spent
    with pytest.raises(UserInputError, match=rf"less than what is spent: {spent:g} of 20, reserv"):
        set_budget(client, spent - 0.01)
    assert spending(client).budget == 20.0
    set_budget(client, spent)
    assert spending(client).remaining == 0.0
    set_budget(client, 900)
    assert spending(client).budget == 900.0


@pytest.mark.parametrize("budget", [0, -1.0, math.nan, math.inf, None, "900", True], ids=str)
def test_refuses_what_is_no_budget(budget: Any, client: Client) -> None:
    with pytest.raises(
        UserInputError, match=r"budget=.*: expected a finite number > 0.* spent: 1 of 20"
    ):
        set_budget(client, budget)
    assert spending(client).budget == 20.0


def test_refuses_a_strategy_without_a_budget() -> None:
    """What it decided by, a decay or a number of rounds, is not what one with a budget does."""
    for client in (
        gittins_toy.make_client(budget=None),
        cost_toy.make_cost_client(rule=UnknownCosts(rounds=2)),
    ):
        with pytest.raises(UserInputError, match=r"has no budget.*_strategy\(\.\.\., budget="):
            set_budget(client, 9.0)


def test_refuses_what_the_strategy_would() -> None:
    """Here initial trials that the budget would not pay for."""
    client = toy.make_client(budget=9.0, initial_trials=20)
    with pytest.raises(UserInputError, match=r"initial_trials=20 .* cost 2, more than budget=1.5"):
        set_budget(client, 1.5)
    assert spending(client).budget == 9.0
