"""The initial design of the resolution-tree method: coarse cells first, level by level."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any, ClassVar

from ax.core.arm import Arm
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.types import TParameterization
from ax.exceptions.core import OptimizationShouldStop, UnsupportedError, UserInputError
from ax.generation_strategy.external_generation_node import ExternalGenerationNode
from ax.generation_strategy.transition_criterion import MaxTrialsAwaitingData

from ax_costaware.adapter.tree_checks import check_tree_experiment
from ax_costaware.display import initial_place
from ax_costaware.generators.budget import undelivered_observations
from ax_costaware.generators.decision_log import log_decision
from ax_costaware.generators.handing_over import HandingOverNode, enough_trials
from ax_costaware.generators.indirect_node import QueryNode, payable_queries
from ax_costaware.generators.method_settings import settings_of_method
from ax_costaware.generators.query_standing import query_standing
from ax_costaware.generators.registry import CostAwareGenerators
from ax_costaware.generators.tree_settings import ResolutionTreeSettings
from ax_costaware.ledger import decision_record
from ax_costaware.policies.resolution_tree import Cell, ResolutionTree
from ax_costaware.records import RECORD


class CellNode(QueryNode):
    """The node that has the model, and the settings."""

    generator_enum: ClassVar[CostAwareGenerators] = CostAwareGenerators.RESOLUTION_TREE


class InitialCellNode(HandingOverNode, ExternalGenerationNode):
    """Generates the cells of the coarsest levels, then hands over to the node that has a model.

    The root comes first, then its children, and so on. An Ax ``ExternalGenerationNode``, since no
    adapter is involved; it overrides one private method, ``_gen``, because Ax offers no other way
    to attach ``gen_metadata`` to what such a node generates.

    Args:
        count: Number of initial trials, at least one.
        name: Name of the node.
        next_node: Name of the node that comes after, which has the settings.
    """

    def __init__(self, count: int, name: str, next_node: str) -> None:
        super().__init__(
            name=name,
            should_deduplicate=False,
            transition_criteria=enough_trials(count, next_node),
        )
        # Ax's external node takes no pausing criteria, but the base class acts on them.
        self._pausing_criteria = [MaxTrialsAwaitingData(threshold=count)]
        self.count = count
        self.next_node = next_node

    def update_generator_state(self, experiment: Experiment, data: Data) -> None:
        """Check the experiment; the design needs no data."""
        check_tree_experiment(experiment, self._settings)

    def get_next_candidate(self, pending_parameters: list[TParameterization]) -> TParameterization:
        """Parameters of the next initial cell, if no other decision is under way."""
        return self._next_run(self.experiment, []).arms[0].parameters

    def new_trial_limit(self, raise_generation_errors: bool = False) -> int:
        """How many trials can be generated now; -1 for any number."""
        limit = super().new_trial_limit(raise_generation_errors=raise_generation_errors)
        done, _ = self.should_transition_to_next_node(raise_data_required_error=False)
        payable = payable_queries(self.experiment, self._settings, initial=True)
        if done or payable < 0:
            return limit
        return payable if limit < 0 else min(limit, payable)

    @property
    def _settings(self) -> ResolutionTreeSettings:
        return settings_of_method(self.generation_strategy, ResolutionTreeSettings)

    def _gen(  # type: ignore[override]  # the order in which Ax's own external node has them
        self,
        experiment: Experiment,
        data: Data | None = None,
        n: int | None = None,
        pending_observations: dict[str, list[ObservationFeatures]] | None = None,
        **generator_gen_kwargs: Any,
    ) -> GeneratorRun:
        if n is not None and n != 1:
            raise UnsupportedError(
                f"n={n}: a cost belongs to one arm, so a trial takes one arm. Ask for several "
                "trials instead."
            )
        fixed = generator_gen_kwargs.get("fixed_features")
        if fixed is not None and fixed.parameters:
            raise UserInputError(
                f"fixed parameters {fixed.parameters}: the initial cells are given. Attach the "
                "trial instead, or fix parameters once the model decides."
            )
        undelivered = [dict(o.parameters) for o in undelivered_observations(pending_observations)]
        return self._next_run(experiment, undelivered)

    def _next_run(self, experiment: Experiment, undelivered: list[dict[str, Any]]) -> GeneratorRun:
        started = time.monotonic()
        settings = self._settings
        check_tree_experiment(experiment, settings)
        where = query_standing(experiment, settings, undelivered, initial=True)
        earlier = len(undelivered) + sum(
            decision_record(trial).get("phase") == "initial" for trial in experiment.trials.values()
        )
        cell = next(itertools.islice(_coarse_first(settings.tree), earlier, None))
        cost = settings.tree.cost(cell.level)
        if not where.pays(cost):
            raise OptimizationShouldStop(
                f"{where.exhausted(settings)} The initial design is not finished, so that no model "
                "says what to deploy: raise the budget."
            )
        run = GeneratorRun(
            arms=[Arm(parameters=settings.parameters_of(cell))],
            fit_time=0.0,
            gen_time=time.monotonic() - started,
            generator_key=self.name,
            gen_metadata={
                RECORD: {
                    "measure": True,
                    "expected_cost": cost,
                    "why": (
                        f"This is {initial_place(earlier + 1, self.count)}; it is a cell of "
                        f"level {cell.level}, for the coarsest come first."
                    ),
                    "phase": "initial",
                    "decision": {
                        "level": cell.level,
                        "cell": list(cell.index),
                        **where.record(),
                    },
                }
            },
        )
        log_decision(run, experiment, settings, len(undelivered))
        return run


def _coarse_first(tree: ResolutionTree) -> Iterator[Cell]:
    """All cells, level by level; the finest again and again."""
    cells: list[Cell] = [tree.root]
    while True:
        yield from cells
        cells = [child for cell in cells for child in tree.children(cell)] or cells
