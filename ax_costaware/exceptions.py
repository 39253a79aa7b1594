"""Errors raised below the Ax layer.

The Ax layer raises Ax's own classes; what does not import Ax raises these. Both are
``ValueError``s, so that code which catches the standard class keeps working.
"""

from __future__ import annotations

from typing import Any


class InputError(ValueError):
    """A bad argument: the message names it, the value it got, and what it takes."""


class UnsupportedInputError(InputError):
    """A valid argument that this method does not support."""


def unavailable(*_: object, **__: object) -> Any:
    """Stand for a model, an optimizer or a design that a problem was made without."""
    raise RuntimeError("this problem was made without a model, an optimiser or a design.")
