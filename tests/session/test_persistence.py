"""What is reported on a trial is in the client's database without a further save."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import StorageConfig
from ax.core.experiment import Experiment
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.service.ax_client import AxClient
from ax.service.utils.instantiation import ObjectiveProperties
from ax.storage.sqa_store.db import (
    create_all_tables,
    get_engine,
    init_engine_and_session_factory,
)
from ax.storage.sqa_store.structs import DBSettings

from ax_costaware.ax_bridge.records import outcome_record
from ax_costaware.costs.control_set import ControlSet
from ax_costaware.laws.marginals import Uniform
from ax_costaware.session import complete_trial, spending
from ax_costaware.strategies import control_set_strategy

from .conftest import make_ax_client

ARM: dict[str, Any] = {"control_set": "water", "water": 0.5, "acid": 0.25}


def _strategy() -> GenerationStrategy:
    return control_set_strategy(
        [ControlSet(("water",), 1.0), ControlSet(("water", "acid"), 2.0)],
        marginals={"water": Uniform(0.0, 1.0), "acid": Uniform(0.0, 1.0)},
        budget=10.0,
    )


def _ax_client(url: str) -> AxClient:
    client = make_ax_client(generation_strategy=_strategy(), db_settings=DBSettings(url=url))
    client.create_experiment(
        name="plants",
        parameters=[
            {
                "name": "control_set",
                "type": "choice",
                "values": ["water", "water+acid"],
                "value_type": "str",
                "is_ordered": False,
                "sort_values": False,
            },
            {"name": "water", "type": "range", "bounds": [0.0, 1.0], "value_type": "float"},
            {"name": "acid", "type": "range", "bounds": [0.0, 1.0], "value_type": "float"},
        ],
        objectives={"growth": ObjectiveProperties(minimize=False)},
    )
    return client


def _stored(url: str) -> Experiment:
    return Client.load_from_database("plants", storage_config=StorageConfig(url=url))._experiment


# Both come from inside Ax's SQL store.
@pytest.mark.filterwarnings("ignore:.*sort_values:Warning")
@pytest.mark.filterwarnings("ignore:TypeDecorator JSONEncodedText:Warning")
def test_ax_client_with_a_database(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'plants.db'}"
    init_engine_and_session_factory(url=url, force_init=True)
    create_all_tables(get_engine())
    client = _ax_client(url)
    value = 1.234567890123456e-12
    for acid in (0.25, 0.75):
        client.attach_trial({**ARM, "acid": acid})
    complete_trial(client, 0, raw_data=(value, 0.0), realized={"acid": 0.1 + 0.2}, cost=1 / 3)
    complete_trial(client, 1, realized={"acid": 0.75})
    stored = _stored(url)
    assert [trial.status.name for trial in stored.trials.values()] == ["COMPLETED"] * 2
    assert [outcome_record(trial) for trial in stored.trials.values()] == [
        {"realized": {"acid": 0.1 + 0.2}, "outcomes": {"growth": [value, 0.0]}, "cost": 1 / 3},
        {"realized": {"acid": 0.75}, "outcomes": {}},
    ]
    assert spending((stored, client.generation_strategy)).spent == pytest.approx(4 / 3)
