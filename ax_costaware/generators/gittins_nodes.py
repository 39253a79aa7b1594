"""The initial design of the Gittins method, and what limits a batch of its trials.

The design is Ax's own quasi-random one. A node of this package around it keeps it within the
budget, and records with each trial what it is expected to cost and why it was chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ax.adapter.registry import Generators
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.parameter import FixedParameter
from ax.core.search_space import SearchSpace
from ax.exceptions.core import OptimizationShouldStop, UnsupportedError
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MaxTrialsAwaitingData
from torch.quasirandom import SobolEngine

from ax_costaware.adapter.experiment_checks import free_parameters
from ax_costaware.adapter.gittins_checks import check_gittins_experiment
from ax_costaware.display import initial_place
from ax_costaware.generators.budget import NO_LIMIT, BatchLimit, undelivered_observations
from ax_costaware.generators.decision_log import log_decision
from ax_costaware.generators.gittins_settings import GittinsSettings
from ax_costaware.generators.gittins_standing import (
    GittinsStanding,
    affordable_limit,
    checked_reported_costs,
    gittins_standing,
    largest_charge,
)
from ax_costaware.generators.handing_over import HandingOverNode, enough_trials
from ax_costaware.generators.initial_design import value_at
from ax_costaware.ledger import decision_record, ledger, remaining
from ax_costaware.records import RECORD

_NUM_LOOKS = 128
"""Parameterizations whose known costs are looked at."""

_MOST_ATTEMPTS = 256
"""Quasi-random points that are passed over as too dear before the design gives up."""


class InitialGittinsNode(HandingOverNode):
    """Generates the quasi-random initial trials, then hands over to the node that has a model.

    It hands over when ``settings.initial_trials`` trials were generated that neither failed nor
    were abandoned, and half of them (two at least, where there are two) have data.

    Args:
        settings: The settings of the strategy, with ``initial_trials`` of at least one.
        name: Name of the node.
        next_node: Name of the node that comes after.
    """

    def __init__(self, settings: GittinsSettings, name: str, next_node: str) -> None:
        count = settings.initial_trials
        super().__init__(
            name=name,
            generator_specs=[
                GeneratorSpec(
                    generator_enum=Generators.SOBOL, generator_kwargs={"seed": settings.seed}
                )
            ],
            should_deduplicate=False,
            transition_criteria=enough_trials(count, next_node),
            fallback_specs={},
            pausing_criteria=[
                MaxTrialsAwaitingData(threshold=count),
                AffordableBatch(settings, initial=True),
            ],
        )
        self.settings = settings
        self.next_node = next_node

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
        """The next quasi-random point that what is left of the budget pays for.

        Raises:
            OptimizationShouldStop: If there is none.
            UserInputError: If the experiment does not fit the settings, or a cost to learn from is
                missing, or is no finite number > 0.
            UnsupportedError: If several arms are asked for.
        """
        settings = self.settings
        check_gittins_experiment(experiment, settings)
        if settings.cost_metric is not None:
            # The design needs no costs; but after it, it would be too late to measure them.
            checked_reported_costs(experiment, settings)
        if n is not None and n != 1:
            raise UnsupportedError(
                f"n={n}: a cost belongs to one arm, so a trial takes one arm. Ask for several "
                "trials instead."
            )
        undelivered = undelivered_observations(pending_observations)
        known = settings.cost_metric is None and settings.charge_initial
        promised = [settings.cost_at(o.parameters) if known else 0.0 for o in undelivered]
        where = gittins_standing(experiment, settings, promised)
        limit = affordable_limit(where, settings) if settings.charge_initial else None
        if limit is not None and limit <= 0:
            raise OptimizationShouldStop(_exhausted(where, settings))
        for attempt in range(_MOST_ATTEMPTS):
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
            cost = None
            if settings.cost_metric is None:
                cost = settings.cost_at(run.arms[0].parameters)
            if limit is None or cost is None or cost <= limit:
                self._record(run, experiment, where, cost)
                return run
        raise OptimizationShouldStop(_exhausted(where, settings))

    def _record(
        self, run: GeneratorRun, experiment: Experiment, where: GittinsStanding, cost: float | None
    ) -> None:
        earlier = where.undelivered + sum(
            decision_record(trial).get("phase") == "initial" for trial in experiment.trials.values()
        )
        record: dict[str, Any] = {
            "why": (
                f"This is {initial_place(earlier + 1, self.settings.initial_trials)}; its "
                "values are quasi-random."
            ),
            "phase": "initial",
            "cost_metric": self.settings.cost_metric,
            "decision": {"spent": where.spent, "remaining": where.remaining},
        }
        if cost is not None:
            record["expected_cost"] = cost
        run._gen_metadata = {**(run.gen_metadata or {}), RECORD: record}
        log_decision(run, experiment, self.settings, where.undelivered)


class AffordableBatch(BatchLimit):
    """Limits a batch of trials to the number that the budget is likely to pay for.

    Known costs are looked at all over the search space; of learned ones the largest charge so far
    is the measure.

    Args:
        settings: The settings of the strategy.
        initial: Whether the trials belong to the initial design.
    """

    def __init__(self, settings: GittinsSettings, initial: bool = False) -> None:
        super().__init__(threshold=0)
        self.settings = settings
        self.initial = initial

    def num_till_threshold(self, experiment: Experiment, trials_from_node: set[int]) -> int:
        """Trials that can be paid if none is dearer than the dearest known; at least one."""
        settings = self.settings
        if settings.budget is None or (self.initial and not settings.charge_initial):
            return NO_LIMIT
        entries = ledger(experiment, settings)
        left, largest = remaining(entries, settings.budget), largest_charge(entries)
        if settings.cost_metric is None:
            largest = max(largest, largest_cost(settings.cost_at, experiment.search_space))
        if left is None or largest == 0:
            return NO_LIMIT
        return max(1, math.floor(left / largest + 1e-9))


def largest_cost(cost_at: Callable[[Mapping[str, Any]], float], search_space: SearchSpace) -> float:
    """The largest known cost among quasi-random parameterizations; zero if all are infeasible."""
    parameters = free_parameters(search_space)
    fixed = {
        name: parameter.value
        for name, parameter in search_space.parameters.items()
        if isinstance(parameter, FixedParameter)
    }
    largest = 0.0
    for row in SobolEngine(len(parameters), scramble=True, seed=0).draw(_NUM_LOOKS).tolist():
        inputs = zip(parameters.items(), row, strict=True)
        values = {**fixed, **{name: value_at(parameter, u) for (name, parameter), u in inputs}}
        # A cost need not be one where no trial can be.
        if search_space.check_membership(values):
            largest = max(largest, cost_at(values))
    return largest


def _exhausted(where: GittinsStanding, settings: GittinsSettings) -> str:
    return (
        f"The budget is exhausted: {where.spent:g} of {settings.budget:g} is spent (reservations "
        "for unfinished trials included), and the initial design is not finished, so that no model "
        "says what to deploy: compare the trials themselves, or raise the budget."
    )
