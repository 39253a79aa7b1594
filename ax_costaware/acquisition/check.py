"""Checks of the arguments that the acquisition functions and the search share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ax_costaware.exceptions import InputError


def check_columns(name: str, columns: Sequence[int], num_inputs: int) -> list[int]:
    """Controlled columns as a sorted list.

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


def check_nodes(nodes: Tensor, weights: Tensor) -> None:
    """Refuse nodes and weights that are not a distribution over points.

    Raises:
        InputError: Unless ``nodes`` is finite and ``m x d``, ``weights`` has ``m`` non-negative
            entries, and these sum to one.
    """
    if nodes.ndim != 2 or len(nodes) == 0 or not bool(torch.isfinite(nodes).all()):
        raise InputError(
            f"nodes: got a tensor of shape {tuple(nodes.shape)}; it takes finite values of shape"
            " (number of nodes, number of inputs)."
        )
    if weights.shape != nodes.shape[:1]:
        raise InputError(
            f"weights: got shape {tuple(weights.shape)}; it takes one weight for each of the"
            f" {len(nodes)} nodes."
        )
    total = float(weights.sum())
    if not bool((weights >= 0).all()) or not math.isclose(total, 1.0, abs_tol=1e-6):
        raise InputError(
            f"weights: got weights with minimum {float(weights.min()):g} and sum {total:g}; they"
            " must be non-negative and sum to one."
        )


def check_beta(beta: float) -> None:
    """Refuse a negative or non-finite ``beta`` with an ``InputError``."""
    if not (math.isfinite(beta) and beta >= 0):
        raise InputError(f"beta: got {beta!r}; it takes a finite number of at least zero.")


def check_search(
    bounds: Tensor,
    control_sets: Sequence[Sequence[int]],
    nodes: Tensor,
    weights: Tensor,
    beta: float,
    num_restarts: int | None,
    raw_samples: int | None,
) -> list[list[int]]:
    """Check the arguments of ``optimize_control_sets`` and return the sorted control sets."""
    check_nodes(nodes, weights)
    check_beta(beta)
    d = nodes.shape[-1]
    if bounds.shape != (2, d) or not bool((bounds[0] <= bounds[1]).all()):
        raise InputError(
            f"bounds: got shape {tuple(bounds.shape)}; it takes lower and upper bounds of shape"
            f" (2, {d}), the lower ones not above the upper ones."
        )
    if len(control_sets) == 0:
        raise InputError("control_sets: got none; it takes at least one list of column indices.")
    for name, number in (("num_restarts", num_restarts), ("raw_samples", raw_samples)):
        if number is not None and not (type(number) is int and number >= 1):
            raise InputError(f"{name}: got {number!r}; it takes a positive integer or None.")
    return [check_columns("control_sets", columns, d) for columns in control_sets]
