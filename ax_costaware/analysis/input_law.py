"""Ax analysis of the uncontrolled inputs: realized values against assumed distributions.

Decisions of the control-set strategy are expectations over these distributions (Tay et al. 2023).
The tests are those of ``ax_costaware.session.input_fit``. Values are in the parameters' own units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
import pandas as pd
import torch
from ax.core.analysis_card import AnalysisCard
from plotly import graph_objects as go

from ax_costaware.analysis.figures import (
    BLUE,
    DARK,
    LONG_METRIC,
    RED,
    Panel,
    pale,
    panels,
    short_name,
    trial_ticks,
)
from ax_costaware.analysis.method_analysis import MethodAnalysis, Run
from ax_costaware.analysis.replay import even_selection
from ax_costaware.laws import Discrete, Learned, Marginal, RawValue
from ax_costaware.laws.input_fit import InputFit
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.control_sets.learned import (
    RealizedInputs,
    atoms_of,
    condition_of,
    learned_from,
    realized_inputs,
    values_of,
)
from ax_costaware.session.input_fit import (
    NO_INPUTS,
    InputFitReport,
    input_fit,
    realized_before_and_since,
    successive_laws,
)

_BAND = (0.05, 0.95)
"""Quantiles that enclose 90 % of a distribution."""

_GRID = 201
"""Number of points of a distribution function."""

_CONDITIONAL_GRID = 31
"""Number of points if the function is an average over trials, each of which is slow."""

_MAX_TRIALS = 30
"""Largest number of trials of such an average; of more, an even selection."""

_MAX_BARS = 12
"""Largest number of values that are drawn as bars; others as a distribution function."""

_MOMENTS = ("realised_mean", "realised_std", "assumed_mean", "assumed_std")

_EARLIER = 0.35
"""Opacity of untested values."""

_MARGIN = 0.07
"""Margin above and below, as a fraction of the range."""

_ROOM, _LEAST, _BETWEEN = 42, 6, 16
"""Characters below a panel, at least for one of its values, and between two panels."""

_ROW_PIXELS = 190
_TOP_PIXELS, _BOTTOM_PIXELS = 95, 40
_LEGEND_PIXELS = 25
"""Distance of the legend above the first title; below the figure, a card would hide it."""


@final
class InputLawAnalysis(MethodAnalysis[ControlSets]):
    """Realized values of the uncontrolled inputs, and their assumed distributions.

    The card's data frame has one row per input:

    - ``input``; ``n``: number of tested trials; ``test``, ``statistic``, ``p_value``;
    - ``realised_mean``, ``realised_std``, ``assumed_mean``, ``assumed_std``: of numeric inputs;
    - ``agrees``: False if the test rejects, corrected for the number of tests.
    """

    title = "Uncontrolled inputs"
    method_class = ControlSets

    def __init__(self, last: int | None = None, significance: float = 0.01) -> None:
        """Analysis of the uncontrolled inputs.

        Args:
            last: Number of the most recent trials to test; None for all.
            significance: Probability of any false alarm among the tests of one card.
        """
        self.last = last
        self.significance = significance

    def _missing(self, run: Run[ControlSets]) -> str | None:
        if reason := super()._missing(run):
            return reason
        # The tests are slow with many inputs, so only the card runs them.
        _, recent = realized_before_and_since(run.trials, run.method, self.last)
        uncontrolled = {name for trial in recent for name in trial.uncontrolled}
        return None if uncontrolled & run.method.laws.keys() else NO_INPUTS

    def _card(self, run: Run[ControlSets]) -> AnalysisCard:
        report = input_fit(run.client, self.last, self.significance)
        trials = realized_inputs(run.trials, run.method)
        figure = input_law_figure([_panel(fit, report, trials, run.method) for fit in report.fits])
        warning = "" if report.agrees else ": WARNING, they disagree with their distributions"
        return self._card_of(_subtitle(report), _frame(report), figure, warning)


def _frame(report: InputFitReport) -> pd.DataFrame:
    frame = report.to_frame().rename(columns={"name": "input"})
    return frame.astype(dict.fromkeys(_MOMENTS, float))


@dataclass(frozen=True)
class InputPanel:
    """Content of the row of one input."""

    fit: InputFit
    """Test of the last ``fit.n`` values."""

    agrees: bool
    """True if the test does not reject."""

    trial_indices: Sequence[int]
    """Trials that did not control the input."""

    values: Sequence[RawValue]
    """Values of the input in these trials."""

    label: str
    """Label of the assumed distribution."""

    x: Sequence[RawValue]
    """Points at which the distribution is drawn, or its values."""

    heights: Sequence[float]
    """Distribution function at these points, or the probabilities of the values."""

    is_shares: bool
    """True if ``heights`` are probabilities."""

    band: tuple[float, ...] | None
    """Interval with 90 % of the values; None if it differs from trial to trial."""

    @property
    def title(self) -> str:
        """Title with the result of the test."""
        verdict = "as assumed" if self.agrees else "NOT as assumed"
        return f"{short_name(self.fit.name, LONG_METRIC)}: {verdict} (p = {self.fit.p_value:.2g})"

    @property
    def tested(self) -> list[RawValue]:
        """Values that were tested."""
        return list(self.values[len(self.values) - self.fit.n :])

    @property
    def realised(self) -> str:
        """Label of the values."""
        return "realised" if self.agrees else "realised, not as assumed"

    @property
    def color(self) -> str:
        """Colour of the values."""
        return DARK if self.agrees else RED


def _panel(
    fit: InputFit, report: InputFitReport, trials: Sequence[RealizedInputs], method: ControlSets
) -> InputPanel:
    """Return the panel of an input; its distribution is averaged over the tested trials."""
    name = fit.name
    mine = [trial for trial in trials if name in trial.uncontrolled]
    tested, values = mine[len(mine) - fit.n :], values_of(name, mine)
    indices = [trial.trial_index for trial in mine]
    panel = partial(InputPanel, fit, name not in report.disagreeing, indices, values)
    law, joint = method.laws[name], method.joint
    now = learned_from(law, values)
    prior = now.prior if isinstance(now, Learned) else now
    atoms = list(atoms_of(now) or ()) if isinstance(prior, Discrete) else []
    is_shares = bool(atoms) and (not now.is_numeric or len(atoms) <= _MAX_BARS)
    x = atoms if is_shares else _places(now, values, _GRID)
    conditions: list[dict[str, RawValue]] = []
    if joint is not None and name in joint.names:
        conditions = [condition_of(trial, joint) for trial in tested]
    if joint is not None and any(conditions):
        # Distribution functions are in alphabetical order.
        x = sorted(x) if is_shares else _places(now, values, _CONDITIONAL_GRID)
        some = even_selection(conditions, _MAX_TRIALS)
        cdf = [[reached for _, reached in joint.cdfs_given(name, x, given)] for given in some]
        heights = np.mean(cdf, axis=0)
        heights = np.diff(heights, prepend=0.0) if is_shares else heights
        return panel("assumed, given the controlled inputs", x, heights.tolist(), is_shares, None)
    laws: Sequence[Marginal] = [law]
    if isinstance(law, Learned):
        before = values[: len(values) - len(tested)]
        laws = even_selection(successive_laws(law, before, values[len(before) :]), _MAX_TRIALS)
    curves = [_shares(law, x) if is_shares else _cdf(law, x) for law in laws]
    label = "assumed" if len(laws) == 1 else "learned before each trial, on average"
    ends = torch.tensor(_BAND, dtype=torch.double)
    band = tuple(now.icdf(ends).tolist()) if now.is_numeric else None
    return panel(label, x, np.mean(curves, axis=0).tolist(), is_shares, band)


def _shares(law: Marginal, atoms: Sequence[RawValue]) -> list[float]:
    nodes, weights = law.nodes_and_weights(len(atoms))
    shares = dict(zip(law.decode(nodes), weights.tolist(), strict=True))
    return [shares.get(value, 0.0) for value in atoms]


def _cdf(law: Marginal, x: Sequence[RawValue]) -> list[float]:
    places = torch.tensor([float(value) for value in x], dtype=torch.double)
    return [float(height) for height in law.cdf(places)]


def _places(law: Marginal, values: Sequence[RawValue], count: int) -> list[RawValue]:
    """Return evenly spaced points that cover the distribution and all values."""
    numbers = [float(value) for value in values]
    low, high = min(law.lower, *numbers), max(law.upper, *numbers)
    return [float(place) for place in np.linspace(low, high, count)]


def _subtitle(report: InputFitReport) -> str:
    parts = [report.verdict]
    if not report.agrees:
        parts.append(
            "Decisions rest on these distributions: give the strategy new ones, or a Learned "
            "marginal."
        )
    parts.append(
        "Left: distribution of the values in trials that did not control the input, and the "
        "assumed distribution. Right: the same values in order of the trials; the band has 90 % "
        "of the present distribution."
    )
    if report.last is not None:
        parts.append(f"The tests use the last {report.last} trials.")
    parts.append(f"The probability of any false alarm is {report.significance:g}.")
    return " ".join(parts)


def input_law_figure(inputs: Sequence[InputPanel]) -> go.Figure:
    """Return the figure of uncontrolled inputs, a row for each: distribution left, course right.

    Args:
        inputs: At least one.
    """
    rows = len(inputs)
    inner = rows * _ROW_PIXELS
    figure = panels(
        inner + _TOP_PIXELS + _BOTTOM_PIXELS,
        legend=1 + _LEGEND_PIXELS / inner,
        top=_TOP_PIXELS,
        rows=rows,
        cols=2,
        column_widths=[0.5, 0.5],
        horizontal_spacing=0.15,
        vertical_spacing=min(80 / inner, 0.9 / rows),
        subplot_titles=[title for one in inputs for title in (one.title, "")],
    )
    for one, title in zip(inputs, figure.layout.annotations, strict=True):
        title.update(font={"size": 14, "color": one.color})
    bands: list[dict[str, Any]] = []
    for row, one in enumerate(inputs, start=1):
        add = _add_shares if one.is_shares else _add_distribution
        add(Panel(figure, row), one)
        _add_course(Panel(figure, row, 2), one)
        if one.band is not None:
            bands.append(_across(figure.data[-1], *one.band))
    # All at once, since each call of plotly's add_hrect iterates over all shapes.
    figure.update_layout(shapes=bands)
    seen: set[str] = set()
    for trace in figure.data:
        trace.update(legendgroup=trace.name, showlegend=trace.name not in seen)
        seen.add(trace.name)
    figure.update_layout(barmode="group", margin_b=_BOTTOM_PIXELS, legend_yanchor="bottom")
    return figure


def _across(trace: Any, low: float, high: float) -> dict[str, Any]:
    """Return a band over the whole width of the panel of a trace."""
    return {
        "type": "rect",
        "x0": 0,
        "x1": 1,
        "xref": f"{trace.xaxis} domain",
        "y0": low,
        "y1": high,
        "yref": trace.yaxis,
        "fillcolor": pale(BLUE),
        "line": {"width": 0},
        "layer": "below",
    }


def _add_distribution(panel: Panel, drawn: InputPanel) -> None:
    """Draw the assumed and the empirical distribution function."""
    values = sorted(float(value) for value in drawn.tested)
    text = "{y:.3f} of the values up to {x:.6g}"
    x, y = list(drawn.x), list(drawn.heights)
    panel.line(None, x, y, drawn.label, f"{drawn.label}: {text}", color=BLUE)
    x = [float(x[0]), *values, float(x[-1])]
    y = [*np.linspace(0.0, 1.0, len(values) + 1).tolist(), 1.0]
    panel.line(None, x, y, drawn.realised, text, color=drawn.color, line_shape="hv")
    panel.xaxis(title_text=short_name(drawn.fit.name, LONG_METRIC), title_standoff=4)
    panel.yaxis(title_text="Share up to there", range=[-0.03, 1.03])


def _add_shares(panel: Panel, drawn: InputPanel) -> None:
    """Draw the assumed probability and the observed share of each value."""
    tested, assumed = drawn.tested, dict(zip(drawn.x, drawn.heights, strict=True))
    labels = list(dict.fromkeys((*drawn.x, *tested)))
    x = [str(value) for value in labels]
    for name, heights, color in (
        (drawn.label, [assumed.get(value, 0.0) for value in labels], BLUE),
        (drawn.realised, [tested.count(value) / len(tested) for value in labels], drawn.color),
    ):
        text = f"{name}: {{y:.3f}} of the values are {{x}}"
        panel.add("bar", None, x, heights, name, text, marker_color=color)
    ticks = _category_ticks(x, max(_ROOM // len(x), _LEAST))
    panel.xaxis(title_text=short_name(drawn.fit.name, LONG_METRIC), title_standoff=4, **ticks)
    panel.yaxis(title_text="Share", rangemode="tozero")


def _category_ticks(names: Sequence[str], most: int) -> dict[str, Any]:
    """Return the options of an axis of names, each with at most ``most`` characters."""
    names = list(dict.fromkeys(names))
    texts = [short_name(name, most) for name in names]
    return {"type": "category", "tickvals": names, "ticktext": texts}


def _add_course(panel: Panel, drawn: InputPanel) -> None:
    """Draw the values in order of the trials; untested ones are pale."""
    name, band, values = drawn.fit.name, drawn.band, drawn.values
    is_number = band is not None or not any(isinstance(v, str | bool) for v in values)
    names = [] if is_number else [str(value) for value in values]
    opacity = [_EARLIER] * (len(values) - drawn.fit.n) + [1.0] * drawn.fit.n
    panel.dots(
        None,
        list(drawn.trial_indices),
        names or list(values),
        drawn.realised,
        "trial {x}: {name} = {y}",
        {"name": name},
        color=drawn.color,
        marker={"size": 7, "opacity": opacity},
    )
    # A title at the side would overlap the left panel of a narrow figure.
    ticks = trial_ticks(max(drawn.trial_indices) - min(drawn.trial_indices))
    panel.xaxis(title_text=f"{short_name(name, LONG_METRIC)} by trial", title_standoff=4, **ticks)
    if names:
        panel.yaxis(**_category_ticks(names, _BETWEEN))
    if band is not None:
        # Otherwise the axis would show all dots, but only part of the band.
        numbers = [*band, *(float(value) for value in values)]
        margin = _MARGIN * ((max(numbers) - min(numbers)) or 1.0)
        panel.yaxis(range=[min(numbers) - margin, max(numbers) + margin])
