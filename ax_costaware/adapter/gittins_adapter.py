"""Adapter of the Gittins method: what trials cost, where the experiment stands, what is in hand.

Beside what all adapters of this package share it differs from Ax's ``TorchAdapter`` in that it
gives the generator the cost as a function of the model's space: a declared one, or a model fitted
to the costs that were reported, those of trials without an outcome included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.search_space import SearchSpace
from ax.core.types import TParamValue
from ax.exceptions.core import (
    DataRequiredError,
    OptimizationShouldStop,
    UnsupportedError,
    UserInputError,
)
from ax.generators.types import TConfig
from torch import Tensor

from ax_costaware.acquisition.log_cost import CostFunction, log_cost_function
from ax_costaware.adapter.cost_aware_adapter import CostAwareAdapter
from ax_costaware.adapter.cost_space import known_cost
from ax_costaware.adapter.decoded_space import DecodedSpace, decoded_space
from ax_costaware.adapter.gittins_checks import check_gittins_experiment
from ax_costaware.exceptions import InputError
from ax_costaware.generators.budget import live_observations, undelivered_observations
from ax_costaware.generators.decision_log import log_decision
from ax_costaware.generators.gittins_decision import GittinsDecision
from ax_costaware.generators.gittins_generator import GittinsGenerator, GittinsRequest
from ax_costaware.generators.gittins_settings import GittinsSettings
from ax_costaware.generators.gittins_standing import checked_reported_costs, gittins_standing
from ax_costaware.ledger import outcome_record, reported_costs, with_one_arm
from ax_costaware.models.log_normal_cost import LogNormalCostModel
from ax_costaware.models.point_posterior import PointPosterior
from ax_costaware.records import RECORD

NUM_POINTS = 1024
"""Points that stand for the search space where lambda is found from a budget."""


@dataclass(frozen=True)
class Best:
    """An evaluated point and what the model says of it."""

    parameters: dict[str, TParamValue]
    """Its parameterization, as it was realised."""

    mean: float
    """Posterior mean of the objective, in its own unit and sign."""

    standard_deviation: float
    """Posterior standard deviation of the objective."""

    expected_cost: float
    """What another trial there is expected to cost; NaN while no cost was reported."""

    trial_index: int
    """The first trial that evaluated it."""

    @property
    def control_set(self) -> None:
        """None: a trial controls every parameter."""
        return None

    @property
    def controlled(self) -> dict[str, TParamValue]:
        """The values to set: all of them."""
        return self.parameters


class GittinsAdapter(CostAwareAdapter):
    """The adapter of the Gittins method; see the module for what differs."""

    @property
    def settings(self) -> GittinsSettings:
        """The settings of the strategy."""
        generator = self.generator
        if not isinstance(generator, GittinsGenerator):
            raise UnsupportedError(
                f"a GittinsAdapter works with a GittinsGenerator, not with {generator!r}."
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
            fixed_features: Parameters that the caller fixes.
            model_gen_options: Passed on to the generator.

        Raises:
            OptimizationShouldStop: If no trial is worth its cost, or none can be paid.
            UserInputError: If the experiment does not fit the settings, or a cost is missing, or
                is no finite number > 0.
            UnsupportedError: If ``n`` is not one, or the experiment asks for what the method
                does not do.
        """
        self._check_one_arm(n)
        run = self._generate(
            False,
            search_space,
            optimization_config,
            pending_observations,
            fixed_features,
            model_gen_options,
        )
        record = (run.gen_metadata or {})[RECORD]
        if self.settings.cost_metric is None:
            # Of the parameterization itself, which is what the ledger asks for.
            record["expected_cost"] = self.settings.cost_at(run.arms[0].parameters)
        if fixed_features is not None and fixed_features.parameters:
            record["why"] += f" The caller had fixed {fixed_features.parameters}."
        undelivered = len(undelivered_observations(pending_observations))
        log_decision(run, self.experiment, self.settings, undelivered)
        return run

    def assess(
        self, pending_observations: dict[str, list[ObservationFeatures]] | None = None
    ) -> GittinsDecision:
        """What the next decision would come to, without making it and without stopping."""
        run = self._generate(True, None, None, pending_observations, None, None)
        decision = (run.gen_metadata or {})[RECORD]
        assert isinstance(decision, GittinsDecision)
        return decision

    def recommend(self) -> list[Best]:
        """The evaluated points by their posterior mean under the fitted model, best first."""
        trials, rows = self._evaluated()
        X = self.model_points(rows)
        with torch.no_grad():
            mean, variance = PointPosterior.of(self.botorch_model).mixture(X)
        costs = self._costs_at(X, rows)
        found: list[Best] = []
        for i in mean.argsort(descending=not self.minimize, stable=True).tolist():
            if all(rows[i] != other.parameters for other in found):
                found.append(
                    Best(rows[i], float(mean[i]), float(variance[i]) ** 0.5, costs[i], trials[i])
                )
        return found

    def cost_function(self, space: DecodedSpace, checked: bool = True) -> CostFunction:
        """What points of the model's space cost: as declared, or as learned from the trials.

        Args:
            space: How the parameters are encoded.
            checked: Whether a completed trial without a cost is an error.

        Raises:
            UserInputError: If a cost is missing, or is no finite number > 0.
            DataRequiredError: If costs are learned, and none was reported yet.
        """
        settings = self.settings
        if settings.cost_metric is None:
            return known_cost(settings, space)
        reported = (checked_reported_costs if checked else reported_costs)(
            self.experiment, settings
        )
        if not reported:
            raise DataRequiredError(
                f"cost={settings.cost!r}: no trial has reported its cost yet, and the next is "
                "chosen by what they cost."
            )
        indices = sorted(reported)
        X = self.model_points([self._realized(index) for index in indices])
        try:
            return LogNormalCostModel(
                X,
                X.new_tensor([reported[index] for index in indices]),
                kind=settings.cost_model,
                bounds=space.bounds,
            )
        except InputError as error:
            raise UserInputError(f"cost={settings.cost!r}: {error}") from error

    def space(self, search_space: SearchSpace | None = None) -> DecodedSpace:
        """How the parameters are encoded in the input space of the fitted model."""
        return decoded_space(self, search_space or self.experiment.search_space)

    def _generate(
        self,
        assess: bool,
        search_space: SearchSpace | None,
        optimization_config: OptimizationConfig | None,
        pending_observations: dict[str, list[ObservationFeatures]] | None,
        fixed_features: ObservationFeatures | None,
        model_gen_options: TConfig | None,
    ) -> GeneratorRun:
        check_gittins_experiment(self.experiment, self.settings)
        fixed = {} if fixed_features is None else fixed_features.parameters
        pending = live_observations(self.experiment, pending_observations)
        request = self._request(search_space, pending, fixed, assess)
        try:
            return super().gen(
                n=1,
                search_space=search_space,
                optimization_config=optimization_config,
                pending_observations=pending,
                fixed_features=fixed_features,
                model_gen_options=cast(TConfig, {**(model_gen_options or {}), RECORD: request}),
            )
        except OptimizationShouldStop as stop:
            if not fixed:
                raise
            raise OptimizationShouldStop(f"{stop} The caller had fixed {fixed}.") from stop

    def _request(
        self,
        search_space: SearchSpace | None,
        pending: dict[str, list[ObservationFeatures]],
        fixed: Mapping[str, TParamValue],
        assess: bool,
    ) -> GittinsRequest:
        settings, space = self.settings, self.space(search_space)
        cost = self.cost_function(space)
        trials, rows = self._evaluated()
        evaluated = self.model_points(rows)
        reserved: list[float] = []
        if promised := [dict(o.parameters) for o in undelivered_observations(pending)]:
            reserved = self._costs_at(self.model_points(promised), promised, cost)
        held: dict[int, float] = {}
        if fixed:
            (point,) = self.model_points([{**rows[0], **fixed}])
            held = {i: float(point[i]) for name in fixed for i in space.columns[name].indices}
        points = space.sobol_points(NUM_POINTS, settings.seed, held).to(evaluated)
        if not any(column.is_smooth for column in space.columns.values()):
            # Ax repeats no point of a space that can be enumerated.
            under_way = [dict(o.parameters) for o in max(pending.values(), key=len, default=[])]
            tried = torch.cat([evaluated, self.model_points([rows[0], *under_way])])
            points = points[(points.unsqueeze(1) != tried).any(dim=-1).all(dim=-1)]
        (metric,) = self.outcomes
        outcomes = self.get_training_data().observation_data["mean", metric].dropna()
        return GittinsRequest(
            where=gittins_standing(self.experiment, settings, reserved),
            cost=cost,
            points=points,
            evaluated=evaluated,
            parameters=tuple(rows),
            trials=tuple(trials),
            outcome_spread=float(outcomes.std()) if len(outcomes) > 1 else 0.0,
            mean_cost=self._mean_cost(trials),
            minimize=self.minimize,
            assess=assess,
        )

    def _evaluated(self) -> tuple[list[int], list[dict[str, TParamValue]]]:
        """Trials whose outcomes the model is trained on, and their parameterizations."""
        index = self.get_training_data().arm_data.index.get_level_values("trial_index")
        trials = sorted({int(i) for i in index})
        return trials, [self._realized(i) for i in trials]

    def _realized(self, trial_index: int) -> dict[str, TParamValue]:
        """A trial's parameterization as it was realised."""
        trial = with_one_arm(self.experiment.trials[trial_index])
        assert trial.arm is not None
        return {**trial.arm.parameters, **(outcome_record(trial).get("realized") or {})}

    def _mean_cost(self, trials: list[int]) -> float:
        settings = self.settings
        reported = reported_costs(self.experiment, settings)
        if settings.cost_metric is not None:
            costs = list(reported.values())
        else:
            # A trial that was free says nothing about the scale of the costs.
            costs = [reported.get(i) or settings.cost_at(self._realized(i)) for i in trials]
        return math.fsum(costs) / len(costs)

    def _costs_at(
        self, X: Tensor, rows: list[dict[str, Any]], cost: CostFunction | None = None
    ) -> list[float]:
        """Expected costs of parameterizations, given as points, too; NaN while none is known."""
        if self.settings.cost_metric is None:
            return [self.settings.cost_at(row) for row in rows]
        if cost is None:
            try:
                cost = self.cost_function(self.space(), checked=False)
            except (DataRequiredError, UserInputError):
                return [math.nan] * len(rows)
        with torch.no_grad():
            found: list[float] = log_cost_function(cost)(X).exp().tolist()
        return found
