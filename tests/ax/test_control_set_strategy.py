"""Whole runs of ``control_set_strategy`` on Ax's Client and AxClient."""

from __future__ import annotations

import random
from typing import Any

import pytest
from ax.adapter.cross_validation import cross_validate
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.parameter_constraint import ParameterConstraint
from ax.exceptions.core import (
    DataRequiredError,
    OptimizationShouldStop,
    UnsupportedError,
    UserInputError,
)
from ax.service.ax_client import AxClient
from ax.service.utils.instantiation import ObjectiveProperties

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
    spending,
)
from ax_costaware.ax_bridge.records import outcome_record
from tests.ax.toy import (
    CONTROL_SETS,
    FAST,
    MARGINALS,
    arm_of,
    complete,
    make_client,
    objective,
    realize,
    record,
    run_trials,
)

pytestmark = pytest.mark.usefixtures("short_searches")

COSTS = {s.name: float(s.cost or 0.0) for s in CONTROL_SETS}


@pytest.mark.parametrize("minimize", [False, True])
def test_run_until_budget_is_exhausted(minimize: bool) -> None:
    """The budget is never passed, the stop says what to deploy, and that is near the optimum."""
    sign = -1.0 if minimize else 1.0
    client = make_client(minimize=minimize, budget=3.05, rule=ExploreThenCommit(2))
    with pytest.raises(OptimizationShouldStop) as stop:
        run_trials(client, 40, sign)
    spent = sum(COSTS[str(arm_of(client, i)["control_set"])] for i in client._experiment.trials)
    assert 3.05 - 0.1 < spent <= 3.05 + 1e-9
    best = recommend(client)
    message = str(stop.value)
    assert f"{spent:g} of 3.05 is spent" in message
    assert "cheapest control set costs 0.1" in message
    assert f"Deploy control set {best.control_set!r}" in message
    assert best.control_set == "x1+x2+x3"
    assert objective(best.parameters) > -0.02
    assert (
        abs(best.expected_value - sign * objective(best.parameters)) < 3 * best.standard_deviation
    )
    # Two plays each of the two cheaper cost groups, after the initial trials.
    chosen = [record(client, i)["control_set"] for i in range(5, 9)]
    assert chosen == ["x1", "x1", "x1+x2", "x1+x2"]


def test_decisions_repeat_with_the_seed_and_leave_the_global_one_alone() -> None:
    """Two runs with one seed agree, another seed differs, and torch's global state is unmoved."""
    import torch

    client, again, other = (make_client(seed=seed, initial_trials=3) for seed in (3, 3, 4))
    first = run_trials(client, 5)
    assert run_trials(again, 5) == first
    assert run_trials(other, 5) != first
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    client.get_next_trials(max_trials=1)
    assert torch.equal(before, torch.random.get_rng_state())


def test_record_of_a_decision() -> None:
    """What is stored with a trial: the query, its cost, the phase, and why."""
    client = make_client(budget=10.0, rule=EpsilonSchedule(0.0))
    run_trials(client, 6)
    initial, decided = record(client, 0), record(client, 5)
    assert initial["phase"] == "initial"
    assert decided["phase"] == "rule"
    arm = arm_of(client, 5)
    chosen = next(s for s in CONTROL_SETS if s.name == decided["control_set"])
    assert decided["controlled"] == {name: arm[name] for name in chosen.parameters}
    assert decided["expected_cost"] == chosen.cost
    assert decided["decision"]["spent"] == pytest.approx(0.5)
    assert decided["decision"]["remaining"] == pytest.approx(9.5)
    assert set(decided["decision"]["in_play"]) <= set(COSTS)
    assert decided["decision"]["values"]
    assert decided["why"].endswith(".")
    # The method is stored once, with the strategy.
    for trial in client._experiment.trials.values():
        kwargs = trial.generator_runs[0]._generator_kwargs or {}
        assert not kwargs.keys() & {"method", "settings"}


def test_several_trials_at_once_and_out_of_order() -> None:
    """A batch counts its own plays and budget, and trials may be completed in any order."""
    client = make_client(budget=2.0, rule=ExploreThenCommit((2, 2)), initial_trials=3)
    first = client.get_next_trials(max_trials=8)
    assert list(first) == [0, 1, 2], "the initial design has three trials"
    with pytest.raises(DataRequiredError):
        client.get_next_trials(max_trials=1)
    for index in (2, 0):
        complete(client, index, dict(first[index]))
    batch = client.get_next_trials(max_trials=2)
    batch.update(client.get_next_trials(max_trials=1))
    assert [arm["control_set"] for arm in batch.values()] == ["x1", "x1", "x1+x2"]
    assert record(client, 4)["decision"]["spent"] == pytest.approx(0.4)
    for index in (5, 1, 3, 4):
        complete(client, index, dict((first | batch)[index]))
    assert spending(client).spent == pytest.approx(0.8)
    assert list(client.get_next_trials(max_trials=1)) == [6]


def test_pending_trials_push_the_next_ones_away() -> None:
    """Trials of one batch, and trials that run while the next is chosen, do not repeat."""
    client = make_client(rule=EpsilonSchedule(0.0), initial_trials=2)
    run_trials(client, 2)
    batch = client.get_next_trials(max_trials=3) | client.get_next_trials(max_trials=1)
    assert {arm["control_set"] for arm in batch.values()} == {"x1+x2+x3"}
    points = [[float(arm[name]) for name in MARGINALS] for arm in batch.values()]
    for i, one in enumerate(points):
        for other in points[:i]:
            assert max(abs(a - b) for a, b in zip(one, other, strict=True)) > 0.2


def test_batch_never_loses_trials_to_the_budget() -> None:
    """However small the rest of the budget, a batch comes out whole and within it."""
    client = make_client(budget=1.65, rule=EpsilonSchedule(0.0), initial_trials=2)
    run_trials(client, 2)

    def run_batches() -> None:
        while True:
            for index, arm in client.get_next_trials(max_trials=5).items():
                complete(client, index, dict(arm))

    with pytest.raises(OptimizationShouldStop):
        run_batches()
    assert 1.55 < spending(client).spent <= 1.65 + 1e-9


def test_failed_and_abandoned_trials() -> None:
    """Neither is pending any more; an initial one is replaced; both keep the run going."""
    client = make_client(budget=10.0, initial_trials=3)
    (lost,) = client.get_next_trials(max_trials=1)
    client.mark_trial_failed(lost)
    arms = run_trials(client, 3)
    assert record(client, 3)["phase"] == "initial"
    assert arm_of(client, lost)["x1"] not in [a["x1"] for a in arms]
    run_trials(client, 1)
    assert record(client, 4)["phase"] == "rule"
    (lost,) = client.get_next_trials(max_trials=1)
    planned = dict(arm_of(client, lost))
    client.mark_trial_abandoned(lost)
    run_trials(client, 2)
    assert spending(client).spent == pytest.approx(
        sum(COSTS[str(arm_of(client, i)["control_set"])] for i in client._experiment.trials)
        - COSTS[planned["control_set"]]
    )


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


def test_several_arms_are_refused() -> None:
    """A trial with several arms would have several control sets."""
    client = make_client(initial_trials=1)
    strategy, experiment = client._generation_strategy, client._experiment
    for _ in range(2):
        with pytest.raises(UnsupportedError, match="takes one arm"):
            strategy.gen(experiment=experiment, n=2)
        run_trials(client, 1)


def test_without_an_initial_design_the_model_decides_from_what_was_attached() -> None:
    client = make_client(initial_trials=0)
    for x1 in (0.2, 0.9):
        arm: dict[str, Any] = {"x1": x1, "x2": 0.5, "x3": 0.5, "control_set": "x1+x2+x3"}
        index = client.attach_trial(arm)
        complete_trial(client, index, {"y": objective(arm)}, realized={})
    run_trials(client, 1)
    assert record(client, 2)["phase"] == "rule"


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


def test_arms_are_valid_for_every_kind_of_parameter(mixed: Client) -> None:
    """Integers and choices are exact, nominal values are the marginals', constraints hold."""
    nominal = {"pots": 4, "soil": "clay", "lamp": 1, "rate": pytest.approx(0.505)}
    for index in mixed._experiment.trials:
        arm = arm_of(mixed, index)
        mixed._experiment.search_space.check_types(arm, raise_error=True)
        assert list(arm) == list(mixed._experiment.search_space.parameters)
        assert type(arm["pots"]) is int
        assert type(arm["lamp"]) is int
        assert 2 * arm["dose"] <= 5 + 1e-6
        if arm["control_set"] == "dose":
            assert {name: arm[name] for name in nominal} == nominal


def test_ax_keeps_working(mixed: Client) -> None:
    """Prediction, cross-validation, best point and analyses on such an experiment."""
    arm: dict[str, Any] = {
        "dose": 1.0,
        "pots": 3,
        "soil": "sand",
        "lamp": 1,
        "rate": 0.1,
        "control_set": "all",
    }
    (prediction,) = mixed.predict([arm])
    assert set(prediction) == {"loss"}
    adapter = mixed._generation_strategy.adapter
    assert adapter is not None
    assert len(cross_validate(adapter)) == 8
    for use_model in (True, False):
        parameters, _, index, _ = mixed.get_best_parameterization(use_model_predictions=use_model)
        assert parameters == arm_of(mixed, index)
        assert parameters["control_set"] == "all"


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


@pytest.mark.filterwarnings("ignore:The `AxClient` class is deprecated:DeprecationWarning")
def test_ax_client() -> None:
    """The same strategy runs through AxClient."""
    client = AxClient(
        generation_strategy=control_set_strategy(
            CONTROL_SETS, MARGINALS, budget=1.0, initial_trials=2, **FAST
        ),
        verbose_logging=False,
    )
    client.create_experiment(
        name="toy",
        parameters=[
            {"name": "x1", "type": "range", "bounds": [0.0, 1.0]},
            {"name": "x2", "type": "range", "bounds": [0.0, 1.0]},
            {"name": "x3", "type": "range", "bounds": [0.0, 1.0]},
            {
                "name": "control_set",
                "type": "choice",
                "values": [s.name for s in CONTROL_SETS],
                "value_type": "str",
                "is_ordered": False,
                "sort_values": False,
            },
        ],
        objectives={"y": ObjectiveProperties(minimize=False)},
    )

    def run() -> None:
        while True:
            arm, index = client.get_next_trial()
            complete(client, index, arm)

    with pytest.raises(OptimizationShouldStop, match="Deploy control set"):
        run()
    best = client.get_best_parameters()
    assert best is not None
    assert best[0]["control_set"] in COSTS
    assert spending(client).spent <= 1.0 + 1e-9


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
