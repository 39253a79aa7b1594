"""Cost-aware methods by the name of what they maximise, alike in all else."""

from __future__ import annotations

from typing import Any

from ax.generation_strategy.generation_strategy import GenerationStrategy

from ax_costaware import cost_aware_strategy, gittins_strategy
from ax_costaware.methods import CostAware, Gittins

ALIKE: dict[str, Any] = {
    "cost_model": "trend",
    "initial_share": 0.2,
    "initialize_with_center": True,
    "winsorize": True,
}
"""The settings of ``CostAware`` that ``Gittins`` has otherwise by default."""


def _fields(settings: dict[str, Any]) -> dict[str, Any] | None:
    """Return the fields of ``Gittins`` for settings; None if they are those of ``CostAware``."""
    by_index = settings.get("acquisition") == "gittins"
    if not by_index and settings.get("decay") is None:
        return None
    fields = {**ALIKE, **settings}
    fields.pop("acquisition", None)
    return fields


def method_of(cost: Any, **settings: Any) -> CostAware:
    """Return ``Gittins`` for ``acquisition="gittins"`` or a decay, else ``CostAware``."""
    fields = _fields(settings)
    return CostAware(cost, **settings) if fields is None else Gittins(cost, **fields)


def strategy_for(cost: Any, **settings: Any) -> GenerationStrategy:
    """Return the strategy of ``method_of``."""
    fields = _fields(settings)
    if fields is None:
        return cost_aware_strategy(cost, **settings)
    return gittins_strategy(cost, **fields)
