"""Draw the pictures of the gallery from the outputs that the tutorials keep: ``make gallery``."""

from __future__ import annotations

import json
from pathlib import Path

from plotly.io import write_images

FOLDER = Path(__file__).parent
TUTORIALS = FOLDER.parents[1] / "tutorials"

FIGURES = {
    "control_sets": 1,
    "costly_feedback": 1,
    "first_ten_minutes": 1,
    "gittins": 0,
    "indirect_bandits": 0,
    "indirect_queries": 0,
    "resolution_tree": 1,
    "short_runs": 1,
    "unknown_costs": 1,
}
"""Which of a tutorial's figures is shown."""


def figures(tutorial: str) -> list[dict[str, object]]:
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
    write_images(
        [figures(tutorial)[number] for tutorial, number in FIGURES.items()],
        [FOLDER / f"{tutorial}.png" for tutorial in FIGURES],
        width=720,
        height=480,
        validate=False,
    )
