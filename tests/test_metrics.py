"""A metric that skips by itself, where Ax and not the user asks for the outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ax.adapter.registry import Generators
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig, StorageConfig
from ax.api.protocols import IRunner
from ax.core.generator_run import GeneratorRun
from ax.core.trial_status import TrialStatus
from ax.core.types import TParameterization
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.orchestration.orchestrator import FailureRateExceededError, Orchestrator
from ax.orchestration.orchestrator_options import OrchestratorOptions
from ax.storage.sqa_store.db import create_all_tables, get_engine, init_engine_and_session_factory

from ax_costaware.ax_bridge.records import RECORD
from ax_costaware.metrics import SkippingMetric

SKIPPED = {2, 4, 5}


class SkippingNode(GenerationNode):
    """Quasi-random trials, some of them not to be measured."""

    def gen(self, **arguments: Any) -> GeneratorRun | None:
        run = super().gen(**arguments)
        assert run is not None
        index = len(arguments["experiment"].trials)
        if index > 0:  # the first is as one that another generator made
            measure = index not in SKIPPED
            record = {"phase": "rule", "measure": measure, "expected_cost": 2.0 if measure else 0.0}
            assert run.gen_metadata is not None
            run.gen_metadata[RECORD] = record
        return run


class Plant(IRunner):
    """Runs a trial at once."""

    def __init__(self) -> None:
        self.runs: list[int] = []

    def run_trial(self, trial_index: int, parameterization: TParameterization) -> dict[str, Any]:
        self.runs.append(trial_index)
        return {"height": float(next(iter(parameterization.values()))) ** 2}

    def poll_trial(self, trial_index: int, trial_metadata: Mapping[str, Any]) -> TrialStatus:
        return TrialStatus.COMPLETED

    def stop_trial(self, trial_index: int, trial_metadata: Mapping[str, Any]) -> dict[str, Any]:
        return {}


class Growth(SkippingMetric):
    """Measures a trial, or breaks in doing so."""

    def __init__(self, name: str, scale: float = 1.0, breaks_in: int | None = None) -> None:
        super().__init__(name)
        self.scale = scale
        self.breaks_in = breaks_in
        self.fetched: list[int] = []

    def fetch(self, trial_index: int, trial_metadata: Mapping[str, Any]) -> tuple[int, float]:
        self.fetched.append(trial_index)
        if trial_index == self.breaks_in:
            raise OSError("no connection")
        return 0, self.scale * trial_metadata["height"]


def make_client(metric: Growth, storage_config: StorageConfig | None = None) -> Client:
    client = Client(storage_config=storage_config)
    client.configure_experiment(
        name="plants",
        parameters=[RangeParameterConfig("water", bounds=(0.0, 1.0), parameter_type="float")],
    )
    client.configure_optimization(objective="growth")
    client.configure_metrics([metric])
    return client


def runnable_client(metric: Growth) -> tuple[Client, Plant]:
    client, plant = make_client(metric), Plant()
    spec = GeneratorSpec(Generators.SOBOL, generator_kwargs={"seed": 0})
    node = SkippingNode(name="plants", generator_specs=[spec], should_deduplicate=False)
    client.set_generation_strategy(GenerationStrategy(name="plants", nodes=[node]))
    client.configure_runner(plant)
    return client, plant


def statuses(client: Client) -> list[str]:
    return [trial.status.name for trial in client._experiment.trials.values()]


def orchestrate(client: Client, parallelism: int = 1, trials: int = 6) -> Orchestrator:
    """Run trials of which hardly any may fail."""
    orchestrator = Orchestrator(
        experiment=client._experiment,
        generation_strategy=client._generation_strategy,
        options=OrchestratorOptions(
            init_seconds_between_polls=0,
            min_seconds_before_poll=0.0,
            max_pending_trials=parallelism,
            tolerated_trial_failure_rate=0.01,
            min_failed_trials_for_failure_rate_check=1,
        ),
    )
    orchestrator.run_n_trials(max_trials=trials)
    return orchestrator


def test_a_client_measures_only_what_is_asked_for() -> None:
    metric = Growth("growth")
    client, plant = runnable_client(metric)
    client.run_trials(max_trials=4, parallelism=2, initial_seconds_between_polls=0)
    assert plant.runs == list(range(4))
    assert statuses(client) == ["COMPLETED"] * 4
    assert metric.fetched == [0, 1, 3]
    data = client._experiment.lookup_data().df
    assert dict(zip(data["trial_index"], data["mean"], strict=True)) == {
        i: client._experiment.trials[i].run_metadata["height"] for i in (0, 1, 3)
    }


def test_a_measurement_that_breaks_is_a_failure() -> None:
    client, _ = runnable_client(Growth("growth", breaks_in=1))
    with pytest.raises(FailureRateExceededError):
        orchestrate(client)
    assert statuses(client)[:2] == ["COMPLETED", "ABANDONED"]
    unaffected, _ = runnable_client(Growth("growth", breaks_in=2))
    assert orchestrate(unaffected).failed_abandoned_trial_indices == set()


def test_fetching_again_measures_nothing_twice() -> None:
    metric = Growth("growth")
    client, _ = runnable_client(metric)
    orchestrate(client)
    client.attach_data(2, {"growth": 0.5})  # measured, although nobody asked for it
    fetched = client._experiment.fetch_data()
    assert metric.fetched == [0, 1, 3]
    assert sorted(fetched.df["trial_index"]) == [0, 1, 2, 3]
    skipped = metric.fetch_trial_data(client._experiment.trials[4])
    assert skipped.unwrap().empty
    assert metric.fetched == [0, 1, 3]


@pytest.mark.parametrize("store", ["json", "sql"])
def test_stored_and_loaded(store: str, tmp_path: Path) -> None:
    """A metric of the user's own, which nobody registered by hand."""
    config = None
    if store == "sql":
        url = f"sqlite:///{tmp_path / 'plants.db'}"
        init_engine_and_session_factory(url=url, force_init=True)
        create_all_tables(get_engine())
        config = StorageConfig(url=url)
    client = make_client(Growth("growth", scale=0.1), config)
    client.configure_generation_strategy(method="random_search")
    if config is None:
        path = str(tmp_path / "plants.json")
        client.save_to_json_file(path)
        loaded = Client.load_from_json_file(path)
    else:
        loaded = Client.load_from_database("plants", storage_config=config)
    metric = loaded._experiment.metrics["growth"]
    assert isinstance(metric, Growth)
    assert metric.scale == 0.1
