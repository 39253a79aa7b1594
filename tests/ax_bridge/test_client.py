"""What the client argument may be, and what is said when it is something else."""

from __future__ import annotations

from typing import Any

import pytest
from ax.adapter.registry import Generators
from ax.api.client import Client
from ax.core.experiment import Experiment
from ax.exceptions.core import UserInputError
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec

from ax_costaware.ax_bridge.client import open_session
from tests.session.conftest import make_ax_client


def test_every_kind_of_client_opens_the_same_session(
    any_client: tuple[Any, Experiment], strategy: GenerationStrategy
) -> None:
    client, experiment = any_client
    session = open_session(client)
    assert session.experiment is experiment
    assert session.strategy.name == strategy.name
    assert session.method.budget == 20.0


@pytest.mark.parametrize(
    ("client", "message"),
    [
        (None, "client is a NoneType: expected an ax Client"),
        ("client", "client is a str"),
        ((1, 2), r"client is a tuple of \['int', 'int'\]"),
    ],
)
def test_other_clients_are_refused(client: Any, message: str) -> None:
    with pytest.raises(UserInputError, match=message):
        open_session(client)


def test_client_without_experiment_is_refused() -> None:
    for client in (Client(), make_ax_client()):
        with pytest.raises(UserInputError, match="client has no experiment yet"):
            open_session(client)


def test_client_without_strategy_is_refused(client: Client) -> None:
    bare = Client()
    bare.set_experiment(client._experiment)
    with pytest.raises(UserInputError, match="client has no generation strategy yet"):
        open_session(bare)


def test_settings_of_another_strategy_are_refused(client: Client) -> None:
    node = GenerationNode(name="sobol", generator_specs=[GeneratorSpec(Generators.SOBOL)])
    client.set_generation_strategy(GenerationStrategy(name="other", nodes=[node]))
    with pytest.raises(UserInputError, match="other"):
        _ = open_session(client).method


@pytest.mark.parametrize("index", [1, -1, 10**9])
def test_unknown_trial_is_refused(client: Client, index: int) -> None:
    with pytest.raises(UserInputError, match=f"trial_index={index} does not exist.*trials 0 to 0"):
        open_session(client).trial(index)


@pytest.mark.parametrize("index", [True, 0.0, "0", None])
def test_trial_index_must_be_an_integer(client: Client, index: Any) -> None:
    with pytest.raises(UserInputError, match=r"trial_index=.* expected an integer"):
        open_session(client).trial(index)
