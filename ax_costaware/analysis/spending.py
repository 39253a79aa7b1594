"""Where the money went: what every trial was charged, and what is left of the budget.

An Ax analysis for the experiments of every method. It shows the ledger
(``ax_costaware.core.account``), which needs no model and no outcome. Costs are in the user's own
unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import pandas as pd
from ax.core.analysis_card import AnalysisCard
from ax.core.trial_status import TrialStatus
from plotly import graph_objects as go

from ax_costaware.analysis.figures import (
    BUDGET,
    COLORS,
    DARK,
    GREY,
    PALE,
    RED,
    Panel,
    cost_title,
    pale,
    panels,
    short_names,
    trial_ticks,
)
from ax_costaware.analysis.method_analysis import MethodAnalysis, Run
from ax_costaware.core.method import Method
from ax_costaware.session.spending import Spending, origin_of, spending

_HEIGHT_PIXELS = 480
"""A card shows as much without scrolling."""

_MANY = 60
"""Trials above which marks are smaller."""

_PATTERNS = {"reserved": ".", "failed": "x", "stopped early": "/"}
"""Patterns of bars."""


@final
class SpendingAnalysis(MethodAnalysis[Method]):
    """What each trial was charged, on what it was spent, and how far the budget is used up.

    The card's data frame has one row per trial, by trial index: the columns of
    ``spending(client).to_frame()``, and

    - ``spent_on``: the control set, the level of a tree, whether fidelities are at the target, else
      whether the trial is initial, was chosen by the model, or was attached;
    - ``cumulative_cost``: what this and all earlier trials were charged.
    """

    title = "Where the money went"
    method_class = Method
    needs_outcomes = False

    def _card(self, run: Run[Method]) -> AnalysisCard:
        paid, method = spending(run.client), run.method
        frame = paid.to_frame()
        # A trial that has ended may have come less far than was planned.
        rows = [trial.parameters if trial.is_live else trial.inputs for trial in run.trials]
        frame["spent_on"] = [
            (method.group_of(row) if row else None) or origin_of(entry)
            for row, entry in zip(rows, paid.entries, strict=True)
        ]
        frame["cumulative_cost"] = frame["charged"].cumsum()
        # Control sets as declared, levels from coarse to fine.
        figure = spending_figure(frame, method.groups(), method.budget, method.cost_metric)
        return self._card_of(_subtitle(paid, frame), frame, figure)


def _subtitle(paid: Spending, frame: pd.DataFrame) -> str:
    parts = [str(paid).splitlines()[0]]
    named = _told_apart(frame)
    groups = frame.groupby(named)["charged"].agg(["size", "sum"])
    by_cost = groups.sort_values("sum", ascending=False, kind="stable")
    shares = [
        f"{row['sum']:.6g} in {int(row['size'])} trial{'' if row['size'] == 1 else 's'} ({name})"
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
    parts.append(
        "Above, the sum of all charges so far; below, what each trial was charged: what was "
        "reported, else what was expected of it, which an unfinished trial reserves."
        + (
            " A dash is what was expected where another cost was reported."
            if _differs(frame).any()
            else ""
        )
    )
    return " ".join(parts)


def _differs(frame: pd.DataFrame) -> pd.Series:
    """Where another cost was reported than was expected, but for rounding."""
    expected, reported = frame["expected_cost"], frame["reported_cost"]
    return expected.notna() & reported.notna() & ~np.isclose(expected, reported, 1e-6, 0.0)


def _told_apart(frame: pd.DataFrame) -> pd.Series:
    """What each trial was spent on, by no more names than there are colours.

    Where there are more, as with dozens of control sets, the dearest have a name each.
    """
    spent_on = frame["spent_on"]
    by_cost = frame.groupby("spent_on", sort=False)["charged"].sum()
    if len(by_cost) <= len(COLORS):
        return spent_on
    named = by_cost.sort_values(ascending=False, kind="stable").index[: len(COLORS) - 1]
    return spent_on.where(spent_on.isin(named), f"{len(by_cost) - len(named)} others")


def spending_figure(
    frame: pd.DataFrame, groups: Sequence[str], budget: float | None, cost_metric: str | None
) -> go.Figure:
    """The figure of a frame made by ``SpendingAnalysis``.

    Args:
        frame: One row per trial, with the columns that ``SpendingAnalysis`` documents.
        groups: What comes first of that on which trials were spent, in the order of the colours.
        budget: Total budget, drawn as a horizontal line; None for none.
        cost_metric: The metric in which costs are reported; None where they are known beforehand.
    """
    figure = panels(_HEIGHT_PIXELS, legend=-0.15, top=40, shared_xaxes=True, vertical_spacing=0.07)
    upper, lower = Panel(figure), Panel(figure, 2)
    _add_total(upper, frame)
    _add_bars(lower, frame, groups)
    lower.dots(
        frame[_differs(frame)],
        "trial_index",
        "expected_cost",
        "expected cost",
        "trial {x}: expected to cost {y:.6g}, reported {reported_cost:.6g}",
        color=DARK,
        marker={"symbol": "line-ew", "size": 12 if len(frame) <= _MANY else 6, "line_width": 2},
    )
    free = frame["charged"] == 0
    for name, rows, symbol in (
        ("not measured", frame[free & frame["skipped"]], "line-ns"),
        ("not charged", frame[free & ~frame["skipped"]], "circle-open"),
    ):
        mark = {"symbol": symbol, "size": 8, "line_width": 1.5}
        text = f"trial {{x}}: {name}, {{status}}"
        lower.dots(rows, "trial_index", "charged", name, text, color=RED, marker=mark)
    if budget is not None:
        figure.add_hline(y=budget, annotation_position="top left", **BUDGET, **upper.place)
    # Room for the name of the line.
    top = 1.12 * max(float(frame["cumulative_cost"].max()), budget or 0.0)
    upper.yaxis(
        title_text=cost_title("Spent so far", cost_metric, upright=True),
        range=[0, top] if top > 0 else None,
    )
    # Room for the marks of trials that were charged nothing.
    largest = float(frame[["charged", "expected_cost"]].max().max())
    room = [-0.06 * largest, 1.06 * largest] if largest > 0 else None
    lower.yaxis(title_text=cost_title("Charged", cost_metric, upright=True), range=room)
    lower.xaxis(title_text="Trial", **trial_ticks(len(frame)))
    figure.update_layout(barmode="stack", bargap=0.15, legend_traceorder="normal")
    return figure


def _add_total(panel: Panel, frame: pd.DataFrame) -> None:
    """The sum of all charges by the end of each trial."""
    steps = pd.concat([frame.iloc[:1].assign(cumulative_cost=0.0), frame, frame.iloc[-1:]])
    # A step at the left side of each bar below, and the end of the last one.
    places = steps["trial_index"] - 0.5
    places.iloc[-1] += 1
    text, style = "with trial {trial_index}: {y:.6g} spent", {"line_shape": "hv"}
    spent = steps["cumulative_cost"]
    panel.line(steps, places, spent, "spent", text, color=DARK, showlegend=False, **style)


def _add_bars(panel: Panel, frame: pd.DataFrame, groups: Sequence[str]) -> None:
    """A bar for each trial, in the colour of what it was spent on, and what all that means."""
    named = _told_apart(frame)
    groups = [group for group in groups if (named == group).any()]
    groups += [other for other in dict.fromkeys(named) if other not in groups]
    names = short_names(groups)
    ended = frame["status"].map(_ended)
    # Initial trials are pale, unless what they were spent on says so already.
    is_pale = frame["initial"].astype(bool) & (frame["spent_on"] != "initial")
    legend = []
    for position, group in enumerate(groups):
        name, color = names[group], COLORS[position % len(COLORS)]
        mine = named == group
        rows = frame[mine]
        patterns = [_PATTERNS.get(how, "") for how in ended[mine]]
        opacity = [PALE if one else 1.0 for one in is_pale[mine]]
        panel.add(
            "bar",
            rows,
            "trial_index",
            rows["charged"] - rows["lost"],
            name,
            "trial {x}: {spent_on}, {status}<br>charged {charged:.6g} (expected "
            "{expected_cost:.6g}, reported {reported_cost:.6g})",
            marker={"color": color, "opacity": opacity, "pattern": _pattern(patterns)},
            legendgroup=name,
            showlegend=False,
        )
        legend.append((name, "", color))
    legend += [(how, shape, GREY) for how, shape in _PATTERNS.items() if how in set(ended)]
    if is_pale.any():
        # A legend takes no notice of an opacity.
        legend.append(("initial (pale)", "", pale(GREY, PALE)))
    for name, shape, color in legend:
        marker = {"color": color, "pattern": _pattern(shape)}
        panel.entry("bar", name, marker=marker)
    # On top of a trial's bar, what its failed attempts were charged.
    text = "trial {x}: {y:.6g} of the {charged:.6g} charged went into attempts that failed"
    lost = frame[frame["lost"] > 0]
    panel.add("bar", lost, "trial_index", "lost", "failed attempts", text, marker_color=RED)


def _pattern(shape: str | Sequence[str]) -> dict[str, Any]:
    return {"shape": shape, "fgcolor": "white", "size": 6, "solidity": 0.35}


def _ended(status: str) -> str:
    """How a trial ended that was not completed, as the legend calls it."""
    other = "" if TrialStatus[status].is_terminal else "reserved"
    return {"FAILED": "failed", "EARLY_STOPPED": "stopped early"}.get(status, other)
