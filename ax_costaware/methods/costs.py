"""Costs that are declared: whether they fit an experiment, and as functions of the model's space.

A cost is declared in raw values of the parameters, and a search runs in the model's space. Value
objects become differentiable functions of it; a user's own function is called row by row on decoded
parameterizations, with finite differences for its gradient. Costs are in the user's own unit.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, product
from typing import Any, Protocol, TypeAlias, cast

import torch
from scipy.optimize import linprog
from torch import Tensor

from ax_costaware.core.method import Method
from ax_costaware.core.problem import Problem
from ax_costaware.exceptions import InputError
from ax_costaware.queries.argument_checks import plain_value, positive_number
from ax_costaware.queries.costs import AffineCost, ConstantCost, Cost, ProductCost, TableCost
from ax_costaware.space.parameter_constraints import WeightedSum
from ax_costaware.space.parameters import Choice, Parameter, Range, Row, Value
from ax_costaware.space.space import Space

CostOfPoints: TypeAlias = Callable[[Tensor], Tensor]
"""From points ``... x d`` of the model's space to costs ``...``."""

CostOfRow: TypeAlias = Callable[[Row], float | None]
"""The cost of one parameterization in raw units; it raises where there is none."""

_RANGE_LOOKS = 256
"""Quasi-random points at which the range of a cost is looked for, beside corners of the space."""


class Priced(Protocol):
    """What has a declared cost: a method, or a control set."""

    def cost_at(self, parameters: Row, /) -> float | None:
        """The cost of one parameterization, in the user's own unit."""


_STEP = 1e-5
"""Step of the finite differences of a user's own function, relative to a column's range."""

_LEAST = 1e-300
"""A declared cost is kept above this during a search: an affine one may fall below zero outside
the constraints, where the search may look on its way. A point that is chosen is checked."""


def cost_of(cost: object, parameters: Row) -> float:
    """What a trial costs by a declared cost.

    Args:
        cost: A number, a value object by parameter names, or a user's function.
        parameters: The trial's parameterization in raw units.

    Raises:
        InputError: If that is no finite number > 0.
    """
    if isinstance(cost, Cost):
        try:
            return cost.at(parameters)
        except InputError as error:
            raise InputError(f"cost={cost!r} at {dict(parameters)}: {error}") from error
    value = cost(dict(parameters)) if callable(cost) else cost
    try:
        return positive_number(value, "cost")
    except InputError as error:
        raise InputError(
            f"cost gave {value!r} for {dict(parameters)}: expected a finite number > 0."
        ) from error


def searched_cost(cost: object, method: Method, declared: Callable[..., object]) -> object:
    """Return what a search reads costs from: ``cost``, or the ``cost_at`` of a user's subclass.

    Args:
        cost: The declared cost.
        method: The method.
        declared: The shipped ``cost_at``, which gives the declared cost.

    Returns:
        The cost; with a ``cost_at`` of its own a function that calls it.
    """
    if type(method).cost_at is declared:
        return cost
    name = f"{type(method).__name__}.cost_at"

    def cost_at(parameters: Row) -> float:
        return positive_number(plain_value(method.cost_at(parameters)), f"{name}({parameters})")

    return cost_at


def known_cost(cost: object, cost_at: CostOfRow, space: Space) -> CostOfPoints:
    """A declared cost as a function of points of the model's space.

    Args:
        cost: A number, a value object by parameter names, or a user's function.
        cost_at: The cost of one parameterization.
        space: How the parameters are encoded.

    Raises:
        InputError: If a table lacks a value of its parameter. The function raises it where a user's
            own function gives no finite number > 0.
    """
    if isinstance(cost, float):
        return lambda X: X.new_full(X.shape[:-1], cost)
    if not isinstance(cost, Cost):
        return _row_by_row(partial(cost_of, cost), space)
    names = cast(Sequence[str], cost.parameters)
    if isinstance(cost, TableCost):
        column = space.columns.get(str(cost.parameter))
        if column is not None and isinstance(choice := column.parameter, Choice):
            prices = [cost_at({choice.name: value}) for value in choice.values]
            # The zero keeps the point in the graph, with the gradient that a step has.
            return lambda X: column.weights(X) @ X.new_tensor(prices) + 0.0 * X.sum(dim=-1)
    if not all(space.parameters[name].is_numeric for name in names):
        return _row_by_row(cost_at, space)

    def evaluate(X: Tensor) -> Tensor:
        costs = cost.evaluate({name: space.raw(name, X) for name in names})
        return costs.to(X).expand(X.shape[:-1]).clamp_min(_LEAST)

    return evaluate


def _row_by_row(cost_at: CostOfRow, space: Space) -> CostOfPoints:
    """A cost that is asked for on decoded parameterizations, with differences for a gradient."""
    known: dict[tuple[Value, ...], float | None] = {}

    def cost_of_row(row: Row) -> float | None:
        if space.smooth:
            return cost_at(row)
        # Of finitely many points, the same ones are asked for again and again.
        key = tuple(row.values())
        if key not in known:
            known[key] = cost_at(row)
        return known[key]

    def costs(X: Tensor) -> Tensor:
        rows = space.decode(X.reshape(-1, X.shape[-1]))
        return X.new_tensor([cost_of_row(row) for row in rows]).reshape(X.shape[:-1])

    smooth = torch.tensor(sorted(space.smooth), dtype=torch.long)
    order = torch.arange(len(smooth))
    lower, upper = space.bounds[:, smooth]
    steps = _STEP * (upper - lower)

    def evaluate(X: Tensor) -> Tensor:
        at = X.detach()
        if not (X.requires_grad and torch.is_grad_enabled()):
            return costs(at)
        # The points, and again with a step in each smooth column, which stays within the bounds.
        step = torch.where(at[..., smooth] + steps > upper, -steps, steps).movedim(-1, 0)
        moved = at.repeat(len(smooth) + 1, *[1] * at.dim())
        moved[order, ..., smooth] += step
        found = costs(moved)
        slopes = torch.zeros_like(at)
        slopes[..., smooth] = ((found[:-1] - found[-1]) / step).movedim(0, -1)
        # The tangent plane has the value and the gradient.
        return found[-1] + (slopes * (X - at)).sum(dim=-1)

    return evaluate


_MOST_CORNERS = 1024
"""Corners of the space at which a user's own cost, or law of points, is asked beforehand."""

MOST_VALUES = 256
"""An integer parameter with more values than this is no table's, and is searched as a real one."""


def named_cost(cost: Cost) -> Cost:
    """A value object whose parameters are named, as in an experiment.

    Raises:
        InputError: If it reads columns by their number.
    """
    if columns := [key for key in cost.parameters if not isinstance(key, str)]:
        raise InputError(
            f"cost={cost!r} reads the columns {columns}: expected names of parameters."
        )
    return cost


def check_cost(problem: Problem, cost: object, method: Priced) -> None:
    """Check that a cost fits the parameters of an experiment.

    Args:
        problem: The experiment.
        cost: What the user gave; a function, and a value object of the user's own class, is asked
            at the center and at corners of the space.
        method: Gives the cost of a parameterization: the method, or the control set.

    Raises:
        InputError: If the cost reads a parameter that there is not, or that it cannot read, or is
            no finite number > 0 somewhere.
    """
    # Once trials were chosen it has been asked for what they cost.
    is_new = not any(trial.record for trial in problem.trials)
    if not isinstance(cost, Cost):
        for row in looks(problem) if callable(cost) and is_new else ():
            cost_of(cost, row)
        return
    parameters, names = problem.space.parameters, cast(Sequence[str], cost.parameters)
    if unknown := [name for name in names if name not in parameters]:
        raise InputError(
            f"cost={cost!r} reads {unknown}, which the experiment does not have: expected names "
            f"out of {problem.space.names}."
        )
    if is_new and not isinstance(cost, ConstantCost | AffineCost | ProductCost | TableCost):
        _check_own(problem, cost, method)
    if isinstance(cost, TableCost):
        (table,) = names
        values = parameters[table].values_up_to(MOST_VALUES)
        if values is None:
            raise InputError(
                f"cost={cost!r}: parameter {table!r} has more values than a table "
                "holds; expected a choice or a short range of integers, or an AffineCost."
            )
        for value in values:
            method.cost_at({table: value})
    if isinstance(cost, AffineCost | ProductCost):
        for name in names:
            if not parameters[name].is_numeric:
                raise InputError(
                    f"cost={cost!r} multiplies parameter {name!r}, whose values are no numbers: "
                    "expected numeric parameters, or a TableCost over this one."
                )
    if isinstance(cost, AffineCost) and (cheapest := _cheapest(cost, problem.space)) is not None:
        method.cost_at(cheapest)
    if isinstance(cost, ProductCost):
        _check_product(cost, problem.space, method)


def cost_range(problem: Problem, cost: Cost) -> tuple[float, float]:
    """Return the least and the largest cost of a trial.

    They are exact where the cost rises or falls with each parameter that it reads, and no
    parameter constraint reads these; the least one of an affine cost also within constraints. Else
    they are those of the points that are looked at.
    """
    space, names = problem.space, [str(name) for name in cost.parameters]
    rows = list(looks(problem, names))
    rows += space.decode(space.sobol_points(_RANGE_LOOKS, 0, problem.held))
    costs = [cost.at(row) for row in rows]
    if isinstance(cost, AffineCost) and not problem.fixed.keys() & {*space.columns}:
        cheapest = _cheapest(cost, space)
        costs += [] if cheapest is None else [cost.at(cheapest)]
    return min(costs, default=0.0), max(costs, default=math.inf)


def _check_own(problem: Problem, cost: Cost, method: Priced) -> None:
    """Refuse a value object of a user's own class that gives no costs, of one trial or of many."""
    space, rows = problem.space, list(looks(problem))
    if rows and all(space.parameters[str(name)].is_numeric for name in cost.parameters):
        X = space.encode(rows)
        found = cost.evaluate({name: space.raw(str(name), X) for name in cost.parameters})
        shape = found.shape if isinstance(found, Tensor) else None
        if shape != X.shape[:-1] and not (shape == () and not cost.parameters):
            got = f"a {type(found).__name__}" if shape is None else f"the shape {tuple(shape)}"
            raise InputError(
                f"cost={cost!r}: evaluate gave {got} for columns of shape {tuple(X.shape[:-1])}: "
                "expected a tensor with a cost for each entry of its columns."
            )
    for row in rows:
        method.cost_at(row)


def looks(problem: Problem, names: Iterable[str] | None = None) -> Iterator[Row]:
    """The center of a space, and its corners, or some of many; those that meet the constraints.

    Args:
        problem: The experiment.
        names: Parameters that differ between corners; the others are in the middle. None: all.
    """
    space = problem.space
    among = space.columns.keys() if names is None else {*names}
    ends = {n: _ends(column.parameter) for n, column in space.columns.items() if n in among}
    found: Iterable[Sequence[Value]] = product(*ends.values())
    if math.prod(map(len, ends.values())) > _MOST_CORNERS:
        draw = random.Random(0).choice
        least, most = ([values[i] for values in ends.values()] for i in (0, -1))
        drawn = [[draw(v) for v in ends.values()] for _ in range(_MOST_CORNERS)]
        found = chain((least, most), drawn)
    corners = (dict(zip(ends, values, strict=True)) for values in found)
    for row in chain((space.center,), corners):
        row = space.ordered({**space.center, **row, **problem.fixed})
        if space.meets(row):
            yield row


def _cheapest(cost: AffineCost, space: Space) -> Row | None:
    """Where an affine cost is least, by what it and constraints read; None where none is found.

    Choices may keep it from being least there, but it is a cost of a trial.
    """
    weights = {str(name): weight for name, weight in cost.weights}
    sums, equalities = space.sums, space.equalities
    names = list(dict.fromkeys(chain(weights, *(w for w, _ in (*sums, *equalities)))))
    parameters = [space.parameters[name] for name in names]
    ends = dict(zip(names, map(_ends, parameters), strict=True))
    if not (sums or equalities):
        return {name: min(e) if weights[name] > 0 else max(e) for name, e in ends.items()}
    found = linprog(
        [weights.get(name, 0.0) for name in names],
        *_matrix(sums, names),
        *_matrix(equalities, names),
        bounds=[(min(e), max(e)) for e in ends.values()],
        integrality=[int(isinstance(p, Range) and p.is_integer) for p in parameters],
    )
    if found.x is None:
        return None
    row = dict(zip(names, map(_nearest, parameters, found.x.tolist()), strict=True))
    return row if space.meets(row) else None


def _nearest(parameter: Parameter, x: float) -> Value:
    """The value of a numeric parameter that is nearest to a number."""
    if isinstance(parameter, Range):
        return parameter.decode(x)
    nearest: Value = min(_ends(parameter), key=lambda value: abs(float(value) - x))
    return nearest


def _matrix(
    constraints: Sequence[WeightedSum], names: Sequence[str]
) -> tuple[list[list[float]] | None, list[float] | None]:
    """Coefficients and right-hand sides of constraints, as SciPy has them; None without any."""
    rows = [[weights.get(name, 0.0) for name in names] for weights, _ in constraints]
    return rows or None, [limit for _, limit in constraints] or None


def _check_product(cost: ProductCost, space: Space, method: Priced) -> None:
    """Refuse a product that is no finite number > 0 somewhere within the bounds.

    Constraints do not count: a search may look beyond them on its way, where a power of a negative
    number need not be a number.
    """
    corners: tuple[dict[str, Value], ...] = {}, {}
    for key, power in cost.powers:
        name = str(key)
        values = _ends(space.parameters[name])
        # A power is monotone on either side of zero.
        looks = (*values, 0.0) if min(values) < 0 < max(values) else values
        factors = torch.tensor([float(v) for v in looks], dtype=torch.double) ** power
        for value, factor in zip(looks, factors.tolist(), strict=True):
            if not 0 < factor < math.inf:
                raise InputError(
                    f"cost={cost!r}: parameter {name!r} takes the value {value!r}, which to the "
                    f"power {power:g} is {factor:g}: expected values whose power is a finite "
                    "number > 0, so that every trial costs something."
                )
        low, high = corners
        low[name], high[name] = looks[int(factors.argmin())], looks[int(factors.argmax())]
    for corner in corners:
        method.cost_at(corner)


def _ends(parameter: Parameter) -> tuple[Any, ...]:
    """The bounds of a parameter that is a range, or the values of another one."""
    if isinstance(parameter, Range):
        return parameter.decode(parameter.lower), parameter.decode(parameter.upper)
    return parameter.values_up_to(MOST_VALUES)
