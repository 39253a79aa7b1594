"""Nonlinear constraints on the parameters of a trial, as expressions that can be stored."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ax_costaware.exceptions import InputError

Slack: TypeAlias = Callable[[Tensor], Tensor]
"""From points ``... x d`` to ``...`` numbers, which are >= 0 where a constraint holds."""

_ROUNDING = 1e-12
"""Tolerance relative to the larger side of an inequality: log scales round."""

_MOST_CHARACTERS, _MOST_NESTED = 1000, 200

_EXPECTED = (
    "an inequality with <= or >= between sums, differences, products, quotients and powers of "
    "numbers and names of parameters, such as 'width * depth <= 4000'"
)

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


@dataclass(frozen=True)
class NonlinearConstraint:
    """Inequality of expressions over parameters in raw units, such as ``"width * depth <= 4000"``.

    Sides are sums, differences, products, quotients and powers of numbers and of the names of
    numeric parameters. The text is parsed, and never evaluated as code. A point at which a side is
    not a number, or infinite, violates the constraint.

    Raises:
        InputError: If the text is anything else.
    """

    expression: str
    """The inequality, as text."""

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str) or len(self.expression) > _MOST_CHARACTERS:
            raise InputError(f"expression={self.expression!r}: expected {_EXPECTED}.")
        if not self.names:
            raise InputError(f"{self.expression!r} has no parameter: expected {_EXPECTED}.")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters that it reads, sorted."""
        names: set[str] = set()
        for side in self._sides:
            self._check(side, names, _MOST_NESTED)
        return tuple(sorted(names))

    @cached_property
    def _sides(self) -> tuple[ast.expr, ast.expr]:
        """The side that is at most the other one, and the other one."""
        try:
            body = ast.parse(self.expression.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            body = None
        if isinstance(body, ast.Compare) and len(body.ops) == 1:
            if isinstance(body.ops[0], ast.LtE):
                return body.left, body.comparators[0]
            if isinstance(body.ops[0], ast.GtE):
                return body.comparators[0], body.left
        raise InputError(f"{self.expression!r}: expected {_EXPECTED}.")

    def _check(self, node: ast.expr, names: set[str], most: int) -> None:
        """Add the names of an expression; refuse everything that is no arithmetic."""
        if most and isinstance(node, ast.Name):
            names.add(node.id)
        elif most and isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            self._check(node.left, names, most - 1)
            self._check(node.right, names, most - 1)
        elif most and isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            self._check(node.operand, names, most - 1)
        elif not (isinstance(node, ast.Constant) and type(node.value) in (int, float)):
            part = ast.get_source_segment(self.expression.strip(), node)
            raise InputError(f"{self.expression!r} has {part!r}: expected {_EXPECTED}.")

    def sides(self, values: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return both sides, the one that is at most the other one first, differentiable.

        Args:
            values: Raw values of at least ``names``, as tensors of one shape and of doubles.
        """
        shape = next(iter(values.values()))
        low, high = (_value(side, values, shape) for side in self._sides)
        return low, high

    def holds(self, values: Mapping[str, Tensor], rounding: float = 0.0) -> Tensor:
        """Return a mask of the values that satisfy the constraint.

        Args:
            values: As in ``sides``.
            rounding: Additional tolerance, relative to the larger side.
        """
        low, high = self.sides(values)
        size = torch.maximum(low.abs(), high.abs())
        return size.isfinite() & (low - high <= (_ROUNDING + rounding) * size)

    def __str__(self) -> str:
        return self.expression


def _value(node: ast.expr, values: Mapping[str, Tensor], like: Tensor) -> Tensor:
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.BinOp):
        left, right = (_value(side, values, like) for side in (node.left, node.right))
        # A constant exponent has no gradient, which would be NaN at a negative base.
        found: Tensor = _OPERATORS[type(node.op)](left, right)
        return found
    if isinstance(node, ast.UnaryOp):
        operand = _value(node.operand, values, like)
        return -operand if isinstance(node.op, ast.USub) else operand
    assert isinstance(node, ast.Constant)
    return like.new_full(like.shape, float(str(node.value)))


InputConstraint: TypeAlias = NonlinearConstraint | Callable[[dict[str, Any]], bool]
"""A constraint on the parameters of a trial: an expression, or a function of a parameterization in
raw units that is True where it holds."""


def checked_constraints(value: Any, name: str) -> tuple[InputConstraint, ...]:
    """Return constraints as a tuple.

    Raises:
        InputError: If it is not a sequence of expressions and functions.
    """
    if isinstance(value, list | tuple) and all(
        isinstance(each, NonlinearConstraint) or (callable(each) and not isinstance(each, type))
        for each in value
    ):
        return tuple(value)
    raise InputError(
        f"{name}={value!r}: expected a list of NonlinearConstraint('width * depth <= 4000'), or of "
        "functions from a parameterization to True or False."
    )
