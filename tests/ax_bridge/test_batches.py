"""A batch that ends early keeps what it has, also for a strategy that Ax has loaded as its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.core.generator_run import GeneratorRun
from ax.exceptions.core import OptimizationShouldStop
from ax.generation_strategy.generation_strategy import GenerationStrategy

from ax_costaware.ax_bridge.initial_node import InitialNode
from ax_costaware.ax_bridge.turns import CostAwareStrategy
from tests.ax.gittins_toy import make_client
from tests.resuming import load, open_database


def _last_of(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No trial after ``count`` of them."""
    generate = InitialNode.gen

    def gen(self: InitialNode, **kwargs: object) -> GeneratorRun | None:
        if len(self.generation_strategy._generator_runs) >= count:
            raise OptimizationShouldStop("No more.")
        return generate(self, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(InitialNode, "gen", gen)


def _check(client: Client) -> None:
    assert type(client._generation_strategy) is CostAwareStrategy
    assert list(client.get_next_trials(max_trials=4)) == [1, 2]
    with pytest.raises(OptimizationShouldStop, match=r"No more\."):
        client.get_next_trials(max_trials=4)
    assert list(client._experiment.trials) == [0, 1, 2]


@pytest.mark.parametrize("suffix", ["", ".json", ".db"])
def test_what_was_made_is_kept(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was made, and loaded from either store."""
    path = tmp_path / f"stored{suffix}"
    config = open_database(path) if suffix == ".db" else None
    client = make_client(storage_config=config)
    client.get_next_trials(max_trials=1)
    if suffix == ".json":
        client.save_to_json_file(str(path))
        stored = json.loads(path.read_text())["generation_strategy"]
        assert stored["__type"] == "GenerationStrategy", "Ax reads it by itself"
    _last_of(3, monkeypatch)
    _check(load(str(path)) if suffix else client)


def test_other_strategies_are_left_alone() -> None:
    """And ours is one of Ax's to all that asks, and equal to another of the same nodes."""
    ours, same = (make_client()._generation_strategy for _ in range(2))
    assert isinstance(ours, GenerationStrategy)
    assert type(ours.clone_reset()) is CostAwareStrategy
    assert ours == same
    client = Client()
    client.configure_experiment([RangeParameterConfig("x1", (0, 1), "float")], name="toy")
    client.configure_optimization("y")
    client.configure_generation_strategy()
    assert type(client._generation_strategy) is GenerationStrategy
