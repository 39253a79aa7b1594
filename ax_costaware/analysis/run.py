"""What the analyses read of an experiment: its objective, and its trials as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Generic

import pandas as pd
from ax.core.experiment import Experiment
from ax.generation_strategy.generation_strategy import GenerationStrategy

from ax_costaware.ax_bridge.nodes import AnyMethod, fitted_adapter
from ax_costaware.ax_bridge.records import past_trials
from ax_costaware.display import display_number
from ax_costaware.methods.past import PastTrial, ledger_of
from ax_costaware.methods.problem import Problem

NEXT = "NEXT"
"""Status of a last row that is about the trial that would come next."""

_NUMBERS = ("expected_cost", "reported_cost", "charged", "outcome")


@dataclass(frozen=True)
class Objective:
    """The objective of an experiment."""

    metric: str
    """Name of its metric; empty if the experiment has no objective."""

    minimize: bool
    """Whether lower values are better."""

    @property
    def better(self) -> str:
        """Which values are better."""
        return "lower" if self.minimize else "higher"


@dataclass(frozen=True)
class Run(Generic[AnyMethod]):
    """An experiment that a strategy of the package runs."""

    experiment: Experiment
    """The experiment."""

    strategy: GenerationStrategy
    """Its strategy."""

    method: AnyMethod
    """The strategy's method."""

    @property
    def client(self) -> tuple[Experiment, GenerationStrategy]:
        """What the session functions take for a client."""
        return self.experiment, self.strategy

    @cached_property
    def objective(self) -> Objective:
        """The objective."""
        config = self.experiment.optimization_config
        if config is None:
            return Objective("", minimize=False)
        return Objective(str(config.objective.metric_names[0]), bool(config.objective.minimize))

    @cached_property
    def trials(self) -> tuple[PastTrial, ...]:
        """The trials as the method sees them, by increasing index."""
        return past_trials(self.experiment, self.method)

    def problem(self) -> Problem:
        """The next decision's problem, with the model fitted to all data."""
        return fitted_adapter(self.experiment, self.strategy).problem()

    def frame(
        self,
        recorded: Mapping[str, str] | None = None,
        following: Mapping[str, Any] | None = None,
    ) -> pd.DataFrame:
        """The ledger as a table, with what came of the trials and what was recorded before them.

        Args:
            recorded: Columns for parts of the decisions' records, by name the part, such as
                ``decision.mean``; missing where a record lacks it. None for no such columns.
            following: What would be recorded of the decision on the next trial; it has a last row
                with the status ``NEXT`` then.

        Returns:
            The fields of ``LedgerEntry``, then ``outcome``, the objective (NaN without),
            ``cumulative_cost``, what this and all earlier trials were charged, and the columns of
            ``recorded``.

        Raises:
            InputError: If the method does not fit a trial, as where it names no control set of it.
            UnsupportedError: If a trial has several arms.
        """
        rows = [
            {**asdict(entry), "outcome": trial.outcome}
            for entry, trial in zip(ledger_of(self.trials, self.method), self.trials, strict=True)
        ]
        records = [dict(trial.record) for trial in self.trials]
        if following is not None:
            index = self.trials[-1].index + 1
            rows.append({"trial_index": index, "initial": False, "status": NEXT, "charged": 0.0})
            records.append({"decision": following})
        frame = pd.DataFrame(rows).astype(dict.fromkeys(_NUMBERS, float))
        frame["cumulative_cost"] = frame["charged"].cumsum()
        named = dict(recorded or {})
        parts = pd.json_normalize(records).reindex(columns=list(named.values()))
        parts = parts.where(parts.notna(), math.nan).infer_objects()
        return frame.join(parts.set_axis(list(named), axis="columns"))

    def spent(self, frame: pd.DataFrame) -> str:
        """What was spent by the last row of such a table, and of which budget."""
        spent, budget = display_number(float(frame["cumulative_cost"].iloc[-1])), self.method.budget
        return spent if budget is None or math.isinf(budget) else f"{spent} of {budget:.6g}"
