"""Generation node of the initial design, before a model can decide.

An Ax ``ExternalGenerationNode``, since no adapter is involved. It overrides one private method,
``_gen``, because Ax offers no other way to attach ``gen_metadata`` to what such a node generates.
"""

from __future__ import annotations

import time
from typing import Any

from ax.core.arm import Arm
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.types import TParameterization
from ax.exceptions.core import OptimizationShouldStop, UnsupportedError
from ax.generation_strategy.external_generation_node import ExternalGenerationNode
from ax.generation_strategy.transition_criterion import MaxTrialsAwaitingData

from ax_costaware.adapter.control_set_adapter import allowed_control_sets
from ax_costaware.adapter.experiment_checks import check_experiment
from ax_costaware.display import initial_place
from ax_costaware.generators.budget import (
    AffordableTrials,
    standing,
    stop_message,
    undelivered_control_sets,
)
from ax_costaware.generators.control_set_settings import ControlSetSettings
from ax_costaware.generators.decision_log import log_decision
from ax_costaware.generators.handing_over import HandingOverNode, enough_trials
from ax_costaware.generators.initial_design import InitialDesign
from ax_costaware.generators.learned_costs import check_reported_costs
from ax_costaware.ledger import decision_record
from ax_costaware.records import RECORD


class InitialControlSetNode(HandingOverNode, ExternalGenerationNode):
    """Generates the initial trials, then hands over to the node that has a model.

    It hands over when ``settings.initial_trials`` trials were generated that neither failed nor
    were abandoned, and half of them (two at least, where there are two) have data.

    Args:
        settings: The settings of the strategy, with ``initial_trials`` of at least one.
        name: Name of the node.
        next_node: Name of the node that comes after.
    """

    def __init__(self, settings: ControlSetSettings, name: str, next_node: str) -> None:
        count = settings.initial_trials
        super().__init__(
            name=name,
            should_deduplicate=False,
            transition_criteria=enough_trials(count, next_node),
        )
        # Ax's external node takes no pausing criteria, but the base class acts on them.
        self._pausing_criteria = [
            MaxTrialsAwaitingData(threshold=count),
            AffordableTrials(settings, initial=True),
        ]
        self.settings = settings
        self.next_node = next_node
        self._current_experiment: Experiment | None = None

    def update_generator_state(self, experiment: Experiment, data: Data) -> None:
        """Check the experiment and remember it; the design needs no data."""
        check_experiment(experiment, self.settings)
        self._current_experiment = experiment

    def get_next_candidate(self, pending_parameters: list[TParameterization]) -> TParameterization:
        """Parameters of the next initial trial, if no other decision is under way."""
        assert self._current_experiment is not None
        return self._next_run(self._current_experiment, [], {}).arms[0].parameters

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
                f"n={n}: a trial uses one control set with one set of values, so it takes one arm. "
                "Ask for several trials instead."
            )
        fixed_features = generator_gen_kwargs.get("fixed_features")
        return self._next_run(
            experiment,
            undelivered_control_sets(pending_observations),
            {} if fixed_features is None else dict(fixed_features.parameters),
        )

    def _next_run(
        self, experiment: Experiment, undelivered: list[str], fixed: dict[str, Any]
    ) -> GeneratorRun:
        started = time.monotonic()
        settings = self.settings
        check_reported_costs(experiment, settings)
        where = standing(experiment, settings, undelivered, initial=True)
        allowed = allowed_control_sets(fixed, settings, where) if any(where.affordable) else ()
        design = InitialDesign(settings, experiment.search_space)
        index = len(undelivered) + sum(
            decision_record(trial).get("phase") == "initial" for trial in experiment.trials.values()
        )
        control_set = design.control_set(
            index,
            {
                name: bool(allowed) and payable and open_
                for name, payable, open_ in zip(
                    settings.names, where.affordable, allowed or where.affordable, strict=True
                )
            },
            dict(zip(settings.names, where.costs, strict=True)),
        )
        if control_set is None:
            raise OptimizationShouldStop(
                stop_message(
                    where,
                    settings,
                    "The initial design is not finished, so no model says what to deploy: compare "
                    "the trials themselves, or raise the budget.",
                )
            )
        inputs = {name: value for name, value in fixed.items() if name in control_set.parameters}
        arm = design.arm(index, control_set, inputs)
        cost = where.costs[settings.names.index(str(control_set.name))]
        known = "cost" if control_set.cost is not None else "expected cost"
        price = "cost not known yet" if cost is None else f"{known} {cost:g}"
        run = GeneratorRun(
            arms=[Arm(parameters=arm)],
            fit_time=0.0,
            gen_time=time.monotonic() - started,
            generator_key=self.name,
            gen_metadata={
                RECORD: {
                    "control_set": control_set.name,
                    "controlled": {name: arm[name] for name in control_set.parameters},
                    "cost_above": control_set.fixed_cost if control_set.cost is None else None,
                    "expected_cost": cost,
                    "why": (
                        f"This is {initial_place(index + 1, settings.initial_trials)}: control "
                        f"set {control_set.name!r} ({price}) comes next in the initial design, "
                        "whose values are quasi-random."
                    ),
                    "phase": "initial",
                    "decision": {
                        "in_play": [control_set.name],
                        "values": {},
                        "rule": "initial design",
                        "spent": where.spent,
                        "remaining": where.remaining,
                    },
                }
            },
        )
        log_decision(run, experiment, settings, len(undelivered))
        return run
