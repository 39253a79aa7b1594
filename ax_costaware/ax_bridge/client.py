"""Ax's clients, and the databases that they write to.

This module exists because

- ``Client`` has no public access to its experiment and strategy;
- no client has a public method to save one trial;
- Ax's ``create_all_tables`` fails in PostgreSQL, since it gives long texts MySQL's lengths (the
  tables are otherwise the same);
- ``Client.load_from_database`` saves the experiment that it has just loaded. That reverts
  concurrent writes of another process, so a mere reader must not save.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from ax.api.client import Client
from ax.core.base_trial import BaseTrial
from ax.core.experiment import Experiment
from ax.core.types import TParameterization
from ax.exceptions.core import UserInputError
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.service.ax_client import AxClient
from ax.utils.common.logger import get_logger

from ax_costaware.ax_bridge.checks import ax_errors
from ax_costaware.ax_bridge.claims import hold_claim
from ax_costaware.ax_bridge.latest import store_as_latest
from ax_costaware.ax_bridge.node import method_of
from ax_costaware.ax_bridge.records import with_one_arm
from ax_costaware.ax_bridge.training_data import (
    attach_raw_data,
    metrics_without_step,
    raw_data_of,
    restore_data,
)
from ax_costaware.ax_bridge.turns import WAITING, CostAwareStrategy, log_short_batch, turn_at
from ax_costaware.core.method import Method

logger = get_logger(__name__)

SessionClient: TypeAlias = Client | AxClient | tuple[Experiment, GenerationStrategy]
"""Ax ``Client``, ``AxClient``, or an experiment with its strategy."""

Outcomes: TypeAlias = Mapping[str, tuple[float, float | None]]
"""Mean and standard error (None: unknown, to be inferred) per metric."""

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


@dataclass(frozen=True)
class Session:
    """Experiment with its strategy, and the client that owns them, if there is one."""

    experiment: Experiment
    strategy: GenerationStrategy
    client: Client | AxClient | None = None

    @cached_property
    def method(self) -> Method:
        """Method of the strategy; raises ``UserInputError`` for a strategy from elsewhere."""
        return method_of(self.strategy)

    def trial(self, trial_index: int) -> BaseTrial:
        """Return the trial with an index.

        Raises:
            UserInputError: If the index is not an integer, no trial has it, or the trial has no
                arm.
            UnsupportedError: If the trial has several arms.
        """
        trial = with_one_arm(self.any_trial(trial_index))
        if not trial.arms:
            raise UserInputError(
                f"trial_index={trial.index} is a trial without an arm, which Ax leaves behind "
                "when it refuses to attach one: it never ran, and costs nothing."
            )
        return trial

    def any_trial(self, trial_index: int) -> BaseTrial:
        """Return the trial with an index; it may have several arms.

        Raises:
            UserInputError: If the index is not an integer, or no trial has it.
        """
        try:
            index = operator.index(trial_index)
        except TypeError:
            index = None
        if index is None or isinstance(trial_index, bool):
            raise UserInputError(
                f"trial_index={trial_index!r} is a {type(trial_index).__name__}: expected an "
                "integer."
            )
        trial = self.experiment.trials.get(index)
        if trial is None:
            known = sorted(self.experiment.trials)
            raise UserInputError(
                f"trial_index={index} does not exist: the experiment has "
                + (f"trials {known[0]} to {known[-1]}." if known else "no trials yet.")
            )
        return trial

    def complete(
        self, trial: BaseTrial, outcomes: Outcomes, curve: Mapping[float, Outcomes] | None = None
    ) -> None:
        """Complete a trial in Ax and save it if the client has a database.

        Record, status and data are saved together. The clients' own ``complete_trial`` also saves
        before the completion. A process that is killed in between would leave a running trial with
        an outcome.

        Args:
            trial: The trial.
            outcomes: Outcomes; metrics that the experiment does not have are left out.
            curve: Outcomes by step, with these last, if they are the end of a curve.
        """
        by_step = (curve or {}).items()
        points = [(step, raw_data_of(found, self.experiment)) for step, found in by_step]
        steps = [(step, known) for step, known in points if known]
        last = raw_data_of(outcomes, self.experiment)
        if steps and (same := last.keys() & metrics_without_step(self.experiment, trial.index)):
            # Ax would take earlier values without a step as later than the curve.
            steps.append((math.nan, {metric: last[metric] for metric in same}))
        if raw_data := steps or last:
            attach_raw_data(trial, raw_data)
        trial.mark_completed()
        self._log_completion(trial)
        self.save_trial(trial)

    def _log_completion(self, trial: BaseTrial) -> None:
        """Log the message of Ax's ``Client`` for a completed trial."""
        config = self.experiment.optimization_config
        known = self.experiment.lookup_data(trial_indices=[trial.index]).metric_names
        missing = set() if config is None else config.metric_names - known
        if missing and not self.method.traits.may_skip:
            logger.warning(f"Trial {trial.index} is completed without {sorted(missing)}.")
        else:
            logger.info(f"Trial {trial.index} is completed.")

    def save_trial(self, trial: BaseTrial) -> None:
        """Save ``trial`` if the client has a database."""
        if self.client is not None:
            self.client._save_or_update_trial_in_db_if_possible(
                experiment=self.experiment, trial=trial
            )

    def save_everything(self) -> None:
        """Save the experiment with all trials, and the strategy, if there is a database."""
        if self.client is not None:
            store_as_latest(self.strategy, self.experiment)
            self.client._save_experiment_to_db_if_possible(experiment=self.experiment)
            self.client._save_generation_strategy_to_db_if_possible(
                generation_strategy=self.strategy
            )

    @property
    def has_database(self) -> bool:
        """True if the client has a database."""
        return self.client is not None and self.client.db_settings_set

    def check_database(self) -> None:
        """Refuse a client without a database."""
        if not self.has_database:
            raise UserInputError(
                "client has no database: save it with client.save_to_json_file, or make it with a "
                "storage configuration."
            )

    def save_properties(self) -> None:
        """Save the properties of the experiment if the client has a database."""
        if self.client is not None:
            self.client._update_experiment_properties_in_db(
                experiment_with_updated_properties=self.experiment
            )


def open_session(client: SessionClient, to_write: bool = False) -> Session:
    """Return the experiment and the strategy of a client.

    Args:
        client: The client.
        to_write: True if something is to be recorded, which needs the claim on the experiment.

    Raises:
        UserInputError: If ``client`` is of another kind, or has no experiment or strategy yet.
        UnsupportedError: If ``to_write`` and another process runs the experiment.
    """
    session = _session_of(client)
    if to_write and session.has_database:
        hold_claim(session.experiment)
    restore_data(session.experiment)
    return session


@contextmanager
def locked(client: SessionClient) -> Iterator[None]:
    """Hold the lock of an experiment: other threads neither ask for trials nor report.

    ``get_next_trials`` and the functions of this package that take a client hold it themselves.
    Ax's own calls that record something, such as ``complete_trial`` and ``attach_trial``, do not.
    If several threads share a client, make those calls in this context.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.

    Raises:
        UserInputError: If ``client`` is of another kind, or has no experiment or strategy yet.

    Example:
        >>> with locked(client):
        ...     client.attach_trial({"x": 0.5})
    """
    with turn_at(_session_of(client).experiment):
        yield


def holding_lock(function: AnyFunction) -> AnyFunction:
    """Decorate a function of a client: it holds the lock of the experiment.

    The package's own errors are raised as Ax's.
    """

    @wraps(function)
    def held(client: SessionClient, *args: Any, **kwargs: Any) -> Any:
        with locked(client), ax_errors():
            return function(client, *args, **kwargs)

    return cast(AnyFunction, held)


def _return_partial_batches() -> None:
    """Patch ``AxClient.get_next_trials`` to return the trials made before it has to wait.

    It makes one trial after the other. An error in between would lose the earlier ones: they run,
    and nobody got their parameters. ``Client`` decides on a batch at once, see ``turns.py``.
    """
    of_ax = AxClient.get_next_trials

    @wraps(of_ax)
    def get_next_trials(
        self: AxClient, max_trials: int, *args: Any, **kwargs: Any
    ) -> tuple[dict[int, TParameterization], bool]:
        strategy = self._generation_strategy
        if not isinstance(strategy, CostAwareStrategy):
            return of_ax(self, max_trials, *args, **kwargs)
        with turn_at(self.experiment):  # trials that are made meanwhile were made here
            before = set(self.experiment.trials)
            try:
                found, is_over = of_ax(self, max_trials, *args, **kwargs)
                why = "" if is_over else strategy.limit_reason()
            except Exception as error:
                made = [t for index, t in self.experiment.trials.items() if index not in before]
                if not made:
                    raise
                if not isinstance(error, WAITING):
                    error.add_note(
                        f"Trials {[trial.index for trial in made]} of the batch were made before, "
                        "and run: ax_costaware.query(client, trial_index) has their values."
                    )
                    raise
                found = {trial.index: trial.arms[0].parameters for trial in made}
                is_over, why = False, error.message
            if not is_over:  # otherwise Ax has logged it
                log_short_batch(len(found), max_trials, why)
            return found, is_over

    AxClient.get_next_trials = get_next_trials  # type: ignore[method-assign]


_return_partial_batches()


@holding_lock
def take_over(client: SessionClient) -> None:
    """Claim a stored experiment for this process, although another one may run it.

    The first process that asks for trials of a stored experiment, or reports on them, has a claim
    on it until it ends. Others are refused. The end of a process can only be detected on the same
    machine, and a process that hangs has not ended. After the call the other process is refused.

    Args:
        client: An Ax ``Client`` or an ``AxClient`` with a database that has loaded the experiment.

    Raises:
        UserInputError: If the client has no database.
        UnsupportedError: If the experiment has changed in the database since it was loaded: load it
            again first.
    """
    session = _session_of(client)
    session.check_database()
    hold_claim(session.experiment, take_over=True)


def _session_of(client: SessionClient) -> Session:
    match client:
        case Client():
            experiment, strategy = client._maybe_experiment, client._maybe_generation_strategy
        case AxClient():
            experiment, strategy = client._experiment, client._generation_strategy
        case (Experiment() as experiment, GenerationStrategy() as strategy):
            return Session(experiment, strategy)
        case _:
            got = f"a {type(client).__name__}"
            if isinstance(client, tuple):
                got += f" of {[type(part).__name__ for part in client]}"
            raise UserInputError(
                f"client is {got}: expected an ax Client, an AxClient, or a tuple "
                "(Experiment, GenerationStrategy)."
            )
    if experiment is None:
        raise UserInputError("client has no experiment yet: configure one first.")
    if strategy is None:
        raise UserInputError(
            "client has no generation strategy yet: set one of this package first, for example "
            "with client.set_generation_strategy(cost_aware_strategy(...))."
        )
    return Session(experiment, strategy, client)


def create_tables(url: str) -> None:
    """Connect this process to a database, and create Ax's missing tables.

    A process has one database; an earlier connection is closed. In PostgreSQL strings are
    unbounded, so that the reason of a failed trial may be long.

    Args:
        url: URL for SQLAlchemy: ``sqlite:///experiments.db``, or
            ``postgresql+psycopg://user:password@host:port/database``.

    Raises:
        UserInputError: If ``url`` is not a string, or SQLAlchemy is not installed.
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
    """Return a stored experiment and its strategy for reading; nothing is written.

    ``query``, ``spending``, ``recommend`` and the other functions of a client take the pair, while
    another process runs the experiment. Reports on the pair are not stored.

    Args:
        name: Name of the experiment.
        url: URL as for ``create_tables``; this process is connected to the database.

    Raises:
        UserInputError: If ``url`` is not a string, names a SQLite file that does not exist, or
            SQLAlchemy is not installed; or if Ax would run a stored expression as code.
        ObjectNotFoundError: If the database has no experiment of that name with a strategy.
    """
    _connect(url, must_exist=True)
    from ax.storage.sqa_store.load import (
        load_experiment,
        load_generation_strategy_by_experiment_name,
    )

    experiment = load_experiment(name)
    strategy = load_generation_strategy_by_experiment_name(name, experiment=experiment)
    experiment.db_id = None  # type: ignore[assignment]  # no write, and no claim
    return experiment, strategy


def _connect(url: str, must_exist: bool = False) -> None:
    """Connect this process to a database; SQLite would create a missing file."""
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
        parsed = sqlalchemy.make_url(url)
    except sqlalchemy.exc.ArgumentError:
        hidden = re.sub(r"(?<=//).*@", "***@", url)  # hide a password
        raise UserInputError(
            f"url={hidden!r}: expected one such as 'sqlite:///experiments.db' or "
            "'postgresql+psycopg://user:password@host:port/database'."
        ) from None
    path = parsed.database if parsed.get_backend_name() == "sqlite" else None
    if must_exist and path not in (None, "", ":memory:") and not Path(str(path)).exists():
        raise UserInputError(f"url={url!r}: there is no file {path!r}.")
    init_engine_and_session_factory(url=url, force_init=True)
