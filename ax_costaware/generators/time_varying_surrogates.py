"""Surrogate specifications for an objective that drifts: models whose last input is time.

As for the other methods outcomes are in raw units, and the model standardises inside.
"""

from __future__ import annotations

from dataclasses import replace

from ax.exceptions.core import UserInputError
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig

from ax_costaware.exceptions import InputError
from ax_costaware.generators.surrogates import FixedHyperparameters, resolved_surrogate_spec
from ax_costaware.models.dense_marginal_likelihood import DenseMarginalLogLikelihood
from ax_costaware.models.fixed_time_varying_gp import FixedTimeVaryingGP
from ax_costaware.models.time_varying_gp import TimeVaryingGP
from ax_costaware.queries.argument_checks import number_between_zero_and_one


def time_varying_surrogate_spec(
    surrogate: SurrogateSpec | FixedHyperparameters | None, forgetting: float | None
) -> SurrogateSpec:
    """The specification to use for what the user gave.

    Args:
        surrogate: An Ax ``SurrogateSpec`` whose models are ``TimeVaryingGP``, hyperparameters, or
            None for a ``TimeVaryingGP`` with fitted ones.
        forgetting: The forgetting rate per unit of time, in (0, 1); None: the model fits it.

    Raises:
        UserInputError: If ``forgetting`` is not in (0, 1), is missing where all other
            hyperparameters are given, or is given twice, or a model does not know time.
    """
    if forgetting is not None:
        try:
            forgetting = number_between_zero_and_one(forgetting, "forgetting")
        except InputError as error:
            raise UserInputError(str(error)) from error
    if surrogate is None:
        surrogate = SurrogateSpec(
            model_configs=[
                ModelConfig(
                    botorch_model_class=TimeVaryingGP,
                    mll_class=DenseMarginalLogLikelihood,
                    name="TimeVarying",
                )
            ]
        )
    elif isinstance(surrogate, FixedHyperparameters):
        if forgetting is None:
            raise UserInputError(
                f"forgetting=None with surrogate_spec={surrogate!r}: nothing is fitted there, so "
                "the forgetting rate is needed, too."
            )
        (config,) = surrogate.surrogate_spec().model_configs
        surrogate = SurrogateSpec(
            model_configs=[replace(config, botorch_model_class=FixedTimeVaryingGP)]
        )
    # What an Ax specification leaves open about outcomes is settled as for the other methods.
    surrogate = resolved_surrogate_spec(surrogate)
    return replace(
        surrogate,
        model_configs=[_with_forgetting(config, forgetting) for config in surrogate.model_configs],
        metric_to_model_configs={
            metric: [_with_forgetting(config, forgetting) for config in configs]
            for metric, configs in surrogate.metric_to_model_configs.items()
        },
    )


def gives_forgetting(surrogate: SurrogateSpec) -> bool:
    """Whether every model of a specification has its forgetting rate given."""
    configs = [
        *surrogate.model_configs,
        *(c for configs in surrogate.metric_to_model_configs.values() for c in configs),
    ]
    return all("forgetting" in config.model_options for config in configs)


def _with_forgetting(config: ModelConfig, forgetting: float | None) -> ModelConfig:
    model_class = config.botorch_model_class
    if model_class is None or not issubclass(model_class, TimeVaryingGP):
        raise UserInputError(
            f"surrogate_spec has a ModelConfig with botorch_model_class={model_class!r}: expected "
            "TimeVaryingGP, or a class derived from it, since the objective drifts."
        )
    if forgetting is None:
        return config
    if "forgetting" in config.model_options:
        raise UserInputError(
            f"forgetting={forgetting!r}, and surrogate_spec has model_options="
            f"{config.model_options!r}: expected it in one of them."
        )
    return replace(config, model_options={**config.model_options, "forgetting": forgetting})
