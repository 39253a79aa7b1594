"""Declared costs as functions of points of the model's space."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from ax_costaware.core.problem import Decision, Problem
from ax_costaware.core.simulation import Outcome, Simulation
from ax_costaware.costs import log_cost_function
from ax_costaware.costs.cost import AffineCost, ConstantCost, Cost, ProductCost, TableCost
from ax_costaware.costs.declared_cost import DeclaredCost
from ax_costaware.exceptions import InputError
from ax_costaware.methods.cost_aware import CostAware
from ax_costaware.methods.costs import _cheapest, check_cost
from ax_costaware.space.parameters import Choice, Fixed, Range
from ax_costaware.space.space import Space

SPACE = Space.of(
    [
        Range("dose", -5, 5),
        Range("pots", 1, 4, is_integer=True),
        Range("days", 1, 64, is_integer=True, log_scale=True),
        Range("rate", 0.01, 1.0, log_scale=True),
        Choice("soil", ("sand", "clay", "peat")),
        Choice("lamp", (1, 5, 20), is_ordered=True),
        Choice("code", (3, 1, 7)),
        Choice("size", ("S", "M", "L"), is_ranked=True),
        Choice("lid", (True, False)),
        Fixed("site", "here"),
    ],
    [({"dose": 1.0, "pots": 1.0}, 5.0)],
)


@dataclass(frozen=True)
class OwnCost(Cost):
    """A user's own class, whose costs are a function of one column."""

    of: Callable[[Tensor], Any]
    parameters = ("dose",)

    def evaluate(self, columns: Mapping[Any, Tensor]) -> Any:
        return self.of(columns["dose"])


COSTS = [
    OwnCost(lambda dose: 6.0 + dose),
    2.5,
    ConstantCost(3.0),
    AffineCost({"days": 0.5, "rate": 10.0, "dose": 0.1, "lamp": 0.01, "code": 0.2}, fixed=2.0),
    TableCost("soil", {"clay": 1.0, "sand": 2.0, "peat": 4.0}),
    ProductCost({"days": 1, "rate": -0.5, "lamp": 2, "code": 1.5, "pots": 3}, scale=0.1),
    TableCost("size", {"S": 1.0, "M": 2.0, "L": 4.0}),
    TableCost("lid", {True: 1.0, False: 2.0}),
    TableCost("pots", {1: 1.0, 2: 5.0, 3: 2.0, 4: 1.5}),
    TableCost("site", {"here": 1.5}),
    lambda x: 1.0 + x["days"] + len(x["soil"]) + 2.0 * x["lid"],
    TableCost("soil", {"clay": 0.0, "sand": 2.0, "peat": 4.0})
    + TableCost("code", {1: 3.0, 3: 1.0, 7: 2.0})
    + TableCost("size", {"S": 1.0, "M": 2.0, "L": 4.0})
    + TableCost("pots", {1: 0.0, 2: 5.0, 3: 2.0, 4: 1.5})
    + TableCost("site", {"here": 0.0})
    + AffineCost({"days": 0.5, "rate": 10.0, "code": 0.2})
    + ProductCost({"days": 1, "rate": -0.5, "code": 1.5}, scale=0.1)
    + OwnCost(lambda dose: 5.0 + dose)
    + 0.25,
]


def cost_of_points(cost: Any, space: Space = SPACE) -> Any:
    """The cost as the Gittins method takes it."""
    model = CostAware(cost).trial_costs.model(Problem(space))
    assert isinstance(model, DeclaredCost)
    return model.costs


@pytest.fixture(scope="module")
def points() -> Tensor:
    """Points all over the space."""
    return SPACE.sobol_points(128, seed=0)


@pytest.mark.parametrize("cost", COSTS, ids=lambda cost: type(cost).__name__)
def test_costs_at_valid_points_are_those_of_the_parameterizations(
    cost: Any, points: Tensor
) -> None:
    """For every kind of cost and parameter."""
    found = cost_of_points(cost)(points)
    expected = points.new_tensor([CostAware(cost).cost_at(row) for row in SPACE.decode(points)])
    assert torch.allclose(found, expected, rtol=1e-9)
    batched = cost_of_points(cost)(points.reshape(4, 32, -1))
    assert torch.equal(batched, found.reshape(4, 32))


@pytest.mark.parametrize("cost", [*COSTS[2:5], COSTS[-1]], ids=lambda cost: type(cost).__name__)
def test_gradients_of_value_objects(cost: Any, points: Tensor) -> None:
    """Of their logarithms, which are searched; also between the corners of one-hot blocks."""
    inner = 0.6 * points[:4] + 0.4 * points[4:8]  # not where the nearest value of a table changes
    blocks = [i for name in ("soil", "code") for i in SPACE.columns[name].indices]
    inner[:, blocks] = inner[:, blocks].clamp(0.1, 0.9)
    inner.requires_grad_()
    log_cost = log_cost_function(cost_of_points(cost))
    assert torch.autograd.gradcheck(log_cost, (inner,), atol=1e-5)


def test_gradient_of_a_function_stays_within_the_bounds(points: Tensor) -> None:
    """Differences in the smooth columns, backwards at a bound; none in the others."""
    seen: list[float] = []

    def cost(x: dict[str, Any]) -> float:
        seen.append(x["rate"])
        return float(1.0 + 3.0 * x["rate"] + x["days"] + (x["dose"] + 5.0) ** 2)

    X = points[:3].clone()
    dose, rate = SPACE.columns["dose"].indices[0], SPACE.columns["rate"].indices[0]
    X[0, rate], X[1, rate] = SPACE.bounds[0, rate], SPACE.bounds[1, rate]
    X.requires_grad_()
    cost_of_points(cost)(X).sum().backward()
    assert X.grad is not None
    raw = torch.pow(10.0, X.detach()[:, rate])
    slope = 3.0 * raw * torch.log(torch.tensor(10.0))
    assert torch.allclose(X.grad[:, rate], slope.to(X), rtol=1e-3)
    assert torch.allclose(X.grad[:, dose], 2 * (X.detach()[:, dose] + 5.0), rtol=1e-3, atol=1e-3)
    assert X.grad.count_nonzero(dim=-1).max() == 2
    assert min(seen) >= 0.01
    assert max(seen) <= 1.0
    assert len(seen) == len(X) * (1 + len(SPACE.smooth)), "the function may be a slow one"


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        (AffineCost({"moon": 1.0}), r"reads \['moon'\], which the experiment does not have"),
        (AffineCost({"soil": 1.0}, fixed=1.0), "'soil', whose values are no numbers"),
        (ProductCost({"moon": 1.0}), r"reads \['moon'\], which the experiment does not have"),
        (ProductCost({"soil": 1.0}), "'soil', whose values are no numbers"),
        (ProductCost({"dose": 1.0}), "'dose' takes the value -5.0, which to the power 1 is -5"),
        (ProductCost({"days": 1, "dose": 2.0}), "'dose' takes the value 0.0, .* power 2 is 0"),
        (ProductCost({"dose": 0.5}), "'dose' takes the value -5.0, .* power 0.5 is nan"),
        (ProductCost({"days": 1000.0}), "'days' takes the value 64, .* power 1000 is inf"),
        (ProductCost({"days": 1.0}, 1e308), r"cost=ProductCost.* at {'days': 64}.* cost inf"),
        (ProductCost({"days": -9.0}, 1e-310), r"cost=ProductCost.* at {'days': 64}.* cost 0.0"),
        (TableCost("rate", {0.1: 1.0}), "'rate' has more values than a table holds"),
        (TableCost("soil", {"sand": 1.0, "clay": 2.0}), "peat"),
        (AffineCost({"dose": 1.0}, fixed=1.0), r"cost=AffineCost.* at {'dose': -5.0}"),
        (OwnCost(lambda dose: dose), r"cost=OwnCost.* at {'dose': 0.0"),
        (
            OwnCost(lambda dose: (6 + dose).log().log()),
            r"cost=OwnCost.* at {'dose': -5.0, .* cost -inf",
        ),
        (
            OwnCost(lambda dose: (6 + dose).numpy()),
            r"cost=OwnCost.*: evaluate gave a ndarray for col",
        ),
        (OwnCost(lambda dose: (6 + dose).sum()), r"evaluate gave the shape \(\)"),
        (lambda x: x["pots"] - 1, r"cost gave 0 for {'dose': -5.0, 'pots': 1"),
        (lambda x: math.nan if x["dose"] == 0 else 1.0, r"cost gave nan for {'dose': 0.0, 'po"),
        (lambda x: len(x["soil"]) - 4.0 + x["lid"], r"cost gave 0.0 for .*'soil': .*'lid': Fal"),
    ],
)
def test_costs_that_do_not_fit_the_parameters(cost: Any, message: str) -> None:
    """Also where an affine cost is least, unless constraints may leave that out."""
    free = Problem(Space.of(SPACE.parameters.values()))
    with pytest.raises(InputError, match=message):
        check_cost(free, cost)
    # A power of a negative number may be none, also where a search only passes by.
    power = ProductCost({"dose": 0.5})
    with pytest.raises(InputError, match="'dose' takes the value -5"):
        check_cost(Problem(SPACE), power)
    below = Problem(Space.of([Range("dose", -5, -1)]))
    check_cost(below, ProductCost({"dose": 2}))
    for fitting in COSTS:
        check_cost(free, fitting)


@pytest.mark.parametrize(
    ("sums", "equalities", "refused"),
    [
        ([({"x": 1.0, "n": 1.0}, 2.0)], [], "'x': 0.0"),
        ([({"x": -1.0, "n": -1.0}, -1.75)], [], "'x': 1.75"),
        ([({"x": -1.0, "n": -1.0}, -4.0)], [], None),
        ([({"n": -1.0}, -1.0)], [({"x": 1.0, "z": 1.0}, 2.5)], "'x': 0.5"),
        ([({"n": -1.0}, -1.0)], [({"x": 1.0, "z": -1.0}, 1.5)], None),
        ([({"n": -2.0}, -0.5), ({"x": -1.0}, -1.5)], [], None),  # n is a whole number
    ],
)
def test_an_affine_cost_within_constraints(sums: Any, equalities: Any, refused: str | None) -> None:
    """Refused where it is none for some trial that there may be, by the cheapest of them."""
    parameters: list[Any] = [Range("x", 0.0, 2.0), Range("n", 0, 3, is_integer=True)]
    parameters += [Range("z", 0.0, 2.0), Choice("code", (3, 1, 7))]
    problem = Problem(Space.of(parameters, sums, equalities=equalities))
    cost = AffineCost({"x": 1.0, "n": 2.0, "code": 0.5}, fixed=-3.5)
    if refused is None:
        check_cost(problem, cost)
        return
    with pytest.raises(InputError, match=f"at .*{refused}"):
        check_cost(problem, cost)


LIST = TableCost("code", {1: 0.0, 3: 2.0, 7: 4.0})
FREE = TableCost("soil", {"clay": 0.0, "sand": 2.0, "peat": 4.0})


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        (FREE, r"cost=Table.* at {'soil': 'clay'}: .* cost 0\.0"),
        (LIST + FREE, r"cost=Table.* at {'code': 1, 'soil': 'clay'}: .*cost 0\.0"),
        (FREE + FREE, r"at {'soil': 'clay'}: .* cost 0\.0"),
        (LIST + AffineCost({"dose": 1.0}, 5.0), r"at {'code': 1, 'dose': -5\.0}: .* cost 0\.0"),
        # Each is zero somewhere, and all of them are at once.
        (AffineCost({"dose": 1.0, "code": 1.0}, 4.0) + AffineCost({"dose": -1.0}, 5.0), None),
        (
            AffineCost({"dose": 1.0}, 5.0) + AffineCost({"dose": 1.0, "code": 1.0}, 4.0),
            r"at {'dose': -5\.0, 'code': 1}: .* cost 0\.0",
        ),
        (TableCost("code", {1: 1.0, 3: 0.0, 7: 0.0}) + AffineCost({"code": 1.0}, -1.0), None),
        (TableCost("code", {1: 0.0, 3: 0.0, 7: 1.0}) + AffineCost({"code": -1.0}, 7.0), None),
        (LIST + AffineCost({"code": 1.0}, -1.0), r"at {'code': 1}: .* cost 0\.0"),
        # The terms by themselves.
        (FREE + AffineCost({"moon": 1.0}), r"cost=Affine.* reads \['moon'\], which the experiment"),
        (FREE + AffineCost({"soil": 1.0}), r"cost=Affine.* 'soil', whose values are no numbers"),
        (FREE + TableCost("rate", {0.1: 1.0}), "'rate' has more values than a table holds"),
        (TableCost("code", {1: 1.0}) + FREE, r"cost=Table.* at {'code': 3}: .*one of \[1\]"),
        (9 + AffineCost({"dose": 1.0}), r"cost=Affine.* at {'dose': -5\.0} is -5\.0"),
        (9 + ProductCost({"dose": 1.0}), "'dose' takes the value -5.0, which to the power 1 is -5"),
        (9 + ProductCost({"days": 1.0}, 1e308), r"cost=Prod.* at {'days': 64} is inf"),
        (FREE + OwnCost(lambda dose: dose + 4), r"cost=Own.* is -1\.0"),
        (FREE + OwnCost(lambda dose: dose + 5), r" cost 0\.0 by Table.* \+ Own"),
        (FREE + OwnCost(lambda dose: dose.sum()), r"cost=Own.*evaluate gave the shape \(\)"),
        # Products, which are zero where a factor is.
        (ProductCost({"level": 1, "days": 1}), r"'level' takes the value 0\.0, .* so that every"),
        (9 + ProductCost({"level": 0.5}), r"'level' .* power 0\.5 is 0: .* 0 by a power of 1 or"),
        (9 + ProductCost({"level": -1}), r"'level' .* power -1 is inf: .* 0 by a power of 1 or"),
        (
            FREE + ProductCost({"level": 2, "days": 1}),
            r"at {'soil': 'clay', 'days': 8, 'level': 0}",
        ),
        (ProductCost({"level": 1, "days": 1}) + ProductCost({"days": 1}), None),
        (
            ProductCost({"level": 1, "days": 1}) + ProductCost({"level": 3}),
            r"at {'days': .*'level': 0",
        ),
        (ProductCost({"level": 1, "days": 1}) + AffineCost({"level": -1.0}, 1.0), None),
        (ProductCost({"level": 1, "days": 1}) + AffineCost({"days": 1.0}), None),
    ],
)
def test_terms_may_be_zero_where_the_sum_is_not(cost: Any, message: str | None) -> None:
    """What is refused is named with the cheapest trial, or with the term that does not fit."""
    problem = Problem(Space.of([*SPACE.parameters.values(), Range("level", 0.0, 1.0)]))
    if message is None:
        check_cost(problem, cost)
        return
    with pytest.raises(InputError, match=message):
        check_cost(problem, cost)


@pytest.mark.parametrize("seed", range(12))
def test_the_cheapest_trial_of_a_sum(seed: int) -> None:
    """Is found among all that constraints leave, whatever parameters its terms share."""
    draw = random.Random(seed)
    parameters: list[Any] = [
        Range("n", 0, 3, is_integer=True),
        Choice("code", (3, 1, 7)),
        Choice("lamp", (1, 5, 20), is_ordered=True),
        Choice("soil", ("sand", "clay", "peat")),
    ]
    sums = [({"n": 1.0, "lamp": 1.0}, 8.0), ({"n": -2.0, "lamp": -1.0}, -4.0)][: seed % 3]
    space = Space.of(parameters, sums)
    prices = {p.name: p.values_up_to(99) for p in parameters}

    def table(name: str) -> TableCost:
        return TableCost(name, {value: draw.randint(0, 9) for value in prices[name]})

    def affine(*names: str) -> AffineCost:
        return AffineCost({name: draw.uniform(-1, 1) for name in names}, 30.0)

    terms = [table("n"), table("soil"), table("code"), affine("n", "code"), affine("n", "lamp")]
    rows = [dict(zip(prices, values, strict=True)) for values in product(*prices.values())]
    least = min(sum(t.part_at(row) for t in terms) for row in rows if space.meets(row))
    cheapest = _cheapest(terms, space)
    assert cheapest is not None
    assert sum(term.part_at(cheapest) for term in terms) == pytest.approx(least, rel=1e-9)


def test_a_function_is_asked_at_corners_that_there_may_be() -> None:
    """Of many parameters at some corners, in any case at the least and the greatest."""

    def cost(x: Any) -> float:
        return float(x["x"])

    check_cost(Problem(Space.of([Range("x", 0.0, 1.0)], [({"x": -1.0}, -0.5)])), cost)
    check_cost(Problem(Space.of([Range("x", 0.0, 1.0)]), fixed={"x": 0.5}), cost)
    many = Problem(Space.of([Range(f"x{i}", 0.0, 1.0) for i in range(80)]))
    for bad in (lambda x: float(sum(x.values())), lambda x: 80.0 - sum(x.values())):
        with pytest.raises(InputError, match=r"cost gave 0.0 for {'x0': "):
            check_cost(many, bad)
    with pytest.raises(InputError, match=r"cost gave 0.0 for {'x0': "):
        check_cost(many, lambda x: x["x7"])


def test_a_price_list_finds_what_the_function_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same decisions, and parameterizations are not looked at one by one."""
    price = {
        "base": dict(zip("uvwxyz", (0.0, 3.0, 1.0, 2.0, 4.0, 6.0), strict=True)),
        "ligand": dict(zip("uvwxyz", (2.0, 0.0, 1.0, 5.0, 3.0, 2.5), strict=True)),
        "solvent": dict(zip("uvwxyz", (1.0, 2.0, 3.0, 4.0, 1.5, 0.5), strict=True)),
    }
    space = Space.of([*(Choice(name, tuple("uvwxyz")) for name in price), Range("conc", 0.0, 1.0)])
    cost = sum(TableCost(k, v) for k, v in price.items()) + AffineCost({"conc": 2.0}, fixed=0.5)

    def function(x: dict[str, Any]) -> float:
        return sum(table[x[name]] for name, table in price.items()) + 2.0 * x["conc"] + 0.5

    found = cost_of_points(cost, space)
    with monkeypatch.context() as patched:
        patched.setattr(Space, "decode", None)  # which takes most of the time of a function
        X = space.sobol_points(64, seed=0).requires_grad_()
        slopes = torch.autograd.grad(found(X).sum(), X)[0]
    assert torch.equal(slopes[:, -1], torch.full_like(slopes[:, -1], 2.0))
    assert torch.allclose(found(X), cost_of_points(function, space)(X), rtol=1e-9)
    made: list[list[Any]] = []
    for declared in (cost, function):
        simulation = Simulation(CostAware(declared, budget=60.0, initial_trials=4), space)
        rows = []
        for _ in range(7):
            decision = simulation.ask()
            rows.append(decision.parameters)
            ligand = "uvwxyz".index(str(decision.parameters["ligand"]))
            simulation.tell(decision, Outcome(ligand / 5 - float(str(rows[-1]["conc"]))))
        made.append(rows)
    for one, other in zip(*made, strict=True):
        assert one == {**other, "conc": pytest.approx(other["conc"], abs=1e-3)}


def test_an_own_cost_of_a_choice_without_numbers() -> None:
    """It has no columns of numbers to be evaluated on: it is asked for parameterizations alone."""

    @dataclass(frozen=True)
    class ByLength(Cost):
        parameters = ("kind",)

        def evaluate(self, columns: Any) -> Any:
            raise AssertionError("a string is no number")

        def _of(self, values: Any) -> float:
            return float(len(values["kind"]))

    space = Space.of([Choice("kind", ("a", "bb", "ccc")), Range("x", 0.0, 1.0)])
    simulation = Simulation(CostAware(ByLength(), budget=9.0), space)
    decision = simulation.ask()
    assert isinstance(decision, Decision)
    assert decision.expected_cost == len(str(decision.parameters["kind"]))
