"""One run of one method on the plant: what it tried, paid, and would deploy along the way.

``control_sets`` may leave inputs to chance, ``full_control`` is the same strategy with the one
control set that holds every input, and ``plain_ax`` is Ax's default strategy, which knows no other.
All three have the same budget and meet the same plant.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.exceptions.core import AxParameterWarning, OptimizationShouldStop

from ax_costaware import (
    ControlSet,
    Empirical,
    complete_trial,
    control_set_parameter,
    control_set_strategy,
    query,
    recommend,
    spending,
)
from demo.database import empty_database
from demo.outcome import Run
from demo.stack_loss import BOUNDS, INPUTS, MEASURED, Plant

FULL_COST = 10.0
CONTROL_SETS = (
    ControlSet(["air_flow"], cost=1),
    ControlSet(["water_temp"], cost=1),
    ControlSet(["acid_conc"], cost=1),
    ControlSet(["air_flow", "water_temp"], cost=2),
    ControlSet(["air_flow", "acid_conc"], cost=2),
    ControlSet(["water_temp", "acid_conc"], cost=2),
    ControlSet(["air_flow", "water_temp", "acid_conc"], cost=FULL_COST, name="all three"),
)
FULL_CONTROL = CONTROL_SETS[-1]
MARGINALS = {name: Empirical(values) for name, values in MEASURED.items()}


def run(
    method: str, seed: int, budget: float, folder: Path | None, on_cost: Callable[[float], None]
) -> Run:
    """Spend ``budget`` by ``method``.

    Args:
        method: ``"control_sets"``, ``"full_control"`` or ``"plain_ax"``.
        seed: Seed of the method and of the plant.
        budget: What the trials may cost together.
        folder: Where to keep the experiment as ``experiment.db`` and ``experiment.json``.
        on_cost: Called with the cost of every trial.
    """
    warnings.simplefilter("ignore", AxParameterWarning)  # given on every load of a choice parameter
    if method == "plain_ax":
        return _run_plain_ax(seed, budget, on_cost)
    control_sets = CONTROL_SETS if method == "control_sets" else (FULL_CONTROL,)
    return _run_control_sets(method, control_sets, seed, budget, on_cost, folder)


def _run_control_sets(
    method: str,
    control_sets: tuple[ControlSet, ...],
    seed: int,
    budget: float,
    on_cost: Callable[[float], None],
    folder: Path | None,
) -> Run:
    plant = Plant(seed)
    client = Client(storage_config=empty_database(folder / "experiment.db") if folder else None)
    client.configure_experiment(
        name="stack_loss", parameters=[*_parameters(), control_set_parameter(control_sets)]
    )
    client.configure_optimization(objective="margin")
    client.set_generation_strategy(
        control_set_strategy(control_sets, MARGINALS, budget=budget, seed=seed)
    )
    chosen: list[tuple[float, str]] = []
    values: list[tuple[float, float]] = []
    before = 0.0
    for trial_index in _trials(client):
        asked = query(client, trial_index)
        inputs = plant.realize(_numbers(asked.controlled))
        complete_trial(client, trial_index, plant.measure(inputs), realized=inputs)
        spent = spending(client).spent
        # As often as plain Ax: each time that another trial with full control would be paid.
        if spent // FULL_COST > before // FULL_COST:
            values.append((spent, plant.expected_margin(_numbers(recommend(client).parameters))))
        chosen.append((spent, str(asked.control_set)))
        on_cost(spent - before)
        before = spent
    paid = spending(client)
    deployed = _numbers(recommend(client).parameters)
    values.append((paid.spent, plant.expected_margin(deployed)))
    if folder:
        client.save_to_json_file(str(folder / "experiment.json"))
    return Run(
        method=method,
        seed=seed,
        spent=paid.spent,
        control_sets=tuple(str(control_set.name) for control_set in control_sets),
        chosen=tuple(chosen),
        values=tuple(values),
        deployed=deployed,
        best_possible=plant.best_margin(),
        summary=str(paid),
    )


def _trials(client: Client) -> Iterator[int]:
    """Indices of new trials, until the budget pays for no more."""
    while True:
        try:
            yield from client.get_next_trials(max_trials=1)
        except OptimizationShouldStop:
            return


def _run_plain_ax(seed: int, budget: float, on_cost: Callable[[float], None]) -> Run:
    """Deploys what Ax calls best: by its model, or by the raw data where the model fits badly."""
    plant = Plant(seed)
    client = Client(random_seed=seed)
    client.configure_experiment(name="stack_loss", parameters=_parameters())
    client.configure_optimization(objective="margin")
    spent = 0.0
    chosen: list[tuple[float, str]] = []
    values: list[tuple[float, float]] = []
    deployed: dict[str, float] = {}
    while spent + FULL_COST <= budget:
        for trial_index, arm in client.get_next_trials(max_trials=1).items():
            client.complete_trial(trial_index, {"margin": plant.measure(_numbers(arm))})
        spent += FULL_COST
        deployed = _numbers(client.get_best_parameterization()[0])
        chosen.append((spent, str(FULL_CONTROL.name)))
        values.append((spent, plant.expected_margin(deployed)))
        on_cost(FULL_COST)
    return Run(
        method="plain_ax",
        seed=seed,
        spent=spent,
        control_sets=(str(FULL_CONTROL.name),),
        chosen=tuple(chosen),
        values=tuple(values),
        deployed=deployed,
        best_possible=plant.best_margin(),
    )


def _parameters() -> list[RangeParameterConfig]:
    return [
        RangeParameterConfig(name=name, bounds=BOUNDS[name], parameter_type="float")
        for name in INPUTS
    ]


def _numbers(parameters: Mapping[str, Any]) -> dict[str, float]:
    """The inputs among ``parameters``, all of which are numbers here."""
    return {name: float(parameters[name]) for name in INPUTS if name in parameters}
