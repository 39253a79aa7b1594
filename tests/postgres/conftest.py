"""The server that the tests of this folder use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.postgres.server import Server

_SWITCH = "AX_COSTAWARE_POSTGRES"


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server that was started for the tests."""
    if os.environ.get(_SWITCH) != "start":
        pytest.skip(f"needs a PostgreSQL server: run `make test-postgres`, which sets {_SWITCH}")
    from tests.postgres.server import Server

    with Server() as running:
        yield running
