"""Whole runs of ``control_set_strategy`` on Ax's Client and AxClient."""

from __future__ import annotations

import pytest
from ax.core.parameter_constraint import ParameterConstraint
from ax.exceptions.core import (
    UserInputError,
)

from ax_costaware import (
    EpsilonSchedule,
    complete_trial,
    recommend,
)
from ax_costaware.ax_bridge.records import outcome_record
from tests.ax.toy import (
    complete,
    make_client,
    realize,
    run_trials,
)

pytestmark = pytest.mark.usefixtures("short_searches")


def test_fixed_parameters() -> None:
    """A fixed control set and fixed controlled values are honoured, in both phases."""
    client = make_client(budget=10.0, initial_trials=2)
    for fixed in ({"control_set": "x1+x2", "x2": 0.25}, {"x3": 0.5}) * 2:
        ((index, arm),) = client.get_next_trials(max_trials=1, fixed_parameters=fixed).items()
        assert arm.items() >= fixed.items()
        assert arm["control_set"] == fixed.get("control_set", "x1+x2+x3")
        complete(client, index, dict(arm))
    for fixed, named in (
        ({"control_set": "x1", "x3": 0.5}, r"\['x3'\]"),
        ({"control_set": "deluxe"}, "control_set='deluxe'"),
    ):
        with pytest.raises(UserInputError, match=named):
            client.get_next_trials(max_trials=1, fixed_parameters=fixed)


def test_disabled_parameters() -> None:
    """A trial that sets them sets them to their value; others still leave them to chance."""
    client = make_client(budget=20.0, initial_trials=2, initial_control_sets=["x1+x2"])
    client._experiment.disable_parameters_in_search_space({"x2": 0.25, "x3": 0.5})
    assert [arm["x2"] for arm in run_trials(client, 2)] == [0.25] * 2
    for name in ("x1", "x1+x2"):
        client._experiment.disable_parameters_in_search_space({"control_set": name})
        (arm,) = run_trials(client, 1)
        assert arm["control_set"] == name
    assert arm["x2"] == 0.25


@pytest.mark.parametrize("ended", ["completed", "early stopped"])
def test_a_trial_without_its_realised_inputs_is_refused(ended: str) -> None:
    """Ax's own call knows nothing of them: the nominal values would be taken for what was."""
    client = make_client(initial_trials=2)
    ((index, arm),) = client.get_next_trials(max_trials=1).items()
    client.attach_data(index, raw_data={"y": 0.5})
    if ended == "completed":
        client.complete_trial(index)
    else:
        client.mark_trial_early_stopped(index)
    message = rf"trial 0 was {ended} .*\['x2', 'x3'\]"
    for ask in (lambda: client.get_next_trials(max_trials=1), lambda: recommend(client)):
        with pytest.raises(UserInputError, match=message):
            ask()
    realized = realize(index, dict(arm))
    with pytest.raises(UserInputError, match=f"trial 0 is already {ended}, with its outcome"):
        complete_trial(client, index, {"y": 0.5}, realized=realized)
    with pytest.raises(UserInputError, match="realized lacks"):
        complete_trial(client, index)
    complete_trial(client, index, realized=realized)
    assert outcome_record(client._experiment.trials[index])["realized"] == realized
    assert recommend(client)
    client.get_next_trials(max_trials=1)
    with pytest.raises(UserInputError, match=r"trial 0 is (already completed|EARLY_STOPPED)"):
        complete_trial(client, index, realized=realized)


def test_an_outcome_waits_for_the_realised_inputs_of_a_trial_that_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Ax trains on data of running trials, whose nominal values would be taken for what was."""
    client, twin = make_client(initial_trials=2), make_client(initial_trials=2)
    for one in (client, twin):
        run_trials(one, 2)
        ((index, arm),) = one.get_next_trials(max_trials=1).items()
    client.attach_data(index, raw_data={"y": 50.0})
    assert recommend(client) == recommend(twin)
    assert client.get_next_trials(max_trials=1) == twin.get_next_trials(max_trials=1)
    assert f"The outcomes of trials [{index}] are left out until" in caplog.text
    complete_trial(client, index, realized=realize(index, dict(arm)))
    assert recommend(client) != recommend(twin)


def test_a_constraint_keeps_what_is_set_within_narrower_limits() -> None:
    """The way that the refusal of narrower bounds names."""
    client, free = (
        make_client(initial_trials=3, rule=EpsilonSchedule.constant(0.0)) for _ in range(2)
    )
    run_trials(client, 4)
    space = client._experiment.search_space
    space.parameters["x2"].update_range(lower=0.3)
    with pytest.raises(UserInputError, match=r"outside the bounds .* such as 'x2 >= 0.3'"):
        client.get_next_trials(max_trials=1)
    space.parameters["x2"].update_range(lower=0.0)
    space.add_parameter_constraints([ParameterConstraint(inequality="x2 >= 0.3")])
    assert min(arm["x2"] for arm in run_trials(client, 2)) > 0.3 - 1e-6
    assert min(arm["x2"] for arm in run_trials(free, 6)[4:]) < 0.3
