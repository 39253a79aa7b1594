"""Generation strategy of any method."""

from __future__ import annotations

from typing import Any

from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.utils.common.logger import get_logger

from ax_costaware.argument_checks import boolean, instance_of
from ax_costaware.ax_bridge.checks import ax_errors, usable_device
from ax_costaware.ax_bridge.node import CostAwareNode, node_of
from ax_costaware.ax_bridge.surrogates import model_of
from ax_costaware.core import FixedHyperparameters
from ax_costaware.methods import Method

logger = get_logger(__name__)


@ax_errors()
def strategy_of(
    method: Method,
    surrogate_spec: SurrogateSpec | FixedHyperparameters | None = None,
    count_attached: bool = True,
    torch_device: str | None = None,
) -> GenerationStrategy:
    """Return a strategy of any method: its initial design, then its decisions.

    Args:
        method: The method. Pass your own class to ``ax_costaware.storage.register_value_object``
            before you store an experiment.
        surrogate_spec: The model: an Ax ``SurrogateSpec``, ``FixedHyperparameters``, or None for
            the method's own.
        count_attached: True to count attached trials with data towards the method's
            ``initial_trials``.
        torch_device: Device of models and searches, by torch's name, such as ``"cuda"``; None for
            the CPU.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If ``method`` is not a method, or cannot use the model, or torch does not
            compute on the device here.
    """
    instance_of(method, "method", Method, "a Method, such as CostAware(cost=1.0)")
    boolean(count_attached, "count_attached")
    if torch_device is not None:
        usable_device(torch_device)
    method = method.configured_for([model_of(method, surrogate_spec)])
    _log_remarks(method)
    node = CostAwareNode(method, method.label, surrogate_spec, torch_device, count_attached)
    return GenerationStrategy(name=method.label, nodes=[node])


@ax_errors()
def strategy_with(method_class: type[Method], settings: dict[str, Any]) -> GenerationStrategy:
    """Return the strategy of a method with these fields and arguments of ``strategy_of``."""
    names = ("surrogate_spec", "count_attached", "torch_device")
    options = {name: settings.pop(name) for name in names if name in settings}
    return strategy_of(method_class(**settings), **options)


def set_method(strategy: GenerationStrategy, method: Method) -> None:
    """Replace the method of a strategy by another one of the same class.

    The initial design continues where it was.

    Args:
        strategy: A strategy of this package, which is changed.
        method: The method, with the initial design and the model of the replaced one.
    """
    node_of(strategy).method = method
    _log_remarks(method)


def _log_remarks(method: Method) -> None:
    for remark in method.warnings():
        logger.warning(remark)
