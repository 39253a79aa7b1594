"""Tables and figures of ``indirect.py``."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from kept_runs import RESULTS, path_of, read
from plotly.subplots import make_subplots

VARIANTS = ("joint_truncated", "cmes_noise_aware")
"""Methods that may have been left out."""

MEASURES = ("simple", "instant", "current")
COLORS = {
    "joint": "#4477AA",
    "joint_truncated": "#66CCEE",
    "tree_joint": "#222255",
    "cmes": "#EE6677",
    "cmes_noise_aware": "#AA3377",
    "tree_cmes": "#882255",
    "mes": "#228833",
    "ucb": "#CCBB44",
    "ei": "#999933",
    "random": "#999999",
}
"""Of the methods, in the order of tables and legends."""


def tables(problems: Sequence[str], methods: Collection[str]) -> None:
    """Write and print everything that was run, over the seeds that all methods have finished.

    Settings without runs on this machine stay as they were written before.
    """
    path = RESULTS / "indirect.json"
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for hyperparameters in ("fixed", "fitted"):
        for problem in problems:
            setting = f"{problem}_{hyperparameters}"
            done = {
                method: {s for s in range(100) if _path(setting, method, s).exists()}
                for method in COLORS
                if method in methods
            }
            done = {method: seeds for method, seeds in done.items() if seeds}
            main = [seeds for method, seeds in done.items() if method not in VARIANTS]
            common = sorted(set.intersection(*main)) if main else []
            if not common:
                continue
            # Variants are compared over the same seeds, or not at all.
            done = {m: s for m, s in done.items() if m not in VARIANTS or s >= set(common)}
            levels = [25.0, 50.0, 100.0] if problem.startswith("tree") else [10.0, 40.0, 100.0]
            curves = {method: _curves(setting, method, common) for method in done}
            results[setting] = {
                method: {"seeds": len(common), **_at(curve, levels)}
                for method, curve in curves.items()
            }
            draw(setting, curves)
    for setting, rows in results.items():
        unit = "cost" if setting.startswith("tree") else "queries"
        for measure in MEASURES:
            print(f"\n{setting}: {measure} regret (mean ± 95 %)")
            for method, row in rows.items():
                regret = zip(
                    row["levels"], row[measure]["mean"], row[measure]["interval"], strict=True
                )
                cells = [f"{at:g} {unit}: {mean:.3f}±{half:.3f}" for at, mean, half in regret]
                print(f"  {method:17s}{'  '.join(cells)}  {row['seeds']} seeds")
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwrote {path}")


def _path(setting: str, method: str, seed: int) -> Path:
    return path_of(f"indirect_{setting}_{method}_{seed}")


def _curves(setting: str, method: str, seeds: Sequence[int]) -> dict[str, Any]:
    """Regrets of all seeds at each whole cost, ``seeds x costs``."""
    runs = [read(f"indirect_{setting}_{method}_{seed}") for seed in seeds]
    traces = [np.array(run["trace"]) for run in runs]
    costs = np.arange(1.0, 101.0)
    tables = {}
    for i, measure in enumerate(MEASURES):
        rows = []
        for trace in traces:
            at = np.searchsorted(trace[:, 0], costs + 1e-9, side="right") - 1
            rows.append(np.where(at >= 0, trace[np.maximum(at, 0), i + 1], np.nan))
        tables[measure] = np.array(rows)
    return {"costs": costs, "cpu_s": float(np.mean([run["cpu_s"] for run in runs])), **tables}


def _at(curves: dict[str, Any], levels: Sequence[float]) -> dict[str, Any]:
    found: dict[str, Any] = {"levels": list(levels), "cpu_s": curves["cpu_s"]}
    columns = [int(level) - 1 for level in levels]
    for measure in MEASURES:
        table = curves[measure][:, columns]
        found[measure] = {
            "mean": table.mean(axis=0).tolist(),
            "interval": _interval(table).tolist(),
        }
    return found


def _interval(table: Any) -> Any:
    """Half the width of the 95 % confidence interval of the mean over rows."""
    return 1.96 * table.std(axis=0, ddof=1) / math.sqrt(len(table)) if len(table) > 1 else table[0]


def draw(setting: str, curves: dict[str, Any]) -> Path:
    """Mean regrets, simple and instant, with their confidence intervals."""
    figure = make_subplots(cols=2, subplot_titles=["simple regret", "instant regret"])
    for method, curve in curves.items():
        for column, measure in enumerate(("simple", "instant"), start=1):
            table = curve[measure]
            keep = ~np.isnan(table).any(axis=0)
            x, mean = curve["costs"][keep], table[:, keep].mean(axis=0)
            half = _interval(table[:, keep])
            color = COLORS[method]
            figure.add_scatter(
                x=np.concatenate([x, x[::-1]]),
                y=np.concatenate([mean + half, np.maximum(mean - half, 1e-4)[::-1]]),
                fill="toself", fillcolor=color, opacity=0.12, line={"width": 0},
                hoverinfo="skip", showlegend=False, legendgroup=method, row=1, col=column,
            )  # fmt: skip
            figure.add_scatter(
                x=x, y=np.maximum(mean, 1e-4), name=method, legendgroup=method,
                line={"color": color}, showlegend=column == 1, row=1, col=column,
            )  # fmt: skip
    unit = "cost" if setting.startswith("tree") else "queries"
    figure.update_xaxes(title_text=unit)
    figure.update_yaxes(type="log", title_text="regret (standard deviations of f)", col=1)
    figure.update_yaxes(type="log", col=2)
    figure.update_layout(title=setting, template="plotly_white", width=1100, height=480)
    path = RESULTS / f"indirect_{setting}.html"
    figure.write_html(path, include_plotlyjs=True)
    return path
