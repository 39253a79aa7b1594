"""Declared costs as functions of points of the model's space."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from ax_costaware.acquisition.log_cost import log_cost_function
from ax_costaware.core.problem import Decision, Problem
from ax_costaware.core.simulation import Outcome, Simulation
from ax_costaware.exceptions import InputError
from ax_costaware.methods.costs import check_cost, known_cost
from ax_costaware.methods.gittins import Gittins
from ax_costaware.queries.costs import AffineCost, ConstantCost, Cost, ProductCost, TableCost
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
]


def cost_of_points(cost: Any, space: Space = SPACE) -> Any:
    """The cost as the Gittins method takes it."""
    method = Gittins(cost)
    return known_cost(method.cost, method.cost_at, space)


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
    expected = points.new_tensor([Gittins(cost).cost_at(row) for row in SPACE.decode(points)])
    assert torch.allclose(found, expected, rtol=1e-9)
    batched = cost_of_points(cost)(points.reshape(4, 32, -1))
    assert torch.equal(batched, found.reshape(4, 32))


@pytest.mark.parametrize("cost", [COSTS[2], COSTS[3], COSTS[4]], ids=repr)
def test_gradients_of_value_objects(cost: Any, points: Tensor) -> None:
    """Of their logarithms, which are searched; also between the corners of one-hot blocks."""
    inner = 0.5 * points[:4] + 0.5 * points[4:8]
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


def test_refusals(points: Tensor) -> None:
    """By the name of the argument, with the parameterization."""
    bad = cost_of_points(lambda x: -float(x["pots"]))
    with pytest.raises(InputError, match=r"cost gave -\d.0 for {'dose': .*finite number > 0"):
        bad(points)


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
        (
            OwnCost(lambda dose: dose),
            r"cost=OwnCost.* at {'dose': 0.0, .*expected a finite cost > 0",
        ),
        (
            OwnCost(lambda dose: (6 + dose).log().log()),
            r"cost=OwnCost.* at {'dose': -5.0, .* cost -inf",
        ),
        (
            OwnCost(lambda dose: (6 + dose).numpy()),
            r"cost=OwnCost.*: evaluate gave a ndarray for col",
        ),
        (
            OwnCost(lambda dose: (6 + dose).sum()),
            r"evaluate gave the shape \(\) .*expected a tensor",
        ),
        (lambda x: x["pots"] - 1, r"cost gave 0 for {'dose': -5.0, 'pots': 1, .*expected"),
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
    product = ProductCost({"dose": 0.5})
    with pytest.raises(InputError, match="'dose' takes the value -5"):
        check_cost(Problem(SPACE), product)
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
    with pytest.raises(InputError, match=f"at .*{refused}.*expected a finite"):
        check_cost(problem, cost)


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


def test_a_function_is_asked_once_for_a_point_of_finitely_many() -> None:
    """By all searches of a decision: the function may be a slow one."""
    choices = [Choice(name, tuple("uvwxyz")) for name in ("base", "ligand", "solvent")]
    space = Space.of([*choices, Choice("conc", (0.05, 0.1, 0.2), is_ordered=True)])
    asked: list[tuple[Any, ...]] = []

    def price(x: dict[str, Any]) -> float:
        asked.append(tuple(x.values()))
        return 1.0 + "uvwxyz".index(x["base"]) + x["conc"]

    simulation = Simulation(Gittins(price, budget=60.0, initial_trials=4), space)
    for _ in range(6):
        decision = simulation.ask()
        assert isinstance(decision, Decision)
        asked.clear()
        simulation.tell(decision, Outcome("uvwxyz".index(str(decision.parameters["ligand"])) / 5))
    asked.clear()
    assert isinstance(simulation.ask(), Decision)
    assert len({*asked}) <= 648
    assert len(asked) <= 2 * 648
