"""The session functions on running experiments of the Gittins strategy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig, StorageConfig
from ax.exceptions.core import UserInputError
from ax.storage.sqa_store.db import (
    create_all_tables,
    get_engine,
    init_engine_and_session_factory,
)

from ax_costaware import AffineCost, FixedHyperparameters, cost_aware_strategy
from ax_costaware.session import complete_trial, query, recommend, spending

from .conftest import KINDS, behind

pytestmark = pytest.mark.usefixtures("short_searches")

FAST: dict[str, Any] = {
    "initial_trials": 2,
    "num_restarts": 2,
    "raw_samples": 32,
    "surrogate_spec": FixedHyperparameters(lengthscale=0.5, noise_variance=1e-4),
}


def make(cost: Any, storage_config: StorageConfig | None = None, **options: Any) -> Client:
    """An experiment with two inputs and the metric ``hours``."""
    client = Client(storage_config=storage_config)
    client.configure_experiment(
        name="plants",
        parameters=[
            RangeParameterConfig(name="water", bounds=(0.0, 1.0), parameter_type="float"),
            RangeParameterConfig(name="acid", bounds=(0.0, 1.0), parameter_type="float"),
        ],
    )
    client.configure_optimization(objective="growth")
    client.configure_tracking_metrics(["hours"])
    client.set_generation_strategy(cost_aware_strategy(cost, **{"budget": 60.0, **FAST, **options}))
    return client


def growth(x: dict[str, Any]) -> float:
    """A paraboloid with its maximum of 0 at (0.3, 0.7)."""
    return -((float(x["water"]) - 0.3) ** 2) - (float(x["acid"]) - 0.7) ** 2


def hours(x: dict[str, Any]) -> float:
    """What a trial costs: between 1 and 3."""
    return 1.0 + 2.0 * float(x["water"])


def run(client: Client, count: int, cost: bool) -> list[int]:
    """Run ``count`` trials; ``cost``: whether to report what they cost."""
    indices = []
    for _ in range(count):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        complete_trial(client, index, growth(dict(arm)), cost=hours(dict(arm)) if cost else None)
        indices.append(index)
    return indices


@pytest.mark.parametrize("learned", [False, True])
def test_what_is_asked_for_and_what_to_deploy(learned: bool) -> None:
    client = make("hours" if learned else AffineCost({"water": 2.0}, fixed=1.0))
    run(client, 3, cost=learned)
    first, last = query(client, 0), query(client, 2)
    assert first.control_set is None
    assert "initial trial 1 of 2" in first.why
    assert sorted(last.controlled) == ["acid", "water"]
    assert "index" in last.why
    assert {"index", "incumbent", "lambda", "spent", "remaining"} <= last.decision.keys()
    assert last.expected_cost is not None
    assert f"[expected cost {last.expected_cost:.6g}]. {last.why}" in str(last)
    if learned:
        assert first.expected_cost is None
    else:
        assert first.expected_cost == pytest.approx(hours(first.controlled))
        assert last.expected_cost == pytest.approx(hours(last.controlled))
    assert spending(client).spent == pytest.approx(
        math.fsum(hours(query(client, i).controlled) for i in range(3))
    )
    assert "initial: 2 trials" in str(spending(client))
    assert "chosen by the model: 1 trial" in str(spending(client))

    best = recommend(client)
    tried = [query(client, i).controlled for i in range(3)]
    assert best.control_set is None
    assert best.parameters == max(tried, key=growth)
    assert best.expected_value == pytest.approx(growth(best.parameters), abs=0.05)
    assert best.standard_deviation > 0
    assert best.expected_cost == pytest.approx(hours(best.parameters), rel=0.5)
    values = [best.expected_value, *(other.expected_value for other in best.alternatives)]
    assert values == sorted(values, reverse=True)
    assert "control set" not in str(best) + str(last) + str(spending(client))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_client(kind: str) -> None:
    client = make("hours")
    run(client, 2, cost=True)
    other = behind(kind, client)
    (index,) = client.get_next_trials(max_trials=1)
    asked = query(other, index)
    complete_trial(other, index, growth(asked.controlled), cost=hours(asked.controlled))
    assert recommend(other) == recommend(client)
    assert spending(other) == spending(client)


def test_inputs_that_came_out_differently_are_what_the_model_sees() -> None:
    client = make("hours", initial_trials=1)
    run(client, 1, cost=True)
    (index,) = client.get_next_trials(max_trials=1)
    realized = {"water": 0.3, "acid": 0.7}
    complete_trial(client, index, growth(realized), realized=realized, cost=hours(realized))
    best = recommend(client)
    assert best.parameters == pytest.approx(realized)
    assert best.expected_value == pytest.approx(0.0, abs=0.05)


def test_missing_cost_stops_the_next_decision_until_it_is_attached() -> None:
    client = make("hours")
    run(client, 2, cost=True)
    (index,) = client.get_next_trials(max_trials=1)
    complete_trial(client, index, raw_data=-0.1)
    with pytest.raises(UserInputError, match=f"{index}.*hours"):
        client.get_next_trials(max_trials=1)
    client.attach_data(index, {"hours": 2.0})
    assert spending(client).entries[index].reported_cost == 2.0
    assert len(client.get_next_trials(max_trials=1)) == 1


def test_failed_and_abandoned_trials() -> None:
    client = make("hours")
    run(client, 2, cost=True)
    for mark in (client.mark_trial_failed, client.mark_trial_abandoned):
        (index,) = client.get_next_trials(max_trials=1)
        mark(index)
    failed, abandoned = spending(client).entries[2:]
    assert failed.charged == failed.expected_cost == query(client, 2).expected_cost
    assert abandoned.charged == 0.0
    assert len(client.get_next_trials(max_trials=1)) == 1


def test_attached_trial_with_a_cost() -> None:
    client = make("hours", initial_trials=0)
    index = client.attach_trial({"water": 0.25, "acid": 0.5})
    complete_trial(client, index, raw_data=-0.1, cost=1.5)
    run(client, 1, cost=True)
    later = client.attach_trial({"water": 0.75, "acid": 0.5})
    complete_trial(client, later, raw_data=-0.3, cost=2.5)
    text = str(spending(client))
    assert "initial: 1 trial, 1.5" in text
    assert "attached: 1 trial, 2.5" in text


# Both come from inside Ax's SQL store.
@pytest.mark.filterwarnings("ignore:.*sort_values:Warning")
@pytest.mark.filterwarnings("ignore:TypeDecorator JSONEncodedText:Warning")
@pytest.mark.parametrize("store", ["json", "sql"])
def test_stored_and_loaded(store: str, tmp_path: Path) -> None:
    url, path = f"sqlite:///{tmp_path / 'plants.db'}", str(tmp_path / "plants.json")
    config = None
    if store == "sql":
        init_engine_and_session_factory(url=url, force_init=True)
        create_all_tables(get_engine())
        config = StorageConfig(url=url)
    client = make("hours", storage_config=config)
    run(client, 2, cost=True)
    (index,) = client.get_next_trials(max_trials=1)
    complete_trial(client, index, raw_data=-0.1, cost=1.234567890123456e-12)
    if config is None:
        client.save_to_json_file(path)
        loaded = Client.load_from_json_file(path)
    else:
        loaded = Client.load_from_database("plants", storage_config=config)
    assert spending(loaded).entries[index].reported_cost == 1.234567890123456e-12
    assert spending(loaded) == spending(client)
    assert query(loaded, index) == query(client, index)
    assert recommend(loaded) == recommend(client)
