"""The contract of ``indirect_query_strategy`` and ``resolution_tree_strategy``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ax.api.configs import RangeParameterConfig

import ax_costaware as ac
from tests.contract.shared import FEW, Contract

TARGETS = [RangeParameterConfig("z1", (0, 1), "float")]
LAW = ac.GaussianConditional([[1]], [0], covariance=0.01, outside="clip")
AVERAGES: dict[str, Any] = {"should_stop": "averages", "predict": "averages"}


class TestIndirectQueries(Contract):
    parameters = (RangeParameterConfig("a1", (0, 1), "float"),)
    fixed: ClassVar[dict[str, Any]] = {"a1": 0.25}
    refuses = AVERAGES

    def strategy(self, unit: float = 1.0) -> Any:
        return ac.indirect_query_strategy(
            TARGETS,
            LAW,
            cost=ac.AffineCost({"a1": unit}, fixed=unit),
            budget=60 * unit,
            initial_trials=3,
            num_samples=8,
            **FEW,
        )


class TestLearnedConditional(TestIndirectQueries):
    minimize = True

    def strategy(self, unit: float = 1.0) -> Any:
        grid = [[i / 20] for i in range(21)]
        return ac.indirect_query_strategy(
            TARGETS,
            ac.LearnedConditional(grid, grid, lengthscale=0.2, regularization=1e-3),
            cost=unit,
            budget=40 * unit,
            initial_trials=3,
            num_samples=8,
            **FEW,
        )


class TestQueriesOfLearnedCosts(TestIndirectQueries):
    """With switching costs on top."""

    def strategy(self, unit: float = 1.0) -> Any:
        switching = ac.SwitchingCost({"a1": ac.LinearSwitch(0.4 * unit, 0.2 * unit)}, "seconds")
        return ac.indirect_query_strategy(
            TARGETS, LAW, cost=switching, budget=60 * unit, initial_trials=3, num_samples=8, **FEW
        )

    def cost(self, inputs: Mapping[str, Any]) -> float:
        return 3.0 - 2.0 * float(inputs["a1"])


class TestResolutionTree(Contract):
    parameters = (
        ac.level_parameter(3),
        *Contract.parameters,
    )
    fixed: ClassVar[dict[str, Any]] = {"level": 2}
    is_deterministic = True
    refuses = AVERAGES

    def strategy(self, unit: float = 1.0) -> Any:
        return ac.resolution_tree_strategy(
            Contract.parameters,
            max_level=3,
            costs=[unit * (level + 1) for level in range(4)],
            budget=100 * unit,
            initial_trials=3,
            num_samples=8,
        )
