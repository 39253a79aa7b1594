"""Decisions do not depend on units, nor on what else a process has set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from ax.api.client import Client

import ax_costaware as ac
from ax_costaware.testing import MethodContract
from tests.contract import test_averages as averages
from tests.contract import test_control_sets as control_sets
from tests.contract import test_cost_aware as cost_aware
from tests.contract import test_costly_feedback as costly_feedback
from tests.fresh import ROOT


def decisions(
    contract: MethodContract, scale: float = 1.0, offset: float = 0.0, unit: float = 1.0
) -> list[dict[str, Any]]:
    """Return the trials of a run, with outcomes and costs in other units."""
    client: Client = contract.client()
    client.set_generation_strategy(contract.strategy(unit))
    arms: list[dict[str, Any]] = []
    for _ in range(contract.method.initial_trials + 3):
        for index, arm in client.get_next_trials(max_trials=1).items():
            arms.append(dict(arm))
            realized = dict(contract.realized(arm, index))
            value = scale * (contract.outcome({**arm, **realized}) + offset)
            measure = ac.query(client, index).measure
            ac.complete_trial(client, index, value if measure else None, realized or None)
    return arms


def check_alike(found: list[Any], expected: list[Any], tolerance: float) -> None:
    """The same trials, one after the other."""
    assert [
        {n: v if isinstance(v, str) else pytest.approx(v, abs=tolerance) for n, v in arm.items()}
        for arm in expected
    ] == found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*Optimization failed:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.OptimizationWarning")
@pytest.mark.parametrize(
    "contract",
    [
        cost_aware.TestCostAware(),
        control_sets.TestControlSets(),
        costly_feedback.TestCostlyFeedback(),
        averages.TestIndirectQueries(),
        averages.TestResolutionTree(),
    ],
)
def test_offset_of_the_objective(contract: MethodContract) -> None:
    """The digits that are left decide: of a millionth of the offset there are ten."""
    check_alike(decisions(contract, offset=1e6), decisions(contract), 1e-2)


@pytest.mark.usefixtures("short_searches")
def test_extreme_units() -> None:
    """Of outcomes and costs, where hyperparameters are fitted."""
    contract = cost_aware.TestCostAware()
    usual = decisions(contract)
    for scale, unit in ((1e-30, 1 / 3), (1e30, 3.0)):
        check_alike(decisions(contract, scale, unit=unit), usual, 1e-3)


CONSTRAINED = """
import json, logging
logging.disable(logging.WARNING)
import ax_costaware as ac
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig as Range
client = Client()
client.configure_experiment(
    parameters=[
        Range(name="a", bounds=(1, 9), parameter_type="int"),
        Range(name="b", bounds=(1, 9), parameter_type="int"),
        Range(name="x", bounds=(0, 1), parameter_type="float"),
        Range(name="n", bounds=(1, 50), parameter_type="int", scaling="log"),
    ],
    parameter_constraints=["a + b <= 9", "x + a <= 6"],
)
client.configure_optimization(objective="y")
client.set_generation_strategy(ac.cost_aware_strategy(1.0, budget=40, initial_trials=3))
arms = []
for _ in range(5):
    for index, arm in client.get_next_trials(max_trials=1).items():
        arms.append(arm)
        ac.complete_trial(client, index, arm["x"] + arm["a"] - 0.1 * arm["b"] ** 2)
print(json.dumps(arms))
"""


@pytest.mark.slow
def test_seed_of_hashes() -> None:
    """Ax iterates over sets of parameters; two processes with one seed decide alike."""
    found = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", CONSTRAINED],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout.splitlines()[-1]
        for seed in ("1", "2", "3")
    ]
    check_alike(json.loads(found[1]), json.loads(found[0]), 1e-6)
    check_alike(json.loads(found[2]), json.loads(found[0]), 1e-6)
