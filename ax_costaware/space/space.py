"""Search space: parameters in raw units, and their columns in a model.

- A range is one column: the raw value, its base-10 logarithm, or its logit.
- A choice with an order is one column: the value, or its position.
- Another choice is one-hot, with a column per value, or has a column per descriptor.
- A fixed parameter has no column.
- A table of candidates ties parameters together: they jointly take one of its rows.

A ``Space`` encodes parameterizations, decodes points (differentiably for numeric parameters), and
draws valid points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice, product

import torch
from botorch.optim.parameter_constraints import evaluate_feasibility
from torch import Tensor
from torch.quasirandom import SobolEngine

from ax_costaware.argument_checks import distinct, one_of, plain_value
from ax_costaware.exceptions import InputError
from ax_costaware.space.at_most import AtMost, all_faces
from ax_costaware.space.candidates import Candidates, Descriptors
from ax_costaware.space.discrete import Discrete, combinations, exchanges, read
from ax_costaware.space.elimination import Elimination
from ax_costaware.space.hierarchy import Condition, Hierarchy
from ax_costaware.space.listed import Listed
from ax_costaware.space.nonlinear import InputConstraint, NonlinearConstraint, Slack
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
"""Number of draws per wanted point under parameter constraints."""

_BLOCK = 128
"""Points of a quasi-random sequence that are drawn together."""

_ROUNDING = 1e-6
"""Tolerance of bounds and constraints, relative to a range or the largest term: stores and log
scales round."""

_MAX_MOVED = 6
"""Largest number of parameters with ``digits`` that are moved to repair a rounded constraint."""

_EQUALITY_ROUNDING = 0.01
"""Relative tolerance of equality constraints on realized inputs, such as rounded percentages."""

_NUM_NEAREST = 16
"""Number of rows of a table that are neighbors of a row."""

_SAME_VALUE = 1e-9
"""Tolerance of a fixed value of a row of a table, relative to the width of its column."""
_SAME = 1e-9
"""Relative tolerance of nonlinear constraints on parameterizations, above that on points."""

_MAX_COMBINATIONS = 2**14
"""Sample size of the feasible values of constrained integers and choices."""


@dataclass(frozen=True)
class Space:
    """Search space as the input space of a model with ``d`` columns."""

    parameters: dict[str, Parameter]
    """All parameters but hidden ones, by name, in declared order."""

    columns: dict[str, Column]
    """Columns of the free parameters, by name."""

    bounds: Tensor = field(compare=False)  # follow from columns, and tensors have no truth value
    """Bounds of the columns, ``2 x d``."""

    sums: tuple[tuple[dict[str, float], float], ...] = ()
    """Inequality constraints ``sum <= limit``: weights of raw values by name, and the limit."""

    hidden: dict[str, Parameter] = field(default_factory=dict)
    """Parameters that the model does not see, such as the name of a control set."""

    order: tuple[str, ...] = ()
    """Names of all parameters, hidden ones included, in declared order."""

    equalities: tuple[WeightedSum, ...] = ()
    """Equality constraints ``sum == value``: weights of raw values by name, and the value."""

    listed: Listed | None = field(default=None, compare=False)
    """Rows of a table that some parameters jointly take; None without a table."""
    nonlinear: tuple[InputConstraint, ...] = ()
    """Nonlinear constraints, as expressions or functions of raw values."""

    conditions: dict[str, Condition] = field(default_factory=dict)
    """Condition under which a parameter is active, by its name; other parameters always are."""

    at_most: tuple[AtMost, ...] = ()
    """Restrictions of the number of parts that are present."""

    @staticmethod
    def of(
        parameters: Iterable[Parameter],
        sums: Sequence[WeightedSum] = (),
        hidden: Sequence[str] = (),
        equalities: Sequence[WeightedSum] = (),
        conditions: Mapping[str, Condition] | None = None,
    ) -> Space:
        """Return the space of parameters, with ordered choices as numbers, others one-hot.

        Args:
            parameters: The parameters.
            sums: Inequality constraints: weights of raw values by name, and the upper limit of
                their sum.
            hidden: Names of parameters that the model does not see.
            equalities: Equality constraints: weights and the value of their sum. Two ``sums`` that
                bound the same sum by one number from both sides are another one.
            conditions: For each parameter of a hierarchical space that is not always active, the
                choice on which it depends, and the values with which it is active.

        Raises:
            InputError: If names are not distinct, ``hidden`` has an unknown name, or equality
                constraints are on other than real ranges on a linear scale, contradict each other,
                are infeasible, or are on parameters with a condition.
        """
        conditions = dict(conditions or {})
        parents = {condition.parent for condition in conditions.values()}
        # Columns of a parent are one-hot, so that a condition is linear in them.
        given = [
            replace(p, is_ordered=False, log_scale=False, is_ranked=False)
            if p.name in parents and isinstance(p, Choice)
            else p
            for p in parameters
        ]
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
                if p.descriptors is not None:
                    # Two values differ in many descriptors, and in one number or one choice.
                    ends = ends.mean(dim=0) + (ends - ends.mean(dim=0)) * ends.shape[-1] ** 0.5
            first = bounds.shape[-1]
            bounds = torch.cat([bounds, ends], dim=-1)
            columns[name] = Column(p, tuple(range(first, bounds.shape[-1])))
        sums, equalities = sums_and_equalities(declared, sums, equalities)
        for each in equalities:
            if named := sorted(conditions.keys() & each[0].keys()):
                raise InputError(
                    f"equality constraint {shown(each)!r}: {named} are not active in every trial. "
                    "Expected parameters that are."
                )
        found = Space(
            seen,
            columns,
            bounds,
            tuple((dict(weights), limit) for weights, limit in sums),
            unseen,
            tuple(declared),
            tuple((dict(weights), value) for weights, value in equalities),
            conditions=conditions,
        )
        _ = found.elimination
        return found

    def restricted(
        self,
        candidates: Candidates | None = None,
        descriptors: Sequence[Descriptors] = (),
        at_most: Sequence[AtMost] = (),
    ) -> Space:
        """Return the space with a table of the only possible rows, and with descriptors.

        Args:
            candidates: The table, of some or all parameters; None for no table.
            descriptors: Descriptors of choices, besides those of the table.
            at_most: Restrictions of the number of parts that are present.

        Raises:
            InputError: If they do not fit the parameters, or equality constraints are on parameters
                of the table.
        """
        space = self
        for rule in at_most:
            rule.check(self.parameters)
            if candidates is not None and (tied := {*candidates.names} & rule.parts.keys()):
                raise InputError(
                    f"at_most has {rule}, and candidates has columns of {sorted(tied)}: expected "
                    "rows of the table that satisfy it, and no such restriction."
                )
        tree = {n for name, each in self.conditions.items() for n in (name, each.parent)}
        parents = {each.parent for each in self.conditions.values()}
        for what, related in (
            ("candidates", tree.intersection(() if candidates is None else candidates.names)),
            ("descriptors", parents.intersection(each.parameter for each in descriptors)),
            ("at_most", {n for rule in at_most for n in rule.parts} & tree),
        ):
            if related:
                raise InputError(
                    f"{what} has {sorted(related)}, of which others depend, or which depend on "
                    "others, in the hierarchical search space: expected other parameters."
                )
        if descriptors := (*(() if candidates is None else candidates.described), *descriptors):
            space = self._described(descriptors).to(self.bounds.device)
        space = replace(space, at_most=tuple(at_most))
        if candidates is None:
            return space
        listed = Listed.of(candidates, space.parameters, space.columns)
        for weights, _ in space.equalities:
            if names := sorted(weights.keys() & {*candidates.names}):
                raise InputError(
                    f"candidates has columns of {names}, which are in an equality constraint: "
                    "expected rows that satisfy it, and no such constraint."
                )
        return replace(space, listed=listed)

    def _described(self, descriptors: Sequence[Descriptors]) -> Space:
        """Return the space with choices as columns of their descriptors."""
        declared = {**self.parameters, **self.hidden}
        names = [each.parameter for each in descriptors]
        distinct(names, "descriptors", "one table for each choice")
        constrained = {n for weights, _ in (*self.sums, *self.equalities) for n in weights}
        for each in descriptors:
            name = each.parameter
            parameter = self.parameters.get(name)
            if not isinstance(parameter, Choice) or name in constrained:
                choices = [n for n, p in self.parameters.items() if isinstance(p, Choice)]
                raise InputError(
                    f"descriptors has {name!r}: expected a choice without a parameter constraint, "
                    f"one of {[n for n in choices if n not in constrained]}."
                )
            codes = each.codes_of(parameter.values)
            declared[name] = replace(parameter, descriptors=codes)
        parameters = [declared[name] for name in self.order]
        return Space.of(parameters, self.sums, [*self.hidden], self.equalities, self.conditions)

    def to(self, device: torch.device) -> Space:
        """Return the space with its columns on a device."""
        return replace(self, bounds=self.bounds.to(device))

    def within(self, constraints: Sequence[InputConstraint]) -> Space:
        """Return the space with nonlinear constraints.

        Raises:
            InputError: If one of them reads a name that is no numeric parameter.
        """
        for each in constraints:
            for name in each.names if isinstance(each, NonlinearConstraint) else ():
                parameter = self.parameters.get(name)
                if parameter is None or not parameter.is_numeric:
                    numeric = [n for n, p in self.parameters.items() if p.is_numeric]
                    raise InputError(
                        f"input_constraints: {each} reads {name!r}, which is no numeric parameter: "
                        f"expected names out of {numeric}."
                    )
        return replace(self, nonlinear=tuple(constraints)) if constraints else self

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
        """Range parameters by name."""
        return {name: p for name, p in self.parameters.items() if isinstance(p, Range)}

    @cached_property
    def smooth(self) -> set[int]:
        """Columns of real ranges without a table."""
        return {self.columns[n].indices[0] for n, p in self._untied.items() if p.step is None}

    @cached_property
    def integers(self) -> dict[int, Range]:
        """Ranges on a grid, of integers or of numbers with few digits, by their columns."""
        return {
            self.columns[n].indices[0]: p for n, p in self._untied.items() if p.step is not None
        }

    @cached_property
    def _untied(self) -> dict[str, Range]:
        """Range parameters without a table, by name."""
        return {n: p for n, p in self.ranges.items() if n not in self._listed_names}

    @cached_property
    def _listed_names(self) -> tuple[str, ...]:
        """Names of the parameters with a table."""
        return () if self.listed is None else self.listed.candidates.names

    @cached_property
    def _widths(self) -> Tensor:
        """Widths of the columns, ``d``."""
        return self.bounds[1] - self.bounds[0]

    @cached_property
    def blocks(self) -> list[list[int]]:
        """Columns of each one-hot choice."""
        return [
            list(column.indices)
            for column in self.columns.values()
            if isinstance(column.parameter, Choice) and column.parameter.is_one_hot
        ]

    @cached_property
    def discrete(self) -> Discrete:
        """Discrete blocks: columns, and the rows of values that they can take."""
        columns = [c for n, c in self.columns.items() if n not in self._listed_names]
        found = {c: c.parameter.values_up_to(MOST_INTEGERS) for c in columns}
        rows = self.listed
        return [
            *([] if rows is None else [(rows.indices, rows.points.to(self.bounds))]),
            *(
                (column.indices, self.bounds.new_tensor([column.encode(v) for v in values]))
                for column, values in found.items()
                if values is not None
            ),
        ]

    def discrete_but(self, fixed: Mapping[int, float]) -> tuple[Discrete, Tensor]:
        """Return ``discrete`` without held columns, and bounds with both ends at their values.

        Of a table only the rows with the held values are left.
        """
        bounds = self.bounds.clone()
        for index, value in fixed.items():
            bounds[:, index] = value
        found = [block for block in self.discrete if fixed.keys().isdisjoint(block[0])]
        rows = self._listed_at(fixed)
        if rows is not None and not fixed.keys().isdisjoint(rows.indices):
            found.insert(0, (rows.indices, rows.points.to(bounds)))
        return found, bounds

    def _listed_at(self, fixed: Mapping[int, float]) -> Listed | None:
        """Return the rows of the table with given values of columns; None without a table."""
        return None if self.listed is None else self.listed.at(fixed, _SAME_VALUE * self._widths)

    @cached_property
    def constrained(self) -> set[str]:
        """Names of the parameters in constraints; those that a function reads are unknown."""
        linear = (weights for weights, _ in (*self.sums, *self.equalities))
        nonlinear = (each.names for each in self.nonlinear if isinstance(each, NonlinearConstraint))
        return {*chain(*linear, *nonlinear, *(rule.parts for rule in self.at_most))}

    @property
    def constraints(self) -> list[object]:
        """All parameter constraints, for messages."""
        return [*self.sums, *map(shown, self.equalities), *map(_name_of, self.nonlinear)]

    @cached_property
    def inequality_constraints(self) -> list[tuple[Tensor, Tensor, float]]:
        """Inequality constraints in BoTorch's form, ``(indices, coefficients, rhs)``.

        With equality constraints they are on the columns that are not determined, see
        ``elimination``.
        """
        if self.elimination is not None:
            return list(self.elimination.constraints)
        # Ours are at most a limit, BoTorch's ``sum_i c_i x_i >= rhs``.
        return [self._constraint(*each, -1.0) for each in self.sums]

    @cached_property
    def elimination(self) -> Elimination | None:
        """Elimination of the columns that equality constraints determine; None without any."""
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
        """Return the space with parameter constraints for fixed values.

        Raises:
            InputError: If no point satisfies them.
        """
        for name in fixed.keys() & self.conditions.keys():
            known = {**self.fixed, **fixed}
            lacking = any(n not in known for n in self.hierarchy.ancestors(name))
            if lacking or not self.hierarchy.is_active(name, known):
                raise InputError(
                    f"fixed parameters {dict(fixed)}: {name!r} is active with "
                    f"{self.conditions[name]} only. Fix that, too, or leave out {name!r}."
                )
        always = [each for each in self.sums if not each[0].keys() & self.conditions.keys()]
        check_room(self.parameters, always, fixed)
        for rule in self.at_most:
            if len(here := rule.present(fixed, self.parameters)) > rule.number:
                raise InputError(f"{dict(fixed)} has {here}: expected {rule}.")
        if self.listed is not None:
            rows = self._listed_at(self.columns_of(fixed))
            if not rows:
                raise InputError(f"no row of candidates has {dict(fixed)}: expected another value.")
            if len(rows) < len(self.listed):
                return replace(self, listed=rows).held_at(fixed)
        read = fixed.keys() & {name for weights, _ in self.equalities for name in weights}
        more = tuple(({n: 1.0}, float(str(fixed[n]))) for n in self.columns if n in read)
        # Sums of fixed values only were checked by check_room, and BoTorch has no tolerance.
        left = tuple(each for each in self.sums if not each[0].keys() <= fixed.keys())
        if left == self.sums and not more:
            return self
        # Fixed values come first in the elimination, so that they stay exact.
        found = replace(self, sums=left, equalities=more + self.equalities)
        _ = found.elimination
        return found

    @cached_property
    def slacks(self) -> tuple[Slack, ...]:
        """Slack of each nonlinear constraint at points, >= 0 where it holds, of order one."""
        return tuple(map(self._slack, self.nonlinear))

    def _slack(self, constraint: InputConstraint) -> Slack:
        if not isinstance(constraint, NonlinearConstraint):
            # A function has no slope: its slack is one or minus one.
            return lambda X: torch.where(self.keeps(X, [constraint]), 1.0, -1.0) + 0.0 * X.sum(-1)
        names = constraint.names
        X = self._spread(self._sobol(0).draw(_BLOCK, dtype=torch.double))
        sides = torch.stack(constraint.sides({n: self.raw(n, X) for n in names})).abs()
        scale = float(sides.nan_to_num(0.0, 0.0, 0.0).amax(dim=0).median()) or 1.0

        def slack(X: Tensor) -> Tensor:
            low, high = constraint.sides({name: self.raw(name, X) for name in names})
            found = (high - low) / scale
            return torch.where(self.hierarchy.are_active(names, X), found, found.clamp_min(1.0))

        return slack

    def keeps(self, X: Tensor, constraints: Sequence[InputConstraint] | None = None) -> Tensor:
        """Return a mask of the points ``... x d`` that satisfy nonlinear constraints.

        Args:
            X: The points.
            constraints: The constraints; None for all of ``nonlinear``.
        """
        kept = torch.ones(X.shape[:-1], dtype=torch.bool, device=X.device)
        for each in self.nonlinear if constraints is None else constraints:
            if isinstance(each, NonlinearConstraint):
                holds = each.holds({name: self.raw(name, X) for name in each.names})
                kept &= holds | ~self.hierarchy.are_active(each.names, X)
            else:
                rows = self.decode(X.reshape(-1, X.shape[-1]).detach())
                allowed = [_is_allowed(each, self.hierarchy.active(row)) for row in rows]
                kept &= torch.tensor(allowed, dtype=torch.bool).to(X.device).reshape(kept.shape)
        return kept

    def complete(self, X: Tensor) -> Tensor:
        """Return points ``... x d`` that satisfy the equality constraints, differentiable.

        Columns of inactive parameters have their middle value.
        """
        X = X if self.elimination is None else self.elimination.complete(X)
        return self.hierarchy.pin(X) if self.conditions else X

    @cached_property
    def hierarchy(self) -> Hierarchy:
        """Conditions under which parameters are active."""
        return Hierarchy(self.conditions, self.parameters, self.columns)

    def pinned(self, row: Row) -> dict[str, Value]:
        """Return a parameterization with the middle value of inactive parameters."""
        if not self.conditions:
            return dict(row)
        inactive = self.hierarchy.inactive(row)
        return self.ordered({**row, **self.hierarchy.middle(inactive)})

    def _constraint(
        self, weights: Mapping[str, float], number: float, sign: float = 1.0
    ) -> tuple[Tensor, Tensor, float]:
        """Return a constraint times ``sign`` in BoTorch's form, on columns."""
        row, rhs = self.bounds.new_zeros(self.bounds.shape[-1]), sign * float(number)
        for name, weight in weights.items():
            if name in self.columns:
                row[self.columns[name].indices[0]] = sign * weight
            elif name in self.fixed:
                rhs -= sign * weight * float(str(self.fixed[name]))
        if sign < 0:
            row, rhs = self.hierarchy.where_active(weights, row, rhs, self.bounds)
        (indices,) = row.nonzero(as_tuple=True)
        if sign < 0 and not {*indices.tolist()} <= self.smooth:  # all columns may be held
            rhs -= ROUNDING
        return indices, row[indices], rhs

    def raw(self, name: str, X: Tensor) -> Tensor:
        """Return raw values of a numeric parameter at points ``... x d``, differentiable."""
        if name in self.columns:
            return self.columns[name].raw(X)
        return X.new_full(X.shape[:-1], float(str(self.fixed[name])))

    def decode(self, X: Tensor) -> list[dict[str, Value]]:
        """Return valid parameterizations in raw units at points ``n x d``."""
        rows: list[dict[str, Value]] = [dict(self.fixed) for _ in range(len(X))]
        for name, column in self.columns.items():
            if name in self._listed_names:
                continue
            for row, value in zip(rows, column.decode(X), strict=True):
                row[name] = value
        if self.listed is not None and len(X):
            for row, i in zip(rows, self.listed.index(X, self._widths).tolist(), strict=True):
                row |= self.listed.row(i)
        return [self.ordered(self._rounded_inside(self.pinned(row))) for row in rows]

    def _rounded_inside(self, row: dict[str, Value]) -> dict[str, Value]:
        """Move parameters with ``digits`` by a step if their rounding violates a constraint."""
        names = [n for n, p in self._untied.items() if p.digits is not None and not p.is_integer]
        if not self.nonlinear:
            names = [n for n in names if any(n in weights for weights, _ in self.sums)]
        names = names[:_MAX_MOVED]
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
        """Return a parameterization in declared order."""
        return {name: row[name] for name in self.order if name in row}

    def encode(self, rows: Sequence[Row]) -> Tensor:
        """Return parameterizations in raw units as points ``n x d``; other names are ignored."""
        X = self.bounds.new_empty(len(rows), self.bounds.shape[-1])
        rows = [self.pinned(row) for row in rows] if self.conditions else rows
        for name, column in self.columns.items():
            values = X.new_tensor([column.encode(row[name]) for row in rows])
            X[:, list(column.indices)] = values.reshape(len(rows), len(column.indices))
        return X

    def columns_of(self, row: Row) -> dict[int, float]:
        """Return the values of the columns of free parameters, by index."""
        found: dict[int, float] = {}
        for name, column in self.columns.items():
            if name in row:
                found |= zip(column.indices, column.encode(row[name]), strict=True)
        return found

    def are_near(self, row: Row, others: Sequence[Row], part: float) -> list[bool]:
        """Return a mask of the others within ``part`` of the range in every column."""
        X = self.encode([row, *others])
        far = (X[1:] - X[0]).abs() > part * (self.bounds[1] - self.bounds[0])
        return [not is_far for is_far in far.any(dim=-1).tolist()]

    def contains(self, row: Row) -> bool:
        """True if a parameterization has a valid value of every parameter, hidden ones too.

        With a table, those of one of its rows.
        """
        return self._is_listed(row) and all(
            takes(parameter, row.get(name))
            for name, parameter in {**self.parameters, **self.hidden}.items()
        )

    def _is_listed(self, row: Row) -> bool:
        """True if a parameterization has the values of a row of the table, or there is none."""
        return self.listed is None or self.listed.has(row)

    def lost(self, row: Row) -> list[str]:
        """Return the names of choices that no longer have the value of a parameterization."""
        choices = {n: c.parameter for n, c in self.columns.items()}
        return [
            name
            for name, parameter in choices.items()
            if isinstance(parameter, Choice) and name in row and not takes(parameter, row[name])
        ]

    def admits(self, row: Row, among: Iterable[str] | None = None) -> bool:
        """True if realized inputs are in the search space.

        Integers may be off the grid, and equality constraints have a tolerance of 1 %, since
        measured or rounded inputs seldom add up exactly.

        Args:
            row: The inputs.
            among: Names of the parameters to check; None for all.
        """
        names = self.parameters if among is None else among
        for name in (n for n in names if self.hierarchy.is_active(n, row)):
            parameter = self.parameters[name]
            if isinstance(parameter, Range):
                slack = _ROUNDING * (parameter.upper - parameter.lower)
                if not parameter.lower - slack <= float(str(row[name])) <= parameter.upper + slack:
                    return False
            elif not takes(parameter, row[name]):
                return False
        return self.meets(row, among, rounding=_ROUNDING, equality_rounding=_EQUALITY_ROUNDING)

    def meets(
        self,
        row: Row,
        among: Iterable[str] | None = None,
        rounding: float = 0.0,
        equality_rounding: float | None = None,
    ) -> bool:
        """True if a parameterization satisfies the constraints, and is in the table, if any.

        Args:
            row: The parameterization.
            among: Names of parameters: only constraints on one of them are checked. None for all.
            rounding: Relative tolerance.
            equality_rounding: Relative tolerance of equality constraints; None for ``rounding``.
        """
        inactive = self.hierarchy.inactive(row)
        names = {*self.parameters} if among is None else {*among}
        equality = rounding if equality_rounding is None else equality_rounding

        def off(weights: Mapping[str, float], limit: float, part: float) -> tuple[float, float]:
            terms = [w * float(str(row[name])) for name, w in weights.items()]
            return math.fsum(terms) - limit, part * max(abs(limit), *map(abs, terms))

        sums = [
            off(w, limit, rounding)
            for w, limit in self.sums
            if names & w.keys() and not inactive & w.keys()
        ]
        equal = [
            (*off(w, v, equality), max(1.0, abs(v))) for w, v in self.equalities if names & w.keys()
        ]
        if any(
            len(rule.present(row, self.parameters)) > rule.number
            for rule in self.at_most
            if names & rule.parts.keys()
        ):
            return False
        if not names.isdisjoint(self._listed_names) and not self._is_listed(row):
            return False
        holds = [over <= 1e-8 + slack for over, slack in sums]
        for each in self.nonlinear:
            if not isinstance(each, NonlinearConstraint):
                holds.append(_is_allowed(each, self.hierarchy.active(row)))
            elif names & {*each.names} and not inactive & {*each.names}:
                values = {n: self.bounds.new_tensor(float(str(row[n]))) for n in each.names}
                holds.append(bool(each.holds(values, _SAME + rounding)))
        return all(holds + [abs(over) <= 1e-8 * size + slack for over, slack, size in equal])

    def design(self, seed: int, uniform: bool = False) -> Iterator[dict[str, Value]]:
        """Yield an infinite sequence of parameterizations in raw units.

        Equality constraints hold. Inequality constraints are ignored, unless they are on integers
        or choices and few points satisfy them: then only such points are drawn. Inactive parameters
        have any values, see ``pinned``.

        Args:
            seed: Seed of the sequence.
            uniform: True for uniformly random points, False for scrambled Sobol points.

        Yields:
            Parameterizations in declared order.
        """
        if self.at_most:
            designs = [
                (face, part.design(seed + i, uniform))
                for i, (face, part) in enumerate(self.faces(seed))
            ]
            while True:
                for face, drawn in designs:
                    yield self.ordered({**next(drawn), **face})
        if self.listed is not None:
            yield from self._listed_design(seed, self.listed)
        free, engine = [column.parameter for column in self.columns.values()], self._sobol(seed)
        chance = torch.Generator().manual_seed(seed)
        while True:
            block = engine.draw(_BLOCK, dtype=torch.double)
            if uniform:
                block = torch.rand(block.shape, dtype=torch.double, generator=chance)
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

    def _listed_design(self, seed: int, rows: Listed) -> Iterator[dict[str, Value]]:
        """Yield infinitely many parameterizations, with all rows of the table in turn.

        The next row is the one that is nearest to a quasi-random point, of those that are left.
        """
        engine, left = self._sobol(seed), rows
        while True:
            for point in self._spread(engine.draw(_BLOCK, dtype=torch.double)).unsqueeze(1):
                if not len(left):
                    left = rows
                i = int(left.nearest(point, self._widths, 1))
                (row,) = self.decode(point)
                yield self.ordered({**row, **left.row(i)})
                left = left.without(i)

    @property
    def center(self) -> dict[str, Value]:
        """Parameterization at the center of every parameter's range, on its scale.

        With a table, the row that is nearest to it.
        """
        middle = {name: column.parameter.at(0.5) for name, column in self.columns.items()}
        row = self.pinned(self.ordered({**self.fixed, **middle}))
        return row if self.listed is None else self.decode(self.encode([row]))[0]

    def sobol_rows(self, n: int, seed: int = 0) -> list[dict[str, Value]]:
        """Return the first ``n`` parameterizations of ``design``."""
        return [self.pinned(row) for row in islice(self.design(seed), n)]

    def sobol_points(self, n: int, seed: int, fixed: Mapping[int, float] | None = None) -> Tensor:
        """Return distinct feasible quasi-random points.

        Args:
            n: Number of points.
            seed: Seed of the sequence.
            fixed: Values of columns to hold.

        Returns:
            At most ``n x d`` points: fewer, and possibly none, if the space has fewer, or few draws
            satisfy the constraints.
        """
        if self.at_most:
            faces = self.faces(seed, fixed)
            each = -(-n // max(len(faces), 1))
            points = [self.bounds[:0]]
            for face, part in faces:
                held = {**(fixed or {}), **self.columns_of(face)}
                points.append(part.sobol_points(each, seed, held))
            of_faces: Tensor = torch.cat(points)[:n].unique(dim=0)
            return of_faces
        draws = n * (_MOST_DRAWS if self.sums or self.equalities or self.nonlinear else 1)
        X = self._spread(self._sobol(seed).draw(draws, dtype=torch.double))
        if (rows := self._listed_at(fixed or {})) is not None:
            if not len(rows):
                return X[:0]
            X[:, list(rows.indices)] = rows.spread(draws, seed).to(X)
        for index, value in (fixed or {}).items():
            X[:, index] = value
        different: Tensor = self._within(X, n, seed, fixed)[:n].unique(dim=0)
        return different

    def neighbors(self, X: Tensor, fixed: Mapping[int, float]) -> Tensor:
        """Return feasible neighbors: one choice is changed, one integer by one, or an exchange.

        For exchanges of two columns of a constraint see ``exchanges``. Neighbors of a row of a
        table are the rows nearest to it.

        Args:
            X: ``n x d`` points.
            fixed: Values of columns to hold.

        Returns:
            ``m x d`` distinct points.
        """
        X = X.clone()
        for index, value in fixed.items():
            X[:, index] = value
        blocks, bounds = self.discrete_but(fixed)
        found = [exchanges(X, blocks, bounds, self.inequality_constraints, fixed)]
        if (rows := self._listed_at(fixed)) is not None:
            near = rows.nearest(X, self._widths, _NUM_NEAREST)
            changed = X.repeat_interleave(near.shape[-1], dim=0)
            changed[:, list(rows.indices)] = rows.points[near.flatten()].to(X)
            found.append(changed)
        for name, column in self.columns.items():
            parameter, block = column.parameter, list(column.indices)
            if (
                name in self._listed_names
                or {*block} <= self.smooth
                or not fixed.keys().isdisjoint(block)
            ):
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
        """Return the points of ``n x d`` that satisfy the constraints."""
        constraints = self.inequality_constraints
        found = points[evaluate_feasibility(points.unsqueeze(-2), constraints, tolerance=1e-9)]
        found = found[self.keeps(found)] if self.nonlinear else found
        for rule in self.at_most:
            absent = self.encode([{**self.center, **rule.parts}]).to(found)
            differs = (found - absent).abs() > _SAME_VALUE * self._widths.to(found)
            columns = [self.columns[n].indices for n in rule.parts if n in self.columns]
            present = torch.stack([differs[:, list(at)].any(dim=-1) for at in columns])
            found = found[present.sum(dim=0) <= rule.number]
        return found

    def faces(
        self, seed: int, fixed: Mapping[int, float] | None = None
    ) -> list[tuple[dict[str, Value], Space]]:
        """Return the values of absent parts for selections of parts, each with the space of them.

        Args:
            seed: Seed of their order.
            fixed: Values of columns that are held.
        """
        found = []
        row = {}
        if fixed:
            X = self.bounds[:1].clone()
            X[:, list(fixed)] = X.new_tensor([*fixed.values()])
            (whole,) = replace(self, listed=None, at_most=()).decode(X)
            row = {n: whole[n] for n, c in self.columns.items() if {*c.indices} <= fixed.keys()}
        for face in all_faces(self.at_most, row, self.parameters, seed):
            try:
                found.append((face, replace(self.held_at(face), at_most=())))
            except InputError:  # the constraints determine other values
                continue
        return found

    def _spread(self, u: Tensor) -> Tensor:
        """Return valid points of the space at points of the unit cube, without constraints."""
        u = u.to(self.bounds.device)
        X = self.bounds.new_empty(len(u), self.bounds.shape[-1])
        for i, column in enumerate(self.columns.values()):
            X[:, list(column.indices)] = column.spread(u[:, i], self.bounds).to(X)
        return X

    def _within(
        self, X: Tensor, least: int, seed: int, fixed: Mapping[int, float] | None = None
    ) -> Tensor:
        """Return the points that satisfy the constraints, once completed.

        If they are fewer than ``least``, points are sampled from the feasible set instead.
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
        """True if a constraint is on integers or choices."""
        return bool(read(self.discrete, self.inequality_constraints))

    def _tied(self, X: Tensor, seed: int, fixed: Mapping[int, float]) -> Tensor:
        """Return points with constrained integers and choices replaced by feasible ones."""
        constraints, generator = self.inequality_constraints, torch.Generator().manual_seed(seed)
        blocks, bounds = self.discrete_but(fixed)
        blocks = read(blocks, constraints)
        found = combinations(blocks, bounds, constraints, _MAX_COMBINATIONS, generator)
        assert found is not None
        columns = [column for block, _ in blocks for column in block]
        if not len(found):
            return X[:0]
        pick = torch.randint(len(found), (len(X),), generator=generator)
        X = X.clone()
        X[:, columns] = found[pick][:, columns]
        return X

    def _sobol(self, seed: int) -> SobolEngine:
        """Return scrambled Sobol points of the unit cube, with a coordinate per free parameter."""
        return SobolEngine(max(len(self.columns), 1), scramble=True, seed=seed)


def _is_allowed(constraint: InputConstraint, row: Row) -> bool:
    """True if a function of parameterizations says so.

    Raises:
        InputError: If it returns anything but True or False.
    """
    assert not isinstance(constraint, NonlinearConstraint)
    found = plain_value(constraint(dict(row)))
    if not isinstance(found, bool):
        raise InputError(
            f"input_constraints: {_name_of(constraint)} gave {found!r} for {dict(row)}: expected "
            "True or False."
        )
    return found


def _name_of(constraint: InputConstraint) -> str:
    """Return a constraint in messages."""
    return str(getattr(constraint, "__qualname__", constraint))
