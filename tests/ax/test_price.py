"""At a price of cost a run ends, also one that was stored, for what no trial measures by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.exceptions.core import DataRequiredError, OptimizationShouldStop

from ax_costaware import complete_trial
from ax_costaware.methods.stopping import IN_A_ROW
from tests.ax import indirect_toy, toy, tree_toy
from tests.resuming import decide, load, open_database

pytestmark = pytest.mark.usefixtures("short_searches")


def _complete_average(client: Client, index: int, arm: dict[str, Any]) -> None:
    mean = tree_toy.cell_mean if "level" in arm else indirect_toy.answer
    complete_trial(client, index, {"z": mean(arm)})


@pytest.mark.parametrize(
    ("make", "complete", "settings"),
    [
        (toy.make_client, toy.complete, {"initial_trials": 1}),
        (indirect_toy.make_client, _complete_average, {"initial_trials": 1}),
        (tree_toy.make_client, _complete_average, {}),
    ],
    ids=["control sets", "indirect queries", "resolution tree"],
)
def test_a_run_ends_at_its_price(
    make: Callable[..., Client],
    complete: Callable[..., Any],
    settings: dict[str, Any],
    tmp_path: Path,
) -> None:
    """And says the same once it is loaded; what it goes by is stored with each trial."""
    config = open_database(tmp_path / "toy.db")
    client = make(storage_config=config, lmbda=1e3, **settings)
    records: list[dict[str, Any]] = []

    def run() -> None:
        while len(records) < 12:
            index, decision = decide(client)
            complete(client, index, decision["arm"])
            records.append(decision["record"]["decision"])

    with pytest.raises(OptimizationShouldStop, match="not above the price of 1000") as stop:
        run()
    assert [r["lambda"] for r in records if "worth_per_cost" in r] == [1e3] * (IN_A_ROW - 1)
    client.save_to_json_file(str(tmp_path / "toy.json"))
    for store in ("toy.json", "toy.db"):
        with pytest.raises(OptimizationShouldStop) as again:
            decide(load(str(tmp_path / store)))
        assert str(again.value) == str(stop.value)
    running = client.attach_trial(client._experiment.trials[len(records) - 1].arm.parameters)
    with pytest.raises(DataRequiredError, match=rf"Trials \[{running}\] are pending"):
        decide(client)
