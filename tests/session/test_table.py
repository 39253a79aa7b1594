"""Past data come in as a table: all of it, or nothing and the name of the row that is wrong."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import UserInputError

import ax_costaware as ac
from ax_costaware.analysis import overview
from ax_costaware.ax_bridge.records import decision_record, outcome_record
from tests.audit.cases import CASES, FAST, complete, make_client, objective
from tests.resuming import decide, load, open_database

pytestmark = pytest.mark.usefixtures("short_searches")

COUNT = 6


def table_of(case: str, count: int = COUNT) -> pd.DataFrame:
    """A table for the experiment of a case."""
    rng = np.random.default_rng(0)
    if case == "resolution tree":
        cells: list[dict[str, Any]] = [{"level": 0, "x1": 0.5, "x2": 0.5}]
        cells += [{"level": 1, "x1": x1, "x2": x2} for x1 in (0.25, 0.75) for x2 in (0.25, 0.75)]
        frame = pd.DataFrame(cells)
    else:
        names = ["a1"] if case == "indirect queries" else ["x1", "x2"]
        frame = pd.DataFrame(rng.random((count, len(names))), columns=names)
    if CASES[case].constraints:
        frame[["x1", "x2", "x3"]] = rng.dirichlet([1.0, 1.0, 1.0], count)
    if case in ("control sets", "unknown costs"):
        frame["control_set"] = ["x1", "x1+x2"] * (count // 2)
    frame["y"] = [objective(row) for row in frame.to_dict("records")]
    if CASES[case].learns_costs:
        frame["cost"] = 1.0 + 2.0 * frame["x1"]
    return frame


def attach_one_by_one(client: Client, frame: pd.DataFrame) -> None:
    """As before there were tables."""
    for row in frame.to_dict("records"):
        value, cost = row.pop("y"), row.pop("cost", None)
        index = client.attach_trial(row)
        realized = {"x2": row["x2"]} if row.get("control_set") == "x1" else None
        ac.complete_trial(client, index, value, realized=realized, cost=cost)


@pytest.mark.parametrize("case", CASES)
def test_charge(case: str) -> None:
    """Each trial its cost, or what is expected of it; or nothing, however much it has cost."""
    frame = table_of(case, 2)
    paid = frame["cost"].sum() if "cost" in frame else None
    free, charged, by_one = (make_client(case) for _ in range(3))
    ac.attach_table(free, frame)
    ac.attach_table(charged, frame, charge=True)
    attach_one_by_one(by_one, frame)
    assert ac.spending(free).spent == 0.0
    assert ac.spending(charged).spent == ac.spending(by_one).spent > 0.0
    if paid is not None:
        assert ac.spending(charged).spent == pytest.approx(paid)
        costs = [entry.reported_cost for entry in ac.spending(free).entries]
        assert costs == frame["cost"].tolist(), "they are learned from"
        ac.report_cost(free, 0, 7.0)
        assert ac.spending(free).spent == 0.0


@pytest.mark.parametrize("charge", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_trials_that_failed(case: str, charge: bool, tmp_path: Path) -> None:
    """They keep their costs, are not learned from, and are stored like the others."""
    frame = table_of(case)
    frame["status"] = ["failed", "abandoned", "failed", "completed"] + [None] * (len(frame) - 4)
    frame["y"] = frame["y"].where(frame.index > 2)
    frame["cost"] = [1.25, 1.75, None, *[1.5] * (len(frame) - 3)]
    client = make_client(case, storage_config=open_database(tmp_path / "run.db"))
    ac.attach_table(client, frame, charge=charge)
    statuses = [trial.status.name for trial in client._experiment.trials.values()]
    assert statuses[:4] == ["FAILED", "ABANDONED", "FAILED", "COMPLETED"]
    assert set(statuses[4:]) <= {"COMPLETED"}
    entries = ac.spending(client).entries
    assert [entry.reported_cost for entry in entries[:4]] == [1.25, 1.75, None, 1.5]
    assert [entry.charged for entry in entries[:2]] == ([1.25, 1.75] if charge else [0.0, 0.0])
    data = client._experiment.lookup_data().df
    assert set(data[data["metric_name"] == "y"]["trial_index"]) == {*range(3, len(frame))}
    shutil.copy(tmp_path / "run.db", tmp_path / "copy.db")
    client.save_to_json_file(str(tmp_path / "run.json"))
    index, first = decide(client)
    for name in ("run.json", "copy.db"):
        assert decide(load(str(tmp_path / name), "audit")) == (index, first)


def test_a_table_of_failures_alone() -> None:
    """Nothing is told to Ax's data, and the design goes on beside them."""
    client = make_client("gittins")
    frame = table_of("gittins").drop(columns="y").assign(y=None, status="failed")
    ac.attach_table(client, frame)
    assert client._experiment.lookup_data().df.empty
    _, decision = decide(client)
    assert decision["record"]["phase"] == "initial"
    assert decision["arm"] not in frame[["x1", "x2"]].to_dict("records")


def test_a_metric_that_is_called_status() -> None:
    client = make_client("gittins")
    client.configure_tracking_metrics(["status"])
    ac.attach_table(client, table_of("gittins").assign(status=0.0))
    trials = client._experiment.trials.values()
    assert {trial.status.name for trial in trials} == {"COMPLETED"}
    assert outcome_record(client._experiment.trials[0])["outcomes"]["status"] == [0.0, None]


def test_fewer_than_the_initial_trials() -> None:
    """The design fills up what is missing, and the model goes on, also within a batch."""
    client = make_client("gittins")
    ac.attach_table(client, table_of("gittins", 2))
    assert [*client.get_next_trials(max_trials=3)] == [2, 3, 4]
    assert "initial trial 3 of 4" in ac.query(client, 2).why
    assert "initial trial 4 of 4" in ac.query(client, 3).why
    phases = [decision_record(client._experiment.trials[i])["phase"] for i in (2, 3, 4)]
    assert phases == ["initial", "initial", "rule"]


def test_trials_of_an_earlier_strategy_count() -> None:
    """Its model has chosen most of them: the next strategy draws no quasi-random ones on top."""
    client = make_client("gittins")
    client.set_generation_strategy(ac.cost_aware_strategy(1.0, initial_trials=2, **FAST))
    for _ in range(5):
        complete(client, "gittins", *client.get_next_trials(max_trials=1).popitem())
    client.set_generation_strategy(ac.cost_aware_strategy(1.0, initial_trials=4, **FAST))
    assert decide(client)[1]["record"]["phase"] == "rule"


@pytest.mark.parametrize("by_table", [True, False])
def test_attached_trials_need_not_count(by_table: bool) -> None:
    client = make_client("gittins")
    strategy = ac.cost_aware_strategy(1.0, initial_trials=2, count_attached=False, **FAST)
    client.set_generation_strategy(strategy)
    attach = ac.attach_table if by_table else attach_one_by_one
    attach(client, table_of("gittins", 4))
    for count in (1, 2):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        assert f"initial trial {count} of 2" in ac.query(client, index).why
        complete(client, "gittins", index, arm)
    assert decide(client)[1]["record"]["phase"] == "rule"
    with pytest.raises(UserInputError, match="count_attached=1: expected True or False"):
        ac.cost_aware_strategy(1.0, count_attached=1)  # type: ignore[arg-type]


def test_what_does_not_count() -> None:
    """A trial without an outcome, and one that was left out of everything."""
    client = make_client("gittins")
    running = client.attach_trial({"x1": 0.5, "x2": 0.5})
    ac.attach_table(client, table_of("gittins", 3))
    ac.exclude_trial(client, 1)
    (index,) = client.get_next_trials(max_trials=1)
    assert "initial trial 3 of 4" in ac.query(client, index).why
    ac.complete_trial(client, running, 0.5)
    assert decide(client)[1]["record"]["phase"] == "rule"


@pytest.mark.parametrize("case", ["gittins, learned costs", "control sets"])
def test_what_is_said_of_past_trials(case: str) -> None:
    """They are shown, and may be deployed."""
    client = make_client(case)
    ac.attach_table(client, table_of(case))
    assert ac.query(client, 0).why
    assert ac.recommend(client).parameters
    assert "0" in str(ac.spending(client))
    assert overview(client)


def mixed_client(tmp_path: Path | None = None) -> Client:
    """An experiment with every kind of parameter, a constraint and a second metric."""
    storage = {"storage_config": open_database(tmp_path / "run.db")} if tmp_path else {}
    client = Client(**storage)  # type: ignore[arg-type]
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
    client.set_generation_strategy(ac.cost_aware_strategy("seconds", initial_trials=3, **FAST))
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
    client = make_client("gittins")
    client.configure_optimization(objective="x1")
    with pytest.raises(UserInputError, match=r"cannot tell the metrics \['x1'\] from parameters"):
        ac.attach_table(client, pd.DataFrame([{"x1": 0.2, "x2": 0.3}]))


ROW = r"row 2 \(index 9\)"

REFUSED: dict[str, tuple[Any, str]] = {
    "no frame": ([{"x": 1}], "frame is a list: expected a pandas DataFrame"),
    "no rows": (MIXED.iloc[:0], "frame has no rows"),
    "missing": (
        MIXED.drop(columns=["rate", "loss"]),
        r"frame lacks the columns \['rate', 'loss'\]",
    ),
    "unknown": (MIXED.assign(colour=1, acid=2), r"\['colour', 'acid'\], which are not parameters"),
    "error of nothing": (
        MIXED.drop(columns="other"),
        r"frame has the columns \['other_sem'\], which are no",
    ),
    "control sets elsewhere": (MIXED.assign(control_set="x"), r"\['control_set'\], which are no"),
    "twice": (pd.concat([MIXED, MIXED[["x"]]], axis=1), r"columns \['x'\] more than once"),
    "NaN": (_with("x", math.nan), f"{ROW}, 'x'=nan: expected a finite number"),
    "NA": (_with("soil", pd.NA), f"{ROW}, 'soil'=None: expected one of"),
    "None": (_with("loss", None), f"{ROW}, 'loss'=None: expected a finite number"),
    "no text": (_with("x", "0.5"), f"{ROW}, 'x'='0.5': expected a finite number"),
    "no number": (_with("loss", "good"), f"{ROW}, 'loss'='good'"),
    "infinite": (_with("loss", math.inf), f"{ROW}, 'loss'=inf"),
    "huge": (_with("loss", 1e300), f"{ROW}, 'loss'=1e\\+300: expected a finite number, at most"),
    "no integer": (_with("count", 2.5), f"{ROW}, 'count'=2.5: the parameter is an integer"),
    "far": (_with("x", 1e9), f"{ROW}, 'x'=1000000000.0: the parameter ranges over"),
    "log": (_with("rate", 0.0), f"{ROW}, 'rate'=0.0: the parameter is on a log scale"),
    "choice": (_with("soil", "peat"), f"{ROW}, 'soil'='peat': expected one of"),
    "fixed": (
        MIXED.assign(field=["north", "north", "south", "north"]),
        f"{ROW}, 'field'='south': the experiment fixes it to 'north'",
    ),
    "error below zero": (_with("loss_sem", -1.0), f"{ROW}, 'loss_sem'=-1.0: expected .* >= 0"),
    "error alone": (_with("other", None), f"{ROW}, 'other' is missing, and has a standard error"),
    "no cost": (_with("cost", None), f"{ROW}, 'cost' is missing, and so is 'seconds'"),
    "free": (_with("cost", 0.0), f"{ROW}: cost=0.0: expected a finite number > 0"),
    "two costs": (
        MIXED.assign(seconds=MIXED["cost"] + [0, 0, 1, 0]),
        f"{ROW}: cost=30.0 .*31.0 disagree",
    ),
    "no status": (
        MIXED.assign(status=[None, "completed", "crashed", "failed"]),
        f"{ROW}, 'status'='crashed': expected one of \\['completed', 'failed', 'abandoned'\\]",
    ),
    "outcome of a failure": (
        MIXED.assign(status=[None, None, "failed", None]),
        f"{ROW}, 'loss'=1.0: expected an empty cell, since the trial's 'status' is 'failed'",
    ),
    "constraint": (_with("count", 5), f"{ROW}: .*constraint"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_row_and_column(case: str) -> None:
    """And nothing is kept."""
    client = mixed_client()
    frame, message = REFUSED[case]
    with pytest.raises(UserInputError, match=message):
        ac.attach_table(client, frame)
    assert not client._experiment.trials
    assert client._experiment.lookup_data().df.empty


@pytest.mark.parametrize(
    ("case", "column", "value", "message"),
    [
        ("control sets", "control_set", "nope", "row 1, 'control_set'='nope': expected one of"),
        ("unknown costs", "cost", None, "row 1: cost=None: .*the cost of trial 1: .*'x1.x2'"),
        ("resolution tree", "x1", 0.3, "row 1: .* is no cell of the tree"),
        ("costly feedback", "cost", -1.0, "row 1: cost=-1.0: expected a finite number >= 0"),
    ],
)
def test_rows_that_do_not_fit_the_method(
    case: str, column: str, value: object, message: str
) -> None:
    client, frame = make_client(case), table_of(case)
    frame[column] = frame.get(column, pd.Series(1.0, index=frame.index)).astype(object)
    frame.loc[1, column] = value
    with pytest.raises(UserInputError, match=message) as refusal:
        ac.attach_table(client, frame)
    assert "exclude_trial" not in str(refusal.value)
    assert not client._experiment.trials


@pytest.mark.parametrize(("charge", "before"), [(False, True), (True, False), (True, True)])
def test_switching_costs_are_paid_where_rows_are(charge: bool, before: bool) -> None:
    """A row's, after the trials that there are, is part of its cost; those of free ones are not."""
    client = mixed_client()
    cost = ac.SwitchingCost({"soil": 15.0}, base="seconds")
    client.set_generation_strategy(ac.cost_aware_strategy(cost, initial_trials=3, **FAST))
    if before:
        arm = {"x": 0.4, "rate": 0.1, "count": 2, "soil": "sand", "field": "north"}
        ac.complete_trial(client, client.attach_trial(arm), 1.0, cost=20.0)
    if charge:
        row, paid = (r"row 0 \(index 7\)", 10.0) if before else (r"row 3 \(index 10\)", 15.0)
        message = f"{row}: cost={paid}: .* > 15, .* includes the switching cost of 15"
        with pytest.raises(UserInputError, match=message):
            ac.attach_table(client, MIXED, charge=True)
    ac.attach_table(client, MIXED.assign(cost=MIXED["cost"] + 15.0 * charge), charge=charge)
    assert decide(client)[1]["record"]["phase"] == "rule"


def test_what_does_not_fit_the_experiment_is_no_rows_fault() -> None:
    client = make_client("gittins")
    client.set_generation_strategy(ac.cost_aware_strategy(ac.AffineCost({"w": 1.0}, fixed=1.0)))
    with pytest.raises(UserInputError, match="w") as refusal:
        ac.attach_table(client, table_of("gittins"))
    assert "row" not in str(refusal.value)
    with pytest.raises(UserInputError, match="charge='no': expected True or False"):
        ac.attach_table(client, table_of("gittins"), charge="no")  # type: ignore[arg-type]


def test_values_outside_the_bounds_are_used_as_they_are() -> None:
    client, frame = make_client("gittins"), table_of("gittins")
    frame.loc[1, "x1"], frame.loc[3, "x2"] = 1.02, -0.01
    with pytest.warns(ac.session.OutOfBoundsWarning, match="2 values.* row 1, 'x1'=1.02") as caught:
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


@pytest.mark.slow
def test_a_thousand_rows_in_one_transaction(tmp_path: Path) -> None:
    """In less than half a minute."""
    import time

    from ax.storage.sqa_store.db import get_engine
    from sqlalchemy import event

    client = make_client("gittins", storage_config=open_database(tmp_path / "run.db"))
    commits: list[object] = []
    event.listen(get_engine(), "commit", commits.append)
    ac.spending(client)
    ac.attach_table(client, table_of("gittins", 2))
    few = len(commits)
    started = time.monotonic()
    ac.attach_table(client, table_of("gittins", 1000))
    assert time.monotonic() - started < 30
    assert len(commits) - few <= few
