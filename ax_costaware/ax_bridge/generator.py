"""The generator of all methods: Ax's modular one, whose fit depends on nothing but data and method.

What is generated is decided by the method, see ``CostAwareAdapter``; of Ax's generators it lends
the fit and the optimisers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import torch
from ax.core.search_space import SearchSpaceDigest
from ax.generators.torch.botorch_modular.acquisition import Acquisition
from ax.generators.torch.botorch_modular.generator import BoTorchGenerator
from ax.generators.torch.botorch_modular.surrogate import Surrogate, SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from ax.generators.torch.utils import get_rounding_func
from ax.generators.torch_base import TorchGenResults, TorchOptConfig
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor

from ax_costaware.ax_bridge.checks import ax_errors, check_lengthscales_of
from ax_costaware.core import FixedHyperparameters, ModelOptions, Problem
from ax_costaware.core.lending import maximum_within, needs_own_search
from ax_costaware.core.model import GIVEN, knows_choices, options_within, winsorized
from ax_costaware.core.problem import Maximum, reproducible
from ax_costaware.methods import Method
from ax_costaware.models.cached_posterior import any_unit
from ax_costaware.models.dense_marginal_likelihood import DenseMarginalLogLikelihood
from ax_costaware.models.standardize import StandardizeAnyScale
from ax_costaware.queries.argument_checks import instance_of

AnyMethod = TypeVar("AnyMethod", bound=Method)


class CostAwareGenerator(BoTorchGenerator):
    """Fits the model of a method, and lends Ax's optimisers.

    Args:
        method: The method.
        surrogate_spec: The surrogate; by default the method's own.
        refit_on_cv: Whether hyperparameters are fitted anew on every fold of a cross-validation.
        warm_start_refit: Whether a fit starts at the hyperparameters of the last one. False, so
            that a decision depends on the data alone and not on the fits before it.
        settings: What ``method`` is called in stores of 0.1 and 0.2.
    """

    def __init__(
        self,
        method: Method | None = None,
        surrogate_spec: SurrogateSpec | None = None,
        refit_on_cv: bool = False,
        warm_start_refit: bool = False,
        settings: Method | None = None,
    ) -> None:
        found = method or settings
        assert found is not None
        self._given = surrogate_spec or surrogate_spec_of(found.model())
        super().__init__(
            surrogate_spec=self._given, refit_on_cv=refit_on_cv, warm_start_refit=warm_start_refit
        )
        self.method: Method = found
        self._model_now: ModelOptions | None = None
        self._checked = surrogate_spec
        self._bounded: tuple[str, ...] = ()
        self._choices: list[list[int]] = []
        self._besides: ModelOptions | None = None
        self._objective, self._minimize = "", False

    def fit(
        self,
        datasets: Sequence[SupervisedDataset],
        search_space_digest: SearchSpaceDigest,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Fit the surrogate under the method's seed; the global random state stays as it was.

        The seed does not depend on the trial: Ax skips the fit where the data did not change.

        Raises:
            UserInputError: If the model cannot be made from the data.
        """
        columns = len(search_space_digest.feature_names) - self.method.sees_time
        check_lengthscales_of(self._checked, columns)  # where no initial trial was checked before
        model = self._model_now
        if model is not None:
            self._use(surrogate_spec_of(model))
        if self.method.winsorize:
            datasets = [self._winsorized(one) for one in datasets]
        with ax_errors(), reproducible(self.method.seed):
            super().fit(datasets, search_space_digest, *args, **kwargs)
        if model is not None:
            # Searches take gradients by queries and points only.
            self.surrogate.model.requires_grad_(False)

    @contextmanager
    def lent_to_plot(self) -> Iterator[None]:
        """Let a plot of Ax's draw points by acquisition functions that it has put in here.

        It takes them out again where nothing fails only, and the next trial would be by them.
        """
        try:
            yield
        finally:
            self.acquisition_class, self.acquisition_options = Acquisition, {}
            self._botorch_acqf_classes_with_options = None

    def gen(
        self, n: int, search_space_digest: SearchSpaceDigest, torch_opt_config: TorchOptConfig
    ) -> TorchGenResults:
        """Points for Ax's plots, which are no trials; of the time of the next one."""
        if self.method.sees_time:
            (*bounds, _) = search_space_digest.bounds
            now = (torch_opt_config.fixed_features or {})[len(bounds)]
            search_space_digest = replace(search_space_digest, bounds=[*bounds, (now, now)])
        return super().gen(n, search_space_digest, torch_opt_config)

    def predict(self, X: Tensor, use_posterior_predictive: bool = False) -> tuple[Tensor, Tensor]:
        """Means and covariances, in any unit of the outcomes."""
        with any_unit():
            return super().predict(X, use_posterior_predictive)

    def _winsorized(self, data: SupervisedDataset) -> SupervisedDataset:
        """Data in which bad outliers of the objective are less bad ones."""
        if data.outcome_names != [self._objective]:
            return data
        return SupervisedDataset(
            data.X,
            winsorized(data.Y, self._minimize, self.method.fence),
            Yvar=data.Yvar,
            feature_names=data.feature_names,
            outcome_names=data.outcome_names,
            group_indices=data.group_indices,
        )

    def prepare(self, problem: Problem) -> object:
        """Say what the next fit is to be of.

        Of each other metric that has bounds there is a model, by ``Method.model_besides`` unless
        the user gives another model than its hyperparameters: those that are given are the
        objective's. Models that ask for it know which columns of the space are those of a choice.

        Args:
            problem: What it is for.

        Returns:
            What the model depends on beside the data, see ``ModelOptions.key``.
        """
        self._objective, self._minimize = problem.objective, problem.minimize
        metrics, blocks = tuple(bound.metric for bound in problem.constraints), problem.space.blocks
        self._model_now = self.method.model_now(problem)
        self._besides = self.method.model_besides(problem) if metrics else None
        if (metrics, blocks) != (self._bounded, self._choices):
            self._bounded, self._choices = metrics, blocks
            self._use(self._given)
        return None if self._model_now is None else self._model_now.key

    def _use(self, spec: SurrogateSpec) -> None:
        """Fit by a specification from now on, with a model of its own for each metric."""
        if self._bounded:
            configs = dict(spec.metric_to_model_configs)
            is_own = self._model_now is not None
            if is_own or all(config.name == GIVEN for config in spec.model_configs):
                assert self._besides is not None
                configs = {m: [_config(self._besides)] for m in self._bounded} | configs
            spec = replace(spec, metric_to_model_configs=configs, allow_batched_models=False)

        def knowing(config: ModelConfig) -> ModelConfig:
            model_class, options = config.botorch_model_class, config.model_options
            return replace(
                config, model_options=options_within(model_class, options, self._choices)
            )

        self.surrogate_spec = _with_configs(spec, knowing)
        self._surrogate = None

    @property
    def search_space_digest(self) -> SearchSpaceDigest:
        """What Ax's sensitivity analysis looks at: all inputs, at the time of the last outcome."""
        digest = super().search_space_digest
        if not self.method.sees_time:
            return digest
        last = float(self.surrogate.Xs[0][:, -1].max())
        return replace(digest, bounds=[*digest.bounds[:-1], (last, last)])

    @search_space_digest.setter
    def search_space_digest(self, value: SearchSpaceDigest) -> None:
        raise RuntimeError("Ax's generator sets its search space when it is fitted.")


class LentOptimizer(Acquisition):
    """Ax's optimisers of any acquisition function where they serve, else ``maximum_within``.

    Args:
        surrogate: The fitted surrogate.
        digest: The search space in the model's terms.
        config: Objective, constraints, what is pending and what is fixed.
        problem: What is decided, with the same space as a method sees it.
        options: Options that the caller of the strategy gives; they come before the method's.
    """

    def __init__(
        self,
        surrogate: Surrogate,
        digest: SearchSpaceDigest,
        config: TorchOptConfig,
        problem: Problem,
        options: Mapping[str, Any],
    ) -> None:
        self.given = options
        self.config = config
        self.problem = problem
        super().__init__(surrogate, digest, config, botorch_acqf_class=AcquisitionFunction)

    def _instantiate_acquisition(self) -> None:
        """Nothing: the acquisition function comes with each call."""
        self.acq_function_sequence = None

    def __call__(
        self,
        acquisition: AcquisitionFunction,
        options: Mapping[str, Any],
        held: Mapping[int, float] | None = None,
    ) -> Maximum:
        """The best point of an acquisition function; one that was not tried, of finitely many.

        Raises:
            SpaceExhausted: If every point was tried, of a space that has finitely many.
        """
        # Ax searches for the columns of a choice as if each were a number, and rounds them. Under
        # the models that earlier releases had it goes on to, so that stored decisions are as then.
        models = getattr(self.surrogate.model, "models", [self.surrogate.model])
        is_new = any(knows_choices(type(model)) for model in models)
        if needs_own_search(self.problem, is_new):
            return maximum_within(self.problem, acquisition, {**options, **self.given}, held)
        self.acqf = acquisition
        fixed = {**(self.config.fixed_features or {}), **(held or {})} or None
        points, values, _ = self.optimize(
            n=1,
            search_space_digest=self.search_space_digest,
            inequality_constraints=self.problem.space.inequality_constraints or None,
            fixed_features=fixed,
            rounding_func=get_rounding_func(self.config.rounding_func),
            optimizer_options={**options, **self.given},
        )
        point = points[0].detach().cpu()
        return Maximum(point, float(torch.as_tensor(values).flatten()[0]))


def surrogate_spec_of(model: ModelOptions) -> SurrogateSpec:
    """Ax's surrogate of a model."""
    return SurrogateSpec(model_configs=[_config(model)])


def settled_with_surrogate(
    method: AnyMethod, given: SurrogateSpec | FixedHyperparameters | None
) -> tuple[AnyMethod, SurrogateSpec]:
    """The method with the surrogate that the user gave, and the specification to use for that.

    A user's ``SurrogateSpec`` comes from a setting in which Ax standardises outcomes, so where it
    says nothing about outcome transforms it gets one, too; ``outcome_transform_classes=[]``
    asks for none.

    Raises:
        InputError: If ``given`` is neither of the two, or the method cannot use it.
    """
    if given is None or isinstance(given, FixedHyperparameters):
        options = method.model(given)
        return method.settled([options]), surrogate_spec_of(options)
    expected = "an Ax SurrogateSpec, FixedHyperparameters, or None for Ax's default"
    instance_of(given, "surrogate_spec", SurrogateSpec, expected)
    seen: list[ModelOptions] = []

    def adapted(config: ModelConfig) -> ModelConfig:
        name, transforms = config.name or "given", config.outcome_transform_classes
        options = method.model(ModelOptions(name, config.botorch_model_class, config.model_options))
        seen.append(options)
        return replace(
            config,
            model_options=dict(options.options),
            outcome_transform_classes=[StandardizeAnyScale] if transforms is None else transforms,
        )

    spec = _with_configs(given, adapted)
    return method.settled(seen), spec


def _with_configs(
    spec: SurrogateSpec, adapted: Callable[[ModelConfig], ModelConfig]
) -> SurrogateSpec:
    """A specification each of whose models is adapted."""
    return replace(
        spec,
        model_configs=[adapted(config) for config in spec.model_configs],
        metric_to_model_configs={
            metric: [adapted(config) for config in configs]
            for metric, configs in spec.metric_to_model_configs.items()
        },
    )


def _config(model: ModelOptions) -> ModelConfig:
    more: dict[str, Any] = {"mll_class": DenseMarginalLogLikelihood} if model.is_fitted else {}
    if not model.normalizes:
        more["input_transform_classes"] = None
    return ModelConfig(
        botorch_model_class=model.model_class,
        model_options=dict(model.options),
        outcome_transform_classes=[StandardizeAnyScale] if model.is_fitted else None,
        name=model.name,
        **more,
    )
