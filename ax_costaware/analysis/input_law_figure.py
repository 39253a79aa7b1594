"""The figure of inputs left to chance: one row for each, its spread on the left, its course right.

Values are in the parameters' own units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from plotly import graph_objects as go
from plotly.subplots import make_subplots

from ax_costaware.analysis.figure_style import write_plain_numbers
from ax_costaware.queries.marginals import RawValue

_ASSUMED = "#0072B2"
_BAND = "rgba(0, 114, 178, 0.12)"
_REALISED = "#333333"
_DISAGREES = "#D55E00"
_EARLIER = 0.35
"""Opacity of values that the test did not look at."""

_MARGIN = 0.07
"""Room above and below, as a part of what is shown."""

_ROW_PIXELS = 190
_TOP_PIXELS, _BOTTOM_PIXELS = 95, 40
_LEGEND_PIXELS = 25
"""Distance of the legend above the first title: below the figure, a card would hide it."""


@dataclass(frozen=True)
class InputPanel:
    """What is drawn of one input."""

    name: str
    """Name of the input."""

    trial_indices: Sequence[int]
    """Trials that left it to chance."""

    values: Sequence[RawValue]
    """What it was in these."""

    num_tested: int
    """How many of these, the last ones, the test was about."""

    x: Sequence[RawValue]
    """Where the law is drawn: places on an axis, or its values."""

    assumed: Sequence[float]
    """The distribution function there, or the probabilities of the values."""

    is_shares: bool
    """Whether ``assumed`` are probabilities."""

    band: tuple[float, float] | None
    """Where nine values of ten should be; None where that differs from trial to trial."""

    p_value: float
    """Of the test."""

    agrees: bool
    """Whether the test says so."""

    law: str
    """What the law is called."""


def input_law_figure(panels: Sequence[InputPanel]) -> go.Figure:
    """The figure of one panel for each input.

    Args:
        panels: At least one.
    """
    rows = len(panels)
    inner = rows * _ROW_PIXELS
    figure = make_subplots(
        rows=rows,
        cols=2,
        column_widths=[0.5, 0.5],
        horizontal_spacing=0.15,
        vertical_spacing=min(80 / inner, 0.9 / rows),
        subplot_titles=[title for panel in panels for title in (_title(panel), "")],
    )
    for row, panel in enumerate(panels, start=1):
        (_add_shares if panel.is_shares else _add_distribution)(figure, panel, row)
        _add_course(figure, panel, row)
    for annotation, panel in zip(figure.layout.annotations, panels, strict=False):
        annotation.update(font={"size": 14, "color": _color(panel)})
    seen: set[str] = set()
    for trace in figure.data:
        trace.update(showlegend=trace.name not in seen)
        seen.add(trace.name)
    figure.update_layout(
        height=inner + _TOP_PIXELS + _BOTTOM_PIXELS,
        margin={"t": _TOP_PIXELS, "b": _BOTTOM_PIXELS, "r": 20},
        hovermode="closest",
        barmode="group",
        legend={"orientation": "h", "y": 1 + _LEGEND_PIXELS / inner, "yanchor": "bottom"},
    )
    write_plain_numbers(figure)
    return figure


def _title(panel: InputPanel) -> str:
    verdict = "as assumed" if panel.agrees else "NOT as assumed"
    return f"{panel.name}: {verdict} (p = {panel.p_value:.2g})"


def _color(panel: InputPanel) -> str:
    return _REALISED if panel.agrees else _DISAGREES


def _tested(panel: InputPanel) -> list[RawValue]:
    return list(panel.values[len(panel.values) - panel.num_tested :])


def _realised(panel: InputPanel) -> str:
    return "realised" if panel.agrees else "realised, not as assumed"


def _add_distribution(figure: go.Figure, panel: InputPanel, row: int) -> None:
    """Distribution function of the law, and that of the values that were tested."""
    figure.add_trace(
        go.Scatter(
            x=list(panel.x),
            y=list(panel.assumed),
            mode="lines",
            line={"color": _ASSUMED, "width": 2},
            hovertemplate=f"{panel.law}: %{{y:.3f}} of the values up to %{{x:.6g}}<extra></extra>",
            name=panel.law,
            legendgroup=panel.law,
        ),
        row=row,
        col=1,
    )
    values = sorted(float(value) for value in _tested(panel))
    places = [float(panel.x[0]), *values, float(panel.x[-1])]
    reached = [*np.linspace(0.0, 1.0, len(values) + 1).tolist(), 1.0]
    figure.add_trace(
        go.Scatter(
            x=places,
            y=reached,
            mode="lines",
            line={"color": _color(panel), "width": 2, "shape": "hv"},
            hovertemplate="%{y:.3f} of the values up to %{x:.6g}<extra></extra>",
            name=_realised(panel),
            legendgroup=_realised(panel),
        ),
        row=row,
        col=1,
    )
    figure.update_xaxes(title_text=panel.name, title_standoff=4, row=row, col=1)
    figure.update_yaxes(title_text="Share up to there", range=[-0.03, 1.03], row=row, col=1)


def _add_shares(figure: go.Figure, panel: InputPanel, row: int) -> None:
    """Probability and realised share of each value."""
    tested = _tested(panel)
    labels = [*panel.x, *dict.fromkeys(v for v in tested if v not in panel.x)]
    assumed = [*panel.assumed, *[0.0] * (len(labels) - len(panel.x))]
    shares = [tested.count(value) / len(tested) for value in labels]
    for name, heights, color in (
        (panel.law, assumed, _ASSUMED),
        (_realised(panel), shares, _color(panel)),
    ):
        figure.add_trace(
            go.Bar(
                x=[str(value) for value in labels],
                y=heights,
                marker={"color": color},
                hovertemplate=f"{name}: %{{y:.3f}} of the values are %{{x}}<extra></extra>",
                name=name,
                legendgroup=name,
            ),
            row=row,
            col=1,
        )
    figure.update_xaxes(title_text=panel.name, title_standoff=4, type="category", row=row, col=1)
    figure.update_yaxes(title_text="Share", rangemode="tozero", row=row, col=1)


def _add_course(figure: go.Figure, panel: InputPanel, row: int) -> None:
    """The values in order of the trials, those that were not tested pale."""
    is_number = panel.band is not None or not any(isinstance(v, str | bool) for v in panel.values)
    earlier = len(panel.values) - panel.num_tested
    figure.add_trace(
        go.Scatter(
            x=list(panel.trial_indices),
            y=list(panel.values) if is_number else [str(value) for value in panel.values],
            mode="markers",
            marker={
                "color": _color(panel),
                "size": 7,
                "opacity": [_EARLIER if i < earlier else 1.0 for i in range(len(panel.values))],
            },
            hovertemplate=f"trial %{{x}}: {panel.name} = %{{y}}<extra></extra>",
            name=_realised(panel),
            legendgroup=_realised(panel),
        ),
        row=row,
        col=2,
    )
    # A title at the side would be drawn over the left panel where the figure is narrow.
    title = f"{panel.name} by trial"
    figure.update_xaxes(title_text=title, title_standoff=4, row=row, col=2)
    kind = None if is_number else "category"
    figure.update_yaxes(type=kind, row=row, col=2)
    if panel.band is not None:
        figure.add_hrect(*panel.band, fillcolor=_BAND, line_width=0, layer="below", row=row, col=2)
        # The axis would otherwise show the dots, and as much of the band as falls there.
        numbers = [*panel.band, *(float(value) for value in panel.values)]
        low, high = min(numbers), max(numbers)
        margin = _MARGIN * ((high - low) or 1.0)
        figure.update_yaxes(range=[low - margin, high + margin], row=row, col=2)
