"""Where the money went: what every trial was charged, and what is left of the budget.

An Ax analysis for the experiments of every method. It shows the ledger
(``ax_costaware.methods.past``), which needs no model and no outcome. Costs are in the user's own
unit.
"""

from __future__ import annotations

from typing import final

import pandas as pd
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard, create_plotly_analysis_card
from ax.core.experiment import Experiment
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_strategy import GenerationStrategy

from ax_costaware.analysis.method_analysis import MethodAnalysis
from ax_costaware.analysis.spending_figure import INITIAL, spending_figure
from ax_costaware.ax_bridge.records import with_one_arm
from ax_costaware.methods.method import Method
from ax_costaware.methods.past import LedgerEntry
from ax_costaware.session.spending import Spending, spending


@final
class SpendingAnalysis(MethodAnalysis[Method]):
    """What each trial was charged, on what it was spent, and how far the budget is used up.

    The card's data frame has one row per trial, by trial index: the columns of
    ``spending(client).to_frame()``, and

    - ``spent_on``: the control set, the level of a tree, else whether the trial is initial, was
      chosen by the model, or was attached;
    - ``cumulative_cost``: what this and all earlier trials were charged.
    """

    title = "Where the money went"
    method_class = Method
    needs_outcomes = False

    def _card(
        self,
        experiment: Experiment,
        generation_strategy: GenerationStrategy,
        method: Method,
    ) -> PlotlyAnalysisCard:
        paid = spending((experiment, generation_strategy))
        frame = paid.to_frame()
        frame["spent_on"] = [_spent_on(entry, experiment, method) for entry in paid.entries]
        frame["cumulative_cost"] = frame["charged"].cumsum()
        return create_plotly_analysis_card(
            name=type(self).__name__,
            title=self.title,
            subtitle=_subtitle(paid, frame),
            df=frame,
            fig=spending_figure(frame, _groups(frame, method), method.budget, method.cost_metric),
        )


def _spent_on(entry: LedgerEntry, experiment: Experiment, method: Method) -> str:
    arm = with_one_arm(experiment.trials[entry.trial_index]).arm
    group = None if arm is None else method.group_of(arm.parameters)
    if group is not None:
        return group
    return INITIAL if entry.initial else "chosen by the model" if entry.by_rule else "attached"


def _groups(frame: pd.DataFrame, method: Method) -> list[str]:
    """What trials were spent on: control sets as declared, levels from coarse to fine."""
    used = list(dict.fromkeys(frame["spent_on"]))
    known = [name for name in method.groups() if name in used]
    return known + [name for name in used if name not in known]


def _subtitle(paid: Spending, frame: pd.DataFrame) -> str:
    parts = [str(paid).splitlines()[0]]
    groups = frame.groupby("spent_on")["charged"].agg(["size", "sum"])
    by_cost = groups.sort_values("sum", ascending=False, kind="stable")
    shares = [
        f"{name} {row['sum']:.6g} in {int(row['size'])} trial{'' if row['size'] == 1 else 's'}"
        for name, row in by_cost.iterrows()
    ]
    parts.append(f"By what it was spent on: {'; '.join(shares)}.")
    without = [
        (frame["status"] == TrialStatus.FAILED.name, "failed"),
        (frame["skipped"], "were not measured"),
    ]
    for chosen, what in without:
        if count := int(chosen.sum()):
            cost = frame.loc[chosen, "charged"].sum()
            parts.append(
                f"{count} trial{'' if count == 1 else 's'} {what}"
                f"{f', and cost {cost:.6g}' if cost else ', free of charge'}."
            )
    differs = (frame["expected_cost"] - frame["reported_cost"]).abs().max() > 0
    parts.append(
        "Above, the sum of all charges so far; below, what each trial was charged: what was "
        "reported, else what was expected of it, which an unfinished trial reserves."
        + (" A dash is what was expected where another cost was reported." if differs else "")
    )
    return " ".join(parts)
