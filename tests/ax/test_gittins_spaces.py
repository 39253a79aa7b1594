"""The Gittins strategy on every kind of parameter, and Ax's own functions beside it."""

from __future__ import annotations

from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import OptimizationShouldStop, UserInputError

from ax_costaware import (
    AffineCost,
    ProductCost,
    TableCost,
    complete_trial,
    cost_aware_strategy,
)
from tests.ax.gittins_toy import FAST, arm_of

pytestmark = [
    pytest.mark.filterwarnings(
        # BoTorch's optimiser of mixed spaces, where there are parameter constraints.
        "ignore:Unknown solver options. tol:scipy.optimize.OptimizeWarning"
    ),
    pytest.mark.usefixtures("short_searches"),
]

FAST_FIT = {n: x for n, x in FAST.items() if n not in ("surrogate_spec", "initial_share")}


@pytest.mark.parametrize(
    ("low", "high", "step", "limit"), [(0.0, 1.0, 0.1, "<= 1.0"), (10.0, 50.0, 10.0, ">= 60.0")]
)
def test_constraints_hold_of_values_with_a_step(
    low: float, high: float, step: float, limit: str
) -> None:
    """Which Ax has as ordered choices, and its design as whole numbers from zero."""
    client = Client()
    client.configure_experiment(
        [
            RangeParameterConfig("a", (low, high), "float", step_size=step),
            RangeParameterConfig("b", (low, high), "float", step_size=step),
            RangeParameterConfig("c", (low, high), "float"),
        ],
        parameter_constraints=[f"a + b {limit}", f"a + c {limit}"],
    )
    client.configure_optimization("y")
    client.set_generation_strategy(cost_aware_strategy(cost=1.0, budget=20.0, **FAST_FIT))
    sums = []
    for _ in range(7):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        a, b, c = (float(arm[name]) for name in "abc")
        sums += [a + b, a + c]
        complete_trial(client, index, {"y": a - b * c})
    sign, bound = limit.split()
    off = [total - float(bound) if sign == "<=" else float(bound) - total for total in sums]
    assert max(off) <= 1e-8
    assert len(set(sums)) > 6


def test_a_constraint_on_steps_that_are_all_fixed() -> None:
    client = Client()
    client.configure_experiment(
        [
            RangeParameterConfig("a", (0, 1), "float", step_size=0.1),
            RangeParameterConfig("b", (0, 1), "float", step_size=0.1),
            RangeParameterConfig("c", (0, 1), "float"),
        ],
        parameter_constraints=["a + b <= 1"],
    )
    client.configure_optimization("y")
    client.set_generation_strategy(cost_aware_strategy(cost=1.0, budget=20.0, **FAST_FIT))
    fixed = {"a": 0.1 * 3, "b": 0.1 * 7}
    for _ in range(6):
        arms = client.get_next_trials(max_trials=1, fixed_parameters=fixed)
        ((index, arm),) = arms.items()
        assert arm.items() >= fixed.items()
        complete_trial(client, index, {"y": float(arm["c"])})


@pytest.mark.parametrize("noise", [None, 2.0])
def test_a_space_that_is_exhausted(noise: float | None) -> None:
    """Ax repeats no point of a space that can be enumerated: when all are tried it is over.

    Where a point's outcomes differ much, what is left of the budget tells which is best.
    """
    client = Client()
    client.configure_experiment(
        name="small",
        parameters=[
            ChoiceParameterConfig("a", [1, 2, 3], "int", is_ordered=True),
            RangeParameterConfig("b", (0, 1), "int"),
        ],
    )
    client.configure_optimization(objective="y")
    cost = TableCost("a", {1: 1.0, 2: 2.0, 3: 3.0})
    strategy = cost_aware_strategy(cost, budget=15.0, stop=False, **FAST)
    client.set_generation_strategy(strategy)

    def exhaust() -> None:
        while True:
            ((index, arm),) = client.get_next_trials(max_trials=1).items()
            complete_trial(client, index, (float(arm["a"]) - float(arm["b"]), noise))

    reason = "budget" if noise else "every point of the search space"
    with pytest.raises(OptimizationShouldStop, match=reason):
        exhaust()
    assert (len(client._experiment.trials) > 6) == bool(noise)
    arms = [tuple(arm_of(client, i).values()) for i in client._experiment.trials]
    assert sorted(set(arms[4:]) | set(arms)) == [(a, b) for a in (1, 2, 3) for b in (0, 1)]


def test_a_cost_function_of_choices_is_asked_once_for_a_point() -> None:
    """Ax's optimisers asked it at every step along columns in which it has no slope."""
    asked = []

    def price(x: dict[str, Any]) -> float:
        asked.append(tuple(x.values()))
        return 1.0 + 0.1 * "uvwx".index(x["base"]) + 0.2 * x["n"]

    last = ChoiceParameterConfig("n", [1, 2, 5], "int", is_ordered=True)
    names = ("base", "ligand", "solvent")
    choices = [ChoiceParameterConfig(k, list("uvwx"), "str", is_ordered=False) for k in names]
    client = Client()
    client.configure_experiment(parameters=[*choices, last])
    client.configure_optimization(objective="y")
    client.set_generation_strategy(
        cost_aware_strategy(**{**FAST_FIT, "cost": price, "budget": 50.0})
    )
    for _ in range(7):
        asked.clear()
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        complete_trial(client, index, sum("uvwx".index(arm[k]) * 0.1 for k in names))
    assert len({*asked}) <= 4**3 * 3
    assert len(asked) <= 3 * 4**3 * 3


@pytest.mark.parametrize(
    ("cost", "named"),
    [
        (AffineCost({"moon": 1.0}), "moon"),
        (AffineCost({"soil": 1.0}), "soil"),
        (AffineCost({"dose": -1.0}, 0.5), "dose"),
        (ProductCost({"pots": 1.0, "dose": 2.0}), "dose"),
        (TableCost("soil", {"clay": 1.0}), "soil"),
        (TableCost("dose", {1.0: 1.0}), "dose"),
        ("loss", "cost='loss'"),
        (lambda x: 0.0, "cost gave 0.0"),
        (lambda x: [1.0], "cost gave"),
        (lambda x: float("nan"), "cost gave nan"),
    ],
)
def test_costs_that_do_not_fit_the_experiment(cost: Any, named: str) -> None:
    """They are refused before the first trial."""
    client = Client()
    client.configure_experiment(
        parameters=[
            RangeParameterConfig("dose", (-5, 5), "float"),
            RangeParameterConfig("pots", (1, 4), "int"),
            ChoiceParameterConfig("soil", ["clay", "sand"], "str", is_ordered=False),
        ],
    )
    client.configure_optimization(objective="-loss")
    client.set_generation_strategy(cost_aware_strategy(cost=cost, budget=10.0, **FAST_FIT))
    with pytest.raises(UserInputError, match=named):
        client.get_next_trials(max_trials=1)
