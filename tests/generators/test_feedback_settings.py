"""What is refused before anything is spent, by the arguments alone; and what the rest means."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from ax.exceptions.core import UserInputError
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from botorch.models import SingleTaskGP

from ax_costaware import (
    FixedHyperparameters,
    LogarithmicBeta,
    MixedRule,
    QueryRule,
    costly_feedback_strategy,
)
from ax_costaware.generators.feedback_settings import CostlyFeedbackSettings
from ax_costaware.generators.method_settings import model_spec_of, settings_of
from ax_costaware.models import TimeVaryingGP
from ax_costaware.models.fixed_time_varying_gp import FixedTimeVaryingGP

PLAIN = SurrogateSpec(model_configs=[ModelConfig(botorch_model_class=SingleTaskGP)])
OWN = SurrogateSpec(
    model_configs=[
        ModelConfig(botorch_model_class=TimeVaryingGP, model_options={"forgetting": 0.1})
    ]
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rule": 0.9}, "rule=0.9: expected a rule such as QueryRule"),
        ({"rule": QueryRule}, "rule=.*QueryRule.*: expected"),
        ({"beta": -1.0}, "beta=-1.0: expected a finite number >= 0"),
        ({"beta": "log"}, "beta='log': expected"),
        ({"cost": 0}, "cost=0: expected a finite number > 0"),
        ({"cost": math.nan}, "cost=nan: expected"),
        ({"cost": "hours"}, "cost='hours': expected"),
        ({"budget": 0}, "budget=0: expected a finite number > 0, or None"),
        ({"budget": math.inf}, "budget=inf"),
        (
            {"budget": 4.9},
            r"budget=4.9: it does not pay for the measurements of initial_trials=5 at cost=1.0, "
            "which take 5",
        ),
        ({"budget": 0.5, "initial_trials": 0}, "budget=0.5: it does not pay"),
        ({"time": ""}, "time='': expected the name of the metric"),
        ({"time": 3}, "time=3: expected the name"),
        ({"forgetting": 0.0}, "forgetting=0.0: expected a number strictly between 0 and 1"),
        ({"forgetting": 1}, "forgetting=1: expected"),
        ({"forgetting": math.nan}, "forgetting=nan: expected"),
        ({"initial_trials": -1}, "initial_trials=-1: expected an integer >= 0"),
        ({"charge_initial": 1}, "charge_initial=1: expected True or False"),
        ({"seed": 1.5}, "seed=1.5: expected an integer"),
        ({"num_restarts": 0}, "num_restarts=0: expected an integer >= 1"),
        ({"raw_samples": 0}, "raw_samples=0"),
        ({"surrogate_spec": "gp"}, "surrogate_spec='gp': expected"),
        ({"surrogate_spec": FixedHyperparameters(0.2)}, "forgetting=None with surrogate_spec=Fix"),
        ({"surrogate_spec": PLAIN}, "botorch_model_class=.*SingleTaskGP.*: expected TimeVaryingGP"),
        ({"surrogate_spec": SurrogateSpec()}, "botorch_model_class=None: expected TimeVaryingGP"),
        ({"surrogate_spec": OWN, "forgetting": 0.2}, "forgetting=0.2, and surrogate_spec has"),
    ],
)
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    """Each message names the argument, what it got and what it takes."""
    with pytest.raises(UserInputError, match=message):
        costly_feedback_strategy(**change)


def test_numbers_are_plain_ones() -> None:
    """So that settings made from numpy's compare equal after a reload."""
    settings = CostlyFeedbackSettings(
        beta=np.float64(2.0),
        cost=np.float32(0.5),  # type: ignore[arg-type]
        budget=np.float64(9.0),
    )
    assert settings == CostlyFeedbackSettings(beta=2.0, cost=0.5, budget=9.0)
    assert [type(v) for v in (settings.beta, settings.cost, settings.budget)] == [float] * 3


def test_beta_grows_with_the_trials() -> None:
    """The schedule counts trials from one; a number holds."""
    settings = CostlyFeedbackSettings(beta=LogarithmicBeta(0.5, 3.0))
    assert [settings.beta_at(i) for i in (0, 9)] == [0.5 * math.log(3), 0.5 * math.log(30)]
    assert [CostlyFeedbackSettings(beta=b).beta_at(9) for b in (2.0, 0.0)] == [2.0, 0.0]


def test_what_a_budget_pays() -> None:
    """Ten measurements of 0.1 fit in a budget of one, and an eleventh does not."""
    settings = CostlyFeedbackSettings(cost=0.1, budget=1.0)
    left = 1.0
    for _ in range(10):
        assert settings.pays(left)
        left -= 0.1
    assert not settings.pays(left)
    assert CostlyFeedbackSettings(cost=0.1).pays(None)
    free = CostlyFeedbackSettings(budget=1.0, charge_initial=False)
    assert free.pays(1.0), "initial trials are on the house"


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
def test_the_model(arguments: dict[str, Any], model: type, options: dict[str, Any]) -> None:
    """A model that knows time, with the forgetting rate that was given."""
    strategy = costly_feedback_strategy(**arguments)
    (config,) = model_spec_of(strategy).generator_kwargs["surrogate_spec"].model_configs
    assert config.botorch_model_class is model
    assert config.model_options == options
    settings = settings_of(strategy)
    assert isinstance(settings, CostlyFeedbackSettings)
    # Who learns how fast things change has to look now and then.
    assert isinstance(settings.rule, QueryRule if options else MixedRule)
