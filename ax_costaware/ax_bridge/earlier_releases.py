"""What releases 0.1 and 0.2 stored under names that are no more.

Nodes and settings are read as what has taken their place. The criteria that limited a batch belong
to nodes of Ax's own class, which are read as they were, and ask what every node asks now.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ax.core.experiment import Experiment
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.transition_criterion import TrialCountPausingCriterion
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.storage.json_store.registry import CORE_DECODER_REGISTRY
from ax.storage.transform_registry import REVERSE_TRANSFORM_REGISTRY

from ax_costaware.ax_bridge.initial_node import InitialNode
from ax_costaware.ax_bridge.nodes import ModelNode, num_payable
from ax_costaware.ax_bridge.transforms import HideParameters
from ax_costaware.core.method import Method
from ax_costaware.methods import ControlSets, CostlyFeedback, Gittins, IndirectQueries, TreeSearch
from ax_costaware.space.parameters import Choice, Range


def _model_node(
    name: str, settings: Method, surrogate_spec: SurrogateSpec | None = None
) -> ModelNode:
    return ModelNode(settings, name, surrogate_spec)


def _initial_node(
    name: str, next_node: str, settings: Method | None = None, count: int = 0, seed: int = 0
) -> InitialNode:
    if settings is None:
        return InitialNode(count, seed, name, next_node, deduplicate=False)
    waits = not settings.may_skip
    return InitialNode(settings.initial_trials, settings.seed, name, next_node, waits=waits)


_NODES: dict[str, Callable[..., GenerationNode]] = {
    "CellNode": _model_node,
    "InitialCellNode": _initial_node,
    "InitialControlSetNode": _initial_node,
    "InitialFeedbackNode": _initial_node,
    "InitialGittinsNode": _initial_node,
    "InitialQueryNode": _initial_node,
    "QueryNode": _model_node,
}

_SETTINGS: dict[type[Method], str] = {
    ControlSets: "ControlSetSettings",
    CostlyFeedback: "CostlyFeedbackSettings",
    Gittins: "GittinsSettings",
    IndirectQueries: "IndirectQuerySettings",
    TreeSearch: "ResolutionTreeSettings",
}
"""What the methods were called. What says nothing of outliers did nothing about them."""

_GITTINS: dict[str, Any] = {
    "initial_share": None,
    "initialize_with_center": False,
    "kernel": "squared_exponential",
}
"""What says nothing of how the initial design is made did nothing about it, and what says nothing
of the kernel had the one that is Ax's default."""

_VALUE_OBJECTS: dict[str, Callable[..., object]] = {
    "TargetChoice": Choice,
    "TargetRange": Range,
    **{
        name: partial(method, winsorize=False, **(_GITTINS if method is Gittins else {}))
        for method, before in _SETTINGS.items()
        for name in (before, method.__name__)
    },
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
    CORE_DECODER_REGISTRY.update(dict.fromkeys(("AffordableBatch", "AffordableTrials"), BatchLimit))
    REVERSE_TRANSFORM_REGISTRY["HideControlSet"] = HideParameters
