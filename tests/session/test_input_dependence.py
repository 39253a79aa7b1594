"""Which pairs of inputs are tested for dependence, in which trials, and what the tests see."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, spearmanr

from ax_costaware import ControlSet, GaussianCopula, JointEmpirical, Uniform
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.control_sets.learned import RealizedInputs
from ax_costaware.queries import JointLaw
from ax_costaware.session.input_fit import independence_tests, joint_tests

pytestmark = pytest.mark.usefixtures("short_searches")

SETS = (ControlSet(["x"], 1.0), ControlSet(["x", "a"], 2.0, "x+a"))
NAMES = ("a", "b", "c")
CORRELATION = 0.8
COPULA = GaussianCopula(
    {name: Uniform(0, 1) for name in NAMES},
    [[1.0, CORRELATION, 0.0], [CORRELATION, 1.0, 0.0], [0.0, 0.0, 1.0]],
)


def rows(n: int, seed: int, correlation: float = CORRELATION) -> np.ndarray:
    """Values of a, b and c, of which a and b go together: ``n x 3``."""
    covariance = np.eye(3)
    covariance[0, 1] = covariance[1, 0] = correlation
    scores = np.random.default_rng(seed).multivariate_normal(np.zeros(3), covariance, n)
    return np.asarray(norm.cdf(scores))


def empirical(n: int = 200) -> JointEmpirical:
    """A sample of them."""
    return JointEmpirical({name: rows(n, 99)[:, i] for i, name in enumerate(NAMES)})


def trials_of(values: np.ndarray, controls_a: bool = False) -> list[RealizedInputs]:
    """Trials that leave a, b and c to chance, or control a, to the same value."""
    held = ["a"] if controls_a else []
    return [
        RealizedInputs(
            i,
            {"x": (0.618 * i) % 1.0, **{n: v for n, v in inputs.items() if n in held}},
            {n: v for n, v in inputs.items() if n not in held},
        )
        for i, inputs in enumerate(dict(zip(NAMES, row.tolist(), strict=True)) for row in values)
    ]


def settings_with(joint: JointLaw | None) -> ControlSets:
    """The control sets with a joint law, or with independent inputs."""
    marginals = {} if joint is not None else {name: Uniform(0, 1) for name in NAMES}
    return ControlSets(SETS, marginals=marginals, joint=joint)


@pytest.mark.parametrize("joint", [COPULA, empirical()], ids=["copula", "empirical"])
def test_joint_laws_that_hold_and_that_do_not(joint: JointLaw) -> None:
    """A wrong correlation is seen at a level of 0.01, a right one is not, but by rare chance."""
    settings = settings_with(joint)
    alarms, seen = 0, 0
    for seed in range(10):
        right = {t.names: t.p_value for t in joint_tests(trials_of(rows(40, seed)), settings)}
        assert set(right) == {("a", "b"), ("a", "c"), ("b", "c")}
        alarms += min(right.values()) < 0.01 / 3
        wrong = joint_tests(trials_of(rows(40, seed, correlation=-0.2)), settings)
        seen += {t.names: t.p_value for t in wrong}["a", "b"] < 0.01 / 3
    # 0.1 alarms are expected.
    assert alarms <= 1
    assert seen >= 9


def test_what_a_copula_leaves_is_tested_given_what_is_controlled() -> None:
    """Where a is controlled, only b and c are left, each in its law given a."""
    trials = trials_of(rows(30, 1), controls_a=True)
    (found,) = joint_tests(trials, settings_with(COPULA))
    assert (found.names, found.n) == (("b", "c"), 30)
    slope, spread = CORRELATION, (1 - CORRELATION**2) ** 0.5
    scores = norm.ppf(rows(30, 1))
    expected = spearmanr((scores[:, 1] - slope * scores[:, 0]) / spread, scores[:, 2])
    assert found.correlation == pytest.approx(expected.statistic, abs=1e-6)
    # The smoothed law of a sample would be a bad judge there.
    assert joint_tests(trials, settings_with(empirical())) == ()


def test_pairs_that_are_assumed_to_be_independent() -> None:
    """All but those of the joint law; inputs that are controlled count, too."""
    mixed = trials_of(rows(20, 2)) + trials_of(rows(12, 3), controls_a=True)
    found = independence_tests(mixed, NAMES, settings_with(None))
    # The one that is left to chance more often comes first: its trials are those that count.
    assert {t.names: t.n for t in found} == {
        ("b", "a"): 32, ("c", "a"): 32, ("b", "c"): 32, ("a", "x"): 20, ("b", "x"): 32,
        ("c", "x"): 32,
    }  # fmt: skip
    assert min(found, key=lambda t: t.p_value).names == ("b", "a")
    joint = independence_tests(mixed, NAMES, settings_with(COPULA))
    assert {t.names for t in joint} == {("a", "x"), ("b", "x"), ("c", "x")}


def test_few_trials_are_not_tested() -> None:
    trials = trials_of(rows(9, 4))
    assert independence_tests(trials, NAMES, settings_with(None)) == ()
    assert joint_tests(trials, settings_with(COPULA)) == ()
    assert joint_tests(trials, settings_with(None)) == ()
