"""What is known of the objective itself, and of its best point, from averages: an Ax analysis.

Trials are queries that are answered by averages of the objective (Zhang et al. 2024, "Indirect
Query Bayesian Optimization with Integrated Feedback"). The analysis shows the posterior of the
objective over the points, where the queries went, and what was recommended as time went on. Costs
are in the user's own unit, values in the objective's unit and sign.
"""

from __future__ import annotations

import math
from typing import Any, final

import pandas as pd
import torch
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard, create_plotly_analysis_card
from ax.core.experiment import Experiment
from ax.generation_strategy.generation_strategy import GenerationStrategy
from torch import Tensor

from ax_costaware.analysis.indirect_figure import Axis, IndirectLabels, Shown, indirect_figure
from ax_costaware.analysis.method_analysis import MethodAnalysis
from ax_costaware.analysis.objective import minimizes, objective_metric, outcomes
from ax_costaware.ax_bridge.nodes import fitted_adapter
from ax_costaware.ax_bridge.records import decision_record, ledger
from ax_costaware.methods.averages import Targets, posterior, recommendation_record
from ax_costaware.methods.parameters import Choice, FreeParameter
from ax_costaware.methods.problem import Best, Problem

NEXT = "NEXT"
"""Status of the last row of the frame, which has what is recommended now."""

_LINE_POINTS = 201
_MAP_POINTS = 61


@final
class IndirectQueryAnalysis(MethodAnalysis[Targets]):
    """The objective behind the averages, where it was asked for, and the recommendation over time.

    The card's data frame has one row per trial, by trial index, and a last one with the status
    ``NEXT``, which has what is recommended now:

    - ``trial_index``, ``initial``, ``status``, ``charged``: as in the ledger;
    - ``cumulative_cost``: what this and all earlier trials were charged;
    - ``outcome``: the reported average (NaN without);
    - ``mean``, ``standard_deviation``: of the average, expected by the model before the trial;
      NaN for trials that its model did not choose;
    - ``information``: what the answer was expected to tell, in nats;
    - ``recommended_value``, ``recommended_standard_deviation``: of the objective at the point that
      was recommended before the trial, by the model of the time, and
      ``recommended_<parameter>``, the point.

    The figure shows one or two target parameters; further ones are at the recommended point.
    """

    title = "The objective behind the averages"
    method_class = Targets

    def _card(
        self,
        experiment: Experiment,
        generation_strategy: GenerationStrategy,
        method: Targets,
    ) -> PlotlyAnalysisCard:
        problem = fitted_adapter(experiment, generation_strategy).problem()
        best = method.recommend(problem)[0]
        frame = _frame(experiment, method, best)
        labels = IndirectLabels(metric=objective_metric(experiment), minimize=minimizes(experiment))
        return create_plotly_analysis_card(
            name=type(self).__name__,
            title=self.title,
            subtitle=_subtitle(frame, method, best),
            df=frame,
            fig=indirect_figure(_shown(problem, method, best), frame, labels),
        )


def _frame(experiment: Experiment, method: Targets, best: Best) -> pd.DataFrame:
    outcome = outcomes(experiment)
    rows: list[dict[str, Any]] = []
    for entry in ledger(experiment, method):
        record = decision_record(experiment.trials[entry.trial_index])
        decision = record.get("decision") or {}
        rows.append(
            {
                "trial_index": entry.trial_index,
                "initial": entry.initial,
                "status": entry.status,
                "charged": entry.charged,
                "outcome": outcome.get(entry.trial_index),
                "mean": decision.get("mean"),
                "standard_deviation": decision.get("standard_deviation"),
                "information": decision.get("information"),
                **_recommended(method, decision.get("recommendation") or {}),
            }
        )
    rows.append(
        {
            "trial_index": max(experiment.trials) + 1,
            "initial": False,
            "status": NEXT,
            "charged": 0.0,
            **_recommended(method, recommendation_record(best)),
        }
    )
    frame = pd.DataFrame(rows)
    floats = (
        *("charged", "outcome", "mean", "standard_deviation", "information"),
        *("recommended_value", "recommended_standard_deviation"),
    )
    frame = frame.astype(dict.fromkeys(floats, float))
    frame["cumulative_cost"] = frame["charged"].cumsum()
    return frame


def _recommended(method: Targets, record: dict[str, Any]) -> dict[str, Any]:
    parameters = record.get("parameters") or {}
    return {
        "recommended_value": record.get("mean"),
        "recommended_standard_deviation": record.get("standard_deviation"),
        **{f"recommended_{name}": parameters.get(name) for name in method.target_names},
    }


def _shown(problem: Problem, method: Targets, best: Best) -> Shown:
    """What the figure shows: posterior, queries, and the recommended point."""
    parameters = method.target_parameters
    columns = list(range(min(2, len(parameters))))
    at = torch.tensor([p.encode(best.parameters[p.name]) for p in parameters], dtype=torch.double)
    grids = [_grid(parameters[i], len(columns)) for i in columns]
    mesh = torch.cartesian_prod(*grids).reshape(-1, len(columns))
    X = at.expand(len(mesh), -1).clone()
    X[:, columns] = mesh
    with torch.no_grad():
        mean, variance = posterior(problem).target_moments(X)
    shape = [len(grid) for grid in grids]
    return Shown(
        axes=tuple(_axis(parameters[i], grid) for i, grid in zip(columns, grids, strict=True)),
        mean=problem.sign * mean.reshape(shape).numpy(),
        standard_deviation=variance.sqrt().reshape(shape).numpy(),
        best=tuple(at[columns].tolist()),
        best_value=best.mean,
        queries=_queries(problem, method, columns),
        are_cells=method.are_cells,
    )


def _grid(parameter: FreeParameter, dimensions: int) -> Tensor:
    most = _LINE_POINTS if dimensions == 1 else _MAP_POINTS
    if parameter.grid is not None and len(parameter.grid) <= most:
        return torch.tensor(parameter.grid, dtype=torch.double)
    if parameter.log_scale:
        low, high = math.log(parameter.lower), math.log(parameter.upper)
        return torch.linspace(low, high, most, dtype=torch.double).exp()
    return torch.linspace(parameter.lower, parameter.upper, most, dtype=torch.double)


def _axis(parameter: FreeParameter, grid: Tensor) -> Axis:
    names = None
    if isinstance(parameter, Choice) and not parameter.is_ordered:
        names = tuple(str(parameter.decode(value)) for value in grid.tolist())
    return Axis(
        name=parameter.name,
        values=grid.numpy(),
        is_log=parameter.log_scale,
        is_discrete=parameter.grid is not None,
        names=names,
    )


def _queries(problem: Problem, method: Targets, columns: list[int]) -> pd.DataFrame:
    """Where each answered query went: centre and half-width of its law along each axis."""
    rows: list[dict[str, Any]] = []
    for trial in problem.trials:
        if trial.outcome is None:
            continue
        centre, spread = method.reach(problem, trial.parameters)
        rows.append(
            {
                "trial_index": trial.index,
                "outcome": trial.outcome,
                **{f"centre_{k}": centre[i] for k, i in enumerate(columns)},
                **{f"spread_{k}": spread[i] for k, i in enumerate(columns)},
            }
        )
    return pd.DataFrame(rows)


def _subtitle(frame: pd.DataFrame, method: Targets, best: Best) -> str:
    spent = f"{frame['cumulative_cost'].iloc[-1]:.6g}"
    if method.budget is not None:
        spent += f" of {method.budget:.6g}"
    rest = ""
    if len(method.target_names) > 2:
        fixed = {name: best.parameters[name] for name in method.target_names[2:]}
        rest = f" The other parameters are at the recommended {fixed}."
    where = (
        "Every cell that was measured is drawn in its extent."
        if method.are_cells
        else "A dot is a query, at the mean of the points that it averages over, with one standard "
        "deviation of these on either side."
    )
    return (
        f"Spent {spent}. The posterior is that of the objective at single points, which were never "
        f"measured themselves. {where} The star is the point that is recommended now.{rest} Below, "
        "what the recommended point was expected to be worth before each trial, with two standard "
        "deviations on either side."
    )
