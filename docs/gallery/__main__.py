"""Draw the pictures of the gallery from the outputs that the tutorials keep: ``make gallery``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from plotly.io import write_images

FOLDER = Path(__file__).parent
TUTORIALS = FOLDER.parents[1] / "tutorials"

FIGURES = {
    "control_sets": 1,
    "cost_aware": 0,
    "costly_feedback": 1,
    "first_ten_minutes": 1,
    "indirect_bandits": 0,
    "indirect_queries": 0,
    "repeats": 0,
    "resolution_tree": 1,
    "short_runs": 1,
    "unknown_costs": 1,
}
"""Which of a tutorial's figures is shown."""

CARDS = {
    "card_feedback": ("costly_feedback", 3),
    "card_input_law": ("unknown_costs", 3),
    "card_stopping": ("cost_aware", 1),
}
"""Cards as tutorials show them, by the name of the picture."""


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
    cards = [figures(tutorial)[number] for tutorial, number in CARDS.values()]
    write_images(
        [*(figures(tutorial)[number] for tutorial, number in FIGURES.items()), *cards],
        [FOLDER / f"{name}.png" for name in (*FIGURES, *CARDS)],
        width=720,
        height=[*(480 for _ in FIGURES), *(card["layout"].get("height", 480) for card in cards)],
        validate=False,
    )
