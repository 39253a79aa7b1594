"""What can be refused before a trial is paid is refused then, by the name of the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig
from ax.exceptions.core import OptimizationShouldStop, UserInputError

import ax_costaware as ac
from tests.audit.cases import LAW, MARGINALS, SQUARE, TARGETS, make_client

SETS = [ac.ControlSet(["x1"], cost=0.5), ac.ControlSet(["x1", "x2"], cost=2.0)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ac.cost_aware_strategy(1.0, budget=10, num_restarts=4, raw_samples=2),
            "raw_samples=2 with num_restarts=4: expected as many or more",
        ),
        (
            lambda: ac.cost_aware_strategy(1.0, budget=10, initial_trials=10**9),
            "initial_trials=1000000000: expected at most 10000",
        ),
        (
            lambda: ac.resolution_tree_strategy(SQUARE, max_level=1, splits=1000),
            "splits=1000: expected at most 4096 parts of a cell, and of 2 columns it has 1000000",
        ),
        (
            lambda: ac.indirect_query_strategy(TARGETS, LAW, query_parameters=3),  # type: ignore[arg-type]
            "query_parameters=3: expected the names of 1 parameters",
        ),
    ],
)
def test_settings(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UserInputError, match=message):
        make()


def first_trial(parameters: list[Any], strategy: Any, constraints: tuple[str, ...] = ()) -> Any:
    """The first trial of an experiment."""
    client = Client()
    client.configure_experiment(parameters=parameters, parameter_constraints=list(constraints))
    client.configure_optimization(objective="y")
    client.set_generation_strategy(strategy)
    return client.get_next_trials(max_trials=1)


def test_a_constraint_on_an_uncontrolled_input() -> None:
    """It reads an input that a control set sets and one that it leaves to chance."""
    parameters = [*SQUARE, ac.control_set_parameter(SETS)]
    message = (
        r"constraint reads \['x1', 'x2'\], of which control set 'x1' does not control \['x2'\]"
    )
    with pytest.raises(UserInputError, match=message):
        first_trial(
            parameters, ac.control_set_strategy(SETS, MARGINALS, budget=9), ("x1 + x2 <= 1",)
        )


def test_length_scales_of_another_number() -> None:
    wrong = ac.FixedHyperparameters([0.1, 0.2, 0.3])
    with pytest.raises(UserInputError, match=r"lengthscale=\[0.1, 0.2, 0.3\] has 3 .*expected 2"):
        first_trial(SQUARE, ac.cost_aware_strategy(1.0, budget=9, surrogate_spec=wrong))
    client = Client()
    client.configure_experiment(parameters=SQUARE)
    client.configure_optimization(objective="y")
    strategy = ac.cost_aware_strategy(1.0, budget=9, surrogate_spec=wrong, initial_trials=1)
    client.set_generation_strategy(strategy)
    ac.complete_trial(client, client.attach_trial({"x1": 0.5, "x2": 0.5}), 1.0)
    with pytest.raises(UserInputError, match=r"lengthscale=\[0.1, 0.2, 0.3\] has 3 .*expected 2"):
        client.get_next_trials(max_trials=1)


def test_outcomes_that_no_model_can_use() -> None:
    """Before they are recorded; so are realised inputs that can only be a mistake."""
    client = make_client("control sets")
    (index,) = client.get_next_trials(max_trials=1)
    for value in (1e155, -1e101, (1e155, 1.0)):
        with pytest.raises(
            UserInputError, match=r"raw_data=.*: expected a finite number, at most 1e\+100"
        ):
            ac.complete_trial(client, index, value, realized={"x2": 0.5})
    with pytest.raises(UserInputError, match=r"sem in raw_data=.*1e\+155.*at most 1e\+100"):
        ac.complete_trial(client, index, (1.0, 1e155), realized={"x2": 0.5})
    with pytest.raises(UserInputError, match=r"realized\['x2'\]=1e\+100: the parameter"):
        ac.complete_trial(client, index, 1.0, realized={"x2": 1e100})
    assert ac.spending(client).entries[0].status == "RUNNING"


def test_a_time_that_is_missing() -> None:
    client = Client()
    client.configure_experiment(parameters=SQUARE)
    client.configure_optimization(objective="y")
    client.configure_tracking_metrics(["hours"])
    client.set_generation_strategy(ac.costly_feedback_strategy(budget=9, time="hours"))
    (index,) = client.get_next_trials(max_trials=1)
    with pytest.raises(UserInputError, match="lacks 'hours', which the strategy reads"):
        ac.complete_trial(client, index, 1.0)
    client.complete_trial(index, {"y": 1.0})
    for ask in (lambda: ac.recommend(client), lambda: client.get_next_trials(max_trials=1)):
        with pytest.raises(UserInputError, match=r"trials \[0\] have an outcome but no time"):
            ask()
    client.attach_data(index, {"hours": 2.0})
    assert ac.recommend(client)


def run_finite(strategy: Any, count: int) -> int:
    """Run on three points; how many trials there were."""
    client = Client()
    choice = ChoiceParameterConfig(
        name="k", values=["a", "b", "c"], parameter_type="str", is_ordered=False
    )
    client.configure_experiment(parameters=[choice])
    client.configure_optimization(objective="y")
    client.set_generation_strategy(strategy)
    done = 0
    for _ in range(count):
        for index, arm in client.get_next_trials(max_trials=1).items():
            measure = ac.query(client, index).measure
            ac.complete_trial(client, index, float(ord(str(arm["k"]))) if measure else None)
            done += 1
    return done


def test_spaces_of_fewer_points_than_initial_trials() -> None:
    """Each is tried once; what drifts is measured again."""
    with pytest.raises(OptimizationShouldStop, match=r"every point .* has been evaluated.*Deploy"):
        run_finite(ac.cost_aware_strategy(1.0, budget=10), 4)
    assert run_finite(ac.cost_aware_strategy(1.0, budget=10), 3) == 3
    assert run_finite(ac.costly_feedback_strategy(budget=10), 6) == 6


def test_a_strategy_of_another_experiment_or_objective_begins_anew() -> None:
    """What it decides is that of a new strategy: it keeps nothing beside its settings."""
    strategy = ac.cost_aware_strategy(1.0, budget=9, initial_trials=2)
    first = make_client("gittins")
    first.set_generation_strategy(strategy)
    for _ in range(3):
        for index, arm in first.get_next_trials(max_trials=1).items():
            ac.complete_trial(first, index, float(arm["x1"]))
    second, new = make_client("gittins"), make_client("gittins")
    second.set_generation_strategy(strategy)
    new.set_generation_strategy(ac.cost_aware_strategy(1.0, budget=9, initial_trials=2))
    assert second.get_next_trials(max_trials=1) == new.get_next_trials(max_trials=1)
    first.configure_optimization(objective="other")
    (index,) = first.get_next_trials(max_trials=1)
    assert ac.query(first, index).why.startswith("This is initial trial")
    first.attach_data(0, {"other": 0.5})
    first.attach_data(1, {"other": 0.7})
    (index,) = first.get_next_trials(max_trials=1)
    assert ac.query(first, index).decision["incumbent_trial"] == 1
