"""Check of stored expressions, which Ax would run as code when it reads them.

Ax stores objectives, constraints and derived parameters as text and reads them with SymPy's
``sympify``, which evaluates the text as Python. Here the text is parsed first, not run, and must be
arithmetic of names and numbers. Database rows are checked as they are read, through an event of
SQLAlchemy. Ax has no such hook for a JSON file, which is therefore checked by a separate call.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ax.exceptions.core import UserInputError
from ax.utils.common.string_utils import SYMPY_GLOBALS, sanitize_name, unsanitize_name

PREFIX = "ax_costaware."
"""Prefix of the names of the package's stored value objects, which are never evaluated."""

_EXPRESSIONS = ("expression", "expression_str", "inequality", "equality")
"""Fields that Ax evaluates as they are."""

_PARTS = (
    "bound",
    "constraint_dict",
    "lower_name",
    "parameter_names",
    "scalarized_objective_weight",
    "scalarized_outcome_constraint_weight",
    "upper_name",
    "weights",
)
"""Fields from which Ax composes expressions; a crafted store may have text instead of a number."""

_ARITHMETIC = (
    *(ast.Expression, ast.Name, ast.Load, ast.Constant, ast.Tuple, ast.Call),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.BitXor),
    *(ast.UnaryOp, ast.UAdd, ast.USub),
    *(ast.Compare, ast.LtE, ast.GtE, ast.Lt, ast.Gt, ast.Eq),
)

_FUNCTIONS = frozenset(
    ["Abs", "Max", "Min", "abs", "cos", "exp", "log", "pow", "sin", "sqrt", "tan", "tanh"]
)
"""Functions that a derived metric may call; SymPy makes a symbol of an unknown name."""

_CALLABLE = (frozenset(dir(builtins)) | SYMPY_GLOBALS) - _FUNCTIONS

_FORBIDDEN = re.compile(r"[;\[\'\\]")
"""Characters that Ax refuses itself."""

_BASELINE = re.compile(r"\s*\*\s*baseline\b")
"""Part of an outcome constraint that Ax removes before it evaluates the rest."""


def check_json_file(path: str | Path) -> None:
    """Check that Ax runs no code from a JSON file, before ``load_from_json_file`` reads it.

    Nothing of the file is evaluated here. A database needs no such call: with this package
    imported, its rows are checked as they are read.

    Args:
        path: The file, as ``save_to_json_file`` writes it.

    Raises:
        UserInputError: If an objective, a constraint or a derived parameter is anything but
            arithmetic of names and numbers.
        JSONDecodeError: If the file is not JSON.
    """
    check_values(json.loads(Path(path).read_text()))


def check_values(value: Any) -> None:
    """Check parsed JSON; raises ``UserInputError`` as ``check_json_file``."""
    if isinstance(value, Mapping):
        if not str(value.get("__type", PREFIX)).startswith(PREFIX):
            _check_fields(value)
        for part in value.values():
            check_values(part)
    elif isinstance(value, list | tuple):
        for part in value:
            check_values(part)


def check_databases() -> None:
    """Check rows of databases from now on; repeated calls change nothing."""
    try:
        from ax.storage.sqa_store.db import Base
        from sqlalchemy import event
    except ModuleNotFoundError:
        return  # nothing is read without SQLAlchemy
    for name in ("load", "refresh"):
        if not event.contains(Base, name, _check_row):
            event.listen(Base, name, _check_row, propagate=True)


def _check_row(row: Any, *_: object) -> None:
    """Check one row of a table, as the object that SQLAlchemy has made of it."""
    from ax.storage.sqa_store.sqa_classes import SQAMetric
    from ax.storage.utils import MetricIntent

    columns = vars(row)
    check_values({"__type": "row", **columns})
    if isinstance(row, SQAMetric):
        properties = columns.get("properties") or {}
        is_evaluated = columns.get("intent") is not MetricIntent.TRACKING
        metrics = [columns, properties] if is_evaluated else []
        check_values({"__type": "row", **properties, "metrics": metrics})


def _check_fields(fields: Mapping[str, Any]) -> None:
    for name in _EXPRESSIONS:
        if isinstance(text := fields.get(name), str):
            _check(name, text, sanitize_parens=name != "expression_str")
    for name in _PARTS:
        for text in _texts(fields.get(name)):
            _check(name, text)
    metrics = fields.get("metrics")
    for metric in [fields.get("metric"), *(metrics if isinstance(metrics, list) else [])]:
        text = metric.get("name") if isinstance(metric, Mapping) else None
        # Ax evaluates it only if it may be more than a name.
        if isinstance(text, str) and "(" in unsanitize_name(text) and not _FORBIDDEN.search(text):
            _check("name", text)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        # Infinite numbers and NaN, as later versions of Ax write them, are read by ``float`` only.
        if value.get("__type") != "float":
            yield from _texts([*value.keys(), *value.values()])
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)


def _check(field: str, text: str, sanitize_parens: bool = True) -> None:
    """Refuse ``text`` if it is not arithmetic, as Ax evaluates it and as Ax composes it anew."""
    try:
        names = _names(text, sanitize_parens) | _names(_BASELINE.sub("", text), sanitize_parens)
        for name in names:
            _names(unsanitize_name(name))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        shown = text if len(text) <= 80 else f"{text[:80]}..."
        raise UserInputError(
            f"the store has {field}={shown!r}, which Ax would evaluate as Python code: expected "
            f"arithmetic of names and numbers ({error}). Do not load a store that you do not trust."
        ) from None


@lru_cache(maxsize=256)  # a database repeats them for every trial
def _names(text: str, sanitize_parens: bool = True) -> frozenset[str]:
    """Return the names in an expression; ``ValueError`` or ``SyntaxError`` if not arithmetic."""
    # SymPy ignores line breaks.
    sanitized = sanitize_name(text, sanitize_parens=sanitize_parens).replace("\n", "")
    names = set()
    for node in ast.walk(ast.parse(sanitized.strip(), mode="eval")):
        if not isinstance(node, _ARITHMETIC):
            raise ValueError(f"it has {type(node).__name__}")
        if isinstance(node, ast.Constant) and type(node.value) not in (int, float):
            raise ValueError(f"it has {node.value!r}")
        if isinstance(node, ast.Name) and node.id not in _FUNCTIONS:
            names.add(node.id)
        if isinstance(node, ast.Call):
            called = unsanitize_name(node.func.id) if isinstance(node.func, ast.Name) else ""
            words = set(re.findall(r"\w+", called))
            if not words or words & _CALLABLE:
                raise ValueError(f"it calls {called or 'what it computes'}")
    return frozenset(names)
