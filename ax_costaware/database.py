"""Making the tables in which Ax's SQL storage keeps experiments, in PostgreSQL, too.

Ax's own ``create_all_tables`` makes them in SQLite and MySQL. In PostgreSQL it fails: Ax gives its
long texts lengths, as MySQL has them, which PostgreSQL refuses. Apart from the lengths the tables
are the same, and Ax reads and writes them as it does any others.
"""

from __future__ import annotations

from ax.exceptions.core import UserInputError


def create_tables(url: str) -> None:
    """Connect this process to a database, and make Ax's tables in it where they are missing.

    A process has one database: another one that was connected to before is let go of. In
    PostgreSQL strings have no greatest length, so that the reason why a trial failed may be long.

    Args:
        url: As SQLAlchemy has it: ``sqlite:///experiments.db``, or
            ``postgresql+psycopg://user:password@host:port/database``.

    Raises:
        UserInputError: If ``url`` is no string, or SQLAlchemy is not installed.
    """
    if not isinstance(url, str):
        raise UserInputError(f"url={url!r}: expected a string such as 'sqlite:///experiments.db'.")
    try:
        import sqlalchemy
        from ax.storage.sqa_store import sqa_classes  # noqa: F401  # makes Ax's tables known
        from ax.storage.sqa_store.db import (
            Base,
            create_all_tables,
            get_engine,
            init_engine_and_session_factory,
        )
    except ModuleNotFoundError as error:
        raise UserInputError(
            "a database needs SQLAlchemy: install ax-costaware[sql], or ax-costaware[postgres]."
        ) from error
    init_engine_and_session_factory(url=url, force_init=True)
    engine = get_engine()
    if engine.dialect.name != "postgresql":
        create_all_tables(engine)
        return
    without_lengths = sqlalchemy.MetaData()
    for table in Base.metadata.sorted_tables:
        for column in table.to_metadata(without_lengths).columns:
            stored_as = getattr(column.type, "impl_instance", column.type)
            if isinstance(stored_as, sqlalchemy.String):
                column.type = sqlalchemy.Text()
    without_lengths.create_all(engine)
