"""The Gittins strategy on every kind of parameter, and Ax's own functions beside it."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig, StorageConfig
from ax.exceptions.core import OptimizationShouldStop, UserInputError

from ax_costaware import (
    AffineCost,
    ProductCost,
    TableCost,
    attach_table,
    complete_trial,
    cost_aware_strategy,
)
from ax_costaware.ax_bridge.node import method_of_class
from ax_costaware.methods import CostAware
from tests.ax.gittins_toy import FAST, arm_of, record
from tests.test_storage import round_trip

pytestmark = [
    pytest.mark.filterwarnings(
        # BoTorch's optimiser of mixed spaces, where there are parameter constraints.
        "ignore:Unknown solver options. tol:scipy.optimize.OptimizeWarning"
    ),
    pytest.mark.usefixtures("short_searches"),
]

FAST_FIT = {n: x for n, x in FAST.items() if n not in ("surrogate_spec", "initial_share")}


def mixed_client(storage_config: StorageConfig | None = None, **strategy: Any) -> Client:
    """Every kind of parameter, with a parameter constraint, minimising."""
    client = Client(storage_config=storage_config)
    client.configure_experiment(
        name="toy",
        parameters=[
            RangeParameterConfig("dose", (-5, 5), "float"),
            RangeParameterConfig("pots", (1, 4), "int"),
            RangeParameterConfig("days", (1, 64), "int", scaling="log"),
            RangeParameterConfig("rate", (0.01, 1.0), "float", scaling="log"),
            ChoiceParameterConfig("soil", ["clay", "sand", "peat"], "str", is_ordered=False),
            ChoiceParameterConfig("lamp", [1, 5, 20], "int", is_ordered=True),
            ChoiceParameterConfig("size", ["S", "M", "L"], "str", is_ordered=True),
        ],
        parameter_constraints=["dose + pots <= 5"],
    )
    client.configure_optimization(objective="-loss")
    client.configure_tracking_metrics(["hours"])
    client.set_generation_strategy(cost_aware_strategy(**{**FAST_FIT, **strategy}))
    return client


def loss(x: dict[str, Any]) -> float:
    """Something smooth that every parameter matters for."""
    soil = {"clay": 0.0, "sand": 0.3, "peat": 0.6}[x["soil"]]
    size = {"S": 0.2, "M": 0.0, "L": 0.1}[x["size"]]
    late = (x["days"] - 8) ** 2 / 4000
    return float(
        (x["dose"] - 1) ** 2 / 25 + (x["pots"] - 3) ** 2 / 9 + x["lamp"] / 20 + x["rate"]
    ) + (soil + size + late)


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


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        (AffineCost({"moon": 1.0}), r"reads \['moon'\], which the experiment does not have"),
        (AffineCost({"soil": 1.0}), "multiplies parameter 'soil', whose values are no numbers"),
        (ProductCost({"days": 1.0, "dose": 2.0}), "parameter 'dose' takes the value 0.0, which"),
        (TableCost("soil", {"clay": 1.0, "sand": 2.0}), "soil.*peat"),
        (TableCost("dose", {1.0: 1.0}), "'dose' has more values than a table holds"),
        ("loss", "cost='loss' is the objective: expected another metric"),
        (lambda x: 0.0, r"cost gave 0.0 for {'dose'.*expected a finite number > 0"),
        (lambda x: [1.0], r"cost gave \[1.0\] for"),
        (lambda x: float("nan"), "cost gave nan for"),
    ],
)
def test_costs_that_do_not_fit_the_experiment(cost: Any, message: str) -> None:
    """They are refused before the first trial."""
    with pytest.raises(UserInputError, match=message):
        mixed_client(cost=cost, budget=10.0).get_next_trials(max_trials=1)


def test_a_cost_that_is_negative_somewhere() -> None:
    """Without constraints the cheapest corner is looked at before anything is spent."""
    client = Client()
    client.configure_experiment(name="x", parameters=[RangeParameterConfig("x", (0, 1), "float")])
    client.configure_optimization(objective="y")
    client.set_generation_strategy(cost_aware_strategy(AffineCost({"x": -1.0}, 0.5), budget=3))
    with pytest.raises(UserInputError, match=r"AffineCost\({'x': -1.0}, fixed=0.5\) at {'x': 1.0}"):
        client.get_next_trials(max_trials=1)


def test_a_price_list_of_a_reaction() -> None:
    """Its next trial is that of the same cost as a function, and it is stored."""
    prices = {
        "base": {"CsOAc": 0.15, "CsOPiv": 0.19, "KOAc": 0.10, "KOPiv": 0.0},
        "ligand": dict(
            zip("abcdefgh", (0.07, 0.07, 0.08, 0.08, 0.0, 0.19, 0.31, 0.4), strict=True)
        ),
        "solvent": {"BuCN": 0.15, "BuOAc": 0.14, "DMAc": 0.13, "Xylene": 0.0},
    }
    rows = [
        ("KOPiv", "f", "Xylene", 0.057, 6.9),
        ("CsOPiv", "b", "BuCN", 0.153, 0.0),
        ("KOAc", "e", "DMAc", 0.1, 14.0),
        ("CsOAc", "a", "BuOAc", 0.057, 0.0),
        ("CsOPiv", "g", "DMAc", 0.1, 40.0),
        ("KOAc", "h", "BuCN", 0.153, 77.0),
    ]
    past = pd.DataFrame(rows, columns=[*prices, "conc", "y"])
    cost = sum(TableCost(name, table) for name, table in prices.items()) + 0.05

    def reagents(x: dict[str, Any]) -> float:
        return sum(table[x[name]] for name, table in prices.items()) + 0.05

    made = []
    for declared in (cost, reagents):
        choices = [
            ChoiceParameterConfig(name, list(table), "str", is_ordered=False)
            for name, table in prices.items()
        ]
        conc = ChoiceParameterConfig("conc", [0.057, 0.1, 0.153], "float", is_ordered=True)
        client = Client()
        client.configure_experiment(parameters=[*choices, conc])
        client.configure_optimization(objective="y")
        client.set_generation_strategy(cost_aware_strategy(cost=declared, budget=3.0, **FAST_FIT))
        attach_table(client, past)
        made.append(client.get_next_trials(max_trials=1))
        if declared is cost:
            ((index, arm),) = made[0].items()
            assert record(client, index)["expected_cost"] == pytest.approx(reagents(dict(arm)))
            assert round_trip(method_of_class(client._generation_strategy, CostAware)).cost == cost
    assert made[0] == made[1]


@pytest.mark.parametrize("last", ["ordered", "integer"])
def test_a_cost_function_of_choices_is_asked_once_for_a_point(last: str) -> None:
    """Ax's optimisers asked it at every step along columns in which it has no slope."""
    asked = []

    def price(x: dict[str, Any]) -> float:
        asked.append(tuple(x.values()))
        return 1.0 + 0.1 * "uvwx".index(x["base"]) + 0.2 * x["n"]

    values: Any = {
        "ordered": ChoiceParameterConfig("n", [1, 2, 5], "int", is_ordered=True),
        "integer": RangeParameterConfig("n", (1, 3), "int"),
    }
    names = ("base", "ligand", "solvent")
    choices = [ChoiceParameterConfig(k, list("uvwx"), "str", is_ordered=False) for k in names]
    client = Client()
    client.configure_experiment(parameters=[*choices, values[last]])
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
