"""A strategy computes on the device that it is given by name, and stores the name."""

from __future__ import annotations

import inspect
import logging
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.exceptions.core import UserInputError

import ax_costaware as ac
from ax_costaware.ax_bridge.node import fitted_problem, node_of
from ax_costaware.models.factor import only_model
from tests.ax import gittins_toy as toy
from tests.elsewhere import DEVICES, ELSEWHERE, elsewhere

pytestmark = pytest.mark.usefixtures("short_searches")

STRATEGIES = [name for name in ac.__all__ if name.endswith("_strategy")]


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_has_it(name: str) -> None:
    assert inspect.signature(getattr(ac, name)).parameters["torch_device"].default is None


@pytest.mark.parametrize("device", ["gpu", "cuda:77", "meta", "", 0])
def test_a_device_that_is_not_there_is_refused(device: object) -> None:
    with pytest.raises(UserInputError, match=rf"torch_device={device!r}"):
        ac.cost_aware_strategy(1.0, torch_device=device)  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["cpu", *DEVICES])
def test_it_decides_there_and_goes_on_from_a_store(device: str, tmp_path: Path) -> None:
    """Below Ax every method is run on devices."""
    with elsewhere(device):
        client = toy.make_client(torch_device=device)
        toy.run_trials(client, 5)
        problem = fitted_problem(client._experiment, client._generation_strategy)
        model: Any = only_model(problem.model)
        assert model.train_targets.device.type == device.split(":")[0]
        path = str(tmp_path / "stored.json")
        client.save_to_json_file(path)
        assert f'"torch_device": "{device}"' in Path(path).read_text()
        resumed = Client.load_from_json_file(path)
        assert node_of(resumed._generation_strategy).torch_device == device
        following = client.get_next_trials(max_trials=1)
        assert resumed.get_next_trials(max_trials=1) == following
        assert ac.recommend(resumed) == ac.recommend(client)
    if device in ("cpu", ELSEWHERE):
        plain = toy.make_client()
        toy.run_trials(plain, 5)
        (found,), (expected,) = (list(c.values()) for c in (following, plain.get_next_trials(1)))
        assert found == pytest.approx(expected, rel=1e-4)


def test_the_cpu_takes_the_place_of_a_device_that_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "stored.json")
    with elsewhere() as device:
        client = toy.make_client(torch_device=device)
        toy.run_trials(client, 5)
        client.save_to_json_file(path)
        there = client.get_next_trials(max_trials=1)
    with caplog.at_level(logging.WARNING):
        resumed = Client.load_from_json_file(path)
    assert f"torch_device={device!r}: torch" in caplog.text
    assert "The CPU is used instead." in caplog.text
    ((index, arm),) = resumed.get_next_trials(max_trials=1).items()
    assert arm == pytest.approx(there[index], rel=1e-4)
    # It is remembered, for where the device is.
    assert node_of(resumed._generation_strategy).torch_device == device
    resumed.save_to_json_file(path)
    assert f'"torch_device": "{device}"' in Path(path).read_text()
