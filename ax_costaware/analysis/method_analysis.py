"""Base of all analyses: inputs, applicability, and cards.

An analysis is for the experiments of one method, or of all methods. It reads the method from the
generation strategy.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, final

import pandas as pd
from ax.adapter.base import Adapter
from ax.analysis.analysis import Analysis
from ax.analysis.markdown.markdown_analysis import MarkdownAnalysisCard
from ax.analysis.plotly.plotly_analysis import create_plotly_analysis_card
from ax.analysis.utils import validate_experiment
from ax.core.analysis_card import AnalysisCard, AnalysisCardBase
from ax.core.experiment import Experiment
from ax.exceptions.core import UnsupportedError, UserInputError
from ax.generation_strategy.generation_strategy import GenerationStrategy
from plotly import graph_objects as go

from ax_costaware.ax_bridge.checks import ax_errors, check_optimization_config, objectives_of
from ax_costaware.ax_bridge.node import AnyMethod, fitted_problem, method_of_class
from ax_costaware.ax_bridge.records import past_trials
from ax_costaware.core import PastTrial, Problem
from ax_costaware.core.account import ledger_of
from ax_costaware.display import display_number
from ax_costaware.methods import Method

NEXT = "NEXT"
"""Status of the last row, which is about the next trial."""

_NUMBERS = ("expected_cost", "reported_cost", "charged", "outcome")


@dataclass(frozen=True)
class Objective:
    """Objective of an experiment."""

    metric: str
    """Name of the metric."""

    minimize: bool
    """True if lower values are better."""

    several: str | None = None
    """All objectives in Ax's notation, if there are several."""

    @property
    def better(self) -> str:
        """Direction of better values."""
        return "lower" if self.minimize else "higher"

    def is_of(self, record: Mapping[str, Any]) -> bool:
        """Return True if the record of a decision has this objective, or names none."""
        goal = self.several or f"{'-' if self.minimize else ''}{self.metric}"
        decided = (record.get("decision") or {}).get("objective", goal)
        return bool(decided == goal and record.get("objective", self.metric) == self.metric)


@dataclass(frozen=True)
class Run(Generic[AnyMethod]):
    """Experiment that a strategy of the package runs."""

    experiment: Experiment
    """Experiment."""

    strategy: GenerationStrategy
    """Strategy of the experiment."""

    method: AnyMethod
    """Method of the strategy."""

    @property
    def client(self) -> tuple[Experiment, GenerationStrategy]:
        """Client for the session functions."""
        return self.experiment, self.strategy

    @cached_property
    def objective(self) -> Objective:
        """Objective of the experiment; of several the first.

        Raises:
            UserInputError: If the experiment has none.
            UnsupportedError: If no method of the package supports it.
        """
        config = check_optimization_config(self.experiment.optimization_config)
        if several := objectives_of(config):
            names = ", ".join(map(str, several))
            return Objective(several[0].metric, several[0].minimize, names)
        return Objective(str(config.objective.metric_names[0]), bool(config.objective.minimize))

    @property
    def has_front(self) -> bool:
        """True if there are several objectives, of which one may be the cost."""
        config = self.experiment.optimization_config
        is_several = config is not None and config.is_moo_problem
        return is_several or getattr(self.method, "front", None) is not None

    @cached_property
    def trials(self) -> tuple[PastTrial, ...]:
        """Trials as the method sees them, by increasing index."""
        return past_trials(self.experiment, self.method)

    def problem(self) -> Problem:
        """Problem of the next decision, with the model fitted to all data.

        Raises:
            InputError: If the model would misinterpret an outcome, as for ``recommend``.
        """
        problem = fitted_problem(self.experiment, self.strategy)
        self.method.check_outcomes(problem)
        return problem

    def frame(
        self,
        recorded: Mapping[str, str] | None = None,
        following: Mapping[str, Any] | None = None,
        values: Sequence[str] = (),
    ) -> pd.DataFrame:
        """Return the ledger as a table, with outcomes and parts of the records.

        Args:
            recorded: Columns from the decisions' records, by name the path of a part, such as
                ``decision.mean``; missing if a record lacks it. None for no such columns.
            following: Record of the decision on the next trial, which becomes a last row with the
                status ``NEXT``.
            values: Columns of ``recorded`` that are about the objective: missing, too, if the
                decision was for another one.

        Returns:
            The fields of ``LedgerEntry``, then ``outcome``, the objective (NaN without),
            ``cumulative_cost``, what this and all earlier trials were charged, and the columns of
            ``recorded``.

        Raises:
            InputError: If the method does not fit a trial, for example lacks its control set.
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
        parts = parts.set_axis(list(named), axis="columns")
        if values:
            others = [not self.objective.is_of(record) for record in records]
            parts.loc[others, list(values)] = math.nan
        return frame.join(parts)

    def spent(self, frame: pd.DataFrame) -> str:
        """Return the amount spent by the last row of such a table, and the budget."""
        spent, budget = display_number(float(frame["cumulative_cost"].iloc[-1])), self.method.budget
        return spent if budget is None or math.isinf(budget) else f"{spent} of {budget:.6g}"


class TableCard(MarkdownAnalysisCard):
    """Card with an HTML table.

    Ax stores and reloads it as its base class. The body of that class leaves a ``div`` open
    (ax-platform 1.3.1), so that later cards would be drawn inside.
    """

    def _body_html(self, depth: int) -> str:
        return f"<div class='content' style='height:auto'>{self.get_markdown()}</div>"


class MethodAnalysis(Analysis, Generic[AnyMethod]):
    """Analysis of the experiments of one method."""

    title: ClassVar[str]
    """Title of the cards."""

    method_class: type[AnyMethod]
    """Class of the method; ``Method`` for an analysis of any method."""

    needs_outcomes: ClassVar[bool] = True
    """True if the analysis needs a trial with data for the objective; otherwise any trial
    suffices."""

    takes_front: ClassVar[bool] = False
    """True if the analysis is also for experiments with several objectives."""

    @classmethod
    def applies_to(cls, method: Method) -> bool:
        """Return True if the analysis applies to experiments of a method."""
        return isinstance(method, cls.method_class)

    @final
    def validate_applicable_state(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> str | None:
        """Return the reason why the analysis cannot be computed yet; None if it can."""
        if experiment is None:
            return str(validate_experiment(experiment))
        if generation_strategy is None:
            return "The generation strategy must be provided: its settings hold the costs."
        try:
            with ax_errors():
                run = self._run(experiment, generation_strategy)
                if run.has_front and not self.takes_front:
                    return "It shows the values of one objective, and the experiment has several."
                return self._missing(run)
        except (UserInputError, UnsupportedError) as error:
            return str(error)

    @final
    def compute(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> AnalysisCardBase:
        """Return the card with its data frame; for an overview all cards.

        Args:
            experiment: The experiment; a card needs at least one trial, with data if it uses a
                model.
            generation_strategy: The strategy of the method.
            adapter: Not used, since models are fitted to all data of the experiment.

        Raises:
            UserInputError: If the analysis cannot be computed yet, or not for this strategy.
        """
        found = self.card_or_reason(experiment, generation_strategy)
        if isinstance(found, str):
            raise UserInputError(f"{type(self).__name__} cannot be computed: {found}")
        return found

    @final
    def card_or_reason(
        self, experiment: Experiment | None, strategy: GenerationStrategy | None
    ) -> AnalysisCardBase | str:
        """Return the card, or the reason why it cannot be computed yet."""
        reason = self.validate_applicable_state(experiment, strategy)
        if reason is not None or experiment is None or strategy is None:
            return str(reason)
        with ax_errors():
            return self._card(self._run(experiment, strategy))

    def _run(self, experiment: Experiment, strategy: GenerationStrategy) -> Run[AnyMethod]:
        return Run(experiment, strategy, method_of_class(strategy, self.method_class))

    def _missing(self, run: Run[AnyMethod]) -> str | None:
        """Return what the experiment lacks for the analysis; None if nothing.

        Raises:
            InputError: If the method does not fit a trial.
            UnsupportedError: If a trial has several arms.
        """
        reason = validate_experiment(
            run.experiment, require_trials=True, require_data=self.needs_outcomes
        )
        if reason is None and run.frame()["outcome"].isna().all() and self.needs_outcomes:
            reason = "No trial has data for the objective yet."
        return reason

    @abstractmethod
    def _card(self, run: Run[AnyMethod]) -> AnalysisCardBase:
        """Return the card of an applicable experiment."""

    def _card_of(
        self, subtitle: str, frame: pd.DataFrame, shown: go.Figure | str, warning: str = ""
    ) -> AnalysisCard:
        """Return a card with a figure, or an HTML table, and its data; the title may warn."""
        parts: dict[str, Any] = {
            "name": type(self).__name__,
            "title": self.title + warning,
            "subtitle": subtitle,
            "df": frame,
        }
        if isinstance(shown, str):
            return TableCard(blob=shown, **parts)
        return create_plotly_analysis_card(fig=shown, **parts)
