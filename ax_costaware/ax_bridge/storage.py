"""Registers everything that an experiment of this package stores with Ax's JSON and SQL stores.

Importing ``ax_costaware`` calls ``register_all``; Ax's default configurations of both stores read
the registries that are filled here. Names are prefixed with the package's, so that ``Uniform`` here
is never taken for another's. Only values are stored, nothing is pickled or evaluated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from copy import copy
from functools import partial
from inspect import isbuiltin, isfunction, ismethod
from types import ModuleType
from typing import Any

from ax.core.metric import Metric
from ax.core.runner import Runner
from ax.exceptions.core import UserInputError
from ax.exceptions.storage import JSONEncodeError
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.storage.botorch_modular_registry import (
    register_acquisition_function,
    register_mll,
    register_model,
)
from ax.storage.json_store.encoders import generation_strategy_to_dict
from ax.storage.json_store.registry import CORE_DECODER_REGISTRY, CORE_ENCODER_REGISTRY
from ax.storage.metric_registry import CORE_METRIC_REGISTRY, register_metrics
from ax.storage.runner_registry import CORE_RUNNER_REGISTRY, register_runners
from ax.utils.common.serialization import serialize_init_args
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model

from ax_costaware import acquisition, core, costs, laws, methods, models, space
from ax_costaware.ax_bridge.node import BudgetExhausted, CostAwareNode
from ax_costaware.ax_bridge.stopping import GittinsStoppingStrategy
from ax_costaware.ax_bridge.stored_expressions import PREFIX, check_databases
from ax_costaware.ax_bridge.turns import CostAwareStrategy

VALUE_OBJECTS: tuple[type, ...] = (
    space.Choice,
    methods.ControlSets,
    methods.CostlyFeedback,
    core.FixedHyperparameters,
    methods.CostAware,
    methods.Gittins,
    methods.IndirectQueries,
    methods.MultiFidelity,
    space.Range,
    methods.TreeSearch,
    methods.BernoulliRule,
    methods.EpsilonSchedule,
    methods.ExploreThenCommit,
    methods.FullFeedback,
    methods.GittinsDecay,
    methods.GittinsStop,
    methods.ImprovementPerCostStop,
    methods.LCBUCBRule,
    methods.LargestValuePerCost,
    methods.LogarithmicBeta,
    methods.MixedRule,
    methods.MeasurementRule,
    methods.TheoreticalBeta,
    methods.UnknownCosts,
    costs.AffineCost,
    costs.SwitchingCost,
    costs.ConstantCost,
    costs.ControlSet,
    laws.Discrete,
    laws.Empirical,
    laws.FiniteConditional,
    laws.GaussianConditional,
    laws.GaussianCopula,
    laws.JointEmpirical,
    laws.Learned,
    laws.LearnedConditional,
    costs.ProductCost,
    laws.RegressedConditional,
    costs.SumCost,
    costs.TableCost,
    laws.TruncatedNormal,
    laws.Uniform,
    laws.UniformBoxConditional,
)
"""Frozen dataclasses of the package that may be part of a stored strategy."""


def register_value_object(cls: type) -> None:
    """Let experiments store instances of a dataclass, such as a rule of your own.

    The class must be a dataclass whose fields are plain values or registered value objects, and
    must be registered again before a stored experiment is loaded.

    Args:
        cls: The dataclass.

    Raises:
        UserInputError: If ``cls`` is no dataclass.
    """
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise UserInputError(f"cls={cls!r}: expected a dataclass.")
    CORE_ENCODER_REGISTRY[cls] = _encode_method if issubclass(cls, methods.Method) else _encode
    CORE_DECODER_REGISTRY[PREFIX + cls.__name__] = cls


def register_metric(cls: type[Metric]) -> None:
    """Let experiments store a metric of your own, under the name of its class.

    The class must be registered again before a stored experiment is loaded.

    Args:
        cls: The class; it is made anew from the arguments of its constructor, which it must keep
            as attributes of the same names.
    """
    _add(CORE_METRIC_REGISTRY, *register_metrics({cls: None}, {}, {}))


def register_runner(cls: type[Runner]) -> None:
    """Let experiments store a runner of your own, under the name of its class.

    The class must be registered again before a stored experiment is loaded.

    Args:
        cls: The class; it is made anew from the arguments of its constructor, which it must keep
            as attributes of the same names.
    """
    _add(CORE_RUNNER_REGISTRY, *register_runners({cls: None}))


def _add(registry: Any, numbers: Any, encoders: Any, decoders: Any) -> None:
    registry.update(numbers)
    CORE_ENCODER_REGISTRY.update(encoders)
    CORE_DECODER_REGISTRY.update(decoders)


def register_all() -> None:
    """Register the classes of this package; doing so again changes nothing."""
    for cls in VALUE_OBJECTS:
        register_value_object(cls)
    for part in (BudgetExhausted, CostAwareNode, GittinsStoppingStrategy):
        CORE_ENCODER_REGISTRY[part] = _encode_init_args
        # A function, whose arguments Ax decodes; to a class that is a node it gives them as stored.
        CORE_DECODER_REGISTRY[part.__name__] = partial(part)
    CORE_ENCODER_REGISTRY[CostAwareStrategy] = _encode_strategy
    # Later versions of Ax write what JSON has no number for, and read it, in this form.
    CORE_DECODER_REGISTRY.setdefault("float", _float)
    for model in _classes(models, Model):
        register_model(model)
    register_mll(models.DenseMarginalLogLikelihood)
    for acquisition_function in _classes(acquisition, AcquisitionFunction):
        register_acquisition_function(acquisition_function)
    check_databases()


def _classes(package: ModuleType, kind: type) -> list[Any]:
    """The public classes of a package that are of a kind."""
    found = vars(package).values()
    return [one for one in found if isinstance(one, type) and issubclass(one, kind)]


def _encode(value: Any) -> dict[str, Any]:
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {"__type": PREFIX + type(value).__name__, **fields}


def _encode_method(method: methods.Method) -> dict[str, Any]:
    for field in dataclasses.fields(method):
        _check_storable(field.name, getattr(method, field.name))
    return _encode(method)


def _check_storable(argument: str, value: object) -> None:
    """Refuse what Ax's stores do not know, by the name of the argument and with a way out."""
    if value is None or isinstance(value, int | float | str):
        return
    if isinstance(value, Mapping):
        for key, part in value.items():
            _check_storable(f"{argument}[{key!r}]", part)
    elif isinstance(value, tuple | list):
        for part in value:
            _check_storable(argument, part)
    elif isfunction(value) or ismethod(value) or isbuiltin(value):
        raise JSONEncodeError(
            f"this experiment cannot be stored: {argument}={value!r} is a function. Use a "
            "value object such as AffineCost, ProductCost or TableCost, or a sum of these, or make "
            "the function a dataclass of plain values, derived from "
            "ax_costaware.costs.Cost, and pass it to "
            "ax_costaware.storage.register_value_object."
        )
    elif type(value) not in CORE_ENCODER_REGISTRY:
        raise JSONEncodeError(
            f"this experiment cannot be stored: {argument}={value!r} is of the class "
            f"{type(value).__name__}, which Ax's stores do not know. Make it a dataclass of "
            "plain values and pass it to ax_costaware.storage.register_value_object."
        )
    elif isinstance(value, methods.MixedRule):
        _check_storable(f"{argument}.rule", value.rule)
    elif isinstance(value, costs.SwitchingCost):
        _check_storable(f"{argument}.base", value.base)
    elif isinstance(value, costs.SumCost):
        _check_storable(f"{argument}.terms", value.terms)
    elif isinstance(value, costs.ControlSet):
        _check_storable(f"{argument}[{value.name!r}].cost", value.cost)


def _float(value: str) -> float:
    return float(value)


def _encode_strategy(strategy: CostAwareStrategy) -> dict[str, Any]:
    """As any of Ax's: its nodes make it one of ours again."""
    shown: GenerationStrategy = copy(strategy)
    shown.__class__ = _Unfitted
    return {**generation_strategy_to_dict(shown), "__type": GenerationStrategy.__name__}


class _Unfitted(GenerationStrategy):
    """A strategy as it is stored: Ax asks it for an adapter, which would have to be fitted."""

    adapter = None


def _encode_init_args(value: Any) -> dict[str, Any]:
    if isinstance(value, CostAwareNode):
        # Ax would store any dataclass, also one that it could not read again.
        _check_storable("method", value.method)
    return {"__type": type(value).__name__, **serialize_init_args(value)}
