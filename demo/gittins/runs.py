"""One search for hyperparameters by one method, which may take so many CPU seconds of training.

``gittins`` is ``ax_costaware.cost_aware_strategy``, which is told that costs are reported as
``seconds``, how many there are, and what a second has to be worth; it learns what the seconds
depend on, and stops by itself. ``plain_ax``
is Ax's default strategy and ``random`` Ax's quasi-random one: neither knows of costs, so both go on
until the seconds are used up, and a trial that is still running then has been in vain.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.api.client import Client
from ax.exceptions.core import OptimizationShouldStop

from ax_costaware import complete_trial, gittins_strategy, recommend, spending
from ax_costaware.analysis import StoppingAnalysis
from demo.database import empty_database
from demo.gittins.digits import COST, OBJECTIVE, confirmed_accuracy, hyperparameters, train
from demo.gittins.outcome import GITTINS, PRICE, Search, Trained


def run(
    method: str,
    seed: int,
    budget: float,
    folder: Path | None,
    on_cost: Callable[[float], None],
) -> Search:
    """Search by ``method`` until it stops by itself or ``budget`` is used up.

    Args:
        method: One of ``LABELS``.
        seed: Seed of the method.
        budget: CPU seconds that the trials may take together.
        folder: Where to keep the experiment as ``experiment.db`` and ``experiment.json``; for
            ``gittins`` only.
        on_cost: Called with the CPU seconds of every trial.
    """
    if method == GITTINS:
        return _run_gittins(seed, budget, on_cost, folder)
    return _run_without_costs(method, seed, budget, on_cost)


def _run_gittins(
    seed: int, budget: float, on_cost: Callable[[float], None], folder: Path | None
) -> Search:
    client = Client(storage_config=empty_database(folder / "experiment.db") if folder else None)
    client.configure_experiment(name="digits", parameters=hyperparameters())
    client.configure_optimization(objective=f"-{OBJECTIVE}")
    client.set_generation_strategy(
        gittins_strategy(cost=COST, budget=budget, lmbda=PRICE, cost_model="trend", seed=seed)
    )
    trials: list[Trained] = []
    stop = _Stop()
    for index, parameters in _trials(client, stop):
        measured = train(parameters)
        complete_trial(client, index, measured.log_error, cost=measured.seconds)
        trials.append(Trained(parameters, measured.accuracy, measured.seconds))
        on_cost(measured.seconds)
    on_cost(max(0.0, spending(client).remaining or 0.0))  # saved: the bar is not to wait for it
    deployed = dict(recommend(client).parameters)
    card: PlotlyAnalysisCard | None = None
    if folder:
        client.save_to_json_file(str(folder / "experiment.json"))
        (computed,) = client.compute_analyses([StoppingAnalysis()], display=False)
        assert isinstance(computed, PlotlyAnalysisCard)
        card = computed
    return Search(
        method=GITTINS,
        seed=seed,
        budget=budget,
        trials=tuple(trials),
        deployed=deployed,
        confirmed=confirmed_accuracy(deployed),
        stopped=stop.message,
        card=None if card is None else json.loads(card.blob),
        history=None if card is None else card.df,
    )


class _Stop:
    """Takes the message with which a strategy stops."""

    message = ""


def _trials(client: Client, stop: _Stop) -> Iterator[tuple[int, dict[str, Any]]]:
    """Indices and parameters of new trials, until the strategy stops."""
    while True:
        try:
            trials = client.get_next_trials(max_trials=1)
        except OptimizationShouldStop as stopped:
            stop.message = str(stopped)
            return
        for index, parameters in trials.items():
            yield index, dict(parameters)


def _run_without_costs(
    method: str, seed: int, budget: float, on_cost: Callable[[float], None]
) -> Search:
    client = Client(random_seed=seed)
    client.configure_experiment(name="digits", parameters=hyperparameters())
    client.configure_optimization(objective=f"-{OBJECTIVE}")
    if method == "random":
        client.configure_generation_strategy(
            method="random_search", initialization_random_seed=seed
        )
    trials: list[Trained] = []
    spent = 0.0
    while True:
        ((index, parameters),) = client.get_next_trials(max_trials=1).items()
        measured = train(parameters)
        if spent + measured.seconds > budget:
            on_cost(budget - spent)
            break
        spent += measured.seconds
        client.complete_trial(index, {OBJECTIVE: measured.log_error})
        trials.append(Trained(dict(parameters), measured.accuracy, measured.seconds))
        on_cost(measured.seconds)
    if method == "random":
        deployed = max(trials, key=lambda trial: trial.accuracy).parameters
    else:
        deployed = dict(client.get_best_parameterization()[0])
    return Search(
        method=method,
        seed=seed,
        budget=budget,
        trials=tuple(trials),
        deployed=deployed,
        confirmed=confirmed_accuracy(deployed),
    )
