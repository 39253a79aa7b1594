"""The surrogate of the methods whose trials are averages: a conditional mean process.

As for the other methods outcomes are in raw units, and the model standardises inside.
"""

from __future__ import annotations

from typing import Any

from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from botorch.models.transforms.outcome import Standardize

from ax_costaware.adapter.decoded_conditional import DecodedConditional
from ax_costaware.generators.target_columns import target_transform
from ax_costaware.generators.target_settings import TargetSettings
from ax_costaware.models.conditional_mean_process import ConditionalMeanProcess
from ax_costaware.models.dense_marginal_likelihood import DenseMarginalLogLikelihood
from ax_costaware.models.fixed_conditional_mean_process import FixedConditionalMeanProcess


def conditional_mean_spec(settings: TargetSettings, law: DecodedConditional) -> SurrogateSpec:
    """The Ax surrogate for a law, with given hyperparameters or fitted ones.

    Args:
        settings: The settings of the strategy.
        law: The law of a point given a query of the model's space.
    """
    parameters = settings.target_parameters
    options: dict[str, Any] = {
        "conditional": law,
        "target_transform": target_transform(parameters),
        "categorical": tuple(i for i, p in enumerate(parameters) if not p.is_numeric),
    }
    noise = settings.noise
    if noise is not None:
        options["noise"] = lambda A: noise(law.raw(A))
    given = settings.hyperparameters
    if given is None:
        config = ModelConfig(
            botorch_model_class=ConditionalMeanProcess,
            mll_class=DenseMarginalLogLikelihood,
            model_options=options,
            input_transform_classes=None,
            outcome_transform_classes=[Standardize],
            name="ConditionalMeanProcess",
        )
    else:
        numbers = {
            "lengthscale": given.lengthscale,
            "outputscale": given.outputscale,
            "noise_variance": given.noise_variance,
            "mean": given.mean,
        }
        config = ModelConfig(
            botorch_model_class=FixedConditionalMeanProcess,
            model_options={**options, **numbers},
            input_transform_classes=None,
            name="FixedHyperparameters",
        )
    return SurrogateSpec(model_configs=[config])
