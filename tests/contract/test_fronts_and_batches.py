"""The contract of several objectives, switching costs and batches."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Any, ClassVar

import ax_costaware as ac
from ax_costaware.core import Objective
from tests.contract.shared import FEW, Contract, Mixed


class Several(Contract):
    further = (Objective("waste", minimize=True, threshold=1.5),)
    threshold = -0.5
    refuses: ClassVar[dict[str, Any]] = {"should_stop": "several objectives"}

    def metrics(self, inputs: Mapping[str, Any]) -> dict[str, float]:
        return {"waste": float(inputs["x1"]) ** 2 + 0.5 * float(inputs["x2"])}


class TestSeveralObjectives(Several):
    def strategy(self, unit: float = 1.0) -> Any:
        cost = ac.SwitchingCost({"x1": 0.1 * unit}, ac.AffineCost({"x2": unit}, fixed=0.5 * unit))
        return ac.cost_aware_strategy(cost, budget=30 * unit, initial_trials=3, **FEW)


class TestRandomWeights(Several):
    refuses: ClassVar[dict[str, Any]] = {**Several.refuses, "lmbda": "random weight"}

    def strategy(self, unit: float = 1.0) -> Any:
        cost = ac.AffineCost({"x2": unit}, fixed=0.5 * unit)
        return ac.cost_aware_strategy(
            cost, budget=30 * unit, initial_trials=3, acquisition="parego_per_cost", **FEW
        )


class TestCostAsObjective(Contract):
    refuses: ClassVar[dict[str, Any]] = {"should_stop": "several objectives", "lmbda": "front="}

    def strategy(self, unit: float = 1.0) -> Any:
        cost = ac.AffineCost({"x2": unit}, fixed=0.5 * unit)
        return ac.cost_aware_strategy(cost, budget=30 * unit, initial_trials=3, front="cost", **FEW)


class TestSwitchingCosts(Mixed):
    def strategy(self, unit: float = 1.0) -> Any:
        kinds = {pair: (1.0 + i) * unit for i, pair in enumerate(permutations("uvw", 2))}
        changes = {
            "kind": ac.TableSwitch(kinds),
            "size": ac.LinearSwitch(0.5 * unit, 0.1 * unit),
        }
        cost = ac.SwitchingCost(changes, ac.ProductCost({"size": 1}, scale=unit))
        return ac.cost_aware_strategy(cost, budget=100 * unit, initial_trials=3, **FEW)


class TestSharedBatches(Contract):
    def strategy(self, unit: float = 1.0) -> Any:
        each = ac.AffineCost({"x2": unit}, fixed=0.5 * unit)
        return ac.cost_aware_strategy(
            ac.BatchCost(0.5 * unit, each),
            budget=40 * unit,
            initial_trials=3,
            shared=["x1"],
            **FEW,
        )
