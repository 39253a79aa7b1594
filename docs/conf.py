"""Sphinx's settings: markdown pages, tutorials with stored outputs, and an API reference.

Nothing is fetched from a network, neither by the build nor by a reader's browser: formulas become
MathML by docutils' own converter, plotly's figures find their script beside the pages, and there
are no links into other projects' inventories.
"""

from __future__ import annotations

import html
import json
import re
from importlib.metadata import version as installed_version
from inspect import cleandoc
from pathlib import Path
from typing import Any

import plotly
from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from plotly.io import to_html
from sphinx.application import Sphinx
from sphinx.util import logging

import ax_costaware

logger = logging.getLogger(__name__)

_PAGE = (Path(__file__).parent / "api" / "top_level.rst").read_text("utf-8")
_COLUMN = 735
"""Width of a page's text in pixels; a figure that is wider gets as wide as that."""

_FIGURE = "application/vnd.plotly.v1+json"
TOP_LEVEL = set(re.findall(r"^\.\. auto(?:class|function):: (\w+)$", _PAGE, re.M))

project = "ax_costaware"
release = version = installed_version("ax-costaware")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
nb_execution_mode = "off"
# Formulas as GitHub has them: $inline$, and blocks fenced as math.
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
# Anchors of headings as GitHub makes them, so that a link works in both places.
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"ax_costaware {release}"
html_math_renderer = "mathml"
html_copy_source = False
html_show_copyright = False
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {"code-font-size": "75%"},
}
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
html_static_path = ["_static", str(PLOTLY)]
html_css_files = ["wide.css"]

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False


def setup(app: Sphinx) -> None:
    """Register what the pages need beside Sphinx's own."""
    app.add_html_math_renderer("mathml", (_inline_math, None), (_block_math, None))
    app.connect("builder-inited", _copy_tutorials)
    app.connect("source-read", _link_copies)
    app.connect("autodoc-skip-member", _skip_repeated)
    app.connect("autodoc-process-signature", _tidy_signature)
    # Before napoleon, whose priority is 500.
    app.connect("autodoc-process-docstring", _keep_colons, priority=400)
    app.connect("autodoc-process-docstring", _add_constructor, priority=400)


def _inline_math(translator: Any, node: nodes.math) -> None:
    translator.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _block_math(translator: Any, node: nodes.math_block) -> None:
    style = "margin: 1em 0; overflow-x: auto; overflow-y: hidden"
    translator.body.append(f'<div style="{style}">{_mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode


def _mathml(node: nodes.Element, as_block: bool) -> str:
    source = node.astext()
    try:
        converted: str = tex2mathml(source, as_block=as_block)
    except MathError as error:
        logger.warning(f"formula {source!r}: {error}", location=node)
        return f"<code>{html.escape(source)}</code>"
    return converted


def _copy_tutorials(app: Sphinx) -> None:
    """Copy the notebooks to where Sphinx finds them, plotly's figures as HTML with their script."""
    copies = Path(app.srcdir) / "tutorials"
    copies.mkdir(exist_ok=True)
    for path in (Path(app.srcdir).parent / "tutorials").glob("*.ipynb"):
        notebook = json.loads(path.read_text("utf-8"))
        outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
        figures = [output["data"] for output in outputs if _FIGURE in output.get("data", {})]
        for number, data in enumerate(figures):
            stored = data.pop(_FIGURE)
            layout = stored["layout"]
            if layout.get("width", 0) > _COLUMN:
                del layout["width"]
            data["text/html"] = to_html(
                {"data": stored["data"], "layout": layout},
                config={"responsive": True},
                include_plotlyjs=f"../_static/{PLOTLY.name}" if number == 0 else False,
                full_html=False,
                div_id=f"figure-{number}",
            )
        text = json.dumps(notebook).replace("](../docs/", "](../")
        copy = copies / path.name
        if not copy.exists() or copy.read_text("utf-8") != text:
            copy.write_text(text, "utf-8")


def _link_copies(app: Sphinx, page: str, source: list[str]) -> None:
    """Let links to the notebooks lead to the copies."""
    source[0] = source[0].replace("](../tutorials/", "](tutorials/")


def _skip_repeated(
    app: Sphinx, what: str, name: str, obj: object, skip: bool, options: Any
) -> bool | None:
    """Leave out of the layers' pages what the page of the top level describes."""
    if name in TOP_LEVEL and getattr(ax_costaware, name, None) is obj:
        return True
    return None


def _keep_colons(
    app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]
) -> None:
    """Keep napoleon from reading "what: this" in a field's first line as a type and a text."""
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]  # an empty comment


def _tidy_signature(
    app: Sphinx,
    what: str,
    name: str,
    obj: object,
    options: Any,
    signature: str | None,
    returns: str | None,
) -> tuple[str, str | None] | None:
    """Leave out what Python makes up: a protocol's arguments, a property behind a field."""
    if what != "class" or signature is None:
        return None
    if signature == "(*args, **kwargs)":
        return "", None
    return signature.replace(" = <property object>", ""), returns


def _add_constructor(
    app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]
) -> None:
    """Add what a class says of its own constructor; Sphinx would add what it inherits, too."""
    if what == "class" and (text := getattr(vars(obj).get("__init__"), "__doc__", None)):
        lines += ["", *cleandoc(text).splitlines(), ""]
