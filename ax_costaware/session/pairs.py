"""Additional training data of a learned conditional: ``add_pairs``.

Pairs of a point and a query are stored with the experiment at full precision, as JSON and as SQL,
and not with a trial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from ax.exceptions.core import UserInputError

from ax_costaware.ax_bridge.client import SessionClient, holding_lock, open_session
from ax_costaware.ax_bridge.node import method_of_class
from ax_costaware.ax_bridge.records import append_pairs, problem_of
from ax_costaware.exceptions import InputError
from ax_costaware.laws import PairsConditional
from ax_costaware.methods.averages.indirect_queries import IndirectQueries

Rows: TypeAlias = pd.DataFrame | Sequence[Mapping[str, Any]] | Iterable[Any]
"""Data frame or rows by parameter name, or an array with a column for each parameter."""


@holding_lock
def add_pairs(client: SessionClient, X: Rows, A: Rows) -> int:
    """Add pairs of a point and its query; the next decision learns from them.

    They are saved at once if the client has a database. A refused call changes nothing.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.
            Its strategy has a ``RegressedConditional`` or a ``LearnedConditional``.
        X: The points: a data frame, or a list of mappings, by the names of the target parameters;
            or an array with a column for each of them, in the order of ``target_parameters``.
        A: Their queries, in the same order: by the names of the experiment's parameters, or an
            array with a column for each of them, in the order of ``query_parameters``.

    Returns:
        Number of pairs that the conditional has now.

    Raises:
        UserInputError: If the strategy has neither conditional; if there are no pairs, or another
            number of points than of queries; or if a value is missing, unknown, not finite, or
            outside of the bounds where the conditional refuses that.
        UnsupportedError: If another process runs the experiment.
    """
    session = open_session(client, to_write=True)
    method = method_of_class(session.strategy, IndirectQueries)
    experiment = session.experiment
    law = method.decoded_law(problem_of(experiment, method)).conditional
    if not isinstance(law, PairsConditional):
        raise UserInputError(
            "pairs are for a RegressedConditional or a LearnedConditional, and the strategy has "
            f"{method.conditional!r}."
        )
    points = list(method.target_names)
    queries = list(method.query_names(experiment.search_space.parameters))
    encode: dict[str, Callable[[Any], float]] = {p.name: p.encode for p in method.target_parameters}
    X, A = _table("X", X, points, encode), _table("A", A, queries, {})
    if len(X) != len(A):
        raise UserInputError(
            f"X has {len(X)} rows and A has {len(A)}: expected pairs, one row of each."
        )
    try:
        law.with_pairs(X, A)
    except InputError as error:
        raise UserInputError(f"the pairs cannot be added: {error}") from error
    added = {
        side: {name: rows[:, i].tolist() for i, name in enumerate(names)}
        for side, names, rows in (("X", points, X), ("A", queries, A))
    }
    append_pairs(experiment, added)
    session.save_properties()
    return law.num_pairs + len(X)


def _table(
    what: str, rows: Any, names: list[str], encode: Mapping[str, Callable[[Any], float]]
) -> npt.NDArray[np.float64]:
    """Return rows as an array with a column for each name."""
    expected = f"rows with the columns {names}"
    if not isinstance(rows, Iterable) or isinstance(rows, str | Mapping):
        raise UserInputError(f"{what}={rows!r}: expected {expected}.")
    if not isinstance(rows, pd.DataFrame):
        listed = [row.tolist() if hasattr(row, "tolist") else row for row in rows]
        rows = pd.DataFrame(listed, dtype=object)
        if not any(isinstance(row, Mapping) for row in listed) and rows.shape[1] == len(names):
            rows.columns = pd.Index(names)
    if rows.empty:
        raise UserInputError(f"{what} has no rows: expected {expected}.")
    if sorted(rows.columns, key=str) != sorted(names):
        raise UserInputError(f"{what} has the columns {list(rows.columns)}: expected {expected}.")
    return np.array(
        [
            [_number(f"{what}, row {i}, {n!r}", row[n], encode.get(n)) for n in names]
            for i, row in enumerate(rows.to_dict(orient="records"))
        ]
    )


def _number(what: str, value: Any, encode: Callable[[Any], float] | None) -> float:
    try:
        number = float(value) if encode is None else encode(value)
    except InputError as error:
        raise UserInputError(f"{what}: {error}") from error
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise UserInputError(f"{what}: got {value!r}; expected a finite number.")
    return number
