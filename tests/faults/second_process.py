"""What a second process does with an experiment that another one runs; errors are returned."""

from __future__ import annotations

import os
import signal

from ax.exceptions.core import UnsupportedError

from ax_costaware import complete_trial, read_experiment, spending, take_over
from tests.faults.kill import in_child
from tests.resuming import load


def ask(path: str) -> list[int] | str:
    """Load the experiment, and ask for a trial."""
    client = load(path)
    try:
        return list(client.get_next_trials(max_trials=1))
    except UnsupportedError as error:
        return str(error)


def tell(path: str, trial_index: int) -> str | None:
    """Load the experiment, and complete a trial."""
    client = load(path)
    try:
        complete_trial(client, trial_index, 0.5)
    except UnsupportedError as error:
        return str(error)
    return None


def take_over_and_ask(path: str) -> list[int]:
    """Load the experiment, take it over, and ask for a trial."""
    client = load(path)
    take_over(client)
    return list(client.get_next_trials(max_trials=1))


def look(path: str) -> list[int]:
    """Read the experiment, what would be the next decision included."""
    experiment, strategy = read_experiment("toy", f"sqlite:///{path}")
    strategy.gen(experiment, n=1)
    return [entry.trial_index for entry in spending((experiment, strategy)).entries]


def ask_and_be_killed(path: str) -> bool:
    """Let a child ask for a trial and kill itself; whether it did."""

    def work() -> None:
        ask(path)
        os.kill(os.getpid(), signal.SIGKILL)

    return os.WIFSIGNALED(os.waitpid(in_child(work), 0)[1])
