"""Registration of the package's classes with Ax's JSON and SQL stores.

Importing ``ax_costaware`` calls ``register_all``, which fills the registries of Ax's default
configurations of both stores. Names have the package's prefix, so that another ``Uniform`` does not
clash. Only values are stored; nothing is pickled or evaluated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from copy import copy
from functools import partial
from inspect import isbuiltin, isfunction, ismethod
from types import ModuleType
from typing import Any

import numpy as np
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
    space.AtMost,
    space.Candidates,
    space.Choice,
    space.Descriptors,
    methods.ControlSets,
    methods.CostlyFeedback,
    core.FixedHyperparameters,
    methods.CostAware,
    methods.Gittins,
    methods.IndirectQueries,
    methods.MultiFidelity,
    space.NonlinearConstraint,
    space.Range,
    methods.TreeSearch,
    methods.BernoulliRule,
    methods.CompactDomainBeta,
    methods.EpsilonSchedule,
    methods.ExploreThenCommit,
    methods.FiniteDomainBeta,
    methods.FullFeedback,
    methods.GittinsDecay,
    methods.GittinsStop,
    methods.ImprovementPerCostStop,
    methods.LCBUCBRule,
    methods.LargestValuePerCost,
    methods.LatentUCB,
    methods.LogarithmicBeta,
    methods.MixedRule,
    methods.MeasurementRule,
    methods.StandardizedPrice,
    methods.TheoreticalBeta,
    methods.UnknownCosts,
    costs.AffineCost,
    costs.BatchCost,
    costs.Budget,
    costs.LinearSwitch,
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
    costs.TableSwitch,
    laws.TruncatedNormal,
    laws.Uniform,
    laws.UniformBoxConditional,
)
"""Frozen dataclasses of the package that may be part of a stored strategy."""


def register_value_object(cls: type) -> None:
    """Register a dataclass for storage, such as your own rule.

    Its fields must be plain values or registered value objects. Register it again before a stored
    experiment is loaded.

    Args:
        cls: The dataclass.

    Raises:
        UserInputError: If ``cls`` is not a dataclass.
    """
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise UserInputError(f"cls={cls!r}: expected a dataclass.")
    CORE_ENCODER_REGISTRY[cls] = _encode_method if issubclass(cls, methods.Method) else _encode
    CORE_DECODER_REGISTRY[PREFIX + cls.__name__] = cls


def register_metric(cls: type[Metric]) -> None:
    """Register your own metric for storage, under the name of its class.

    Register the class again before a stored experiment is loaded.

    Args:
        cls: The class. Arguments of its constructor must be kept as attributes of the same names,
            from which a stored metric is made again.
    """
    _add(CORE_METRIC_REGISTRY, *register_metrics({cls: None}, {}, {}))


def register_runner(cls: type[Runner]) -> None:
    """Register your own runner for storage, under the name of its class.

    Register the class again before a stored experiment is loaded.

    Args:
        cls: The class. Arguments of its constructor must be kept as attributes of the same names,
            from which a stored runner is made again.
    """
    _add(CORE_RUNNER_REGISTRY, *register_runners({cls: None}))


def _add(registry: Any, numbers: Any, encoders: Any, decoders: Any) -> None:
    registry.update(numbers)
    CORE_ENCODER_REGISTRY.update(encoders)
    CORE_DECODER_REGISTRY.update(decoders)


def register_all() -> None:
    """Register the classes of this package; repeated calls change nothing."""
    for cls in VALUE_OBJECTS:
        register_value_object(cls)
    for part in (BudgetExhausted, CostAwareNode, GittinsStoppingStrategy):
        CORE_ENCODER_REGISTRY[part] = _encode_init_args
        # A function, since Ax decodes its arguments; a node class would get them as stored.
        CORE_DECODER_REGISTRY[part.__name__] = partial(part)
    CORE_ENCODER_REGISTRY[space.Candidates] = _encode_candidates
    CORE_ENCODER_REGISTRY[CostAwareStrategy] = _encode_strategy
    # Form in which later versions of Ax store infinite numbers and NaN.
    CORE_DECODER_REGISTRY.setdefault("float", _float)
    for model in _classes(models, Model):
        register_model(model)
    register_mll(models.DenseMarginalLogLikelihood)
    for acquisition_function in _classes(acquisition, AcquisitionFunction):
        register_acquisition_function(acquisition_function)
    check_databases()


def _classes(package: ModuleType, kind: type) -> list[Any]:
    """Return the public classes of a kind in a package."""
    found = vars(package).values()
    return [one for one in found if isinstance(one, type) and issubclass(one, kind)]


def _encode(value: Any) -> dict[str, Any]:
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {"__type": PREFIX + type(value).__name__, **fields}


def _encode_candidates(candidates: space.Candidates) -> dict[str, Any]:
    # As a text, since Ax encodes values one by one, which takes seconds for a large table.
    return {**_encode(candidates), "table": candidates.text}


def _encode_method(method: methods.Method) -> dict[str, Any]:
    for field in dataclasses.fields(method):
        _check_storable(field.name, getattr(method, field.name))
    return _encode(method)


_PLAIN = {bool, float, int, str, type(None)}


def _check_storable(argument: str, value: object) -> None:
    """Refuse values that Ax's stores cannot keep, with the name of the argument and a remedy."""
    if isinstance(value, int | float | str | np.ndarray | None):
        return
    if isinstance(value, Mapping):
        for key, part in value.items():
            _check_storable(f"{argument}[{key!r}]", part)
    elif isinstance(value, tuple | list):
        for part in value if not set(map(type, value)) <= _PLAIN else ():  # data may be long
            _check_storable(argument, part)
    elif isfunction(value) or ismethod(value) or isbuiltin(value):
        if argument == "input_constraints":
            raise JSONEncodeError(
                f"this experiment cannot be stored: {argument} has the function {value!r}. Use a "
                "NonlinearConstraint, such as NonlinearConstraint('width * depth <= 4000')."
            )
        raise JSONEncodeError(
            f"this experiment cannot be stored: {argument}={value!r} is a function. Use a "
            "value object such as AffineCost, ProductCost or TableCost, or a sum of these, or make "
            "the function a dataclass of plain values, derived from "
            "ax_costaware.costs.Cost, and pass it to "
            "ax_costaware.storage.register_value_object."
        )
    else:
        _check_known(argument, value)
        name = getattr(value, "name", None)
        place = argument if name is None else f"{argument}[{name!r}]"
        for field in dataclasses.fields(value) if dataclasses.is_dataclass(value) else ():
            _check_storable(f"{place}.{field.name}", getattr(value, field.name))


def _check_known(argument: str, value: object) -> None:
    """Refuse a value of a class that Ax's stores do not know."""
    if type(value) not in CORE_ENCODER_REGISTRY:
        raise JSONEncodeError(
            f"this experiment cannot be stored: {argument}={value!r} is of the class "
            f"{type(value).__name__}, which Ax's stores do not know. Make it a dataclass of "
            "plain values and pass it to ax_costaware.storage.register_value_object."
        )


def _float(value: str) -> float:
    return float(value)


def _encode_strategy(strategy: CostAwareStrategy) -> dict[str, Any]:
    """Encode the strategy as one of Ax's; its nodes restore this package's class."""
    shown: GenerationStrategy = copy(strategy)
    shown.__class__ = _Unfitted
    return {**generation_strategy_to_dict(shown), "__type": GenerationStrategy.__name__}


class _Unfitted(GenerationStrategy):
    """Strategy for encoding: Ax asks it for an adapter, which would have to be fitted."""

    adapter = None


def _encode_init_args(value: Any) -> dict[str, Any]:
    if isinstance(value, CostAwareNode):
        # Ax would store any dataclass, even one that it cannot read again.
        _check_known("method", value.method)
    return {"__type": type(value).__name__, **serialize_init_args(value)}
