"""An experiment whose trials leave a wind and a lamp to chance, completed with given values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

from ax_costaware import (
    ControlSet,
    Discrete,
    FixedHyperparameters,
    Uniform,
    complete_trial,
    control_set_parameter,
    control_set_strategy,
)

SETS = (
    ControlSet(["x"], 1.0),
    ControlSet(["x", "wind"], 2.0, "x+wind"),
    ControlSet(["x", "wind", "lamp"], 3.0, "all"),
)
LAWS = {"wind": Uniform(0.0, 1.0), "lamp": Discrete(("red", "blue"), (0.25, 0.75))}
Trial = tuple[str, float, float, str]
"""Control set, x, wind, lamp."""


def make_client(
    trials: Sequence[Trial], sets: Sequence[ControlSet] = SETS, **strategy: Any
) -> Client:
    """An experiment with completed trials."""
    client = Client()
    client.configure_experiment(
        name="inputs",
        parameters=[
            RangeParameterConfig("x", (0.0, 1.0), "float"),
            RangeParameterConfig("wind", (0.0, 1.0), "float"),
            ChoiceParameterConfig("lamp", ["red", "blue"], "str", is_ordered=False),
            control_set_parameter(sets),
        ],
    )
    client.configure_optimization("y")
    options = {"marginals": LAWS, "surrogate_spec": FixedHyperparameters(0.5), **strategy}
    client.set_generation_strategy(control_set_strategy(sets, **options))
    for trial in trials:
        add_trial(client, *trial, sets)
    return client


def add_trial(
    client: Client,
    control_set: str,
    x: float,
    wind: float,
    lamp: str,
    sets: Sequence[ControlSet] = SETS,
) -> None:
    """A completed trial; what it leaves to chance is realised, not what its arm says."""
    controlled = next(s for s in sets if s.name == control_set).parameters
    inputs = {"x": x, "wind": wind, "lamp": lamp}
    nominal: dict[str, Any] = {"x": 0.5, "wind": 0.5, "lamp": "blue"}
    arm = {name: inputs[name] if name in controlled else nominal[name] for name in inputs}
    index = client.attach_trial({**arm, "control_set": control_set})
    realized = {name: value for name, value in inputs.items() if name not in controlled}
    complete_trial(client, index, 0.0, realized=realized)


def trials_as_assumed(n: int, seed: int = 0) -> list[Trial]:
    """Winds and lamps that follow their laws; every fourth trial controls the wind."""
    rng = np.random.default_rng(seed)
    return [
        (
            "x+wind" if i % 4 == 3 else "x",
            float(rng.random()),
            float(rng.random()),
            "red" if rng.random() < 0.25 else "blue",
        )
        for i in range(n)
    ]
