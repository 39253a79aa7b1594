"""Checks of declared costs against an experiment, and their range. Costs are in the user's unit."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from typing import Any, cast

import torch
from scipy.optimize import linprog
from torch import Tensor

from ax_costaware.core.problem import Problem
from ax_costaware.costs.cost import (
    AffineCost,
    ConstantCost,
    Cost,
    ProductCost,
    SumCost,
    TableCost,
)
from ax_costaware.costs.declared_cost import CostOfRow, Declared, cost_of, part_of
from ax_costaware.exceptions import InputError
from ax_costaware.space.parameter_constraints import WeightedSum
from ax_costaware.space.parameters import Parameter, Range, Row, Value, takes
from ax_costaware.space.space import Space

_RANGE_LOOKS = 256
"""Quasi-random points for the range of a cost, besides corners of the space."""

_ROUNDING = 1e-6
"""Relative negative part of an affine term that is rounding only."""

_MOST_CORNERS = 1024
"""Most corners of the space at which a user's own cost or conditional is checked."""

_MOST_LISTED = 64
"""Most rows of a table at which a user's own cost is checked, besides the one at the center."""

MOST_VALUES = 256
"""Most values of an integer parameter for a table; with more it is searched as a real number."""


def named_cost(cost: Cost) -> Cost:
    """Return a cost whose parameters are named, as in an experiment.

    Raises:
        InputError: If it reads columns by their number.
    """
    if columns := [key for key in cost.parameters if not isinstance(key, str)]:
        raise InputError(
            f"cost={cost!r} reads the columns {columns}: expected names of parameters."
        )
    return cost


def check_cost(problem: Problem, cost: Declared) -> None:
    """Check that a cost fits the parameters of an experiment.

    The terms of a sum are checked one by one, and may be zero where the whole is > 0.

    Args:
        problem: The experiment.
        cost: The user's cost; a function, and a value object of the user's own class, is evaluated
            at the center and at corners of the space.

    Raises:
        InputError: If the cost reads a parameter that does not exist or has no numbers, is no
            finite number > 0 somewhere, or has a negative term somewhere.
    """
    # A user's own cost was checked before the first trial.
    is_new = not any(trial.record for trial in problem.trials)
    if not isinstance(cost, Cost):
        for row in center_and_corners(problem) if callable(cost) and is_new else ():
            cost_of(cost, row)
        return
    terms = cost.terms if isinstance(cost, SumCost) else (cost,)
    for term in terms:
        _check_reads(term, problem.space, is_part=term is not cost)
    shipped = AffineCost | TableCost | ProductCost | ConstantCost
    own = [term for term in terms if not isinstance(term, shipped)]
    if is_new and own:
        _check_own(problem, cost, own)
    affine = [term for term in terms if isinstance(term, AffineCost)]
    for term in affine if isinstance(cost, SumCost) else ():
        if (cheapest := _cheapest([term], problem.space)) is not None:
            _check_part(term, cheapest)
    if own or any(isinstance(term, ConstantCost) for term in terms):
        return
    linear = [term for term in terms if isinstance(term, AffineCost | TableCost)]
    # No term is negative: the sum is zero if each product has a zero factor and the rest is zero.
    zeros = [_zeros(term, problem.space) for term in terms if isinstance(term, ProductCost)]
    for factors in product(*zeros):
        held = dict.fromkeys(factors, 0)
        if (cheapest := _cheapest(linear, problem.space, held)) is not None:
            row = {**problem.space.center, **cheapest}
            cost_of(cost, {str(name): row[str(name)] for name in cost.parameters})


def _check_reads(term: Cost, space: Space, is_part: bool) -> None:
    """Refuse a cost of parameters that it cannot read, and a product that is not > 0 somewhere."""
    parameters, names = space.parameters, cast(Sequence[str], term.parameters)
    if unknown := [name for name in names if name not in parameters]:
        raise InputError(
            f"cost={term!r} reads {unknown}, which the experiment does not have: expected names "
            f"out of {space.names}."
        )
    if isinstance(term, TableCost):
        (table,) = names
        values = parameters[table].values_up_to(MOST_VALUES)
        if values is None:
            raise InputError(
                f"cost={term!r}: parameter {table!r} has more values than a table "
                "holds; expected a choice or a short range of integers, or an AffineCost."
            )
        for value in values:
            part_of(term, {table: value})
    if isinstance(term, AffineCost | ProductCost):
        for name in names:
            if not parameters[name].is_numeric:
                raise InputError(
                    f"cost={term!r} multiplies parameter {name!r}, whose values are no numbers: "
                    "expected numeric parameters, or a TableCost over this one."
                )
    if isinstance(term, ProductCost):
        _check_product(term, space, is_part)


def cost_range(problem: Problem, cost: Cost | CostOfRow) -> tuple[float, float]:
    """Return the least and the largest cost of a trial.

    They are exact if the cost is monotone in each parameter that it reads, and no parameter
    constraint reads these. The least cost of affine costs and tables is exact with constraints,
    too. Otherwise they are the extremes over corners and quasi-random points.
    """
    space = problem.space
    names = [str(name) for name in cost.parameters] if isinstance(cost, Cost) else None
    rows = list(center_and_corners(problem, names))
    rows += space.decode(space.sobol_points(_RANGE_LOOKS, 0, problem.held))
    costs = [cost_of(cost, row) for row in rows]
    terms: tuple[object, ...] = cost.terms if isinstance(cost, SumCost) else (cost,)
    linear = [term for term in terms if isinstance(term, AffineCost | TableCost)]
    if len(linear) == len(terms) and not problem.fixed.keys() & {*space.columns}:
        cheapest = _cheapest(linear, space)
        costs += [] if cheapest is None else [cost_of(cost, cheapest)]
    return min(costs, default=0.0), max(costs, default=math.inf)


def _check_part(term: Cost, row: Row) -> None:
    """Refuse a term of a sum that is no finite number >= 0, to rounding."""
    part, size = part_of(term, row), 0.0
    if isinstance(term, AffineCost):
        size = abs(term.fixed) + sum(abs(w * float(str(row[str(n)]))) for n, w in term.weights)
    if not -_ROUNDING * size <= part < math.inf:
        raise InputError(
            f"cost={term!r} at {dict(row)} is {part!r}: expected a finite number >= 0, as a term "
            "of a sum."
        )


def _check_own(problem: Problem, cost: Cost, own: Sequence[Cost]) -> None:
    """Refuse value objects of a user's own classes that return invalid costs.

    Args:
        problem: The experiment.
        cost: The whole cost.
        own: Its terms of such classes.
    """
    space, rows = problem.space, list(center_and_corners(problem))
    for term in own:
        if rows and all(space.parameters[str(name)].is_numeric for name in term.parameters):
            X = space.encode(rows)
            found = term.evaluate({name: space.raw(str(name), X) for name in term.parameters})
            shape = found.shape if isinstance(found, Tensor) else None
            if shape != X.shape[:-1] and not (shape == () and not term.parameters):
                got = f"a {type(found).__name__}" if shape is None else f"the shape {tuple(shape)}"
                raise InputError(
                    f"cost={term!r}: evaluate gave {got} for columns of shape "
                    f"{tuple(X.shape[:-1])}: expected a tensor with a cost for each entry of its "
                    "columns."
                )
    for row in rows:
        for term in own if isinstance(cost, SumCost) else ():
            _check_part(term, row)
        cost_of(cost, row)


def center_and_corners(problem: Problem, names: Iterable[str] | None = None) -> Iterator[Row]:
    """Yield the center of a space and its corners, or a sample of them, if they are valid.

    Of a table, yield a sample of rows.

    Args:
        problem: The experiment.
        names: Parameters that vary between corners; the others have their middle values. None: all.
    """
    space = problem.space
    if space.listed is not None:
        yield from space.sobol_rows(min(len(space.listed), _MOST_LISTED))
        return
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


def _cheapest(
    terms: Sequence[AffineCost | TableCost], space: Space, held: Row | None = None
) -> Row | None:
    """Return a minimizer of a sum of affine costs and tables.

    With constraints it solves a mixed-integer linear program. A range with few digits is relaxed to
    real numbers and rounded, so that the sum may not be least, but it is the cost of a valid trial.

    Args:
        terms: The terms.
        space: The space.
        held: Values of parameters that are given.

    Returns:
        Values of the parameters that the sum and the constraints read; None if none are found.
    """
    # Without nonlinear and conditional constraints the least cost is a lower bound.
    held, space = held or {}, replace(space, nonlinear=())
    weights: dict[str, float] = {}
    tables: dict[str, list[TableCost]] = {}
    for term in terms:
        if isinstance(term, TableCost):
            tables.setdefault(str(term.parameter), []).append(term)
        else:
            for name, weight in term.weights:
                weights[str(name)] = weights.get(str(name), 0.0) + weight
    equalities = space.equalities
    sums = [each for each in space.sums if not each[0].keys() & space.conditions.keys()]
    read = (weights for weights, _ in (*sums, *equalities))
    names = list(dict.fromkeys(chain(weights, tables, held, *read)))
    values: dict[str, Sequence[Any]] = {}
    for name in names:
        parameter = space.parameters[name]
        found = parameter.values_up_to(MOST_VALUES) if name in tables else None
        values[name] = _ends(parameter) if found is None else found
        if name in held:
            values[name] = (held[name],)

    def price(name: str, value: Any) -> float:
        """Return the part of one parameter's value in the sum."""
        parts = [table.part_at({name: value}) for table in tables.get(name, ())]
        return _times(weights, name, value) + sum(parts)

    if not (sums or equalities):
        return {name: min(values[name], key=partial(price, name)) for name in names}
    # A range is a variable; any other parameter has an indicator variable for each value.
    ranges = {n: p for n, p in space.ranges.items() if n in names and n not in tables}
    others = [name for name in names if name not in ranges]
    variables: list[tuple[str, Any]] = [(name, 1.0) for name in ranges]
    variables += [(name, value) for name in others for value in values[name]]
    one_value = [([float(n == name) for n, _ in variables], 1.0) for name in others]
    solution = linprog(
        [price(*variable) for variable in variables],
        *_matrix(_rows(sums, variables)),
        *_matrix(_rows(equalities, variables) + one_value),
        bounds=[(min(values[n]), max(values[n])) if n in ranges else (0, 1) for n, _ in variables],
        integrality=[int(n not in ranges or ranges[n].is_integer) for n, _ in variables],
    ).x
    if solution is None:
        return None
    row: dict[str, Value] = {}
    for (name, value), x in zip(variables, solution.tolist(), strict=True):
        if name in ranges:
            row[name] = ranges[name].decode(x)
        elif x > 0.5:
            row[name] = value
    return row if space.meets(row) else None


def _times(weights: Mapping[str, float], name: str, value: Any) -> float:
    """Return the part of a parameter's value in a weighted sum."""
    return weights[name] * float(value) if name in weights else 0.0


def _rows(
    constraints: Sequence[WeightedSum], variables: Sequence[tuple[str, Any]]
) -> list[tuple[list[float], float]]:
    """Return coefficients of the variables in constraints, and right-hand sides."""
    return [([_times(weights, *v) for v in variables], limit) for weights, limit in constraints]


def _matrix(
    rows: Sequence[tuple[list[float], float]],
) -> tuple[list[list[float]] | None, list[float] | None]:
    """Return coefficients and right-hand sides in SciPy's form; None without any."""
    return [row for row, _ in rows] or None, [limit for _, limit in rows] or None


def _zeros(cost: ProductCost, space: Space) -> list[str]:
    """Return the parameters at whose value of zero a product is zero."""
    names = [str(name) for name, power in cost.powers if power > 0]
    return [name for name in names if takes(space.parameters[name], 0)]


def _check_product(cost: ProductCost, space: Space, is_part: bool) -> None:
    """Refuse a product that is no finite number > 0 somewhere within the bounds.

    A term of a sum may be zero where its slope is finite. Constraints are ignored, since a search
    may evaluate points that violate them.
    """
    corners: tuple[dict[str, Value], ...] = {}, {}
    for key, power in cost.powers:
        name = str(key)
        values = _ends(space.parameters[name])
        # A power is monotone on either side of zero.
        looks = (*values, 0.0) if min(values) < 0 < max(values) else values
        factors = torch.tensor([float(v) for v in looks], dtype=torch.double) ** power
        for value, factor in zip(looks, factors.tolist(), strict=True):
            is_zero = is_part and factor == 0 and power >= 1
            if not (0 < factor < math.inf or is_zero):
                part = ", or 0 by a power of 1 or more" if is_part else ""
                raise InputError(
                    f"cost={cost!r}: parameter {name!r} takes the value {value!r}, which to the "
                    f"power {power:g} is {factor:g}: expected values whose power is a finite "
                    f"number > 0{part}, so that every trial costs something."
                )
        low, high = corners
        low[name], high[name] = looks[int(factors.argmin())], looks[int(factors.argmax())]
    for corner in corners:
        (_check_part if is_part else cost_of)(cost, corner)


def _ends(parameter: Parameter) -> tuple[Any, ...]:
    """Return the bounds of a range, or the values of any other parameter."""
    if isinstance(parameter, Range):
        return parameter.decode(parameter.lower), parameter.decode(parameter.upper)
    return parameter.values_up_to(MOST_VALUES)
