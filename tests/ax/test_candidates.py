"""A table of candidates in an experiment of Ax: stores, attached trials, and what is deployed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import UserInputError

import ax_costaware as ac
from tests.fresh import FreshProcess
from tests.resuming import Run
from tests.test_storage import round_trip

pytestmark = pytest.mark.usefixtures("short_searches")

_DRAW = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "dose": _DRAW.random(40).round(3),
        "pots": _DRAW.integers(1, 5, 40),
        "soil": _DRAW.choice(["clay", "sand", "peat"], 40),
        "wet": _DRAW.random(40) < 0.5,
        "lab": "east",
        "price": 0.5 + _DRAW.random(40),
    }
)
FRAME["clay"] = FRAME["soil"].map({"clay": 0.6, "sand": 0.1, "peat": 0.2})
TABLE = ac.Candidates(FRAME, cost="price", descriptors={"soil": ["clay"]})
ROWS = FRAME[list(TABLE.names)].to_dict("records")


def make_client(**strategy: Any) -> Client:
    client = Client(
        **({"storage_config": strategy.pop("storage")} if "storage" in strategy else {})
    )
    parameters = strategy.pop("parameters", ac.parameters_of(TABLE))
    client.configure_experiment(name="toy", parameters=parameters)
    client.configure_optimization(objective="crop")
    settings = {"candidates": TABLE, "initial_trials": 2, "budget": 20.0, **strategy}
    client.set_generation_strategy(ac.cost_aware_strategy("price", **settings))
    return client


def run_trial(client: Client) -> dict[str, Any]:
    ((index, arm),) = client.get_next_trials(max_trials=1).items()
    ac.complete_trial(client, index, {"crop": arm["dose"] + arm["wet"]})
    return dict(arm)


def test_parameters_of_a_table() -> None:
    assert ac.parameters_of(TABLE) == [
        RangeParameterConfig("dose", (FRAME.dose.min(), FRAME.dose.max()), "float"),
        RangeParameterConfig("pots", (1, 4), "int"),
        ChoiceParameterConfig("soil", list(FRAME.soil.unique()), "str", is_ordered=False),
        ChoiceParameterConfig("wet", list(FRAME.wet.unique()), "bool", is_ordered=False),
        ChoiceParameterConfig("lab", ["east"], "str", is_ordered=False),
    ]
    with pytest.raises(UserInputError, match="expected a Candidates"):
        ac.parameters_of(FRAME)


def test_a_run_is_resumed_from_both_stores(tmp_path: Path, fresh_process: FreshProcess) -> None:
    run = Run(tmp_path)
    client = make_client(storage=run.config)
    for step in range(4):
        index, arm = run.decide(client)
        assert arm in ROWS
        ac.complete_trial(client, index, {"crop": arm["dose"] + arm["wet"]})
        if step in (0, 3):
            run.store(client)
    run.decide(client)
    run.assert_resumed_alike(fresh_process)
    spent = sum(FRAME.price[ROWS.index(trial["arm"])] for trial in run.decisions[:4])
    assert ac.spending(client).spent == pytest.approx(
        spent + run.decisions[4]["record"]["expected_cost"]
    )


def test_past_trials_off_the_table_are_learned_from_and_not_deployed() -> None:
    client = make_client()
    off = {"dose": [0.5, 0.4], "pots": 2, "soil": "clay", "wet": True, "lab": "east"}
    ac.attach_table(client, pd.DataFrame({**off, "crop": [7.0, 6.0], "cost": 1.0}), charge=True)
    tried = [run_trial(client) for _ in range(2)]
    assert all(row in ROWS for row in tried)
    assert ac.recommend(client).parameters in tried
    assert ac.spending(client).spent == pytest.approx(
        2 + sum(FRAME.price[ROWS.index(row)] for row in tried)
    )


def test_tables_that_do_not_fit_are_refused_before_the_first_trial() -> None:
    parameters = [p for p in ac.parameters_of(TABLE) if p.name != "pots"]
    with pytest.raises(UserInputError, match="the column 'pots', which is no parameter"):
        make_client(parameters=parameters).get_next_trials(max_trials=1)


def test_a_large_table_is_stored() -> None:
    n = 100_000
    table = ac.Candidates({"a": np.arange(n), "b": _DRAW.random(n), "k": ["x", "y"] * (n // 2)})
    assert round_trip(table) == table
