"""The initial design of the indirect-query method, and what limits a batch of its trials.

The design is Ax's own quasi-random one. A node of this package around it keeps it within the budget
and where the conditional answers, and records with each trial what it costs and why it was chosen.
The settings, which may hold many pairs, are those of the node that has the model, and are stored
once.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ax.adapter.registry import Generators
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.exceptions.core import OptimizationShouldStop, UnsupportedError
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MaxTrialsAwaitingData

from ax_costaware.adapter.decoded_conditional import query_rows
from ax_costaware.adapter.indirect_checks import (
    check_indirect_experiment,
    current_law,
)
from ax_costaware.display import initial_place
from ax_costaware.exceptions import InputError
from ax_costaware.generators.budget import undelivered_observations
from ax_costaware.generators.decision_log import log_decision
from ax_costaware.generators.gittins_nodes import largest_cost
from ax_costaware.generators.handing_over import (
    HandingOverNode,
    decoded_init_args,
    enough_trials,
)
from ax_costaware.generators.indirect_settings import IndirectQuerySettings
from ax_costaware.generators.method_settings import settings_of_method
from ax_costaware.generators.query_standing import QueryStanding, query_standing
from ax_costaware.generators.registry import CostAwareGenerators
from ax_costaware.generators.target_settings import TargetSettings
from ax_costaware.generators.tree_settings import ResolutionTreeSettings
from ax_costaware.ledger import decision_record
from ax_costaware.queries.conditionals import Conditional
from ax_costaware.records import RECORD


class QueryNode(GenerationNode):
    """The node that has the model, and the settings.

    It lets a batch have as many trials as the budget is certain to pay for, and at least one: Ax
    drops the whole batch if one of its trials cannot be generated.

    Args:
        settings: The settings of the strategy.
        name: Name of the node.
    """

    generator_enum: ClassVar[CostAwareGenerators] = CostAwareGenerators.INDIRECT_QUERIES

    def __init__(self, settings: TargetSettings, name: str) -> None:
        super().__init__(
            name=name,
            generator_specs=[
                GeneratorSpec(
                    generator_enum=self.generator_enum, generator_kwargs={"settings": settings}
                )
            ],
            # With noise a query may be worth asking twice; the information knows when.
            should_deduplicate=False,
            fallback_specs={},
        )
        self.settings = settings

    @classmethod
    def deserialize_init_args(
        cls,
        args: dict[str, Any],
        decoder_registry: Any = None,
        class_decoder_registry: Any = None,
    ) -> dict[str, Any]:
        """Decode the settings, which Ax leaves to the class."""
        return decoded_init_args(args, decoder_registry, class_decoder_registry)

    def new_trial_limit(self, raise_generation_errors: bool = False) -> int:
        """How many trials can be generated now; -1 for any number."""
        limit = super().new_trial_limit(raise_generation_errors=raise_generation_errors)
        payable = payable_queries(self.experiment, self.settings, initial=False)
        return payable if limit < 0 else min(limit, payable)


_MOST_ATTEMPTS = 256
"""Quasi-random queries that are passed over before the design gives up."""


class InitialQueryNode(HandingOverNode):
    """Generates the quasi-random initial queries, then hands over to the node that has a model.

    It hands over when ``count`` trials were generated that neither failed nor were abandoned, and
    half of them (two at least, where there are two) have data.

    Args:
        count: Number of initial trials, at least one.
        seed: Seed of the design.
        name: Name of the node.
        next_node: Name of the node that comes after, which has the settings.
    """

    def __init__(self, count: int, seed: int, name: str, next_node: str) -> None:
        super().__init__(
            name=name,
            generator_specs=[
                GeneratorSpec(
                    generator_enum=Generators.SOBOL,
                    # There may be fewer queries than trials, as with a few providers.
                    generator_kwargs={"seed": seed, "deduplicate": False},
                )
            ],
            should_deduplicate=False,
            transition_criteria=enough_trials(count, next_node),
            fallback_specs={},
            pausing_criteria=[MaxTrialsAwaitingData(threshold=count)],
        )
        self.count = count
        self.seed = seed
        self.next_node = next_node

    def new_trial_limit(self, raise_generation_errors: bool = False) -> int:
        """How many trials can be generated now; -1 for any number."""
        limit = super().new_trial_limit(raise_generation_errors=raise_generation_errors)
        done, _ = self.should_transition_to_next_node(raise_data_required_error=False)
        if done:
            return limit
        settings = settings_of_method(self.generation_strategy, IndirectQuerySettings)
        payable = payable_queries(self.experiment, settings, initial=True)
        if payable < 0:
            return limit
        return payable if limit < 0 else min(limit, payable)

    def gen(
        self,
        *,
        experiment: Experiment,
        pending_observations: dict[str, list[ObservationFeatures]] | None,
        skip_fit: bool = False,
        data: Data | None = None,
        n: int | None = None,
        **gs_gen_kwargs: Any,
    ) -> GeneratorRun | None:
        """The next quasi-random query that can be paid and that the conditional answers for.

        Raises:
            OptimizationShouldStop: If there is none.
            UserInputError: If the experiment does not fit the settings.
            UnsupportedError: If several arms are asked for.
        """
        settings = settings_of_method(self.generation_strategy, IndirectQuerySettings)
        check_indirect_experiment(experiment, settings)
        if n is not None and n != 1:
            raise UnsupportedError(
                f"n={n}: a cost belongs to one arm, so a trial takes one arm. Ask for several "
                "trials instead."
            )
        undelivered = [dict(o.parameters) for o in undelivered_observations(pending_observations)]
        where = query_standing(experiment, settings, undelivered, initial=True)
        law = current_law(experiment, settings)
        names = settings.query_names(experiment.search_space.parameters)
        refused = affordable = 0
        for attempt in range(_MOST_ATTEMPTS):
            if where.limit is not None and where.limit <= 0:
                break
            run = super().gen(
                experiment=experiment,
                pending_observations=pending_observations,
                skip_fit=skip_fit or attempt > 0,
                data=data,
                n=n,
                **gs_gen_kwargs,
            )
            if run is None:
                return None
            parameters = run.arms[0].parameters
            cost = settings.cost_at(parameters)
            if not where.pays(cost):
                continue
            affordable += 1
            if not _answers(law, names, parameters):
                refused += 1
                continue
            self._record(run, experiment, where, cost)
            log_decision(run, experiment, settings, where.undelivered)
            return run
        if affordable and refused == affordable:
            raise OptimizationShouldStop(
                f"None of {refused} quasi-random queries is near the pairs of conditional="
                f"{law!r}: add pairs there, or make the search space smaller."
            )
        raise OptimizationShouldStop(
            f"{where.exhausted(settings)} The initial design is not finished, so that no model "
            "says what to deploy: raise the budget."
        )

    def _record(
        self, run: GeneratorRun, experiment: Experiment, where: QueryStanding, cost: float
    ) -> None:
        earlier = where.undelivered + sum(
            decision_record(trial).get("phase") == "initial" for trial in experiment.trials.values()
        )
        run._gen_metadata = {
            **(run.gen_metadata or {}),
            RECORD: {
                "measure": True,
                "expected_cost": cost,
                "why": (
                    f"This is {initial_place(earlier + 1, self.count)}; its values are "
                    "quasi-random."
                ),
                "phase": "initial",
                "decision": dict(where.record()),
            },
        }


def payable_queries(experiment: Experiment, settings: TargetSettings, initial: bool) -> int:
    """How many queries the budget is certain to pay for, at least one; -1 for any number."""
    where = query_standing(experiment, settings, [], initial)
    if where.limit is None:
        return -1
    if isinstance(settings, ResolutionTreeSettings):
        levels = range(settings.tree.max_level + 1)
        largest = max(settings.tree.cost(level) for level in levels)
    else:
        largest = largest_cost(settings.cost_at, experiment.search_space)
    return -1 if largest <= 0 else max(1, math.floor(where.limit / largest))


def _answers(law: Conditional, names: tuple[str, ...], parameters: Any) -> bool:
    try:
        law.check_queries(query_rows(law, names, [parameters]))
    except InputError:
        return False
    return True
