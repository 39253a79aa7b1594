"""What was decided, trial by trial, and why: a table, as an Ax analysis.

For the experiments of every method. It shows what ``ax_costaware.query`` says of each trial beside
what came of it, and needs no model. Costs are in the user's own unit, outcomes in the objective's.
"""

from __future__ import annotations

from textwrap import shorten
from typing import Any, final

import pandas as pd
from ax.core.base_trial import BaseTrial
from ax.core.experiment import Experiment
from ax.exceptions.core import UserInputError
from ax.generation_strategy.generation_strategy import GenerationStrategy

from ax_costaware.analysis.method_analysis import MethodAnalysis
from ax_costaware.analysis.objective import objective_metric, outcomes
from ax_costaware.analysis.table import TableCard, html_table
from ax_costaware.ax_bridge.records import ledger, outcome_record
from ax_costaware.display import display_number, display_values
from ax_costaware.methods.method import Method
from ax_costaware.methods.past import LedgerEntry
from ax_costaware.session.query import query


@final
class DecisionAnalysis(MethodAnalysis[Method]):
    """Every trial with what was set, what it was to cost and did cost, and why it was chosen.

    The card's data frame has one row per trial, by trial index:

    - ``trial_index``, ``control_set``, ``expected_cost``, ``charged``, ``status``: as in the
      ledger;
    - ``set``: the values to set, as text; ``measure``: whether to pay for the outcome;
    - ``outcome``: reported objective (NaN without);
    - ``error``: what the last attempt of a runner failed of, for a trial that has not been
      completed; else empty;
    - ``why``: the reason of the choice, as ``query(client, trial_index).why`` has it.
    """

    title = "What was decided, and why"
    method_class = Method
    needs_outcomes = False

    def _card(
        self,
        experiment: Experiment,
        generation_strategy: GenerationStrategy,
        method: Method,
    ) -> TableCard:
        outcome = outcomes(experiment)
        frame = pd.DataFrame(
            [
                {
                    "trial_index": entry.trial_index,
                    **_asked(experiment, generation_strategy, entry),
                    "outcome": outcome.get(entry.trial_index),
                    "charged": entry.charged,
                    "status": entry.status,
                    "error": _error(experiment.trials[entry.trial_index]),
                }
                for entry in ledger(experiment, method)
            ]
        )
        frame = frame[list(_COLUMNS)].astype(
            {"expected_cost": float, "charged": float, "outcome": float}
        )
        return TableCard(
            name=type(self).__name__,
            title=self.title,
            subtitle=_subtitle(frame),
            df=frame,
            blob=_table(frame, objective_metric(experiment)),
        )


_MOST_OF_ERROR = 200
"""Characters of an error that the table shows; the data frame has all."""

_COLUMNS = (
    "trial_index",
    "control_set",
    "set",
    "measure",
    "expected_cost",
    "charged",
    "outcome",
    "status",
    "error",
    "why",
)


def _asked(
    experiment: Experiment, strategy: GenerationStrategy, entry: LedgerEntry
) -> dict[str, Any]:
    try:
        asked = query((experiment, strategy), entry.trial_index)
    except UserInputError as error:
        return {
            "control_set": entry.control_set,
            "set": "",
            "measure": True,
            "expected_cost": entry.expected_cost,
            "why": str(error),
        }
    return {
        "control_set": asked.control_set,
        "set": display_values(asked.controlled),
        "measure": asked.measure,
        "expected_cost": asked.expected_cost,
        "why": asked.why,
    }


def _error(trial: BaseTrial) -> str:
    attempts = [] if trial.status.is_completed else outcome_record(trial).get("attempts")
    return str(attempts[-1].get("error") or "") if attempts else ""


def _ended(status: str, error: str) -> str:
    words = status.lower().replace("_", " ")
    return f"{words}: {shorten(error, _MOST_OF_ERROR)}" if error else words


def _table(frame: pd.DataFrame, metric: str) -> str:
    header = ["Trial", "Set", "Why", "Expected cost", "Charged", metric or "Outcome", "Status"]
    rows = []
    for row in frame.to_dict(orient="records"):
        what = str(row["set"])
        if row["control_set"] is not None:
            what = f"{row['control_set']}: {what}"
        if not row["measure"]:
            what += " (without measuring)"
        numbers = [row["expected_cost"], row["charged"], row["outcome"]]
        rows.append(
            [
                str(row["trial_index"]),
                what,
                str(row["why"]),
                *("" if pd.isna(number) else display_number(number) for number in numbers),
                _ended(str(row["status"]), str(row["error"])),
            ]
        )
    return html_table(header, rows, numeric=(0, 3, 4, 5))


def _subtitle(frame: pd.DataFrame) -> str:
    last = frame.iloc[-1]
    return (
        f"The last decision, on trial {last['trial_index']}: {last['why']} Each row has the reason "
        "that was recorded when the trial was chosen, with the numbers of that time."
    )
