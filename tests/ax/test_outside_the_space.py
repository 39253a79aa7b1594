"""Trials that cannot be set any more teach the model; they are no incumbents, and not deployed.

Past data beyond the bounds, bounds that were narrowed, a parameter constraint that was added, a
realized input that nobody asked for, and a choice that lost a value.
"""

from __future__ import annotations

import logging
from typing import Any

import pandas as pd
import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig as Choice
from ax.api.configs import RangeParameterConfig as Range
from ax.core.parameter_constraint import ParameterConstraint
from ax.exceptions.core import OptimizationShouldStop

import ax_costaware as ac
from ax_costaware.session.realized import OutOfBoundsWarning

pytestmark = pytest.mark.usefixtures("short_searches")

A, B = Range("a", (0, 1), "float"), Range("b", (0, 1), "float")
N = Range("n", (1, 5), "int")


def value(inputs: dict[str, Any]) -> float:
    """Best at the largest ``a``, whatever else."""
    return 2.0 * float(inputs["a"]) - (float(inputs.get("b", 0.4)) - 0.4) ** 2


def client_of(parameters: list[Any], strategy: Any, constraints: list[str] | None = None) -> Client:
    client = Client()
    client.configure_experiment(parameters=parameters, parameter_constraints=constraints)
    client.configure_optimization(objective="y")
    client.set_generation_strategy(strategy)
    return client


def run(client: Client, number: int, **more: Any) -> list[dict[str, Any]]:
    """Run trials, and return what they set."""
    found = []
    for _ in range(number):
        for i, parameters in client.get_next_trials(max_trials=1).items():
            ac.complete_trial(client, i, value(parameters), **more)
            found.append(dict(parameters))
    return found


def attach_past(client: Client) -> None:
    """Attach five trials, all of them beyond the bounds."""
    table = pd.DataFrame({"a": [0.6, 0.7, 0.8, 0.9, 0.95], "b": [0.1, 0.9, 0.5, 0.3, 0.4]})
    table["y"] = [value(row) for row in table.to_dict("records")]
    with pytest.warns(OutOfBoundsWarning, match="nothing beyond the bounds is recommended"):
        ac.attach_table(client, table)


def largest_a(client: Client, most: float) -> None:
    """Check that nothing that is deployed has a larger ``a``; ``run`` would go on there."""
    best = ac.recommend(client)
    assert best.parameters["a"] <= most + 1e-9
    assert all(other.parameters["a"] <= most + 1e-9 for other in best.alternatives)
    found = ac.should_stop(client, lmbda=1e-9)
    assert found.parameters["a"] <= most + 1e-9
    assert f"a = {found.parameters['a']:.3g}"[:7] in str(found)


def narrowed(client: Client) -> None:
    client._experiment.search_space.parameters["a"].update_range(lower=0, upper=0.5)


def constrained(client: Client) -> None:
    space = client._experiment.search_space
    space.add_parameter_constraints([ParameterConstraint(inequality="a <= 0.5")])


@pytest.mark.parametrize(("change", "second"), [(narrowed, N), (constrained, B)])
def test_after_bounds_or_constraints_changed_incumbents_are_within(
    change: Any, second: Any
) -> None:
    client = client_of([A, second], ac.cost_aware_strategy(cost=1.0, budget=40))
    run(client, 6)
    change(client)
    (trial,) = run(client, 1)
    assert trial["a"] <= 0.5 + 1e-9
    largest_a(client, 0.5)
    index = max(client._experiment.trials)
    decision = ac.query(client, index).decision
    within = [t for t in client._experiment.trials.values() if t.arms[0].parameters["a"] <= 0.5]
    assert decision["incumbent_trial"] in [trial.index for trial in within]
    assert decision["incumbent"] < 1.3  # the best of all has 2


def test_a_run_does_not_stop_for_what_cannot_be_set() -> None:
    strategy = ac.cost_aware_strategy(cost=1, lmbda=0.05)
    client = client_of([Range("a", (0, 0.5), "float"), B], strategy)
    attach_past(client)
    with pytest.raises(OptimizationShouldStop, match=r"Deploy trial \d+ with a=0\.[0-5]") as stop:
        run(client, 20)
    assert "saves" in str(stop.value) or "Spent" in str(stop.value)
    assert ac.spending(client).spent > 1  # the first alone is no reason to stop
    largest_a(client, 0.5)


def test_where_no_trial_is_within_the_best_untried_point_is_the_incumbent() -> None:
    strategy = ac.cost_aware_strategy(cost=1, budget=10)
    client = client_of([Range("a", (0, 0.5), "float"), B], strategy)
    attach_past(client)
    best = ac.recommend(client)
    assert best.trial_index is None
    largest_a(client, 0.5)
    found = ac.should_stop(client)
    assert found.incumbent_trial is None
    assert "not tried yet" in str(found)
    ((index, parameters),) = client.get_next_trials(max_trials=1).items()
    decision = ac.query(client, index).decision
    assert decision["incumbent_trial"] is None
    assert "a point that was not tried" in ac.query(client, index).why
    assert parameters["a"] <= 0.5
    # The model has seen that the outcome grows with a, and what it is beyond the bounds.
    assert 0.5 < decision["incumbent"] < 1.7


@pytest.mark.filterwarnings("ignore::ax_costaware.session.realized.OutOfBoundsWarning")
def test_a_realized_input_beyond_its_bounds_is_not_deployed() -> None:
    client = client_of([A, B], ac.cost_aware_strategy(cost=1.0, budget=40))
    run(client, 5)
    ((index, parameters),) = client.get_next_trials(max_trials=1).items()
    ac.complete_trial(client, index, 9.0, realized={**parameters, "a": 1.3})
    best = ac.recommend(client)
    assert index not in [best.trial_index, *(other.trial_index for other in best.alternatives)]
    largest_a(client, 1.0)


def test_a_disabled_parameter_keeps_incumbents_where_it_is() -> None:
    client = client_of([A, B], ac.cost_aware_strategy(cost=1.0, budget=40))
    run(client, 6)
    client._experiment.disable_parameters_in_search_space({"a": 0.25})
    (trial,) = run(client, 1)
    assert trial["a"] == 0.25
    assert ac.recommend(client).parameters["a"] == 0.25
    assert ac.should_stop(client, lmbda=1e-9).parameters["a"] == 0.25


def test_with_fidelities_what_lies_outside_is_not_deployed() -> None:
    strategy = ac.fidelity_strategy(
        cost=ac.AffineCost({"epochs": 1.0}), target={"epochs": 10}, budget=300
    )
    client = client_of([A, Range("epochs", (1, 10), "int")], strategy)
    run(client, 6)
    narrowed(client)
    ((index, parameters),) = client.get_next_trials(max_trials=1).items()
    assert parameters["a"] <= 0.5 + 1e-9
    assert ac.query(client, index).decision["incumbent"] < 1.5
    best = ac.recommend(client)
    assert best.parameters["a"] <= 0.5 + 1e-9
    assert all(other.parameters["a"] <= 0.5 + 1e-9 for other in best.alternatives)


def test_in_a_finite_space_what_lies_outside_is_not_deployed() -> None:
    grid = Range("a", (0, 1), "float", step_size=0.25)
    client = client_of([grid, N], ac.cost_aware_strategy(cost=1.0, budget=40))
    run(client, 8)
    constrained(client)
    (trial,) = run(client, 1)
    assert trial["a"] <= 0.5
    largest_a(client, 0.5)


@pytest.mark.parametrize(
    ("left", "cost"), [(["u", "v", "z"], "known"), (["u", "v"], "learned")], ids=["three", "two"]
)
def test_a_choice_that_lost_a_value(
    left: list[str], cost: str, caplog: pytest.LogCaptureFixture
) -> None:
    lot = Choice("lot", ["u", "v", "w", "z"], "str", is_ordered=False)
    known = ac.AffineCost({"a": 2.0}, fixed=1.0)
    strategy = ac.cost_aware_strategy(cost=known if cost == "known" else "price", budget=60)
    client = client_of([A, lot], strategy)
    told = {} if cost == "known" else {"cost": 2.0}
    run(client, 8, **told)
    client.get_next_trials(max_trials=1)  # one that runs
    lost = [
        trial.index
        for trial in client._experiment.trials.values()
        if trial.arms[0].parameters["lot"] not in left
    ]
    assert lost
    before = ac.spending(client).spent
    client._experiment.search_space.parameters["lot"].set_values(left)
    with caplog.at_level(logging.WARNING, logger="ax.ax_costaware"):
        trials = run(client, 2, **told)
    assert all(trial["lot"] in left for trial in trials)
    assert f"Trials {lost} have a value that a choice no longer has" in caplog.text
    assert ac.spending(client).spent > before
    best = ac.recommend(client)
    assert best.parameters["lot"] in left
    assert {other.trial_index for other in best.alternatives}.isdisjoint(lost)


def test_a_stop_under_fixed_parameters_names_no_trial_that_ran_elsewhere() -> None:
    client = client_of([A, B], ac.cost_aware_strategy(cost=1.0, budget=5))
    for b in (0.1, 0.7, 0.2, 0.9, 0.4):
        (index,) = client.get_next_trials(max_trials=1, fixed_parameters={"b": b})
        parameters = client._experiment.trials[index].arms[0].parameters
        ac.complete_trial(client, index, value(parameters))
    expected = r"Deploy a=[^(]*, b=0\.5 \(not tried there\): expected value"
    with pytest.raises(OptimizationShouldStop, match=expected):
        client.get_next_trials(max_trials=1, fixed_parameters={"b": 0.5})
