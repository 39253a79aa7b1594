"""What tests of all parts of the package share."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from unittest import mock

import pytest
from ax.orchestration import orchestrator

from tests import short_searches as short
from tests.fresh import FreshProcess


def pytest_collection_finish() -> None:
    """What is imported by now stays: looking through it for garbage took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def quick_polls() -> Iterator[None]:
    """Ax's orchestrator waits a second after it has started a trial: not here."""
    with mock.patch.object(orchestrator, "sleep", lambda seconds: time.sleep(min(seconds, 0.02))):
        yield


@pytest.fixture(scope="session")
def fresh_process() -> Iterator[FreshProcess]:
    """One process for the session, in which calls share no memory with the tests."""
    with FreshProcess() as process:
        yield process


@pytest.fixture(scope="module")
def short_searches() -> Iterator[None]:
    """Fits and searches of a file's tests end after few steps."""
    with short.short_searches():
        yield


@pytest.fixture
def full_searches(short_searches: None) -> Iterator[None]:
    """They do not end early in this test."""
    with short.full_searches():
        yield
