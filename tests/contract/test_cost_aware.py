"""The contract of ``cost_aware_strategy`` and ``gittins_strategy``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from ax.api.configs import RangeParameterConfig

import ax_costaware as ac
from tests.contract.shared import FEW, GIVEN, Contract, Mixed


class TestCostAware(Contract):
    def strategy(self, unit: float = 1.0) -> Any:
        cost = ac.AffineCost({"x2": unit}, fixed=0.5 * unit)
        return ac.cost_aware_strategy(cost, budget=30 * unit, initial_trials=3, **FEW)


class TestCostAwareMixed(Mixed):
    parameter_constraints = ("a + size <= 6.5",)
    minimize = True

    def strategy(self, unit: float = 1.0) -> Any:
        kinds = ac.TableCost("kind", {"u": unit, "v": 0.5 * unit, "w": 2.0 * unit})
        cost = kinds + ac.AffineCost({"size": unit})
        return ac.cost_aware_strategy(cost, budget=150 * unit, initial_trials=3, **FEW)


class TestLearnedCosts(Contract):
    def strategy(self, unit: float = 1.0) -> Any:
        return ac.cost_aware_strategy(
            "seconds", budget=60 * unit, initial_trials=3, stop=False, **FEW
        )

    def cost(self, inputs: Mapping[str, Any]) -> float:
        return 1.0 + 2.0 * float(inputs["x1"])


class TestRepeats(Contract):
    """Repeats are chosen, and reported one by one."""

    parameters = (*Contract.parameters, RangeParameterConfig("folds", (1, 6), "int"))

    def strategy(self, unit: float = 1.0) -> Any:
        cost = ac.AffineCost({"folds": unit}, fixed=2.0 * unit)
        return ac.cost_aware_strategy(
            cost, budget=90 * unit, initial_trials=3, repeats="folds", confirm=0.3, **FEW
        )

    def repeats(self, inputs: Mapping[str, Any]) -> list[float]:
        noise = (math.cos(99 * self.outcome(inputs) + 3 * i) for i in range(int(inputs["folds"])))
        return [self.outcome(inputs) + 0.25 * one for one in noise]


class TestGittins(Contract):
    minimize = True

    def strategy(self, unit: float = 1.0) -> Any:
        return ac.gittins_strategy(
            2.0 * unit,
            budget=60 * unit,
            lmbda=1e-3 / unit,
            initial_trials=3,
            surrogate_spec=GIVEN,
            **FEW,
        )


class TestGittinsDecay(Contract):
    refuses: ClassVar[dict[str, Any]] = {"lmbda": "lmbda=.* and decay="}

    def strategy(self, unit: float = 1.0) -> Any:
        cost = ac.AffineCost({"x2": unit}, fixed=0.5 * unit)
        return ac.gittins_strategy(
            cost,
            budget=60 * unit,
            decay=ac.GittinsDecay(),
            initial_trials=3,
            surrogate_spec=GIVEN,
            **FEW,
        )
