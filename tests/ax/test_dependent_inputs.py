"""The strategy with learned and dependent inputs, end to end."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from ax.api.client import Client

from ax_costaware import (
    GaussianCopula,
    JointEmpirical,
    Learned,
    Uniform,
    complete_trial,
    recommend,
)
from ax_costaware.laws.joint import JointLaw
from ax_costaware.session import Recommendation
from tests.ax.toy import MARGINALS, arm_of, complete, make_client, record

pytestmark = pytest.mark.usefixtures("short_searches")


RNG = np.random.default_rng(0)
X1 = RNG.random(60)
FRAME = {"x1": X1.tolist(), "x2": (0.9 * X1 + 0.1 * RNG.random(60)).tolist()}
COPULA = GaussianCopula({n: Uniform(0, 1) for n in ("x1", "x2")}, [[1.0, 0.95], [0.95, 1.0]])
JOINTS = [JointEmpirical(FRAME), COPULA]
LEARNED = {"x3": Learned(Uniform(0.0, 1.0), 3.0)}


def best_alone(client: Client) -> Recommendation:
    """What to do with the control set of x1 alone."""
    found = recommend(client)
    (alone,) = [r for r in (found, *found.alternatives) if r.control_set == "x1"]
    return alone


@pytest.mark.usefixtures("full_searches")
def test_learned_inputs_change_what_is_best() -> None:
    """Where x1 should be equal to x3, it follows the mean of what x3 turns out to be."""
    client = make_client(marginals={**MARGINALS, **LEARNED}, initial_trials=0)

    def add(control_set: str, x: dict[str, float], realized: dict[str, float]) -> None:
        index = client.attach_trial({**x, "control_set": control_set})
        real = {**x, **realized}
        complete_trial(client, index, -((real["x1"] - real["x3"]) ** 2), realized=realized)

    for i in range(36):
        add("x1+x2+x3", {"x1": i % 6 / 5, "x2": (i * 0.618) % 1.0, "x3": i // 6 / 5}, {})
    assert best_alone(client).parameters["x1"] == pytest.approx(0.5, abs=0.04)
    for i in range(12):
        add("x1", {"x1": i / 11, "x2": 0.5, "x3": 0.5}, {"x2": (i * 0.618) % 1.0, "x3": 0.1})
    mean = (3 * 0.5 + 12 * 0.1) / 15
    assert best_alone(client).parameters["x1"] == pytest.approx(mean, abs=0.04)
    fixed = {"control_set": "x1"}
    ((index, arm),) = client.get_next_trials(max_trials=1, fixed_parameters=fixed).items()
    assert arm["x3"] == 0.5, "nominal values stay those of the prior"
    assert record(client, index)["phase"] == "rule"


@cache
def best_of_a_grid(sign: float, joint: JointLaw | None = None) -> Recommendation:
    """What to do with the control set of x1 alone, of a law of x1 and x2, or of none."""
    laws = {"marginals": {"x3": Uniform(0, 1)}, "joint": joint} if joint else {}
    client = make_client(initial_trials=0, minimize=sign < 0, **laws)
    for i in range(36):
        x = {"x1": i % 6 / 5, "x2": i // 6 / 5, "x3": (i * 0.618) % 1.0}
        index = client.attach_trial({**x, "control_set": "x1+x2+x3"})
        complete(client, index, arm_of(client, index), sign)
    return best_alone(client)


@pytest.mark.parametrize(("joint", "sign"), [(JOINTS[0], 1.0), (JOINTS[1], -1.0)])
def test_dependence_is_exploited(joint: JointLaw, sign: float) -> None:
    """Where x2 goes with x1, the best x1 alone lies between the optima of the two.

    The objective is -(x1 - 0.3)^2 - (x2 - 0.7)^2 - ...: with x2 = x1 its best is at 0.5, with x2
    independent of x1 at 0.3.
    """
    dependent = best_of_a_grid(sign, joint)
    independent = best_of_a_grid(sign)
    assert independent.parameters["x1"] == pytest.approx(0.3, abs=0.05)
    assert dependent.parameters["x1"] == pytest.approx(0.5, abs=0.06)
    gain = sign * (dependent.expected_value - independent.expected_value)
    assert gain > 0.02, "a law that is known and exploited is worth something"
