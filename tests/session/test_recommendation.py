"""What is recommended, against a function whose expectation is known."""

from __future__ import annotations

from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.core.parameter import ParameterType, RangeParameter
from ax.exceptions.core import UserInputError

from ax_costaware.core.model import FixedHyperparameters
from ax_costaware.costs.control_set import ControlSet
from ax_costaware.laws.marginals import Uniform
from ax_costaware.session import complete_trial, recommend
from ax_costaware.strategies import control_set_parameter, control_set_strategy

CONTROL_SETS = (
    ControlSet(parameters=("water",), cost=1.0),
    ControlSet(parameters=("acid",), cost=1.5),
    ControlSet(parameters=("water", "acid"), cost=3.0),
)


def _growth(water: float, acid: float) -> float:
    return 3.0 - 4.0 * (water - 0.3) ** 2 + 2.0 * (acid - 0.5)


def _client(sign: float = 1.0, **changes: Any) -> Client:
    """An experiment on ``sign * growth``, with water in percent and no trials."""
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
            surrogate_spec=FixedHyperparameters(
                lengthscale=0.8, outputscale=9.0, noise_variance=1e-6, mean=sign * 2.0
            ),
            initial_trials=2,
            **changes,
        )
    )
    return client


def _add_grid(client: Client, sign: float = 1.0) -> None:
    """Attached trials whose arms say nothing: the realised inputs form a grid."""
    for i in range(5):
        for j in range(4):
            water, acid = i / 4, j / 3
            index = client.attach_trial({"control_set": "acid", "water": 50.0, "acid": acid})
            complete_trial(
                client,
                index,
                raw_data=sign * _growth(water, acid),
                realized={"water": 100.0 * water},
            )


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_best_expectation_of_every_control_set(sign: float) -> None:
    client = _client(sign)
    _add_grid(client, sign)
    best = recommend(client)
    assert best.control_set == "water+acid"
    assert best.parameters["water"] == pytest.approx(30.0, abs=1.0)
    assert best.parameters["acid"] == pytest.approx(1.0, abs=1e-3)
    assert best.expected_value == pytest.approx(sign * 4.0, abs=0.02)
    assert best.expected_cost == 3.0
    acid, water = best.alternatives
    # Against the exact expectations: E[4 (W - 0.3)^2] = 37/75 for W uniform, E[A] = 0.5.
    assert (acid.control_set, list(acid.parameters)) == ("acid", ["acid"])
    assert acid.expected_value == pytest.approx(sign * (4.0 - 37 / 75), abs=0.02)
    assert (water.control_set, list(water.parameters)) == ("water", ["water"])
    assert water.expected_value == pytest.approx(sign * 3.0, abs=0.02)
    assert water.parameters["water"] == pytest.approx(30.0, abs=1.0)
    assert 0.0 < water.standard_deviation < 0.05
    assert water.alternatives == ()


def test_an_input_that_was_added_and_has_no_law() -> None:
    """Refused as by the next decision; it was a ``KeyError`` with the name of the input."""
    client = _client()
    _add_grid(client)
    added = RangeParameter("light", ParameterType.FLOAT, 0.0, 1.0, backfill_value=0.5)
    client._experiment.add_parameters_to_search_space([added])
    with pytest.raises(UserInputError, match="'light'"):
        recommend(client)


def test_the_best_within_a_limit_of_what_deploying_costs() -> None:
    client = _client()
    _add_grid(client)
    best = recommend(client)
    assert recommend(client, max_cost=3) == best
    cheaper = recommend(client, max_cost=2.0)
    assert (cheaper.control_set, cheaper.expected_cost) == ("acid", 1.5)
    assert [one.control_set for one in cheaper.alternatives] == ["water"]
    assert recommend(client, max_cost=1.0).control_set == "water"
    with pytest.raises(UserInputError, match=r"max_cost=0\.9"):
        recommend(client, max_cost=0.9)
    with pytest.raises(UserInputError, match="max_cost='low'"):
        recommend(client, max_cost="low")  # type: ignore[arg-type]
