"""What each trial is charged, by its status, its phase and what was reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ax.core.arm import Arm
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.parameter import ChoiceParameter, ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from ax.core.trial import Trial
from ax.exceptions.core import UnsupportedError, UserInputError

from ax_costaware.generators.control_set_settings import ControlSetSettings
from ax_costaware.ledger import ledger, remaining, spent
from ax_costaware.queries.control_sets import ControlSet
from ax_costaware.queries.marginals import Uniform
from ax_costaware.records import CONTROL_SET, RECORD


def _settings(**changes: Any) -> ControlSetSettings:
    return ControlSetSettings(
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


def _experiment(*control_sets: str) -> Experiment:
    return Experiment(
        name="ledger",
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


def test_stale_trial_is_free_and_candidate_reserves() -> None:
    experiment = _experiment()
    _add(experiment).mark_stale(unsafe=True)
    arm = Arm(parameters={CONTROL_SET: "x+y", "x": 0.1, "y": 0.5})
    experiment.new_trial(GeneratorRun(arms=[arm]))
    stale, candidate = ledger(experiment, _settings())
    assert (stale.status, stale.charged) == ("STALE", 0.0)
    assert (candidate.status, candidate.charged) == ("CANDIDATE", 4.0)


def test_phases_decide_what_is_initial() -> None:
    experiment = _experiment()
    for phase in (None, "initial", "rule", None, "rule"):
        _add(experiment, phase=phase)
    for charge_initial in (True, False):
        entries = ledger(experiment, _settings(charge_initial=charge_initial))
        assert [entry.initial for entry in entries] == [True, True, False, False, False]
        assert [entry.by_rule for entry in entries] == [False, False, True, False, True]
        assert spent(entries) == (5.0 if charge_initial else 3.0)


def test_expected_cost_is_the_one_of_the_decision() -> None:
    experiment = _experiment()
    _add(experiment, expected_cost=1.75)
    (entry,) = ledger(experiment, _settings())
    assert (entry.expected_cost, entry.charged) == (1.75, 1.75)


def test_remaining() -> None:
    experiment = _experiment()
    for cost in (0.1,) * 10:
        _add(experiment, record={"cost": cost})
    entries = ledger(experiment, _settings())
    assert spent(entries) == 1.0  # summed without accumulating rounding errors
    assert remaining(entries, 10.0) == 9.0
    assert remaining(entries, 0.25) == -0.75
    assert remaining(entries, None) is None
    assert (ledger(_experiment(), _settings()), spent(())) == ((), 0.0)


def test_unknown_control_set_is_refused() -> None:
    experiment = _experiment("x", "y")
    _add(experiment, "y", phase=None)
    with pytest.raises(UserInputError, match=r"trial 0 has control_set='y'.*\['x', 'x\+y'\]"):
        ledger(experiment, _settings())


def test_trial_with_several_arms_is_refused() -> None:
    experiment = _experiment()
    experiment.new_batch_trial().add_arm(Arm(parameters={CONTROL_SET: "x", "x": 0.1, "y": 0.5}))
    with pytest.raises(UnsupportedError, match="trial 0 is a BatchTrial"):
        ledger(experiment, _settings())
