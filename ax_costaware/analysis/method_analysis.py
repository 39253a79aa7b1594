"""What the analyses of all methods share: what they read, whether they apply, and that they say so.

Each is for the experiments of one method, or of all of them, whose method it reads from the
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

from ax_costaware.ax_bridge.checks import ax_errors, check_optimization_config
from ax_costaware.ax_bridge.node import AnyMethod, fitted_problem, method_of_class
from ax_costaware.ax_bridge.records import past_trials
from ax_costaware.core import PastTrial, Problem
from ax_costaware.core.account import ledger_of
from ax_costaware.display import display_number
from ax_costaware.methods import Method

NEXT = "NEXT"
"""Status of a last row that is about the trial that would come next."""

_NUMBERS = ("expected_cost", "reported_cost", "charged", "outcome")


@dataclass(frozen=True)
class Objective:
    """The objective of an experiment."""

    metric: str
    """Name of its metric."""

    minimize: bool
    """Whether lower values are better."""

    @property
    def better(self) -> str:
        """Which values are better."""
        return "lower" if self.minimize else "higher"

    def is_of(self, record: Mapping[str, Any]) -> bool:
        """Whether what was recorded of a decision is of this objective, as far as it says."""
        goal = f"{'-' if self.minimize else ''}{self.metric}"
        decided = (record.get("decision") or {}).get("objective", goal)
        return bool(decided == goal and record.get("objective", self.metric) == self.metric)


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
        """The objective.

        Raises:
            UserInputError: If the experiment has none.
            UnsupportedError: If it is none that a method of the package takes.
        """
        objective = check_optimization_config(self.experiment.optimization_config).objective
        return Objective(str(objective.metric_names[0]), bool(objective.minimize))

    @cached_property
    def trials(self) -> tuple[PastTrial, ...]:
        """The trials as the method sees them, by increasing index."""
        return past_trials(self.experiment, self.method)

    def problem(self) -> Problem:
        """The next decision's problem, with the model fitted to all data.

        Raises:
            InputError: If the model would take an outcome for another one, as ``recommend`` does.
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
        """The ledger as a table, with what came of the trials and what was recorded before them.

        Args:
            recorded: Columns for parts of the decisions' records, by name the part, such as
                ``decision.mean``; missing where a record lacks it. None for no such columns.
            following: What would be recorded of the decision on the next trial; it has a last row
                with the status ``NEXT`` then.
            values: Those of these columns that are about the objective: missing, too, where the
                decision was for another one.

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
        parts = parts.set_axis(list(named), axis="columns")
        if values:
            others = [not self.objective.is_of(record) for record in records]
            parts.loc[others, list(values)] = math.nan
        return frame.join(parts)

    def spent(self, frame: pd.DataFrame) -> str:
        """What was spent by the last row of such a table, and of which budget."""
        spent, budget = display_number(float(frame["cumulative_cost"].iloc[-1])), self.method.budget
        return spent if budget is None or math.isinf(budget) else f"{spent} of {budget:.6g}"


class TableCard(MarkdownAnalysisCard):
    """A card whose text is a table, as HTML.

    Ax stores and reloads it as what it derives from. Its own text is put into a card with a
    ``div`` that is never closed (ax-platform 1.3.1), so that the cards after it are drawn inside.
    """

    def _body_html(self, depth: int) -> str:
        return f"<div class='content' style='height:auto'>{self.get_markdown()}</div>"


class MethodAnalysis(Analysis, Generic[AnyMethod]):
    """An analysis of the experiments of one method."""

    title: ClassVar[str]
    """What its cards are called."""

    method_class: type[AnyMethod]
    """The class of the method; ``Method`` for an analysis of any."""

    needs_outcomes: ClassVar[bool] = True
    """Whether it waits for a trial with data for the objective; else for any trial."""

    @classmethod
    def is_about(cls, method: Method) -> bool:
        """Whether it has something to say of experiments of a method, once there are trials."""
        return isinstance(method, cls.method_class)

    @final
    def validate_applicable_state(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> str | None:
        """Why the analysis cannot be computed yet; None if it can."""
        if experiment is None:
            return str(validate_experiment(experiment))
        if generation_strategy is None:
            return "The generation strategy must be provided: its settings hold the costs."
        try:
            with ax_errors():
                return self._missing(self._run(experiment, generation_strategy))
        except (UserInputError, UnsupportedError) as error:
            return str(error)

    @final
    def compute(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> AnalysisCardBase:
        """The card, with what it shows and its data frame; of an overview all cards.

        Args:
            experiment: The experiment; for a card it needs at least one trial, with data where a
                model is asked.
            generation_strategy: The strategy of the method.
            adapter: Not used: what is fitted is fitted to all data of the experiment.

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
        """The card, or why it cannot be computed yet."""
        reason = self.validate_applicable_state(experiment, strategy)
        if reason is not None or experiment is None or strategy is None:
            return str(reason)
        with ax_errors():
            return self._card(self._run(experiment, strategy))

    def _run(self, experiment: Experiment, strategy: GenerationStrategy) -> Run[AnyMethod]:
        return Run(experiment, strategy, method_of_class(strategy, self.method_class))

    def _missing(self, run: Run[AnyMethod]) -> str | None:
        """What the analysis needs of the experiment and does not find; None if nothing.

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
        """The card of an experiment that it applies to."""

    def _card_of(
        self, subtitle: str, frame: pd.DataFrame, shown: go.Figure | str, warning: str = ""
    ) -> AnalysisCard:
        """A card that shows a figure, or a table as HTML, with its data; the title may warn."""
        parts: dict[str, Any] = {
            "name": type(self).__name__,
            "title": self.title + warning,
            "subtitle": subtitle,
            "df": frame,
        }
        if isinstance(shown, str):
            return TableCard(blob=shown, **parts)
        return create_plotly_analysis_card(fig=shown, **parts)
