"""A fresh SQLite database for an Ax experiment."""

from __future__ import annotations

from pathlib import Path

from ax.api.configs import StorageConfig
from ax.storage.sqa_store.db import (
    create_all_tables,
    get_engine,
    init_engine_and_session_factory,
)


def empty_database(path: Path) -> StorageConfig:
    """A new SQLite database, in place of an older one."""
    path.unlink(missing_ok=True)
    url = f"sqlite:///{path}"
    init_engine_and_session_factory(url=url)
    create_all_tables(get_engine())
    return StorageConfig(url=url)
