"""Past data come in as a table: all of it, or nothing and the name of the row that is wrong.

What every method does with a table is part of its contract.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import UserInputError

import ax_costaware as ac
from ax_costaware.ax_bridge.records import decision_record, outcome_record
from ax_costaware.testing import MethodContract
from tests.ax.gittins_toy import FAST, complete, make_client, run_trials
from tests.contract import test_averages as averages
from tests.contract import test_control_sets as control_sets
from tests.contract import test_costly_feedback as costly_feedback
from tests.resuming import decide, load, open_database

pytestmark = pytest.mark.usefixtures("short_searches")

PAST = pd.DataFrame({"x1": [0.1, 0.9, 0.4, 0.6], "x2": [0.2, 0.3, 0.8, 0.5]})
PAST["y"] = -((PAST["x1"] - 0.3) ** 2) - (PAST["x2"] - 0.6) ** 2


def test_trials_that_failed(tmp_path: Path) -> None:
    """They keep their costs, are not learned from, and are stored like the others."""
    frame = PAST.assign(
        status=["failed", "abandoned", "failed", None],
        y=[None, None, None, 0.5],
        cost=[1.25, 1.75, None, 1.5],
    )
    for charge in (False, True):
        path = tmp_path / f"{charge}.db"
        client = make_client(storage_config=open_database(path), budget=20.0)
        ac.attach_table(client, frame, charge=charge)
        for one in (client, load(str(path))):
            trials = one._experiment.trials.values()
            assert [trial.status.name for trial in trials] == [
                *("FAILED", "ABANDONED", "FAILED", "COMPLETED")
            ]
            entries = ac.spending(one).entries
            assert [entry.reported_cost for entry in entries] == [1.25, 1.75, None, 1.5]
            paid = [entry.charged for entry in entries]
            assert [*paid[:2], paid[3]] == ([1.25, 1.75, 1.5] if charge else [0.0] * 3)
            assert set(one._experiment.lookup_data().df["trial_index"]) == {3}


def test_a_table_of_failures_alone() -> None:
    """Nothing is told to Ax's data, and the design goes on beside them."""
    client = make_client()
    ac.attach_table(client, PAST.assign(y=None, status="failed"))
    assert client._experiment.lookup_data().df.empty
    _, decision = decide(client)
    assert decision["record"]["phase"] == "initial"


def test_a_metric_that_is_called_status() -> None:
    client = make_client()
    client.configure_tracking_metrics(["status"])
    ac.attach_table(client, PAST.assign(status=0.0))
    trials = client._experiment.trials.values()
    assert {trial.status.name for trial in trials} == {"COMPLETED"}
    assert outcome_record(client._experiment.trials[0])["outcomes"]["status"] == [0.0, None]


def phases(client: Client, count: int) -> list[Any]:
    """Ask for trials, and return in which phase they are decided."""
    found = client.get_next_trials(max_trials=count)
    return [decision_record(client._experiment.trials[i])["phase"] for i in found]


def test_fewer_than_the_initial_trials() -> None:
    """The design fills up what is missing, and the model goes on, also within a batch."""
    client = make_client()
    ac.attach_table(client, PAST.head(2))
    assert phases(client, 3) == ["initial", "initial", "rule"]


def test_trials_of_an_earlier_strategy_count() -> None:
    """Its model has chosen most of them: the next strategy draws no quasi-random ones on top."""
    client = make_client(initial_trials=2)
    run_trials(client, 5)
    client.set_generation_strategy(ac.cost_aware_strategy(1.0, **FAST))
    assert phases(client, 1) == ["rule"]


@pytest.mark.parametrize("by_table", [True, False])
def test_attached_trials_need_not_count(by_table: bool) -> None:
    client = make_client(count_attached=False, initial_trials=2)
    if by_table:
        ac.attach_table(client, PAST)
    else:
        complete(client, client.attach_trial({"x1": 0.5, "x2": 0.5}), {"x1": 0.5, "x2": 0.5})
    before = len(client._experiment.trials)
    run_trials(client, 3)
    made = [*client._experiment.trials.values()][before:]
    found = [decision_record(trial)["phase"] for trial in made]
    assert found == ["initial", "initial", "rule"]


def test_what_does_not_count() -> None:
    """A trial without an outcome, and one that was left out of everything."""
    client = make_client()
    running = client.attach_trial({"x1": 0.5, "x2": 0.5})
    ac.attach_table(client, PAST.head(3))
    ac.exclude_trial(client, 1)
    assert phases(client, 1) == ["initial"]
    ac.complete_trial(client, running, 0.5)
    assert phases(client, 1) == ["rule"]


def mixed_client(tmp_path: Path | None = None) -> Client:
    """An experiment with every kind of parameter, a constraint and a second metric."""
    client = Client(storage_config=open_database(tmp_path / "run.db") if tmp_path else None)
    client.configure_experiment(
        name="mixed",
        parameters=[
            RangeParameterConfig("x", (0, 1), "float"),
            RangeParameterConfig("rate", (1e-3, 1.0), "float", scaling="log"),
            RangeParameterConfig("count", (1, 5), "int"),
            ChoiceParameterConfig("soil", ["clay", "sand"], "str", is_ordered=False),
            ChoiceParameterConfig("field", ["north"], "str", is_ordered=False),
        ],
        parameter_constraints=["x + count <= 5"],
    )
    client.configure_optimization(objective="-loss")
    client.configure_tracking_metrics(["seconds", "other"])
    client.set_generation_strategy(
        ac.cost_aware_strategy("seconds", **FAST | {"initial_trials": 3})
    )
    return client


MIXED = pd.DataFrame(
    {
        "x": [0.1, 0.5, 0.9, 0.3],
        "rate": [0.01, 0.1, 0.5, 0.2],
        "count": [1, 2, 3, 4],
        "soil": ["clay", "sand", "sand", "clay"],
        "loss": [3.0, 2.0, 1.0, 2.5],
        "loss_sem": [0.1, None, 0.2, 0.1],
        "other": [None, 1.0, 2.0, 3.0],
        "other_sem": [None, None, 0.5, 0.1],
        "cost": [10.0, 20.0, 30.0, 15.0],
    },
    index=[7, 8, 9, 10],
)


def test_optional_columns_and_empty_cells() -> None:
    client = mixed_client()
    assert ac.attach_table(client, MIXED.assign(field="north")) == [0, 1, 2, 3]
    trial = client._experiment.trials[1]
    assert trial.arms[0].parameters == {
        **{"x": 0.5, "rate": 0.1, "count": 2, "soil": "sand", "field": "north"}
    }
    assert outcome_record(trial) == {
        "realized": {},
        "outcomes": {"loss": [2.0, None], "other": [1.0, None], "seconds": [20.0, None]},
        "cost": 20.0,
        "cost_metric": "seconds",
        "charged": False,
    }
    assert "other" not in outcome_record(client._experiment.trials[0])["outcomes"]
    by_metric = MIXED.rename(columns={"cost": "seconds"})
    again = mixed_client()
    ac.attach_table(again, by_metric)
    for index, trial in again._experiment.trials.items():
        assert outcome_record(trial) == outcome_record(client._experiment.trials[index])


def test_a_metric_that_is_called_like_a_standard_error() -> None:
    client = mixed_client()
    client.configure_tracking_metrics(["loss_sem"])
    ac.attach_table(client, _with("loss_sem", -1.0))
    outcomes = outcome_record(client._experiment.trials[2])["outcomes"]
    assert (outcomes["loss"], outcomes["loss_sem"]) == ([1.0, None], [-1.0, None])


def _with(column: str, value: Any, row: int = 2) -> pd.DataFrame:
    values = MIXED[column].astype(object).tolist()
    values[row] = value
    return MIXED.assign(**{column: pd.Series(values, index=MIXED.index, dtype=object)})


def test_an_objective_that_is_called_like_a_parameter() -> None:
    client = make_client()
    client.configure_optimization(objective="x1")
    with pytest.raises(UserInputError, match="x1"):
        ac.attach_table(client, pd.DataFrame([{"x1": 0.2, "x2": 0.3}]))


@pytest.mark.parametrize(("charge", "before"), [(False, True), (True, False), (True, True)])
def test_switching_costs_are_paid_where_rows_are(charge: bool, before: bool) -> None:
    """A row's, after the trials that there are, is part of its cost; those of free ones are not."""
    client = mixed_client()
    cost = ac.SwitchingCost({"soil": 15.0}, base="seconds")
    client.set_generation_strategy(ac.cost_aware_strategy(cost, **FAST | {"initial_trials": 3}))
    if before:
        arm = {"x": 0.4, "rate": 0.1, "count": 2, "soil": "sand", "field": "north"}
        ac.complete_trial(client, client.attach_trial(arm), 1.0, cost=20.0)
    if charge:
        row, paid = (r"row 0 \(index 7\)", 10.0) if before else (r"row 3 \(index 10\)", 15.0)
        with pytest.raises(UserInputError, match=f"{row}: cost={paid}"):
            ac.attach_table(client, MIXED, charge=True)
    ac.attach_table(client, MIXED.assign(cost=MIXED["cost"] + 15.0 * charge), charge=charge)
    assert decide(client)[1]["record"]["phase"] == "rule"


def test_values_outside_the_bounds_are_used_as_they_are() -> None:
    client, frame = make_client(), PAST.copy()
    frame.loc[1, "x1"], frame.loc[3, "x2"] = 1.02, -0.01
    with pytest.warns(ac.session.OutOfBoundsWarning, match="row 1, 'x1'=1.02") as caught:
        ac.attach_table(client, frame)
    assert __file__ in [warning.filename for warning in caught]
    trial = client._experiment.trials[1]
    assert trial.arms[0].parameters["x1"] == 1.0
    assert outcome_record(trial)["realized"] == {"x1": 1.02}
    assert decide(client)[1]["record"]["phase"] == "rule"


def test_nothing_is_kept_if_storing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trials before are as they were, and the same call again stores the table."""
    from ax.storage.sqa_store.encoder import Encoder

    client = mixed_client(tmp_path)
    ac.attach_table(client, MIXED.iloc[:1])
    experiment = client._experiment
    before = (list(experiment.trials), experiment.lookup_data().df, sorted(experiment.arms_by_name))

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("away")

    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "data_to_sqa", fail)
        with pytest.raises(RuntimeError, match="away"):
            ac.attach_table(client, MIXED.iloc[1:])
    after = (list(experiment.trials), experiment.lookup_data().df, sorted(experiment.arms_by_name))
    assert after[0] == before[0]
    assert after[1].equals(before[1])
    assert after[2] == before[2]
    assert len(load(str(tmp_path / "run.db"), "mixed")._experiment.trials) == 1
    open_database(tmp_path / "run.db")
    assert ac.attach_table(client, MIXED.iloc[1:]) == [1, 2, 3]
    stored = load(str(tmp_path / "run.db"), "mixed")._experiment
    assert stored.trials.keys() == experiment.trials.keys()


# By the cells of a column: the name of what is refused, if it is not the column itself.
CELLS: list[tuple[str, Any, str]] = [
    ("x", math.nan, ""),
    ("x", "0.5", ""),
    ("x", 1e9, ""),
    ("soil", pd.NA, ""),
    ("soil", "peat", ""),
    ("loss", None, ""),
    ("loss", "good", ""),
    ("loss", math.inf, ""),
    ("loss", 1e300, ""),
    ("count", 2.5, ""),
    ("count", 5, "constraint"),
    ("rate", 0.0, ""),
    ("loss_sem", -1.0, ""),
    ("other", None, ""),
    ("cost", None, ""),
    ("cost", 0.0, "cost=0.0"),
]
FRAMES: list[tuple[Any, str]] = [
    ([{"x": 1}], "frame is a list"),
    (MIXED.iloc[:0], "frame has no rows"),
    (MIXED.drop(columns=["rate", "loss"]), r"\['rate', 'loss'\]"),
    (MIXED.assign(colour=1, acid=2), r"\['colour', 'acid'\]"),
    (MIXED.drop(columns="other"), "other_sem"),
    (MIXED.assign(control_set="x"), "control_set"),
    (pd.concat([MIXED, MIXED[["x"]]], axis=1), r"\['x'\]"),
    (MIXED.assign(field=["north", "north", "south", "north"]), "row 2 .*'field'"),
    (MIXED.assign(seconds=MIXED["cost"] + [0, 0, 1, 0]), "row 2 .*cost"),
    (MIXED.assign(status=[None, "completed", "crashed", "failed"]), "row 2 .*'status'"),
    (MIXED.assign(status=[None, None, "failed", None]), "row 2 .*'loss'"),
    *(
        (_with(column, value), rf"row 2 \(index 9\).*{named or repr(column)}")
        for column, value, named in CELLS
    ),
]


@pytest.mark.parametrize(("frame", "named"), FRAMES)
def test_refusals_name_row_and_column(frame: Any, named: str) -> None:
    """And nothing is kept."""
    client = mixed_client()
    with pytest.raises(UserInputError, match=named):
        ac.attach_table(client, frame)
    assert not client._experiment.trials
    assert client._experiment.lookup_data().df.empty
    with pytest.raises(UserInputError, match="charge='no'"):
        ac.attach_table(client, MIXED, charge="no")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("contract", "row", "named"),
    [
        (control_sets.TestControlSets(), {"control_set": "nope"}, "control_set"),
        (control_sets.TestUnknownCosts(), {"control_set": "x1", "cost": None}, "cost"),
        (averages.TestResolutionTree(), {"level": 1, "x1": 0.3}, "no cell"),
        (costly_feedback.TestCostlyFeedback(), {"cost": -1.0}, "cost"),
    ],
)
def test_rows_that_do_not_fit_the_method(
    contract: MethodContract, row: dict[str, Any], named: str
) -> None:
    client: Client = contract.client()
    frame = pd.DataFrame([{"x1": 0.5, "x2": 0.5, "objective": 1.0, **row}])
    with pytest.raises(UserInputError, match=f"row 0.*{named}"):
        ac.attach_table(client, frame)
    assert not client._experiment.trials
