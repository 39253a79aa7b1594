"""What releases 0.1 and 0.2 stored under names that are no more.

Nodes and settings are read as what has taken their place. The criteria that limited a batch belong
to nodes of Ax's own class, which are read as they were, and ask what every node asks now.
"""

from __future__ import annotations

from ax.core.experiment import Experiment
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.transition_criterion import TrialCountPausingCriterion
from ax.storage.json_store.registry import CORE_DECODER_REGISTRY, CORE_ENCODER_REGISTRY
from ax.storage.transform_registry import REVERSE_TRANSFORM_REGISTRY
from ax.utils.common.serialization import serialize_init_args

from ax_costaware.ax_bridge.nodes import InitialNode, ModelNode, num_payable
from ax_costaware.ax_bridge.transforms import HideParameters
from ax_costaware.methods import ControlSets, CostlyFeedback, Gittins, IndirectQueries, TreeSearch
from ax_costaware.methods.method import Method
from ax_costaware.methods.parameters import Choice, Range

_NODES: dict[str, type] = {
    "CellNode": ModelNode,
    "InitialCellNode": InitialNode,
    "InitialControlSetNode": InitialNode,
    "InitialFeedbackNode": InitialNode,
    "InitialGittinsNode": InitialNode,
    "InitialQueryNode": InitialNode,
    "QueryNode": ModelNode,
}

_VALUE_OBJECTS: dict[str, type] = {
    "ControlSetSettings": ControlSets,
    "CostlyFeedbackSettings": CostlyFeedback,
    "GittinsSettings": Gittins,
    "IndirectQuerySettings": IndirectQueries,
    "ResolutionTreeSettings": TreeSearch,
    "TargetChoice": Choice,
    "TargetRange": Range,
}


class BatchLimit(TrialCountPausingCriterion):
    """Limits a batch of trials to the number that can be paid, and never pauses.

    Args:
        settings: The method.
        initial: Whether the trials belong to the initial design.
    """

    def __init__(self, settings: Method, initial: bool = False) -> None:
        super().__init__(threshold=0)
        self.settings = settings
        self.initial = initial

    def num_till_threshold(self, experiment: Experiment, trials_from_node: set[int]) -> int:
        """Trials that can be paid; at least one."""
        return num_payable(experiment, self.settings, self.initial)

    def is_met(self, experiment: Experiment, curr_node: GenerationNode) -> bool:
        """Always False: that the budget is exhausted is said when a trial is asked for."""
        return False

    def block_continued_generation_error(
        self, node_name: str, experiment: Experiment, trials_from_node: set[int]
    ) -> None:
        """Nothing to raise: the criterion never blocks."""


def register_aliases(prefix: str) -> None:
    """Let Ax's stores read the old names.

    Args:
        prefix: What the names of the package's value objects begin with.
    """
    CORE_DECODER_REGISTRY.update(_NODES)
    CORE_DECODER_REGISTRY.update({prefix + n: cls for n, cls in _VALUE_OBJECTS.items()})
    for name in ("AffordableBatch", "AffordableTrials", BatchLimit.__name__):
        CORE_DECODER_REGISTRY[name] = BatchLimit
    CORE_ENCODER_REGISTRY[BatchLimit] = lambda limit: {
        "__type": BatchLimit.__name__,
        **serialize_init_args(limit),
    }
    REVERSE_TRANSFORM_REGISTRY["HideControlSet"] = HideParameters
