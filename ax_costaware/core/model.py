"""Models of methods: a class of BoTorch models with its options, and its fit.

A model sees outcomes on an ``OutcomeScale``: standardized if its hyperparameters are fitted, and in
units of the prior if they are given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from inspect import signature
from numbers import Real
from typing import Any, TypeAlias

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
"""Name of a model with given hyperparameters."""

DEFAULT = "default"
"""Name of a model without a name."""

ARGUMENT = "surrogate_spec (of a Simulation: hyperparameters)"
"""Name of the user's argument for the model, in messages."""


@dataclass(frozen=True)
class FixedHyperparameters:
    """Hyperparameters of a GP, given instead of fitted.

    Inputs are scaled to the unit cube by the bounds of the parameters, after their log or logit
    scale. A one-hot encoded choice parameter has a column per value. Outcomes are in raw units. The
    setting of Tay et al. 2023 is ``FixedHyperparameters(lengthscale=0.1, outputscale=1.0,
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
        """Scale on which the prior mean is zero, and the prior variance is one."""
        return OutcomeScale(self.mean, math.sqrt(self.outputscale))

    def of(self, model_class: type[Model], **options: Any) -> ModelOptions:
        """Return a model with these hyperparameters.

        Args:
            model_class: A class that takes them, such as ``FixedHyperparameterGP``.
            options: Further options of the class.
        """
        given = {**options, **self.options}
        return ModelOptions(GIVEN, model_class, given, is_fitted=False, given_scale=self.scale)

    @property
    def options(self) -> dict[str, Any]:
        """Options of a model, with outcomes on ``scale``."""
        found = asdict(self)
        found |= {"mean": 0.0, "outputscale": 1.0}
        found["noise_variance"] = self.noise_variance / self.outputscale
        if self.kernel == "squared_exponential":
            del found["kernel"]
        if isinstance(self.lengthscale, tuple):
            found["lengthscale"] = list(self.lengthscale)  # JSON has no tuples
        return found


@dataclass(frozen=True)
class ModelOptions:
    """A class of BoTorch models and its options.

    Raises:
        InputError: If ``model_class`` is not a class of BoTorch models, or ``options`` not a
            mapping.
    """

    name: str = DEFAULT
    """Name of the model."""

    model_class: type[Model] | None = DefaultGP
    """Class of the model; None for the default of Ax or BoTorch."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of its constructor."""

    is_fitted: bool = True
    """True if hyperparameters are fitted, False if they are given."""

    given_scale: OutcomeScale = field(default_factory=OutcomeScale)
    """Scale of given hyperparameters."""

    covar_module_class: type[Kernel] | None = None
    """Class of the kernel; None for the model's own."""

    covar_module_options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the kernel; ``ard_num_dims`` defaults to the number of columns."""

    mll_class: type[MarginalLogLikelihood] | None = None
    """Objective of the fit; None for the exact marginal log likelihood."""

    normalizes: bool = True
    """True if an input transform scales inputs to the unit cube."""

    key: object = None
    """Cache key besides the data: a model with another key is fitted anew."""

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
        """Return the options with the one-hot columns, for a class that takes ``choices``."""
        if not (space.blocks and getattr(self.model_class, "knows_choices", False)):
            return self
        return replace(self, options={**self.options, "choices": space.blocks})

    def scale_of(self, outcomes: Tensor, minimize: bool) -> OutcomeScale:
        """Return the scale of ``n`` outcomes.

        Args:
            outcomes: The outcomes.
            minimize: True if smaller values are better.
        """
        if self.is_fitted:
            return OutcomeScale.of(outcomes, minimize)
        return replace(self.given_scale, sign=-1.0 if minimize else 1.0)

    def on(self, scale: OutcomeScale) -> ModelOptions:
        """Return the options with a callable ``noise``, a variance, on the outcome's scale."""
        noise = self.options.get("noise")
        if not callable(noise):
            return self
        scaled = {"noise": lambda A: noise(A) / scale.unit**2}
        return replace(self, options={**self.options, **scaled})

    def fitted(self, X: Tensor, Y: Tensor, bounds: Tensor, Yvar: Tensor | None = None) -> Model:
        """Return the model of data, fitted unless hyperparameters are given.

        Args:
            X: ``n x d`` points.
            Y: ``n`` outcomes on their scale.
            bounds: ``2 x d`` bounds of the columns, by which inputs are scaled.
            Yvar: ``n`` known noise variances on that scale; None to infer them or use given ones.
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
        if self.is_fitted:  # classes for given hyperparameters take no outcome transform
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
    """Refuse a list of length-scales with another length than the number of columns.

    Raises:
        InputError: If the lengths differ.
    """
    given = options.get("lengthscale")
    if isinstance(given, list) and len(given) != num_columns:
        raise InputError(
            f"lengthscale={given} has {len(given)} entries: expected {num_columns}, one for each "
            "column of the model, of which a choice without an order has one for every value; or "
            "a number."
        )


GivenModel: TypeAlias = FixedHyperparameters | ModelOptions | None
"""Model of the objective that a user asks for; None for the method's own."""


def winsorized(outcomes: Tensor, minimize: bool, winsorize_iqr: float) -> Tensor:
    """Clip bad outliers at ``winsorize_iqr`` interquartile ranges from the worse quartile.

    One diverged trial should not set the scale of the model. Ax does the same by default (its
    transform ``Winsorize``). Here, if the quartiles are equal, the distance from them to the best
    outcome replaces the interquartile range. If that is zero, too, nothing is clipped.

    Args:
        outcomes: ``n`` outcomes.
        minimize: True if smaller values are better.
        winsorize_iqr: Distance in interquartile ranges. Tukey, Ax and the Gittins method use 1.5.
    """
    sign = -1.0 if minimize else 1.0
    signed = sign * outcomes
    low, high = (
        signed.quantile(part, interpolation=how)
        for part, how in ((0.25, "lower"), (0.75, "higher"))
    )
    span = high - low if high > low else signed.max() - low
    return sign * signed.clamp_min(low - winsorize_iqr * span) if span > 0 else outcomes
