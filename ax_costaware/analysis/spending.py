"""Ax analysis of the account: charge of every trial, and remaining budget.

It applies to every method. It shows the ledger (``ax_costaware.core.account``), which needs no
model and no outcome. Costs are in the user's own unit.
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
"""Height that a card shows without scrolling."""

_MANY = 60
"""Number of trials above which marks are smaller."""

_PATTERNS = {"reserved": ".", "failed": "x", "stopped early": "/"}
"""Patterns of bars."""


@final
class SpendingAnalysis(MethodAnalysis[Method]):
    """Charge and purpose of each trial, and use of the budget.

    The card's data frame has one row per trial, by trial index: the columns of
    ``spending(client).to_frame()``, and

    - ``spent_on``: the control set, the level of a tree, or if fidelities are at the target;
      otherwise the origin of the trial (initial, chosen by the model, attached);
    - ``cumulative_cost``: charge of this and all earlier trials.
    """

    title = "Budget and charges"
    method_class = Method
    needs_outcomes = False
    takes_front = True

    def _card(self, run: Run[Method]) -> AnalysisCard:
        paid, method = spending(run.client), run.method
        groups = method.traits.groups
        frame = paid.to_frame()
        # A trial may end at a lower fidelity than planned.
        rows = [trial.parameters if trial.is_live else trial.inputs for trial in run.trials]
        frame["spent_on"] = [
            (groups.of(row) if groups and row else None) or origin_of(entry)
            for row, entry in zip(rows, paid.entries, strict=True)
        ]
        frame["cumulative_cost"] = frame["charged"].cumsum()
        # Control sets in declared order, levels from coarse to fine.
        names = groups.names if groups else ()
        figure = spending_figure(frame, names, method.budget, method.trial_costs.metric)
        return self._card_of(_subtitle(paid, frame), frame, figure)


def _subtitle(paid: Spending, frame: pd.DataFrame) -> str:
    parts = [str(paid).splitlines()[0]]
    named = _groups(frame)
    groups = frame.groupby(named)["charged"].agg(["size", "sum"])
    by_cost = groups.sort_values("sum", ascending=False, kind="stable")
    shares = [
        f"{row['sum']:.6g} in {int(row['size'])} trial{'' if row['size'] == 1 else 's'} ({name})"
        for name, row in by_cost.iterrows()
    ]
    parts.append(f"By purpose: {'; '.join(shares)}.")
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
        "Above, the sum of all charges so far; below, the charge of each trial: its reported "
        "cost, else its expected cost, which an unfinished trial reserves."
        + (
            " A dash is the expected cost, if a different cost was reported."
            if _differs(frame).any()
            else ""
        )
    )
    return " ".join(parts)


def _differs(frame: pd.DataFrame) -> pd.Series:
    """Return True for trials whose reported cost differs from the expected one."""
    expected, reported = frame["expected_cost"], frame["reported_cost"]
    return expected.notna() & reported.notna() & ~np.isclose(expected, reported, 1e-6, 0.0)


def _groups(frame: pd.DataFrame) -> pd.Series:
    """Return the group of each trial, with no more groups than colours.

    If there are more, as with dozens of control sets, the most expensive ones have their own group.
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
    """Return the figure of a frame made by ``SpendingAnalysis``.

    Args:
        frame: One row per trial, with the columns that ``SpendingAnalysis`` documents.
        groups: First groups of ``spent_on``, in the order of the colours.
        budget: Total budget, drawn as a horizontal line; None for none.
        cost_metric: The metric of learned costs; None for declared costs.
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
    # Leave room for the label of the line.
    top = 1.12 * max(float(frame["cumulative_cost"].max()), budget or 0.0)
    upper.yaxis(
        title_text=cost_title("Spent so far", cost_metric, upright=True),
        range=[0, top] if top > 0 else None,
    )
    # Leave room for the marks of free trials.
    largest = float(frame[["charged", "expected_cost"]].max().max())
    room = [-0.06 * largest, 1.06 * largest] if largest > 0 else None
    lower.yaxis(title_text=cost_title("Charged", cost_metric, upright=True), range=room)
    lower.xaxis(title_text="Trial", **trial_ticks(len(frame)))
    figure.update_layout(barmode="stack", bargap=0.15, legend_traceorder="normal")
    return figure


def _add_total(panel: Panel, frame: pd.DataFrame) -> None:
    """Draw the sum of all charges after each trial."""
    steps = pd.concat([frame.iloc[:1].assign(cumulative_cost=0.0), frame, frame.iloc[-1:]])
    # A step at the left side of each bar below, and the end of the last one.
    places = steps["trial_index"] - 0.5
    places.iloc[-1] += 1
    text, style = "with trial {trial_index}: {y:.6g} spent", {"line_shape": "hv"}
    spent = steps["cumulative_cost"]
    panel.line(steps, places, spent, "spent", text, color=DARK, showlegend=False, **style)


def _add_bars(panel: Panel, frame: pd.DataFrame, groups: Sequence[str]) -> None:
    """Draw a bar for each trial, in the colour of its group, and the legend."""
    named = _groups(frame)
    groups = [group for group in groups if (named == group).any()]
    groups += [other for other in dict.fromkeys(named) if other not in groups]
    names = short_names(groups)
    ended = frame["status"].map(_ended)
    # Initial trials are pale, unless their group is "initial".
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
        # A legend ignores the opacity.
        legend.append(("initial (pale)", "", pale(GREY, PALE)))
    for name, shape, color in legend:
        marker = {"color": color, "pattern": _pattern(shape)}
        panel.entry("bar", name, marker=marker)
    # The charge of failed attempts is on top of a trial's bar.
    text = "trial {x}: {y:.6g} of the {charged:.6g} charged went into attempts that failed"
    lost = frame[frame["lost"] > 0]
    panel.add("bar", lost, "trial_index", "lost", "failed attempts", text, marker_color=RED)


def _pattern(shape: str | Sequence[str]) -> dict[str, Any]:
    return {"shape": shape, "fgcolor": "white", "size": 6, "solidity": 0.35}


def _ended(status: str) -> str:
    """Return the legend's name for the status of a trial that was not completed."""
    other = "" if TrialStatus[status].is_terminal else "reserved"
    return {"FAILED": "failed", "EARLY_STOPPED": "stopped early"}.get(status, other)
