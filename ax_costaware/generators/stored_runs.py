"""Generator runs of a strategy as those of its trials, where a process was killed in between.

Ax stores a strategy with its generator runs, and trials with theirs, in transactions of their own.
A process that is killed in between leaves a generator run that belongs to no trial (``Client``
stores the strategy first), or a trial whose generator run the strategy does not know (``AxClient``
and the ``Orchestrator`` store trials first). Ax's quasi-random generator goes on from the last run
of the strategy: it would leave a point out, or propose one twice.

This is the one module that touches the list of a strategy's generator runs, which Ax only appends
to.
"""

from __future__ import annotations

from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.trial import Trial
from ax.generation_strategy.generation_strategy import GenerationStrategy


def match_generator_runs(strategy: GenerationStrategy, experiment: Experiment) -> None:
    """Let a strategy that was loaded from a database have the generator runs of its trials.

    Runs that are not stored yet are left alone: their trials are still to come.
    """
    by_id: dict[int, GeneratorRun] = {}
    for _, trial in sorted(experiment.trials.items()):
        run = trial.generator_run if isinstance(trial, Trial) else None
        if run is not None and run.db_id is not None:
            by_id[run.db_id] = run
    runs = strategy._generator_runs
    known = {run.db_id for run in runs}
    kept = [run for run in runs if run.db_id is None or run.db_id in by_id]
    missing = [
        run
        for db_id, run in by_id.items()
        if db_id not in known and run._generation_node_name in strategy.nodes_by_name
    ]
    if missing or len(kept) < len(runs):
        runs[:] = [*kept, *missing]
