"""The session functions where a measurement costs and may be skipped."""

from __future__ import annotations

import pytest
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.core.arm import Arm
from ax.core.generator_run import GeneratorRun

from ax_costaware.ax_bridge.records import RECORD
from ax_costaware.methods.costly_feedback import CostlyFeedback
from ax_costaware.session import complete_trial, spending

from .conftest import KINDS, behind, strategy_with

pytestmark = pytest.mark.usefixtures("short_searches")


DECISION = {"rule": "MeasurementRule()", "confidence": 0.95, "mean": 0.5, "standard_deviation": 0.1}


def make(budget: float | None = 20.0) -> Client:
    """An experiment without trials; a measurement costs 2."""
    client = Client()
    client.configure_experiment(
        name="plants",
        parameters=[RangeParameterConfig("water", bounds=(0.0, 1.0), parameter_type="float")],
    )
    client.configure_optimization(objective="growth")
    client.configure_tracking_metrics(["hour"])
    settings = CostlyFeedback(cost=2.0, budget=budget, time="hour")
    client.set_generation_strategy(strategy_with(settings))
    return client


def generate(client: Client, measure: bool, phase: str = "rule") -> int:
    """A running trial as the strategy generates it."""
    record = {
        "measure": measure,
        "expected_cost": 2.0 if measure else 0.0,
        "why": "It is better than its rivals with probability 0.95.",
        "phase": phase,
        "decision": DECISION if phase == "rule" else {},
    }
    arm = Arm(parameters={"water": len(client._experiment.trials) / 16})
    run = GeneratorRun(arms=[arm], gen_metadata={RECORD: record})
    return client._experiment.new_trial(run).mark_running(no_runner_required=True).index


def observed(client: Client, trial_index: int) -> dict[str, float]:
    """Means among Ax's data of one trial, by metric."""
    frame = client._experiment.lookup_data([trial_index]).df
    return dict(zip(frame["metric_name"], frame["mean"], strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("measure", [True, False])
@pytest.mark.parametrize("hour", [None, 7.5])
def test_a_skipped_measurement_is_recorded_and_free(
    kind: str, measure: bool, hour: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether or not the strategy asked for it, and with a time or without."""
    client = make()
    index = generate(client, measure)
    assert spending(client).reserved == (2.0 if measure else 0.0)
    complete_trial(behind(kind, client), index, None if hour is None else {"hour": hour})
    assert client._experiment.trials[index].status.is_completed
    assert observed(client, index) == ({} if hour is None else {"hour": hour})
    paid = spending(client)
    (entry,) = paid.entries
    assert (entry.skipped, entry.charged, paid.spent, paid.remaining) == (True, 0.0, 0.0, 20.0)
    assert [entry for entry in caplog.records if entry.levelname == "WARNING"] == []


def test_a_measurement_that_nobody_asked_for_is_charged() -> None:
    client = make()
    index = generate(client, measure=False)
    complete_trial(client, index, {"growth": 1.0, "hour": 3.0})
    assert observed(client, index) == {"growth": 1.0, "hour": 3.0}
    (entry,) = spending(client).entries
    assert (entry.skipped, entry.expected_cost, entry.charged) == (False, 0.0, 2.0)


def test_a_measurement_that_comes_late_is_charged() -> None:
    client = make()
    index = generate(client, measure=True)
    complete_trial(client, index)
    client.attach_data(index, {"growth": 1.0})
    (entry,) = spending(client).entries
    assert (entry.skipped, entry.charged) == (False, 2.0)
