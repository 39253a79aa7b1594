"""All cards of a method in one call: ``overview``, and the Ax analysis behind it.

Cards that cannot be computed yet are listed with the reason.
"""

from __future__ import annotations

import os
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any, final

import pandas as pd
from ax.analysis.analysis import AnalysisE, error_card_from_analysis_e
from ax.analysis.markdown.markdown_analysis import MarkdownAnalysisCard
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.core.analysis_card import (
    AnalysisCard,
    AnalysisCardBase,
    AnalysisCardGroup,
    NotApplicableStateAnalysisCard,
)
from ax.exceptions.core import AxError, UserInputError
from ax.utils.common.logger import get_logger
from plotly.offline import get_plotlyjs

from ax_costaware.analysis.cost_and_value import CostAndValueAnalysis
from ax_costaware.analysis.deployment import DeploymentAnalysis
from ax_costaware.analysis.feedback import FeedbackAnalysis
from ax_costaware.analysis.front import FrontAnalysis
from ax_costaware.analysis.indirect import IndirectQueryAnalysis
from ax_costaware.analysis.input_law import InputLawAnalysis
from ax_costaware.analysis.method_analysis import MethodAnalysis, Run
from ax_costaware.analysis.spending import SpendingAnalysis
from ax_costaware.analysis.stopping import StoppingAnalysis
from ax_costaware.analysis.tables import DecisionAnalysis, RecommendationAnalysis
from ax_costaware.ax_bridge.client import SessionClient, holding_lock, open_session
from ax_costaware.core.method import Method

logger = get_logger(__name__)

_ANALYSES: tuple[type[MethodAnalysis[Any]], ...] = (
    RecommendationAnalysis,
    FrontAnalysis,
    DeploymentAnalysis,
    CostAndValueAnalysis,
    StoppingAnalysis,
    FeedbackAnalysis,
    IndirectQueryAnalysis,
    SpendingAnalysis,
    DecisionAnalysis,
    InputLawAnalysis,
)
"""Analyses in the order of their cards."""

_MIN_WIDTH_PIXELS = 620
"""Smallest width of a figure; on narrower pages it scrolls sideways."""

_STYLE = f"""
body {{ font-family: system-ui, sans-serif; color: #222; background: #f6f6f6; margin: 0; }}
main {{ max-width: 1080px; margin: 0 auto; padding: 12px; }}
h1 {{ font-size: 1.5em; margin: 12px 4px 2px; overflow-wrap: anywhere; }}
h2 {{ font-size: 1.15em; margin: 0 0 4px; }}
header p {{ margin: 2px 4px 12px; color: #555; }}
section {{ background: white; border: 1px solid #ddd; border-radius: 8px; padding: 14px;
  margin: 0 0 14px; }}
section > p {{ margin: 0 0 8px; color: #555; font-size: 0.92em; line-height: 1.4;
  overflow-wrap: anywhere; }}
.figure {{ overflow-x: auto; }}
.figure > div {{ min-width: {_MIN_WIDTH_PIXELS}px; }}
details {{ margin-top: 8px; font-size: 0.85em; }}
summary {{ cursor: pointer; color: #0b57a4; }}
.data {{ overflow: auto; max-height: 420px; }}
.data table {{ border-collapse: collapse; }}
.data th, .data td {{ padding: 2px 8px; text-align: right; border-bottom: 1px solid #ddd; }}
pre {{ overflow-x: auto; }}
"""


@final
class CostAwareOverview(MethodAnalysis[Method]):
    """All cards of the experiment's method, as one group, in any state of the experiment.

    For ``client.compute_analyses([CostAwareOverview()])``. It raises no error: a card that cannot
    be computed yet is listed with the reason.
    """

    title = "Overview"
    takes_front = True
    method_class = Method

    def _missing(self, run: Run[Method]) -> None:
        return None

    def _card(self, run: Run[Method]) -> AnalysisCardGroup:
        experiment = run.experiment
        return AnalysisCardGroup(
            name=type(self).__name__,
            title=f"{self.title} of {experiment.name}" if experiment.has_name else self.title,
            subtitle=f"All cards of {run.method.display_name}, computed with all data so far.",
            children=[
                _card(kind(), run)
                for kind in _ANALYSES
                if kind.applies_to(run.method) and (run.has_front or kind is not FrontAnalysis)
            ],
        )


@holding_lock
def overview(
    client: SessionClient, path: str | os.PathLike[str] | None = None
) -> list[AnalysisCard]:
    """Return all cards of the client's method: recommendation, account, and decisions.

    The model is fitted to all data reported so far. Nothing in the experiment changes. Cards that
    cannot be computed yet are ``NotApplicableStateAnalysisCard`` with the reason.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.
        path: File for all cards as one HTML page without external resources; an existing file is
            replaced. None: no file.

    Raises:
        UserInputError: If the client has no experiment or no strategy of this package, or the
            folder of ``path`` does not exist.
    """
    session = open_session(client)
    target = _checked_path(path)
    group = CostAwareOverview().compute(session.experiment, session.strategy)
    if target is not None:
        target.write_text(_page(group), encoding="utf-8")
    return group.flatten()


def _checked_path(path: str | os.PathLike[str] | None) -> Path | None:
    if path is None:
        return None
    try:
        target = Path(path)
    except TypeError:
        raise UserInputError(f"path={path!r}: expected the name of a file, or None.") from None
    if target.is_dir() or not target.parent.is_dir():
        raise UserInputError(f"path={str(path)!r}: expected the name of a file in a folder.")
    return target


def _card(analysis: MethodAnalysis[Any], run: Run[Method]) -> AnalysisCardBase:
    """Return the card, or one with the reason why there is none."""
    try:
        found = analysis.card_or_reason(run.experiment, run.strategy)
        if not isinstance(found, str):
            return found
        reason = found
    except AxError as error:
        reason = str(error)
    except Exception as error:
        message = f"{type(analysis).__name__} could not be computed"
        logger.exception(message)
        return error_card_from_analysis_e(AnalysisE(message, error, analysis))
    return NotApplicableStateAnalysisCard(
        name=type(analysis).__name__,
        title=f"{analysis.title} (not available yet)",
        subtitle=reason,
        df=pd.DataFrame(),
        blob=reason,
    )


def _page(group: AnalysisCardBase) -> str:
    """Return cards as one self-contained HTML page, with plotly and all data."""
    computed = datetime.now().strftime("%Y-%m-%d %H:%M")
    sections = "\n".join(_section(card) for card in group.flatten())
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(group.title)}</title>\n<style>{_STYLE}</style>\n"
        f"<script>{get_plotlyjs()}</script>\n</head>\n<body>\n<main>\n"
        f"<header><h1>{escape(group.title)}</h1>\n"
        f"<p>{escape(group.subtitle)} Made on {computed}.</p></header>\n"
        f"{sections}\n</main>\n</body>\n</html>\n"
    )


def _section(card: AnalysisCard) -> str:
    return (
        f'<section id="{escape(card.name)}">\n<h2>{escape(card.title)}</h2>\n'
        f"<p>{escape(card.subtitle)}</p>\n{_body(card)}\n</section>"
    )


def _body(card: AnalysisCard) -> str:
    """Return a figure with its data folded away, a table, or the text of an error."""
    if isinstance(card, PlotlyAnalysisCard):
        figure = card.get_figure()
        html = figure.to_html(
            full_html=False,
            include_plotlyjs=False,
            config={"responsive": True, "displaylogo": False},
            default_height=f"{figure.layout.height or 450}px",
        )
        data = card.df.to_html(index=False, border=0, na_rep="", float_format="{:.6g}".format)
        return (
            f'<div class="figure">{html}</div>\n'
            f'<details><summary>Data</summary><div class="data">{data}</div></details>'
        )
    if isinstance(card, MarkdownAnalysisCard):
        return card.get_markdown()
    return "" if card.blob == card.subtitle else f"<pre>{escape(card.blob)}</pre>"
