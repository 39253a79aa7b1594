"""Learning curves on Ax's Client: stored as Ax's own data, learned from, charged once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig, StorageConfig
from ax.core.utils import extract_pending_observations
from ax.exceptions.core import UserInputError

from ax_costaware import (
    AffineCost,
    complete_trial,
    cost_aware_strategy,
    exclude_trial,
    fidelity_strategy,
    query,
    recommend,
    spending,
)
from ax_costaware.ax_bridge.node import fitted_problem, method_of
from ax_costaware.ax_bridge.records import past_trials, pending_points
from ax_costaware.core import Problem
from ax_costaware.core.curves import thinned
from ax_costaware.models.outcome_scale import OutcomeScale
from tests.fresh import FreshProcess
from tests.resuming import Run

pytestmark = pytest.mark.usefixtures("short_searches")

COST = AffineCost({"epochs": 0.1}, fixed=0.5)
FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 32, "initial_trials": 2}


def score(x: Any, epochs: float) -> float:
    """A hill, lower after fewer epochs; its digits are more than Ax's stores keep."""
    return -((float(x["x"]) - 0.3) ** 2) - 0.4 * (1 - epochs / 50) * (1 + float(x["x"])) / 3


def make_client(storage_config: StorageConfig | None = None, **strategy: Any) -> Client:
    client = Client(storage_config=storage_config)
    client.configure_experiment(
        name="toy",
        parameters=[
            RangeParameterConfig("x", bounds=(0, 1), parameter_type="float"),
            RangeParameterConfig("epochs", bounds=(1, 50), parameter_type="int", scaling="log"),
        ],
    )
    client.configure_optimization(objective="score")
    settings = {"cost": COST, "target": {"epochs": 50}, "budget": 30.0, **FAST, **strategy}
    client.set_generation_strategy(fidelity_strategy(**settings))
    return client


def report(client: Client, index: int, arm: Any, every: int = 1) -> None:
    """The curve of a trial: by one call, or by turns by Ax's own ones and by no last step."""
    steps = range(1, arm["epochs"] + 1)
    if index % 3 == 0:
        complete_trial(client, index, [score(arm, step) for step in steps], progression=steps)
        return
    for step in steps[:-1:every]:
        client.attach_data(index, {"score": score(arm, step)}, progression=step)
    if index % 3 == 1:
        client.complete_trial(index, {"score": score(arm, steps[-1])}, progression=steps[-1])
    else:
        complete_trial(client, index, score(arm, steps[-1]))


def attach(client: Client, x: float, epochs: int) -> tuple[int, dict[str, Any]]:
    arm = {"x": x, "epochs": epochs}
    return client.attach_trial(arm), arm


def trials_of(client: Client) -> Any:
    return past_trials(client._experiment, method_of(client._generation_strategy))


def problem_now(client: Client) -> Problem:
    return fitted_problem(client._experiment, client._generation_strategy)


def model_inputs(client: Client) -> torch.Tensor:
    model: Any = problem_now(client).model
    (found,) = model.train_inputs
    return found


def learned(model: Any, scale: OutcomeScale) -> tuple[list[float], list[float]]:
    """Return the outcomes that a model was fitted to, and the variances of their noise."""
    Y, Yvar = scale.moments(model.train_targets, model.likelihood.noise)
    return Y.flatten().tolist(), Yvar.flatten().tolist()


def test_a_run_is_stored_and_goes_on_as_it_would_have(
    tmp_path: Path, fresh_process: FreshProcess
) -> None:
    run = Run(tmp_path, "toy")
    client = make_client(run.config)
    for number in range(4):
        index, arm = run.decide(client)
        report(client, index, arm, every=4)
        if number in (1, 3):
            run.store(client)
    # The next is on its way when it is stored.
    index, arm = run.decide(client)
    client.attach_data(index, {"score": score(arm, 1)}, progression=1)
    run.store(client)
    run.decide(client)
    run.assert_resumed_alike(fresh_process)


def test_a_curve_is_later_than_what_ax_was_told_without_a_step() -> None:
    """Such as what a trial had cost so far, which would have stayed its cost."""
    client = make_client(cost="seconds")
    client.configure_tracking_metrics(["seconds"])
    index, _ = attach(client, 0.5, 3)
    client.attach_data(index, {"score": 0.9, "seconds": 1.0})
    complete_trial(client, index, [0.1, 0.2, 0.3], progression=[1, 2, 3], cost=3.0)
    (trial,) = trials_of(client)
    assert (trial.outcome, trial.reported_cost, spending(client).spent) == (0.3, 3.0, 3.0)


def test_the_model_is_that_of_trials_at_all_steps() -> None:
    """However curves are reported; at most ten points are of the long one, beside its last."""
    client, alike = make_client(), make_client()
    for x, epochs in ((0.1, 4), (0.8, 9), (0.5, 3), (0.3, 50)):
        index, arm = attach(client, x, epochs)
        report(client, index, arm)
        for step in (*thinned(range(1, epochs)), epochs):
            complete_trial(alike, attach(alike, x, step)[0], round(score(arm, step), 10))
    X = problem_now(client).space.encode([{"x": 0.4, "epochs": e} for e in (2, 20, 50)])
    with torch.no_grad():
        problems = problem_now(client), problem_now(alike)
        ours, theirs = (p.scale.moments(*p.posterior(X)) for p in problems)
    assert torch.allclose(ours[0], theirs[0], atol=1e-4)
    assert torch.allclose(ours[1], theirs[1], rtol=0.05)
    # Charged once, deployed once.
    assert spending(client).spent == pytest.approx(sum(0.5 + 0.1 * e for e in (4, 9, 3, 50)))
    best = recommend(client)
    assert len(best.alternatives) == 3
    assert [r.trial_index for r in (best, *best.alternatives) if r.parameters["x"] == 0.3] == [3]


def test_a_trial_is_of_the_epochs_that_it_has_come_to() -> None:
    client = make_client()
    for index, (step, status) in enumerate(
        [(7, "complete"), (12, "stop early"), (5, "run"), (0, "run"), (9, "fail")]
    ):
        attach(client, 0.1 * (index + 1), 50)
        arm = {"x": 0.1 * (index + 1)}
        for at in range(step + 1):
            client.attach_data(index, {"score": score(arm, at)}, progression=at)
        if status == "complete":
            client.complete_trial(index)
        elif status == "stop early":
            client.mark_trial_early_stopped(index)
        elif status == "fail":
            client.mark_trial_failed(index)
    problem = problem_now(client)
    # What has failed, or not begun, is no outcome; the step of no training is no point.
    assert [(t.index, t.inputs["epochs"]) for t in problem.observed] == [(0, 7), (1, 12), (2, 5)]
    assert len(model_inputs(client)) == 7 + 11 + 5
    # A last outcome without a step is of what was planned.
    complete_trial(client, 2, -0.1)
    assert problem_now(client).observed[2].inputs["epochs"] == 50
    # One of all curves was made longer in between.
    client.attach_data(2, {"score": -0.2}, progression=20)
    assert len(model_inputs(client)) == 7 + 11 + 7


def test_a_trial_that_has_reported_progress_is_still_pending() -> None:
    """Ax counts no trial as pending of which all metrics have a value, or that is out of bounds."""
    client = make_client()
    experiment = client._experiment
    attach(client, 0.5, 20)
    with pytest.warns(RuntimeWarning, match="out-of-design"):
        attach(client, 2.0, 20)

    def pending_trials() -> list[Any]:
        pending = extract_pending_observations(experiment) or {}
        return [o.trial_index for o in pending_points(experiment, pending)]

    client.attach_data(0, {"score": 0.1}, progression=1)
    assert pending_trials() == [0, 1]
    client.complete_trial(0)
    assert pending_trials() == [1]


def test_standard_errors_and_other_metrics() -> None:
    """A list for each metric; one value is of the last step."""
    client = make_client(cost="seconds")
    client.configure_tracking_metrics(["seconds"])
    index, _ = attach(client, 0.4, 3)
    outcomes = [(-0.5, 0.1), (-0.4, None), (-0.3, 0.2)]
    complete_trial(client, index, {"score": outcomes, "seconds": 2.5}, progression=(1, 2, 3))
    frame = client._experiment.lookup_data().full_df
    shown = frame[["metric_name", "step", "mean", "sem"]].sort_values(["metric_name", "step"])
    expected = [("score", 1, -0.5, 0.1), ("score", 2, -0.4, None), ("score", 3, -0.3, 0.2)]
    expected += [("seconds", 3, 2.5, None)]
    found = [tuple(row) for row in shown.replace({np.nan: None}).to_numpy().tolist()]
    assert found == expected
    index, _ = attach(client, 0.7, 2)
    scores = torch.tensor([-0.3, -0.2])
    complete_trial(client, index, {"score": scores, "seconds": 2.0}, progression=[1, 2])
    problem = problem_now(client)
    _, variances = learned(problem.model, problem.scale)
    assert variances == pytest.approx([0.04, 0.04, 0.01, 0.04, 0.04])
    assert spending(client).spent == 4.5


def test_curves_of_constrained_outcomes_are_learned_from() -> None:
    client = make_client()
    client.configure_optimization(objective="score", outcome_constraints=["size <= 1"])
    for index in range(2):
        attach(client, 0.3 * index, 3)
        sizes = [0.1, 0.2 + 0.1 * index, 0.4]
        complete_trial(
            client, index, {"score": [-0.3, -0.2, -0.1], "size": sizes}, progression=[1, 2, 3]
        )
    problem = problem_now(client)
    (constraint,) = problem.constraints
    sizes, _ = learned(constraint.fit(), constraint.scale)
    assert sizes == pytest.approx([0.4, 0.4, 0.1, 0.2, 0.1, 0.3])
    assert len(model_inputs(client)) == 6
    best = recommend(client)
    assert best.parameters["epochs"] == 50
    assert best.feasibility is not None


def test_progress_is_of_one_fidelity() -> None:
    client = make_client(target={"epochs": 50, "x": 1.0})
    index, _ = attach(client, 0.4, 3)
    with pytest.raises(UserInputError, match="progression=3: expected None"):
        complete_trial(client, index, 1.0, progression=3)
    client.attach_data(index, {"score": 1.0}, progression=2)
    assert trials_of(client)[0].inputs["epochs"] == 3


def test_progress_in_other_units_is_refused_by_trial() -> None:
    client = make_client()
    for index in range(3):
        attach(client, 0.4, 3)
        client.complete_trial(index, {"score": 1.0}, progression=100 if index == 2 else 3)
    with pytest.raises(UserInputError, match=r"trial 2: its progression is 100: .*at most 50"):
        recommend(client)
    exclude_trial(client, 2)
    assert recommend(client).parameters["epochs"] == 50


def test_other_methods_learn_from_the_last_outcome() -> None:
    client = make_client()
    client.set_generation_strategy(cost_aware_strategy(COST, budget=30.0, **FAST))
    for index in range(2):
        _, arm = attach(client, 0.3 * index, 5)
        for step in (1, 2 + index):
            client.attach_data(index, {"score": score(arm, step)}, progression=step)
        client.complete_trial(index)
    problem = problem_now(client)
    assert [trial.inputs["epochs"] for trial in problem.observed] == [5, 5]
    assert [trial.outcome for trial in problem.observed] == pytest.approx(
        [score({"x": 0.3 * i}, 2 + i) for i in range(2)]
    )
    with torch.no_grad():
        assert len(model_inputs(client)) == 2


def test_trials_go_on_from_earlier_ones(tmp_path: Path, fresh_process: FreshProcess) -> None:
    """Which is named, stored, charged what is new, and replayed."""
    expensive = AffineCost({"epochs": 0.1}, fixed=5.0)
    run = Run(tmp_path, "toy")
    client = make_client(run.config, cost=expensive, resumes=True, budget=60.0)
    for _ in range(5):
        index, arm = run.decide(client)
        report(client, index, arm, every=4)
    run.store(client)
    run.decide(client)
    queries = [query(client, entry.trial_index) for entry in spending(client).entries]
    going_on = [found for found in queries if found.resumes_trial is not None]
    assert going_on
    for found in going_on:
        assert found.resumes_trial is not None
        before = queries[found.resumes_trial].controlled
        now = found.controlled
        assert now["x"] == before["x"]
        new = 0.1 * (int(str(now["epochs"])) - int(str(before["epochs"])))
        assert found.expected_cost == pytest.approx(new)
        assert f"goes on from trial {found.resumes_trial}" in found.why
        assert f"continuing trial {found.resumes_trial}" in str(found)
        assert spending(client).entries[found.trial_index].charged == pytest.approx(new)
    assert all(q.expected_cost > 5 for q in queries if q.resumes_trial is None)
    run.assert_resumed_alike(fresh_process)


@pytest.mark.parametrize(
    ("raw_data", "progression", "named"),
    [
        ([1.0, 2.0], [1, 2, 3], "raw_data"),
        ([1.0, 2.0], [2, 1], "progression"),
        ([], [], "progression"),
        ([1.0, 2.0], [0, 1], "progression=0"),
        ([1.0, 2.0], [1, 51], "progression"),
        ([1.0, 2.0], [1, 1.5], "progression=1.5"),
        ([1.0, 2.0], "12", "progression='12'"),
        ([1.0, float("nan")], [1, 2], "nan"),
        ({"score": 1.0}, [1, 2], "raw_data"),
        ({"score": [1.0, 2.0], "other": [1.0, 2.0]}, [1, 2], "other"),
        (None, [1, 2], "raw_data"),
    ],
)
def test_what_is_no_curve_is_refused(raw_data: Any, progression: Any, named: str) -> None:
    client = make_client()
    index, _ = attach(client, 0.4, 3)
    with pytest.raises(UserInputError, match=named):
        complete_trial(client, index, raw_data, progression=progression)
    with pytest.raises(UserInputError, match="epochs"):
        complete_trial(client, index, 1.0, realized={"epochs": 2}, progression=3)
    assert client._experiment.trials[index].status.is_running
    assert client._experiment.lookup_data().df.empty
