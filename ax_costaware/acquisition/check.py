"""Argument checks that acquisition functions and searches share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ax_costaware.argument_checks import (
    finite_number,
    finite_tensor,
    plain_value,
)
from ax_costaware.exceptions import InputError
from ax_costaware.laws.joint.law import NodesGiven
from ax_costaware.laws.nodes import check_weights


def check_columns(name: str, columns: Sequence[int], num_inputs: int) -> list[int]:
    """Return controlled columns as a sorted list.

    Raises:
        InputError: If they are empty, repeated, not integers or outside ``0 .. num_inputs - 1``.
    """
    listed = list(columns)
    valid = all(type(c) is int and 0 <= c < num_inputs for c in listed)
    if not listed or not valid or len(set(listed)) != len(listed):
        raise InputError(
            f"{name}: got {listed!r}; it takes one or more distinct column indices between 0 and"
            f" {num_inputs - 1}."
        )
    return sorted(listed)


def check_domain(
    controls: Sequence[list[int]],
    num_inputs: int,
    discrete: Sequence[tuple[Sequence[int], Tensor]] | None,
    constraints: Sequence[tuple[Tensor, Tensor, float]] | None,
    fixed: Mapping[int, float] | None,
) -> None:
    """Refuse restrictions that do not fit the control sets.

    Args:
        controls: The controlled columns of each control set.
        num_inputs: The number of columns.
        discrete: As of ``optimize_control_sets``.
        constraints: Its ``inequality_constraints``.
        fixed: Its ``fixed_features``.

    Raises:
        InputError: By the name of the argument, for columns that are none, values that are not
            finite or of another shape, and columns of one choice of which a control set has a part.
    """
    if fixed:
        check_columns("fixed_features", list(fixed), num_inputs)
        for column, value in fixed.items():
            finite_number(plain_value(value), f"fixed_features[{column}]")
    for columns, values in discrete or ():
        check_columns("discrete", columns, num_inputs)
        expected = f"a row of {len(columns)} finite numbers for each value"
        finite_tensor(values, f"discrete of {list(columns)}", (None, len(columns)), expected)
        for controlled in controls:
            if 0 < len({*columns} & {*controlled}) < len(columns):
                raise InputError(
                    f"discrete: got the columns {list(columns)}, of which the control set "
                    f"{controlled} has a part; expected all or none."
                )
    for indices, coefficients, rhs in constraints or ():
        name = "inequality_constraints"
        columns = indices.tolist() if isinstance(indices, Tensor) else indices
        check_columns(name, columns if isinstance(columns, list) else [columns], num_inputs)
        expected = f"{len(columns)} finite coefficients, one for each index"
        finite_tensor(coefficients, name, (len(columns),), expected)
        finite_number(plain_value(rhs), f"rhs of {name}")


def check_nodes(nodes: Tensor, weights: Tensor) -> None:
    """Refuse nodes and weights that are not a distribution over points.

    Raises:
        InputError: Unless ``nodes`` is finite and ``m x d``, ``weights`` has ``m`` non-negative
            entries, and these sum to one.
    """
    shape = "finite values of shape (number of nodes, number of inputs)"
    check_weights(weights, finite_tensor(nodes, "nodes", (None, None), shape), "weights")


def check_pending(X_pending: Any, columns: str) -> None:
    """Refuse, with an ``InputError``, anything but a matrix or ``None``."""
    if X_pending is not None and (not isinstance(X_pending, Tensor) or X_pending.ndim != 2):
        got = tuple(X_pending.shape) if isinstance(X_pending, Tensor) else X_pending
        raise InputError(f"X_pending: got {got!r}; expected a tensor of shape (k, {columns}).")


def check_given(
    given: Sequence[NodesGiven | None] | None, controls: Sequence[list[int]], point: Tensor
) -> Sequence[NodesGiven | None]:
    """Check the nodes and weights that depend on the point; ``None`` for those that do not.

    Args:
        given: The argument of ``optimize_control_sets``.
        controls: The controlled columns of each control set.
        point: ``d`` values at which the nodes are asked for.

    Raises:
        InputError: Unless there is one entry for each control set, and nodes and weights have the
            shapes, signs, sums and controlled columns that ``NodesGiven`` promises.
    """
    if given is None:
        return [None] * len(controls)
    if len(given) != len(controls):
        raise InputError(
            f"given: got {len(given)} entries; it takes one for each of the {len(controls)} control"
            " sets."
        )
    shape = f"finite nodes of shape (1, number of nodes, {len(point)}) for one point"
    for index, (nodes_given, columns) in enumerate(zip(given, controls, strict=True)):
        if nodes_given is None:
            continue
        with torch.no_grad():
            nodes, weights = nodes_given(point.unsqueeze(0))
        finite_tensor(nodes, f"nodes of given[{index}]", (1, None, len(point)), shape)
        check_weights(weights, nodes, f"weights of given[{index}]")
        controlled = nodes[0][:, columns]
        if not torch.allclose(controlled, point[columns].expand_as(controlled).to(nodes)):
            raise InputError(
                f"given[{index}]: got nodes whose controlled columns {columns} differ from those of"
                " the point."
            )
    return given
