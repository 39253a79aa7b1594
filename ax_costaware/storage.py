"""Registers everything that an experiment of this package stores with Ax's JSON and SQL stores.

Importing ``ax_costaware`` calls ``register_all``; Ax's default configurations of both stores read
the registries that are filled here. Names are prefixed with the package's, so that ``Uniform`` here
is never taken for another's. Only values are stored, nothing is pickled or evaluated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from inspect import isbuiltin, isfunction, ismethod
from typing import Any

from ax.core.metric import Metric
from ax.core.runner import Runner
from ax.exceptions.core import UserInputError
from ax.exceptions.storage import JSONEncodeError
from ax.storage.botorch_modular_registry import (
    register_acquisition_function,
    register_mll,
    register_model,
)
from ax.storage.json_store.registry import CORE_DECODER_REGISTRY, CORE_ENCODER_REGISTRY
from ax.storage.metric_registry import CORE_METRIC_REGISTRY, register_metrics
from ax.storage.runner_registry import CORE_RUNNER_REGISTRY, register_runners
from ax.storage.transform_registry import register_transform
from ax.utils.common.serialization import serialize_init_args

from ax_costaware.acquisition import (
    ConditionalJointEntropySearch,
    ConditionalMaxValueEntropySearch,
    ExpectedUpperConfidenceBound,
    LogExpectedImprovementPerCost,
    PandoraBoxGittinsIndex,
    PartialQueryLogExpectedImprovement,
)
from ax_costaware.adapter.hide_control_set import HideControlSet
from ax_costaware.adapter.time_feature import TimeFeature
from ax_costaware.generators.budget import AffordableTrials
from ax_costaware.generators.control_set_settings import ControlSetSettings
from ax_costaware.generators.feedback_node import InitialFeedbackNode
from ax_costaware.generators.feedback_settings import CostlyFeedbackSettings
from ax_costaware.generators.gittins_nodes import AffordableBatch, InitialGittinsNode
from ax_costaware.generators.gittins_settings import GittinsSettings
from ax_costaware.generators.gittins_stopping import GittinsStoppingStrategy
from ax_costaware.generators.indirect_node import InitialQueryNode, QueryNode
from ax_costaware.generators.indirect_settings import IndirectQuerySettings
from ax_costaware.generators.initial_node import InitialControlSetNode
from ax_costaware.generators.registry import CostAwareGenerators
from ax_costaware.generators.surrogates import FixedHyperparameters
from ax_costaware.generators.target_parameters import TargetChoice, TargetRange
from ax_costaware.generators.tree_node import CellNode, InitialCellNode
from ax_costaware.generators.tree_settings import ResolutionTreeSettings
from ax_costaware.models.conditional_mean_process import ConditionalMeanProcess
from ax_costaware.models.dense_marginal_likelihood import DenseMarginalLogLikelihood
from ax_costaware.models.fixed_conditional_mean_process import FixedConditionalMeanProcess
from ax_costaware.models.fixed_gp import FixedHyperparameterGP
from ax_costaware.models.fixed_time_varying_gp import FixedTimeVaryingGP
from ax_costaware.models.time_varying_gp import TimeVaryingGP
from ax_costaware.policies.beta import LogarithmicBeta, TheoreticalBeta
from ax_costaware.policies.control_set_rules import (
    EpsilonSchedule,
    ExploreThenCommit,
    InformationPerCost,
    LargestValuePerCost,
    UnknownCosts,
)
from ax_costaware.policies.gittins import GittinsDecay, GittinsStop, ImprovementPerCostStop
from ax_costaware.policies.query_rules import (
    BernoulliRule,
    FullFeedback,
    LCBUCBRule,
    MixedRule,
    QueryRule,
)
from ax_costaware.queries.conditionals import (
    FiniteConditional,
    GaussianConditional,
    LearnedConditional,
    UniformBoxConditional,
)
from ax_costaware.queries.control_sets import ControlSet
from ax_costaware.queries.costs import AffineCost, ConstantCost, TableCost
from ax_costaware.queries.joint import GaussianCopula, JointEmpirical
from ax_costaware.queries.marginals import (
    Discrete,
    Empirical,
    Learned,
    TruncatedNormal,
    Uniform,
)

_PREFIX = "ax_costaware."

VALUE_OBJECTS: tuple[type, ...] = (
    AffineCost,
    BernoulliRule,
    ConstantCost,
    ControlSet,
    ControlSetSettings,
    CostlyFeedbackSettings,
    Discrete,
    Empirical,
    EpsilonSchedule,
    ExploreThenCommit,
    FiniteConditional,
    FixedHyperparameters,
    FullFeedback,
    GaussianConditional,
    GaussianCopula,
    GittinsDecay,
    GittinsSettings,
    GittinsStop,
    ImprovementPerCostStop,
    IndirectQuerySettings,
    InformationPerCost,
    JointEmpirical,
    LCBUCBRule,
    LargestValuePerCost,
    Learned,
    LearnedConditional,
    LogarithmicBeta,
    MixedRule,
    QueryRule,
    ResolutionTreeSettings,
    TableCost,
    TargetChoice,
    TargetRange,
    TheoreticalBeta,
    TruncatedNormal,
    Uniform,
    UniformBoxConditional,
    UnknownCosts,
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
    CORE_ENCODER_REGISTRY[cls] = _encode
    CORE_DECODER_REGISTRY[_PREFIX + cls.__name__] = cls


def register_metric(cls: type[Metric]) -> None:
    """Let experiments store a metric of your own, under the name of its class.

    The class must be registered again before a stored experiment is loaded.

    Args:
        cls: The class; it is made anew from the arguments of its constructor, which it must keep
            as attributes of the same names.
    """
    numbers, encoders, decoders = register_metrics({cls: None}, {}, {})
    CORE_METRIC_REGISTRY.update(numbers)
    CORE_ENCODER_REGISTRY.update(encoders)
    CORE_DECODER_REGISTRY.update(decoders)


def register_runner(cls: type[Runner]) -> None:
    """Let experiments store a runner of your own, under the name of its class.

    The class must be registered again before a stored experiment is loaded.

    Args:
        cls: The class; it is made anew from the arguments of its constructor, which it must keep
            as attributes of the same names.
    """
    numbers, encoders, decoders = register_runners({cls: None})
    CORE_RUNNER_REGISTRY.update(numbers)
    CORE_ENCODER_REGISTRY.update(encoders)
    CORE_DECODER_REGISTRY.update(decoders)


def register_all() -> None:
    """Register the classes of this package; doing so again changes nothing."""
    for cls in VALUE_OBJECTS:
        register_value_object(cls)
    CORE_ENCODER_REGISTRY[ControlSetSettings] = _encode_settings
    CORE_ENCODER_REGISTRY[CostlyFeedbackSettings] = _encode_feedback_settings
    CORE_ENCODER_REGISTRY[GittinsSettings] = _encode_gittins_settings
    CORE_ENCODER_REGISTRY[IndirectQuerySettings] = _encode_indirect_settings
    for part in (
        AffordableBatch,
        AffordableTrials,
        CellNode,
        GittinsStoppingStrategy,
        InitialCellNode,
        InitialControlSetNode,
        InitialFeedbackNode,
        InitialGittinsNode,
        InitialQueryNode,
        QueryNode,
    ):
        CORE_ENCODER_REGISTRY[part] = _encode_init_args
        CORE_DECODER_REGISTRY[part.__name__] = part
    CORE_DECODER_REGISTRY[CostAwareGenerators.__name__] = CostAwareGenerators
    for transform in (HideControlSet, TimeFeature):
        register_transform(transform)
    for model in (
        ConditionalMeanProcess,
        FixedConditionalMeanProcess,
        FixedHyperparameterGP,
        FixedTimeVaryingGP,
        TimeVaryingGP,
    ):
        register_model(model)
    register_mll(DenseMarginalLogLikelihood)
    for acquisition_function in (
        ConditionalJointEntropySearch,
        ConditionalMaxValueEntropySearch,
        ExpectedUpperConfidenceBound,
        LogExpectedImprovementPerCost,
        PandoraBoxGittinsIndex,
        PartialQueryLogExpectedImprovement,
    ):
        register_acquisition_function(acquisition_function)


def _encode(value: Any) -> dict[str, Any]:
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {"__type": _PREFIX + type(value).__name__, **fields}


def _encode_settings(settings: ControlSetSettings) -> dict[str, Any]:
    marginals = {f"marginals[{name!r}]": m for name, m in settings.marginals.items()}
    joint = {} if settings.joint is None else {"joint": settings.joint}
    _check_storable({"rule": settings.rule, "beta": settings.beta, **marginals, **joint})
    return _encode(settings)


def _encode_feedback_settings(settings: CostlyFeedbackSettings) -> dict[str, Any]:
    rule = settings.rule
    _check_storable({"rule": rule, "beta": settings.beta})
    while isinstance(rule, MixedRule):
        rule = rule.rule
        _check_storable({"rule.rule": rule})
    return _encode(settings)


def _encode_gittins_settings(settings: GittinsSettings) -> dict[str, Any]:
    parts = {"cost": settings.cost, "decay": settings.decay, "stop": settings.stop}
    _check_storable({name: value for name, value in parts.items() if value is not None})
    return _encode(settings)


def _encode_indirect_settings(settings: IndirectQuerySettings) -> dict[str, Any]:
    _check_storable({"conditional": settings.conditional, "cost": settings.cost})
    return _encode(settings)


def _check_storable(parts: Mapping[str, object]) -> None:
    """Refuse what Ax's stores do not know, by the name of the argument and with a way out."""
    for argument, value in parts.items():
        if isinstance(value, int | float | str) or type(value) in CORE_ENCODER_REGISTRY:
            continue
        if isfunction(value) or ismethod(value) or isbuiltin(value):
            raise JSONEncodeError(
                f"this experiment cannot be stored: {argument}={value!r} is a function. Use a "
                "value object such as AffineCost or TableCost, or make the function a dataclass "
                "of plain values, derived from ax_costaware.queries.costs.Cost, and pass it to "
                "ax_costaware.storage.register_value_object."
            )
        raise JSONEncodeError(
            f"this experiment cannot be stored: {argument}={value!r} is of the class "
            f"{type(value).__name__}, which Ax's stores do not know. Make it a dataclass of "
            "plain values and pass it to ax_costaware.storage.register_value_object."
        )


def _encode_init_args(value: Any) -> dict[str, Any]:
    return {"__type": type(value).__name__, **serialize_init_args(value)}
