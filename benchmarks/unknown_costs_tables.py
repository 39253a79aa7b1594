"""Table and figure of the experiment on unknown costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plotly.subplots import make_subplots

PANELS = {
    "simple": "simple regret of the best query played",
    "recommended": "regret of the recommended query",
    "evaluations": "evaluations",
    "quality": "mean quality regret per trial",
    "cost": "cost regret",
}
COLORS = ["#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#BBBBBB", "#000000"]


def table(title: str, curves: dict[str, Any]) -> str:
    """What each algorithm had reached at the end of the budget."""
    lines = [f"\n{title}", f"{'':24s}" + "".join(f"{kind:>20s}" for kind in PANELS)]
    for name, curve in curves.items():
        cells = [
            f"{curve[kind]['mean'][-1]:11.4f} ± {curve[kind]['standard_error'][-1]:6.4f}"
            for kind in PANELS
        ]
        early = f"  {curve['ended_early']} ended early" if curve["ended_early"] else ""
        lines.append(
            f"{name:24s}" + "".join(f"{cell:>20s}" for cell in cells)
            + f"  {curve['seeds']} seeds, {curve['cpu_s_per_decision']:.2f} s{early}"
        )  # fmt: skip
    return "\n".join(lines)


def draw(folder: Path, key: str, curves: dict[str, Any]) -> Path:
    """Five panels against the cost spent, with standard errors over seeds."""
    figure = make_subplots(rows=2, cols=3, subplot_titles=list(PANELS.values()))
    for color, (name, curve) in zip(COLORS, curves.items(), strict=False):
        for place, kind in enumerate(PANELS):
            figure.add_scatter(
                x=curve["cost_levels"], y=curve[kind]["mean"], mode="lines", name=name,
                legendgroup=name, showlegend=place == 0, line={"color": color},
                error_y={"array": curve[kind]["standard_error"], "thickness": 1},
                row=place // 3 + 1, col=place % 3 + 1,
            )  # fmt: skip
    for place in range(len(PANELS)):
        figure.update_xaxes(title_text="cost spent", row=place // 3 + 1, col=place % 3 + 1)
    for place in (0, 1):
        figure.update_yaxes(type="log", row=1, col=place + 1)
    figure.update_layout(title=key.replace("_", ", "), template="plotly_white", height=760)
    path = folder / f"unknown_costs_{key}.html"
    figure.write_html(path, include_plotlyjs=True)
    return path
