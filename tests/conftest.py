"""What tests of all parts of the package share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fresh import FreshProcess


@pytest.fixture(scope="session")
def fresh_process() -> Iterator[FreshProcess]:
    """One process for the session, in which calls share no memory with the tests."""
    with FreshProcess() as process:
        yield process
