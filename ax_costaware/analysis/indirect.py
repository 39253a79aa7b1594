"""Ax analysis of indirect queries: the objective behind the averages, and its best point.

Trials are queries with averages of the objective as answers (Zhang et al. 2024, "Indirect Query
Bayesian Optimization with Integrated Feedback"). The analysis shows the posterior of the objective,
the queries, and the recommendation over time. Costs are in the user's own unit, values in the
objective's unit and sign.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import pandas as pd
import torch
from ax.core.analysis_card import AnalysisCard

from ax_costaware.analysis.figures import (
    BLUE,
    DARK,
    LONG_METRIC,
    RED,
    Panel,
    log_ticks,
    panels,
    short_name,
    trial_ticks,
)
from ax_costaware.analysis.method_analysis import MethodAnalysis, Run
from ax_costaware.core import Best, Problem
from ax_costaware.core.problem import Array
from ax_costaware.display import display_values
from ax_costaware.methods.averages import AverageQueries
from ax_costaware.methods.averages.deployment import recommendation_record
from ax_costaware.methods.averages.information import posterior
from ax_costaware.space import Choice
from ax_costaware.space.parameters import FreeParameter

_LINE_POINTS = 201
_MAP_POINTS = 61

_HEIGHT_PIXELS = 560

_LOWER_PART = 0.3
"""Fraction of the height of the lower panel."""

_WHITE = "rgba(255, 255, 255, {})"

_GAP = 0.2
"""Fraction of the height between the panels."""


@final
class IndirectQueryAnalysis(MethodAnalysis[AverageQueries]):
    """Posterior of the objective behind the averages, the queries, and the recommendation.

    The card's data frame has one row per trial, by trial index, and a last one with the status
    ``NEXT`` for the present recommendation:

    - ``trial_index``, ``initial``, ``status``, ``charged``: as in the ledger;
    - ``cumulative_cost``: charge of this and all earlier trials;
    - ``outcome``: the reported average (NaN without);
    - ``mean``, ``standard_deviation``: posterior of the average before the trial; NaN for trials
      that the model did not choose, or chose for another objective, as all columns below;
    - ``information``: expected information of the answer, in nats;
    - ``recommended_value``, ``recommended_standard_deviation``: posterior of the objective at the
      point that was recommended before the trial, by the model of the time;
    - ``recommended_<parameter>``: that point (unless the name of a parameter is that of a column
      above).

    The figure shows one or two target parameters; others are fixed at the recommended point.
    """

    title = "The objective behind the averages"
    method_class = AverageQueries

    def _card(self, run: Run[AverageQueries]) -> AnalysisCard:
        problem, objective = run.problem(), run.objective
        best = run.method.recommend(problem)[0]
        frame = _frame(run, best)
        figure = panels(
            _HEIGHT_PIXELS,
            row_heights=[1 - _LOWER_PART, _LOWER_PART],
            vertical_spacing=_GAP,
            subplot_titles=(
                f"{short_name(objective.metric)} at a point",
                f"{short_name(objective.metric)} at the recommended point "
                f"({objective.better} is better)",
            ),
        )
        add = _add_map if len(run.method.target_parameters) > 1 else _add_line
        add(Panel(figure), run, problem, best)
        _add_recommended(Panel(figure, 2), frame)
        return self._card_of(_subtitle(frame, run, best), frame, figure)


def _frame(run: Run[AverageQueries], best: Best) -> pd.DataFrame:
    best_then = "decision.recommendation"
    recommended = {
        "recommended_value": f"{best_then}.mean",
        "recommended_standard_deviation": f"{best_then}.standard_deviation",
    }
    for name in run.method.target_names:  # a parameter may have the name "value"
        recommended.setdefault(f"recommended_{name}", f"{best_then}.parameters.{name}")
    of_answer = ("mean", "standard_deviation", "information")
    frame = run.frame(
        recorded={**{name: f"decision.{name}" for name in of_answer}, **recommended},
        following={"recommendation": recommendation_record(best)},
        values=[*of_answer, *recommended],
    )
    columns = ("trial_index", "initial", "status", "charged", "outcome", *of_answer, *recommended)
    return frame[[*columns, "cumulative_cost"]]


def _subtitle(frame: pd.DataFrame, run: Run[AverageQueries], best: Best) -> str:
    method = run.method
    rest = ""
    if len(method.target_names) > 2:
        fixed = {name: best.parameters[name] for name in method.target_names[2:]}
        rest = f" The other parameters have the recommended values: {display_values(fixed)}."
    where = (
        "Every measured cell is drawn in its extent."
        if method.are_cells
        else "A dot is a query, at the mean of its distribution of points, with one standard "
        "deviation on either side."
    )
    return (
        f"Spent {run.spent(frame)}. The posterior is that of the objective at single "
        f"points, which were never measured themselves. {where} The star is the point that is "
        f"recommended now.{rest} Below, the posterior mean at the recommended point before "
        "each trial, with two standard deviations on either side."
    )


def _add_line(panel: Panel, run: Run[AverageQueries], problem: Problem, best: Best) -> None:
    """Draw the objective over one parameter, the queries at their answers, and the best point."""
    (parameter,) = run.method.target_parameters
    grid = _grid(parameter, _LINE_POINTS)
    mean, deviation = _posterior(problem, run.method, best, [grid])
    if parameter.grid is None:
        _add_expected(panel, grid, mean, deviation, "posterior", BLUE)
    else:
        name, bars = "posterior ± 2 standard deviations", {"array": 2 * deviation, "thickness": 1.5}
        style = {"marker_size": 9, "error_y": bars, "error_y_color": BLUE}
        panel.dots(None, grid, mean, name, "{x}: {y:.6g}", color=BLUE, **style)
    queries, centre, spread = _queries(problem, run.method)
    panel.dots(
        queries,
        centre[:, 0],
        "outcome",
        "measured cells" if run.method.are_cells else "queries and their answers",
        "trial {trial_index}: answer {y:.6g}",
        color=DARK,
        marker_size=6,
        error_x={"array": spread[:, 0], "color": DARK, "thickness": 1, "width": 0},
    )
    _add_best(panel, _encoded(best, run.method)[0], best.mean)
    panel.xaxis(**_axis(parameter, grid))
    panel.yaxis(title_text=short_name(run.objective.metric, LONG_METRIC))


def _add_map(panel: Panel, run: Run[AverageQueries], problem: Problem, best: Best) -> None:
    """Draw the objective over two parameters, the queries, and the best point."""
    first, second = run.method.target_parameters[:2]
    x, y = _grid(first, _MAP_POINTS), _grid(second, _MAP_POINTS)
    mean, deviation = _posterior(problem, run.method, best, [x, y])
    panel.figure.add_heatmap(
        x=x,
        y=y,
        z=mean.T,
        customdata=deviation.T,
        colorscale="Viridis",
        colorbar={"thickness": 12, "len": (1 - _LOWER_PART) * (1 - _GAP), "lenmode": "fraction"},
        colorbar_y=1,
        colorbar_exponentformat="power",
        colorbar_minexponent=4,
        colorbar_yanchor="top",
        name="posterior mean",
        hovertemplate=(
            f"{first.name} %{{x}}, {second.name} %{{y}}<br>{run.objective.metric} "
            "%{z:.6g}, standard deviation %{customdata:.3g}<extra></extra>"
        ),
        **panel.place,
    )
    queries, centre, spread = _queries(problem, run.method)
    are_cells = run.method.are_cells
    if are_cells:
        # One trace has the outlines of all cells, with a gap after each.
        corners = np.array([[-1, 1, 1, -1, -1, math.nan], [-1, -1, 1, 1, -1, math.nan]])
        outlines = centre[:, :2, None] + spread[:, :2, None] * corners
        ends = (outlines[:, side].ravel().tolist() for side in (0, 1))
        panel.line(None, *ends, None, color=_WHITE.format(0.7), line_width=1, showlegend=False)
    bars = [
        {"array": along, "visible": not are_cells, "color": _WHITE.format(0.6), "thickness": 1}
        for along in (spread[:, 0], spread[:, 1])
    ]
    panel.dots(
        queries,
        centre[:, 0],
        centre[:, 1],
        "measured cells" if are_cells else "queries",
        "trial {trial_index}: answer {outcome:.6g}",
        color="white",
        marker={"size": 5 if are_cells else 7, "line_width": 1},
        marker_line_color=DARK,
        error_x={**bars[0], "width": 0},
        error_y={**bars[1], "width": 0},
    )
    _add_best(panel, *_encoded(best, run.method)[:2])
    panel.xaxis(**_axis(first, x, fills=True))
    panel.yaxis(**_axis(second, y, fills=True))


def _grid(parameter: FreeParameter, most: int) -> Array:
    """Return the grid of the posterior along a parameter, in the model's column."""
    if parameter.grid is not None and len(parameter.grid) <= most:
        return np.array(parameter.grid, dtype=float)
    spaced = np.geomspace if parameter.log_scale else np.linspace
    return spaced(parameter.lower, parameter.upper, most)


def _encoded(best: Best, method: AverageQueries) -> list[float]:
    """Return the recommended point in the model's columns."""
    return [p.encode(best.parameters[p.name]) for p in method.target_parameters]


def _posterior(
    problem: Problem, method: AverageQueries, best: Best, grids: Sequence[Array]
) -> tuple[Array, Array]:
    """Return mean and standard deviation over the first parameters, the rest as recommended."""
    shape = [len(grid) for grid in grids]
    X = torch.tensor(_encoded(best, method), dtype=torch.double).repeat(math.prod(shape), 1)
    mesh = np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1)
    X[:, : len(grids)] = torch.from_numpy(mesh.reshape(len(X), -1))
    with torch.no_grad():
        moments = posterior(problem).latent(X.to(problem.space.bounds))
    moments = problem.scale.moments(*moments)
    mean, variance = (moment.reshape(shape).cpu() for moment in moments)
    return mean.numpy(), variance.sqrt().numpy()


def _queries(problem: Problem, method: AverageQueries) -> tuple[pd.DataFrame, Array, Array]:
    """Return the observed queries, and the centres and half-widths of their distributions."""
    answered = problem.observed
    footprints = [method.footprint(problem, trial.inputs) for trial in answered]
    rows = [(trial.index, trial.outcome) for trial in answered]
    frame = pd.DataFrame(rows, columns=["trial_index", "outcome"])
    return (
        frame,
        np.array([centre for centre, _ in footprints]),
        np.array([s for _, s in footprints]),
    )


def _axis(parameter: FreeParameter, grid: Array, fills: bool = False) -> dict[str, Any]:
    """Return the options of a parameter's axis; with ``fills`` a map fills its panel."""
    options: dict[str, Any] = {"title_text": short_name(parameter.name)}
    if parameter.log_scale:
        options |= log_ticks(grid[0], grid[-1])
    if fills and parameter.grid is None:
        ends = grid[[0, -1]]
        options["range"] = (np.log10(ends) if parameter.log_scale else ends).tolist()
    if isinstance(parameter, Choice) and not parameter.is_ordered:
        names = [str(parameter.decode(value)) for value in grid.tolist()]
        options |= {"tickvals": grid, "ticktext": names}
    return options


def _add_best(panel: Panel, x: float, y: float) -> None:
    name, star = "recommended now", {"symbol": "star", "size": 15, "line_width": 1}
    style = {"marker": star, "marker_line_color": "white", "cliponaxis": False}
    panel.dots(None, [x], [y], name, name, color=RED, **style)


def _add_recommended(panel: Panel, frame: pd.DataFrame) -> None:
    """Draw the posterior mean at the recommended point before each trial."""
    rows = frame.dropna(subset=["recommended_value"])
    value, deviation = rows["recommended_value"], rows["recommended_standard_deviation"]
    _add_expected(panel, rows["trial_index"], value, deviation, "recommended", RED)
    panel.xaxis(title_text="Before trial", **trial_ticks(len(frame)))
    panel.yaxis(title_text="Value")  # the title of the panel names the objective


def _add_expected(panel: Panel, x: Any, mean: Any, deviation: Any, group: str, color: str) -> None:
    """Draw a line with a band around it."""
    panel.band(x, mean, deviation, color, group, showlegend=False)
    name, text = f"{group} ± 2 standard deviations", "{x:.6g}: {y:.6g}"
    panel.line(None, x, mean, name, text, color=color, legendgroup=group)
