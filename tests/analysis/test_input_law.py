"""The card of uncontrolled inputs: what is compared with what, and when it warns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.api.client import Client

from ax_costaware import JointEmpirical, Learned, Uniform, input_fit
from ax_costaware.analysis import InputLawAnalysis, input_law, overview
from ax_costaware.session import InputFitReport
from tests.session.inputs_toy import LAWS, make_client, trials_as_assumed

pytestmark = pytest.mark.usefixtures("short_searches")


def card_of(client: Client, **options: Any) -> PlotlyAnalysisCard:
    """The card as Ax's client computes it."""
    (card,) = client.compute_analyses([InputLawAnalysis(**options)], display=False)
    assert isinstance(card, PlotlyAnalysisCard)
    return card


def trace_of(card: PlotlyAnalysisCard, name: str, position: int = 0) -> Any:
    """A trace of the card's figure."""
    return [trace for trace in card.get_figure().data if trace.name == name][position]


def titles_of(card: PlotlyAnalysisCard) -> list[str]:
    """Titles of the rows."""
    return [annotation.text for annotation in card.get_figure().layout.annotations]


def test_the_tests_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many inputs there are thousands: an overview takes as long as these."""
    made = []

    def counted(*arguments: Any) -> InputFitReport:
        made.append(arguments)
        return input_fit(*arguments)

    monkeypatch.setattr(input_law, "input_fit", counted)
    cards = overview(make_client(trials_as_assumed(12)))
    assert isinstance(cards[-1], PlotlyAnalysisCard)
    assert len(made) == 1


def test_the_card_warns() -> None:
    """The title, the first words below it and the row of the input say so."""
    trials = [(s, x, 0.5 + 0.5 * w, lamp) for s, x, w, lamp in trials_as_assumed(40)]
    card = card_of(make_client(trials))
    assert card.title == "Uncontrolled inputs: WARNING, they disagree with their distributions"
    assert card.subtitle.startswith(
        "The inputs disagree with their distributions: wind not as assumed. "
    )
    assert titles_of(card)[0].startswith("wind: NOT as assumed")
    assert list(card.df["agrees"]) == [False, True]
    assert card_of(make_client(trials), significance=1e-12).title == "Uncontrolled inputs"


def test_left_the_law_and_the_values() -> None:
    trials = trials_as_assumed(20)
    card = card_of(make_client(trials))
    law, realised = trace_of(card, "assumed"), trace_of(card, "realised")
    assert list(law.y) == pytest.approx(list(law.x)), "the uniform distribution function"
    winds = sorted(wind for name, _, wind, _ in trials if name == "x")
    assert list(realised.x) == [0.0, *winds, 1.0]
    assert list(realised.y) == pytest.approx([i / 15 for i in range(16)] + [1.0])
    law, realised = trace_of(card, "assumed", 1), trace_of(card, "realised", 2)
    assert (list(law.x), list(law.y)) == (["red", "blue"], [0.25, 0.75])
    reds = sum(lamp == "red" for *_, lamp in trials)
    assert list(realised.y) == [reds / 20, 1 - reds / 20]


def test_right_the_course_with_a_band() -> None:
    trials = trials_as_assumed(20)
    card = card_of(make_client(trials), last=8)
    course = trace_of(card, "realised", 1)
    alone = [i for i, trial in enumerate(trials) if trial[0] == "x"]
    assert list(course.x) == alone
    assert list(course.y) == [trials[i][2] for i in alone]
    tested = [i for i in alone if i >= 12]
    pale = len(alone) - len(tested)
    assert list(course.marker.opacity) == [0.35] * pale + [1.0] * len(tested)
    (band,) = card.get_figure().layout.shapes
    assert (band.y0, band.y1) == pytest.approx((0.05, 0.95))
    assert "The tests use the last 8 trials." in card.subtitle


def test_learned_laws_are_shown_as_they_were_tested() -> None:
    laws: dict[str, Any] = {"wind": Learned(Uniform(0.0, 1.0), 5.0), "lamp": Learned(LAWS["lamp"])}
    trials = [("x", x, 0.4 + 0.2 * w, lamp) for _, x, w, lamp in trials_as_assumed(20)]
    client = make_client(trials, marginals=laws)
    law = trace_of(card_of(client), "learned before each trial, on average")
    # All values are below 0.6, so up to 0.7 the prior lacks only a part of its own.
    expected = np.mean([(5 * 0.7 + i) / (5 + i) for i in range(20)])
    assert np.interp(0.7, law.x, law.y) == pytest.approx(expected)
    law = trace_of(card_of(client, last=5), "learned before each trial, on average")
    expected = np.mean([(5 * 0.7 + i) / (5 + i) for i in range(15, 20)])
    assert np.interp(0.7, law.x, law.y) == pytest.approx(expected)
    lamp = trace_of(card_of(client), "learned before each trial, on average", 1)
    reds = np.cumsum([0, *(trial[3] == "red" for trial in trials[:-1])])
    shares = (10 * 0.25 + reds) / (10 + np.arange(20))
    assert list(lamp.y) == pytest.approx([shares.mean(), 1 - shares.mean()])


def test_joint_laws_are_averaged_over_what_was_controlled() -> None:
    rng = np.random.default_rng(7)
    past = rng.random(60)
    frame = {"x": past.tolist(), "wind": (0.5 * past + 0.5 * rng.random(60)).tolist()}
    joint = JointEmpirical(frame)
    trials = [("x", 0.8, 0.4 + 0.5 * w, lamp) for _, _, w, lamp in trials_as_assumed(20)]
    card = card_of(make_client(trials, marginals={"lamp": LAWS["lamp"]}, joint=joint))
    law = trace_of(card, "assumed, given the controlled inputs")
    expected = [joint.cdf_given("wind", v, {"x": 0.8})[1] for v in law.x]
    assert list(law.y) == pytest.approx(expected)
    assert not card.get_figure().layout.shapes, "nine of ten differ from trial to trial"
