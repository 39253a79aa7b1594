"""Translation of an Ax ``SurrogateSpec`` into the model options of the loop."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig

from ax_costaware.argument_checks import instance_of
from ax_costaware.core import FixedHyperparameters, ModelOptions
from ax_costaware.core.method import Method
from ax_costaware.core.model import DEFAULT, GivenModel
from ax_costaware.exceptions import InputError

_TRANSLATED = (
    "botorch_model_class",
    "model_options",
    "covar_module_class",
    "covar_module_options",
    "mll_class",
    "name",
)
"""Fields of a ``ModelConfig`` that the loop supports."""


def model_of(method: Method, given: SurrogateSpec | FixedHyperparameters | None) -> ModelOptions:
    """Return the model options of the objective.

    Args:
        method: The method.
        given: Model from the user; None for the method's own.

    Raises:
        InputError: If ``given`` is of another type, has an unsupported field, or the method cannot
            use it.
    """
    expected = "an Ax SurrogateSpec, FixedHyperparameters, or None for the method's own model"
    instance_of(given, "surrogate_spec", SurrogateSpec | FixedHyperparameters | None, expected)
    return method.model(given_model(given))


def given_model(given: SurrogateSpec | FixedHyperparameters | None) -> GivenModel:
    """Return the model that a user asks for, without Ax; see ``model_of`` for the argument."""
    if not isinstance(given, SurrogateSpec):
        return given
    configs = given.model_configs
    if len(configs) != 1:
        raise InputError(
            f"surrogate_spec has {len(configs)} model_configs: expected one ModelConfig."
        )
    (config,) = configs
    _check_fields(given, "surrogate_spec", ("model_configs",))
    _check_fields(config, "surrogate_spec.model_configs[0]", _TRANSLATED)
    return ModelOptions(
        config.name or DEFAULT,
        config.botorch_model_class,
        config.model_options,
        covar_module_class=config.covar_module_class,
        covar_module_options=config.covar_module_options,
        mll_class=None if config.mll_class is _DEFAULT_MLL else config.mll_class,
    )


_DEFAULT_MLL = ModelConfig().mll_class


def _check_fields(spec: Any, what: str, known: tuple[str, ...]) -> None:
    """Refuse unsupported fields that are set."""
    for field in fields(spec):
        default = field.default
        if default is MISSING and field.default_factory is not MISSING:
            default = field.default_factory()
        value = getattr(spec, field.name)
        if field.name not in known and value is not default and value != default:
            raise InputError(
                f"{what} has {field.name}={value!r}: expected it to be left out. The model is "
                f"fitted without Ax, which takes {', '.join(known)}."
            )
