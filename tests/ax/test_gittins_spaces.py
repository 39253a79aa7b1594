"""The Gittins strategy on every kind of parameter, and Ax's own functions beside it."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from ax.adapter.cross_validation import cross_validate
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig, StorageConfig
from ax.exceptions.core import OptimizationShouldStop, UnsupportedError, UserInputError

from ax_costaware import (
    AffineCost,
    ProductCost,
    TableCost,
    attach_table,
    complete_trial,
    cost_aware_strategy,
    recommend,
    spending,
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
PRODUCT = ProductCost({"days": 0.5, "rate": -0.25, "lamp": 1}, scale=0.2)
TABLE = TableCost("soil", {"clay": 1.0, "sand": 2.5, "peat": 4.0})


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


def run(client: Client, count: int, learned: bool = False) -> None:
    """Run some trials."""
    for _ in range(count):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        cost = 1.0 + 0.1 * float(arm["days"]) if learned else None
        complete_trial(client, index, {"loss": loss(dict(arm))}, cost=cost)


COSTS: dict[str, Any] = {
    "table": TABLE,
    "affine": AffineCost({"days": 0.05, "pots": 0.5, "rate": 1.0}, fixed=0.25),
    "product": PRODUCT,
    "sum": TABLE
    + TableCost("size", {"S": 0.0, "M": 0.5, "L": 1.0})
    + TableCost("pots", {1: 0.0, 2: 0.5, 3: 1.0, 4: 1.5})
    + AffineCost({"days": 0.05}),
    "function": lambda x: 0.5 + 0.01 * x["days"] + {"S": 1.0, "M": 2.0, "L": 3.0}[x["size"]],
    "learned": "hours",
}


@pytest.fixture(scope="module", params=list(COSTS))
def mixed(request: pytest.FixtureRequest) -> Client:
    """A run on all of them."""
    client = mixed_client(cost=COSTS[request.param], budget=60.0, stop=False)
    run(client, 5, learned=request.param == "learned")
    return client


def test_arms_and_costs_are_valid(mixed: Client) -> None:
    """Integers and choices are exact, constraints hold, and costs are those of the arms."""
    for index in mixed._experiment.trials:
        arm = arm_of(mixed, index)
        mixed._experiment.search_space.check_types(arm, raise_error=True)
        assert mixed._experiment.search_space.check_membership(arm)
        assert type(arm["days"]) is int
        expected = record(mixed, index).get("expected_cost")
        cost = method_of_class(mixed._generation_strategy, CostAware).cost
        if not isinstance(cost, str):
            at = cost.at(arm) if hasattr(cost, "at") else cost(arm)
            assert expected == pytest.approx(at, rel=1e-12)
    assert spending(mixed).spent > 0


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


def test_ax_keeps_working(mixed: Client) -> None:
    """Prediction, cross-validation and best point on such an experiment."""
    best = recommend(mixed)
    (prediction,) = mixed.predict([best.parameters])
    assert prediction["loss"][0] == pytest.approx(best.expected_value, abs=1e-6)
    adapter = mixed._generation_strategy.adapter
    assert adapter is not None
    assert len(cross_validate(adapter)) == 5, "one of each trial"
    for use_model in (True, False):
        parameters, _, index, _ = mixed.get_best_parameterization(use_model_predictions=use_model)
        assert parameters == arm_of(mixed, index)


def test_only_what_is_left_is_spent_on_a_choice() -> None:
    """With less than the expensive soils cost left, the cheapest is all that is asked for."""
    client = mixed_client(cost=TABLE, budget=6.5, stop=False, initial_trials=2)
    with pytest.raises(OptimizationShouldStop, match="which saves"):
        run(client, 12)
    assert 5.5 < spending(client).spent <= 6.5
    last = [arm_of(client, i)["soil"] for i in client._experiment.trials][-1]
    assert last in {"clay", "sand"}


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


def test_several_objectives_are_refused() -> None:
    """Before the first trial."""
    client = mixed_client(cost=1.0)
    client.configure_optimization(objective="loss, hours")
    with pytest.raises(UnsupportedError, match="several metrics"):
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
