"""The contract of ``fidelity_strategy``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from ax.api.configs import RangeParameterConfig

import ax_costaware as ac
from tests.contract.shared import FEW, Contract


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
