"""Errors raised below the Ax layer.

The Ax layer raises Ax's own classes; what does not import Ax raises these. Both are
``ValueError``s, so that code which catches the standard class keeps working.
"""


class InputError(ValueError):
    """A bad argument: the message names it, the value it got, and what it takes."""


class UnsupportedInputError(InputError):
    """A valid argument that this method does not support."""
