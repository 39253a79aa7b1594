"""Models as Ax's surrogate specifications, and what a user gives as such."""

from __future__ import annotations

from typing import Any

import pytest
from ax.exceptions.core import UserInputError
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from botorch.models import SingleTaskGP

from ax_costaware import FixedHyperparameters, MixedRule, QueryRule, costly_feedback_strategy
from ax_costaware.ax_bridge.generator import settled_with_surrogate
from ax_costaware.ax_bridge.nodes import method_of_class, model_spec_of
from ax_costaware.methods.costly_feedback import CostlyFeedback
from ax_costaware.methods.gittins import Gittins
from ax_costaware.models import TimeVaryingGP
from ax_costaware.models.fixed_hyperparameters import FixedHyperparameterGP, FixedTimeVaryingGP
from ax_costaware.models.standardize import StandardizeAnyScale

PLAIN = SurrogateSpec(model_configs=[ModelConfig(botorch_model_class=SingleTaskGP)])
OWN = SurrogateSpec(
    model_configs=[
        ModelConfig(botorch_model_class=TimeVaryingGP, model_options={"forgetting": 0.1})
    ]
)


def test_user_surrogate_is_standardized_unless_it_says_otherwise() -> None:
    """As Ax would have done with its outcomes."""
    given = SurrogateSpec(model_configs=[ModelConfig(), ModelConfig(outcome_transform_classes=[])])
    _, spec = settled_with_surrogate(Gittins(1.0), given)
    assert [c.outcome_transform_classes for c in spec.model_configs] == [[StandardizeAnyScale], []]


def test_fitted_models_standardize_inside_and_given_ones_do_not() -> None:
    """Both take outcomes in raw units."""
    (fitted,) = settled_with_surrogate(Gittins(1.0), None)[1].model_configs
    assert fitted.outcome_transform_classes == [StandardizeAnyScale]
    given = FixedHyperparameters(0.3, 2.0)
    (fixed,) = settled_with_surrogate(Gittins(1.0), given)[1].model_configs
    assert fixed.outcome_transform_classes is None
    assert fixed.botorch_model_class is FixedHyperparameterGP
    assert fixed.model_options == given.options


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"surrogate_spec": FixedHyperparameters(0.2)},
            "forgetting=None .*surrogate_spec.*=Fix",
        ),
        ({"surrogate_spec": PLAIN}, "surrogate_spec .*SingleTaskGP.*: expected TimeVaryingGP"),
        ({"surrogate_spec": SurrogateSpec()}, "surrogate_spec .* None: expected TimeVaryingGP"),
        ({"surrogate_spec": OWN, "forgetting": 0.2}, "forgetting=0.2, and surrogate_spec .*has"),
    ],
)
def test_models_that_do_not_know_the_time(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserInputError, match=message):
        costly_feedback_strategy(**change)


@pytest.mark.parametrize(
    ("arguments", "model", "options"),
    [
        ({}, TimeVaryingGP, {}),
        ({"forgetting": 0.2}, TimeVaryingGP, {"forgetting": 0.2}),
        ({"surrogate_spec": OWN}, TimeVaryingGP, {"forgetting": 0.1}),
        (
            {"surrogate_spec": FixedHyperparameters(0.2), "forgetting": 0.05},
            FixedTimeVaryingGP,
            {
                "lengthscale": 0.2,
                "outputscale": 1.0,
                "noise_variance": 1e-4,
                "mean": 0.0,
                "forgetting": 0.05,
            },
        ),
    ],
)
def test_the_model_of_a_strategy(
    arguments: dict[str, Any], model: type, options: dict[str, Any]
) -> None:
    """A model that knows time, with the forgetting rate that was given."""
    strategy = costly_feedback_strategy(**arguments)
    (config,) = model_spec_of(strategy).generator_kwargs["surrogate_spec"].model_configs
    assert config.botorch_model_class is model
    assert config.model_options == options
    method = method_of_class(strategy, CostlyFeedback)
    # Who learns how fast things change has to look now and then.
    assert isinstance(method.rule, QueryRule if options else MixedRule)
