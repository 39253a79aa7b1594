"""What the contracts of the package's methods share."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import pytest
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

import ax_costaware as ac
from ax_costaware.testing import MethodContract, next_decision
from tests.fresh import FreshProcess

FEW: dict[str, Any] = {"num_restarts": 2, "raw_samples": 32}

UNIT = [RangeParameterConfig(name, (0, 1), "float") for name in ("x1", "x2")]
MIXED = [
    RangeParameterConfig("rate", (1e-3, 1.0), "float", scaling="log"),
    RangeParameterConfig("size", (1, 6), "int"),
    RangeParameterConfig("a", (0, 1), "float"),
    ChoiceParameterConfig("kind", ["u", "v", "w"], "str", is_ordered=False),
]
GIVEN = ac.FixedHyperparameters(lengthscale=0.4, outputscale=0.3, noise_variance=1e-4)


def next_of(module: str, path: str) -> dict[str, Any]:
    """Import a module of contracts, and so register its methods, before an experiment is loaded."""
    importlib.import_module(module)
    return next_decision(path)


@pytest.mark.usefixtures("short_searches")
class Quick(MethodContract):
    """The contract with short searches, and stores that are loaded in a process of their own."""

    @pytest.fixture
    def resumed(self, fresh_process: FreshProcess) -> Callable[[str], dict[str, Any]]:
        module = type(self).__module__
        return partial(fresh_process.call, "tests.contract.shared:next_of", module)


class Contract(Quick):
    """The contract on a square, where a hill has a ripple."""

    parameters = UNIT
    fixed: ClassVar[dict[str, Any]] = {"x1": 0.25}

    def outcome(self, inputs: Mapping[str, Any]) -> float:
        """A hill with a ripple."""
        x1, x2 = float(inputs.get("x1", inputs.get("a1", 0.5))), float(inputs.get("x2", 0.5))
        return math.exp(-4 * ((x1 - 0.3) ** 2 + (x2 - 0.6) ** 2)) + 0.3 * math.sin(7 * x1)


class Mixed(Contract):
    """On a log scale, integers and choices."""

    parameters = MIXED
    fixed: ClassVar[dict[str, Any]] = {"kind": "v"}

    def outcome(self, inputs: Mapping[str, Any]) -> float:
        loss = 0.3 * abs(math.log10(float(inputs["rate"])) + 1.3)
        loss += 0.05 * (float(inputs["size"]) - 4) ** 2 + (float(inputs["a"]) - 0.4) ** 2
        return -loss - {"u": 0.0, "v": 0.1, "w": 0.3}[inputs["kind"]]
