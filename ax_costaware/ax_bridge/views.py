"""Adapter for Ax's own views: predictions, cross-validation, analyses, the best point.

It is an ordinary adapter with the method's surrogate, of an in-memory experiment whose arms are the
realized inputs. It is made on demand; no decision uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from ax.adapter.registry import MBM_X_trans
from ax.adapter.torch import TorchAdapter
from ax.adapter.transforms.base import Transform
from ax.adapter.transforms.derelativize import Derelativize
from ax.core.arm import Arm
from ax.core.data import Data
from ax.core.data_utils import ExperimentData
from ax.core.experiment import Experiment
from ax.core.observation import ObservationData, ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.search_space import SearchSpace
from ax.core.types import TModelPredict, TModelPredictArm
from ax.exceptions.core import UnsupportedError
from ax.generators.torch.botorch_modular.generator import BoTorchGenerator
from ax.generators.torch.botorch_modular.surrogate import Surrogate, SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from botorch.utils.datasets import SupervisedDataset
from pandas import DataFrame
from torch import Tensor

from ax_costaware.acquisition.feasibility import feasible_first
from ax_costaware.ax_bridge.checks import check_optimization_config
from ax_costaware.core import ModelOptions, Problem
from ax_costaware.core.loop import Loop
from ax_costaware.core.method import Method
from ax_costaware.core.model import winsorized
from ax_costaware.core.problem import reproducible
from ax_costaware.models import DenseMarginalLogLikelihood
from ax_costaware.models.outcome_scale import OutcomeScale


def adapter_of(experiment: Experiment, loop: Loop, problem: Problem) -> TorchAdapter:
    """Return an adapter of Ax with the model of a method.

    Args:
        experiment: The experiment.
        loop: The loop of the method.
        problem: The problem of the next decision, with at least one observed trial.

    Returns:
        The adapter. If outcomes are averages, or drift, predictions would mislead, and Ax encodes
        a hierarchical search space otherwise: it refuses them with the reason. Analyses without a
        model still work.
    """
    method = loop.method
    config = check_optimization_config(experiment.optimization_config)
    reason = None if method.traits.measures_points else "averages of the objective"
    reason = "of different times, and drift" if method.traits.sees_time else reason
    reason = "of a hierarchical search space" if problem.space.conditions else reason
    if reason is not None:
        return _Refusing(experiment=experiment, reason=reason)
    generator = _Generator(problem, method, _spec_of(loop, problem))
    return _Adapter(
        experiment=_realized(experiment, problem),
        generator=generator,
        transforms=[_Hide, *MBM_X_trans, Derelativize],
        transform_configs={_Hide.__name__: {"hidden": method.traits.hidden}},
        optimization_config=config,
        fit_tracking_metrics=False,
        of=experiment,
        problem=problem,
        method=method,
    )


def _realized(experiment: Experiment, problem: Problem) -> Experiment:
    """Return an in-memory experiment whose arms are the realized inputs.

    It has data of modeled metrics only, since Ax's cross-validation expects a prediction of every
    outcome.
    """
    found = Experiment(
        name=experiment.name if experiment.has_name else None,
        search_space=experiment.search_space.clone(),
        optimization_config=experiment.optimization_config,
        tracking_metrics=list(experiment.tracking_metrics),
    )
    modeled = {problem.objective, *problem.learned}
    rows = []
    for trial in problem.trials:
        made = found.new_trial()
        if not trial.is_observed:
            continue
        planned = experiment.trials[trial.index].arms[0]
        made.add_arm(Arm(name=planned.name_or_short_signature, parameters=dict(trial.inputs)))
        made.mark_running(no_runner_required=True)
        made.mark_completed()
        values = {problem.objective: trial.outcome, **trial.metrics}
        rows += [
            {
                "trial_index": trial.index,
                "arm_name": made.arms[0].name,
                "metric_name": metric,
                "metric_signature": metric,
                "mean": value,
                "sem": trial.errors.get(metric, np.nan),
            }
            for metric, value in values.items()
            if metric in modeled
        ]
    found.attach_data(Data(df=DataFrame(rows)))
    return found


def _spec_of(loop: Loop, problem: Problem) -> SurrogateSpec:
    """Return Ax's surrogate of the method's models."""
    space = problem.space
    objective = loop.model_of(problem).within(space).on(problem.scale)
    others = [(bound.metric, bound.scale) for bound in problem.constraints]
    others += [(one.metric, one.scale) for one in problem.objectives[1:]]
    besides = {
        metric: [_config_of(loop.model_of(problem, metric).within(space).on(scale))]
        for metric, scale in others
    }
    return SurrogateSpec(
        model_configs=[_config_of(objective)],
        metric_to_model_configs=besides,
        allow_batched_models=False,
    )


def _config_of(model: ModelOptions) -> ModelConfig:
    more: dict[str, Any] = {}
    if model.is_fitted:
        more["mll_class"] = model.mll_class or DenseMarginalLogLikelihood
    if not model.normalizes:
        more["input_transform_classes"] = None
    if model.covar_module_class is not None:
        more["covar_module_class"] = model.covar_module_class
        more["covar_module_options"] = dict(model.covar_module_options)
    return ModelConfig(
        botorch_model_class=model.model_class,
        model_options=dict(model.options),
        name=model.name,
        **more,
    )


class _Hide(Transform):
    """Transform that drops the parameters that the method hides from its model."""

    @property
    def _hidden(self) -> list[str]:
        hidden: Any = self.config["hidden"]
        return list(hidden)

    def transform_search_space(self, search_space: SearchSpace) -> SearchSpace:
        """Drop hidden parameters from the search space."""
        return SearchSpace(
            [p for name, p in search_space.parameters.items() if name not in self._hidden],
            [constraint.clone() for constraint in search_space.parameter_constraints],
        )

    def transform_observation_features(
        self, observation_features: list[ObservationFeatures]
    ) -> list[ObservationFeatures]:
        """Drop hidden parameters from the features, in place."""
        for features in observation_features:
            for name in self._hidden:
                features.parameters.pop(name, None)
        return observation_features

    def transform_experiment_data(self, experiment_data: ExperimentData) -> ExperimentData:
        """Drop the columns of hidden parameters."""
        arms = experiment_data.arm_data.drop(columns=self._hidden, errors="ignore")
        return replace(experiment_data, arm_data=arms)


class _Generator(BoTorchGenerator):
    """Generator that fits as the loop does: with clipped outliers and a seed."""

    def __init__(self, problem: Problem, method: Method, spec: SurrogateSpec) -> None:
        super().__init__(surrogate_spec=spec, refit_on_cv=False, warm_start_refit=False)
        self._problem, self._method = problem, method
        self._scales: dict[str, OutcomeScale] = {
            problem.objective: replace(problem.scale, sign=1.0),
            **{bound.metric: bound.scale for bound in problem.constraints},
            **{one.metric: replace(one.scale, sign=1.0) for one in problem.objectives},
        }
        self._minimized = {problem.objective: problem.minimize}
        self._minimized |= {one.metric: one.minimize for one in problem.objectives}

    def fit(self, datasets: Sequence[SupervisedDataset], *args: Any, **kwargs: Any) -> None:
        """Fit the surrogate."""
        with reproducible(self._method.seed):
            super().fit([self._scaled(self._clipped(data)) for data in datasets], *args, **kwargs)

    def cross_validate(
        self, datasets: Sequence[SupervisedDataset], *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Return predictions of points by surrogates of a part of the data."""
        return super().cross_validate([self._scaled(data) for data in datasets], *args, **kwargs)

    def _clipped(self, data: SupervisedDataset) -> SupervisedDataset:
        minimize = self._minimized.get(data.outcome_names[0])
        if minimize is None or not self._method.winsorize:
            return data
        return _with_outcomes(data, winsorized(data.Y, minimize, self._method.traits.winsorize_iqr))

    def _scaled(self, data: SupervisedDataset) -> SupervisedDataset:
        scale = self._scales[data.outcome_names[0]]
        Yvar = None if data.Yvar is None else data.Yvar / scale.unit**2
        return _with_outcomes(data, scale.to_model(data.Y), Yvar)

    def predict(self, X: Tensor, use_posterior_predictive: bool = False) -> tuple[Tensor, Tensor]:
        """Return means and covariances, at any scale of the outcomes."""
        mean, covariance = super().predict(X, use_posterior_predictive)
        scales = [self._scales[name] for name in self.surrogate.outcomes]
        units = mean.new_tensor([scale.unit for scale in scales])
        locations = mean.new_tensor([scale.location for scale in scales])
        return locations + units * mean, covariance * units.unsqueeze(-1) * units


def _with_outcomes(
    data: SupervisedDataset, Y: Tensor, Yvar: Tensor | None = None
) -> SupervisedDataset:
    return SupervisedDataset(
        data.X,
        Y,
        Yvar=data.Yvar if Yvar is None else Yvar,
        feature_names=data.feature_names,
        outcome_names=data.outcome_names,
        group_indices=data.group_indices,
    )


class _Adapter(TorchAdapter):
    """Adapter whose best point is the incumbent of the method."""

    def __init__(self, *, of: Experiment, problem: Problem, method: Method, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._of, self._problem, self._method = of, problem, method

    def _set_model_space(self, arm_data: DataFrame) -> None:
        """Keep the bounds by which the loop scales inputs.

        Ax would widen them to realized inputs outside. A model with given hyperparameters would
        then predict differently from the loop.
        """
        self.model_space.set_parameter_constraints([])

    def _compute_in_design(
        self, search_space: SearchSpace, experiment_data: ExperimentData
    ) -> list[bool]:
        """Learn from inputs outside of the bounds, as the loop does."""
        return [True] * len(experiment_data.arm_data)

    def model_best_point(
        self,
        search_space: SearchSpace | None = None,
        optimization_config: OptimizationConfig | None = None,
        pending_observations: dict[str, list[ObservationFeatures]] | None = None,
        fixed_features: ObservationFeatures | None = None,
        model_gen_options: Any = None,
    ) -> tuple[Arm, TModelPredictArm | None] | None:
        """Return the arm with the best posterior mean, and its prediction."""
        problem, method = self._problem, self._method
        trials = problem.observed
        trials = [t for t in trials if method.deployed(problem, t.inputs) is not None] or trials
        means, variances, _ = method.expected(problem, [t.parameters for t in trials])
        _, _, log_feasibility = method.expected(problem, [trial.inputs for trial in trials])
        values, threshold = problem.scale.to_model(means), method.feasibility_threshold
        best = feasible_first(values, log_feasibility, threshold)[0]
        metric = problem.objective
        prediction = ({metric: float(means[best])}, {metric: {metric: float(variances[best])}})
        return self._of.trials[trials[best].index].arms[0], prediction


class _Refusing(TorchAdapter):
    """Adapter without a model, which refuses predictions with a reason.

    Args:
        experiment: The experiment.
        reason: Kind of outcomes that makes predictions misleading.
    """

    def __init__(self, experiment: Experiment, reason: str) -> None:
        self._error = UnsupportedError(
            f"Ax's own model views do not apply here, since outcomes are {reason}: see "
            "ax_costaware.recommend(client) and the cards of ax_costaware.overview."
        )
        generator = _NoModel(self._error)
        super().__init__(experiment=experiment, generator=generator, fit_on_init=False)

    def predict(
        self,
        observation_features: list[ObservationFeatures],
        use_posterior_predictive: bool = False,
    ) -> TModelPredict:
        """Refuse."""
        raise self._error

    def cross_validate(
        self,
        cv_training_data: ExperimentData,
        cv_test_points: list[ObservationFeatures],
        use_posterior_predictive: bool = False,
    ) -> list[ObservationData]:
        """Refuse, also when Ax asks for the best trial by the model."""
        raise self._error


class _NoModel(BoTorchGenerator):
    """Generator without a surrogate, for which Ax skips the analyses that need predictions."""

    def __init__(self, error: UnsupportedError) -> None:
        super().__init__()
        self._error = error

    @property
    def can_predict(self) -> bool:
        """Always False."""
        return False

    @property
    def surrogate(self) -> Surrogate:
        """Refused, since sensitivities need the model."""
        raise self._error

    def cross_validate(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Refuse."""
        raise self._error
