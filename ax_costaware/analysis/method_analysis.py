"""What the analyses of all methods share: whether they apply, and that they say so.

Each is for the experiments of one method, whose settings it reads from the generation strategy.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, final

from ax.adapter.base import Adapter
from ax.analysis.analysis import Analysis
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.analysis.utils import validate_experiment
from ax.core.experiment import Experiment
from ax.exceptions.core import UserInputError
from ax.generation_strategy.generation_strategy import GenerationStrategy

from ax_costaware.analysis.objective import outcomes
from ax_costaware.generators.method_settings import Settings, settings_of_method


class MethodAnalysis(Analysis, Generic[Settings]):
    """An analysis of the experiments of one method, once a trial has data for the objective."""

    settings_class: type[Settings]
    """The settings of the method."""

    @final
    def validate_applicable_state(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> str | None:
        """Why the analysis cannot be computed yet; None if it can."""
        if reason := validate_experiment(
            experiment=experiment, require_trials=True, require_data=True
        ):
            return str(reason)
        if generation_strategy is None:
            return "The generation strategy must be provided: its settings hold the costs."
        try:
            settings = settings_of_method(generation_strategy, self.settings_class)
        except UserInputError as error:
            return str(error)
        if experiment is None:
            return None
        if not outcomes(experiment):
            return "No trial has data for the objective yet."
        return self._missing(experiment, settings)

    @final
    def compute(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> PlotlyAnalysisCard:
        """The card, with the figure and its data frame.

        Args:
            experiment: The experiment; it needs at least one trial with data.
            generation_strategy: The strategy of the method.
            adapter: Not used: what is fitted is fitted to all data of the experiment.

        Raises:
            UserInputError: If the analysis cannot be computed yet, or not for this strategy.
        """
        reason = self.validate_applicable_state(experiment, generation_strategy, adapter)
        if reason is not None or experiment is None or generation_strategy is None:
            raise UserInputError(f"{type(self).__name__} cannot be computed: {reason}")
        settings = settings_of_method(generation_strategy, self.settings_class)
        return self._card(experiment, generation_strategy, settings)

    def _missing(self, experiment: Experiment, settings: Settings) -> str | None:
        """What else the analysis needs of the experiment and does not find; None if nothing."""
        return None

    @abstractmethod
    def _card(
        self,
        experiment: Experiment,
        generation_strategy: GenerationStrategy,
        settings: Settings,
    ) -> PlotlyAnalysisCard:
        """The card of an experiment that it applies to."""
