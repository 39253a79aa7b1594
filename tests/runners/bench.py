"""A small experiment that runs itself: quasi-random trials, at once and without waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ax.adapter.registry import Generators
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig, StorageConfig
from ax.core.generator_run import GeneratorRun
from ax.core.types import TParamValue
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.orchestration.orchestrator import Orchestrator
from ax.orchestration.orchestrator_options import OrchestratorOptions
from ax.storage.sqa_store.db import create_all_tables, get_engine, init_engine_and_session_factory
from ax.storage.sqa_store.structs import DBSettings

from ax_costaware.ax_bridge.records import RECORD
from ax_costaware.metrics import ReportedMetric
from ax_costaware.runners import PolledRunner
from ax_costaware.runners.result import AttemptState, lost

Parameters = dict[str, TParamValue]


class RecordedNode(GenerationNode):
    """Quasi-random trials with decision records that a test gives, by trial index."""

    records: dict[int, dict[str, Any]]

    def gen(self, **arguments: Any) -> GeneratorRun | None:
        run = super().gen(**arguments)
        record = {"phase": "rule", "expected_cost": 2.0}
        index = len(arguments["experiment"].trials)
        assert run is not None
        assert run.gen_metadata is not None
        run.gen_metadata[RECORD] = {**record, **self.records.get(index, {})}
        return run


class Bench(PolledRunner):
    """A backend whose attempts stand where the test says."""

    def __init__(
        self,
        function: Any = "bench",
        timeout: float | None = None,
        retries: int = 0,
        time_cost: bool = False,
    ) -> None:
        super().__init__(function, timeout=timeout, retries=retries, time_cost=time_cost)
        self.started: dict[str, Parameters] = {}
        self.states: dict[str, AttemptState] = {}
        self.cancelled: list[str] = []
        self.forgotten: list[str] = []
        self.refusal: Exception | None = None

    def start(self, key: str, parameters: Parameters) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.started[key] = parameters

    def poll(self, key: str) -> AttemptState:
        return self.states.get(key, lost("the bench was cleared"))

    def cancel(self, key: str) -> None:
        self.cancelled.append(key)

    def forget(self, key: str) -> None:
        self.forgotten.append(key)


def make_client(
    runner: PolledRunner | None = None,
    *metrics: Any,
    storage_config: StorageConfig | None = None,
    records: dict[int, dict[str, Any]] | None = None,
) -> Client:
    """A client with one input, ``water``, and the objective ``growth``."""
    client = Client(storage_config=storage_config)
    client.configure_experiment(
        name="bench",
        parameters=[RangeParameterConfig("water", bounds=(0.0, 1.0), parameter_type="float")],
    )
    client.configure_optimization(objective="growth")
    extra = [metric.name for metric in metrics if metric.name != "growth"]
    if extra:
        client.configure_tracking_metrics(extra)
    client.configure_metrics([ReportedMetric("growth"), *metrics])
    if runner is not None:
        client.configure_runner(runner)
    spec = GeneratorSpec(Generators.SOBOL, generator_kwargs={"seed": 0})
    if records is None:
        node = GenerationNode(name="bench", generator_specs=[spec], should_deduplicate=False)
    else:
        node = RecordedNode(name="bench", generator_specs=[spec], should_deduplicate=False)
        node.records = records
    client.set_generation_strategy(GenerationStrategy(name="bench", nodes=[node]))
    return client


def orchestrate(
    client: Client, trials: int = 1, parallelism: int = 1, failures: float = 0.9, url: str = ""
) -> None:
    """Run trials without waiting between polls; most of them may fail."""
    Orchestrator(
        experiment=client._experiment,
        generation_strategy=client._generation_strategy,
        options=OrchestratorOptions(
            init_seconds_between_polls=0,
            min_seconds_before_poll=0.0,
            max_pending_trials=parallelism,
            tolerated_trial_failure_rate=failures,
            min_failed_trials_for_failure_rate_check=trials,
        ),
        db_settings=DBSettings(url=url) if url else None,
    ).run_n_trials(max_trials=trials)


def database(path: Path) -> StorageConfig:
    """A new SQLite database."""
    url = f"sqlite:///{path / 'bench.db'}"
    init_engine_and_session_factory(url=url, force_init=True)
    create_all_tables(get_engine())
    return StorageConfig(url=url)


def record_of(client: Client, index: int = 0) -> dict[str, Any]:
    """What is recorded with a trial."""
    record: dict[str, Any] = client._experiment.trials[index].run_metadata[RECORD]
    return record


def statuses(client: Client) -> list[str]:
    """Names of the trials' statuses."""
    return [trial.status.name for trial in client._experiment.trials.values()]


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until a thread has done something; a failure after a minute."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.001)
