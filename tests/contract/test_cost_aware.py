"""The contract of ``cost_aware_strategy``, ``gittins_strategy`` and ``fidelity_strategy``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import permutations
from typing import Any, ClassVar

from ax.api.configs import RangeParameterConfig

import ax_costaware as ac
from ax_costaware.core import Objective
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
            "a": 0.3 * unit,
        }
        cost = ac.SwitchingCost(changes, ac.ProductCost({"size": 1}, scale=unit))
        return ac.cost_aware_strategy(cost, budget=100 * unit, initial_trials=3, **FEW)


class TestFidelity(Contract):
    parameters = (
        *Contract.parameters,
        RangeParameterConfig("epochs", (1, 8), "int"),
    )
    refuses: ClassVar[dict[str, Any]] = {"should_stop": "of several fidelities"}

    def strategy(self, unit: float = 1.0) -> Any:
        return ac.fidelity_strategy(
            cost=ac.AffineCost({"epochs": unit}),
            target={"epochs": 8},
            budget=150 * unit,
            initial_trials=3,
            **FEW,
        )

    def outcome(self, inputs: Mapping[str, Any]) -> float:
        return super().outcome(inputs) - 0.5 / float(inputs["epochs"])


class TestFidelityRepeats(TestFidelity):
    """Fidelities and repeats are chosen together."""

    parameters = (*TestFidelity.parameters, RangeParameterConfig("folds", (1, 4), "int"))

    def strategy(self, unit: float = 1.0) -> Any:
        return ac.fidelity_strategy(
            cost=ac.ProductCost({"epochs": 1, "folds": 1}, scale=unit),
            target={"epochs": 8},
            budget=150 * unit,
            initial_trials=3,
            repeats="folds",
            **FEW,
        )

    def repeats(self, inputs: Mapping[str, Any]) -> list[float]:
        noise = (math.cos(99 * self.outcome(inputs) + 3 * i) for i in range(int(inputs["folds"])))
        return [self.outcome(inputs) + 0.25 * one for one in noise]


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
