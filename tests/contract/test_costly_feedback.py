"""The contract of ``costly_feedback_strategy``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import ax_costaware as ac
from tests.contract.shared import FEW, GIVEN, Contract, Mixed


class TestCostlyFeedback(Contract):
    refuses: ClassVar[dict[str, Any]] = {"predict": "drift"}

    def strategy(self, unit: float = 1.0) -> Any:
        return ac.costly_feedback_strategy(cost=unit, budget=30 * unit, initial_trials=3, **FEW)


class TestCostlyFeedbackCostsOfValues(Mixed):
    refuses: ClassVar[dict[str, Any]] = {"predict": "drift"}

    def strategy(self, unit: float = 1.0) -> Any:
        kinds = ac.TableCost("kind", {"u": unit, "v": 0.5 * unit, "w": 2.0 * unit})
        return ac.costly_feedback_strategy(
            cost=kinds + ac.AffineCost({"size": unit}),
            budget=150 * unit,
            initial_trials=3,
            surrogate_spec=GIVEN,
            forgetting=0.05,
            **FEW,
        )


class TestCostlyFeedbackLearnedCosts(Mixed):
    refuses: ClassVar[dict[str, Any]] = {"predict": "drift"}
    minimize = True

    def strategy(self, unit: float = 1.0) -> Any:
        return ac.costly_feedback_strategy(
            cost="seconds",
            budget=60 * unit,
            rule=ac.MixedRule(ac.MeasurementRule(0.9), 0.2, 0.6),
            initial_trials=3,
            **FEW,
        )

    def cost(self, inputs: Mapping[str, Any]) -> float:
        return 1.0 + float(inputs["size"])
