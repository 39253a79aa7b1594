"""When a round is worth measuring, by plain numbers."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from ax_costaware.exceptions import InputError
from ax_costaware.methods import (
    BernoulliRule,
    CompactDomainBeta,
    FeedbackRule,
    FiniteDomainBeta,
    FullFeedback,
    LCBUCBRule,
    LogarithmicBeta,
    MeasurementChoice,
    MeasurementRule,
    MixedRule,
    Prospect,
    Rivals,
)
from ax_costaware.methods.costly_feedback.rules import checked_measurement


def rivals(mean: list[float], variance: list[float], covariance: list[float] | None = None) -> Any:
    return Rivals(
        np.array(mean), np.array(variance), None if covariance is None else np.array(covariance)
    )


def never() -> float:
    raise AssertionError("the rule draws nothing")


def decide(
    rule: FeedbackRule, mean: float, variance: float, others: Rivals | None, *draws: float
) -> MeasurementChoice:
    given = iter(draws)
    draw = (lambda: next(given)) if draws else never
    return rule.decide(Prospect(mean, variance, 4.0, draw, others))


@pytest.mark.parametrize("joint", [False, True])
def test_confidence_is_the_smallest_probability_of_being_better(joint: bool) -> None:
    others = rivals([0.5, 0.9, -1.0], [0.3, 0.01, 4.0], [0.1, -0.05, 0.2])
    rule = MeasurementRule(0.9, joint=joint)
    found = decide(rule, 1.0, 0.2, others)
    spread = others.variance + 0.2 - (2 * others.covariance if joint else 0)
    expected = norm.cdf((1.0 - others.mean) / np.sqrt(spread)).min()
    assert found.confidence == pytest.approx(expected, rel=1e-12)
    assert found.measure == (expected < 0.9)


def test_joint_confidence_is_that_of_samples() -> None:
    generator = np.random.default_rng(0)
    covariance = np.array([[0.5, 0.3], [0.3, 0.4]])
    samples = generator.multivariate_normal([1.0, 0.6], covariance, size=400_000)
    found = decide(MeasurementRule(0.9), 1.0, 0.5, rivals([0.6], [0.4], [0.3]))
    assert found.confidence == pytest.approx((samples[:, 0] > samples[:, 1]).mean(), abs=0.003)


@pytest.mark.parametrize(("kappa", "measure"), [(0.84, False), (0.85, True)])
def test_kappa_is_where_measuring_begins(kappa: float, measure: bool) -> None:
    # One standard deviation of the difference: a probability of 0.8413.
    rule = MeasurementRule(kappa, joint=False)
    found = decide(rule, 1.0, 0.5, rivals([0.0], [0.5]))
    assert found.measure is measure
    assert "0.841" in found.reason
    assert ("not below" in found.reason) is not measure


@pytest.mark.parametrize(("mean", "measure"), [(4.9, True), (5.0, True), (5.1, False)])
def test_bounds_that_overlap_are_measured(mean: float, measure: bool) -> None:
    # beta = 4: intervals of two standard deviations, here 2 and 1 wide.
    others = rivals([0.0, 2.0], [0.25, 0.25])
    assert decide(LCBUCBRule(), mean, 1.0, others).measure is measure


def test_lcb_ucb_measures_whatever_a_confident_rule_does() -> None:
    """Lemma 8: with kappa up to Phi(sqrt(2 beta)) the rule measures less than LCB-UCB."""
    generator = np.random.default_rng(1)
    kappa = float(norm.cdf(2.0))
    for _ in range(200):
        mean, variance = generator.normal(1.0, 2.0), generator.uniform(0.01, 1)
        others = rivals(list(generator.normal(size=5)), list(generator.uniform(0.01, 1, size=5)))
        if decide(MeasurementRule(kappa, joint=False), mean, variance, others).measure:
            assert decide(LCBUCBRule(), mean, variance, others).measure


def test_bernoulli_measures_its_quota() -> None:
    assert decide(BernoulliRule(0.3), 0.0, 1.0, None, 0.29).measure
    assert not decide(BernoulliRule(0.3), 0.0, 1.0, None, 0.3).measure
    assert not decide(BernoulliRule(0.0), 0.0, 1.0, None, 0.0).measure
    assert decide(BernoulliRule(1.0), 0.0, 1.0, None, math.nextafter(1.0, 0.0)).measure


@pytest.mark.parametrize(
    ("sure", "draws", "measure"),
    [
        (True, (0.1,), True),  # the lower quota
        (True, (0.5,), False),  # nothing to learn
        (False, (0.5, 0.49), True),  # something to learn, within what is left: 0.4 of 0.8
        (False, (0.5, 0.51), False),  # and beyond it
    ],
)
def test_a_mixed_rule_keeps_its_quotas(sure: bool, draws: tuple[float, ...], measure: bool) -> None:
    rule = MixedRule(MeasurementRule(0.9, joint=False), lower=0.2, upper=0.6)
    others = rivals([-9.0 if sure else 0.0], [0.1])
    assert decide(rule, 0.0, 0.1, others, *draws).measure is measure


def test_a_mixed_rule_without_quotas_is_its_rule() -> None:
    generator = np.random.default_rng(2)
    rule = MeasurementRule(0.9)
    mixed = MixedRule(rule, lower=0.0, upper=1.0)
    assert (mixed.compare, mixed.joint) == (rule.compare, rule.joint)
    for _ in range(20):
        others = rivals([generator.normal()], [0.1], [0.02])
        assert decide(mixed, 0.5, 0.1, others, 0.0, 0.99) == decide(rule, 0.5, 0.1, others)


@pytest.mark.parametrize(("reach", "share"), [(True, 0.5), (False, 0.2 + 0.8 * 0.3)])
def test_line_8_does_not_reach_the_upper_quota(reach: bool, share: float) -> None:
    rule = MixedRule(FullFeedback(), 0.2, 0.5, reach_upper=reach)
    draw = np.random.default_rng(4).random
    measured = [rule.decide(Prospect(0.0, 1.0, 1.0, draw)).measure for _ in range(20_000)]
    assert np.mean(measured) == pytest.approx(share, abs=0.012)


@pytest.mark.parametrize(
    ("nu", "dimension", "eps", "quota"),
    [
        (math.inf, 1, 0.01, 500 * 0.01 ** (1 / 7)),
        (math.inf, 3, 1e-9, 500 ** (2 / 3)),
        # c = 6 / (5 + 6)
        (2.5, 2, 0.01, 500 * 0.01 ** ((1 - 6 / 11) / (7 - 18 / 11))),
        (2.5, 2, 1e-9, 500 ** (2 / (3 - 6 / 11))),
    ],
)
def test_quotas_of_corollary_6(nu: float, dimension: int, eps: float, quota: float) -> None:
    assert 500 * BernoulliRule.balanced(500, eps, nu, dimension).quota == pytest.approx(quota)


@pytest.mark.parametrize(
    "rule", [MeasurementRule(), LCBUCBRule(), MixedRule(MeasurementRule(), 0.0, 1.0)]
)
def test_a_comparison_needs_rivals(rule: FeedbackRule) -> None:
    with pytest.raises(InputError, match="rivals"):
        decide(rule, 0.0, 1.0, None, 0.5)
    single = decide(rule, 0.0, 1.0, rivals([], [], []), 0.5)
    assert not single.measure
    assert "only local optimum" in single.reason


@pytest.mark.parametrize(
    "rule",
    [
        MeasurementRule(0.8, "local_optima", joint=False),
        LCBUCBRule("local_optima"),
        BernoulliRule(0.4),
        MixedRule(MeasurementRule(0.7), 0.1, 0.5),
        FullFeedback(),
    ],
)
def test_rules_are_values(rule: Any) -> None:
    assert rule == dataclasses.replace(rule)
    assert hash(rule) == hash(dataclasses.replace(rule))
    assert eval(repr(rule)) == rule


def test_beta_of_the_theorems() -> None:
    """Theorems 4 and 7, with numbers put in."""
    assert [LogarithmicBeta()(t) for t in (1, 10)] == [0.8 * math.log(4), 0.8 * math.log(40)]
    assert LogarithmicBeta(scale=2.0, rate=3.0)(5) == 2 * math.log(15)
    assert FiniteDomainBeta(1000, 0.1)(7) == pytest.approx(
        2 * math.log(1000 * 7**2 * math.pi**2 / (6 * 0.1))
    )
    d, r, a, b, delta, t = 3, 2.0, 1.5, 0.7, 0.05, 4
    assert CompactDomainBeta(d, a, b, r, delta)(t) == pytest.approx(
        2 * math.log(t**2 * 2 * math.pi**2 / (3 * delta))
        + 2 * d * math.log(t**2 * d * b * r * math.sqrt(math.log(4 * d * a / delta)))
    )
    assert CompactDomainBeta(1, 1.0, 1e-9)(1) == 0.0


@pytest.mark.parametrize("rule", [MeasurementRule(0.6), LCBUCBRule()])
def test_a_point_that_may_be_infeasible_is_measured(rule: FeedbackRule) -> None:
    """Although it is better than its rival for certain; within the quotas of a mixed rule."""
    rivals = Rivals(np.array([-5.0]), np.array([1e-6]), np.array([0.0]))

    def decide(rule: FeedbackRule, chance: float | None, drawn: float = 0.5) -> MeasurementChoice:
        return rule.decide(Prospect(5.0, 1e-6, 1.0, lambda: drawn, rivals, chance))

    assert not decide(rule, None).measure
    assert decide(rule, 0.7).measure
    assert "feasible with probability 0.7 only" in decide(rule, 0.7).reason
    assert decide(MixedRule(rule, 0.0, 0.6), 0.7).measure
    assert not decide(MixedRule(rule, 0.0, 0.4), 0.7).measure
    assert not decide(BernoulliRule(0.4), 0.7).measure


@pytest.mark.parametrize(
    "decision",
    [
        None,
        True,
        MeasurementChoice("yes", "r"),
        MeasurementChoice(None, "r"),
        MeasurementChoice(True, None),
        MeasurementChoice(True, "r", math.nan),
        MeasurementChoice(True, "r", "high"),
        MeasurementChoice(True, "r", 2.0),
    ],
)
def test_what_a_rule_of_ones_own_may_say(decision: Any) -> None:
    """What is neither True nor False, or no confidence, was stored with the trial."""
    with pytest.raises(InputError, match="FullFeedback"):
        checked_measurement(FullFeedback(), decision)
    plain = checked_measurement(FullFeedback(), MeasurementChoice(np.bool_(True), "r"))  # type: ignore[arg-type]
    assert plain.measure is True
    known = MeasurementChoice(True, "r", np.float32(0.5))  # type: ignore[arg-type]
    assert type(checked_measurement(FullFeedback(), known).confidence) is float


RULE = MeasurementRule()


@pytest.mark.parametrize(
    ("cls", "arguments", "name"),
    [
        *(
            (MeasurementRule, {"kappa": x}, "kappa")
            for x in (0.0, 1.0, math.nan, "0.9", None, True)
        ),
        (MeasurementRule, {"compare": "all"}, "compare='all'"),
        (MeasurementRule, {"joint": 1}, "joint=1"),
        (LCBUCBRule, {"compare": "all"}, "compare='all'"),
        *((BernoulliRule, {"quota": x}, "quota") for x in (-0.1, 1.1, math.nan, "half", None)),
        (MixedRule, {"rule": RULE, "lower": 0.6, "upper": 0.2}, "lower=0.6, upper=0.2"),
        (MixedRule, {"rule": RULE, "lower": -1, "upper": 0.2}, "lower=-1"),
        (MixedRule, {"rule": 0.9, "lower": 0.1, "upper": 0.2}, "rule=0.9"),
        (LogarithmicBeta, {"scale": 0.0}, "scale"),
        (LogarithmicBeta, {"scale": math.nan}, "scale"),
        (LogarithmicBeta, {"rate": 1.0}, "rate"),
        (FiniteDomainBeta, {"num_points": 0}, "num_points"),
        (FiniteDomainBeta, {"num_points": 5, "delta": 1.0}, "delta"),
        (CompactDomainBeta, {"dimension": 1, "a": 0.01, "b": 1.0}, "a=0.01"),
    ],
)
def test_refused_by_name(cls: Any, arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(InputError, match=name):
        cls(**arguments)


def test_a_joint_rule_needs_covariances() -> None:
    with pytest.raises(InputError, match="covariance=None"):
        decide(MeasurementRule(), 0.0, 1.0, rivals([0.0], [1.0]))
