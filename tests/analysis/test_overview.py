"""``overview``: every card of a method, in any state of the experiment, and as a page."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.core.analysis_card import (
    AnalysisCard,
    AnalysisCardGroup,
    ErrorAnalysisCard,
    NotApplicableStateAnalysisCard,
)
from ax.core.arm import Arm
from ax.core.base_trial import TrialStatus
from ax.core.generator_run import GeneratorRun
from ax.exceptions.core import UserInputError

from ax_costaware import set_budget, strategy_of
from ax_costaware.analysis import (
    CostAndValueAnalysis,
    CostAwareOverview,
    DeploymentAnalysis,
    FeedbackAnalysis,
    IndirectQueryAnalysis,
    SpendingAnalysis,
    StoppingAnalysis,
    overview,
)
from ax_costaware.core import Decision, Problem
from ax_costaware.methods import Method
from ax_costaware.session import complete_trial, exclude_trial
from tests.ax import feedback_toy, gittins_toy, indirect_toy, toy, tree_toy

pytestmark = pytest.mark.usefixtures("short_searches")

METHODS: dict[str, tuple[Any, list[str]]] = {
    "control sets": (toy, ["DeploymentAnalysis", "CostAndValueAnalysis"]),
    "gittins": (gittins_toy, ["DeploymentAnalysis", "StoppingAnalysis"]),
    "feedback": (feedback_toy, ["FeedbackAnalysis"]),
    "indirect": (indirect_toy, ["IndirectQueryAnalysis"]),
    "tree": (tree_toy, ["IndirectQueryAnalysis"]),
}
COMMON = ["SpendingAnalysis", "DecisionAnalysis"]


def unavailable(cards: list[AnalysisCard]) -> dict[str, str]:
    """The reasons of the cards that could not be computed, by name."""
    return {c.name: c.blob for c in cards if isinstance(c, NotApplicableStateAnalysisCard)}


def next_trial(client: Client) -> int:
    """Index of a new trial."""
    return next(iter(client.get_next_trials(max_trials=1)))


def test_by_way_of_the_client() -> None:
    client = feedback_toy.make_client()
    feedback_toy.run_trials(client, 2)
    (group,) = client.compute_analyses([CostAwareOverview()], display=False)
    assert isinstance(group, AnalysisCardGroup)
    assert [c.title for c in group.flatten()] == [c.title for c in overview(client)]
    # A notebook shows the cards side by side, which an element left open would prevent.
    shown = re.sub(r"<script.*?</script>", "", group._to_html(depth=0), flags=re.DOTALL)
    assert len(re.findall("<div", shown)) == len(re.findall("</div>", shown))


@pytest.mark.parametrize("name", ["control sets", "feedback"])
def test_never_an_error(name: str) -> None:
    method, special = METHODS[name]
    client = method.make_client(initial_trials=2, budget=30.0)

    def check(missing: set[str]) -> list[AnalysisCard]:
        cards = overview(client)
        assert not any(isinstance(c, ErrorAnalysisCard) for c in cards)
        assert set(unavailable(cards)) - {"InputLawAnalysis"} == missing
        assert all(unavailable(cards).values())
        return cards

    of_model = {"RecommendationAnalysis", *special}
    check({*of_model, *COMMON})  # no trials
    first = next_trial(client)
    check(of_model)  # one that is running
    client.mark_trial_failed(first)
    check(of_model)  # only a failed one
    client._experiment.trials[next_trial(client)].mark_abandoned()
    check(of_model)
    client._experiment.trials[next_trial(client)].mark_early_stopped(unsafe=True)
    check(of_model)
    last = next_trial(client)  # nothing measured, and the budget is used up
    arm = dict(client._experiment.trials[last].arms[0].parameters)
    realized = toy.realize(last, arm) if method is toy else None
    complete_trial(client, last, realized=realized, cost=30.0)
    (paid,) = [c for c in check(of_model) if c.name == "SpendingAnalysis"]
    assert list(paid.df["status"]) == ["FAILED", "ABANDONED", "EARLY_STOPPED", "COMPLETED"]
    assert paid.subtitle.startswith("Spent ")
    assert "1 trial failed" in paid.subtitle


def test_what_is_in_the_way_is_named(client: Client, tmp_path: Path) -> None:
    # A trial that the strategy does not know the control set of.
    trial = client._experiment.trials[0]
    assert trial.arms[0].parameters["control_set"] == "water"
    trial.arms[0]._parameters["control_set"] = "air"
    trial._status = TrialStatus.FAILED
    cards = overview(client, tmp_path / "page.html")
    assert len(unavailable(cards)) == len(cards) == 6
    assert all("'air'" in reason for reason in unavailable(cards).values())
    assert escape("'air'") in (tmp_path / "page.html").read_text("utf-8")


def test_a_cost_that_is_missing() -> None:
    client = gittins_toy.make_client(cost="seconds")
    complete_trial(client, next_trial(client), {"y": 0.3})
    reasons = unavailable(overview(client))
    assert list(reasons) == ["DeploymentAnalysis", "StoppingAnalysis"]
    for reason in reasons.values():
        assert "trials [0] were completed without a cost" in reason


class Mine(Method):
    """A user's own method."""

    def decide(self, problem: Problem) -> Decision:
        return Decision(dict(problem.draw()), "It is next.")


def test_a_method_of_ones_own_goes_by_its_name() -> None:
    client = gittins_toy.make_client()
    client.set_generation_strategy(strategy_of(Mine()))
    assert (
        CostAwareOverview()
        .compute(client._experiment, client._generation_strategy)
        .subtitle.startswith("All cards of Mine, ")
    )
    with pytest.raises(UserInputError, match=r"strategy_of\(Mine\(\.\.\., budget="):
        set_budget(client, 9.0)


def test_a_trial_of_several_arms() -> None:
    client = toy.make_client()
    arms = [Arm({"x1": x, "x2": 0.2, "x3": 0.3, "control_set": "x1"}) for x in (0.1, 0.5)]
    client._experiment.new_batch_trial(GeneratorRun(arms))
    reasons = unavailable(overview(client))
    assert set(COMMON) < set(reasons)
    assert "trial 0 is a BatchTrial" in reasons["SpendingAnalysis"]
    exclude_trial(client, 0)
    assert not unavailable(overview(client)).keys() & {*COMMON}


def test_an_unforeseen_error_is_a_card(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*args: Any) -> None:
        raise ZeroDivisionError("by chance")

    monkeypatch.setattr(SpendingAnalysis, "card_or_reason", fail)
    cards = overview(client, tmp_path / "page.html")
    (error,) = [c for c in cards if isinstance(c, ErrorAnalysisCard)]
    assert error.name == "SpendingAnalysis"
    assert "by chance" in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("analysis", "method", "other"),
    [
        (CostAndValueAnalysis, toy, gittins_toy),
        (DeploymentAnalysis, gittins_toy, feedback_toy),
        (FeedbackAnalysis, feedback_toy, toy),
        (IndirectQueryAnalysis, tree_toy, feedback_toy),
        (StoppingAnalysis, gittins_toy, toy),
    ],
)
def test_where_a_card_does_not_apply(analysis: Any, method: Any, other: Any) -> None:
    """Before an outcome, without a strategy, and with the strategy of another method."""
    client, others = method.make_client(), other.make_client()
    (card,) = client.compute_analyses([analysis()], display=False)
    assert isinstance(card, NotApplicableStateAnalysisCard)
    with pytest.raises(UserInputError, match=analysis.__name__):
        analysis().compute(client._experiment, client._generation_strategy)
    method.run_trials(client, 1)
    with pytest.raises(UserInputError, match="strategy"):
        analysis().compute(client._experiment)
    with pytest.raises(UserInputError, match=analysis.__name__):
        analysis().compute(client._experiment, others._generation_strategy)
    client.configure_generation_strategy(method="random_search")
    with pytest.raises(UserInputError, match=analysis.__name__):
        analysis().compute(client._experiment, client._generation_strategy)


def test_pages(client: Client, tmp_path: Path) -> None:
    """One script, all texts, nothing from elsewhere; and paths that are none are refused."""
    client._experiment.name = "<b>&plants"
    cards = overview(client, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<h1>Overview of &lt;b&gt;&amp;plants</h1>" in page
    assert page.count("plotly.js v") == 1
    text = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    for card in cards:
        assert f"<h2>{escape(card.title)}</h2>\n<p>{escape(card.subtitle)}</p>" in text
    assert not re.search(r"(src|href)\s*=", text)
    for path in (tmp_path / "none" / "page.html", tmp_path, 3):
        with pytest.raises(UserInputError, match="path="):
            overview(client, path)  # type: ignore[arg-type]
    with pytest.raises(UserInputError, match="client"):
        overview("client")  # type: ignore[arg-type]
