"""A figure for each published paper, of what was measured, and what it would take to tell more.

    make gallery                        # among the pictures of the documentation
    python benchmarks/published.py      # prints the tables in full

Printed are a line for each panel of the first and of the last paper, and how many seeds would tell
CMES from its rivals. The figures are drawn from ``benchmarks/results`` into ``docs/gallery``, with
Chrome or Chromium and kaleido (the extra ``gallery``); where that is missing only the tables are
printed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from costly_feedback_paper import A2, FORGETTING
from kept_runs import RESULTS
from measured import panel
from peers import figure as peers
from plotly.colors import qualitative
from plotly.subplots import make_subplots

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "gallery"

Curve = tuple[list[float], list[float], list[float]]
"""Places, values, and how far the band around them goes on either side."""


def _results(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def _panels(
    panels: Mapping[str, Mapping[str, Curve]], x: str, y: str, columns: int, log: bool = True
) -> go.Figure:
    """Curves with their bands, a panel for each problem and a colour for each method."""
    rows = math.ceil(len(panels) / columns)
    drawn = make_subplots(
        rows=rows, cols=columns, subplot_titles=list(panels), vertical_spacing=0.3 / rows
    )
    methods = list(dict.fromkeys(method for curves in panels.values() for method in curves))
    shown: set[str] = set()
    for place, curves in enumerate(panels.values()):
        row, column = divmod(place, columns)
        for method, (at, values, band) in curves.items():
            drawn.add_scatter(
                x=at,
                y=values,
                error_y={"type": "data", "array": band, "thickness": 1, "width": 2},
                name=method,
                legendgroup=method,
                showlegend=method not in shown,
                mode="lines+markers",
                marker={"size": 4},
                line={"color": qualitative.Dark24[methods.index(method)]},
                row=row + 1,
                col=column + 1,
            )
            shown.add(method)
        drawn.update_xaxes(title=x if row == rows - 1 else None, row=row + 1, col=column + 1)
        drawn.update_yaxes(title=None if column else y, row=row + 1, col=column + 1)
    drawn.update_yaxes(type="log" if log else "linear")
    drawn.update_layout(template="plotly_white", margin={"l": 60, "r": 10, "t": 30, "b": 50})
    return drawn


def _by_cost(name: str, measure: str, wanted: tuple[str, ...]) -> dict[str, dict[str, Curve]]:
    """Of control sets: regret at levels of the cost, with standard errors."""
    return {
        setting.replace("_", ", "): {
            method: (one["cost_levels"], one[measure]["mean"], one[measure]["standard_error"])
            for method, one in methods.items()
            if method in wanted
        }
        for setting, methods in sorted(_results(name).items())
    }


def control_sets() -> go.Figure:
    """Tay et al. 2023, figure 2."""
    wanted = ("ETC-Ada", "ETC-50", "UCB-PSQ", "TS-PSQ")
    return _panels(_by_cost("control_sets", "played", wanted), "cost", "regret, played", 3)


_RULES = (
    *("ETC-Ada", "ETC-50", "ETC-100", "UCB-PSQ", "TS-PSQ", "EI-PSQ"),
    *("UCB-PSQ per cost", "TS-PSQ per cost", "EI-PSQ per cost"),
)


def control_set_table(level: int) -> str:
    """Regret of the best query played in all panels that were run, at one of their cost levels.

    In bold the least of a row and what is within a standard error of the difference from it.
    """
    lines = ["| | seeds | " + " | ".join(_RULES) + " |", "|---" * (len(_RULES) + 2) + "|"]
    for setting, methods in sorted(_results("control_sets").items()):
        ends = {
            name: (one["played"]["mean"][level], one["played"]["standard_error"][level])
            for name in _RULES
            if (one := methods.get(name)) is not None
        }
        best, its = min(ends.values())
        entries = []
        for name in _RULES:
            mean, error = ends.get(name, (math.nan, 0.0))
            mark = "**" if mean - best <= math.hypot(error, its) else ""
            entries.append(f"{mark}{mean:.3f}{mark} ± {error:.3f}" if name in ends else "-")
        seeds = sorted({methods[name]["seeds"] for name in ends})
        shown = ", ".join(setting.split("_")) + f" | {' or '.join(map(str, seeds))}"
        lines.append(f"| {shown} | " + " | ".join(entries) + " |")
    return "\n".join(lines)


def unknown_costs() -> go.Figure:
    """Hoang et al. 2025, with our variant of its rule."""
    wanted = ("UnknownCosts", "ETC-50 by size", "UCB-PSQ", "TS-PSQ")
    return _panels(_by_cost("unknown_costs", "simple", wanted), "cost", "regret, played", 3)


_METHODS = {
    "cmes": "CMES",
    "joint": "joint entropy",
    "mes": "MES",
    "ucb": "UCB",
    "ei": "EI",
    "random": "random queries",
    "tree_cmes": "tree, CMES",
    "tree_joint": "tree, joint entropy",
}
"""Names of methods of indirect queries; on a tree, all but the last two take its finest cells."""


def indirect() -> go.Figure:
    """Zhang et al. 2024, hyperparameters given; bands are 95 % intervals."""
    panels = {
        setting.removesuffix("_fixed").replace("_", ", "): {
            _METHODS[method]: (one["levels"], one["simple"]["mean"], one["simple"]["interval"])
            for method, one in methods.items()
        }
        for setting, methods in _results("indirect").items()
        if setting.endswith("_fixed")
    }
    return _panels(panels, "queries, or cost of cells", "regret", 4, log=False)


def costly_feedback() -> go.Figure:
    """Wang et al. 2020, table A2: the rule at its values of kappa, beside the paper's figures."""
    methods, panels = _results("costly_feedback")["methods"], {}
    kappas = [name for name in A2 if name.startswith("kappa")]
    for place, rate in enumerate(FORGETTING):
        ours = [methods[name][str(rate)] for name in kappas]
        lots = [methods[name][str(rate)] for name in methods if name.startswith("Ber")]
        theirs = [A2[name][place] for name in kappas]
        panels[f"forgetting {rate}"] = {
            "the paper's rule": _sorted((m["measurements"], m["regret"]) for m in ours),
            "as the paper prints it": _sorted((m.measurements, m.regret) for m in theirs),
            "at random": _sorted((m["measurements"], m["regret"]) for m in lots),
        }
    return _panels(panels, "measurements of 500 rounds", "average regret", 3, log=False)


def _sorted(points: Any) -> Curve:
    at, values = zip(*sorted(points), strict=True)
    return list(at), list(values), [0.0] * len(at)


def gittins() -> go.Figure:
    """Xie et al. 2024: medians; GP samples, whose measure is another one, are in the table."""
    wanted = ("PBGI", "PBGI-D", "PBGI-B", "LogEIPC", "LogEI", "default")
    found = _gittins_settings()
    panels = {
        title: {
            method: (one["cost_levels"], one["median"], [0.0] * len(one["median"]))
            for method, one in found[title].items()
            if method in wanted
        }
        # A row for each function, a column for each kind of cost, where all of them were run.
        for title in sorted(found, key=lambda title: int(title.split(" = ")[1].split(",")[0]))
        if all(one["measure"] == "regret" for one in found[title].values())
    }
    return _panels(panels, "cost", "median regret", 3)


_RIVALS = ("PBGI", "PBGI-D", "PBGI-B", "PBGI-R", "LogEIPC", "LogEICC", "LogEI", "default", "random")
_COSTS = {"unknown": ", cost learned", "uniform": ", all costs equal"}


def _gittins_settings() -> dict[str, Any]:
    """The methods of every setting by its title, in order of it."""
    settings = {
        re.sub(r"(\d+).*", r", d = \1", setting) + _COSTS.get(setting.partition("_")[2], ""): every
        for setting, every in _results("gittins_regret").items()
    }
    return dict(sorted(settings.items(), key=lambda item: item[0].replace("= 16", "= 9")))


def gittins_table() -> str:
    """Medians at the end of the budget, in bold the best of a row.

    Of the regret, and of GP samples, whose best value is not known, of the value.
    """
    lines = ["| | seeds | " + " | ".join(_RIVALS) + " |", "|---" * (len(_RIVALS) + 2) + "|"]
    for title, every in _gittins_settings().items():
        methods = {name: every[name] for name in _RIVALS if name in every}
        ends = {name: one["median"][-1] for name, one in methods.items()}
        regret = all(one["measure"] == "regret" for one in methods.values())
        best = min(ends.values()) if regret else max(ends.values())
        marks = {name: "**" if end == best else "" for name, end in ends.items()}
        texts = {name: f"{end:.0f}" if end >= 1000 else f"{end:.3g}" for name, end in ends.items()}
        shown = (
            marks[name] + texts[name] + marks[name] if name in ends else "" for name in _RIVALS
        )
        seeds = sorted({one["seeds"] for one in methods.values()})
        lines.append(f"| {title} | {' or '.join(map(str, seeds))} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


FIGURES: dict[str, tuple[Callable[[], go.Figure], int]] = {
    "published_control_sets": (control_sets, 2050),
    "published_unknown_costs": (unknown_costs, 800),
    "published_indirect": (indirect, 560),
    "published_costly_feedback": (costly_feedback, 560),
    "published_gittins": (gittins, 1500),
    "measured_panel": (panel, 520),
    "peers": (peers, 640),
}
"""The figures by the names of their files, and how high they are."""


def seeds_to_tell(rival: str) -> dict[str, int | None]:
    """How many seeds would put the ends of CMES and a rival two standard errors apart.

    By the means and intervals of the seeds that were run, as if they were the truth; None where the
    two end alike.
    """
    found: dict[str, int | None] = {}
    for setting, methods in _results("indirect").items():
        if rival not in methods or "cmes" not in methods:
            continue
        ends = [methods[name]["simple"] for name in ("cmes", rival)]
        n = methods["cmes"]["seeds"]
        apart = abs(ends[0]["mean"][-1] - ends[1]["mean"][-1])
        # Intervals of 95 % are 1.96 standard errors wide on either side.
        error = math.hypot(*(end["interval"][-1] / 1.96 for end in ends))
        found[setting] = math.ceil(n * (2 * error / apart) ** 2) if apart > 0 else None
    return found


def main() -> None:
    for level, title in ((7, "two fifths"), (11, "all")):
        print(f"Control sets, {title} of the budget spent:", control_set_table(level), sep="\n\n")
    print("The Gittins index:", gittins_table(), sep="\n\n")
    for rival in ("ei", "mes", "ucb"):
        print(rival, seeds_to_tell(rival))
    if find_spec("kaleido") is None:
        print("no figures: pip install -c constraints.txt -e '.[gallery]'")
        return
    for name, (draw, height) in FIGURES.items():
        draw().write_image(FOLDER / f"{name}.png", width=1100, height=height)


if __name__ == "__main__":
    main()
