"""``costly_feedback_strategy`` with every kind of parameter."""

from __future__ import annotations

from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

from ax_costaware import MeasurementRule, complete_trial, costly_feedback_strategy, query, recommend
from ax_costaware.ax_bridge.node import fitted_problem
from ax_costaware.models.posterior import ExactPosterior
from tests.ax.feedback_toy import FAST, arm_of, record

pytestmark = pytest.mark.usefixtures("short_searches")

FAST_FIT = {
    name: value for name, value in FAST.items() if name not in ("surrogate_spec", "forgetting")
}


def loss(x: dict[str, Any], time: float) -> float:
    """Something smooth that every parameter matters for, and that drifts."""
    soil = {"clay": 0.0, "sand": 0.3, "peat": 0.6}[x["soil"]]
    size = {"S": 0.2, "M": 0.0, "L": 0.1}[x["size"]]
    late = (float(x["days"]) - 8) ** 2 / 4000
    away = (float(x["dose"]) - 1 - 0.1 * time) ** 2 / 25 + (float(x["pots"]) - 3) ** 2 / 9
    return away + float(x["lamp"]) / 20 + float(x["rate"]) + soil + size + late


def mixed_client(**strategy: Any) -> Client:
    """Every kind of parameter, with a parameter constraint, minimising."""
    client = Client()
    client.configure_experiment(
        name="mixed",
        parameters=[
            RangeParameterConfig("dose", (-5, 5), "float"),
            RangeParameterConfig("pots", (1, 4), "int"),
            RangeParameterConfig("days", (1, 64), "int", scaling="log"),
            RangeParameterConfig("rate", (0.01, 1.0), "float", scaling="log"),
            ChoiceParameterConfig("soil", ["clay", "sand", "peat"], "str", is_ordered=False),
            ChoiceParameterConfig("lamp", [1, 5, 20], "int", is_ordered=True),
            ChoiceParameterConfig("size", ["S", "M", "L"], "str", is_ordered=True),
        ],
        parameter_constraints=["dose + pots <= 5"],
    )
    client.configure_optimization(objective="-loss")
    client.set_generation_strategy(costly_feedback_strategy(**{**FAST_FIT, **strategy}))
    return client


def run(client: Client, count: int) -> None:
    """Run some trials, measuring where the strategy says so."""
    for _ in range(count):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        outcome = {"loss": loss(dict(arm), index)} if query(client, index).measure else None
        complete_trial(client, index, outcome)


@pytest.fixture(scope="module", params=["correlation", "local_optima"])
def mixed(request: pytest.FixtureRequest) -> Client:
    """A run on all of them."""
    client = mixed_client(rule=MeasurementRule(0.6, compare=request.param))
    run(client, 8)
    return client


def test_arms_are_valid(mixed: Client) -> None:
    """Integers and choices are exact, and constraints hold."""
    for index in mixed._experiment.trials:
        arm = arm_of(mixed, index)
        mixed._experiment.search_space.check_types(arm, raise_error=True)
        assert mixed._experiment.search_space.check_membership(arm)
        assert type(arm["days"]) is int


def test_the_record_is_of_the_arm(mixed: Client) -> None:
    """Nothing is rounded after the decision: the model says of the arm what the record says."""
    (index,) = mixed.get_next_trials(max_trials=1)
    decision = record(mixed, index)["decision"]
    problem = fitted_problem(mixed._experiment, mixed._generation_strategy)
    posterior = ExactPosterior.of(problem.model).at_time(decision["now"])
    moments = posterior(problem.space.encode([arm_of(mixed, index)]))
    mean, variance = problem.scale.moments(*moments)
    assert mean.item() == pytest.approx(decision["mean"], abs=1e-6)
    assert variance.sqrt().item() == pytest.approx(decision["standard_deviation"], abs=1e-5)
    mixed.mark_trial_abandoned(index)


def test_the_recommendation_is_valid(mixed: Client) -> None:
    best = recommend(mixed)
    assert mixed._experiment.search_space.check_membership(best.parameters)


def test_fixed_parameters_of_every_kind() -> None:
    """What the caller fixes is kept, together with the constraint."""
    client = mixed_client(initial_trials=3)
    run(client, 3)
    fixed = {"dose": 2.0, "pots": 2, "soil": "sand", "lamp": 5}
    ((_, arm),) = client.get_next_trials(max_trials=1, fixed_parameters=fixed).items()
    assert {name: arm[name] for name in fixed} == fixed


def test_a_space_of_choices_only() -> None:
    """Nothing to climb: every valid point is looked at, and a point may be used again."""
    client = Client()
    client.configure_experiment(
        name="small",
        parameters=[
            ChoiceParameterConfig("a", [1, 2, 3], "int", is_ordered=True),
            RangeParameterConfig("b", (0, 1), "int"),
        ],
    )
    client.configure_optimization(objective="y")
    client.set_generation_strategy(costly_feedback_strategy(MeasurementRule(0.8), **FAST))
    for _ in range(16):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        value = float(arm["a"]) / 3 - float(arm["b"])
        complete_trial(client, index, value if query(client, index).measure else None)
    assert recommend(client).parameters == {"a": 3, "b": 0}
    assert arm_of(client, 15) == {"a": 3, "b": 0}
    assert not all(record(client, i)["measure"] for i in range(16))
