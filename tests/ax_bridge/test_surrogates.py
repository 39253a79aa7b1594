"""What a user gives as Ax's surrogate specification: translated, or refused by name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import torch
from ax.exceptions.core import UserInputError
from ax.generators.torch.botorch_modular.kernels import ScaleMaternKernel
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import Normalize
from botorch.models.transforms.outcome import Standardize
from gpytorch.kernels import MaternKernel
from gpytorch.mlls import LeaveOneOutPseudoLikelihood

from ax_costaware import (
    FixedHyperparameters,
    cost_aware_strategy,
    costly_feedback_strategy,
)
from ax_costaware.ax_bridge.node import fitted_problem, node_of
from ax_costaware.ax_bridge.surrogates import model_of
from ax_costaware.core import ModelOptions
from ax_costaware.methods.cost_aware import CostAware
from ax_costaware.models import TimeVaryingGP
from ax_costaware.models.fixed_hyperparameters import FixedHyperparameterGP, FixedTimeVaryingGP
from tests.ax.gittins_toy import make_client, run_trials

pytestmark = pytest.mark.usefixtures("short_searches")


def spec(**config: Any) -> SurrogateSpec:
    """A specification with one model."""
    return SurrogateSpec(model_configs=[ModelConfig(**config)])


PLAIN = spec(botorch_model_class=SingleTaskGP)
OWN = spec(botorch_model_class=TimeVaryingGP, model_options={"forgetting": 0.1})


class OwnGP(SingleTaskGP):
    """A user's own model, with an option."""

    @classmethod
    def construct_inputs(cls, training_data: Any, *, nu: float = 2.5) -> dict[str, Any]:
        """As BoTorch has it."""
        return {**super().construct_inputs(training_data), "covar_module": MaternKernel(nu=nu)}


class OwnLikelihood(LeaveOneOutPseudoLikelihood):  # type: ignore[misc]
    """What a user maximizes."""

    calls = 0

    def __init__(self, likelihood: Any, model: Any) -> None:
        type(self).calls += 1
        super().__init__(likelihood, model)


def model_with(given: SurrogateSpec | None) -> Any:
    """The model of an experiment with two trials."""
    client = make_client(initial_trials=2, surrogate_spec=given)
    run_trials(client, 2)
    return fitted_problem(client._experiment, client._generation_strategy).model


def test_the_model_class_is_used_with_its_options() -> None:
    model = model_with(spec(botorch_model_class=OwnGP, model_options={"nu": 0.5}))
    assert type(model) is OwnGP
    assert model.covar_module.nu == 0.5
    # Outcomes and inputs are scaled as for the method's own model.
    assert float(model.train_targets.mean()) == pytest.approx(0.0, abs=1e-12)
    assert float(model.train_targets.std()) == pytest.approx(1.0)
    assert not hasattr(model, "outcome_transform")
    assert isinstance(model.input_transform, Normalize)


def test_the_kernel_is_used_with_its_options() -> None:
    """One of Ax's has a length-scale for each column, as with Ax."""
    options = {"nu": 1.5, "ard_num_dims": 2}
    given = spec(covar_module_class=MaternKernel, covar_module_options=options)
    kernel = model_with(given).covar_module
    assert isinstance(kernel, MaternKernel)
    assert (kernel.nu, kernel.lengthscale.shape[-1]) == (1.5, 2)
    assert kernel.lengthscale.dtype is torch.double
    kernel = model_with(spec(covar_module_class=ScaleMaternKernel)).covar_module
    assert isinstance(kernel, ScaleMaternKernel)
    assert kernel.base_kernel.lengthscale.shape[-1] == 2


def test_what_is_maximized_is_used() -> None:
    OwnLikelihood.calls = 0
    model_with(spec(botorch_model_class=SingleTaskGP, mll_class=OwnLikelihood))
    assert OwnLikelihood.calls > 0


def test_without_a_class_it_is_ax_own_choice() -> None:
    """A plain Gaussian process, as a specification without one has always meant."""
    assert type(model_with(SurrogateSpec(model_configs=[ModelConfig()]))) is SingleTaskGP


def test_given_hyperparameters() -> None:
    """They are in raw units on the unit cube, and the textbook's posterior is their model's."""
    fixed = FixedHyperparameters(lengthscale=0.5, outputscale=4.0, noise_variance=0.25, mean=1.0)
    found = model_of(CostAware(1.0), fixed)
    assert (found.model_class, found.options, found.is_fitted) == (
        FixedHyperparameterGP,
        fixed.options,
        False,
    )
    client = make_client(initial_trials=0, surrogate_spec=fixed)
    index = client.attach_trial({"x1": 0.25, "x2": 0.5})
    client.complete_trial(index, {"y": 3.0})
    problem = fitted_problem(client._experiment, client._generation_strategy)
    posterior = problem.model.posterior(torch.tensor([[0.75, 0.5]], dtype=torch.double))
    mean, variance = problem.scale.moments(posterior.mean, posterior.variance)
    k = 4.0 * torch.exp(torch.tensor(-0.5 * (0.5 / 0.5) ** 2, dtype=torch.double)).item()
    assert mean.item() == pytest.approx(1.0 + k / 4.25 * 2.0, rel=1e-6)
    assert variance.item() == pytest.approx(4.0 - k**2 / 4.25, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "model", "options"),
    [
        ({}, TimeVaryingGP, {}),
        ({"forgetting": 0.2}, TimeVaryingGP, {"forgetting": 0.2}),
        ({"surrogate_spec": OWN}, TimeVaryingGP, {"forgetting": 0.1}),
        (
            {"surrogate_spec": FixedHyperparameters(0.2), "forgetting": 0.05},
            FixedTimeVaryingGP,
            {**FixedHyperparameters(0.2).options, "forgetting": 0.05},
        ),
    ],
)
def test_the_model_of_a_strategy(
    arguments: dict[str, Any], model: type, options: dict[str, Any]
) -> None:
    """A model that knows time, with the forgetting rate that was given."""
    strategy = costly_feedback_strategy(**arguments)
    found: ModelOptions = node_of(strategy).loop.options
    assert (found.model_class, found.options) == (model, options)


FIELDS: dict[str, Any] = {
    "input_transform_classes": [Normalize],
    "input_transform_options": {"Normalize": {"d": 2}},
    "outcome_transform_classes": [Standardize],
    "outcome_transform_options": {"Standardize": {"m": 1}},
    "likelihood_class": torch.nn.Module,
    "likelihood_options": {"a": 1},
    "mll_options": {"a": 1},
}
"""Fields of a model that are not translated, each with a value."""

TAKEN = {"botorch_model_class", "model_options", "covar_module_class", "covar_module_options"}
REFUSED: list[tuple[str, Any]] = [
    *((name, spec(**{name: value})) for name, value in FIELDS.items()),
    *(
        (name, SurrogateSpec(**{"model_configs": [ModelConfig()], name: value}))
        for name, value in {
            "metric_to_model_configs": {"y": [ModelConfig()]},
            "allow_batched_models": False,
            "eval_criterion": "AIC",
            "use_posterior_predictive": True,
            "model_configs": [ModelConfig()] * 2,
        }.items()
    ),
    ("surrogate_spec", "gp"),
]


@pytest.mark.parametrize(("name", "given"), REFUSED, ids=[name for name, _ in REFUSED])
def test_other_fields_are_refused_by_name(name: str, given: Any) -> None:
    """When the strategy is made."""
    with pytest.raises(UserInputError, match=name):
        cost_aware_strategy(1.0, surrogate_spec=given)


def test_every_field_of_a_model_is_taken_or_refused() -> None:
    """One that Ax adds is neither, until somebody decides."""
    taken = {*TAKEN, "mll_class", "name"}
    assert {field.name for field in fields(ModelConfig)} == taken | {*FIELDS}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"surrogate_spec": FixedHyperparameters(0.2)}, "forgetting"),
        ({"surrogate_spec": PLAIN}, "surrogate_spec"),
        ({"surrogate_spec": OWN, "forgetting": 0.2}, "forgetting=0.2"),
    ],
)
def test_models_that_do_not_know_the_time(change: dict[str, Any], named: str) -> None:
    with pytest.raises(UserInputError, match=named):
        costly_feedback_strategy(**change)
