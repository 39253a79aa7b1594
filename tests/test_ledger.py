"""What each trial is charged, by its status, its phase and what was reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
import pytest
from ax.core.arm import Arm
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.objective import Objective
from ax.core.optimization_config import OptimizationConfig
from ax.core.parameter import ChoiceParameter, ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from ax.core.trial import Trial

from ax_costaware.ax_bridge.records import RECORD, past_trials
from ax_costaware.core.account import LedgerEntry, ledger_of, spent
from ax_costaware.core.method import Method
from ax_costaware.core.problem import Decision, Problem
from ax_costaware.core.traits import CONTROL_SET, Traits
from ax_costaware.core.trial_costs import TrialCosts
from ax_costaware.costs.control_set import ControlSet
from ax_costaware.laws.marginals import Uniform
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.space.parameters import Row


def ledger(experiment: Experiment, method: Method) -> tuple[LedgerEntry, ...]:
    """The ledger of an experiment."""
    return ledger_of(past_trials(experiment, method), method)


def _settings(**changes: Any) -> ControlSets:
    return ControlSets(
        **{
            "control_sets": (
                ControlSet(parameters=("x",), cost=1.0),
                ControlSet(parameters=("x", "y"), cost=4.0),
            ),
            "marginals": {"x": Uniform(0.0, 1.0), "y": Uniform(0.0, 1.0)},
            "budget": 10.0,
            "initial_trials": 1,
            **changes,
        }
    )


@dataclass(frozen=True)
class _Whole(Method):
    """A method whose trials control everything; cost 2 + x, or reported under ``metric``."""

    factory: ClassVar[str] = "whole_strategy"

    metric: str | None = None
    budget: float | None = 10.0
    charge_initial: bool = True
    seed: int = 0

    @property
    def trial_costs(self) -> TrialCosts:
        return TrialCosts(self, metric=self.metric)

    def cost_at(self, parameters: Row) -> float | None:
        return None if self.metric is not None else 2.0 + float(parameters["x"])

    def decide(self, problem: Problem) -> Decision:
        raise NotImplementedError


@dataclass(frozen=True)
class _Costly(_Whole):
    """The same for a method that may do without a measurement."""

    traits = Traits(may_skip=True)


def _observe(experiment: Experiment, trial_index: int, metric: str, value: float) -> None:
    """Data as anybody may attach them to an experiment."""
    row = {
        "trial_index": trial_index,
        "arm_name": f"{trial_index}_0",
        "metric_name": metric,
        "metric_signature": metric,
        "mean": value,
        "sem": float("nan"),
    }
    experiment.attach_data(Data(df=pd.DataFrame([row])))


def _experiment(*control_sets: str, objective: str | None = None) -> Experiment:
    return Experiment(
        name="ledger",
        optimization_config=None
        if objective is None
        else OptimizationConfig(
            Objective(expression=objective, metric_name_to_signature={"y": "y", "z": "z"})
        ),
        search_space=SearchSpace(
            [
                ChoiceParameter(
                    CONTROL_SET,
                    ParameterType.STRING,
                    list(control_sets or ("x", "x+y")),
                    is_ordered=False,
                    sort_values=False,
                ),
                RangeParameter("x", ParameterType.FLOAT, 0.0, 1.0),
                RangeParameter("y", ParameterType.FLOAT, 0.0, 1.0),
            ]
        ),
    )


def _add(
    experiment: Experiment,
    control_set: str = "x",
    phase: str | None = "rule",
    record: Mapping[str, Any] | None = None,
    expected_cost: float | None = None,
) -> Trial:
    """A running trial with what the generator and the user recorded of it."""
    arm = Arm(parameters={CONTROL_SET: control_set, "x": 0.5, "y": 0.5})
    metadata: dict[str, Any] = {}
    if phase is not None:
        metadata = {RECORD: {"phase": phase, "control_set": control_set}}
        if expected_cost is not None:
            metadata[RECORD]["expected_cost"] = expected_cost
    trial = experiment.new_trial(GeneratorRun(arms=[arm], gen_metadata=metadata))
    if record is not None:
        trial.update_run_metadata({RECORD: dict(record)})
    return trial.mark_running(no_runner_required=True)


@pytest.mark.parametrize(
    ("outcome", "cost", "charged"),
    [
        ("mark_completed", None, 4.0),
        ("mark_completed", 2.5, 2.5),
        ("mark_completed", 0.0, 0.0),
        ("mark_failed", None, 4.0),
        ("mark_failed", 3.0, 3.0),
        ("mark_abandoned", None, 0.0),
        ("mark_abandoned", 1.5, 1.5),
        ("mark_early_stopped", None, 4.0),
        (None, None, 4.0),
    ],
)
def test_charge_by_status(outcome: str | None, cost: float | None, charged: float) -> None:
    experiment = _experiment()
    trial = _add(experiment, "x+y", record={} if cost is None else {"cost": cost})
    if outcome is not None:
        getattr(trial, outcome)(**({"unsafe": True} if outcome == "mark_early_stopped" else {}))
    (entry,) = ledger(experiment, _settings())
    assert entry.charged == charged
    assert entry.reported_cost == cost
    assert entry.expected_cost == 4.0
    assert entry.status == trial.status.name
    assert entry.control_set == "x+y"


def test_phases_decide_what_is_initial() -> None:
    experiment = _experiment()
    for phase in (None, "initial", "rule", None, "rule"):
        _add(experiment, phase=phase)
    for charge_initial in (True, False):
        entries = ledger(experiment, _settings(charge_initial=charge_initial))
        assert [entry.initial for entry in entries] == [True, True, False, False, False]
        assert [entry.by_rule for entry in entries] == [False, False, True, False, True]
        assert spent(entries) == (5.0 if charge_initial else 3.0)


def test_unknown_costs_are_charged_the_mean_of_the_reported_ones() -> None:
    experiment, settings = _experiment(), _Whole(metric="hours")
    running = _add(experiment, phase=None)
    assert [(e.expected_cost, e.charged) for e in ledger(experiment, settings)] == [(None, 0.0)]
    for cost in (1.0, 4.0):
        _add(experiment, phase=None, record={"cost": cost}).mark_completed()
    _add(experiment, phase=None).mark_failed()
    _add(experiment, phase=None).mark_abandoned()
    _add(experiment, expected_cost=7.0).mark_failed()
    charged = [entry.charged for entry in ledger(experiment, settings)]
    assert charged == [2.5, 1.0, 4.0, 2.5, 0.0, 7.0]
    running.mark_completed()
    assert [entry.charged for entry in ledger(experiment, settings)] == charged


def test_metric_counts_where_no_cost_was_recorded() -> None:
    experiment, settings = _experiment(), _Whole(metric="hours")
    for cost in (3.0, None, None):
        record = {} if cost is None else {"outcomes": {"hours": [cost, None], "y": [1.0, None]}}
        _add(experiment, record=record).mark_completed()
    _observe(experiment, 1, "hours", 5.0)
    _observe(experiment, 1, "y", 6.0)
    _observe(experiment, 2, "y", 7.0)
    assert [t.reported_cost for t in past_trials(experiment, settings)] == [3.0, 5.0, None]
    assert [t.reported_cost for t in past_trials(experiment, _Whole())] == [None, None, None]


@pytest.mark.parametrize(
    ("recorded", "in_data", "reported"),
    [
        (1.2345678901234567e-7, 1.235e-7, 1.2345678901234567e-7),  # rounded to ten decimals
        (1.5e-12, 0.0, 1.5e-12),
        (3.0, 4.0, 4.0),  # changed after the record
        (3.0, float("nan"), 3.0),
        (None, 0.0, 0.0),
        (None, float("nan"), None),
    ],
)
def test_precision_of_a_reported_cost(
    recorded: float | None, in_data: float, reported: float | None
) -> None:
    experiment, settings = _experiment(), _Whole(metric="hours")
    _add(experiment, record={} if recorded is None else {"cost": recorded}).mark_completed()
    _observe(experiment, 0, "hours", in_data)
    (trial,) = past_trials(experiment, settings)
    assert trial.reported_cost == reported


@pytest.mark.parametrize(
    ("expected", "value", "cost", "charged"),
    [
        (2.5, 1.0, None, 2.5),
        (1.0, 1.0, None, 1.0),  # as an earlier strategy had it
        (2.5, None, None, 0.0),
        (2.5, float("nan"), None, 0.0),
        (0.0, None, None, 0.0),
        (0.0, None, 0.5, 0.5),
        (0.0, 1.0, None, 2.5),
        (0.0, 1.0, 0.5, 0.5),
    ],
)
def test_a_skipped_measurement_is_free(
    expected: float, value: float | None, cost: float | None, charged: float
) -> None:
    """Whether it was skipped is a matter of what was reported, not of what was asked for."""
    experiment = _experiment(objective="-y")
    record = {} if cost is None else {"cost": cost}
    trial = _add(experiment, record=record, expected_cost=expected)
    assert ledger(experiment, _Costly())[0].skipped is False
    _observe(experiment, 0, "hours", 3.0)
    if value is not None:
        _observe(experiment, 0, "y", value)
    trial.mark_completed()
    (entry,) = ledger(experiment, _Costly())
    assert entry.charged == charged
    assert entry.skipped is (value is None or value != value)


def test_unfinished_trial_reserves_a_measurement_only_if_it_was_asked_for() -> None:
    experiment = _experiment(objective="y")
    for expected_cost in (2.5, 0.0):
        _add(experiment, expected_cost=expected_cost)
        _add(experiment, expected_cost=expected_cost).mark_failed()
    entries = ledger(experiment, _Costly())
    assert [entry.charged for entry in entries] == [2.5, 2.5, 0.0, 0.0]
    assert not any(entry.skipped for entry in entries)


def test_what_was_measured_for_another_objective_stays_paid() -> None:
    """It was taken for skipped, and given back, as soon as the objective was changed."""
    experiment = _experiment(objective="z")
    for measured in ("y", "hours"):
        trial = _add(experiment, record={"outcomes": {measured: [1.0, None]}}, expected_cost=2.5)
        assert trial.generator_run is not None
        assert trial.generator_run.gen_metadata is not None
        trial.generator_run.gen_metadata[RECORD]["objective"] = "y"
        trial.mark_completed()
    entries = ledger(experiment, _Costly())
    assert [(entry.charged, entry.skipped) for entry in entries] == [(2.5, False), (0.0, True)]
