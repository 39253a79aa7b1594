"""The card: its data frame, its figure, and when it can be computed."""

from __future__ import annotations

import pandas as pd
import pytest
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.api.client import Client
from ax.core.analysis_card import NotApplicableStateAnalysisCard
from ax.exceptions.core import UserInputError

from ax_costaware.analysis import CostAndValueAnalysis
from ax_costaware.session import complete_trial, recommend
from ax_costaware.strategies import cost_aware_strategy

from .conftest import make_client

pytestmark = pytest.mark.usefixtures("short_searches")


def test_card_through_the_client(client: Client) -> None:
    (card,) = client.compute_analyses([CostAndValueAnalysis()], display=False)
    assert isinstance(card, PlotlyAnalysisCard)
    frame = card.df
    assert list(frame["trial_index"]) == [0, 1, 2, 3, 4]
    assert list(frame["status"]) == ["COMPLETED"] * 4 + ["RUNNING"]
    assert list(frame["cumulative_cost"]) == [1.0, 4.0, 5.0, 6.0, 9.0]
    # Trial 1 was not measured and trial 4 is running: no value of their own, and the
    # recommendation stays what it was.
    assert list(frame["query_value"].isna()) == [False, True, False, False, True]
    values = list(frame["recommendation_value"])
    assert (values[1], values[4]) == (values[0], values[3])
    best = recommend(client)
    assert values[4] == best.expected_value
    assert frame["recommended_control_set"].iloc[4] == best.control_set
    assert frame["recommendation_sd"].iloc[4] == best.standard_deviation
    assert card.subtitle.startswith("Spent 9 of 20; the current recommendation controls")
    names = [trace.name for trace in card.get_figure().data]
    assert {"recommendation", "current recommendation", "water", "water+acid"} <= set(names)


def test_card_standalone(client: Client) -> None:
    card = CostAndValueAnalysis().compute(client._experiment, client._generation_strategy)
    assert isinstance(card.df, pd.DataFrame)
    assert len(card.df) == 5


def test_not_applicable_before_the_first_outcome() -> None:
    client = make_client()
    (card,) = client.compute_analyses([CostAndValueAnalysis()], display=False)
    assert isinstance(card, NotApplicableStateAnalysisCard)
    client.configure_tracking_metrics(["height"])
    index = client.attach_trial({"control_set": "water", "water": 1.0, "acid": 0.5})
    complete_trial(client, index, raw_data={"height": 1.0}, realized={"acid": 0.5})
    with pytest.raises(UserInputError, match="No trial has data for the objective yet"):
        CostAndValueAnalysis().compute(client._experiment, client._generation_strategy)


def test_an_outcome_without_realised_inputs_is_refused() -> None:
    """Its nominal inputs would be taken for them, as ``recommend`` says, too."""
    client = make_client()
    ((index, arm),) = client.get_next_trials(max_trials=1).items()
    assert arm["control_set"] == "water"
    client.complete_trial(index, raw_data={"growth": 0.3})
    with pytest.raises(UserInputError, match=r"completed without the values of \['acid'\]"):
        CostAndValueAnalysis().compute(client._experiment, client._generation_strategy)


def test_strategy_is_needed_and_must_be_ours(client: Client) -> None:
    with pytest.raises(UserInputError, match="strategy must be provided"):
        CostAndValueAnalysis().compute(client._experiment)
    client.configure_generation_strategy(method="random_search")
    with pytest.raises(UserInputError, match="does not know what a trial costs"):
        CostAndValueAnalysis().compute(client._experiment, client._generation_strategy)


def test_it_is_for_control_sets(client: Client) -> None:
    client.set_generation_strategy(cost_aware_strategy(cost="hours"))
    message = (
        "CostAndValueAnalysis cannot be computed: the generation strategy 'CostAware' comes from "
        "cost_aware_strategy: expected one made by ax_costaware.control_set_strategy"
    )
    with pytest.raises(UserInputError, match=message):
        CostAndValueAnalysis().compute(client._experiment, client._generation_strategy)
    (card,) = client.compute_analyses([CostAndValueAnalysis()], display=False)
    assert isinstance(card, NotApplicableStateAnalysisCard)
    assert "comes from cost_aware_strategy" in card.blob
