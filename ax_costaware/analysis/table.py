"""Cards that are tables, as HTML that notebooks and pages show alike."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape

from ax.analysis.markdown.markdown_analysis import MarkdownAnalysisCard

_CELL = "padding:3px 8px;vertical-align:top;border-bottom:1px solid #ddd;"
_ROOM = ((60, 22), (20, 11))
"""Characters from which a text gets room to wrap in, and how much of it, in em."""


class TableCard(MarkdownAnalysisCard):
    """A card whose text is a table made by ``html_table``.

    Ax stores and reloads it as what it derives from. Its own text is put into a card with a
    ``div`` that is never closed (ax-platform 1.3.1), so that the cards after it are drawn inside.
    """

    def _body_html(self, depth: int) -> str:
        return f"<div class='content' style='height:auto'>{self.get_markdown()}</div>"


def html_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[int] = ()
) -> str:
    """A table that scrolls in its own box, with its style in it; all texts are escaped.

    Args:
        header: Names of the columns.
        rows: One text for each column.
        numeric: Columns that are set to the right.
    """
    head = "".join(_cell("th", text, i in numeric) for i, text in enumerate(header))
    body = "\n".join(
        f"<tr>{''.join(_cell('td', text, i in numeric) for i, text in enumerate(row))}</tr>"
        for row in rows
    )
    return (
        '<div style="overflow:auto;max-height:460px">\n'
        '<table style="border-collapse:collapse;font-size:0.85em;margin:0">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


def _cell(tag: str, text: str, is_number: bool) -> str:
    style = _CELL + f"text-align:{'right' if is_number else 'left'};"
    if tag == "th":
        style += "max-width:10em;overflow-wrap:break-word;position:sticky;top:0;"
        style += "background:#f4f4f4;color:#111;"
    elif is_number:
        style += "white-space:nowrap;"
    else:
        style += next((f"min-width:{room}em;" for least, room in _ROOM if len(text) > least), "")
    return f'<{tag} style="{style}">{" ".join(escape(text).split())}</{tag}>'
