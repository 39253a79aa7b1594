"""Cases that repeat a check: a few run always, the others with the slow tests."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def mostly_slow(cases: Iterable[Any], always: Collection[Any]) -> list[Any]:
    """The cases for ``pytest.mark.parametrize``, slow but for some."""
    cases = list(cases)
    assert all(case in cases for case in always), "an unknown case would never run"
    return [
        case if case in always else pytest.param(case, marks=pytest.mark.slow) for case in cases
    ]
