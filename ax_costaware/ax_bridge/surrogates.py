"""The models of the methods as Ax's surrogate specifications, and what users give as such.

A strategy models the objective in raw units, without Ax's ``StandardizeY``, so that thresholds and
recommendations need no conversion. The surrogate standardises inside instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ax.exceptions.core import UserInputError
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from botorch.models.transforms.outcome import Standardize

from ax_costaware.methods.method import Method
from ax_costaware.methods.model import FixedHyperparameters, ModelOptions
from ax_costaware.models.dense_marginal_likelihood import DenseMarginalLogLikelihood


def surrogate_spec_of(models: Sequence[ModelOptions]) -> SurrogateSpec:
    """Ax's surrogate of some models."""
    return SurrogateSpec(model_configs=[_config(model) for model in models])


def resolved_surrogate_spec(
    method: Method, given: SurrogateSpec | FixedHyperparameters | None
) -> tuple[SurrogateSpec, list[ModelOptions]]:
    """The specification to use for what the user gave, and its models as the method sees them.

    A user's ``SurrogateSpec`` comes from a setting in which Ax standardises outcomes, so where it
    says nothing about outcome transforms it gets ``Standardize``; ``outcome_transform_classes=[]``
    asks for none.

    Raises:
        UserInputError: If ``given`` is neither of the two.
        InputError: If the method cannot use it.
    """
    if given is None or isinstance(given, FixedHyperparameters):
        options = method.model(given)
        return surrogate_spec_of([options]), [options]
    if not isinstance(given, SurrogateSpec):
        raise UserInputError(
            f"surrogate_spec={given!r}: expected an Ax SurrogateSpec, FixedHyperparameters, "
            "or None for Ax's default."
        )
    seen: list[ModelOptions] = []

    def adapted(config: ModelConfig) -> ModelConfig:
        name = config.name or "given"
        found = ModelOptions(name, config.botorch_model_class, config.model_options)
        options = method.model(found)
        seen.append(options)
        transforms = config.outcome_transform_classes
        return replace(
            config,
            model_options=dict(options.options),
            outcome_transform_classes=[Standardize] if transforms is None else transforms,
        )

    spec = replace(
        given,
        model_configs=[adapted(config) for config in given.model_configs],
        metric_to_model_configs={
            metric: [adapted(config) for config in configs]
            for metric, configs in given.metric_to_model_configs.items()
        },
    )
    return spec, seen


def _config(model: ModelOptions) -> ModelConfig:
    more: dict[str, Any] = {"mll_class": DenseMarginalLogLikelihood} if model.is_fitted else {}
    if not model.normalizes:
        more["input_transform_classes"] = None
    return ModelConfig(
        botorch_model_class=model.model_class,
        model_options=dict(model.options),
        outcome_transform_classes=[Standardize] if model.is_fitted else None,
        name=model.name,
        **more,
    )
