"""Which strategy of an experiment a database gives back: the one that was stored as new last.

Ax keeps every strategy that an experiment was given, and loads the one with the largest number. One
that takes its place back is saved under the number that it had, so that what is loaded is the one
that it has replaced. Here it is given a new number.
"""

from __future__ import annotations

from ax.core.experiment import Experiment
from ax.generation_strategy.generation_strategy import GenerationStrategy


def store_as_latest(strategy: GenerationStrategy, experiment: Experiment) -> None:
    """Let a strategy be stored as a new one, if the database has a later one of its experiment.

    Args:
        strategy: The strategy, which is about to be saved.
        experiment: Its experiment.
    """
    if strategy.db_id is None or experiment.db_id is None:
        return
    from ax.storage.sqa_store.db import get_engine
    from ax.storage.sqa_store.sqa_classes import SQAExperiment, SQAGenerationStrategy
    from sqlalchemy import func, select
    from sqlalchemy.exc import OperationalError

    latest = select(func.max(SQAGenerationStrategy.id)).where(
        SQAGenerationStrategy.experiment_id == SQAExperiment.id,
        SQAExperiment.id == experiment.db_id,
        SQAExperiment.name == experiment.name,
    )
    try:
        with get_engine().connect() as connection:
            number = connection.execute(latest).scalar()
    except (ValueError, OperationalError):  # this process has no database, or it does not answer
        return
    if number is not None and number > strategy.db_id:
        strategy.db_id = None  # type: ignore[assignment]
