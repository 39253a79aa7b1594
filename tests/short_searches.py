"""Fits and searches that end after two steps, for tests of what happens around them.

A test of storage, of messages or of budgets does not ask how good a decision is, but needs dozens.
Files of such tests say ``pytestmark = pytest.mark.usefixtures("short_searches")``, and a test among
them that does ask uses ``full_searches``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from ax.analysis.plotly import sensitivity
from ax.generators.torch.botorch_modular import acquisition
from botorch.generation import gen
from botorch.optim import batched_lbfgs_b, initializers
from botorch.test_utils.mock import mock_optimize_context_manager

from ax_costaware.acquisition import batch_knowledge, confidence_search, local_search
from ax_costaware.core import optimize

# BoTorch's own context replaces this, which BoTorch imports beside a SciPy that it knows only.
vars(gen).setdefault("fmin_l_bfgs_b_batched", batched_lbfgs_b.fmin_l_bfgs_b_batched)

_REPLACED: list[tuple[Any, str, dict[str, Any]]] = [
    (acquisition, "optimize_acqf_mixed_alternating", {"num_restarts": 2, "raw_samples": 8}),
    (optimize, "optimize_acqf_mixed_alternating", {"num_restarts": 2, "raw_samples": 8}),
    (initializers, "sample_q_batches_from_polytope", {"n_burnin": 20, "n_thinning": 4}),
    (local_search, "fmin_l_bfgs_b_batched", {"maxiter": 2, "maxls": 3}),
    (sensitivity, "ax_parameter_sens", {"num_mc_samples": 100}),
]
"""Functions, by the modules that call them, with the arguments that they are given instead. What
else there is to shorten BoTorch's own context does."""

_SMALLER: list[tuple[Any, str, int]] = [
    (batch_knowledge, "_NUM_CANDIDATES", 64),
    (batch_knowledge, "_MOST_NODES", 128),
    (confidence_search, "_RIVAL_ITERATIONS", 3),
]
"""Numbers of modules, with those that they have instead."""

_shortened: list[ExitStack] = []
"""What ends it; empty where searches are as long as anybody's."""


def searches_are_short() -> bool:
    """Whether they are at present."""
    return bool(_shortened)


def _given(function: Callable[..., Any], changed: dict[str, Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: function(*args, **{**kwargs, **changed})


def shorten() -> None:
    """Make them short for good."""
    stack = ExitStack()
    stack.enter_context(mock_optimize_context_manager(force=True))
    for module, name, changed in _REPLACED:
        short = _given(getattr(module, name), changed)
        stack.enter_context(mock.patch.object(module, name, short))
    for module, name, number in _SMALLER:
        stack.enter_context(mock.patch.object(module, name, number))
    _shortened.append(stack)


@contextmanager
def short_searches() -> Iterator[None]:
    """Make them short."""
    shorten()
    try:
        yield
    finally:
        _shortened.pop().close()


@contextmanager
def full_searches() -> Iterator[None]:
    """Leave them as they are, within ``short_searches`` or not; also a decorator of functions."""
    if not _shortened:
        yield
        return
    _shortened.pop().close()
    try:
        yield
    finally:
        shorten()
