"""A driver that starts trials on a cluster and is killed by its test: a program of its own."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from ax.api.client import Client
from ax.api.configs import RangeParameterConfig, StorageConfig
from ax.storage.sqa_store.db import create_all_tables, get_engine, init_engine_and_session_factory

from ax_costaware.metrics import ReportedMetric
from ax_costaware.runners.ray_runner import RayRunner
from ax_costaware.runners.registry import register_trial_function

NAME = "killed"


def trial_function(folder: str) -> Any:
    """Notes that it has begun, waits for the file ``go``, and returns a hill's height."""

    def function(parameters: dict[str, Any]) -> float:
        x = float(parameters["x"])
        with Path(folder, "begun").open("a") as begun:
            begun.write(f"{x!r}\n")
        deadline = time.monotonic() + 300
        while not Path(folder, "go").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        return -((x - 0.3) ** 2)

    return function


def main(folder: str, address: str) -> None:
    """Make the experiment, and run it until killed."""
    url = f"sqlite:///{folder}/experiment.sqlite"
    init_engine_and_session_factory(url=url)
    create_all_tables(get_engine())
    register_trial_function("hill", trial_function(folder))
    client = Client(storage_config=StorageConfig(url=url))
    client.configure_experiment([RangeParameterConfig("x", (0, 1), "float")], name=NAME)
    client.configure_optimization("y")
    client.configure_generation_strategy(method="random_search")
    client.configure_runner(RayRunner("hill", address=address, namespace="killed"))
    client.configure_metrics([ReportedMetric("y")])
    client.run_trials(max_trials=2, parallelism=2, initial_seconds_between_polls=0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
