"""Generation strategies: of any method, and factories that take a method's fields as arguments."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from textwrap import indent
from typing import Any, ParamSpec, cast

from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.utils.common.logger import get_logger

from ax_costaware.argument_checks import boolean, instance_of
from ax_costaware.ax_bridge.checks import ax_errors, usable_device
from ax_costaware.ax_bridge.node import CostAwareNode, node_of
from ax_costaware.ax_bridge.surrogates import model_of
from ax_costaware.core import FixedHyperparameters
from ax_costaware.core.account import Budgeted
from ax_costaware.methods import Method

logger = get_logger(__name__)

P = ParamSpec("P")

_RESULT = """
Returns:
    A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
    ``Orchestrator``.

Raises:
    UserInputError: If an argument has an invalid value. Arguments are checked against the
        experiment when the first trial is requested.
"""


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
        surrogate_spec: The model; None for the method's own. See ``cost_aware_strategy``.
        count_attached: See ``cost_aware_strategy``.
        torch_device: See ``cost_aware_strategy``.

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
    method = method.configured_for(model_of(method, surrogate_spec))
    _log_remarks(method)
    label = method.traits.label
    node = CostAwareNode(method, label, surrogate_spec, torch_device, count_attached)
    return GenerationStrategy(name=label, nodes=[node])


@dataclass(frozen=True, kw_only=True)
class StrategyOptions:
    """Arguments of all factories that are not settings of the method."""

    count_attached: bool = True
    """Count trials that were attached with their data, such as past ones, towards
    ``initial_trials``."""

    torch_device: str | None = None
    """Torch device of models and searches, such as ``"cuda"`` or ``"cuda:1"``; None for the CPU. It
    is stored. On a machine without this device the CPU is used, with a warning in the log."""


@dataclass(frozen=True, kw_only=True)
class SurrogateOptions(StrategyOptions):
    """Arguments of the factories whose model can be replaced."""

    surrogate_spec: SurrogateSpec | FixedHyperparameters | None = None
    """The model: an Ax ``SurrogateSpec``, ``FixedHyperparameters``, or None for the method's own:
    a Gaussian process with fitted hyperparameters."""


def strategy_factory(
    arguments: Callable[P, Method], **conversions: Callable[[Any], Any]
) -> Callable[P, GenerationStrategy]:
    """Return the factory of a method's strategies, with its signature and docstring.

    Args:
        arguments: A dataclass that is never constructed: its fields are the arguments, and its
            docstring is the factory's. Its bases are ``StrategyOptions`` and the method's class.
        conversions: Functions from an argument to the method's field, by name.
    """
    assert isinstance(arguments, type)
    options_class, method_class = cast(tuple[type, type[Method]], arguments.__bases__)
    options = {field.name for field in fields(options_class)}
    # Keywords: the budget, what the method has of its own, what all methods have, the options.
    ranked = ((1, method_class), (2, Method), (0, Budgeted), (3, options_class))
    ranks = {field.name: rank for rank, cls in ranked for field in fields(cls)}
    found = inspect.signature(arguments)
    parameters = sorted(found.parameters.values(), key=lambda p: (p.kind, ranks[p.name]))
    signature = found.replace(parameters=parameters, return_annotation=GenerationStrategy)
    name = method_class.factory

    @ax_errors()
    def factory(*args: P.args, **kwargs: P.kwargs) -> GenerationStrategy:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{name}(): {error}") from None
        for argument, convert in conversions.items():
            given[argument] = convert(given[argument])
        others = {option: given.pop(option) for option in options & given.keys()}
        return strategy_of(method_class(**given), **others)

    texts = _field_texts(arguments)
    described = [
        f"    {each}:\n{indent(texts.get(each, ''), ' ' * 8)}" for each in signature.parameters
    ]
    summary = inspect.cleandoc(arguments.__doc__ or "")
    factory.__doc__ = "\n".join([summary, "", "Args:", *described, _RESULT])
    factory.__name__ = factory.__qualname__ = name
    factory.__module__ = arguments.__module__
    vars(factory)["__signature__"] = signature
    return factory


def _field_texts(cls: type) -> dict[str, str]:
    """Return the docstrings of a dataclass's fields, inherited ones included, by name."""
    texts: dict[str, str] = {}
    for each in reversed(cls.__mro__[:-1]):
        texts |= _texts_by_class(each.__module__).get(each.__name__, {})
    return texts


@cache
def _texts_by_class(module: str) -> dict[str, dict[str, str]]:
    """Return the docstrings of fields of all classes of a module; none without its source."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except OSError:
        return {}
    return {
        each.name: {
            field.target.id: inspect.cleandoc(text.value.value)
            for field, text in zip(each.body, each.body[1:], strict=False)
            if isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        }
        for each in tree.body
        if isinstance(each, ast.ClassDef)
    }


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
    for remark in method.traits.warnings:
        logger.warning(remark)
