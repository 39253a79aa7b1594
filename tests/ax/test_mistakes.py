"""A trial that was attached by mistake is refused with a way out, and stops nothing for good."""

from __future__ import annotations

import math
import warnings
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
    recommend,
    report_cost,
    save,
    should_stop,
    spending,
)
from ax_costaware.analysis import overview
from ax_costaware.ax_bridge.node import fitted_problem
from ax_costaware.ax_bridge.records import decision_record
from ax_costaware.testing import MethodContract
from tests.ax import gittins_toy
from tests.contract import test_averages as averages
from tests.contract import test_control_sets as control_sets
from tests.contract import test_cost_aware as cost_aware
from tests.contract import test_costly_feedback as costly_feedback

pytestmark = pytest.mark.usefixtures("short_searches")

COST_AWARE, CONTROL_SETS = cost_aware.TestCostAware(), control_sets.TestControlSets()
FEEDBACK, LEARNED = costly_feedback.TestCostlyFeedback(), cost_aware.TestLearnedCosts()

WRONG: list[tuple[MethodContract, dict[str, Any]]] = [
    (CONTROL_SETS, {"x1": 0.5, "x2": 0.5, "control_set": "nope"}),
    (COST_AWARE, {"x1": 0.5, "x2": math.nan}),
    (averages.TestIndirectQueries(), {"a1": math.nan}),
    (averages.TestResolutionTree(), {"level": 2, "x1": 0.3, "x2": 0.3}),
]


def attach(client: Client, arm: dict[str, Any]) -> int:
    """Attach what is wrong; Ax may warn of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        index: int = client.attach_trial(arm)
    return index


def ask(client: Client) -> int:
    (index,) = client.get_next_trials(max_trials=1)
    return index


def phase(client: Client, index: int) -> Any:
    return decision_record(client._experiment.trials[index])["phase"]


def way_out(index: int) -> str:
    return rf"trial {index}.* ax_costaware.exclude_trial\(client, {index}\)"


@pytest.mark.parametrize("end", ["leave", "fail", "complete"])
@pytest.mark.parametrize(("contract", "arm"), WRONG)
def test_excluded_trials_count_for_nothing(
    contract: MethodContract, arm: dict[str, Any], end: str
) -> None:
    """Whatever became of them; before that the refusal says how to go on."""
    client = contract.client()
    index = attach(client, arm)
    if end == "fail":
        client.mark_trial_failed(index)
    elif end == "complete":
        client.complete_trial(index, {"objective": 0.5})
    for call in (ask, spending):
        with pytest.raises(UserInputError, match=way_out(index)):
            call(client)
    with pytest.raises(UserInputError, match="reason=3"):
        exclude_trial(client, index, reason=3)  # type: ignore[arg-type]
    exclude_trial(client, index, reason="a typing error")
    assert spending(client).spent == 0.0
    assert phase(client, ask(client)) == "initial"
    assert spending(client).entries[index].charged == 0.0


def test_costs_and_assessments_beside_a_trial_without_an_arm(tmp_path: Path) -> None:
    """Where the cost reads parameters, and has switching costs; in a database; pages are drawn."""
    url = f"sqlite:///{tmp_path / 'left.db'}"
    create_tables(url)
    storage = StorageConfig(url=url)
    cost = SwitchingCost({"x1": 0.5}, AffineCost({"x2": 1.0}, fixed=1.0))
    client = gittins_toy.make_client(storage_config=storage, cost=cost, budget=40.0)
    arm = gittins_toy.run_trials(client, 4)[-1]
    before = spending(client).spent
    with pytest.raises(ValueError, match="Arm already exists"):
        client.attach_trial(arm, arm_name="another name")
    save(client)
    client = Client.load_from_database("toy", storage)
    assert spending(client).spent == before
    assert recommend(client).parameters
    assert should_stop(client).reason
    assert not any("Error" in type(card).__name__ for card in overview(client))
    assert ask(client) == 5


def test_a_point_that_was_excluded_may_be_tried() -> None:
    """It did not fail: the next trial is where it would have been."""
    client = CONTROL_SETS.client()
    for _ in range(3):
        CONTROL_SETS.complete(client, ask(client))
    found = []
    for _ in range(2):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        exclude_trial(client, index)
        found.append(float(arm["x1"]))
    assert found[1] == pytest.approx(found[0], abs=1e-3)
    assert not fitted_problem(client._experiment, client._generation_strategy).failed


@pytest.mark.parametrize("contract", [COST_AWARE, CONTROL_SETS])
@pytest.mark.parametrize(("excludes", "more"), [(True, 3), (False, 2)])
def test_an_initial_design_of_which_nothing_is_left_goes_on(
    contract: MethodContract, excludes: bool, more: int
) -> None:
    """Until there are as many outcomes as it takes."""
    client, phases = contract.client(), []
    for trial in range(3 + more + 1):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        phases.append(phase(client, index))
        if trial < 3 and not excludes:
            complete_trial(client, index, realized=dict(contract.realized(arm, index)) or None)
            continue
        contract.complete(client, index)
        if trial < 3:
            exclude_trial(client, index)
    assert phases == ["initial"] * (3 + more) + ["rule"]


def test_outcomes_with_and_without_standard_errors() -> None:
    """Both are learned from: those that are missing are taken for the others."""
    client = COST_AWARE.client()
    for step in range(5):
        complete_trial(client, ask(client), (0.1 * step, 0.01) if step % 2 else 0.3)
    assert phase(client, 4) == "rule"


@pytest.mark.parametrize("value", [math.nan, 1e300])
@pytest.mark.parametrize("contract", [LEARNED, CONTROL_SETS, FEEDBACK])
def test_inputs_that_are_no_numbers(contract: MethodContract, value: float) -> None:
    """Before the model sees them; where a cost does not depend on them, nothing else says so."""
    client = contract.client()
    ((_, arm),) = client.get_next_trials(max_trials=1).items()
    index = attach(client, {**arm, "x1": value})
    with pytest.raises(UserInputError, match=way_out(index)):
        ask(client)
    realized = dict(contract.realized(arm, index)) or None
    complete_trial(client, index, 0.5, realized, cost=contract.cost(arm))
    for call in (ask, recommend):
        with pytest.raises(UserInputError, match=way_out(index)):
            call(client)
    exclude_trial(client, index)
    assert ask(client)


def test_a_trial_of_several_arms_can_be_left_out() -> None:
    """As Ax's own strategies make them: an experiment that was begun by one goes on without it."""
    client = COST_AWARE.client()
    arms = [Arm({"x1": 0.1, "x2": value}) for value in (0.2, 0.7)]
    batch = client._experiment.new_batch_trial(generator_run=GeneratorRun(arms))
    batch.mark_running(no_runner_required=True)
    columns = {"trial_index": 0, "metric_name": "objective", "metric_signature": "objective"}
    rows = [{**columns, "sem": 0.1, "arm_name": arm.name, "mean": 1e3} for arm in batch.arms]
    client._experiment.attach_data(Data(df=pd.DataFrame(rows)))
    batch.mark_completed()
    for call in (ask, spending):
        with pytest.raises(UnsupportedError, match=way_out(0)):
            call(client)
    exclude_trial(client, 0)
    for _ in range(4):
        COST_AWARE.complete(client, ask(client))
    assert abs(recommend(client).expected_value) < 2
    assert spending(client).entries[0].charged == 0.0
    assert overview(client)


@pytest.mark.parametrize("contract", [LEARNED, control_sets.TestUnknownCosts()])
def test_the_cost_of_a_trial_that_failed_at_no_point_is_named(contract: MethodContract) -> None:
    """It is learned from, where the trial itself is not; the refusal spoke of ``X[4]``."""
    extra = {"control_set": "x1"} if contract is not LEARNED else {}
    past = pd.DataFrame({"x1": [0.1, 0.5, 0.9, 0.3], "x2": [0.2, 0.4, 0.6, 0.8], **extra})
    client: Client = contract.client()
    attach_table(client, past.assign(objective=past["x1"], cost=1.0 + past["x1"]))
    index = attach(client, {"x1": math.nan, "x2": 0.5, **extra})
    client.mark_trial_failed(index)
    report_cost(client, index, 0.3)
    with pytest.raises(UserInputError, match=way_out(4)):
        ask(client)
    exclude_trial(client, index)
    assert ask(client)


def test_trials_that_ax_copied_without_their_records() -> None:
    """Another experiment's decisions are refused, and what was reported of others is not."""
    old, client = (gittins_toy.make_client(budget=40.0, initial_trials=2) for _ in range(2))
    gittins_toy.run_trials(old, 4)
    complete_trial(old, old.attach_trial({"x1": 0.2, "x2": 0.9}), 0.2)
    client._experiment.warm_start_from_old_experiment(old._experiment)
    assert not decision_record(client._experiment.trials[2])
    with pytest.raises(UserInputError, match=r"\[0, 1, 2, 3\].*exclude_trial\(client, 0\)"):
        ask(client)
    assert recommend(client).parameters
    for index in range(4):
        exclude_trial(client, index)
    assert ask(client) == 5
