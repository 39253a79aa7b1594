"""Adapter of the indirect-query method: what queries may be asked, and what is known of their law.

Beside what all adapters of this package share it differs from Ax's ``TorchAdapter`` in that it
hands the generator the law of a point given a query before each fit, with the pairs that were added
while the experiment runs, and fits anew when there are more of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from ax.core.data_utils import ExperimentData
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.search_space import SearchSpace
from ax.core.types import TParamValue
from ax.exceptions.core import OptimizationShouldStop, UnsupportedError, UserInputError
from ax.generators.types import TConfig

from ax_costaware.acquisition.log_cost import CostFunction, log_cost_function
from ax_costaware.adapter.cost_aware_adapter import CostAwareAdapter
from ax_costaware.adapter.cost_space import known_cost
from ax_costaware.adapter.decoded_conditional import DecodedConditional
from ax_costaware.adapter.decoded_space import DecodedSpace, decoded_space
from ax_costaware.adapter.indirect_checks import (
    added_pairs,
    check_indirect_experiment,
    current_law,
)
from ax_costaware.generators.budget import (
    decision_seed,
    live_observations,
    undelivered_observations,
)
from ax_costaware.generators.decision_log import log_decision
from ax_costaware.generators.indirect_generator import (
    IndirectGenerator,
    IndirectRequest,
    Optimum,
    QueryRegion,
)
from ax_costaware.generators.indirect_settings import IndirectQuerySettings
from ax_costaware.generators.query_standing import QueryStanding, query_standing
from ax_costaware.generators.target_settings import TargetSettings
from ax_costaware.queries.conditionals import Conditional, LearnedConditional
from ax_costaware.records import RECORD

NUM_STARTS = 512
"""Quasi-random queries from which the searches start, where the settings do not say."""


@dataclass(frozen=True)
class BestPoint:
    """A local optimum of the posterior mean over the points."""

    optimum: Optimum
    """The point, and what the model says of it."""

    @property
    def control_set(self) -> None:
        """None: a trial controls every parameter."""
        return None

    @property
    def controlled(self) -> dict[str, TParamValue]:
        """The point, in raw units of the target parameters."""
        return self.optimum.parameters

    @property
    def mean(self) -> float:
        """Posterior mean of the objective there, in its own unit and sign."""
        return self.optimum.mean

    @property
    def standard_deviation(self) -> float:
        """Posterior standard deviation of the objective there."""
        return self.optimum.standard_deviation

    @property
    def expected_cost(self) -> None:
        """None: what is deployed is no query."""
        return None


class IndirectAdapter(CostAwareAdapter):
    """The adapter of the indirect-query method; see the module for what differs."""

    _fitted_law: Conditional | None = None

    @property
    def settings(self) -> TargetSettings:
        """The settings of the strategy."""
        return self.indirect_generator.settings

    @property
    def indirect_generator(self) -> IndirectGenerator:
        """The generator."""
        generator = self.generator
        if not isinstance(generator, IndirectGenerator):
            raise UnsupportedError(
                f"an IndirectAdapter works with an IndirectGenerator, not with {generator!r}."
            )
        return generator

    def gen(
        self,
        n: int,
        search_space: SearchSpace | None = None,
        optimization_config: OptimizationConfig | None = None,
        pending_observations: dict[str, list[ObservationFeatures]] | None = None,
        fixed_features: ObservationFeatures | None = None,
        model_gen_options: TConfig | None = None,
    ) -> GeneratorRun:
        """Decide on the next query.

        Args:
            n: Arms of the trial; must be one.
            search_space: Overrides the search space of the experiment.
            optimization_config: Overrides the objective of the experiment.
            pending_observations: Queries under evaluation, by metric; those without a trial index
                count as decisions that are no trials yet.
            fixed_features: Parameters that the caller fixes.
            model_gen_options: Passed on to the generator.

        Raises:
            OptimizationShouldStop: If no query can be paid.
            UserInputError: If the caller fixes what no query has.
            UnsupportedError: If ``n`` is not one.
        """
        self._check_one_arm(n)
        fixed = {} if fixed_features is None else fixed_features.parameters
        undelivered = [dict(o.parameters) for o in undelivered_observations(pending_observations)]
        where = query_standing(self.experiment, self.settings, undelivered, initial=False)
        pending = live_observations(self.experiment, pending_observations)
        request = self._request(where, search_space, pending, fixed, undelivered)
        if not len(request.region.starts):
            raise OptimizationShouldStop(self._stop_message(where, fixed))
        run = super().gen(
            n=1,
            search_space=search_space,
            optimization_config=optimization_config,
            pending_observations=pending,
            fixed_features=fixed_features,
            model_gen_options=cast(TConfig, {**(model_gen_options or {}), RECORD: request}),
        )
        record = (run.gen_metadata or {})[RECORD]
        # Of the parameterization itself, which is what the ledger asks for.
        record["expected_cost"] = self.settings.cost_at(run.arms[0].parameters)
        record["decision"].update(request.region.known)
        if fixed:
            record["why"] += f" The caller had fixed {fixed}."
        log_decision(run, self.experiment, self.settings, len(undelivered))
        return run

    def recommend(self) -> list[BestPoint]:
        """The local optima of the posterior mean over the points, best first."""
        return [BestPoint(o) for o in self.indirect_generator.optima(self.minimize)]

    def check_experiment(self) -> None:
        """Check that the experiment fits the settings; see ``check_indirect_experiment``."""
        settings = self.settings
        assert isinstance(settings, IndirectQuerySettings)
        check_indirect_experiment(self.experiment, settings)

    def space(self, search_space: SearchSpace | None = None) -> DecodedSpace:
        """How the parameters are encoded in the input space of the fitted model."""
        return decoded_space(self, search_space or self.experiment.search_space)

    def cost_function(self, space: DecodedSpace) -> CostFunction:
        """What queries of the model's space cost."""
        settings = self.settings
        assert isinstance(settings, IndirectQuerySettings)
        return settings.cost if isinstance(settings.cost, float) else known_cost(settings, space)

    def law(self) -> DecodedConditional:
        """The law of a point given a query of the model's space, as far as it is known by now."""
        names = self.settings.query_names(self.experiment.search_space.parameters)
        return DecodedConditional(current_law(self.experiment, self.settings), self.space(), names)

    def _fit(
        self, search_space: SearchSpace, experiment_data: ExperimentData, **kwargs: Any
    ) -> None:
        # What does not fit is told before it fails in the model.
        self.check_experiment()
        law = current_law(self.experiment, self.settings)
        if law is not self._fitted_law:
            # Ax skips a fit to data that are the same.
            self._last_experiment_data = None
        self.indirect_generator.law = self.law
        super()._fit(search_space, experiment_data, **kwargs)
        self._fitted_law = law

    def _request(
        self,
        where: QueryStanding,
        search_space: SearchSpace | None,
        pending: dict[str, list[ObservationFeatures]],
        fixed: Mapping[str, TParamValue],
        undelivered: list[dict[str, Any]],
    ) -> IndirectRequest:
        space = self.space(search_space)
        cost = self.cost_function(space)
        seed = decision_seed(self.settings.seed, where.trial_index)
        under_way = [dict(o.parameters) for o in max(pending.values(), key=len, default=[])]
        return IndirectRequest(
            where=where,
            region=self._region(space, seed, fixed, cost, where, undelivered),
            cost=cost,
            X_pending=self.model_points(under_way) if under_way else None,
            minimize=self.minimize,
        )

    def _region(
        self,
        space: DecodedSpace,
        seed: int,
        fixed: Mapping[str, TParamValue],
        cost: CostFunction,
        where: QueryStanding,
        undelivered: list[dict[str, Any]],
    ) -> QueryRegion:
        """Which queries a decision may choose; without starts where none can be paid."""
        at = self.fixed_columns(space, fixed)
        starts = space.sobol_points(self.settings.raw_samples or NUM_STARTS, seed, at)
        given = f" with {dict(fixed)} fixed" if fixed else ""
        if not len(starts):
            raise UserInputError(
                f"no query among {NUM_STARTS} of the search space{given} met the parameter "
                "constraints: loosen them."
            )
        supported = self.law().supported(starts)
        if not bool(supported.any()):
            raise UserInputError(
                f"conditional={self.settings.law!r} answers for no query of the search "
                f"space{given}: add pairs there."
            )
        starts = starts[supported]
        if where.limit is not None:
            with torch.no_grad():
                starts = starts[log_cost_function(cost)(starts).exp() <= where.limit]
        smooth = {column.indices[0] for column in space.columns.values() if column.is_smooth}
        return QueryRegion(
            bounds=space.bounds,
            starts=starts,
            held=tuple(i for i in range(starts.shape[-1]) if i not in smooth or i in at),
            constraints=space.inequality_constraints,
            known=self._known_pairs(),
        )

    def _known_pairs(self) -> dict[str, int]:
        """How many pairs the law was learned from, where it was."""
        law = self.settings.law
        if not isinstance(law, LearnedConditional):
            return {}
        return {"pairs": law.num_pairs + len(added_pairs(self.experiment, self.settings))}

    def _stop_message(self, where: QueryStanding, fixed: Mapping[str, TParamValue]) -> str:
        best = self.recommend()[0]
        tail = f" The caller had fixed {dict(fixed)}." if fixed else ""
        return (
            f"{where.exhausted(self.settings)} Deploy {best.controlled}, whose expected value is "
            f"{best.mean:.6g} with a standard deviation of {best.standard_deviation:.6g}.{tail}"
        )
