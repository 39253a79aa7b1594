"""A trial that was attached by mistake is refused with a way out, and stops nothing for good."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from ax.api.client import Client
from ax.api.configs import StorageConfig
from ax.core.arm import Arm
from ax.core.data import Data
from ax.core.generator_run import GeneratorRun
from ax.exceptions.core import UnsupportedError, UserInputError

from ax_costaware import (
    AffineCost,
    SwitchingCost,
    attach_table,
    complete_trial,
    create_tables,
    exclude_trial,
    query,
    recommend,
    report_cost,
    should_stop,
    spending,
)
from ax_costaware.analysis import overview
from ax_costaware.ax_bridge.node import fitted_problem
from ax_costaware.ax_bridge.records import decision_record
from tests.audit.cases import CASES, make_client, objective, realized_of
from tests.ax import gittins_toy

pytestmark = pytest.mark.usefixtures("short_searches")

WRONG: dict[str, dict[str, Any]] = {
    "control sets": {"x1": 0.5, "x2": 0.5, "control_set": "nope"},
    "gittins": {"x1": 0.5, "x2": math.nan},
    "indirect queries": {"a1": math.nan},
    "resolution tree": {"level": 2, "x1": 0.3, "x2": 0.3},
}


def attach(client: Client, case: str) -> int:
    """Attach what is wrong; Ax may warn of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        index: int = client.attach_trial(WRONG[case])
    return index


def fail(client: Client, index: int) -> None:
    client.mark_trial_failed(index)


def complete(client: Client, index: int) -> None:
    client.complete_trial(index, {"y": 0.5})


def leave(client: Client, index: int) -> None:
    """It stays pending."""


@pytest.mark.parametrize("end", [leave, fail, complete])
@pytest.mark.parametrize("case", WRONG)
def test_excluded_trials_count_for_nothing(case: str, end: Callable[[Client, int], None]) -> None:
    """Whatever became of them; before that the refusal says how to go on."""
    client = make_client(case)
    index = attach(client, case)
    end(client, index)
    way_out = rf"trial {index}[ :,].* ax_costaware.exclude_trial\(client, {index}\)"
    for ask in (lambda: client.get_next_trials(max_trials=1), lambda: spending(client)):
        with pytest.raises(UserInputError, match=way_out):
            ask()
    with pytest.raises(UserInputError, match="reason=3: expected a string"):
        exclude_trial(client, index, reason=3)  # type: ignore[arg-type]
    exclude_trial(client, index, reason="a typing error")
    assert spending(client).spent == 0.0
    (chosen,) = client.get_next_trials(max_trials=1)
    assert spending(client).entries[index].charged == 0.0
    assert decision_record(client._experiment.trials[chosen])["phase"] == "initial"
    assert query(client, chosen).why


@pytest.mark.parametrize("case", WRONG)
def test_a_trial_that_ax_refused_to_attach(case: str, tmp_path: Path) -> None:
    """Ax leaves it in the experiment, without an arm: it never ran, and stops nothing."""
    client = make_client(case)
    ((first, arm),) = client.get_next_trials(max_trials=1).items()
    before = spending(client).spent
    with pytest.raises(ValueError, match="Arm already exists"):
        client.attach_trial(dict(arm), arm_name="another name")
    left = first + 1
    entry = spending(client).entries[left]
    assert (entry.status, entry.charged, spending(client).spent) == ("ABANDONED", 0.0, before)
    for ask in (query, complete_trial):
        with pytest.raises(UserInputError, match=f"trial_index={left} is a trial without an arm"):
            ask(client, left)
    client.save_to_json_file(str(tmp_path / "left.json"))
    client = Client.load_from_json_file(str(tmp_path / "left.json"))
    assert [*client.get_next_trials(max_trials=1)] == [left + 1]
    exclude_trial(client, left)
    assert spending(client).entries[left].charged == 0.0


def test_costs_and_assessments_beside_a_trial_without_an_arm(tmp_path: Path) -> None:
    """Where the cost reads parameters, and has switching costs; in a database; pages are drawn."""
    url = f"sqlite:///{tmp_path / 'left.db'}"
    create_tables(url)
    storage = StorageConfig(url=url)
    cost = SwitchingCost({"x1": 0.5}, AffineCost({"x2": 1.0}, fixed=1.0))
    client = gittins_toy.make_client(storage_config=storage, cost=cost, budget=40.0)
    for _ in range(4):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        complete_trial(client, index, float(arm["x1"]) * (1 - float(arm["x2"])))
    before = spending(client).spent
    with pytest.raises(ValueError, match="Arm already exists"):
        client.attach_trial(dict(arm), arm_name="another name")
    client._save_experiment_to_db_if_possible(client._experiment)
    client = Client.load_from_database("toy", storage)
    assert index + 1 in client._experiment.trials
    assert spending(client).spent == before
    assert recommend(client).parameters
    assert should_stop(client).reason
    cards = overview(client)
    assert not any("Error" in type(card).__name__ for card in cards)
    assert [*client.get_next_trials(max_trials=1)] == [index + 2]


def test_a_point_that_was_excluded_may_be_tried() -> None:
    """It did not fail: the next trial is where it would have been."""
    client = make_client("control sets")
    for _ in range(4):
        for index, arm in client.get_next_trials(max_trials=1).items():
            complete_trial(client, index, objective(arm), realized_of(index, arm))
    for _ in range(2):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        exclude_trial(client, index)
        assert arm == client._experiment.trials[4].arms[0].parameters
    assert not fitted_problem(client._experiment, client._generation_strategy).failed


def excluded(client: Client, index: int, arm: Any) -> None:
    complete_trial(client, index, objective(arm), realized_of(index, arm))
    exclude_trial(client, index)


def unmeasured(client: Client, index: int, arm: Any) -> None:
    complete_trial(client, index, None, realized_of(index, arm))


@pytest.mark.parametrize("case", ["gittins", "control sets"])
@pytest.mark.parametrize(("end", "more"), [(excluded, 4), (unmeasured, 2)])
def test_an_initial_design_of_which_nothing_is_left_goes_on(
    case: str, end: Callable[[Client, int, Any], None], more: int
) -> None:
    """Until there are as many outcomes as it takes."""
    client, phases = make_client(case), []
    for trial in range(4 + more + 1):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        if trial < 4:
            end(client, index, arm)
        else:
            complete_trial(client, index, objective(arm), realized_of(index, arm))
        phases.append(decision_record(client._experiment.trials[index])["phase"])
    assert phases == ["initial"] * (4 + more) + ["rule"]


def test_outcomes_with_and_without_standard_errors() -> None:
    """Both are learned from: those that are missing are taken for the others."""
    client = make_client("gittins")
    for step in range(6):
        for index, arm in client.get_next_trials(max_trials=1).items():
            value = float(arm["x1"]) * (1 - float(arm["x2"]))
            complete_trial(client, index, (value, 0.01) if step % 2 else value)
    assert query(client, 5).controlled


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300])
@pytest.mark.parametrize("case", ["gittins, learned costs", "control sets", "costly feedback"])
def test_inputs_that_are_no_numbers(case: str, value: float) -> None:
    """Before the model sees them; where a cost does not depend on them, nothing else says so."""
    client = make_client(case)
    ((first, arm),) = client.get_next_trials(max_trials=1).items()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        index = client.attach_trial({**arm, "x1": value})
    way_out = rf"trial {index}: x1=.* ax_costaware.exclude_trial\(client, {index}\)"
    with pytest.raises(UserInputError, match=way_out):
        client.get_next_trials(max_trials=1)
    cost = {"cost": 1.0} if CASES[case].learns_costs else {}
    complete_trial(client, index, 0.5, realized_of(index, arm) or None, **cost)
    with pytest.raises(UserInputError, match=way_out):
        client.get_next_trials(max_trials=1)
    with pytest.raises(UserInputError, match=way_out):
        recommend(client)
    exclude_trial(client, index)
    assert client.get_next_trials(max_trials=1)
    assert client._experiment.trials[first].status.is_running


@pytest.mark.parametrize("case", ["gittins", "costly feedback"])
def test_a_trial_of_several_arms_can_be_left_out(case: str, tmp_path: Path) -> None:
    """As Ax's own strategies make them: an experiment that was begun by one goes on without it."""
    client = make_client(case)
    experiment = client._experiment
    arms = [Arm({"x1": 0.1, "x2": value}) for value in (0.2, 0.7)]
    batch = experiment.new_batch_trial(generator_run=GeneratorRun(arms))
    batch.mark_running(no_runner_required=True)
    columns = {"trial_index": 0, "metric_name": "y", "metric_signature": "y", "sem": 0.1}
    rows = [{**columns, "arm_name": arm.name, "mean": 1e3} for arm in batch.arms]
    experiment.attach_data(Data(df=pd.DataFrame(rows)))
    batch.mark_completed()
    way_out = r"trial 0 is a BatchTrial of 2 arms: .* ax_costaware.exclude_trial\(client, 0\)"
    with pytest.raises(UnsupportedError, match=way_out):
        client.get_next_trials(max_trials=1)
    with pytest.raises(UnsupportedError, match=way_out):
        spending(client)
    exclude_trial(client, 0)
    for _ in range(6):
        for index, arm in client.get_next_trials(max_trials=1).items():
            complete_trial(client, index, float(arm["x1"]) * (1 - float(arm["x2"])))
    assert abs(recommend(client).expected_value) < 2
    assert spending(client).entries[0].charged == 0.0
    assert overview(client)
    path = str(tmp_path / "client.json")
    client.save_to_json_file(path)
    loaded = Client.load_from_json_file(path)
    assert client.get_next_trials(max_trials=1) == loaded.get_next_trials(max_trials=1)


def test_nothing_waits_for_an_excluded_trial() -> None:
    """An initial trial that was excluded while it ran is made up for."""
    client = make_client("gittins")
    for index in client.get_next_trials(max_trials=4):
        exclude_trial(client, index)
        assert client._experiment.trials[index].status.is_abandoned
    assert client.get_next_trials(max_trials=1)


@pytest.mark.parametrize("case", ["gittins, learned costs", "unknown costs"])
def test_the_cost_of_a_trial_that_failed_at_no_point_is_named(case: str) -> None:
    """It is learned from, where the trial itself is not; the refusal spoke of ``X[4]``."""
    client, extra = make_client(case), {"control_set": "x1"} if case == "unknown costs" else {}
    past = pd.DataFrame({"x1": [0.1, 0.5, 0.9, 0.3], "x2": [0.2, 0.4, 0.6, 0.8], **extra})
    attach_table(client, past.assign(y=past["x1"], cost=1.0 + past["x1"]))
    index = client.attach_trial({"x1": math.nan, "x2": 0.5, **extra})
    client.mark_trial_failed(index)
    report_cost(client, index, 0.3)
    with pytest.raises(UserInputError, match=r"trial 4: x1=.*exclude_trial\(client, 4\)"):
        client.get_next_trials(max_trials=1)
    exclude_trial(client, index)
    assert client.get_next_trials(max_trials=1)


def test_trials_that_ax_copied_without_their_records() -> None:
    """Another experiment's decisions are refused, and what was reported of others is not."""
    old = gittins_toy.make_client(budget=40.0, initial_trials=2)
    for _ in range(4):
        ((index, arm),) = old.get_next_trials(max_trials=1).items()
        complete_trial(old, index, float(arm["x1"]))
    attached = old.attach_trial({"x1": 0.2, "x2": 0.9})
    complete_trial(old, attached, 0.2)
    client = gittins_toy.make_client(budget=40.0, initial_trials=2)
    client._experiment.warm_start_from_old_experiment(old._experiment)
    assert decision_record(old._experiment.trials[2])
    assert not decision_record(client._experiment.trials[2])
    copied = r"trials \[0, 1, 2, 3\] were copied by warm_.*attach_table.*exclude_trial\(client, 0\)"
    with pytest.raises(UserInputError, match=copied):
        client.get_next_trials(max_trials=1)
    assert len(client._experiment.trials) == 5
    assert recommend(client).parameters
    for index in range(4):
        exclude_trial(client, index)
    assert [*client.get_next_trials(max_trials=1)] == [5]
