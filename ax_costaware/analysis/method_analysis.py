"""What the analyses of all methods share: whether they apply, and that they say so.

Each is for the experiments of one method, or of all of them, whose method it reads from the
generation strategy.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Generic, final

from ax.adapter.base import Adapter
from ax.analysis.analysis import Analysis
from ax.analysis.utils import validate_experiment
from ax.core.analysis_card import AnalysisCard
from ax.core.experiment import Experiment
from ax.exceptions.core import UnsupportedError, UserInputError
from ax.generation_strategy.generation_strategy import GenerationStrategy

from ax_costaware.analysis.objective import outcomes
from ax_costaware.ax_bridge.checks import ax_errors
from ax_costaware.ax_bridge.nodes import AnyMethod, method_of_class
from ax_costaware.ax_bridge.records import ledger


class MethodAnalysis(Analysis, Generic[AnyMethod]):
    """An analysis of the experiments of one method."""

    title: ClassVar[str]
    """What its cards are called."""

    method_class: type[AnyMethod]
    """The class of the method; ``Method`` for an analysis of any."""

    needs_outcomes: ClassVar[bool] = True
    """Whether it waits for a trial with data for the objective; else for any trial."""

    @final
    def validate_applicable_state(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> str | None:
        """Why the analysis cannot be computed yet; None if it can."""
        if reason := validate_experiment(
            experiment=experiment, require_trials=True, require_data=self.needs_outcomes
        ):
            return str(reason)
        if generation_strategy is None:
            return "The generation strategy must be provided: its settings hold the costs."
        if experiment is None:
            return None
        try:
            method = method_of_class(generation_strategy, self.method_class)
            with ax_errors():
                ledger(experiment, method)
        except (UserInputError, UnsupportedError) as error:
            return str(error)
        if self.needs_outcomes and not outcomes(experiment):
            return "No trial has data for the objective yet."
        return self._missing(experiment, method)

    @final
    def compute(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> AnalysisCard:
        """The card, with what it shows and its data frame.

        Args:
            experiment: The experiment; it needs at least one trial, with data where a model is
                asked.
            generation_strategy: The strategy of the method.
            adapter: Not used: what is fitted is fitted to all data of the experiment.

        Raises:
            UserInputError: If the analysis cannot be computed yet, or not for this strategy.
        """
        reason = self.validate_applicable_state(experiment, generation_strategy, adapter)
        if reason is not None or experiment is None or generation_strategy is None:
            raise UserInputError(f"{type(self).__name__} cannot be computed: {reason}")
        method = method_of_class(generation_strategy, self.method_class)
        with ax_errors():
            return self._card(experiment, generation_strategy, method)

    def _missing(self, experiment: Experiment, method: AnyMethod) -> str | None:
        """What else the analysis needs of the experiment and does not find; None if nothing."""
        return None

    @abstractmethod
    def _card(
        self,
        experiment: Experiment,
        generation_strategy: GenerationStrategy,
        method: AnyMethod,
    ) -> AnalysisCard:
        """The card of an experiment that it applies to."""
