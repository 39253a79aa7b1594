"""Ax analyses as tables for every method: the recommendation, and all decisions.

They show ``ax_costaware.recommend``, and ``ax_costaware.query`` of each trial with its outcome.
Costs are in the user's own unit, values in the objective's unit and sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from textwrap import shorten
from typing import Any, final

import pandas as pd
from ax.core.analysis_card import AnalysisCard
from ax.core.base_trial import BaseTrial
from ax.exceptions.core import UnsupportedError, UserInputError

from ax_costaware.analysis.method_analysis import MethodAnalysis, Objective, Run
from ax_costaware.ax_bridge.records import objective_metrics, outcome_record
from ax_costaware.core.method import Method
from ax_costaware.display import display_number, display_values
from ax_costaware.session.query import query
from ax_costaware.session.recommendation import Recommendation, recommend

_MAX_ROWS = 11

_MAX_ERROR_LENGTH = 200
"""Length of an error in the table; the data frame has all of it."""

_CELL = "padding:3px 8px;vertical-align:top;border-bottom:1px solid #ddd;"
_WRAP = "overflow-wrap:anywhere;min-width:"
_ROOM = ((60, 22), (20, 11))
"""Lengths from which a text may wrap, with the smallest width, in em."""


@final
class RecommendationAnalysis(MethodAnalysis[Method]):
    """Recommendation and its alternatives, with expected values and costs.

    The card's data frame has one row for each, best first, with ten alternatives at most:

    - ``control_set`` (None for a method without), ``set``: the values to set, as text;
    - ``expected_value``, ``standard_deviation``: of the objective, by the present model;
    - with several objectives ``expected <name>`` and ``sd <name>`` of each;
    - ``expected_cost``: of a trial there; NaN if it is not known, or the deployment is no trial;
    - ``feasibility``: probability that all outcome constraints hold; NaN without constraints.
    """

    title = "What to deploy"
    takes_front = True
    method_class = Method

    def _card(self, run: Run[Method]) -> AnalysisCard:
        best, objective = recommend(run.client), run.objective
        frame = deployments((best, *best.alternatives)[:_MAX_ROWS])
        if values := best.expected_values:
            shown = ", ".join(f"{name} {value:.6g}" for name, value in values.items())
            text = (
                f"The front of {1 + len(best.alternatives)} points that no other trial is better "
                f"than in all objectives. The first is the best with equal weights: {shown}."
            )
            return self._card_of(text, frame, _fronts(frame, [*values]))
        text = _recommended(frame, objective, run.method)
        return self._card_of(text, frame, _recommendations(frame, objective.metric))


def deployments(found: Sequence[Recommendation]) -> pd.DataFrame:
    """Return the possible deployments, a row for each; see ``RecommendationAnalysis``."""
    names = ["control_set", "expected_value", "standard_deviation", "expected_cost", "feasibility"]
    rows = [[getattr(one, name) for name in names] for one in found]
    frame = pd.DataFrame(rows, columns=names).astype({"expected_cost": float, "feasibility": float})
    for name in found[0].expected_values:
        frame[f"expected {name}"] = [one.expected_values[name] for one in found]
        frame[f"sd {name}"] = [one.standard_deviations[name] for one in found]
    frame.insert(1, "set", [display_values(one.parameters) for one in found])
    return frame


def _recommended(frame: pd.DataFrame, objective: Objective, method: Method) -> str:
    first = frame.iloc[0]
    where = "" if first["control_set"] is None else f" with control set {first['control_set']}"
    if pd.isna(chance := first["feasibility"]):
        among = ""
    elif chance < (threshold := method.feasibility_threshold):
        among = f" of the likeliest feasible point (probability {chance:.3g}),"
    else:
        among = f" of points that are feasible with a probability of at least {threshold:g}"
    cautious = ""
    if aversion := method.traits.risk_aversion:
        sign = "plus" if objective.minimize else "less"
        cautious = f" {sign} {aversion:g} standard deviations"
    return (
        f"Set {first['set']}{where}: it has the {'least' if objective.minimize else 'greatest'} "
        f"expected {objective.metric}{cautious}{among} by the model of all data: "
        f"{first['expected_value']:.6g} ± {2 * first['standard_deviation']:.2g} (two posterior "
        "standard deviations; single outcomes vary by more)."
    )


def _fronts(frame: pd.DataFrame, names: Sequence[str]) -> str:
    shown = pd.DataFrame({"Set": _settings(frame)})
    for name in names:
        shown[f"Expected {name}"] = frame[f"expected {name}"]
        shown[f"± 2 s.d. of {name}"] = [float(f"{2 * one:.2g}") for one in frame[f"sd {name}"]]
    shown["Cost of a trial"] = frame["expected_cost"]
    shown["Feasible with probability"] = frame["feasibility"].round(3)
    return html_table(shown.dropna(axis="columns", how="all"))


def _recommendations(frame: pd.DataFrame, metric: str) -> str:
    shown = pd.DataFrame(
        {
            "": ["recommended", *["or"] * (len(frame) - 1)],
            "Set": _settings(frame),
            f"Expected {metric}": frame["expected_value"],
            # Two digits suffice for an uncertainty.
            "± 2 s.d.": [float(f"{2 * one:.2g}") for one in frame["standard_deviation"]],
            "Cost of a trial": frame["expected_cost"],
            "Feasible with probability": frame["feasibility"].round(3),
        }
    )
    return html_table(shown.dropna(axis="columns", how="all"))


@final
class DecisionAnalysis(MethodAnalysis[Method]):
    """Every trial with its values, its expected and charged cost, and the reason of its choice.

    The card's data frame has one row per trial, by trial index:

    - ``trial_index``, ``control_set``, ``expected_cost``, ``charged``, ``status``: as in the
      ledger;
    - ``set``: the values to set, as text; ``measure``: True if the outcome is to be measured;
    - ``outcome``: reported objective (NaN without);
    - ``error``: error of the last attempt of a runner, for a trial that is not completed; else
      empty;
    - ``why``: the reason of the choice, as of ``query(client, trial_index).why``.
    """

    title = "Decisions and their reasons"
    takes_front = True
    method_class = Method
    needs_outcomes = False

    def _card(self, run: Run[Method]) -> AnalysisCard:
        frame = run.frame()
        frame = frame.join(pd.DataFrame([_decision_of(run, i) for i in frame["trial_index"]]))
        frame["error"] = [_error(run.experiment.trials[i]) for i in frame["trial_index"]]
        columns = ["trial_index", "control_set", "set", "measure", "expected_cost", "charged"]
        frame = frame[[*columns, "outcome", "status", "error", "why"]]
        names = [*objective_metrics(run.experiment), "Outcome"]
        table = _decisions(frame, names[0])
        last = frame.iloc[-1]
        text = (
            f"The last decision, on trial {last['trial_index']}: {last['why']} Each row has the "
            "reason that was recorded with the decision, with the numbers of that time."
        )
        return self._card_of(text, frame, table)


def _decision_of(run: Run[Method], trial_index: int) -> dict[str, Any]:
    try:
        asked = query(run.client, trial_index)
    except (UserInputError, UnsupportedError) as error:
        return {"set": "", "measure": True, "why": str(error)}
    return {"set": display_values(asked.controlled), "measure": asked.measure, "why": asked.why}


def _error(trial: BaseTrial) -> str:
    attempts = [] if trial.status.is_completed else outcome_record(trial).get("attempts")
    return str(attempts[-1].get("error") or "") if attempts else ""


def _ended(status: str, error: str) -> str:
    words = status.lower().replace("_", " ")
    return f"{words}: {shorten(error, _MAX_ERROR_LENGTH)}" if error else words


def _decisions(frame: pd.DataFrame, outcome: str) -> str:
    ended = [_ended(*row) for row in zip(frame["status"], frame["error"], strict=True)]
    skipped = frame["measure"].map({True: "", False: " (without measuring)"})
    shown = frame.assign(set=_settings(frame) + skipped, status=ended)
    columns = ["trial_index", "set", "why", "expected_cost", "charged", "outcome", "status"]
    header = ["Trial", "Set", "Why", "Expected cost", "Charged", outcome, "Status"]
    return html_table(shown[columns].set_axis(header, axis="columns"))


def html_table(frame: pd.DataFrame) -> str:
    """Return a table that scrolls in its own box, with inline style; all texts are escaped.

    Args:
        frame: Texts and numbers; columns of numbers are right-aligned, and a missing value is
            empty.
    """
    numeric = [pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes]
    body = "\n".join(_row("td", row, numeric) for row in frame.itertuples(index=False))
    return (
        '<div style="overflow:auto;max-height:460px">\n'
        '<table style="border-collapse:collapse;font-size:0.85em;margin:0">\n'
        f"<thead>{_row('th', frame.columns, numeric)}</thead>\n"
        f"<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


def _settings(frame: pd.DataFrame) -> pd.Series:
    """Return the column ``set``, prefixed with ``control_set`` if there is one."""
    names = frame["control_set"].map("{}: ".format, na_action="ignore")
    return names.fillna("") + frame["set"]


def _row(tag: str, values: Iterable[Any], numeric: Sequence[bool]) -> str:
    cells = (_cell(tag, value, is_number) for value, is_number in zip(values, numeric, strict=True))
    return f"<tr>{''.join(cells)}</tr>"


def _cell(tag: str, value: Any, is_number: bool) -> str:
    text = display_number(value) if isinstance(value, float) else str(value)
    text = "" if pd.isna(value) else text
    style = _CELL + f"text-align:{'right' if is_number else 'left'};"
    if tag == "th":
        style += "max-width:10em;overflow-wrap:break-word;position:sticky;top:0;"
        style += "background:#f4f4f4;color:#111;"
    elif is_number:
        style += "white-space:nowrap;"
    else:
        style += next((f"{_WRAP}{room}em;" for least, room in _ROOM if len(text) > least), "")
    return f'<{tag} style="{style}">{" ".join(escape(text).split())}</{tag}>'
