"""What to deploy by the present model, and what else could be: a table, as an Ax analysis.

For the experiments of every method; it shows what ``ax_costaware.recommend`` says. Costs are in the
user's own unit, values in the objective's unit and sign.
"""

from __future__ import annotations

from typing import final

import pandas as pd
from ax.core.experiment import Experiment
from ax.generation_strategy.generation_strategy import GenerationStrategy

from ax_costaware.analysis.method_analysis import MethodAnalysis
from ax_costaware.analysis.objective import minimizes, objective_metric
from ax_costaware.analysis.table import TableCard, html_table
from ax_costaware.display import display_number, display_values
from ax_costaware.methods.method import Method
from ax_costaware.session.recommendation import recommend

_MOST_ROWS = 11


@final
class RecommendationAnalysis(MethodAnalysis[Method]):
    """The recommendation and its alternatives, with what to expect of each.

    The card's data frame has one row for each, best first, ten alternatives at most:

    - ``control_set`` (None for a method without), ``set``: the values to set, as text;
    - ``expected_value``, ``standard_deviation``: of the objective, by the present model;
    - ``expected_cost``: of a trial there; NaN where nothing is known of it, or it is no trial.
    """

    title = "What to deploy"
    method_class = Method

    def _card(
        self,
        experiment: Experiment,
        generation_strategy: GenerationStrategy,
        method: Method,
    ) -> TableCard:
        best = recommend((experiment, generation_strategy))
        frame = pd.DataFrame(
            {
                "control_set": found.control_set,
                "set": display_values(found.parameters),
                "expected_value": found.expected_value,
                "standard_deviation": found.standard_deviation,
                "expected_cost": found.expected_cost,
            }
            for found in (best, *best.alternatives)[:_MOST_ROWS]
        ).astype({"expected_cost": float})
        metric = objective_metric(experiment)
        better = "least" if minimizes(experiment) else "greatest"
        first = frame.iloc[0]
        where = "" if first["control_set"] is None else f" with control set {first['control_set']}"
        return TableCard(
            name=type(self).__name__,
            title=self.title,
            subtitle=(
                f"Set {first['set']}{where}: it has the {better} expected {metric} by the model of "
                f"all data, {first['expected_value']:.6g} ± "
                f"{2 * first['standard_deviation']:.2g} (two standard deviations, of what the "
                "model does not know; single outcomes vary by more)."
            ),
            df=frame,
            blob=_table(frame, metric),
        )


def _table(frame: pd.DataFrame, metric: str) -> str:
    header = ["", "Set", f"Expected {metric}", "± 2 s.d."]
    if has_cost := bool(frame["expected_cost"].notna().any()):
        header.append("Cost of a trial")
    rows = []
    for position, row in enumerate(frame.to_dict(orient="records")):
        what = str(row["set"])
        if row["control_set"] is not None:
            what = f"{row['control_set']}: {what}"
        cost = row["expected_cost"]
        cells = [
            "recommended" if position == 0 else "or",
            what,
            display_number(row["expected_value"]),
            f"{2 * row['standard_deviation']:.2g}",
            "" if pd.isna(cost) else display_number(cost),
        ]
        rows.append(cells if has_cost else cells[:-1])
    return html_table(header, rows, numeric=(2, 3, 4))
