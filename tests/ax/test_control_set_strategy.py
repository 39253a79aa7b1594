"""Whole runs of ``control_set_strategy`` on Ax's Client and AxClient."""

from __future__ import annotations

import random
from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.parameter_constraint import ParameterConstraint
from ax.exceptions.core import (
    UserInputError,
)

from ax_costaware import (
    ControlSet,
    Discrete,
    EpsilonSchedule,
    ExploreThenCommit,
    Uniform,
    complete_trial,
    control_set_parameter,
    control_set_strategy,
    recommend,
)
from ax_costaware.ax_bridge.records import outcome_record
from tests.ax.toy import (
    FAST,
    make_client,
    realize,
    record,
    run_trials,
)

pytestmark = pytest.mark.usefixtures("short_searches")


def test_fixed_parameters() -> None:
    """A fixed control set and fixed controlled values are honoured, in both phases."""
    client = make_client(budget=10.0, initial_trials=2)
    ((_, arm),) = client.get_next_trials(
        max_trials=1, fixed_parameters={"control_set": "x1+x2", "x2": 0.25}
    ).items()
    assert (arm["control_set"], arm["x2"]) == ("x1+x2", 0.25)
    client.mark_trial_failed(0)
    run_trials(client, 2)
    ((index, arm),) = client.get_next_trials(
        max_trials=1, fixed_parameters={"control_set": "x1+x2", "x2": 0.25}
    ).items()
    assert (arm["control_set"], arm["x2"]) == ("x1+x2", 0.25)
    assert "fixed" in record(client, index)["why"]
    ((_, arm),) = client.get_next_trials(max_trials=1, fixed_parameters={"x3": 0.5}).items()
    assert arm["control_set"] == "x1+x2+x3"
    with pytest.raises(UserInputError, match=r"no control set .*controls all of \['x3'\]"):
        client.get_next_trials(max_trials=1, fixed_parameters={"control_set": "x1", "x3": 0.5})
    with pytest.raises(UserInputError, match=r"control_set='deluxe': expected one of \["):
        client.get_next_trials(max_trials=1, fixed_parameters={"control_set": "deluxe"})


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


MIXED_SETS = (
    ControlSet(["dose"], cost=1.0, name="dose"),
    ControlSet(["dose", "pots", "soil", "lamp", "rate"], cost=2.0, name="all"),
)
MIXED_MARGINALS = {
    "dose": Uniform(-5.0, 5.0),
    "pots": Discrete((1, 2, 3, 4), (0.1, 0.2, 0.3, 0.4)),
    "soil": Discrete(("clay", "sand", "peat"), (0.5, 0.3, 0.2)),
    "lamp": Discrete((1, 5, 20)),
    "rate": Uniform(0.01, 1.0),
}


@pytest.fixture(scope="module")
def mixed() -> Client:
    """A finished run on every kind of parameter, with a parameter constraint, minimising."""
    client = Client()
    client.configure_experiment(
        name="mixed",
        parameters=[
            RangeParameterConfig("dose", (-5, 5), "float"),
            RangeParameterConfig("pots", (1, 4), "int"),
            ChoiceParameterConfig("soil", ["clay", "sand", "peat"], "str", is_ordered=False),
            ChoiceParameterConfig("lamp", [1, 5, 20], "int", is_ordered=True),
            RangeParameterConfig("rate", (0.01, 1.0), "float", scaling="log"),
            control_set_parameter(MIXED_SETS),
        ],
        parameter_constraints=["2 * dose <= 5"],
    )
    client.configure_optimization(objective="-loss")
    client.configure_tracking_metrics(["seconds"])
    fast = {k: v for k, v in FAST.items() if k != "surrogate_spec"}
    client.set_generation_strategy(
        control_set_strategy(
            MIXED_SETS,
            MIXED_MARGINALS,
            initial_trials=4,
            initial_control_sets=["dose", "all"],
            rule=ExploreThenCommit(1),
            **fast,
        )
    )
    generator = random.Random(0)
    for _ in range(8):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        chance: dict[str, Any] = {
            "pots": generator.choice([1, 2, 3, 4]),
            "soil": generator.choice(["clay", "sand", "peat"]),
            "lamp": generator.choice([1, 5, 20]),
            "rate": generator.uniform(0.01, 1.0),
        }
        realized = chance if arm["control_set"] == "dose" else {}
        x = {**arm, **realized}
        loss = (x["dose"] - 1) ** 2 / 25 + (x["pots"] - 3) ** 2 / 9 + x["lamp"] / 20 + x["rate"]
        complete_trial(client, index, {"loss": loss, "seconds": 1.0}, realized=realized)
    return client


def test_overview_and_contour(mixed: Client) -> None:
    """Ax's own overview has no error card, and a contour plot can be drawn."""
    from ax.analysis.overview import OverviewAnalysis
    from ax.analysis.plotly.surface.contour import ContourPlot

    cards = mixed.compute_analyses(
        [OverviewAnalysis(), ContourPlot("dose", "rate", "loss")], display=False
    )
    flat = [card for group in cards for card in group.flatten()]
    assert len(flat) > 5
    assert not [c.name for c in flat if "Error" in type(c).__name__]


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
    message = rf"trial 0 was {ended} without the values of \['x2', 'x3'\], .*complete_trial\(client"
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
