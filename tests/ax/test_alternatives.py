"""The alternatives by argument: acquisition, rule and beta, each through Ax's Client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from ax.api.protocols import IMetric, IRunner
from ax.core.trial_status import TrialStatus
from ax.core.types import TParameterization

from ax_costaware import (
    EpsilonSchedule,
    ExploreThenCommit,
    LargestValuePerCost,
    TheoreticalBeta,
    recommend,
    spending,
)
from ax_costaware.ax_bridge.node import fitted_problem, method_of_class
from ax_costaware.ax_bridge.records import RECORD
from ax_costaware.core.problem import reproducible
from ax_costaware.methods import ControlSets
from ax_costaware.models import information_gain
from tests.ax.toy import CONTROL_SETS, make_client, objective, realize, record, run_trials
from tests.repeats import mostly_slow

pytestmark = pytest.mark.usefixtures("short_searches")


@pytest.mark.parametrize("acquisition", mostly_slow(["ucb", "ei", "ts"], ["ei", "ts"]))
@pytest.mark.parametrize(
    ("rule", "chosen"),
    [
        # The full set is worth at least as much as any other, so nothing else is ever chosen.
        (EpsilonSchedule.constant(0.0), {"x1+x2+x3"}),
        (LargestValuePerCost(), {s.name for s in CONTROL_SETS}),
        (ExploreThenCommit(1), {s.name for s in CONTROL_SETS}),
    ],
)
def test_acquisitions_and_rules(acquisition: str, rule: Any, chosen: set[str]) -> None:
    client = make_client(acquisition=acquisition, rule=rule, initial_trials=4)
    arms = run_trials(client, 7)
    assert {arm["control_set"] for arm in arms[4:]} <= chosen
    values = record(client, 6)["decision"]["values"]
    assert values
    if acquisition == "ei":
        assert all(value >= 0 for value in values.values())


def test_theoretical_beta_follows_the_information_gain() -> None:
    beta = TheoreticalBeta(norm_bound=1.0, noise_std=0.1, delta=0.1)
    client = make_client(beta=beta, rule=EpsilonSchedule.constant(0.0), initial_trials=4)
    run_trials(client, 6)
    problem = fitted_problem(client._experiment, client._generation_strategy)
    method = method_of_class(client._generation_strategy, ControlSets)
    now = beta(information_gain(problem.model), len(CONTROL_SETS))
    assert now > 1.0
    with reproducible(0):
        decided = method.decide(problem)
        assert replace(method, beta=now).decide(problem) == decided
        assert replace(method, beta=2 * now).decide(problem) != decided


class _Plant(IRunner, IMetric):
    """Realises the inputs that a trial does not control, as an environment would."""

    def __init__(self) -> None:
        super().__init__(name="y")
        self.arms: dict[int, dict[str, Any]] = {}

    def run_trial(self, trial_index: int, parameterization: TParameterization) -> dict[str, Any]:
        self.arms[trial_index] = dict(parameterization)
        return {RECORD: {"realized": realize(trial_index, self.arms[trial_index])}}

    def poll_trial(self, trial_index: int, trial_metadata: Mapping[str, Any]) -> TrialStatus:
        return TrialStatus.COMPLETED

    def stop_trial(self, trial_index: int, trial_metadata: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    def fetch(self, trial_index: int, trial_metadata: Mapping[str, Any]) -> tuple[int, float]:
        realized = trial_metadata[RECORD]["realized"]
        return 0, objective({**self.arms[trial_index], **realized})


def test_run_trials_ends_by_itself_at_the_budget() -> None:
    """The Orchestrator behind ``Client.run_trials`` takes the same strategy."""
    client = make_client(budget=2.0, rule=ExploreThenCommit(2), initial_trials=4)
    plant = _Plant()
    client.configure_runner(plant)
    client.configure_metrics([plant])
    client.run_trials(max_trials=30, parallelism=1, initial_seconds_between_polls=0)
    spent = spending(client)
    assert 2.0 - 0.1 < spent.spent <= 2.0 + 1e-9
    assert recommend(client).expected_value > -0.1
