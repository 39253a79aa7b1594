"""Decisions do not depend on units, nor on what else a process has set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from tests.audit.cases import CASES, decisions
from tests.fresh import ROOT

pytestmark = pytest.mark.slow


@cache
def usual(case: str) -> list[dict[str, Any]]:
    """Decisions in units of one."""
    return decisions(case)


def check_alike(
    found: list[dict[str, Any]], expected: list[dict[str, Any]], tolerance: float
) -> None:
    """The same trials, one after the other."""
    assert [
        {n: v if isinstance(v, str) else pytest.approx(v, abs=tolerance) for n, v in arm.items()}
        for arm in expected
    ] == found


@pytest.mark.filterwarnings("ignore:.*Optimization failed:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.OptimizationWarning")
@pytest.mark.parametrize("case", CASES)
def test_offset_of_the_objective(case: str) -> None:
    """The digits that are left decide: of a millionth of the offset there are ten."""
    check_alike(decisions(case, offset=1e6), usual(case), 1e-2)


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
