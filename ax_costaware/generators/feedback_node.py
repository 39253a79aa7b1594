"""The initial design of the costly-feedback method.

The design is Ax's own quasi-random one. A node of this package around it records with each trial
that it is to be measured, what that costs, and why.
"""

from __future__ import annotations

from typing import Any

from ax.adapter.registry import Generators
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.exceptions.core import UnsupportedError
from ax.generation_strategy.generator_spec import GeneratorSpec

from ax_costaware.adapter.feedback_checks import check_feedback_experiment
from ax_costaware.display import initial_place
from ax_costaware.generators.budget import undelivered_observations
from ax_costaware.generators.decision_log import log_decision
from ax_costaware.generators.feedback_settings import CostlyFeedbackSettings
from ax_costaware.generators.feedback_standing import feedback_standing
from ax_costaware.generators.handing_over import HandingOverNode, enough_trials
from ax_costaware.ledger import decision_record
from ax_costaware.records import RECORD


class InitialFeedbackNode(HandingOverNode):
    """Generates the quasi-random initial trials, then hands over to the node that has a model.

    It hands over when ``settings.initial_trials`` trials were generated that neither failed nor
    were abandoned, and half of them (two at least, where there are two) have data. Until then it
    goes on, for a job that is tuned while it runs always needs values.

    Args:
        settings: The settings of the strategy, with ``initial_trials`` of at least one.
        name: Name of the node.
        next_node: Name of the node that comes after.
    """

    def __init__(self, settings: CostlyFeedbackSettings, name: str, next_node: str) -> None:
        super().__init__(
            name=name,
            generator_specs=[
                GeneratorSpec(
                    generator_enum=Generators.SOBOL, generator_kwargs={"seed": settings.seed}
                )
            ],
            should_deduplicate=False,
            transition_criteria=enough_trials(settings.initial_trials, next_node),
            fallback_specs={},
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
        """The next quasi-random point.

        Raises:
            UserInputError: If the experiment does not fit the settings, or a time is missing.
            UnsupportedError: If several arms are asked for.
        """
        settings = self.settings
        check_feedback_experiment(experiment, settings)
        if n is not None and n != 1:
            raise UnsupportedError(
                f"n={n}: a cost belongs to one arm, so a trial takes one arm. Ask for several "
                "trials instead."
            )
        undelivered = len(undelivered_observations(pending_observations))
        where = feedback_standing(experiment, settings, undelivered, initial=True)
        run = super().gen(
            experiment=experiment,
            pending_observations=pending_observations,
            skip_fit=skip_fit,
            data=data,
            n=n,
            **gs_gen_kwargs,
        )
        if run is None:
            return None
        earlier = undelivered + sum(
            decision_record(trial).get("phase") == "initial" for trial in experiment.trials.values()
        )
        why = (
            f"This is {initial_place(earlier + 1, settings.initial_trials)}; its values are "
            "quasi-random, and its outcome is measured."
        )
        if earlier >= settings.initial_trials:
            why = (
                "The initial trials do not have enough outcomes for a model yet; the values are "
                "quasi-random, and the outcome is measured."
            )
        if not where.pays:
            why = (
                f"Its values are quasi-random, and nothing is measured: {where.too_dear(settings)}."
            )
        run._gen_metadata = {
            **(run.gen_metadata or {}),
            RECORD: {
                "measure": where.pays,
                "expected_cost": settings.cost if where.pays else 0.0,
                "why": why,
                "phase": "initial",
                "decision": where.record(),
            },
        }
        log_decision(run, experiment, settings, undelivered)
        return run
