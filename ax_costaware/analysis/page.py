"""Cards as one HTML page that needs nothing else: plotly is in it once, and so are all data."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from html import escape

from ax.analysis.markdown.markdown_analysis import MarkdownAnalysisCard
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.core.analysis_card import AnalysisCard
from plotly.offline import get_plotlyjs

_LEAST_WIDTH_PIXELS = 620
"""A figure scrolls sideways in its card where the page is narrower."""

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
.figure > div {{ min-width: {_LEAST_WIDTH_PIXELS}px; }}
details {{ margin-top: 8px; font-size: 0.85em; }}
summary {{ cursor: pointer; color: #0b57a4; }}
.data {{ overflow: auto; max-height: 420px; }}
.data table {{ border-collapse: collapse; }}
.data th, .data td {{ padding: 2px 8px; text-align: right; border-bottom: 1px solid #ddd; }}
pre {{ overflow-x: auto; }}
"""


def page_of(title: str, subtitle: str, cards: Sequence[AnalysisCard]) -> str:
    """The page.

    Args:
        title: Of the page.
        subtitle: Below it.
        cards: In the order in which they are shown.
    """
    computed = datetime.now().strftime("%Y-%m-%d %H:%M")
    sections = "\n".join(_section(card) for card in cards)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n"
        f"<script>{get_plotlyjs()}</script>\n</head>\n<body>\n<main>\n"
        f"<header><h1>{escape(title)}</h1>\n"
        f"<p>{escape(subtitle)} Made on {computed}.</p></header>\n"
        f"{sections}\n</main>\n</body>\n</html>\n"
    )


def _section(card: AnalysisCard) -> str:
    return (
        f'<section id="{escape(card.name)}">\n<h2>{escape(card.title)}</h2>\n'
        f"<p>{escape(card.subtitle)}</p>\n{_body(card)}\n{_data(card)}</section>"
    )


def _body(card: AnalysisCard) -> str:
    if isinstance(card, PlotlyAnalysisCard):
        figure = card.get_figure()
        html = figure.to_html(
            full_html=False,
            include_plotlyjs=False,
            config={"responsive": True, "displaylogo": False},
            default_height=f"{figure.layout.height or 450}px",
        )
        return f'<div class="figure">{html}</div>'
    if isinstance(card, MarkdownAnalysisCard):
        return card.get_markdown()
    if card.blob == card.subtitle:
        return ""
    return f"<pre>{escape(card.blob)}</pre>"


def _data(card: AnalysisCard) -> str:
    """The data of a figure, folded away."""
    if not isinstance(card, PlotlyAnalysisCard) or card.df.empty:
        return ""
    table = card.df.to_html(index=False, border=0, na_rep="", float_format="{:.6g}".format)
    return f'<details><summary>Data</summary><div class="data">{table}</div></details>\n'
