"""Times of trials: their index, or what was reported, and the median step onwards."""

from __future__ import annotations

import pytest
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig

from ax_costaware.generators.trial_times import TrialTimes, trial_times
from ax_costaware.records import RECORD


def test_index_as_time() -> None:
    times = TrialTimes(None, 7)
    assert [times[i] for i in (0, 3, 12)] == [0.0, 3.0, 12.0]
    assert times.now == 7.0


@pytest.mark.parametrize(
    ("reported", "now"),
    [
        ({}, 0.0),
        ({0: 2.5}, 2.5),
        ({0: 1.0, 1: 2.0}, 7.0),  # one step a trial: the sixth trial comes at six steps
        ({0: 0.0, 4: 2.0}, 3.0),  # half a step a trial
        ({0: 0.0, 1: 1.0, 2: 2.0, 3: 50.0}, 53.0),  # a break does not change the pace
        ({0: 5.0, 1: 5.0}, 5.0),
        ({0: 0.0, 1: 9.0, 2: 1.0, 3: 2.0}, 9.0),  # a late trial is after what was reported
    ],
)
def test_time_goes_on_by_the_median_step(reported: dict[int, float], now: float) -> None:
    times = TrialTimes(reported, 6)
    assert times.now == pytest.approx(now)
    assert all(times[i] == t for i, t in reported.items())
    assert times[7] >= times.now


def test_reported_under_a_metric() -> None:
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
    times = trial_times(client._experiment, "clock")
    assert times.reported == {0: exact, 2: exact + 60}
    assert times[1] == exact + 60, "a report that is missing"
    assert times.now == pytest.approx(exact + 90, rel=1e-15)
    assert trial_times(client._experiment, None).now == 3.0
