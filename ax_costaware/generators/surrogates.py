"""Surrogate specifications: Ax's default, a user's own, or one with given hyperparameters.

The strategy models the objective in raw units, without Ax's ``StandardizeY``, so that thresholds
and recommendations need no conversion. The surrogate standardises inside instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ax.exceptions.core import UserInputError
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from botorch.models.transforms.outcome import Standardize

from ax_costaware.models.dense_marginal_likelihood import DenseMarginalLogLikelihood
from ax_costaware.models.fixed_gp import FixedHyperparameterGP


@dataclass(frozen=True)
class FixedHyperparameters:
    """Hyperparameters of a GP with a squared-exponential kernel, given instead of fitted.

    Inputs are scaled to the unit cube by the bounds of the parameters, after their log or logit
    scale; a one-hot encoded choice parameter has a column for each value. Outcomes stay in raw
    units. The paper's setting is ``FixedHyperparameters(lengthscale=0.1, outputscale=1.0,
    noise_variance=1e-4)``.

    Raises:
        UserInputError: If a number is not finite, or not positive where it must be.
    """

    lengthscale: float | tuple[float, ...]
    """Length-scale on the unit cube: one for all inputs, or one per column of the model."""

    outputscale: float = 1.0
    """Prior variance of the objective, in its unit squared."""

    noise_variance: float = 1e-4
    """Variance of the observation noise, in the objective's unit squared; reported standard errors
    replace it."""

    mean: float = 0.0
    """Prior mean of the objective, in its unit."""

    def __post_init__(self) -> None:
        if not isinstance(self.lengthscale, int | float):
            object.__setattr__(self, "lengthscale", tuple(self.lengthscale))
        lengthscales = (
            self.lengthscale if isinstance(self.lengthscale, tuple) else (self.lengthscale,)
        )
        positive = [("lengthscale", value) for value in lengthscales]
        positive += [("outputscale", self.outputscale), ("noise_variance", self.noise_variance)]
        if not lengthscales:
            raise UserInputError("lengthscale=(): expected at least one number > 0.")
        for name, value in positive:
            if not _is_finite(value) or value <= 0:
                raise UserInputError(f"{name}={value!r}: expected a finite number > 0.")
        if not _is_finite(self.mean):
            raise UserInputError(f"mean={self.mean!r}: expected a finite number.")

    def surrogate_spec(self) -> SurrogateSpec:
        """The Ax surrogate with these hyperparameters."""
        lengthscale = self.lengthscale
        return SurrogateSpec(
            model_configs=[
                ModelConfig(
                    botorch_model_class=FixedHyperparameterGP,
                    model_options={
                        # A list, since JSON has no tuples.
                        "lengthscale": list(lengthscale)
                        if isinstance(lengthscale, tuple)
                        else lengthscale,
                        "outputscale": self.outputscale,
                        "noise_variance": self.noise_variance,
                        "mean": self.mean,
                    },
                    outcome_transform_classes=[],
                    name="FixedHyperparameters",
                )
            ]
        )


def default_surrogate_spec() -> SurrogateSpec:
    """Ax's default surrogate, with outcomes standardised inside the model."""
    return SurrogateSpec(
        model_configs=[
            ModelConfig(
                mll_class=DenseMarginalLogLikelihood,
                outcome_transform_classes=[Standardize],
                name="default",
            )
        ]
    )


def resolved_surrogate_spec(
    surrogate: SurrogateSpec | FixedHyperparameters | None,
) -> SurrogateSpec:
    """The specification to use for what the user gave.

    A user's ``SurrogateSpec`` comes from a setting in which Ax standardises outcomes, so where it
    says nothing about outcome transforms it gets ``Standardize``; ``outcome_transform_classes=[]``
    asks for none.

    Raises:
        UserInputError: If ``surrogate`` is neither of the two.
    """
    if surrogate is None:
        return default_surrogate_spec()
    if isinstance(surrogate, FixedHyperparameters):
        return surrogate.surrogate_spec()
    if not isinstance(surrogate, SurrogateSpec):
        raise UserInputError(
            f"surrogate_spec={surrogate!r}: expected an Ax SurrogateSpec, FixedHyperparameters, "
            "or None for Ax's default."
        )
    return replace(
        surrogate,
        model_configs=[_standardized(config) for config in surrogate.model_configs],
        metric_to_model_configs={
            metric: [_standardized(config) for config in configs]
            for metric, configs in surrogate.metric_to_model_configs.items()
        },
    )


def _standardized(config: ModelConfig) -> ModelConfig:
    if config.outcome_transform_classes is not None:
        return config
    return replace(config, outcome_transform_classes=[Standardize])


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
