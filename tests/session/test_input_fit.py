"""The report on uncontrolled inputs: which values are tested against which law."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from ax.exceptions.core import UserInputError
from scipy.stats import kstest

from ax_costaware import (
    JointEmpirical,
    Learned,
    Uniform,
    cost_aware_strategy,
    input_fit,
)
from ax_costaware.laws.input_fit import conditional_fit_of
from tests.session.inputs_toy import LAWS, add_trial, make_client, trials_as_assumed


def test_tests_of_what_was_left_to_chance() -> None:
    """Controlled values and arms do not count; SciPy says the same."""
    trials = [*trials_as_assumed(32), ("all", 0.5, 0.5, "red")]
    client = make_client(trials)
    client.attach_trial({"control_set": "x", "x": 0.1, "wind": 0.5, "lamp": "blue"})  # runs
    report = input_fit(client)
    winds = [wind for name, _, wind, _ in trials if name == "x"]
    wind, lamp = report.fits
    assert (wind.name, wind.n, lamp.name, lamp.n) == ("wind", 24, "lamp", 32)
    assert wind.p_value == pytest.approx(kstest(winds, "uniform").pvalue)
    assert wind.realised_mean == pytest.approx(np.mean(winds))
    assert (wind.assumed_mean, lamp.assumed_mean) == (0.5, None)
    assert report.agrees
    assert list(report.to_frame()["agrees"]) == [True, True]


def test_a_law_that_does_not_hold_is_named() -> None:
    trials = [(s, x, 0.5 + 0.5 * wind, lamp) for s, x, wind, lamp in trials_as_assumed(40)]
    report = input_fit(make_client(trials))
    assert (report.disagreeing, report.agrees) == (("wind",), False)
    assert "wind" in report.verdict
    assert list(report.to_frame()["agrees"]) == [False, True]
    # A level that nothing reaches: no alarm.
    assert input_fit(make_client(trials), significance=1e-12).agrees


def test_learned_laws_are_tested_against_what_was_learned_before() -> None:
    """A change is seen; a wrong prior with little weight is forgiven, and one with much is not."""
    steady = [("x", x, 0.3 + 0.2 * w, lamp) for _, x, w, lamp in trials_as_assumed(40, seed=5)]

    def laws(strength: float) -> dict[str, Any]:
        wind = Learned(Uniform(0.0, 1.0), strength)
        return {"wind": wind, "lamp": Learned(LAWS["lamp"], strength)}

    client = make_client(steady, marginals=laws(4.0))
    assert input_fit(client).agrees
    assert input_fit(make_client(steady, marginals=laws(400.0))).disagreeing == ("wind",)
    late = [0.7 + 0.2 * w for _, _, w, _ in trials_as_assumed(14, seed=6)]
    for wind in late:
        add_trial(client, "x", 0.5, wind, "red")
    report = input_fit(client, last=14)
    assert report.disagreeing == ("wind", "lamp")
    past = [w for _, _, w, _ in steady]
    before = [Learned(Uniform(0.0, 1.0), 4.0).updated([*past, *late[:i]]) for i in range(14)]
    # No value came twice: below it and up to it the law has the same probability.
    at = []
    for law, wind in zip(before, late, strict=True):
        chance = float(law.cdf(torch.tensor(wind, dtype=torch.double)))
        at.append((chance, chance))
    expected = conditional_fit_of("wind", late, at, before[0])
    assert report.fits[0].p_value == pytest.approx(expected.p_value)
    mean = np.mean([law.expectation for law in before])
    assert report.fits[0].assumed_mean == pytest.approx(mean)
    square = np.mean([law.variance + law.expectation**2 for law in before])
    assert report.fits[0].assumed_std == pytest.approx((square - mean**2) ** 0.5)
    assert report.laws["wind"] == before[0].updated(late)


def test_joint_laws_are_tested_given_what_was_controlled() -> None:
    """A wind that follows x, as the law says, agrees; one that does not, disagrees."""
    rng = np.random.default_rng(7)
    past = rng.random(200)
    noise = rng.random(200)
    frame = {"x": past.tolist(), "wind": (0.5 * past + 0.5 * noise).tolist()}
    joint = JointEmpirical(frame)
    options: dict[str, Any] = {"marginals": {"lamp": LAWS["lamp"]}, "joint": joint}
    # The experiment sets x to high values only, so the winds are high: the law expects that.
    high = [
        ("x", 0.8 + 0.2 * x, 0.5 * (0.8 + 0.2 * x) + 0.5 * wind, lamp)
        for _, x, wind, lamp in trials_as_assumed(30)
    ]
    report = input_fit(make_client(high, **options))
    assert report.agrees
    bounds = [joint.cdf_given("wind", wind, {"x": x}) for _, x, wind, _ in high]
    expected = conditional_fit_of(
        "wind", [w for _, _, w, _ in high], bounds, joint.marginal("wind"), law_size=200
    )
    assert report.fits[0].p_value == expected.p_value
    assert report.fits[0].assumed_mean is None, "it differs from trial to trial"
    low = [(s, x, wind - 0.4, lamp) for s, x, wind, lamp in high]
    assert input_fit(make_client(low, **options)).disagreeing == ("wind",)


def test_without_trials_there_is_nothing_to_say() -> None:
    report = input_fit(make_client([("all", 0.5, 0.5, "red")]))
    assert (report.fits, report.agrees) == ((), True)
    assert report.to_frame().columns[0] == "name"


@pytest.mark.parametrize(
    ("name", "value"), [("last", 0), ("last", 2.5), ("significance", 0.0), ("significance", 1)]
)
def test_bad_arguments_are_refused(name: str, value: Any) -> None:
    client = make_client([])
    with pytest.raises(UserInputError, match=f"{name}={value}"):
        input_fit(client, **{name: value})
    client.set_generation_strategy(cost_aware_strategy(cost=1.0, lmbda=0.1))
    with pytest.raises(UserInputError, match="control_set_strategy"):
        input_fit(client)
