"""What is refused before anything is spent, by the arguments alone."""

from __future__ import annotations

from typing import Any

import pytest
from ax.exceptions.core import UserInputError
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec

from ax_costaware import (
    ControlSet,
    ExploreThenCommit,
    FixedHyperparameters,
    UnknownCosts,
    control_set_parameter,
    control_set_strategy,
)
from ax_costaware.generators.control_set_settings import ControlSetSettings
from ax_costaware.generators.surrogates import resolved_surrogate_spec
from tests.ax.toy import CONTROL_SETS, MARGINALS


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"control_sets": []}, r"control_sets=\(\): expected"),
        ({"control_sets": CONTROL_SETS[0]}, "expected a list of ControlSet"),
        ({"control_sets": [CONTROL_SETS[0]] * 2}, "control_sets"),
        (
            {"control_sets": [ControlSet(["x1"])], "rule": ExploreThenCommit(2)},
            r"rule=ExploreThenCommit\(plays=2\) explores by cost, .* 'x1' has cost=None",
        ),
        (
            {"control_sets": [ControlSet(["x1"])], "rule": UnknownCosts()},
            "does not fit: rounds=None: without a budget",
        ),
        (
            {"control_sets": [ControlSet(["x1"], fixed_cost=3.0)], "budget": 2.0},
            "budget=2.0 is below the cost of the cheapest control set, 3",
        ),
        (
            {"control_sets": [ControlSet(["x1"], fixed_cost=1.0)], "budget": 4.0},
            "initial_trials=5 .* cost 5, more than budget=4",
        ),
        ({"marginals": {"x1": 0.5}}, r"marginals\['x1'\]=0.5: expected a marginal"),
        ({"marginals": [MARGINALS["x1"]]}, "expected a dictionary"),
        ({"budget": 0.05}, "budget=0.05 is below the cost of the cheapest control set, 0.1"),
        ({"budget": float("nan")}, "budget=nan: expected a finite number"),
        ({"budget": float("inf")}, "budget=inf: expected a finite number"),
        ({"budget": True}, "budget=True: expected"),
        ({"budget": 0.3}, "initial_trials=5 .* cost 0.5, more than budget=0.3"),
        ({"rule": "etc"}, "rule='etc': expected a rule"),
        ({"rule": ExploreThenCommit((1, 2, 3))}, "does not fit"),
        ({"beta": -1.0}, "beta=-1.0: expected"),
        ({"acquisition": "pi"}, r"acquisition='pi': expected one of \['ucb', 'ei', 'ts'\]"),
        ({"seed": -1}, "seed=-1: expected an integer >= 0"),
        ({"seed": 1.5}, "seed=1.5: expected an integer"),
        ({"initial_trials": -1}, "initial_trials=-1"),
        ({"initial_control_sets": "x1"}, "initial_control_sets='x1': expected a list"),
        ({"initial_control_sets": ["x9"]}, "names 'x9', which is not among control_sets"),
        ({"charge_initial": "no"}, "charge_initial='no': expected True or False"),
        ({"num_nodes": 0}, "num_nodes=0"),
        ({"num_restarts": 0}, "num_restarts=0"),
        ({"surrogate_spec": "gp"}, "surrogate_spec='gp': expected"),
    ],
)
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    """Each message names the argument, what it got and what it takes."""
    arguments: dict[str, Any] = {"control_sets": CONTROL_SETS, "marginals": MARGINALS, **change}
    with pytest.raises(UserInputError, match=message):
        control_set_strategy(**arguments)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"lengthscale": 0.0}, "lengthscale=0.0"),
        ({"lengthscale": (0.1, -1.0)}, "lengthscale=-1.0"),
        ({"lengthscale": ()}, "lengthscale"),
        ({"lengthscale": 0.1, "outputscale": float("inf")}, "outputscale=inf"),
        ({"lengthscale": 0.1, "noise_variance": 0.0}, "noise_variance=0.0"),
        ({"lengthscale": 0.1, "mean": float("nan")}, "mean=nan"),
    ],
)
def test_bad_hyperparameters(change: dict[str, Any], name: str) -> None:
    """Fixed hyperparameters are checked where they are written."""
    with pytest.raises(UserInputError, match=name):
        FixedHyperparameters(**change)


def test_initial_trials_that_are_free_need_no_budget() -> None:
    """With charge_initial=False they may cost more than the budget."""
    control_set_strategy(CONTROL_SETS, MARGINALS, budget=0.3, charge_initial=False)


def test_default_initial_control_sets_are_the_cheapest() -> None:
    """All of the cheapest group, in declared order."""
    sets = (ControlSet(["a"], 0.3), ControlSet(["b"], 0.1 + 0.2), ControlSet(["c"], 1.0))
    assert ControlSetSettings(sets, {}).initial_control_sets == ("a", "b")


def test_default_initial_control_sets_are_all_where_a_cost_is_unknown() -> None:
    """Each cost can only be learned from a trial."""
    sets = (ControlSet(["a"]), ControlSet(["b"], 1.0))
    settings = ControlSetSettings(sets, {}, rule=UnknownCosts(rounds=1))
    assert settings.initial_control_sets == ("a", "b")
    assert settings.learns_costs


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({}, (None, 4.0, None)),
        ({"b": [9.0]}, (None, 4.0, None)),
        ({"a": [1.0, 3.0]}, (2.0, 4.0, None)),
        ({"a": [1.0, 3.0], "c": [12.0]}, (2.0, 4.0, 12.0)),
    ],
)
def test_expected_costs(
    reported: dict[str | None, list[float]], expected: tuple[float | None, ...]
) -> None:
    """Declared, else the mean of its own, else that of the others, at least the known part."""
    sets = (ControlSet(["a"]), ControlSet(["b"], 4.0), ControlSet(["c"], fixed_cost=3.5))
    found = ControlSetSettings(sets, {}, rule=UnknownCosts(rounds=1)).expected_costs(reported)
    a, b, c = expected
    others = [cost for cost in (a, b, c) if cost is not None]
    mean = sum(others) / len(others)
    assert found == (mean if a is None else a, b, max(mean, 3.5) if c is None else c)


def test_nothing_is_expected_before_anything_is_known() -> None:
    """But a known part, which also has to be paid."""
    sets = (ControlSet(["a"]), ControlSet(["b"], fixed_cost=3.0))
    settings = ControlSetSettings(sets, {}, rule=UnknownCosts(rounds=1), budget=20.0)
    assert settings.expected_costs({}) == (None, 3.0)
    assert settings.affordable(2.0, (None, 3.0)) == (True, False)
    assert settings.affordable(0.0, (None, 3.0)) == (False, False)
    assert settings.affordable(None, (None, 3.0)) == (True, True)
    with pytest.raises(UserInputError, match="control set 'a' has no cost"):
        settings.cost("a")


def test_affordable_allows_for_rounding() -> None:
    """What is left after nine payments of 0.1 from 1 pays for a tenth."""
    settings = ControlSetSettings(CONTROL_SETS, dict(MARGINALS), budget=1.0)
    left = 1.0 - sum([0.1] * 9)
    assert settings.affordable(left) == (True, False, False)
    assert settings.affordable(0.0999) == (False, False, False)
    assert settings.affordable(None) == (True, True, True)


def test_control_set_parameter() -> None:
    """It names the control sets, and refuses what the strategy would refuse."""
    parameter = control_set_parameter(CONTROL_SETS)
    assert (parameter.name, parameter.values) == ("control_set", ["x1", "x1+x2", "x1+x2+x3"])
    with pytest.raises(UserInputError, match="control_sets"):
        control_set_parameter([])


def test_user_surrogate_is_standardized_unless_it_says_otherwise() -> None:
    """As Ax would have done with its outcomes."""
    from ax.generators.torch.botorch_modular.utils import ModelConfig
    from botorch.models.transforms.outcome import Standardize

    given = SurrogateSpec(model_configs=[ModelConfig(), ModelConfig(outcome_transform_classes=[])])
    found = resolved_surrogate_spec(given).model_configs
    assert [c.outcome_transform_classes for c in found] == [[Standardize], []]
