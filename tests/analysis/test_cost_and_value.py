"""The card: its data frame, its figure, and when it can be computed."""

from __future__ import annotations

import pytest
from ax.api.client import Client
from ax.exceptions.core import UserInputError

from ax_costaware.analysis import CostAndValueAnalysis
from ax_costaware.session import recommend

from .conftest import make_client

pytestmark = pytest.mark.usefixtures("short_searches")


def test_card_through_the_client(client: Client) -> None:
    (card,) = client.compute_analyses([CostAndValueAnalysis()], display=False)
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


def test_an_outcome_without_realised_inputs_is_refused() -> None:
    """Its nominal inputs would be taken for them, as ``recommend`` says, too."""
    client = make_client()
    ((index, arm),) = client.get_next_trials(max_trials=1).items()
    assert arm["control_set"] == "water"
    client.complete_trial(index, raw_data={"growth": 0.3})
    with pytest.raises(UserInputError, match=r"completed without the values of \['acid'\]"):
        CostAndValueAnalysis().compute(client._experiment, client._generation_strategy)
