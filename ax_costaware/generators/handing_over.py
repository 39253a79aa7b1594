"""What the nodes of all initial designs share: when they hand over, and to whom."""

from __future__ import annotations

from typing import Any

from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.transition_criterion import MinTrials, TransitionCriterion
from ax.storage.json_store.decoder import object_from_json

from ax_costaware.generators.stored_runs import match_generator_runs
from ax_costaware.restored_data import restore_data


def enough_trials(count: int, next_node: str) -> list[TransitionCriterion]:
    """Criteria to hand over to the node that has a model.

    That is when ``count`` trials were generated that neither failed nor were abandoned, and half of
    them (two at least, where there are two) have data.
    """
    return [
        MinTrials(
            threshold=count,
            transition_to=next_node,
            not_in_statuses=[TrialStatus.FAILED, TrialStatus.ABANDONED],
        ),
        MinTrials(
            threshold=min(count, max(2, count // 2)),
            transition_to=next_node,
            only_in_statuses=[TrialStatus.COMPLETED, TrialStatus.EARLY_STOPPED],
            use_all_trials_in_exp=True,
            count_only_trials_with_data=True,
        ),
    ]


def decoded_init_args(
    args: dict[str, Any], decoder_registry: Any, class_decoder_registry: Any
) -> dict[str, Any]:
    """The arguments of a node's constructor from what is stored of them."""
    registries = {
        "decoder_registry": decoder_registry,
        "class_decoder_registry": class_decoder_registry,
    }
    given = {name: registry for name, registry in registries.items() if registry is not None}
    return {name: object_from_json(value, **given) for name, value in args.items()}


class HandingOverNode(GenerationNode):
    """A node that is stored with its settings, and answers for the next one when it is done."""

    @classmethod
    def deserialize_init_args(
        cls,
        args: dict[str, Any],
        decoder_registry: Any = None,
        class_decoder_registry: Any = None,
    ) -> dict[str, Any]:
        """Decode the settings, which Ax leaves to the class."""
        return decoded_init_args(args, decoder_registry, class_decoder_registry)

    def should_transition_to_next_node(
        self, raise_data_required_error: bool = True
    ) -> tuple[bool, str]:
        """Whether this node is done, and the name of the node to generate from.

        What a killed process left between two transactions, of data or of generator runs, counts
        as if it had not been killed.
        """
        restore_data(self.experiment)
        match_generator_runs(self.generation_strategy, self.experiment)
        return super().should_transition_to_next_node(raise_data_required_error)

    def new_trial_limit(self, raise_generation_errors: bool = False) -> int:
        """How many trials can be generated now.

        Ax asks the current node before it moves to the next one, so that the first batch after the
        initial design would be cut to one trial: once this node is done the next one answers.
        """
        done, following = self.should_transition_to_next_node(raise_data_required_error=False)
        if done:
            node = self.generation_strategy.nodes_by_name[following]
            return node.new_trial_limit(raise_generation_errors=raise_generation_errors)
        return super().new_trial_limit(raise_generation_errors=raise_generation_errors)
