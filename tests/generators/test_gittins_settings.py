"""What is refused before anything is spent, by the arguments alone; and what the rest means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ax.exceptions.core import UserInputError

from ax_costaware import (
    AffineCost,
    GittinsDecay,
    GittinsStop,
    ImprovementPerCostStop,
    gittins_strategy,
)
from ax_costaware.generators.gittins_settings import GittinsSettings
from ax_costaware.generators.method_settings import settings_of


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": 0.0}, "cost=0.0: expected a finite number > 0"),
        ({"cost": -1}, "cost=-1: expected"),
        ({"cost": float("nan")}, "cost=nan: expected"),
        ({"cost": float("inf")}, "cost=inf: expected"),
        ({"cost": True}, "cost=True: expected"),
        ({"cost": ""}, "cost='': expected"),
        ({"cost": None}, "cost=None: expected"),
        ({"cost": AffineCost}, "cost=.*AffineCost.*: expected"),
        ({"cost": AffineCost({0: 1.0})}, r"reads the columns \[0\]: expected names of parameters"),
        ({"budget": 0}, "budget=0: expected a finite number > 0"),
        ({"budget": float("inf")}, "budget=inf"),
        ({"lmbda": 0.0}, "lmbda=0.0: expected a finite number > 0, or None"),
        ({"lmbda": float("nan")}, "lmbda=nan"),
        ({"lmbda": "high"}, "lmbda='high'"),
        ({"decay": 0.1}, "decay=0.1: expected a GittinsDecay"),
        ({"lmbda": 1.0, "decay": GittinsDecay()}, "lmbda=1.0 and decay=.* are both given"),
        ({"stop": "never"}, "stop='never': expected True, False, GittinsStop"),
        (
            {"stop": GittinsStop()},
            "stop=GittinsStop.* has no lmbda, and lambda decays",
        ),
        ({"acquisition": "ei"}, r"acquisition='ei': expected one of \['gittins'"),
        ({"acquisition": "log_ei_cost_cooling"}, "with budget=None"),
        ({"cost_model": "tree"}, r"cost_model='tree': expected one of \['gp', 'linear'\]"),
        ({"initial_trials": -1}, "initial_trials=-1: expected an integer >= 0"),
        ({"charge_initial": 1}, "charge_initial=1: expected True or False"),
        ({"seed": 1.5}, "seed=1.5: expected an integer"),
        ({"num_restarts": 0}, "num_restarts=0: expected an integer >= 1"),
        ({"raw_samples": 0}, "raw_samples=0"),
        ({"surrogate_spec": "gp"}, "surrogate_spec='gp': expected"),
    ],
)
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    """Each message names the argument, what it got and what it takes."""
    with pytest.raises(UserInputError, match=message):
        gittins_strategy(**{"cost": 1.0, **change})


@pytest.mark.parametrize(
    ("change", "source", "rule"),
    [
        ({"lmbda": 1}, "given", GittinsStop()),
        ({"lmbda": 1, "budget": 5}, "given", GittinsStop()),
        ({"budget": np.float64(5)}, "budget", GittinsStop()),
        ({"budget": 5, "stop": False}, "budget", None),
        ({}, "decay", None),
        ({"budget": 5, "decay": GittinsDecay()}, "decay", None),
        ({"stop": GittinsStop(0.5)}, "decay", GittinsStop(0.5)),
        ({"budget": 5, "stop": ImprovementPerCostStop()}, "budget", ImprovementPerCostStop()),
    ],
)
def test_where_lambda_comes_from(change: dict[str, Any], source: str, rule: Any) -> None:
    """Given, or from the budget, or decaying; and a rule wherever there is a price to stop at."""
    settings = settings_of(gittins_strategy(cost=1.0, **change))
    assert isinstance(settings, GittinsSettings)
    assert (settings.lambda_source, settings.rule) == (source, rule)
    assert (settings.decay is not None) == (source == "decay")


def test_costs_at_a_parameterization() -> None:
    """Numbers, value objects and functions; a metric's are not known."""
    assert GittinsSettings(2).cost_at({}) == 2.0
    assert GittinsSettings(AffineCost({"x": 2.0})).cost_at({"x": 3, "y": "a"}) == 6.0
    assert GittinsSettings(lambda x: np.float32(x["x"])).cost_at({"x": 1.5}) == 1.5
    assert GittinsSettings("hours").cost_metric == "hours"
    with pytest.raises(UserInputError, match="cost='hours' names a metric"):
        GittinsSettings("hours").cost_at({})
    with pytest.raises(UserInputError, match=r"cost=AffineCost.* at {'x': -1.0}"):
        GittinsSettings(AffineCost({"x": 2.0})).cost_at({"x": -1.0})
    with pytest.raises(UserInputError, match=r"cost gave 'dear' for {'x': 1}"):
        GittinsSettings(lambda x: "dear").cost_at({"x": 1})  # type: ignore[arg-type, return-value]
