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
from ax_costaware.session import Recommendation, complete_trial, recommend
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


def test_text() -> None:
    alternative = Recommendation("b", {"b": "red", "n": 2}, 1.0, 0.25, 1.0)
    best = Recommendation("a", {"a": 1 / 3}, -2.0, 0.5, 1.5, (alternative,))
    assert str(best) == (
        "a = 0.333333 [control set a, expected cost 1.5]: "
        "expected value -2, standard deviation 0.5\n"
        "  or b = red, n = 2 [control set b, expected cost 1]: "
        "expected value 1, standard deviation 0.25"
    )


def test_text_of_many_alternatives() -> None:
    alternatives = tuple(Recommendation("b", {"b": i}, 1.0, 0.25, 1.0) for i in range(12))
    lines = str(Recommendation("a", {"a": 1}, 2.0, 0.5, 1.5, alternatives)).splitlines()
    assert len(lines) == 12
    assert lines[-1] == "  and 2 more"


def test_no_data_yet() -> None:
    client = _client()
    with pytest.raises(UserInputError, match="no data for its objective yet"):
        recommend(client)
    client.configure_tracking_metrics(["height"])
    index = client.attach_trial({"control_set": "water", "water": 10.0, "acid": 0.5})
    complete_trial(client, index, raw_data={"height": 1.0}, realized={"acid": 0.5})
    with pytest.raises(UserInputError, match="no data for its objective yet"):
        recommend(client)


def test_an_input_that_was_added_and_has_no_law() -> None:
    """Refused as by the next decision; it was a ``KeyError`` with the name of the input."""
    client = _client()
    _add_grid(client)
    added = RangeParameter("light", ParameterType.FLOAT, 0.0, 1.0, backfill_value=0.5)
    client._experiment.add_parameters_to_search_space([added])
    with pytest.raises(UserInputError, match=r"'light' has no marginal.*add marginals\['light'\]"):
        recommend(client)


def test_strategy_of_another_method_is_refused() -> None:
    client = _client()
    client.configure_generation_strategy(method="random_search")
    with pytest.raises(UserInputError, match="does not know what a trial costs"):
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
    with pytest.raises(UserInputError, match=r"max_cost=0\.9: expected at least 1, the smallest"):
        recommend(client, max_cost=0.9)
    with pytest.raises(UserInputError, match="max_cost='low': expected a finite number > 0, or N"):
        recommend(client, max_cost="low")  # type: ignore[arg-type]
