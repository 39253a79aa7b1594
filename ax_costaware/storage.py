"""Registers everything that an experiment of this package stores with Ax's JSON and SQL stores.

Importing ``ax_costaware`` calls ``register_all``; Ax's default configurations of both stores read
the registries that are filled here. Names are prefixed with the package's, so that ``Uniform`` here
is never taken for another's. Only values are stored, nothing is pickled or evaluated.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ax.exceptions.core import UserInputError
from ax.exceptions.storage import JSONEncodeError
from ax.storage.botorch_modular_registry import register_acquisition_function, register_model
from ax.storage.json_store.registry import CORE_DECODER_REGISTRY, CORE_ENCODER_REGISTRY
from ax.storage.transform_registry import register_transform
from ax.utils.common.serialization import serialize_init_args

from ax_costaware.acquisition import (
    ExpectedUpperConfidenceBound,
    PartialQueryLogExpectedImprovement,
)
from ax_costaware.adapter.hide_control_set import HideControlSet
from ax_costaware.generators.budget import AffordableTrials
from ax_costaware.generators.control_set_settings import ControlSetSettings
from ax_costaware.generators.initial_node import InitialControlSetNode
from ax_costaware.generators.registry import CostAwareGenerators
from ax_costaware.generators.surrogates import FixedHyperparameters
from ax_costaware.models.fixed_gp import FixedHyperparameterGP
from ax_costaware.policies.beta import TheoreticalBeta
from ax_costaware.policies.control_set_rules import (
    EpsilonSchedule,
    ExploreThenCommit,
    LargestValuePerCost,
)
from ax_costaware.queries.control_sets import ControlSet
from ax_costaware.queries.marginals import Discrete, Empirical, TruncatedNormal, Uniform

_PREFIX = "ax_costaware."

VALUE_OBJECTS: tuple[type, ...] = (
    ControlSet,
    ControlSetSettings,
    Discrete,
    Empirical,
    EpsilonSchedule,
    ExploreThenCommit,
    FixedHyperparameters,
    LargestValuePerCost,
    TheoreticalBeta,
    TruncatedNormal,
    Uniform,
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


def register_all() -> None:
    """Register the classes of this package; doing so again changes nothing."""
    for cls in VALUE_OBJECTS:
        register_value_object(cls)
    CORE_ENCODER_REGISTRY[ControlSetSettings] = _encode_settings
    for node_or_criterion in (InitialControlSetNode, AffordableTrials):
        CORE_ENCODER_REGISTRY[node_or_criterion] = _encode_init_args
        CORE_DECODER_REGISTRY[node_or_criterion.__name__] = node_or_criterion
    CORE_DECODER_REGISTRY[CostAwareGenerators.__name__] = CostAwareGenerators
    register_transform(HideControlSet)
    register_model(FixedHyperparameterGP)
    for acquisition_function in (
        ExpectedUpperConfidenceBound,
        PartialQueryLogExpectedImprovement,
    ):
        register_acquisition_function(acquisition_function)


def _encode(value: Any) -> dict[str, Any]:
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {"__type": _PREFIX + type(value).__name__, **fields}


def _encode_settings(settings: ControlSetSettings) -> dict[str, Any]:
    parts = {
        "rule": settings.rule,
        "beta": settings.beta,
        **{f"marginals[{name!r}]": marginal for name, marginal in settings.marginals.items()},
    }
    for argument, value in parts.items():
        if not isinstance(value, int | float) and type(value) not in CORE_ENCODER_REGISTRY:
            raise JSONEncodeError(
                f"this experiment cannot be stored: {argument}={value!r} is of the class "
                f"{type(value).__name__}, which Ax's stores do not know. Make it a dataclass of "
                "plain values and pass it to ax_costaware.storage.register_value_object."
            )
    return _encode(settings)


def _encode_init_args(value: Any) -> dict[str, Any]:
    return {"__type": type(value).__name__, **serialize_init_args(value)}
