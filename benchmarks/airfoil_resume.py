"""Control sets on the airfoil data through Ax's Client, killed in the middle and resumed.

A first process runs the experiment and is killed (SIGKILL) after some trials; a second one loads
what the first had saved and goes on to the end of the budget; a third runs without interruption.
The two must have made the same trials. One store per run: a JSON file, or SQLite.

    python benchmarks/airfoil_resume.py                # JSON
    python benchmarks/airfoil_resume.py --store sql    # SQLite

Surface, control sets and costs as in ``problems.py``: five inputs, seven control sets of two, the
rest from truncated normals, moderate costs.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig, StorageConfig
from ax.exceptions.core import OptimizationShouldStop
from ax.storage.sqa_store.db import (
    create_all_tables,
    get_engine,
    init_engine_and_session_factory,
)
from problems import COSTS, NOISE_STD, airfoil

import ax_costaware as ac

NAME = "airfoil"
BUDGET = 4.0
SEED = 7


def environment(trial_index: int, planned: dict[str, Any], inputs: list[str]) -> dict[str, float]:
    """The inputs as they fall out; drawn from (seed, trial index), so that a resumed run agrees."""
    generator = torch.Generator().manual_seed(1000 * SEED + trial_index)
    uniform = torch.rand(len(inputs), dtype=torch.double, generator=generator)
    marginals = airfoil().marginals(0.02)
    drawn = {n: float(m.icdf(u)) for n, m, u in zip(inputs, marginals, uniform, strict=True)}
    return {**drawn, **{name: float(value) for name, value in planned.items()}}


def new_client(storage: StorageConfig | None) -> Client:
    """A fresh experiment with the strategy."""
    problem = airfoil()
    inputs = [f"x{i}" for i in range(problem.dim)]
    control_sets = [
        ac.ControlSet([inputs[i] for i in columns], cost=cost)
        for columns, cost in zip(problem.control_sets, COSTS["moderate"], strict=True)
    ]
    client = Client(storage_config=storage)
    client.configure_experiment(
        name=NAME,
        parameters=[
            ac.control_set_parameter(control_sets),
            *[RangeParameterConfig(name=n, bounds=(0, 1), parameter_type="float") for n in inputs],
        ],
    )
    client.configure_optimization(objective="sound")
    client.set_generation_strategy(
        ac.control_set_strategy(
            control_sets,
            dict(zip(inputs, problem.marginals(0.02), strict=True)),
            budget=BUDGET,
            rule=ac.ExploreThenCommit(8),
            surrogate_spec=ac.FixedHyperparameters(lengthscale=0.2),
            seed=SEED,
        )
    )
    return client


def open_client(store: str, folder: Path) -> Client:
    """Load the experiment if it was saved, else start it."""
    if store == "json":
        path = folder / "experiment.json"
        return Client.load_from_json_file(str(path)) if path.exists() else new_client(None)
    url = f"sqlite:///{folder / 'experiment.db'}"
    fresh = not (folder / "experiment.db").exists()
    storage = StorageConfig(url=url)
    init_engine_and_session_factory(url=url)
    if not fresh:
        return Client.load_from_database(NAME, storage_config=storage)
    create_all_tables(get_engine())
    return new_client(storage)


def run(store: str, folder: Path) -> None:
    """Go on until the budget is exhausted, saving after every step and printing every trial."""
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    function = airfoil().function
    client = open_client(store, folder)

    def save() -> None:
        if store == "json":
            partial = folder / "partial.json"
            client.save_to_json_file(str(partial))
            partial.rename(folder / "experiment.json")

    inputs = [f"x{i}" for i in range(5)]
    for index in sorted(ac.spending(client).to_frame().query("status == 'RUNNING'").trial_index):
        finish(client, int(index), inputs, function)
        save()
    while True:
        try:
            (index,) = client.get_next_trials(max_trials=1)
        except OptimizationShouldStop as stop:
            print(f"stopped: {stop}", flush=True)
            return
        save()
        finish(client, index, inputs, function)
        save()


def finish(client: Client, index: int, inputs: list[str], function: Any) -> None:
    """Realise the inputs of a trial, measure, and record."""
    asked = ac.query(client, index)
    realized = environment(index, asked.controlled, inputs)
    x = torch.tensor([realized[name] for name in inputs], dtype=torch.double)
    generator = torch.Generator().manual_seed(2000 * SEED + index)
    noise = NOISE_STD * torch.randn((), dtype=torch.double, generator=generator)
    ac.complete_trial(client, index, float(function(x) + noise), realized=realized)
    planned = {name: repr(value) for name, value in asked.controlled.items()}
    print(f"trial {index}: {asked.control_set} {planned}", flush=True)


def start(store: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--store", store, "--run", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def lines_of(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    lines = [line.strip() for line in process.stdout]
    if process.wait():
        raise SystemExit(f"the run failed with exit status {process.returncode}")
    return [line for line in lines if line.startswith(("trial", "stopped"))]


def demonstrate(store: str, kill_after: int) -> None:
    """Kill, resume, compare."""
    with tempfile.TemporaryDirectory() as name:
        interrupted, whole = Path(name) / "interrupted", Path(name) / "whole"
        interrupted.mkdir()
        whole.mkdir()
        first = start(store, interrupted)
        assert first.stdout is not None
        seen: list[str] = []
        while len(seen) < kill_after:
            line = first.stdout.readline().strip()
            if line.startswith("trial"):
                seen.append(line)
        time.sleep(0.3)  # somewhere within the next decision
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        print(f"killed after {len(seen)} trials; resuming", flush=True)
        resumed = lines_of(start(store, interrupted))
        reference = lines_of(start(store, whole))
        # The trial in flight at the kill may have been reported by neither process.
        together = {line.split(":")[0]: line for line in [*seen, *resumed]}
        for line in reference:
            print(line)
        expected = {line.split(":")[0]: line for line in reference}
        if together != expected:
            raise SystemExit("the resumed run differs from the uninterrupted one")
        print(f"{len(reference) - 1} trials, the same with and without the kill ({store})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--store", choices=["json", "sql"], default="json")
    parser.add_argument("--kill-after", type=int, default=12)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        run(args.store, args.run)
    else:
        demonstrate(args.store, args.kill_after)


if __name__ == "__main__":
    main()
