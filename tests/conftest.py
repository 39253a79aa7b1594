"""What tests of all parts of the package share.

What imports Ax is imported where it is used: pytest's own process, which runs no test where others
do, then starts at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fresh import FreshProcess

pytest.register_assert_rewrite("ax_costaware.testing")

with suppress(ImportError):  # The wheel is tried where it is not installed.
    from hypothesis import HealthCheck, settings

    # How fast inputs are drawn and tried says how busy the machine is.
    settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy")


def pytest_collection_finish() -> None:
    from tests.quick import make_quick

    make_quick()


@pytest.fixture(scope="session")
def fresh_process() -> Iterator[FreshProcess]:
    """One process for the session, in which calls share no memory with the tests."""
    from tests.fresh import FreshProcess

    with FreshProcess() as process:
        yield process


@pytest.fixture(scope="module")
def short_searches() -> Iterator[None]:
    """Fits and searches of a file's tests end after few steps."""
    from tests import short_searches as short

    with short.short_searches():
        yield


@pytest.fixture
def full_searches(short_searches: None) -> Iterator[None]:
    """They do not end early in this test."""
    from tests import short_searches as short

    with short.full_searches():
        yield
