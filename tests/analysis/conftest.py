"""A short experiment whose model has given hyperparameters, so that its history can be checked."""

from __future__ import annotations

import pytest
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig

from ax_costaware.core.model import FixedHyperparameters
from ax_costaware.costs.control_set import ControlSet
from ax_costaware.laws.marginals import Uniform
from ax_costaware.session import complete_trial
from ax_costaware.strategies import control_set_parameter, control_set_strategy

CONTROL_SETS = (
    ControlSet(parameters=("water",), cost=1.0),
    ControlSet(parameters=("water", "acid"), cost=3.0),
)

TRIALS = (
    ("water", 5.0, 0.2),
    ("water+acid", 60.0, 0.4),
    ("water", 40.0, 0.9),
    ("water", 35.0, 0.6),
)


def make_client(sign: float = 1.0) -> Client:
    """An experiment without trials; its objective is maximised for ``sign`` 1, minimised for -1."""
    client = Client()
    client.configure_experiment(
        name="plants",
        parameters=[
            control_set_parameter(CONTROL_SETS),
            RangeParameterConfig(name="water", bounds=(0.0, 100.0), parameter_type="float"),
            RangeParameterConfig(name="acid", bounds=(0.0, 1.0), parameter_type="float"),
        ],
    )
    client.configure_optimization(objective="growth" if sign > 0 else "-growth")
    client.set_generation_strategy(
        control_set_strategy(
            CONTROL_SETS,
            marginals={"water": Uniform(0.0, 100.0), "acid": Uniform(0.0, 1.0)},
            surrogate_spec=FixedHyperparameters(lengthscale=0.4, noise_variance=1e-3),
            budget=20.0,
            initial_trials=1,
        )
    )
    return client


def add_trials(
    client: Client, count: int, sign: float = 1.0, unmeasured: int | None = None
) -> None:
    """Attach and complete the first ``count`` of ``TRIALS``, one of them without an outcome."""
    for i, (control_set, water, acid) in enumerate(TRIALS[:count]):
        index = client.attach_trial({"control_set": control_set, "water": water, "acid": acid})
        growth = 1.0 - 3.0 * (water / 100.0 - 0.4) ** 2 - (acid - 0.5) ** 2
        complete_trial(
            client,
            index,
            raw_data=None if i == unmeasured else sign * growth,
            realized={} if control_set == "water+acid" else {"acid": acid},
        )


@pytest.fixture
def client() -> Client:
    """Four completed trials, the second without an outcome, and one that is running."""
    client = make_client()
    add_trials(client, 4, unmeasured=1)
    client.attach_trial({"control_set": "water+acid", "water": 50.0, "acid": 0.5})
    return client
