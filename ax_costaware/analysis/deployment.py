"""What could be deployed, by what it costs and what it is worth: an Ax analysis.

The recommendation and its alternatives, as ``ax_costaware.recommend`` has them. Costs are in the
user's own unit, values in the objective's unit and sign.
"""

from __future__ import annotations

from typing import final

import pandas as pd
from ax.core.analysis_card import AnalysisCard
from plotly import express as px
from plotly import graph_objects as go

from ax_costaware.analysis.figures import BLUE, DARK, GREY, value_title
from ax_costaware.analysis.method_analysis import MethodAnalysis, Objective, Run
from ax_costaware.display import display_values
from ax_costaware.exceptions import InputError
from ax_costaware.methods.method import Method
from ax_costaware.session.recommendation import recommend

_HEIGHT_PIXELS = 420


@final
class DeploymentAnalysis(MethodAnalysis[Method]):
    """What each thing that could be deployed costs, and what it is expected to be worth.

    The card's data frame has a row for each, cheapest first:

    - ``control_set`` (None for a method without), ``set``: the values to set, as text;
    - ``expected_cost``: of a trial there;
    - ``expected_value``, ``standard_deviation``: of the objective, by the present model;
    - ``worth_it``: whether nothing that costs as little is expected to be better, so that
      ``recommend(client, max_cost=...)`` has it first for some limit.
    """

    title = "Value against the cost of what is deployed"
    method_class = Method

    @classmethod
    def is_about(cls, method: Method) -> bool:
        """Whether what is deployed is what a trial sets, and costs what the trial does."""
        return method.measures_points and not method.may_skip

    def _missing(self, run: Run[Method]) -> str | None:
        return None if self.is_about(run.method) else "What is deployed has no cost of its own."

    def _card(self, run: Run[Method]) -> AnalysisCard:
        best, objective = recommend(run.client), run.objective
        found = [r for r in (best, *best.alternatives) if r.expected_cost is not None]
        if not found:
            raise InputError("No trial has reported its cost yet.")
        frame = pd.DataFrame(
            {
                "control_set": one.control_set,
                "set": display_values(one.parameters),
                "expected_cost": one.expected_cost,
                "expected_value": one.expected_value,
                "standard_deviation": one.standard_deviation,
            }
            for one in found
        ).sort_values(["expected_cost", "expected_value"], ascending=[True, objective.minimize])
        signed = frame["expected_value"] * (-1 if objective.minimize else 1)
        frame["worth_it"] = signed > signed.cummax().shift(fill_value=-float("inf"))
        frame = frame.reset_index(drop=True)
        figure = deployment_figure(frame, objective)
        return self._card_of(_subtitle(frame, objective), frame, figure)


def _subtitle(frame: pd.DataFrame, objective: Objective) -> str:
    worth = frame[frame["worth_it"]]
    cheapest, best = worth.iloc[0], worth.iloc[-1]
    return (
        f"The line joins what is worth its cost: nothing as cheap is expected to be better. From "
        f"{objective.metric} = {cheapest['expected_value']:.6g} at a cost of "
        f"{cheapest['expected_cost']:.6g} to {best['expected_value']:.6g} at "
        f"{best['expected_cost']:.6g}. recommend(client, max_cost=...) names the best within a "
        "limit. Bars are two standard deviations, of what the model does not know."
    )


def deployment_figure(frame: pd.DataFrame, objective: Objective) -> go.Figure:
    """The figure of a frame made by ``DeploymentAnalysis``.

    Args:
        frame: A row for each thing that could be deployed, with the columns that
            ``DeploymentAnalysis`` documents.
        objective: The objective.
    """
    shown = frame.assign(
        error=2 * frame["standard_deviation"],
        kind=frame["worth_it"].map({True: "worth its cost", False: "beaten by what is cheaper"}),
    )
    figure = px.scatter(
        shown,
        x="expected_cost",
        y="expected_value",
        error_y="error",
        color="kind",
        color_discrete_map={"worth its cost": BLUE, "beaten by what is cheaper": GREY},
        hover_data=["set", "control_set"],
        labels={
            "expected_cost": "Expected cost of a trial",
            "expected_value": value_title(objective, "Expected "),
            "kind": "",
        },
        height=_HEIGHT_PIXELS,
    )
    worth = shown[shown["worth_it"]]
    figure.add_scatter(
        x=worth["expected_cost"],
        y=worth["expected_value"],
        mode="lines",
        line={"color": DARK, "shape": "hv", "width": 1},
        showlegend=False,
        hoverinfo="skip",
    )
    return figure.update_layout(legend={"orientation": "h", "y": -0.2}, margin={"t": 20, "r": 20})
