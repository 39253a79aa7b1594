"""What the analyses read of an experiment's objective: its metric, direction and outcomes."""

from __future__ import annotations

from ax.core.experiment import Experiment


def objective_metric(experiment: Experiment) -> str:
    """Name of the objective's metric; empty if the experiment has no objective."""
    config = experiment.optimization_config
    return "" if config is None else str(config.objective.metric_names[0])


def minimizes(experiment: Experiment) -> bool:
    """Whether lower values of the objective are better."""
    config = experiment.optimization_config
    return config is not None and bool(config.objective.minimize)


def outcomes(experiment: Experiment) -> dict[int, float]:
    """Reported means of the objective by trial index, in increasing order; in its own unit."""
    frame = experiment.lookup_data().df
    rows = frame[frame["metric_name"] == objective_metric(experiment)]
    by_trial = zip(rows["trial_index"], rows["mean"], strict=True)
    return {int(index): float(mean) for index, mean in sorted(by_trial)}
