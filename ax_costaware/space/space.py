"""A search space as columns of a model, and back.

A range is one column to the model: its raw value, or the logarithm or logit of it; a choice its
codes, one number or a one-hot block; a fixed parameter none. A ``Space`` encodes parameterizations
in raw units, decodes points into them, differentiably where a parameter is numeric, and spreads
valid points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, product

import torch
from botorch.optim.parameter_constraints import evaluate_feasibility
from torch import Tensor
from torch.quasirandom import SobolEngine

from ax_costaware.argument_checks import distinct, one_of
from ax_costaware.exceptions import InputError
from ax_costaware.space.discrete import Discrete, combinations, exchanges, read
from ax_costaware.space.elimination import Elimination
from ax_costaware.space.parameter_constraints import (
    ROUNDING,
    WeightedSum,
    check_room,
    shown,
    sums_and_equalities,
)
from ax_costaware.space.parameters import (
    MOST_INTEGERS,
    Choice,
    Column,
    Fixed,
    Parameter,
    Range,
    Row,
    Value,
    takes,
)

_MOST_DRAWS = 32
"""Times the wanted number of points that are drawn to meet parameter constraints."""

_AT_ONCE = 128
"""Points of a quasi-random sequence that are drawn together."""

_ROUNDING = 1e-6
"""Part of a range, or of the largest term of a constraint, by which inputs may lie outside of it:
stores and log scales round."""

_MOST_MOVED = 6
"""Numbers of few digits that are moved so that their rounding keeps to the constraints."""

_NEARLY_EQUAL = 0.01
"""The same of an equality constraint: parts in whole percents need not add up."""

_MOST_COMBINATIONS = 2**14
"""Values of integers and choices that stand for all that constraints leave room for."""


@dataclass(frozen=True)
class Space:
    """A search space as the input space of a model, with ``d`` columns."""

    parameters: dict[str, Parameter]
    """All parameters but hidden ones, by name, as they were declared."""

    columns: dict[str, Column]
    """The free ones by name."""

    bounds: Tensor = field(compare=False)  # the columns say them, and a tensor is no truth value
    """Bounds of the columns, ``2 x d``."""

    sums: tuple[tuple[dict[str, float], float], ...] = ()
    """Parameter constraints: the weights of a sum of raw values, and its greatest value."""

    hidden: dict[str, Parameter] = field(default_factory=dict)
    """Parameters that the model does not see, such as the name of a control set."""

    order: tuple[str, ...] = ()
    """Names of all parameters, hidden ones included, as they were declared."""

    equalities: tuple[WeightedSum, ...] = ()
    """Equality constraints: the weights of a sum of raw values, and what it is."""

    @staticmethod
    def of(
        parameters: Iterable[Parameter],
        sums: Sequence[WeightedSum] = (),
        hidden: Sequence[str] = (),
        equalities: Sequence[WeightedSum] = (),
    ) -> Space:
        """The space of some parameters, choices as their numbers if ordered, else one-hot.

        Args:
            parameters: The parameters.
            sums: Parameter constraints: weights of raw values by name, whose sum is to be at most
                a number.
            hidden: Names of those that the model does not see.
            equalities: Further ones, whose sum is to be just that number. A sum that ``sums`` bound
                by one number from both sides is one of them, too.

        Raises:
            InputError: If two parameters share a name, ``hidden`` names none, or equalities read
                what is no real range on a linear scale, contradict each other, or leave no room.
        """
        given = list(parameters)
        distinct([p.name for p in given], "parameters", "different names")
        declared = {p.name: p for p in given}
        unseen = {one_of(name, "hidden", declared): declared[name] for name in hidden}
        seen = {name: p for name, p in declared.items() if name not in unseen}
        columns: dict[str, Column] = {}
        bounds = torch.empty(2, 0, dtype=torch.double)
        for name, p in ((n, p) for n, p in seen.items() if not isinstance(p, Fixed)):
            if isinstance(p, Range):
                ends = bounds.new_tensor([[p.to_column(p.lower)], [p.to_column(p.upper)]])
            else:
                ends = torch.stack(p.codes.aminmax(dim=0))
            first = bounds.shape[-1]
            bounds = torch.cat([bounds, ends], dim=-1)
            columns[name] = Column(p, tuple(range(first, bounds.shape[-1])))
        sums, equalities = sums_and_equalities(declared, sums, equalities)
        found = Space(
            seen,
            columns,
            bounds,
            tuple((dict(weights), limit) for weights, limit in sums),
            unseen,
            tuple(declared),
            tuple((dict(weights), value) for weights, value in equalities),
        )
        _ = found.elimination
        return found

    def to(self, device: torch.device) -> Space:
        """The same with its columns on a device."""
        return replace(self, bounds=self.bounds.to(device))

    @cached_property
    def fixed(self) -> dict[str, Value]:
        """Values of the fixed parameters."""
        return {name: p.value for name, p in self.parameters.items() if isinstance(p, Fixed)}

    @property
    def names(self) -> list[str]:
        """Names of all parameters but hidden ones."""
        return list(self.parameters)

    @cached_property
    def ranges(self) -> dict[str, Range]:
        """The ranges of numbers by name."""
        return {name: p for name, p in self.parameters.items() if isinstance(p, Range)}

    @cached_property
    def smooth(self) -> set[int]:
        """Columns of ranges of real numbers."""
        return {self.columns[n].indices[0] for n, p in self.ranges.items() if p.step is None}

    @cached_property
    def integers(self) -> dict[int, Range]:
        """Ranges of whole numbers, and of numbers of few digits, by their columns."""
        return {self.columns[n].indices[0]: p for n, p in self.ranges.items() if p.step is not None}

    @cached_property
    def blocks(self) -> list[list[int]]:
        """The columns of each choice that has several."""
        return [list(c.indices) for c in self.columns.values() if len(c.indices) > 1]

    @cached_property
    def discrete(self) -> Discrete:
        """Columns that jointly take a row of some values, with these: ``(columns, values)``."""
        found = {c: c.parameter.values_up_to(MOST_INTEGERS) for c in self.columns.values()}
        return [
            (column.indices, self.bounds.new_tensor([column.encode(value) for value in values]))
            for column, values in found.items()
            if values is not None
        ]

    def discrete_but(self, fixed: Mapping[int, float]) -> tuple[Discrete, Tensor]:
        """``discrete`` without columns that are held, and bounds that hold these."""
        bounds = self.bounds.clone()
        for index, value in fixed.items():
            bounds[:, index] = value
        return [block for block in self.discrete if fixed.keys().isdisjoint(block[0])], bounds

    @property
    def constraints(self) -> list[object]:
        """The parameter constraints of both kinds, for messages."""
        return [*self.sums, *map(shown, self.equalities)]

    @cached_property
    def inequality_constraints(self) -> list[tuple[Tensor, Tensor, float]]:
        """What points are to satisfy, as BoTorch has it: ``(indices, coefficients, rhs)``.

        With equality constraints of the columns that are not determined by them, see
        ``elimination``.
        """
        if self.elimination is not None:
            return list(self.elimination.constraints)
        # Ours are at most a limit, BoTorch's ``sum_i c_i x_i >= rhs``.
        return [self._constraint(*each, -1.0) for each in self.sums]

    @cached_property
    def elimination(self) -> Elimination | None:
        """Which columns the equality constraints determine; None without any."""
        if not self.equalities:
            return None
        try:
            return Elimination.of(
                [self._constraint(weights, value) for weights, value in self.equalities],
                self.bounds,
                [self._constraint(*each, -1.0) for each in self.sums],
            )
        except InputError as error:
            named = ", ".join(map(shown, self.equalities))
            raise InputError(f"equality constraints {named}: {error}") from error

    def held_at(self, fixed: Row) -> Space:
        """The space where the caller fixes some of what parameter constraints read.

        Raises:
            InputError: If this leaves no room.
        """
        check_room(self.parameters, self.sums, fixed)
        read = fixed.keys() & {name for weights, _ in self.equalities for name in weights}
        more = tuple(({n: 1.0}, float(str(fixed[n]))) for n in self.columns if n in read)
        # What is held as a whole was seen to; BoTorch would not forgive rounding.
        left = tuple(each for each in self.sums if not each[0].keys() <= fixed.keys())
        if left == self.sums and not more:
            return self
        # What is fixed comes first, so that rounding leaves it as it is.
        found = replace(self, sums=left, equalities=more + self.equalities)
        _ = found.elimination
        return found

    def complete(self, X: Tensor) -> Tensor:
        """Points ``... x d`` with what equality constraints determine, differentiable."""
        return X if self.elimination is None else self.elimination.complete(X)

    def _constraint(
        self, weights: Mapping[str, float], number: float, sign: float = 1.0
    ) -> tuple[Tensor, Tensor, float]:
        """A sum and the number that it is compared with, both times a sign, of columns."""
        row, rhs = self.bounds.new_zeros(self.bounds.shape[-1]), sign * float(number)
        for name, weight in weights.items():
            if name in self.columns:
                row[self.columns[name].indices[0]] = sign * weight
            elif name in self.fixed:
                rhs -= sign * weight * float(str(self.fixed[name]))
        (indices,) = row.nonzero(as_tuple=True)
        if sign < 0 and not {*indices.tolist()} <= self.smooth:  # all columns may be held
            rhs -= ROUNDING
        return indices, row[indices], rhs

    def raw(self, name: str, X: Tensor) -> Tensor:
        """Raw values of a numeric parameter at points ``... x d``, differentiable: ``...``."""
        if name in self.columns:
            return self.columns[name].raw(X)
        return X.new_full(X.shape[:-1], float(str(self.fixed[name])))

    def decode(self, X: Tensor) -> list[dict[str, Value]]:
        """Valid parameterizations in raw units at points ``n x d``."""
        rows: list[dict[str, Value]] = [dict(self.fixed) for _ in range(len(X))]
        for name, column in self.columns.items():
            for row, value in zip(rows, column.decode(X), strict=True):
                row[name] = value
        return [self.ordered(self._rounded_inside(row)) for row in rows]

    def _rounded_inside(self, row: dict[str, Value]) -> dict[str, Value]:
        """Move numbers of few digits by a step where rounding has broken a constraint."""
        names = [n for n, p in self.ranges.items() if p.digits is not None and not p.is_integer]
        names = [n for n in names if any(n in weights for weights, _ in self.sums)][:_MOST_MOVED]
        if not names or self.meets(row):
            return row
        moves = sorted(product((0, 1, -1), repeat=len(names)), key=lambda move: sum(map(abs, move)))
        for move in moves:
            moved = dict(row)
            for name, steps in zip(names, move, strict=True):
                parameter = self.ranges[name]
                value = float(str(row[name])) + steps * 10.0 ** -(parameter.digits or 0)
                moved[name] = parameter.decode(value)
            if self.meets(moved):
                return moved
        return row

    def ordered(self, row: Row) -> dict[str, Value]:
        """A parameterization in the order in which the parameters were declared."""
        return {name: row[name] for name in self.order if name in row}

    def encode(self, rows: Sequence[Row]) -> Tensor:
        """Parameterizations in raw units as points ``n x d``; what is no parameter is left out."""
        X = self.bounds.new_empty(len(rows), self.bounds.shape[-1])
        for name, column in self.columns.items():
            values = X.new_tensor([column.encode(row[name]) for row in rows])
            X[:, list(column.indices)] = values.reshape(len(rows), len(column.indices))
        return X

    def columns_of(self, row: Row) -> dict[int, float]:
        """Columns of some raw values, with their numbers; what is no free parameter has none."""
        found: dict[int, float] = {}
        for name, column in self.columns.items():
            if name in row:
                found |= zip(column.indices, column.encode(row[name]), strict=True)
        return found

    def are_near(self, row: Row, others: Sequence[Row], part: float) -> list[bool]:
        """Which of others are near one: within a part of the range of every column of the model."""
        X = self.encode([row, *others])
        apart = (X[1:] - X[0]).abs() > part * (self.bounds[1] - self.bounds[0])
        return [not is_apart for is_apart in apart.any(dim=-1).tolist()]

    def contains(self, row: Row) -> bool:
        """Whether a parameterization has a valid value for every parameter, hidden ones too."""
        return all(
            takes(parameter, row.get(name))
            for name, parameter in {**self.parameters, **self.hidden}.items()
        )

    def lost(self, row: Row) -> list[str]:
        """Return the choices that do not have the value of a parameterization (any more)."""
        choices = {n: c.parameter for n, c in self.columns.items()}
        return [
            name
            for name, parameter in choices.items()
            if isinstance(parameter, Choice) and name in row and not takes(parameter, row[name])
        ]

    def admits(self, row: Row, among: Iterable[str] | None = None) -> bool:
        """Return whether inputs, as realized, lie in the search space, so that they can be set.

        A whole number may be off, and equality constraints hold up to one percent, since inputs
        that were measured, or written down with few digits, seldom add up exactly.

        Args:
            row: The inputs.
            among: Names of those that count; None: all.
        """
        for name in self.parameters if among is None else among:
            parameter = self.parameters[name]
            if isinstance(parameter, Range):
                slack = _ROUNDING * (parameter.upper - parameter.lower)
                if not parameter.lower - slack <= float(str(row[name])) <= parameter.upper + slack:
                    return False
            elif not takes(parameter, row[name]):
                return False
        return self.meets(row, among, rounding=_ROUNDING, equality_rounding=_NEARLY_EQUAL)

    def meets(
        self,
        row: Row,
        among: Iterable[str] | None = None,
        rounding: float = 0.0,
        equality_rounding: float | None = None,
    ) -> bool:
        """Return whether a parameterization meets the constraints.

        Args:
            row: The parameterization.
            among: Names of parameters; only constraints that read one of them count. None: all.
            rounding: Relative error that is forgiven.
            equality_rounding: The same for equality constraints; None for ``rounding``.
        """
        names = {*self.parameters} if among is None else {*among}
        apart = rounding if equality_rounding is None else equality_rounding

        def off(weights: Mapping[str, float], limit: float, part: float) -> tuple[float, float]:
            terms = [w * float(str(row[name])) for name, w in weights.items()]
            return math.fsum(terms) - limit, part * max(abs(limit), *map(abs, terms))

        sums = [off(w, limit, rounding) for w, limit in self.sums if names & w.keys()]
        equal = [
            (*off(w, v, apart), max(1.0, abs(v))) for w, v in self.equalities if names & w.keys()
        ]
        kept = [over <= 1e-8 + slack for over, slack in sums]
        return all(kept + [abs(over) <= 1e-8 * size + slack for over, slack, size in equal])

    def design(self, seed: int) -> Iterator[dict[str, Value]]:
        """A quasi-random sequence of parameterizations in raw units, without end.

        Args:
            seed: Seed of the sequence.

        Yields:
            Parameterizations in declared order, whatever inequality constraints say, unless these
            leave hardly any values of integers and choices; equality constraints hold.
        """
        free, engine = [column.parameter for column in self.columns.values()], self._sobol(seed)
        while True:
            block = engine.draw(_AT_ONCE, dtype=torch.double)
            if self.elimination is not None:
                X = self._spread(block)
                points = self._within(X, len(block) // _MOST_DRAWS, seed)
                yield from self.decode(points if len(points) else self.elimination.spread(X, seed))
                seed += 1
                continue
            rows = []
            for point in block.tolist():
                values = {p.name: p.at(u) for p, u in zip(free, point, strict=False)}
                rows.append(self.ordered({**self.fixed, **values}))
            least = len(block) // _MOST_DRAWS
            if self._is_tied and sum(map(self.meets, rows)) < least:
                rows = self.decode(self._within(self._spread(block), least, seed)) or rows
                seed += 1
            yield from rows

    @property
    def center(self) -> dict[str, Value]:
        """The parameterization in the middle of every parameter's values, on its own scale."""
        middle = {name: column.parameter.at(0.5) for name, column in self.columns.items()}
        return self.ordered({**self.fixed, **middle})

    def sobol_rows(self, n: int, seed: int = 0) -> list[dict[str, Value]]:
        """Quasi-random parameterizations in raw units, whatever the constraints say."""
        return list(islice(self.design(seed), n))

    def sobol_points(self, n: int, seed: int, fixed: Mapping[int, float] | None = None) -> Tensor:
        """Quasi-random points of the space that are valid and different.

        Args:
            n: How many to look for.
            seed: Seed of the sequence.
            fixed: Values of columns that are held.

        Returns:
            At most ``n x d`` points; fewer where the space has fewer, or where constraints leave
            little of it, and possibly none.
        """
        draws = n * (_MOST_DRAWS if self.sums or self.equalities else 1)
        X = self._spread(self._sobol(seed).draw(draws, dtype=torch.double))
        for index, value in (fixed or {}).items():
            X[:, index] = value
        different: Tensor = self._within(X, n, seed, fixed)[:n].unique(dim=0)
        return different

    def neighbors(self, X: Tensor, fixed: Mapping[int, float]) -> Tensor:
        """Valid points that differ from others in one choice, or in one integer by one.

        Or in two numbers that a constraint reads, see ``exchanges``.

        Args:
            X: ``n x d`` points.
            fixed: Values of columns that are held.

        Returns:
            ``m x d`` different points.
        """
        X = X.clone()
        for index, value in fixed.items():
            X[:, index] = value
        blocks, bounds = self.discrete_but(fixed)
        found = [exchanges(X, blocks, bounds, self.inequality_constraints, fixed)]
        for column in self.columns.values():
            parameter, block = column.parameter, list(column.indices)
            if {*block} <= self.smooth or not fixed.keys().isdisjoint(block):
                continue
            if isinstance(parameter, Choice):
                others = list(parameter.codes.to(X))
            else:
                others = [parameter.nearest(X[:, block], step) for step in (-1, 1)]
            for other in others:
                changed = X.clone()
                changed[:, block] = other
                found.append(changed)
        different: Tensor = torch.cat(found).unique(dim=0)
        return self.feasible(self.complete(different))

    def feasible(self, points: Tensor) -> Tensor:
        """Those of points ``n x d`` that meet the constraints."""
        constraints = self.inequality_constraints
        return points[evaluate_feasibility(points.unsqueeze(-2), constraints, tolerance=1e-9)]

    def _spread(self, u: Tensor) -> Tensor:
        """Valid points that are spread like those of the unit cube, whatever constraints say."""
        u = u.to(self.bounds.device)
        X = self.bounds.new_empty(len(u), self.bounds.shape[-1])
        for i, column in enumerate(self.columns.values()):
            X[:, list(column.indices)] = column.spread(u[:, i], self.bounds).to(X)
        return X

    def _within(
        self, X: Tensor, least: int, seed: int, fixed: Mapping[int, float] | None = None
    ) -> Tensor:
        """Those of some points that meet the constraints, once completed.

        Where they are fewer than ``least``, constraints leave hardly anything of the box: then
        some points are taken from all over what they leave.
        """
        found = self.feasible(self.complete(X))
        if len(found) < least and self._is_tied:
            X = self._tied(X, seed, fixed or {})
            found = self.feasible(self.complete(X))
        if self.elimination is None or len(found) >= least:
            return found
        return self.feasible(self.elimination.spread(X[: 2 * least], seed))

    @cached_property
    def _is_tied(self) -> bool:
        """Whether a constraint reads integers or choices."""
        return bool(read(self.discrete, self.inequality_constraints))

    def _tied(self, X: Tensor, seed: int, fixed: Mapping[int, float]) -> Tensor:
        """Points with other integers and choices where constraints read them, which leave room."""
        constraints, generator = self.inequality_constraints, torch.Generator().manual_seed(seed)
        blocks, bounds = self.discrete_but(fixed)
        blocks = read(blocks, constraints)
        found = combinations(blocks, bounds, constraints, _MOST_COMBINATIONS, generator)
        assert found is not None
        columns = [column for block, _ in blocks for column in block]
        if not len(found):
            return X[:0]
        pick = torch.randint(len(found), (len(X),), generator=generator)
        X = X.clone()
        X[:, columns] = found[pick][:, columns]
        return X

    def _sobol(self, seed: int) -> SobolEngine:
        """Scrambled Sobol points of the unit cube, with a coordinate for each free parameter."""
        return SobolEngine(max(len(self.columns), 1), scramble=True, seed=seed)
