"""Checks of arguments that the value objects of this layer and the rules above it share.

Each returns the argument as a plain Python value, so that a frozen dataclass built from numpy
scalars or read back from JSON compares equal to one built from Python numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from numbers import Integral, Real
from types import UnionType
from typing import Any, TypeAlias, cast

from torch import Tensor

from ax_costaware.exceptions import InputError

Numbers: TypeAlias = tuple[float, ...]
Matrix: TypeAlias = tuple[Numbers, ...]

LARGEST = 1e100
"""The square of a number of this size is a float."""

SUM_TOLERANCE = 1e-6
"""How far probabilities may be from a sum of one, so that those from single precision pass."""


def set_fields(instance: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass, in its ``__init__`` or ``__post_init__``."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)


def check_fields(instance: Any, **checks: Callable[..., Any]) -> None:
    """Set fields of a frozen dataclass to what their checks return, in its ``__post_init__``.

    Args:
        instance: The dataclass.
        checks: The check of each field: a function of a value and, as ``name``, of how a refusal
            names it.
    """
    for field, check in checks.items():
        set_fields(instance, **{field: check(getattr(instance, field), name=field)})


def optional(check: Callable[..., Any]) -> Callable[..., Any]:
    """The check that lets ``None`` pass, too."""
    return lambda value, name: None if value is None else check(value, name=name)


def given_fields(instance: Any) -> list[str]:
    """``name=value`` of each field of a dataclass that is not at its default, for its repr."""
    values = ((f.name, getattr(instance, f.name), f.default) for f in fields(instance))
    return [
        f"{name}={value!r}"
        for name, value, default in values
        if default is not MISSING and value != default
    ]


def finite_number(value: Any, name: str, expected: str = "a finite number") -> float:
    """``value`` as a ``float``.

    Args:
        value: What was given.
        name: How the refusal names it.
        expected: What the refusal says the argument takes.

    Raises:
        InputError: If ``value`` is a ``bool``, not a real number, infinite or NaN.
    """
    if not isinstance(value, bool) and isinstance(value, Real):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise InputError(f"{name}={value!r}: expected {expected}.")


def number_where(value: Any, name: str, expected: str, holds: Callable[[float], bool]) -> float:
    """As ``finite_number``, of a number of which ``holds`` says so."""
    number = finite_number(value, name, expected)
    if not holds(number):
        raise InputError(f"{name}={value!r}: expected {expected}.")
    return number


def number_with_square(value: Any, name: str) -> float:
    """As ``finite_number``, and at most 1e100 in size: its square, and sums of some, are floats."""
    expected = f"a finite number, at most {LARGEST:g} in size"
    return number_where(value, name, expected, lambda number: abs(number) <= LARGEST)


def standard_error(value: Any, name: str) -> float:
    """As ``number_with_square``, and at least zero."""
    expected = f"a finite number >= 0, at most {LARGEST:g} in size"
    return number_where(value, name, expected, lambda number: 0 <= number <= LARGEST)


def positive_number(value: Any, name: str, expected: str = "a finite number > 0") -> float:
    """As ``finite_number``, and greater than zero."""
    return number_where(value, name, expected, lambda number: number > 0)


def nonnegative_number(value: Any, name: str, expected: str = "a finite number >= 0") -> float:
    """As ``finite_number``, and at least zero."""
    return number_where(value, name, expected, lambda number: number >= 0)


def positive_number_or_none(value: Any, name: str) -> float | None:
    """As ``positive_number``, or ``None``: a limit, or none."""
    expected = "a finite number > 0, or None"
    return None if value is None else positive_number(value, name, expected)


def number_above_one(value: Any, name: str) -> float:
    """As ``finite_number``, and greater than one."""
    return number_where(value, name, "a finite number > 1", lambda number: number > 1)


def number_between_zero_and_one(value: Any, name: str) -> float:
    """As ``finite_number``, and strictly between zero and one."""
    expected = "a number strictly between 0 and 1"
    return number_where(value, name, expected, lambda number: 0 < number < 1)


def probability(value: Any, name: str) -> float:
    """As ``finite_number``, and in ``[0, 1]``."""
    return number_where(value, name, "a number in [0, 1]", lambda number: 0 <= number <= 1)


def share(value: Any, name: str) -> float:
    """As ``finite_number``, and in ``(0, 1]``."""
    return number_where(value, name, "a number in (0, 1]", lambda number: 0 < number <= 1)


def boolean(value: Any, name: str) -> bool:
    """``value`` unchanged.

    Raises:
        InputError: Unless it is ``True`` or ``False``.
    """
    return bool(instance_of(value, name, bool, "True or False"))


def integer_at_least(value: Any, least: int, name: str) -> int:
    """``value`` as an ``int``.

    Raises:
        InputError: If ``value`` is a ``bool``, not an integer, or below ``least``.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name}={value!r}: expected an integer >= {least}.")
    return int(value)


def at_least(least: int) -> Callable[..., int]:
    """The check that a value is an integer, ``least`` at least."""
    return lambda value, name: integer_at_least(value, least, name)


def nonempty_string(value: Any, name: str, expected: str = "a non-empty string") -> str:
    """``value`` as a plain ``str``.

    Raises:
        InputError: If it is none, or empty.
    """
    if not isinstance(value, str) or not value:
        raise InputError(f"{name}={value!r}: expected {expected}.")
    return str(value)


def one_of(value: Any, name: str, allowed: Iterable[Any]) -> Any:
    """``value`` unchanged.

    Raises:
        InputError: Unless it is one of those that are allowed.
    """
    if value not in (values := list(allowed)):
        raise InputError(f"{name}={value!r}: expected one of {values}.")
    return value


def instance_of(value: Any, name: str, kind: type | UnionType, expected: str) -> Any:
    """``value`` unchanged.

    Raises:
        InputError: Unless it is an instance of ``kind``, which ``expected`` says in words.
    """
    if not isinstance(value, kind):
        raise InputError(f"{name}={value!r}: expected {expected}.")
    return value


def interval(lower: Any, upper: Any) -> tuple[float, float]:
    """Bounds as finite ``float``s.

    Raises:
        InputError: Unless both are finite, ``lower < upper``, and the square of their difference,
            which variances need, neither overflows nor underflows.
    """
    low, high = finite_number(lower, "lower"), finite_number(upper, "upper")
    if not low < high:
        raise InputError(f"lower={lower!r}, upper={upper!r}: expected lower < upper.")
    if not 1 / LARGEST <= high - low <= LARGEST:
        raise InputError(
            f"lower={lower!r}, upper={upper!r}: expected a difference between "
            f"{1 / LARGEST:g} and {LARGEST:g}."
        )
    return low, high


def sequence_of(values: Any, name: str, expected: str) -> tuple[Any, ...]:
    """The elements of a list, tuple, array or one-dimensional tensor, as Python values.

    Raises:
        InputError: If ``values`` is a string or not iterable.
    """
    if hasattr(values, "tolist"):  # a tensor, a numpy array or a pandas series
        values = values.tolist()
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InputError(f"{name}={values!r}: expected {expected}.")
    return tuple(map(plain_value, values))


def checked_items(
    values: Any,
    name: str,
    expected: str,
    check: Callable[[Any, str], Any] = finite_number,
    length: int | None = None,
) -> tuple[Any, ...]:
    """The elements of a sequence, each as its check returns it.

    Args:
        values: A list, tuple, array or one-dimensional tensor.
        name: How the refusal names it.
        expected: What the refusal says the argument takes.
        check: What each element has to pass.
        length: How many there have to be; ``None`` for any number but zero.

    Raises:
        InputError: For anything else.
    """
    items = sequence_of(values, name, expected)
    found = tuple(check(item, f"{name}[{i}]") for i, item in enumerate(items))
    if not found:
        raise InputError(f"{name}={values!r}: expected {expected}.")
    if length is not None and len(found) != length:
        raise InputError(f"{name}={values!r} has {len(found)} entries: expected {expected}.")
    return found


def numbers(
    values: Any,
    name: str,
    length: int | None = None,
    check: Callable[[Any, str], float] = finite_number,
) -> Numbers:
    """A vector of finite numbers; see ``checked_items``."""
    expected = f"a sequence of {'one or more' if length is None else length} finite numbers"
    return checked_items(values, name, expected, check, length)


def matrix(
    values: Any,
    name: str,
    num_columns: int | None = None,
    check: Callable[[Any, str], float] = finite_number,
) -> Matrix:
    """A matrix of finite numbers, as a tuple of rows.

    Args:
        values: A sequence of sequences, array or tensor.
        name: How the refusal names it.
        num_columns: The length of each row; ``None`` for that of the first.
        check: What each number has to pass.

    Raises:
        InputError: For anything else.
    """
    rows = sequence_of(values, name, "a matrix of finite numbers: a sequence of rows")
    if not rows:
        raise InputError(f"{name}={values!r}: expected one or more rows of finite numbers.")
    found: list[Numbers] = []
    for i, row in enumerate(rows):
        found.append(numbers(row, f"{name}[{i}]", num_columns, check))
        num_columns = len(found[0])
    return tuple(found)


def plain_value(value: Any) -> Any:
    """A scalar of numpy or torch as the Python value that it stands for; all else unchanged."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def with_integer_keys(values: Mapping[Any, Any]) -> dict[Any, Any]:
    """A mapping by columns, whose keys JSON turned into text, with integers again."""

    def integer(key: Any) -> Any:
        is_text = isinstance(key, str) and re.fullmatch(r"-?[0-9]+", key)
        return int(key) if is_text else key

    return {integer(key): value for key, value in values.items()}


def pairs_of(values: Any, name: str, expected: str) -> tuple[tuple[Any, Any], ...]:
    """The items of a mapping or a data frame, or a sequence of pairs.

    Raises:
        InputError: For anything else, or no pairs.
    """
    items = values.items() if hasattr(values, "items") else values
    pairs = sequence_of(items, name, expected)
    if not pairs or any(not isinstance(p, list | tuple) or len(p) != 2 for p in pairs):
        raise InputError(f"{name}={values!r}: expected {expected}.")
    return tuple((plain_value(key), value) for key, value in pairs)


def distinct(items: Sequence[Any], name: str, expected: str) -> None:
    """Check that no item is there twice.

    Raises:
        InputError: If one is.
    """
    if len(set(items)) < len(items):
        repeated = next(item for i, item in enumerate(items) if item in items[:i])
        raise InputError(f"{name} has {repeated!r} more than once: expected {expected}.")


def values_of_one_kind(values: Any, name: str, expected: str) -> tuple[Any, ...]:
    """Values that are all strings, all booleans, all ``int`` or all ``float``.

    Raises:
        InputError: For mixed values, or numbers that are not finite.
    """
    items = sequence_of(values, name, expected)
    for kind in (str, bool):
        if any(isinstance(item, kind) for item in items):
            for i, item in enumerate(items):
                instance_of(item, f"{name}[{i}]", kind, expected)
            return items
    numbers = tuple(finite_number(item, f"{name}[{i}]", expected) for i, item in enumerate(items))
    return tuple(map(int, items)) if all(isinstance(i, Integral) for i in items) else numbers


def probabilities(values: Any, name: str, expected: str, length: int | None = None) -> Numbers:
    """Numbers >= 0 that sum to one, within 1e-6: they may come from single precision.

    Raises:
        InputError: For anything else.
    """
    shares = checked_items(values, name, expected, nonnegative_number, length)
    total = math.fsum(shares)
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise InputError(f"{name}={list(shares)!r} sum to {total!r}: expected {expected}.")
    return shares


def first_bad(good: Tensor) -> int | None:
    """The first entry of ``n`` booleans that is False; None if all are True."""
    return None if bool(good.all()) else int(good.logical_not().nonzero()[0])


def checked_bounds(bounds: Any, num_columns: int | None = None) -> Tensor:
    """``bounds`` unchanged, ``2 x d``, the lower ones first; ``d`` may be any without a number.

    Raises:
        InputError: Unless they are a tensor of finite numbers, the lower ones not above the others.
    """
    expected = f"finite bounds 2 x {num_columns or 'd'}, lower <= upper"
    lower, upper = finite_tensor(bounds, "bounds", (2, num_columns), expected)
    if not bool((lower <= upper).all()):
        raise InputError(f"bounds={bounds.tolist()}: expected {expected}.")
    return cast(Tensor, bounds)


def finite_tensor(value: Any, name: str, shape: Sequence[int | None], expected: str) -> Tensor:
    """``value`` unchanged.

    Args:
        value: What was given.
        name: How the refusal names it.
        shape: The size of each dimension; None for any but zero.
        expected: What the refusal says the argument takes.

    Raises:
        InputError: Unless it is a tensor of finite numbers of that shape.
    """
    got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
    if isinstance(value, Tensor):
        pairs = zip(value.shape, shape, strict=False)
        if value.ndim == len(shape) and all(n == m if m else n > 0 for n, m in pairs):
            if bool(value.isfinite().all()):
                return value
            got = "NaN or infinite values"
    raise InputError(f"{name}: got {got}; expected {expected}.")
