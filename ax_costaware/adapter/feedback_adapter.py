"""Adapter of the costly-feedback method: a model that knows time, and which points may be chosen.

Beside what all adapters of this package share it differs from Ax's ``TorchAdapter`` in that it
knows when each trial is, and in what counts as pending: trials that are being measured, and no
others. (Ax also takes a trial that was completed without a measurement for pending, for ever.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import torch
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.search_space import SearchSpace
from ax.core.types import TParamValue
from ax.exceptions.core import UnsupportedError
from ax.generators.types import TConfig
from torch import Tensor

from ax_costaware.adapter.cost_aware_adapter import CostAwareAdapter
from ax_costaware.adapter.decoded_space import DecodedSpace, decoded_space
from ax_costaware.adapter.feedback_checks import check_feedback_experiment
from ax_costaware.adapter.time_feature import TIME
from ax_costaware.generators.budget import (
    decision_seed,
    live_observations,
    undelivered_observations,
)
from ax_costaware.generators.decision_log import log_decision
from ax_costaware.generators.feedback_generator import (
    FeedbackGenerator,
    FeedbackRegion,
    FeedbackRequest,
)
from ax_costaware.generators.feedback_settings import CostlyFeedbackSettings
from ax_costaware.generators.feedback_standing import feedback_standing
from ax_costaware.generators.trial_times import TrialTimes, trial_times
from ax_costaware.ledger import is_to_be_measured
from ax_costaware.records import RECORD

NUM_STARTS = 1024
"""Quasi-random points from which the searches start, where the settings do not say."""


@dataclass(frozen=True)
class BestNow:
    """A local optimum of the posterior mean at the present time."""

    controlled: dict[str, TParamValue]
    """Its parameterization, in raw units."""

    mean: float
    """Posterior mean of the objective, in its own unit and sign."""

    standard_deviation: float
    """Posterior standard deviation of the objective."""

    expected_cost: float
    """What a measurement there costs."""

    @property
    def control_set(self) -> None:
        """None: a trial controls every parameter."""
        return None


class FeedbackAdapter(CostAwareAdapter):
    """The adapter of the costly-feedback method; see the module for what differs."""

    @property
    def settings(self) -> CostlyFeedbackSettings:
        """The settings of the strategy."""
        return self._feedback_generator.settings

    @property
    def _feedback_generator(self) -> FeedbackGenerator:
        generator = self.generator
        if not isinstance(generator, FeedbackGenerator):
            raise UnsupportedError(
                f"a FeedbackAdapter works with a FeedbackGenerator, not with {generator!r}."
            )
        return generator

    def trial_times(self) -> TrialTimes:
        """The times of the trials, past and to come."""
        return trial_times(self.experiment, self.settings.time)

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
                count as decisions that are no trials yet, and as if they were measured.
            fixed_features: Parameters that the caller fixes.
            model_gen_options: Passed on to the generator.

        Raises:
            UserInputError: If the experiment does not fit the settings, or a time is missing.
            UnsupportedError: If ``n`` is not one, or the experiment asks for what the method
                does not do.
        """
        settings = self.settings
        check_feedback_experiment(self.experiment, settings)
        self._check_one_arm(n)
        fixed = {} if fixed_features is None else fixed_features.parameters
        undelivered = undelivered_observations(pending_observations)
        where = feedback_standing(self.experiment, settings, len(undelivered), initial=False)
        region = self._region(
            decision_seed(settings.seed, where.trial_index),
            search_space,
            self._being_measured(pending_observations),
            fixed,
        )
        run = super().gen(
            n=1,
            search_space=search_space,
            optimization_config=optimization_config,
            fixed_features=fixed_features,
            model_gen_options=cast(
                TConfig, {**(model_gen_options or {}), RECORD: FeedbackRequest(where, region)}
            ),
        )
        if fixed:
            (run.gen_metadata or {})[RECORD]["why"] += f" The caller had fixed {fixed}."
        log_decision(run, self.experiment, settings, len(undelivered))
        return run

    def recommend(self) -> list[BestNow]:
        """The local optima of the posterior mean at the time of the next trial, best first."""
        settings, times = self.settings, self.trial_times()
        seed = decision_seed(settings.seed, times.next_trial)
        search = self._feedback_generator.search(
            self._region(seed, None, None, {}), times.now, seed
        )
        optima = search.upper_confidence_bound(0.0).local_optima
        with torch.no_grad():
            mean, variance = search.posterior(optima)
        sign = -1.0 if self.minimize else 1.0
        decoded = self.space().decode(optima)
        return [
            BestNow(decoded[i], sign * float(mean[i]), float(variance[i].sqrt()), settings.cost)
            for i in mean.argsort(descending=True).tolist()
        ]

    def space(self, search_space: SearchSpace | None = None) -> DecodedSpace:
        """How the parameters are encoded in the input space of the fitted model."""
        return decoded_space(self, search_space or self.experiment.search_space)

    def _being_measured(
        self, pending_observations: dict[str, list[ObservationFeatures]] | None
    ) -> Tensor | None:
        """Points with their times whose outcomes are under way, or will be."""
        live = live_observations(self.experiment, pending_observations)
        (metric,) = self.outcomes
        under_way = [
            o
            for o in live.get(metric, [])
            if o.trial_index is None
            or is_to_be_measured(self.experiment.trials[int(o.trial_index)])
        ]
        if not under_way:
            return None
        times, position = self.trial_times(), 0
        points = []
        for o in under_way:
            index = o.trial_index
            if index is None:
                index, position = times.next_trial + position, position + 1
            points.append(
                ObservationFeatures(
                    parameters=dict(o.parameters), metadata={TIME: times[int(index)]}
                )
            )
        found = self.transform_observation_features(points)
        assert isinstance(found, Tensor)
        return found

    def _region(
        self,
        seed: int,
        search_space: SearchSpace | None,
        X_pending: Tensor | None,
        fixed: Mapping[str, TParamValue],
    ) -> FeedbackRegion:
        """Where the points of a decision may be."""
        space, settings = self.space(search_space), self.settings
        at = self.fixed_columns(space, fixed)
        starts = space.sobol_points(settings.raw_samples or NUM_STARTS, seed, at)
        smooth = {column.indices[0] for column in space.columns.values() if column.is_smooth}
        # The last column is the time.
        d = starts.shape[-1] - 1
        return FeedbackRegion(
            bounds=space.bounds[:, :d],
            starts=starts[:, :d],
            held=tuple(i for i in range(d) if i not in smooth or i in at),
            constraints=space.inequality_constraints,
            X_pending=X_pending,
            minimize=self.minimize,
        )
