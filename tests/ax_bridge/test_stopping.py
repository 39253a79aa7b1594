"""The stopping rule in an Orchestrator, for a strategy that knows no costs, and for our own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ax.adapter.registry import Generators
from ax.api.client import Client
from ax.api.protocols import IMetric, IRunner
from ax.core.trial_status import TrialStatus
from ax.core.types import TParameterization
from ax.exceptions.core import UserInputError
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.orchestration.orchestrator import Orchestrator
from ax.orchestration.orchestrator_options import OrchestratorOptions

from ax_costaware import (
    FixedHyperparameters,
    GittinsStoppingStrategy,
    ImprovementPerCostStop,
    complete_trial,
    spending,
)
from tests.ax.gittins_toy import COST, make_client, objective

pytestmark = pytest.mark.usefixtures("short_searches")

SURROGATE = FixedHyperparameters(lengthscale=0.5, outputscale=0.2, noise_variance=1e-5)


class Plant(IRunner, IMetric):
    """Runs a trial and measures it, at once."""

    def __init__(self) -> None:
        super().__init__(name="y")
        self.arms: dict[int, dict[str, Any]] = {}

    def run_trial(self, trial_index: int, parameterization: TParameterization) -> dict[str, Any]:
        self.arms[trial_index] = dict(parameterization)
        return {}

    def poll_trial(self, trial_index: int, trial_metadata: Mapping[str, Any]) -> TrialStatus:
        return TrialStatus.COMPLETED

    def stop_trial(self, trial_index: int, trial_metadata: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    def fetch(self, trial_index: int, trial_metadata: Mapping[str, Any]) -> tuple[int, float]:
        return 0, objective(self.arms[trial_index])


def plant_client(strategy: GenerationStrategy | None = None, **options: Any) -> Client:
    """The toy experiment with a runner and a metric."""
    client = make_client(**options)
    if strategy is not None:
        client.set_generation_strategy(strategy)
    plant = Plant()
    client.configure_runner(plant)
    client.configure_metrics([plant])
    return client


def sobol() -> GenerationStrategy:
    """A strategy that would never end."""
    spec = GeneratorSpec(Generators.SOBOL, generator_kwargs={"seed": 1})
    return GenerationStrategy(
        name="Sobol", nodes=[GenerationNode(name="Sobol", generator_specs=[spec])]
    )


@pytest.mark.parametrize("rule", [None, ImprovementPerCostStop()])
def test_ends_the_run_of_any_strategy(rule: Any) -> None:
    """Not before five trials, and well before the most that were allowed."""
    client = plant_client(sobol(), lmbda=1.0)
    stopping = GittinsStoppingStrategy(COST, lmbda=0.03, rule=rule, surrogate_spec=SURROGATE)
    orchestrator = Orchestrator(
        experiment=client._experiment,
        generation_strategy=client._generation_strategy,
        options=OrchestratorOptions(
            global_stopping_strategy=stopping,
            init_seconds_between_polls=0,
            min_seconds_before_poll=0.0,
            max_pending_trials=1,
        ),
    )
    orchestrator.run_n_trials(max_trials=40)
    trials = len(client._experiment.trials)
    assert 5 <= trials < 40
    stop, message = stopping.should_stop_optimization(client._experiment)
    assert stop
    assert "lambda 0.03. Spent" in message
    assert "Deploy trial" in message


def test_several_pending_trials() -> None:
    """Asked beside them, it counts what they reserve, and takes their points for known."""
    client = plant_client(lmbda=0.03, stop=False, initial_trials=4)
    for _ in range(5):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        complete_trial(client, index, -((float(arm["x1"]) - 0.3) ** 2))
    before = spending(client).spent
    running = list(client.get_next_trials(max_trials=3))
    reserved = spending(client).spent
    options: dict[str, Any] = {"surrogate_spec": SURROGATE}
    waits = GittinsStoppingStrategy(COST, budget=before + 9, **options)
    assert waits.should_stop_optimization(client._experiment) == (
        False,
        "There are pending trials in the experiment.",
    )
    options["inactive_when_pending_trials"] = False
    stop, message = GittinsStoppingStrategy(
        COST, budget=reserved, **options
    ).should_stop_optimization(client._experiment)
    assert stop
    assert f"Spent {reserved:g} of {reserved:g}" in message
    asked = GittinsStoppingStrategy(COST, lmbda=0.0001, **options)
    with_three = asked.should_stop_optimization(client._experiment)
    for index in running:
        client.mark_trial_abandoned(index)
    assert asked.should_stop_optimization(client._experiment) != with_three
    assert spending(client).spent == before


def test_before_there_is_data() -> None:
    """No reason to stop, and no error."""
    stopping = GittinsStoppingStrategy(COST, budget=10.0, min_trials=0)
    assert not stopping.should_stop_optimization(plant_client(sobol())._experiment)[0]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "lmbda=None and budget=None"),
        ({"cost": 0, "lmbda": 1.0}, "cost=0"),
        ({"lmbda": 1.0, "min_trials": "abc"}, "min_trials='abc'"),
        ({"lmbda": 1.0, "inactive_when_pending_trials": 3}, "inactive_when_pending_trials=3"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(UserInputError, match=named):
        GittinsStoppingStrategy(**{"cost": COST, **arguments})
