"""The adapter of all methods: what they read of an experiment, and what becomes of a decision.

It differs from Ax's ``TorchAdapter`` in the data that it trains on (inputs as they were realised,
outcomes at full precision, in raw units, of the objective and of metrics with bounds only), and in
that the method decides: ``gen`` makes a ``Problem``, asks, and writes the record once. Ax has no
public hook between the extraction of the data and the transforms, so a private method is
overridden.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, update_wrapper
from typing import Any

from ax.adapter.base import gen_arms
from ax.adapter.torch import TorchAdapter
from ax.core.arm import Arm
from ax.core.data_utils import ExperimentData, extract_experiment_data
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.search_space import SearchSpace
from ax.core.types import TModelPredictArm
from ax.exceptions.core import DataRequiredError
from ax.generators.torch.botorch_modular.multi_acquisition import MultiAcquisition
from ax.generators.types import TConfig
from ax.utils.common.constants import Keys
from botorch.models.model import Model

from ax_costaware.ax_bridge.checks import (
    ax_errors,
    check_fixed,
    check_one_arm,
    check_optimization_config,
    constraints_of,
    no_trial,
)
from ax_costaware.ax_bridge.generator import CostAwareGenerator, LentOptimizer
from ax_costaware.ax_bridge.log import recorded
from ax_costaware.ax_bridge.records import (
    PendingObservations,
    live_observations,
    past_trials,
    problem_of,
    realized_inputs,
)
from ax_costaware.ax_bridge.search_space import space_of
from ax_costaware.ax_bridge.training_data import realized_data, restore_data, with_curves
from ax_costaware.core import Best, Decision, Problem, Stop
from ax_costaware.core.constraints import feasible_first
from ax_costaware.core.curves import CurvePoint, curve_points
from ax_costaware.core.decision import all_left_out, check_all, next_trial, recommended
from ax_costaware.core.history import check_inputs
from ax_costaware.core.problem import decision_seed, reproducible
from ax_costaware.core.trial_times import TrialTimes
from ax_costaware.methods import Method
from ax_costaware.space import Space
from ax_costaware.space.parameters import Row


class CostAwareAdapter(TorchAdapter):
    """The adapter of all methods; see the module for what differs from Ax's."""

    generator: CostAwareGenerator

    _fitted_key: object = None

    _seen: object = None

    _curves: Mapping[str, Sequence[CurvePoint]] = {}

    def __init__(self, *, generator: CostAwareGenerator, **kwargs: Any) -> None:
        # Data are read before Ax sets it.
        self.generator = generator
        # Whether the last decision on an arm is to be measured.
        self._decided: dict[str, bool] = {}
        super().__init__(generator=generator, **kwargs)

    @property
    def method(self) -> Method:
        """The method."""
        return self.generator.method

    def times(self) -> TrialTimes:
        """The times of the trials, past and to come."""
        return self.method.times(past_trials(self._experiment, self.method))

    def gen(
        self,
        n: int,
        search_space: SearchSpace | None = None,
        optimization_config: OptimizationConfig | None = None,
        pending_observations: dict[str, list[ObservationFeatures]] | None = None,
        fixed_features: ObservationFeatures | None = None,
        model_gen_options: TConfig | None = None,
    ) -> GeneratorRun:
        """Decide on the next trial.

        Args:
            n: Arms of the trial; must be one.
            search_space: Overrides the search space of the experiment.
            optimization_config: Overrides the objective of the experiment.
            pending_observations: Points under evaluation, by metric; those without a trial index
                count as decisions that are no trials yet.
            fixed_features: Parameters that the caller fixes.
            model_gen_options: Options of the optimisers under ``optimizer_kwargs``.

        Raises:
            OptimizationShouldStop: If no trial is worth its cost, or none can be paid.
            DataRequiredError: If that may change when those that run have reported.
            UserInputError: If the experiment does not fit the method, or what it learns from is
                missing.
            UnsupportedError: If ``n`` is not one, or the experiment asks for what the method
                does not do.
        """
        started = time.monotonic()
        if self.generator.acquisition_class is MultiAcquisition:
            # Ax's plot of the objective against the probability of being feasible asks for points
            # to draw, which are no trials.
            with self.generator.lent_to_plot():
                return super().gen(n, search_space, optimization_config, pending_observations)
        check_one_arm(n)
        check_optimization_config(self._experiment.optimization_config)
        problem = self.problem(
            pending_observations,
            search_space,
            optimization_config,
            fixed_features,
            model_gen_options,
        )
        with ax_errors():
            check_all(self.method, problem)
        with ax_errors(), reproducible(decision_seed(self.method.seed, problem.next_index)):
            decision = next_trial(self.method, problem, initial=False)
        fixed = {n: value for n, value in problem.fixed.items() if n not in problem.disabled}
        note = f" The caller had fixed {fixed}." if fixed else ""
        if isinstance(decision, Stop):
            raise no_trial(self.method, problem, decision, note)
        return self._run_of(replace(decision, why=decision.why + note), problem, started)

    def problem(
        self,
        pending_observations: PendingObservations | None = None,
        search_space: SearchSpace | None = None,
        optimization_config: OptimizationConfig | None = None,
        fixed_features: ObservationFeatures | None = None,
        model_gen_options: TConfig | None = None,
    ) -> Problem:
        """What the next decision is made from; arguments as of ``gen``."""
        metric = self.objective_metric
        means = self.get_training_data().observation_data["mean", metric].dropna()
        space = self.space(search_space)
        live = live_observations(self._experiment, pending_observations)
        live = [observation for observation in live if not space.lost(observation.parameters)]

        @cache
        def lent() -> LentOptimizer:
            """Ax's optimiser, with its own view of constraints and of what is pending.

            Made when it is first asked for: not all methods optimise over the search space.
            """
            config = check_optimization_config(optimization_config or self._optimization_config)
            args = self._get_transformed_gen_args(
                search_space=search_space or self._search_space,
                # Acquisition functions know of outcome constraints by themselves.
                optimization_config=config.clone_with_args(outcome_constraints=[]),
                pending_observations={metric: live},
                fixed_features=ObservationFeatures(parameters=dict(problem.fixed)),
            )
            digest, torch_config = self._get_transformed_model_gen_args(
                **vars(args), model_gen_options=model_gen_options
            )
            options: Any = (model_gen_options or {}).get(Keys.OPTIMIZER_KWARGS.value) or {}
            return LentOptimizer(self.generator.surrogate, digest, torch_config, problem, options)

        problem = problem_of(
            self._experiment,
            self.method,
            live,
            fixed_features,
            observed={int(index): float(mean) for (index, *_), mean in means.items()},
            space=space,
            fit=self._model_of,
            measures=lambda parameters: self._decided.get(Arm.md5hash(parameters), True),
            maximize=lambda *args: lent()(*args),
        )
        return problem

    @property
    def objective_metric(self) -> str:
        """The objective's metric."""
        config = check_optimization_config(self._optimization_config)
        return str(config.objective.metric_signatures[0])

    def _model_of(self, metric: str) -> Model:
        """The fitted model of a metric."""
        if len(self.outcomes) == 1:
            return self.botorch_model
        return self.botorch_model.subset_output([self.outcomes.index(metric)])

    def recommend(self, fixed: Row | None = None) -> list[Best]:
        """What to deploy under the fitted model, best first.

        Args:
            fixed: Known values of parameters, by name; of the latent ones where points are latent.
        """
        given, latent = dict(fixed or {}), self.method.latent
        if latent:
            with ax_errors():
                check_fixed(given, latent, [*latent], "the points that are deployed")
            problem = replace(self.problem(), deployed_at=given)
        else:
            problem = self.problem(fixed_features=ObservationFeatures(parameters=given))
        with ax_errors(), reproducible(self.method.seed):
            self.method.check_outcomes(problem)
            return recommended(self.method, problem)

    def model_best_point(
        self,
        search_space: SearchSpace | None = None,
        optimization_config: OptimizationConfig | None = None,
        pending_observations: dict[str, list[ObservationFeatures]] | None = None,
        fixed_features: ObservationFeatures | None = None,
        model_gen_options: TConfig | None = None,
    ) -> tuple[Arm, TModelPredictArm | None] | None:
        """The arm with observations that has the best posterior mean, and that prediction."""
        return self._best_arm(self.problem(search_space=search_space))

    def _best_arm(self, problem: Problem) -> tuple[Arm, TModelPredictArm] | None:
        trials = problem.observed
        trials = [t for t in trials if self.method.is_deployable(problem, t.inputs)] or trials
        if not trials:
            return None
        means, variances = self.method.expected(problem, [t.parameters for t in trials])
        chances = self.method.log_chances(problem, [trial.inputs for trial in trials])
        best = feasible_first(problem.sign * means, chances, self.method.feasible)[0]
        metric = self.objective_metric
        prediction = ({metric: float(means[best])}, {metric: {metric: float(variances[best])}})
        return self._experiment.trials[trials[best].index].arms[0], prediction

    def space(self, search_space: SearchSpace | None = None) -> Space:
        """How the parameters are encoded in the input space of the fitted model."""
        space = space_of(search_space or self._experiment.search_space, self.method.hidden)
        return space if self.device is None else space.to(self.device)

    def _run_of(self, decision: Decision, problem: Problem, started: float) -> GeneratorRun:
        """What Ax stores of a decision."""
        known = self._experiment.search_space.parameters
        row = {name: known[name].cast(value) for name, value in decision.parameters.items()}
        arms, _ = gen_arms([ObservationFeatures(parameters=row)], self._arms_by_signature)
        predictions = None
        with suppress(Exception):  # as Ax does: a prediction is no reason to lose a decision
            predictions = self.predict([ObservationFeatures.from_arm(arms[0])])
        self._decided[arms[0].signature] = decision.extra.get("measure", True)
        run = GeneratorRun(
            arms=arms,
            model_predictions=predictions,
            # Where an arm does not say all, the best one is dear to find, and seldom asked for.
            best_arm_predictions=None if self.method.hidden else self._best_arm(problem),
            fit_time=self.fit_time_since_gen,
            gen_time=time.monotonic() - started,
            generator_key=self._generator_key,
            generator_kwargs=self._generator_kwargs,
            adapter_kwargs=self._adapter_kwargs,
            gen_metadata={Keys.EXPECTED_ACQF_VAL: [decision.value]},
            generator_state_after_gen=self._get_serialized_model_state(),
        )
        self.fit_time_since_gen = 0.0
        return recorded(run, decision, problem, self.method, self._experiment)

    def _fit(
        self, search_space: SearchSpace, experiment_data: ExperimentData, **kwargs: Any
    ) -> None:
        space = self.space()
        with ax_errors():
            problem = problem_of(self._experiment, self.method, space=space)
            check_inputs(t for t in problem.trials if t.counts and t.outcome is not None)
            key = self.generator.prepare(problem)
            metrics = [problem.objective, *(bound.metric for bound in problem.constraints)]
            curves = {metric: curve_points(self.method, problem, metric) for metric in metrics}
        # Outliers are on the bad side only, and inputs are scaled by their bounds.
        seen = problem.minimize, space.bounds.tolist(), curves
        if key is not self._fitted_key or seen != self._seen:
            # Ax skips a fit to data that are the same.
            self._last_experiment_data = None
        self._curves, self._seen = curves, seen
        super()._fit(search_space, experiment_data, **kwargs)
        self._fitted_key = key
        width = len(self.parameters) - self.method.sees_time
        if space.bounds.shape[-1] != width:
            raise RuntimeError(
                f"Ax encodes the parameters in {width} columns, and the package expects "
                f"{space.bounds.shape[-1]}: Ax's transforms have changed."
            )

    def _convert_experiment_data(self, *args: Any, **kwargs: Any) -> Any:
        """Data sets for the fit, with the points of curves; Ax has one outcome of each trial.

        What a cross-validation holds out it holds out with its curve.
        """
        datasets, outcomes, metadata = super()._convert_experiment_data(*args, **kwargs)
        space = self.space()
        datasets = [
            with_curves(d, self._curves.get(d.outcome_names[0], ()), space) for d in datasets
        ]
        return datasets, outcomes, metadata

    def _set_and_filter_training_data(
        self, experiment_data: ExperimentData, search_space: SearchSpace
    ) -> ExperimentData:
        """Lay the realised inputs over the data, and widen the model space to cover them."""
        # Constraints may have come since the adapter was made.
        config = check_optimization_config(self._experiment.optimization_config)
        self._optimization_config = config
        if restore_data(self._experiment):
            experiment_data = extract_experiment_data(
                experiment=self._experiment, data_loader_config=self._data_loader_config
            )
        bounded = [constraint.metric for constraint in constraints_of(config)]
        metrics = [*config.objective.metric_signatures, *bounded]
        with ax_errors():  # before Ax says that it has no data
            problem = problem_of(self._experiment, self.method)
            not_learned = [*self.method.not_learned(problem)]
            not_learned += [trial.index for trial in problem.trials if trial.has_lost_value]
        realized = realized_inputs(self._experiment, self.method)
        found = realized_data(
            experiment_data,
            trials=self._experiment.trials,
            realized={i: row for i, row in realized.items() if i not in not_learned},
            metrics=metrics,
            parameters=list(self._search_space.parameters),
        )
        if found.observation_data.empty and not_learned:
            said = " ".join(all_left_out(self.method, problem))
            raise DataRequiredError(
                f"{said} No other trial has an outcome: complete one, or attach one with its data, "
                "before asking for the next."
            )
        if found.observation_data.empty:
            raise DataRequiredError(
                f"no trial has a value of the objective, {metrics[0]!r}, yet: complete one with "
                "it, attach one with its data, or add it to an earlier one, by "
                f"client.attach_data(i, {{{metrics[0]!r}: ...}}), before asking for the next. A "
                "strategy that has made trials, of another objective or another experiment, does "
                "not begin anew: a new one does."
            )
        seen = found.observation_data["mean"]
        if lacking := [m for m in bounded if m not in seen or seen[m].isna().all()]:
            raise DataRequiredError(
                f"no trial has a value of {lacking}, which have bounds: complete a trial with "
                "them, as in complete_trial(client, i, {...}), or add them to an earlier one, by "
                "client.attach_data(i, {...}), before asking for the next."
            )
        self._set_search_space(self._search_space)
        self._set_model_space(arm_data=found.arm_data)
        return super()._set_and_filter_training_data(
            experiment_data=found, search_space=self._model_space
        )


# Ax reads the names of its arguments off.
update_wrapper(CostAwareAdapter.__init__, TorchAdapter.__init__)
