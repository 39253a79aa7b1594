"""Adapter of the control-set method: trains on realised inputs, and decides within the budget.

Beside what all adapters of this package share it differs from Ax's ``TorchAdapter`` in which
observations count as pending, and in what it asks of the generator: one control set with values for
it (Tay et al. 2023, Algorithm 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from ax.core.arm import Arm
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.search_space import SearchSpace
from ax.core.types import TModelPredictArm, TParamValue
from ax.exceptions.core import (
    OptimizationShouldStop,
    UnsupportedError,
    UserInputError,
)
from ax.generators.types import TConfig
from botorch.models.model import Model
from torch import Tensor

from ax_costaware.acquisition import ControlSetOptima, optimize_control_sets
from ax_costaware.adapter.cost_aware_adapter import CostAwareAdapter
from ax_costaware.adapter.experiment_checks import check_experiment
from ax_costaware.adapter.hide_control_set import EXACT_VALUES
from ax_costaware.adapter.model_space import ModelSpace, model_space
from ax_costaware.adapter.realized_inputs import realized_inputs, updated_marginals
from ax_costaware.generators.budget import (
    Standing,
    decision_seed,
    live_observations,
    standing,
    stop_message,
    undelivered_control_sets,
    undelivered_observations,
)
from ax_costaware.generators.control_set_generator import (
    ControlSetGenerator,
    ControlSetRequest,
    NothingAffordable,
)
from ax_costaware.generators.control_set_settings import ControlSetSettings
from ax_costaware.generators.cost_aware_generator import direction
from ax_costaware.generators.decision_log import log_decision
from ax_costaware.generators.learned_costs import (
    ExpectedCosts,
    check_reported_costs,
    costs_to_learn_from,
)
from ax_costaware.ledger import outcome_record, with_one_arm
from ax_costaware.queries.control_sets import ControlSet
from ax_costaware.records import CONTROL_SET, RECORD


@dataclass(frozen=True)
class ExpectedOptimum:
    """The best that one control set can do in expectation, under the posterior mean."""

    control_set: str
    """Name of the control set."""

    controlled: dict[str, TParamValue]
    """Values of what it controls, in raw units."""

    mean: float
    """Posterior mean of the objective's expectation over the uncontrolled inputs, in raw units."""

    standard_deviation: float
    """Posterior standard deviation of that expectation."""

    expected_cost: float | None
    """What a trial at these values costs, declared or expected, in the user's own unit; None while
    nothing is known of it."""


class ControlSetAdapter(CostAwareAdapter):
    """The adapter for experiments with control sets; see the module for what differs."""

    @property
    def settings(self) -> ControlSetSettings:
        """The settings of the strategy."""
        generator = self.generator
        if not isinstance(generator, ControlSetGenerator):
            raise UnsupportedError(
                f"a ControlSetAdapter works with a ControlSetGenerator, not with {generator!r}."
            )
        return generator.settings

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
            fixed_features: Inputs, or the control set, that the caller fixes.
            model_gen_options: Passed on to the generator.

        Raises:
            OptimizationShouldStop: If what is left of the budget pays for no control set.
            UserInputError: If the experiment does not fit the settings, a trial whose cost is
                unknown was completed without it, or the fixed features leave no control set that
                the budget pays for.
            UnsupportedError: If ``n`` is not one, or the experiment asks for what the method
                does not do.
        """
        settings = self.settings
        check_experiment(self.experiment, settings)
        check_reported_costs(self.experiment, settings)
        self._check_one_arm(n)
        space = self.model_space_view(search_space)
        costs = self.expected_costs(space)
        undelivered = undelivered_observations(pending_observations)
        where = standing(
            self.experiment,
            settings,
            undelivered_control_sets(pending_observations),
            initial=False,
            reserved=self._costs_of(undelivered, costs),
            least=costs.least,
        )
        if not any(where.affordable):
            raise OptimizationShouldStop(stop_message(where, settings, self._advice()))
        fixed = {} if fixed_features is None else fixed_features.parameters
        request = ControlSetRequest(
            space=space,
            where=where,
            allowed=allowed_control_sets(fixed, settings, where),
            minimize=self.minimize,
            costs=costs,
        )
        try:
            generator_run = super().gen(
                n=n,
                search_space=search_space,
                optimization_config=optimization_config,
                pending_observations=live_observations(self.experiment, pending_observations),
                fixed_features=fixed_features,
                model_gen_options=cast(TConfig, {**(model_gen_options or {}), RECORD: request}),
            )
        except NothingAffordable as stop:
            held = f" The caller had fixed {fixed}." if fixed else ""
            advice = f"{stop}{held} {self._advice()}"
            raise OptimizationShouldStop(stop_message(where, settings, advice)) from stop
        record = (generator_run.gen_metadata or {})[RECORD]
        chosen = settings.control_set(record["control_set"])
        arm = generator_run.arms[0].parameters
        record["controlled"] = {name: arm[name] for name in chosen.parameters}
        record["cost_above"] = chosen.fixed_cost if chosen.cost is None else None
        if fixed:
            record["why"] += f" The caller had fixed {fixed}."
        log_decision(generator_run, self.experiment, settings, len(undelivered))
        return generator_run

    def recommend(self) -> list[ExpectedOptimum]:
        """What each control set can do best in expectation under the fitted model, best first."""
        settings, space = self.settings, self.model_space_view()
        everything = range(len(settings.control_sets))
        optima = self.best_expectations(
            self.botorch_model, everything, space, trial_index=len(self.experiment.trials)
        )
        order = optima.values.argsort(descending=True).tolist()
        chosen = [settings.control_sets[i] for i in order]
        points = [optima.points[i].detach() for i in order]
        means, variances = self._expectation(points, chosen, space)
        costs = self.expected_costs(space)
        expected = [costs.at(i, point) for i, point in zip(order, points, strict=True)]
        return [
            ExpectedOptimum(
                control_set=str(control_set.name),
                controlled=self._raw_values(point, control_set.parameters, space),
                mean=mean,
                standard_deviation=variance**0.5,
                expected_cost=None if cost is None else cost.mean,
            )
            for control_set, point, mean, variance, cost in zip(
                chosen, points, means, variances, expected, strict=True
            )
        ]

    def best_expectations(
        self, model: Model, control_sets: Sequence[int], space: ModelSpace, trial_index: int
    ) -> ControlSetOptima:
        """The points of the model's space with the best expected posterior mean.

        Args:
            model: The fitted model, or one like it that has seen less.
            control_sets: Indices of the control sets, in declared order.
            space: The control sets in the model's space.
            trial_index: Which trial could follow; the search is seeded by it.
        """
        return optimize_control_sets(
            model,
            space.bounds,
            [space.control_sets[i] for i in control_sets],
            space.nodes,
            space.weights,
            acquisition="mean",
            product=space.product,
            given=[space.given[i] for i in control_sets],
            posterior_transform=direction(self.minimize),
            discrete=space.discrete_columns({}),
            inequality_constraints=space.constraints,
            default=space.default,
            seed=decision_seed(self.settings.seed, trial_index),
        )

    def model_best_point(
        self,
        search_space: SearchSpace | None = None,
        optimization_config: OptimizationConfig | None = None,
        pending_observations: dict[str, list[ObservationFeatures]] | None = None,
        fixed_features: ObservationFeatures | None = None,
        model_gen_options: TConfig | None = None,
    ) -> tuple[Arm, TModelPredictArm | None] | None:
        """The arm with observations whose query has the best posterior mean, and that prediction.

        A trial's realised point is not what the arm would give again, so an arm is judged by the
        expectation over what its control set leaves to chance.
        """
        space, settings = self.model_space_view(search_space), self.settings
        trials = self.experiment.trials
        indices = self.get_training_data().arm_data.index.get_level_values("trial_index")
        arms = [arm for index in sorted(set(indices)) for arm in trials[index].arms]
        if not arms:
            return None
        points = self.transform_observation_features(
            [ObservationFeatures(parameters=dict(arm.parameters)) for arm in arms]
        )
        chosen = [settings.control_set(str(arm.parameters[CONTROL_SET])) for arm in arms]
        means, variances = self._expectation(list(points), chosen, space)
        sign = -1.0 if self.minimize else 1.0
        best = max(range(len(arms)), key=lambda i: sign * means[i])
        metric = self.outcomes[0]
        return arms[best], ({metric: means[best]}, {metric: {metric: variances[best]}})

    def model_space_view(self, search_space: SearchSpace | None = None) -> ModelSpace:
        """Control sets, nodes and bounds in the input space of the fitted model."""
        settings = self.settings
        return model_space(
            self,
            search_space or self.experiment.search_space,
            settings,
            updated_marginals(settings.marginals, realized_inputs(self.experiment, settings)),
        )

    def expected_costs(self, space: ModelSpace) -> ExpectedCosts:
        """What the control sets are expected to cost, declared or learned from reported costs."""
        costs = costs_to_learn_from(self.experiment, self.settings)
        indices = sorted(index for by_trial in costs.values() for index in by_trial)
        points = dict(zip(indices, self._realized_points(indices), strict=True))
        return ExpectedCosts.learned(self.settings, costs, points, space.control_sets, space.bounds)

    def _realized_points(self, trial_indices: Sequence[int]) -> list[Tensor]:
        """Points of the model's space at which trials were, as they were realised."""
        rows: list[dict[str, TParamValue]] = []
        for index in trial_indices:
            trial = with_one_arm(self.experiment.trials[index])
            assert trial.arm is not None
            rows.append({**trial.arm.parameters, **(outcome_record(trial).get("realized") or {})})
        return list(self.model_points(rows)) if rows else []

    def _costs_of(
        self, observations: Sequence[ObservationFeatures], costs: ExpectedCosts
    ) -> list[float]:
        """What decisions that are no trials yet are expected to cost; zero if nothing is known."""
        if not observations:
            return []
        points = self.model_points([dict(o.parameters) for o in observations])
        names = self.settings.names
        expected = [
            costs.at(names.index(str(o.parameters[CONTROL_SET])), point)
            for o, point in zip(observations, points, strict=True)
        ]
        return [0.0 if cost is None else cost.mean for cost in expected]

    def _advice(self) -> str:
        best = self.recommend()[0]
        values = ", ".join(f"{name}={value!r}" for name, value in best.controlled.items())
        return (
            f"Deploy control set {best.control_set!r} with {values}: expected value "
            f"{best.mean:.6g}, standard deviation {best.standard_deviation:.3g}."
        )

    def _expectation(
        self, points: Sequence[Tensor], control_sets: Sequence[ControlSet], space: ModelSpace
    ) -> tuple[list[float], list[float]]:
        """Posterior mean and variance of the objective's expectation, for one query per point."""
        names = self.settings.names
        indices = [names.index(str(control_set.name)) for control_set in control_sets]
        means, variances = space.expectations(
            self.botorch_model, list(zip(points, indices, strict=True))
        )
        return means.tolist(), variances.tolist()

    def _raw_values(
        self, point: Tensor, parameters: Sequence[str], space: ModelSpace
    ) -> dict[str, TParamValue]:
        features = [
            ObservationFeatures(
                parameters=dict(zip(self.parameters, point.tolist(), strict=True)),
                metadata={
                    CONTROL_SET: self.settings.names[0],
                    EXACT_VALUES: space.exact_values(point, parameters),
                },
            )
        ]
        for transform in reversed(list(self.transforms.values())):
            features = transform.untransform_observation_features(features)
        return {name: features[0].parameters[name] for name in parameters}


def allowed_control_sets(
    fixed: Mapping[str, TParamValue], settings: ControlSetSettings, where: Standing
) -> tuple[bool, ...]:
    """Which control sets the caller's fixed parameters leave open, in declared order.

    A control set is open if it is the fixed one, if one is fixed, and controls all other fixed
    parameters.

    Raises:
        UserInputError: If no control set is open, or the budget pays for none that is.
    """
    values = {name for name in fixed if name != CONTROL_SET}
    if CONTROL_SET in fixed:
        settings.control_set(str(fixed[CONTROL_SET]))
    allowed = tuple(
        fixed.get(CONTROL_SET, s.name) == s.name and values <= set(s.parameters)
        for s in settings.control_sets
    )
    if not any(allowed):
        raise UserInputError(
            f"fixed_parameters={dict(fixed)}: no control set "
            f"{'of that name ' if CONTROL_SET in fixed else ''}controls all of {sorted(values)}. "
            "Fix only what one control set controls; the rest is left to chance."
        )
    if not any(a and b for a, b in zip(allowed, where.affordable, strict=True)):
        raise UserInputError(
            f"fixed_parameters={dict(fixed)} leave only control sets that cost more than the "
            f"{where.remaining:g} left of the budget."
        )
    return allowed
