"""A model's space to place inputs in: plain, log-scaled, one-hot and ordered columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ax_costaware.laws import Marginal, Placement, RawValue

SOILS = ("clay", "loam", "sand")
NOMINAL: dict[str, RawValue] = {
    "dose": 1.0,
    "soil": "clay",
    "rain": 0.5,
    "days": 2,
    "till": False,
    "heat": 0.25,
    "site": 0.0,
}
COLUMNS: dict[str, tuple[int, ...]] = {
    "dose": (0,),
    "soil": (1, 2, 3),
    "rain": (4,),
    "days": (5,),
    "till": (6,),
    "heat": (7,),
    "site": (),
}


def transform(rows: Sequence[Mapping[str, RawValue]]) -> Tensor:
    """Points ``len(rows) x 8``; ``dose`` is log-scaled, ``soil`` one-hot, ``heat`` runs down."""
    points = []
    for row in rows:
        v = {**NOMINAL, **row}
        points.append(
            [
                math.log10(float(v["dose"])),
                *(float(v["soil"] == soil) for soil in SOILS),
                float(v["rain"]),
                float(v["days"]) / 10,
                float(v["till"]),
                1.0 - float(v["heat"]),
            ]
        )
    return torch.tensor(points, dtype=torch.double)


def placement(
    independent: Mapping[str, Marginal] | None = None, num_nodes: int = 128, seed: int = 0
) -> Placement:
    """Into that space."""
    return Placement(transform, COLUMNS, independent or {}, num_nodes, seed)
