"""Making the tables of Ax's SQL storage, in PostgreSQL, too, and reading what is in them.

Ax's own ``create_all_tables`` makes them in SQLite and MySQL. In PostgreSQL it fails: Ax gives its
long texts lengths, as MySQL has them, which PostgreSQL refuses. Apart from the lengths the tables
are the same, and Ax reads and writes them as it does any others.

Ax's ``Client.load_from_database`` saves the experiment that it has just loaded, which in a database
that another process writes to takes back what that one wrote in between. To look at an experiment
is to read it only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ax.exceptions.core import UserInputError

if TYPE_CHECKING:
    from ax.core.experiment import Experiment
    from ax.generation_strategy.generation_strategy import GenerationStrategy


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
    _connect(url)
    import sqlalchemy
    from ax.storage.sqa_store import sqa_classes  # noqa: F401  # makes Ax's tables known
    from ax.storage.sqa_store.db import Base, create_all_tables, get_engine

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


def read_experiment(name: str, url: str) -> tuple[Experiment, GenerationStrategy]:
    """An experiment and its strategy, as they are in a database now; nothing is written.

    ``query``, ``spending``, ``recommend`` and the other functions that take a client take the pair,
    while another process runs the experiment. What they are told is not stored.

    Args:
        name: Name of the experiment.
        url: As for ``create_tables``; this process is connected to the database.

    Raises:
        UserInputError: If ``url`` is no string, or SQLAlchemy is not installed.
        ObjectNotFoundError: If the database has no experiment of that name with a strategy.
    """
    _connect(url)
    from ax.storage.sqa_store.load import (
        load_experiment,
        load_generation_strategy_by_experiment_name,
    )

    experiment = load_experiment(name)
    strategy = load_generation_strategy_by_experiment_name(name, experiment=experiment)
    return experiment, strategy


def _connect(url: str) -> None:
    """Make a database that of this process."""
    if not isinstance(url, str):
        raise UserInputError(f"url={url!r}: expected a string such as 'sqlite:///experiments.db'.")
    try:
        import sqlalchemy
        from ax.storage.sqa_store.db import init_engine_and_session_factory
    except ModuleNotFoundError as error:
        raise UserInputError(
            "a database needs SQLAlchemy: install ax-costaware[sql], or ax-costaware[postgres]."
        ) from error
    try:
        sqlalchemy.make_url(url)
    except sqlalchemy.exc.ArgumentError as error:
        raise UserInputError(
            f"url={url!r}: expected one such as 'sqlite:///experiments.db' or "
            "'postgresql+psycopg://user:password@host:port/database'."
        ) from error
    init_engine_and_session_factory(url=url, force_init=True)
