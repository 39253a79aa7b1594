"""A small experiment with every kind of parameter, behind each kind of client."""

from __future__ import annotations

from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.experiment import Experiment
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.service.ax_client import AxClient

from ax_costaware.ax_bridge.node import CostAwareNode
from ax_costaware.core.method import Method
from ax_costaware.costs.control_set import ControlSet
from ax_costaware.laws.marginals import Discrete, TruncatedNormal, Uniform
from ax_costaware.methods.control_sets import ControlSets

SETTINGS = ControlSets(
    control_sets=(
        ControlSet(parameters=("water",), cost=1.0),
        ControlSet(parameters=("water", "acid"), cost=2.5),
    ),
    marginals={
        "water": Uniform(0.0, 1.0),
        "acid": TruncatedNormal(mean=1.0, std=0.5, lower=0.1, upper=10.0),
        "plants": Discrete((1, 2, 3)),
        "soil": Discrete(("clay", "sand"), (0.25, 0.75)),
    },
    budget=20.0,
    initial_trials=2,
)

ARM: dict[str, Any] = {
    "control_set": "water",
    "water": 0.25,
    "acid": 1.0,
    "plants": 2,
    "soil": "sand",
}

KINDS = ("Client", "AxClient", "Experiment")

REALIZED: dict[str, Any] = {"acid": 1.5, "plants": 3, "soil": "clay"}


def make_ax_client(**arguments: Any) -> AxClient:
    """An ``AxClient``, which Ax has deprecated in favour of ``Client``."""
    with pytest.warns(DeprecationWarning, match="AxClient"):
        return AxClient(verbose_logging=False, **arguments)


def strategy_with(settings: Method) -> GenerationStrategy:
    """A strategy that holds the settings; these tests do not generate from it."""
    return GenerationStrategy(name="holder", nodes=[CostAwareNode(settings)])


def behind(kind: str, client: Client) -> Any:
    """The experiment and strategy of ``client`` behind another kind of client."""
    experiment, strategy = client._experiment, client._generation_strategy
    if kind == "Client":
        return client
    if kind == "Experiment":
        return experiment, strategy
    ax_client = make_ax_client(generation_strategy=strategy)
    ax_client._set_experiment(experiment)
    return ax_client


@pytest.fixture
def strategy() -> GenerationStrategy:
    """A strategy that holds the settings above."""
    return strategy_with(SETTINGS)


@pytest.fixture
def client(strategy: GenerationStrategy) -> Client:
    """An Ax ``Client`` with one attached trial, which controls the water."""
    client = Client()
    client.configure_experiment(
        name="plants",
        parameters=[
            ChoiceParameterConfig(
                name="control_set",
                values=["water", "water+acid"],
                parameter_type="str",
                is_ordered=False,
            ),
            RangeParameterConfig(name="water", bounds=(0.0, 1.0), parameter_type="float"),
            RangeParameterConfig(
                name="acid", bounds=(0.1, 10.0), parameter_type="float", scaling="log"
            ),
            RangeParameterConfig(name="plants", bounds=(1, 5), parameter_type="int"),
            ChoiceParameterConfig(
                name="soil", values=["clay", "sand"], parameter_type="str", is_ordered=False
            ),
        ],
    )
    client.configure_optimization(objective="growth")
    client.configure_tracking_metrics(["height"])
    client.set_generation_strategy(strategy)
    client.attach_trial(ARM)
    return client


@pytest.fixture(params=KINDS)
def any_client(request: pytest.FixtureRequest, client: Client) -> tuple[Any, Experiment]:
    """The same experiment behind each kind of client, with the experiment itself."""
    return behind(request.param, client), client._experiment
