"""The contract of ``control_set_strategy``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import ax_costaware as ac
from tests.contract.shared import FEW, GIVEN, Contract, Mixed

MARGINALS = {"x1": ac.Uniform(0, 1), "x2": ac.TruncatedNormal(0.5, 0.2, 0, 1)}


def sets(*costs: Any) -> list[ac.ControlSet]:
    return [
        ac.ControlSet(names, cost=c) for names, c in zip((["x1"], ["x1", "x2"]), costs, strict=True)
    ]


class TestControlSets(Contract):
    parameters = (
        *Contract.parameters,
        ac.control_set_parameter(sets(1.0, 2.0)),
    )

    def strategy(self, unit: float = 1.0) -> Any:
        costs = sets(0.5 * unit, 2.0 * unit)
        return ac.control_set_strategy(
            costs, MARGINALS, budget=50 * unit, initial_trials=3, num_nodes=32, **FEW
        )

    def realized(self, parameters: Mapping[str, Any], trial_index: int) -> Mapping[str, Any]:
        if parameters.get("control_set") != "x1":
            return {}
        return {"x2": (0.618034 * (trial_index + 1)) % 1.0}


class TestUnknownCosts(TestControlSets):
    refuses: ClassVar[dict[str, Any]] = {"outcome constraints": "UnknownCosts"}
    minimize = True

    def strategy(self, unit: float = 1.0) -> Any:
        return ac.control_set_strategy(
            sets(None, None),
            MARGINALS,
            budget=60 * unit,
            rule=ac.UnknownCosts(rounds=1),
            initial_trials=3,
            num_nodes=32,
            surrogate_spec=GIVEN,
            **FEW,
        )

    def cost(self, inputs: Mapping[str, Any]) -> float:
        return 0.5 if inputs.get("control_set") == "x1" else 2.0 + float(inputs["x1"])


class TestPublishedUnknownCosts(TestControlSets):
    """``UnknownCosts.published``: Algorithm 1 of the paper, whose costs are within a range."""

    refuses: ClassVar[dict[str, Any]] = {"outcome constraints": "UnknownCosts"}

    def strategy(self, unit: float = 1.0) -> Any:
        rule = ac.UnknownCosts.published(60, worst_value=-0.3, rounds=1)
        return ac.control_set_strategy(
            sets(None, None),
            MARGINALS,
            budget=15 * unit,
            rule=replace(rule, cost_range=unit),
            beta=ac.TheoreticalBeta(1.0, 0.1),
            initial_trials=3,
            num_nodes=32,
            surrogate_spec=GIVEN,
            **FEW,
        )

    def cost(self, inputs: Mapping[str, Any]) -> float:
        return 0.25 if inputs.get("control_set") == "x1" else 0.5 + 0.25 * float(inputs["x1"])


class TestCostsOfValues(TestControlSets):
    def strategy(self, unit: float = 1.0) -> Any:
        costs = sets(ac.AffineCost({"x1": unit}, fixed=0.5 * unit), 2.0 * unit)
        return ac.control_set_strategy(
            costs,
            MARGINALS,
            budget=50 * unit,
            initial_trials=3,
            num_nodes=32,
            switching_cost=ac.SwitchingCost(
                {"x1": ac.LinearSwitch(0.3 * unit, 0.6 * unit, unset=0.2 * unit)}
            ),
            **FEW,
        )


class TestExploreThenCommit(TestControlSets):
    minimize = True

    def strategy(self, unit: float = 1.0) -> Any:
        return ac.control_set_strategy(
            sets(0.5 * unit, 2.0 * unit),
            MARGINALS,
            budget=50 * unit,
            rule=ac.ExploreThenCommit(2),
            acquisition="ei",
            initial_trials=3,
            num_nodes=32,
            surrogate_spec=GIVEN,
            **FEW,
        )


MIXED_SETS = [ac.ControlSet(["a"], cost=1.0), ac.ControlSet(["a", "size", "kind"], cost=2.0)]


class TestControlSetsMixed(Mixed):
    parameters = (*Mixed.parameters, ac.control_set_parameter(MIXED_SETS))

    def strategy(self, unit: float = 1.0) -> Any:
        return ac.control_set_strategy(
            [replace(each, cost=unit * float(str(each.cost))) for each in MIXED_SETS],
            {
                "rate": ac.Uniform(1e-3, 1.0),
                "size": ac.Discrete([1, 2, 3, 4, 5, 6]),
                "kind": ac.Discrete(["u", "v", "w"], [0.5, 0.3, 0.2]),
            },
            budget=50 * unit,
            initial_trials=3,
            num_nodes=32,
            surrogate_spec=GIVEN,
            **FEW,
        )

    def realized(self, parameters: Mapping[str, Any], trial_index: int) -> Mapping[str, Any]:
        place = (0.618034 * (trial_index + 1)) % 1.0
        found: dict[str, Any] = {"rate": 0.01 + 0.9 * place}
        if parameters.get("control_set", "a") == "a":
            found |= {"size": 1 + int(6 * place), "kind": "uvw"[trial_index % 3]}
        return found
