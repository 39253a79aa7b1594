"""The node of every strategy that has the model, and what it shares with the initial design's.

Ax's registry of generators is closed, so one of our own says which adapter, generator and
transforms go together.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ax.adapter.registry import GeneratorRegistryBase, GeneratorSetup, MBM_X_trans
from ax.adapter.transforms.derelativize import Derelativize
from ax.core.experiment import Experiment
from ax.exceptions.core import UserInputError
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.utils.common.logger import get_logger

from ax_costaware.ax_bridge.adapter import CostAwareAdapter
from ax_costaware.ax_bridge.checks import ax_errors, usable_device
from ax_costaware.ax_bridge.generator import AnyMethod, CostAwareGenerator
from ax_costaware.ax_bridge.records import problem_of
from ax_costaware.ax_bridge.transforms import HideParameters, TimeFeature
from ax_costaware.ax_bridge.turns import CostAwareStrategy, LimitedNode
from ax_costaware.core.method import NO_LIMIT, Method
from ax_costaware.exceptions import InputError

logger = get_logger(__name__)


class CostAwareGenerators(GeneratorRegistryBase):
    """Generators that know what a trial costs: one, and what it was called in 0.1 and 0.2."""

    METHOD = "CostAware"
    CONTROL_SETS = "CostAware_ControlSets"
    COSTLY_FEEDBACK = "CostAware_CostlyFeedback"
    GITTINS = "CostAware_Gittins"
    INDIRECT_QUERIES = "CostAware_IndirectQueries"
    RESOLUTION_TREE = "CostAware_ResolutionTree"

    @property
    def GENERATOR_KEY_TO_GENERATOR_SETUP(self) -> dict[str, GeneratorSetup]:
        """Adapter, generator and transforms of each member."""
        setup = GeneratorSetup(
            adapter_class=CostAwareAdapter,
            generator_class=CostAwareGenerator,
            # Outcomes stay in raw units, which rules and prices are in; models standardise inside.
            transforms=[HideParameters, *MBM_X_trans, TimeFeature, Derelativize],
            # The node has the method; a copy on every generator run would be large.
            not_saved_generator_kwargs=["method", "settings"],
        )
        return {member.value: setup for member in CostAwareGenerators}


def method_of(strategy: GenerationStrategy) -> Method:
    """The method of a generation strategy of this package.

    Raises:
        UserInputError: If ``strategy`` comes from elsewhere.
    """
    values = model_spec_of(strategy).generator_kwargs.values()
    return next(value for value in values if isinstance(value, Method))


def method_of_class(strategy: GenerationStrategy, method_class: type[AnyMethod]) -> AnyMethod:
    """The method of a generation strategy, which has to be of a class.

    Raises:
        UserInputError: If ``strategy`` comes from elsewhere, or has another method.
    """
    method = method_of(strategy)
    if isinstance(method, method_class):
        return method
    raise UserInputError(
        f"the generation strategy {strategy.name!r} comes from {method.known_as}: expected one "
        f"made by ax_costaware.{method_class.factory}."
    )


def model_spec_of(strategy: GenerationStrategy) -> GeneratorSpec:
    """The part of a strategy of this package that holds its method and its model.

    Raises:
        UserInputError: If ``strategy`` comes from elsewhere.
    """
    nodes = strategy.nodes_by_name.values() if isinstance(strategy, GenerationStrategy) else ()
    for node in nodes:
        if (spec := _spec_with_method(node)) is not None:
            return spec
    raise UserInputError(
        f"the generation strategy {getattr(strategy, 'name', strategy)!r} does not know what a "
        "trial costs: expected one made by ax_costaware.control_set_strategy, "
        "ax_costaware.gittins_strategy or any other strategy of the package."
    )


def _spec_with_method(node: GenerationNode) -> GeneratorSpec | None:
    specs: list[GeneratorSpec] = node.generator_specs
    for spec in specs:
        if any(isinstance(value, Method) for value in spec.generator_kwargs.values()):
            return spec
    return None


def _check_one_method(strategy: GenerationStrategy) -> None:
    """Refuse a strategy of several methods: budget and charges would be those of the first.

    An initial design belongs to the method of the node that it hands over to, which is one, too.

    Raises:
        UserInputError: By the names of the nodes.
    """
    nodes = strategy.nodes_by_name.values()
    with_method = [node.name for node in nodes if _spec_with_method(node) is not None]
    designs = [node.name for node in nodes if isinstance(node, MethodNode) and node.is_initial]
    if len(with_method) > 1 or len(designs) > 1:
        several = with_method if len(with_method) > 1 else designs
        raise UserInputError(
            f"the generation strategy has the nodes {several} of this package: expected the nodes "
            "of one method, as gittins_strategy and the others make them, since the budget and the "
            "charges of an experiment are those of one. To go on with another method, set another "
            "strategy."
        )


def fitted_adapter(experiment: Experiment, strategy: GenerationStrategy) -> CostAwareAdapter:
    """The adapter of a strategy of this package, fitted to the data of ``experiment``.

    The strategy's own adapter is brought up to date; the strategy does not change its node.

    Raises:
        UserInputError: If the strategy comes from elsewhere.
        DataRequiredError: If no trial has an observation yet.
    """
    return fitted(model_spec_of(strategy), experiment)


def fitted(spec: GeneratorSpec, experiment: Experiment) -> CostAwareAdapter:
    """The adapter of a part of a strategy that has a method, as ``fitted_adapter``."""
    spec.fit(experiment=experiment)
    adapter = spec.fitted_adapter
    assert isinstance(adapter, CostAwareAdapter)
    return adapter


def num_payable(experiment: Experiment, method: Method, initial: bool) -> int:
    """How many trials can be asked for together; Ax drops a batch of which one cannot be made."""
    with ax_errors():
        return method.num_payable(problem_of(experiment, method), initial)


class MethodNode(LimitedNode):
    """What both nodes share: a batch is limited to what the budget is certain to pay for.

    A strategy that has such a node is a ``CostAwareStrategy``, also where one of Ax's stores has
    made it, which make Ax's own class whatever they read.
    """

    is_initial: ClassVar[bool] = False
    """Whether trials belong to the initial design."""

    @property
    def _generation_strategy(self) -> GenerationStrategy | None:
        return self.__dict__.get("_generation_strategy")

    @_generation_strategy.setter
    def _generation_strategy(self, strategy: GenerationStrategy | None) -> None:
        if type(strategy) is GenerationStrategy:
            _check_one_method(strategy)
            strategy.__class__ = CostAwareStrategy
        self.__dict__["_generation_strategy"] = strategy

    def new_trial_limit(self, raise_generation_errors: bool = False) -> int:
        """How many trials can be generated now; -1 for any number."""
        limit = super().new_trial_limit(raise_generation_errors=raise_generation_errors)
        payable = self._num_payable()
        if payable == NO_LIMIT:
            return limit
        return payable if limit < 0 else min(limit, payable)

    def _num_payable(self) -> int:
        method = method_of(self.generation_strategy)
        return num_payable(self.experiment, method, self.is_initial)

    def limit_reason(self) -> str:
        """Return which limit of ``new_trial_limit`` is the smallest, as a sentence."""
        if self._num_payable() <= self.new_trial_limit():
            budget = method_of(self.generation_strategy).budget
            return f"What is left of budget={budget:g} is certain to pay for no more."
        return "The initial design makes no more before some of its trials have reported."


class ModelNode(MethodNode):
    """The node that has the method and its model.

    Args:
        method: The method.
        name: Name of the node.
        surrogate_spec: The surrogate; None for the method's own.
        torch_device: Where its model computes; None for the CPU, which also takes the place of a
            device that is not here.
    """

    def __init__(
        self,
        method: Method,
        name: str,
        surrogate_spec: SurrogateSpec | None = None,
        torch_device: str | None = None,
    ) -> None:
        kwargs: dict[str, Any] = {"method": method, "surrogate_spec": surrogate_spec}
        if torch_device is not None:
            try:
                kwargs["torch_device"] = usable_device(torch_device)
            except InputError as error:
                logger.warning(f"{error} The CPU computes instead.")
        super().__init__(
            name=name,
            generator_specs=[GeneratorSpec(CostAwareGenerators.METHOD, generator_kwargs=kwargs)],
            # With noise a trial may be worth running twice; the method knows when.
            should_deduplicate=False,
            fallback_specs={},
        )
        self.method = method
        self.surrogate_spec = surrogate_spec
        self.torch_device = torch_device
