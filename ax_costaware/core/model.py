"""What a method models with: a class of BoTorch models and its options, given or fitted.

A model sees outcomes on an ``OutcomeScale``: standardized ones if it is fitted, and else in units
of the prior that is given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from inspect import signature
from numbers import Real
from typing import Any

from botorch.fit import fit_fully_bayesian_model_nuts, fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.fully_bayesian import AbstractFullyBayesianSingleTaskGP
from botorch.models.model import Model
from botorch.models.transforms.input import Normalize
from botorch.utils.datasets import SupervisedDataset
from gpytorch.kernels import Kernel
from gpytorch.mlls import MarginalLogLikelihood
from torch import Tensor

from ax_costaware.argument_checks import (
    check_fields,
    checked_items,
    finite_number,
    instance_of,
    one_of,
    positive_number,
)
from ax_costaware.exceptions import InputError
from ax_costaware.models import DefaultGP, DenseMarginalLogLikelihood
from ax_costaware.models.outcome_scale import OutcomeScale
from ax_costaware.space.space import Space

GIVEN = "FixedHyperparameters"
"""Name of a model whose hyperparameters are given."""

DEFAULT = "default"
"""Name of a model that nobody has named."""

ARGUMENT = "surrogate_spec (of a Simulation: hyperparameters)"
"""How a refusal names what the user asks a method to model with."""


@dataclass(frozen=True)
class FixedHyperparameters:
    """Hyperparameters of a GP, given instead of fitted.

    Inputs are scaled to the unit cube by the bounds of the parameters, after their log or logit
    scale; a one-hot encoded choice parameter has a column for each value. Outcomes stay in raw
    units. The paper's setting is ``FixedHyperparameters(lengthscale=0.1, outputscale=1.0,
    noise_variance=1e-4)``.

    Raises:
        InputError: If a number is not finite, or not positive where it must be.
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

    kernel: str = "squared_exponential"
    """``"squared_exponential"``, or ``"matern"`` for Matern 5/2."""

    def __post_init__(self) -> None:
        expected = "a finite number > 0, or several"
        several = partial(checked_items, expected=expected, check=positive_number)
        one_of(self.kernel, "kernel", ("squared_exponential", "matern"))
        check_fields(
            self,
            lengthscale=positive_number if isinstance(self.lengthscale, Real) else several,
            outputscale=positive_number,
            noise_variance=positive_number,
            mean=finite_number,
        )

    @property
    def scale(self) -> OutcomeScale:
        """The scale on which the prior mean is zero, and the prior variance is one."""
        return OutcomeScale(self.mean, math.sqrt(self.outputscale))

    def of(self, model_class: type[Model], **options: Any) -> ModelOptions:
        """Return a model with them.

        Args:
            model_class: A class that takes them, such as ``FixedHyperparameterGP``.
            options: Its further options.
        """
        given = {**options, **self.options}
        return ModelOptions(GIVEN, model_class, given, is_fitted=False, given_scale=self.scale)

    @property
    def options(self) -> dict[str, Any]:
        """Them as a model's options, on ``scale``; a list, since JSON has no tuples."""
        found = asdict(self)
        found |= {"mean": 0.0, "outputscale": 1.0}
        found["noise_variance"] = self.noise_variance / self.outputscale
        if self.kernel == "squared_exponential":
            del found["kernel"]
        if isinstance(self.lengthscale, tuple):
            found["lengthscale"] = list(self.lengthscale)
        return found


@dataclass(frozen=True)
class ModelOptions:
    """A class of models and its options.

    Raises:
        InputError: If ``model_class`` is no class of BoTorch models, or ``options`` no mapping.
    """

    name: str = DEFAULT
    """What it is called."""

    model_class: type[Model] | None = DefaultGP
    """The class; None for the one that Ax or BoTorch would take."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of its constructor."""

    is_fitted: bool = True
    """Whether hyperparameters are fitted."""

    given_scale: OutcomeScale = field(default_factory=OutcomeScale)
    """The scale on which hyperparameters are given, where none are fitted."""

    covar_module_class: type[Kernel] | None = None
    """The class of the kernel; None for the model's own."""

    covar_module_options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the kernel; ``ard_num_dims`` is the number of columns unless it is given."""

    mll_class: type[MarginalLogLikelihood] | None = None
    """What is maximized by a fit; None for the exact marginal log likelihood."""

    normalizes: bool = True
    """Whether the model is given its inputs on the unit cube, by an input transform."""

    key: object = None
    """Another one is to be fitted anew, though the data are the same."""

    def __post_init__(self) -> None:
        given = self.model_class
        if given is not None and not (isinstance(given, type) and issubclass(given, Model)):
            raise InputError(
                f"model_class={given!r}: expected a class of BoTorch models, such as SingleTaskGP, "
                "or None."
            )
        expected = "a mapping from names of arguments to values"
        instance_of(self.options, "options", Mapping, expected)

    def within(self, space: Space) -> ModelOptions:
        """Return them with the columns of one-hot choices, for a class that takes ``choices``."""
        if not (space.blocks and getattr(self.model_class, "knows_choices", False)):
            return self
        return replace(self, options={**self.options, "choices": space.blocks})

    def scale_of(self, outcomes: Tensor, minimize: bool) -> OutcomeScale:
        """Return the scale of ``n`` outcomes, of which smaller ones may be better."""
        if self.is_fitted:
            return OutcomeScale.of(outcomes, minimize)
        return replace(self.given_scale, sign=-1.0 if minimize else 1.0)

    def on(self, scale: OutcomeScale) -> ModelOptions:
        """Return them with the noise variance of queries, a function, on the outcome's scale."""
        noise = self.options.get("noise")
        if not callable(noise):
            return self
        scaled = {"noise": lambda A: noise(A) / scale.unit**2}
        return replace(self, options={**self.options, **scaled})

    def fitted(self, X: Tensor, Y: Tensor, bounds: Tensor, Yvar: Tensor | None = None) -> Model:
        """The model of some data.

        Args:
            X: ``n x d`` points.
            Y: ``n`` outcomes on their scale.
            bounds: ``2 x d`` bounds of the columns, by which inputs are scaled.
            Yvar: ``n`` known noise variances on that scale; None: fitted, or given.
        """
        model_class = self.model_class or SingleTaskGP
        data = SupervisedDataset(
            X,
            Y.unsqueeze(-1),
            Yvar=None if Yvar is None else Yvar.unsqueeze(-1),
            feature_names=[f"x{i}" for i in range(X.shape[-1])],
            outcome_names=["objective"],
        )
        arguments: dict[str, Any] = model_class.construct_inputs(data, **self.options)
        if self.normalizes:
            arguments["input_transform"] = Normalize(X.shape[-1], bounds=bounds)
        if self.is_fitted:  # what was given knows no transform
            arguments["outcome_transform"] = None
        if self.covar_module_class is not None:
            arguments["covar_module"] = self._kernel(X)
        model = model_class(**arguments)
        if isinstance(model, AbstractFullyBayesianSingleTaskGP):
            fit_fully_bayesian_model_nuts(model, disable_progbar=True)
        elif self.is_fitted:
            mll_class = self.mll_class or DenseMarginalLogLikelihood
            fit_gpytorch_mll(mll_class(model.likelihood, model))
        model.eval()
        return model

    def _kernel(self, X: Tensor) -> Kernel:
        assert self.covar_module_class is not None
        options = dict(self.covar_module_options)
        if "ard_num_dims" in signature(self.covar_module_class).parameters:
            options.setdefault("ard_num_dims", X.shape[-1])
        return self.covar_module_class(**options).to(X)


def check_lengthscales(options: Mapping[str, Any], num_columns: int) -> None:
    """Refuse given length-scales of another number than the model has columns.

    Raises:
        InputError: If it is another one.
    """
    given = options.get("lengthscale")
    if isinstance(given, list) and len(given) != num_columns:
        raise InputError(
            f"lengthscale={given} has {len(given)} entries: expected {num_columns}, one for each "
            "column of the model, of which a choice without an order has one for every value; or "
            "a number."
        )


def winsorized(outcomes: Tensor, minimize: bool, winsorize_iqr: float) -> Tensor:
    """Clip bad outliers as far from the quartiles as the fences of a box plot.

    As Ax does by default (its transform ``Winsorize``): what is far worse than most says that it is
    bad, and should not set the scale of the rest. Unlike there, outcomes that are mostly the same
    are measured by how far the best one is above them; where none is, as of a test that most pass,
    they stay as they are.

    Args:
        outcomes: ``n`` outcomes.
        minimize: Whether smaller ones are better.
        winsorize_iqr: Distance from the worse quartile in interquartile ranges; Tukey has
            1.5, and so have Ax and the Gittins method.
    """
    sign = -1.0 if minimize else 1.0
    signed = sign * outcomes
    low, high = (
        signed.quantile(part, interpolation=how)
        for part, how in ((0.25, "lower"), (0.75, "higher"))
    )
    span = high - low if high > low else signed.max() - low
    return sign * signed.clamp_min(low - winsorize_iqr * span) if span > 0 else outcomes
