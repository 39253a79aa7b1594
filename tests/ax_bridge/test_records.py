"""What is stored of an experiment, as a method sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, DerivedParameterConfig, RangeParameterConfig
from ax.core.experiment import Experiment
from ax.core.search_space import SearchSpace
from ax.exceptions.core import UserInputError

from ax_costaware import complete_trial
from ax_costaware.ax_bridge.node import method_of, method_of_class
from ax_costaware.ax_bridge.records import (
    RECORD,
    append_pairs,
    past_trials,
    problem_of,
)
from ax_costaware.ax_bridge.search_space import parameters_of_configs
from ax_costaware.core.trial_times import TrialTimes
from ax_costaware.methods.averages.law import pairs_of
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.cost_aware import CostAware
from ax_costaware.methods.costly_feedback import CostlyFeedback
from ax_costaware.space.parameters import Choice, Range
from tests.ax.gittins_toy import make_client as make_gittins_client
from tests.ax.toy import arm_of, make_client, objective, run_trials
from tests.resuming import load


def test_configurations_become_value_objects() -> None:
    found = parameters_of_configs(
        [
            RangeParameterConfig("x", (0, 1), "float"),
            RangeParameterConfig("n", (1, 8), "int", scaling="log"),
            RangeParameterConfig("s", (0, 0.3), "float", step_size=0.1),
            ChoiceParameterConfig("c", ["a", "b"], "str"),
            ChoiceParameterConfig("d", [3, 1], "int", is_ordered=True),
            ChoiceParameterConfig("e", [3, 1], "int", is_ordered=False),
            ChoiceParameterConfig("f", [True, False], "bool", is_ordered=True),
        ]
    )
    assert found == (
        Range("x", 0.0, 1.0),
        Range("n", 1, 8, is_integer=True, log_scale=True),
        Choice("s", (0.0, 0.3 / 3, 2 * 0.3 / 3, 0.3), is_ordered=True),
        Choice("c", ("a", "b")),
        Choice("d", (1, 3), is_ordered=True),
        Choice("e", (3, 1)),
        Choice("f", (True, False)),
    )
    assert parameters_of_configs(found) == found


def test_steps_of_an_integer_are_integers() -> None:
    (found,) = parameters_of_configs([RangeParameterConfig("n", (0, 6), "int", step_size=2)])
    assert isinstance(found, Choice)
    assert (found.values, {type(value) for value in found.values}) == ((0, 2, 4, 6), {int})


def test_times_reported_under_a_metric() -> None:
    """From Ax's data, at the precision with which it was reported; other metrics do not matter."""
    client = Client()
    client.configure_experiment(
        name="times", parameters=[RangeParameterConfig("x", (0, 1), "float")]
    )
    client.configure_optimization("y")
    client.configure_tracking_metrics(["clock"])
    exact = 1e9 + 1 / 3 + 1e-7
    for value, known in ((1.0, exact), (2.0, None), (3.0, exact + 60)):
        index = client.attach_trial({"x": value / 4})
        trial = client._experiment.trials[index]
        if known is not None:
            trial.update_run_metadata({RECORD: {"outcomes": {"clock": [known, None]}}})
        data = {"y": value} | ({} if known is None else {"clock": round(known, 10)})
        client.complete_trial(index, raw_data=data)

    def times_by(method: CostlyFeedback) -> TrialTimes:
        return method.times(past_trials(client._experiment, method))

    times = times_by(CostlyFeedback(time="clock"))
    assert times.reported == {0: exact, 2: exact + 60}
    assert times[1] == exact + 60, "a report that is missing"
    assert times.now == pytest.approx(exact + 90, rel=1e-15)
    assert times_by(CostlyFeedback()).now == 3.0


def test_costs_are_those_that_a_store_would_give_back(tmp_path: Path) -> None:
    """By Ax's own call with ten decimals, as the model's outcomes are; by ours with all digits."""
    exact = 1e-3 * 1.2345678901234
    client = make_gittins_client(cost="y_cost", lmbda=1.0)
    for x1, complete in ((0.25, Client.complete_trial), (0.75, complete_trial)):
        index = client.attach_trial({"x1": x1, "x2": 0.5})
        complete(client, index, {"y": exact, "y_cost": exact})
    client.save_to_json_file(str(tmp_path / "run.json"))
    for found in (client, load(str(tmp_path / "run.json"))):
        trials = past_trials(found._experiment, method_of(found._generation_strategy))
        assert [t.reported_cost for t in trials] == [round(exact, 10), exact]
        assert [t.outcome for t in trials] == [round(exact, 10), exact]


def test_pairs_of_an_experiment() -> None:
    """They are added to those that there are; other properties stay."""
    experiment = Experiment(SearchSpace([]), properties={"mine": 1, "ax_costaware": {"other": 2}})
    names = ["x", "y"], ["a"]

    def stored() -> Any:
        return pairs_of(problem_of(experiment, CostAware(1.0)).pairs, *names)

    assert stored() == ((), ())
    append_pairs(experiment, {"X": {"x": [1.0, 2.0], "y": [3.0, 4.0]}, "A": {"a": [5.0, 6.0]}})
    append_pairs(experiment, {"A": {"a": [9.0]}, "X": {"y": [8.0], "x": [7.0]}})
    assert np.array_equal(stored().X, [[1.0, 3.0], [2.0, 4.0], [7.0, 8.0]])
    assert np.array_equal(stored().A, [[5.0], [6.0], [9.0]])
    assert experiment._properties["mine"] == 1
    assert experiment._properties["ax_costaware"]["other"] == 2


def test_trials_as_a_method_sees_them() -> None:
    """With what was planned, what came of it, and the record of the decision."""
    client = make_client(initial_trials=2)
    run_trials(client, 3)
    (running,) = client.get_next_trials(max_trials=1)
    method = method_of_class(client._generation_strategy, ControlSets)
    trials = past_trials(client._experiment, method)
    assert [trial.index for trial in trials] == [0, 1, 2, running]
    assert [trial.record["phase"] for trial in trials] == ["initial", "initial", "rule", "rule"]
    assert [trial.is_observed for trial in trials] == [True, True, True, False]
    assert [trial.status for trial in trials] == ["COMPLETED"] * 3 + ["RUNNING"]
    outcomes = [trial.outcome for trial in trials]
    assert outcomes == [*(objective(trial.inputs) for trial in trials[:3]), None]
    assert all(trial.parameters == arm_of(client, trial.index) for trial in trials)
    for trial in trials[:3]:
        controlled = method.control_set_of(trial).parameters
        assert set(trial.realized) == {"x1", "x2", "x3"} - set(controlled)
        assert trial.inputs == {**trial.parameters, **trial.realized}
    problem = problem_of(client._experiment, method)
    assert problem.trials == trials
    assert (problem.objective, problem.minimize) == ("y", False)
    assert problem.metrics == {"y"}


@pytest.mark.parametrize(
    "config",
    [
        "x",
        DerivedParameterConfig("y", "x", "float"),
        ChoiceParameterConfig("c", ["a", "b"], "str", dependent_parameters={"a": ["x"]}),
        RangeParameterConfig("s", (1, 2), "float", step_size=0.3),
        RangeParameterConfig("s", (1, 2), "float", step_size=0.0),
        RangeParameterConfig("s", (1, 2), "float", step_size=0.5, scaling="log"),
    ],
)
def test_refused_configurations(config: Any) -> None:
    with pytest.raises(UserInputError, match="target_parameters"):
        parameters_of_configs([config])
