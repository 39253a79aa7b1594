"""Completing a trial: what is written, what is refused, and that a refusal changes nothing."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from ax.api.client import Client
from ax.core.experiment import Experiment
from ax.core.trial import Trial
from ax.exceptions.core import UserInputError

from ax_costaware.ax_bridge.records import RECORD, outcome_record, past_trials
from ax_costaware.session import OutOfBoundsWarning, complete_trial, spending

from .conftest import REALIZED, SETTINGS


def _observed(experiment: Experiment) -> dict[str, tuple[float, float]]:
    frame = experiment.lookup_data().df
    return {
        row["metric_name"]: (row["mean"], row["sem"]) for row in frame.to_dict(orient="records")
    }


def test_every_kind_of_client_takes_outcome_inputs_and_cost(
    any_client: tuple[Any, Experiment],
) -> None:
    client, experiment = any_client
    value = 1.234567890123456e-7
    complete_trial(client, 0, raw_data=value, realized=REALIZED, cost=0.5)
    trial = experiment.trials[0]
    assert trial.status.is_completed
    assert outcome_record(trial) == {
        "realized": {"acid": 1.5, "plants": 3, "soil": "clay"},
        "outcomes": {"growth": [value, None]},
        "cost": 0.5,
    }
    mean, sem = _observed(experiment)["growth"]
    assert mean == pytest.approx(value)
    assert np.isnan(sem)


@pytest.mark.parametrize("form", [list, np.array, lambda x: {"growth": x}])
def test_the_values_of_repeats_are_kept_beside_their_mean(client: Client, form: Any) -> None:
    complete_trial(client, 0, raw_data=form([0.91, 0.93, 0.9]), realized=REALIZED)
    trial = client._experiment.trials[0]
    assert outcome_record(trial)["repeats"] == {"growth": [0.91, 0.93, 0.9]}
    (mean, sem) = _observed(client._experiment)["growth"]
    assert mean == pytest.approx(np.mean([0.91, 0.93, 0.9]))
    assert sem == pytest.approx(np.std([0.91, 0.93, 0.9], ddof=1) / np.sqrt(3))
    (past,) = past_trials(client._experiment, SETTINGS)
    assert past.num_repeats == {"growth": 3}


def test_every_kind_of_client_takes_a_skipped_measurement(
    any_client: tuple[Any, Experiment],
) -> None:
    client, experiment = any_client
    complete_trial(client, 0, realized=REALIZED)
    assert experiment.trials[0].status.is_completed
    assert experiment.lookup_data().empty
    assert outcome_record(experiment.trials[0])["outcomes"] == {}
    assert spending(client).spent == 1.0


def test_numpy_scalars_are_stored_as_plain_numbers(client: Client) -> None:
    int_of_numpy: Any = np.int64(3)
    complete_trial(
        client,
        np.int64(0),  # type: ignore[arg-type]
        raw_data=(np.float32(0.5), np.float64(0.125)),  # type: ignore[arg-type]
        realized={"acid": np.float64(2.0), "plants": int_of_numpy, "soil": np.str_("clay")},
        cost=np.float64(0.0),
    )
    record = outcome_record(client._experiment.trials[0])
    assert json.loads(json.dumps(record)) == record
    assert record["outcomes"] == {"growth": [0.5, 0.125]}
    assert [type(value) for value in record["realized"].values()] == [float, int, str]


# From inside Ax; ``pytest.warns`` raises it anew as if it were ours.
@pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")
def test_value_outside_the_bounds_is_recorded_with_a_warning(client: Client) -> None:
    with pytest.warns(OutOfBoundsWarning, match=r"realized\['acid'\]=12.5 .* \[0.1, 10") as caught:
        complete_trial(client, 0, raw_data=1.0, realized={**REALIZED, "acid": 12.5})
    assert [w.filename for w in caught if w.category is OutOfBoundsWarning] == [__file__]
    assert outcome_record(client._experiment.trials[0])["realized"]["acid"] == 12.5


def test_a_trial_is_completed_once(any_client: tuple[Any, Experiment]) -> None:
    client, experiment = any_client
    complete_trial(client, 0, raw_data=1.0, realized=REALIZED)
    before = deepcopy(experiment.trials[0].run_metadata)
    with pytest.raises(UserInputError, match="trial 0 is already completed"):
        complete_trial(client, 0, raw_data=2.0, realized=REALIZED)
    assert experiment.trials[0].run_metadata == before
    assert _observed(experiment)["growth"][0] == 1.0


@pytest.mark.parametrize("status", ["ABANDONED", "FAILED"])
def test_only_a_running_trial_is_completed(client: Client, status: str) -> None:
    getattr(client, f"mark_trial_{status.lower()}")(0)
    with pytest.raises(UserInputError, match=f"trial 0 is {status}: only a running trial"):
        complete_trial(client, 0, raw_data=1.0, realized=REALIZED)


def test_nothing_is_claimed_that_ax_did_not_take(
    any_client: tuple[Any, Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, experiment = any_client
    trial = experiment.trials[0]
    before = {RECORD: {"note": "before"}} if isinstance(client, Client) else {}
    trial.update_run_metadata(before)

    def refuse(self: Trial) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(Trial, "mark_completed", refuse)
        with pytest.raises(OSError, match="disk full"):
            complete_trial(client, 0, raw_data=1.0, realized=REALIZED)
    assert trial.run_metadata == before
    assert experiment.lookup_data().empty
    complete_trial(client, 0, raw_data=2.0, realized=REALIZED)
    assert outcome_record(trial)["outcomes"] == {"growth": [2.0, None]}
    assert _observed(experiment)["growth"][0] == 2.0


def test_outcome_stays_if_only_saving_failed(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves = iter([OSError("no connection")])

    def save(*_: Any, **__: Any) -> None:
        if (error := next(saves)) is not None:
            raise error

    monkeypatch.setattr(client, "_save_or_update_trial_in_db_if_possible", save)
    with pytest.raises(OSError, match="no connection"):
        complete_trial(client, 0, raw_data=1.0, realized=REALIZED)
    trial = client._experiment.trials[0]
    assert trial.status.is_completed
    assert outcome_record(trial)["outcomes"] == {"growth": [1.0, None]}


def test_one_number_needs_an_objective_of_one_metric(client: Client) -> None:
    client.configure_optimization(objective="growth + height")
    with pytest.raises(UserInputError, match=r"\['growth', 'height'\]"):
        complete_trial(client, 0, raw_data=1.0, realized=REALIZED)
    complete_trial(client, 0, raw_data={"growth": 1.0, "height": 2.0}, realized=REALIZED)


BAD_INPUTS: list[tuple[dict[str, Any], str]] = [
    ({"trial_index": 7}, "trial_index=7"),
    ({"realized": None}, r"realized .*\['acid', 'plants', 'soil'\]"),
    ({"realized": {"plants": 3, "soil": "clay"}}, r"realized .*\['acid'\]"),
    ({"realized": {**REALIZED, "wind": 1.0}}, r"realized .*\['wind'\]"),
    ({"realized": {**REALIZED, "control_set": "water"}}, "realized .*control_set"),
    ({"realized": [1.5]}, "realized="),
    ({"realized": {**REALIZED, "acid": 0.0}}, r"realized\['acid'\]=0.0"),
    ({"realized": {**REALIZED, "soil": "loam"}}, r"realized\['soil'\]='loam'"),
    ({"raw_data": "high"}, "raw_data='high'"),
    ({"raw_data": True}, "raw_data=True"),
    ({"raw_data": 1e155}, "raw_data=1e.155"),
    ({"raw_data": 10**400}, "raw_data=1000"),
    ({"raw_data": (1.0, float("nan"))}, "sem in raw_data"),
    ({"raw_data": (1.0, 1e155)}, "sem in raw_data"),
    ({"raw_data": (1.0, 0.1, 0.2)}, "raw_data="),
    ({"raw_data": [1.0, float("nan")]}, r"raw_data\[1\]=nan"),
    ({"raw_data": []}, r"raw_data=\[\]"),
    ({"raw_data": {"growth": np.ones((2, 2))}}, r"raw_data\['growth'\]\[0\]"),
    ({"raw_data": {}}, "raw_data"),
    ({"raw_data": {"growth": float("nan")}}, r"raw_data\['growth'\]=nan"),
    ({"cost": "1"}, "cost='1'"),
    ({"cost": True}, "cost=True"),
]


@pytest.mark.parametrize(("change", "named"), BAD_INPUTS)
def test_bad_input_is_refused_and_changes_nothing(
    client: Client, change: dict[str, Any], named: str
) -> None:
    trial = client._experiment.trials[0]
    arguments = {"trial_index": 0, "raw_data": 1.0, "realized": REALIZED, "cost": 1.0, **change}
    with pytest.raises(UserInputError, match=named):
        complete_trial(client, **arguments)
    assert (trial.status.is_running, trial.run_metadata) == (True, {})
    assert client._experiment.lookup_data().empty
