"""Draw the pictures of the gallery from the outputs that the tutorials keep: ``make gallery``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from plotly.io import write_image

FOLDER = Path(__file__).parent
TUTORIALS = FOLDER.parents[1] / "tutorials"

FIGURES = {
    "control_sets": ("control_sets", 1),
    "costly_feedback": ("costly_feedback", 1),
    "first_ten_minutes": ("first_ten_minutes", 1),
    "gittins": ("gittins", 0),
    "indirect_bandits": ("indirect_bandits", 0),
    "indirect_queries": ("indirect_queries", 0),
    "resolution_tree": ("resolution_tree", 1),
    "short_runs": ("short_runs", 1),
    "unknown_costs": ("unknown_costs", 1),
    "card_feedback": ("costly_feedback", 3),
    "card_input_law": ("unknown_costs", 3),
    "card_stopping": ("gittins", 1),
}
"""The pictures of tutorials and of cards, each with its tutorial and which of the figures it is."""


def figures(tutorial: str) -> list[dict[str, Any]]:
    """The figures that a tutorial keeps, in their order."""
    notebook = json.loads((TUTORIALS / f"{tutorial}.ipynb").read_text("utf-8"))
    stored = [
        output["data"]["application/vnd.plotly.v1+json"]
        for cell in notebook["cells"]
        for output in cell.get("outputs", [])
        if "application/vnd.plotly.v1+json" in output.get("data", {})
    ]
    return [{"data": figure["data"], "layout": figure["layout"]} for figure in stored]


if __name__ == "__main__":
    for name, (tutorial, number) in FIGURES.items():
        figure = figures(tutorial)[number]
        height = figure["layout"].get("height", 480) if name.startswith("card") else 480
        write_image(figure, FOLDER / f"{name}.png", width=720, height=height, validate=False)
