"""Every card of a method in one call: ``overview``, and the Ax analysis behind it.

What can be shown yet is shown; what cannot is named with the reason.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, final

import pandas as pd
from ax.adapter.base import Adapter
from ax.analysis.analysis import (
    Analysis,
    AnalysisE,
    error_card_from_analysis_e,
)
from ax.core.analysis_card import (
    AnalysisCard,
    AnalysisCardGroup,
    NotApplicableStateAnalysisCard,
)
from ax.core.experiment import Experiment
from ax.exceptions.core import AxError, UserInputError
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.utils.common.logger import get_logger

from ax_costaware.analysis.cost_and_value import CostAndValueAnalysis
from ax_costaware.analysis.decisions import DecisionAnalysis
from ax_costaware.analysis.feedback import FeedbackAnalysis
from ax_costaware.analysis.indirect import IndirectQueryAnalysis
from ax_costaware.analysis.input_law import InputLawAnalysis
from ax_costaware.analysis.method_analysis import MethodAnalysis
from ax_costaware.analysis.page import page_of
from ax_costaware.analysis.recommendation import RecommendationAnalysis
from ax_costaware.analysis.spending import SpendingAnalysis
from ax_costaware.analysis.stopping import StoppingAnalysis
from ax_costaware.ax_bridge.client import SessionClient, open_session
from ax_costaware.ax_bridge.nodes import method_of
from ax_costaware.methods.method import Method

logger = get_logger(__name__)

_ANALYSES: tuple[type[MethodAnalysis[Any]], ...] = (
    RecommendationAnalysis,
    CostAndValueAnalysis,
    StoppingAnalysis,
    FeedbackAnalysis,
    IndirectQueryAnalysis,
    SpendingAnalysis,
    DecisionAnalysis,
    InputLawAnalysis,
)
"""In the order in which they are shown."""


@final
class CostAwareOverview(Analysis):
    """All cards of the experiment's method, as one group.

    For ``client.compute_analyses([CostAwareOverview()])``. It is never the cause of an error: a
    card that cannot be computed yet is named with the reason.
    """

    def validate_applicable_state(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> str | None:
        """Why there is nothing to show: no experiment, or a strategy of another package."""
        if experiment is None:
            return "An Experiment must be provided to compute this analysis."
        if generation_strategy is None:
            return "The generation strategy must be provided: its settings hold the costs."
        try:
            method_of(generation_strategy)
        except UserInputError as error:
            return str(error)
        return None

    def compute(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> AnalysisCardGroup:
        """The group of cards.

        Args:
            experiment: The experiment, in any state.
            generation_strategy: A strategy of this package.
            adapter: Not used: what is fitted is fitted to all data of the experiment.

        Raises:
            UserInputError: If one of them is missing, or the strategy comes from elsewhere.
        """
        reason = self.validate_applicable_state(experiment, generation_strategy)
        if reason is not None or experiment is None or generation_strategy is None:
            raise UserInputError(f"{type(self).__name__} cannot be computed: {reason}")
        method = method_of(generation_strategy)
        return AnalysisCardGroup(
            name=type(self).__name__,
            title=f"Overview of {experiment.name}" if experiment.has_name else "Overview",
            subtitle=f"All cards of {method.factory}, computed with all data reported so far.",
            children=[
                _card(analysis, experiment, generation_strategy)
                for analysis in _analyses_of(method)
            ],
        )


def overview(
    client: SessionClient, path: str | os.PathLike[str] | None = None
) -> list[AnalysisCard]:
    """Every card of the client's method: what to deploy, where the money went, and why.

    The model is fitted to all data reported so far. Nothing in the experiment changes. Cards that
    cannot be computed yet are ``NotApplicableStateAnalysisCard`` and hold the reason.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.
        path: Where to write all cards as one HTML page that needs nothing else, no network either;
            a file that is there already is replaced. None: nothing is written.

    Raises:
        UserInputError: If the client has no experiment or no strategy of this package, or ``path``
            is in no folder.
    """
    session = open_session(client)
    target = _checked_path(path)
    group = CostAwareOverview().compute(session.experiment, session.strategy)
    cards = group.flatten()
    if target is not None:
        target.write_text(page_of(group.title, group.subtitle, cards), encoding="utf-8")
    return cards


def _checked_path(path: str | os.PathLike[str] | None) -> Path | None:
    if path is None:
        return None
    try:
        target = Path(path)
    except TypeError:
        raise UserInputError(f"path={path!r}: expected the name of a file, or None.") from None
    if target.is_dir() or not target.parent.is_dir():
        raise UserInputError(f"path={str(path)!r}: expected the name of a file in a folder.")
    return target


def _analyses_of(method: Method) -> list[MethodAnalysis[Any]]:
    return [kind() for kind in _ANALYSES if isinstance(method, kind.method_class)]


def _card(
    analysis: MethodAnalysis[Any], experiment: Experiment, strategy: GenerationStrategy
) -> AnalysisCard:
    """The card, or one that says why there is none."""
    try:
        reason = analysis.validate_applicable_state(experiment, strategy)
        if reason is None:
            return analysis.compute(experiment, strategy)
    except AxError as error:
        reason = str(error)
    except Exception as error:
        logger.exception(f"{type(analysis).__name__} could not be computed")
        return error_card_from_analysis_e(
            AnalysisE(f"{type(analysis).__name__} could not be computed", error, analysis)
        )
    return NotApplicableStateAnalysisCard(
        name=type(analysis).__name__,
        title=f"{analysis.title}: not available yet",
        subtitle=reason,
        df=pd.DataFrame(),
        blob=reason,
    )
