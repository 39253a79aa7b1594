"""Another budget: for every method, stored, and as if it had been that from the start."""

from __future__ import annotations

import pytest
from ax.api.client import Client
from ax.exceptions.core import UserInputError

from ax_costaware import UnknownCosts, set_budget, spending
from tests.ax import cost_toy, gittins_toy, toy

pytestmark = pytest.mark.usefixtures("short_searches")


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


def test_refuses_a_strategy_without_a_budget() -> None:
    """What it decided by, a decay or a number of rounds, is not what one with a budget does."""
    for client in (
        gittins_toy.make_client(budget=None),
        cost_toy.make_cost_client(rule=UnknownCosts(rounds=2)),
    ):
        with pytest.raises(UserInputError, match="budget"):
            set_budget(client, 9.0)


def test_refuses_what_the_strategy_would() -> None:
    """Here initial trials that the budget would not pay for."""
    client = toy.make_client(budget=9.0, initial_trials=20)
    with pytest.raises(UserInputError, match="initial_trials=20"):
        set_budget(client, 1.5)
    assert spending(client).budget == 9.0
