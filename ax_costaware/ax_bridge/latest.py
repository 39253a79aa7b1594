"""Order of an experiment's strategies in a database: the last one in use is loaded.

Ax keeps every strategy of an experiment and loads the one with the largest number. A strategy that
is set again keeps its old number, so that Ax would load the strategy that it replaced. Here it gets
a new number.
"""

from __future__ import annotations

from ax.core.experiment import Experiment
from ax.generation_strategy.generation_strategy import GenerationStrategy


def store_as_latest(strategy: GenerationStrategy, experiment: Experiment) -> None:
    """Store a strategy as a new one if the database has a later one of its experiment.

    Args:
        strategy: The strategy that is about to be saved.
        experiment: The experiment of the strategy.
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
