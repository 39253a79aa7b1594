"""Generator that chooses the query whose answer tells most about the best point.

Trials are averages of the objective over the points that they reach; what is wanted is the best
point (Zhang et al. 2024, "Indirect Query Bayesian Optimization with
Integrated Feedback"). The surrogate is Ax's modular one with a ``ConditionalMeanProcess``, in raw
units of the objective. Inside this module values have the sign of maximisation; what it records has
the objective's own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from ax.core.search_space import SearchSpaceDigest
from ax.core.types import TCandidateMetadata, TParamValue
from ax.exceptions.core import UnsupportedError, UserInputError
from ax.generators.torch_base import TorchGenResults, TorchOptConfig
from ax.utils.common.constants import Keys
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.utils.datasets import SupervisedDataset
from botorch.utils.sampling import manual_seed
from torch import Tensor

from ax_costaware.acquisition import (
    ConditionalJointEntropySearch,
    ConditionalMaxValueEntropySearch,
)
from ax_costaware.acquisition.local_search import LocalSearch
from ax_costaware.acquisition.log_cost import CostFunction, log_cost_function
from ax_costaware.acquisition.target_optima import best_target, sample_optima
from ax_costaware.acquisition.target_space import TargetSpace
from ax_costaware.adapter.decoded_conditional import DecodedConditional
from ax_costaware.exceptions import InputError
from ax_costaware.generators.budget import decision_seed
from ax_costaware.generators.cost_aware_generator import CostAwareGenerator, direction
from ax_costaware.generators.indirect_surrogates import conditional_mean_spec
from ax_costaware.generators.query_standing import QueryStanding
from ax_costaware.generators.target_columns import target_space
from ax_costaware.generators.target_settings import TargetSettings
from ax_costaware.models.conditional_mean_process import ConditionalMeanProcess
from ax_costaware.models.indirect_posterior import IndirectPosterior
from ax_costaware.policies.resolution_tree import Cell
from ax_costaware.records import RECORD

NUM_RESTARTS = 8
"""Local searches for a query, where the settings do not say."""


_NEXT_TO_NOTHING = 1e-6
"""Nats below which an answer tells nothing by a criterion."""


@dataclass(frozen=True)
class QueryRegion:
    """Which queries may be asked, in the model's space."""

    bounds: Tensor
    """Bounds of the columns, ``2 x p``."""

    starts: Tensor
    """``m x p`` valid queries all over it, each of which can be paid."""

    held: tuple[int, ...]
    """Columns in which a search stays at the value of its start: those of parameters that are not
    continuous, or that the caller fixed."""

    constraints: list[tuple[Tensor, Tensor, float]]
    """Parameter constraints as ``(indices, coefficients, rhs)``, ``sum_i c_i a_i >= rhs``."""

    cells: tuple[Cell, ...] = ()
    """The cells of a tree that the starts are, where there are no other queries."""

    known: dict[str, int] = field(default_factory=dict)
    """What is recorded beside the decision."""


@dataclass(frozen=True)
class IndirectRequest:
    """What the adapter hands to the generator for one decision."""

    where: QueryStanding
    """Money."""

    region: QueryRegion
    """Which queries may be asked."""

    cost: CostFunction
    """What queries of the model's space cost."""

    X_pending: Tensor | None
    """``k x p`` queries under evaluation."""

    minimize: bool
    """Direction of the objective."""


@dataclass(frozen=True)
class Optimum:
    """A local optimum of the posterior mean over the points."""

    parameters: dict[str, TParamValue]
    """The point, in raw units."""

    mean: float
    """Posterior mean of the objective there, in its own unit and sign."""

    standard_deviation: float
    """Posterior standard deviation of the objective there."""

    def record(self) -> dict[str, Any]:
        """What is stored of it with a trial."""
        return {
            "parameters": self.parameters,
            "mean": self.mean,
            "standard_deviation": self.standard_deviation,
        }


@dataclass(frozen=True)
class ChosenQuery:
    """The query of a decision."""

    query: Tensor
    """The query, in the model's space: ``p``."""

    information: float
    """What its answer is expected to tell, in nats."""

    cost: float
    """What it costs."""

    why: str
    """Why it was chosen, as a sentence that begins with ``It``."""

    decision: Mapping[str, Any]
    """What is recorded of the choice beside that."""


class IndirectGenerator(CostAwareGenerator):
    """Chooses the next query.

    Args:
        settings: What the strategy was asked to do.
        refit_on_cv: As for any generator of Ax.
        warm_start_refit: As for any generator of this package.
    """

    settings: TargetSettings

    def __init__(
        self,
        settings: TargetSettings,
        refit_on_cv: bool = False,
        warm_start_refit: bool = False,
    ) -> None:
        super().__init__(settings, refit_on_cv=refit_on_cv, warm_start_refit=warm_start_refit)
        self.law: Callable[[], DecodedConditional] | None = None
        """Asked for the law of a point given a query before a fit; the adapter knows it."""

    def fit(
        self,
        datasets: Sequence[SupervisedDataset],
        search_space_digest: SearchSpaceDigest,
        candidate_metadata: list[list[TCandidateMetadata]] | None = None,
        state_dict: OrderedDict[str, Tensor] | None = None,
        refit: bool = True,
        **additional_model_inputs: Any,
    ) -> None:
        """Fit the surrogate to the law that the adapter knows by now.

        Raises:
            UserInputError: If an observation is no query of the law.
        """
        if self.law is None:
            raise UnsupportedError("the indirect-query generator fits for an IndirectAdapter only.")
        self.surrogate_spec = conditional_mean_spec(self.settings, self.law())
        self._surrogate = None
        try:
            super().fit(
                datasets=datasets,
                search_space_digest=search_space_digest,
                candidate_metadata=candidate_metadata,
                state_dict=state_dict,
                refit=refit,
                **additional_model_inputs,
            )
        except InputError as error:
            raise UserInputError(str(error)) from error
        # Searches take gradients by queries and points only.
        self.model.requires_grad_(False)

    def gen(
        self, n: int, search_space_digest: SearchSpaceDigest, torch_opt_config: TorchOptConfig
    ) -> TorchGenResults:
        """Choose the next query.

        Args:
            n: Must be one: a cost belongs to one arm.
            search_space_digest: The search space in the model's terms.
            torch_opt_config: Carries the ``IndirectRequest`` among its ``model_gen_options``.
        """
        request = torch_opt_config.model_gen_options.get(RECORD)
        if not isinstance(request, IndirectRequest) or n != 1:
            raise UnsupportedError(
                "the indirect-query generator makes one decision at a time, for an IndirectAdapter."
            )
        seed = decision_seed(self.settings.seed, request.where.trial_index)
        with manual_seed(seed):
            chosen = self._chosen(request, seed)
            best, *_ = self.optima(request.minimize)
        return TorchGenResults(
            points=chosen.query.detach().cpu().unsqueeze(0),
            weights=torch.ones(1, dtype=torch.double),
            gen_metadata={
                Keys.EXPECTED_ACQF_VAL: [chosen.information / chosen.cost],
                RECORD: self._record(request, chosen, best),
            },
        )

    def best_point(
        self, search_space_digest: SearchSpaceDigest, torch_opt_config: TorchOptConfig
    ) -> Tensor | None:
        """The query that was asked and has the best posterior mean."""
        points: Tensor = self.surrogate.Xs[0]
        minimize = bool(torch_opt_config.objective_weights.sum() < 0)
        with torch.no_grad():
            mean, _ = self.posterior(minimize).moments(points)
        return points[int(mean.argmax())]

    @property
    def model(self) -> ConditionalMeanProcess:
        """The fitted model."""
        model = self.surrogate.model
        assert isinstance(model, ConditionalMeanProcess)
        return model

    def posterior(self, minimize: bool, A_pending: Tensor | None = None) -> IndirectPosterior:
        """The posterior of averages and points, with the sign of maximisation."""
        return IndirectPosterior.of(self.model, direction(minimize), A_pending)

    def optima(self, minimize: bool) -> list[Optimum]:
        """The local optima of the posterior mean over the points, best first."""
        # The seed is that of all decisions, so that the answer depends on the model alone.
        parameters, seed = self.settings.target_parameters, self.settings.seed
        with manual_seed(seed):
            X, mean, variance = best_target(
                self.posterior(minimize), self._target_space(), seed=seed
            )
        sign = -1.0 if minimize else 1.0
        return [
            Optimum(
                {p.name: p.decode(value) for p, value in zip(parameters, row, strict=True)},
                sign * m,
                v**0.5,
            )
            for row, m, v in zip(X.tolist(), mean.tolist(), variance.tolist(), strict=True)
        ]

    def _target_space(self) -> TargetSpace:
        return target_space(self.settings.target_parameters, self.settings.law)

    def _chosen(self, request: IndirectRequest, seed: int) -> ChosenQuery:
        """The query of most information, about the point, too, where none tells of the value."""
        optima = sample_optima(
            self.posterior(request.minimize, request.X_pending),
            self._target_space(),
            num_samples=self.settings.num_samples,
            seed=seed,
        )
        acquisition = self.settings.acquisition
        chosen = self._choose(request, self._information(request, optima, acquisition))
        if chosen.information >= _NEXT_TO_NOTHING or acquisition == "joint_entropy":
            return chosen
        by_point = self._choose(request, self._information(request, optima, "joint_entropy"))
        if by_point.information <= chosen.information:
            return chosen
        extreme = "least" if request.minimize else "greatest"
        return replace(
            by_point,
            why=f"No answer tells of the {extreme} value by itself any more. {by_point.why}",
            decision={**by_point.decision, "acquisition": "joint_entropy"},
        )

    def _information(
        self, request: IndirectRequest, optima: tuple[Tensor, Tensor], acquisition: str
    ) -> AcquisitionFunction:
        """What an answer is expected to tell, in nats."""
        options: dict[str, Any] = {
            "posterior_transform": direction(request.minimize),
            "X_pending": request.X_pending,
        }
        if acquisition == "joint_entropy":
            return ConditionalJointEntropySearch(self.model, *optima, **options)
        noise_aware = acquisition == "max_value_entropy_noise_aware"
        return ConditionalMaxValueEntropySearch(
            self.model, optima[1], noise_aware=noise_aware, **options
        )

    def _choose(self, request: IndirectRequest, information: AcquisitionFunction) -> ChosenQuery:
        """The query of most information per unit of cost, of those that can be paid."""
        region, law = request.region, self.model.conditional
        assert isinstance(law, DecodedConditional)
        log_cost = log_cost_function(request.cost)

        def value(A: Tensor) -> Tensor:
            found: Tensor = information(A.unsqueeze(-2)) * (-log_cost(A)).exp()
            return found

        local = LocalSearch(region.bounds, region.held, region.constraints)
        starts, ends = local.climb(value, region.starts, self.settings.num_restarts or NUM_RESTARTS)
        with torch.no_grad():
            costs = log_cost(ends).exp()
            allowed = law.supported(ends)
            if request.where.limit is not None:
                allowed &= costs <= request.where.limit
            found = torch.cat([ends[allowed], starts])
            values = value(found)
            if not bool((values > 0).any()):
                # No query tells anything, to rounding, where every sampled optimum is far beyond
                # its answer: of these, the one that is known least.
                posterior = self.posterior(request.minimize, request.X_pending)
                values = posterior.moments(found)[1] * (-log_cost(found)).exp()
            best = found[int(values.argmax())]
            cost = float(log_cost(best.unsqueeze(0)).exp())
            nats = float(information(best.reshape(1, 1, -1)))
        priced = not isinstance(request.cost, int | float)
        subject = subject_of(information, request.minimize)
        return ChosenQuery(
            query=best,
            information=nats,
            cost=cost,
            why=(
                "It is the query whose answer is expected to tell most about "
                f"{subject}{', per unit of cost' if priced else ''}: "
                f"{nats:.4g} nats{f' at a cost of {cost:.4g}' if priced else ''}."
            ),
            decision={},
        )

    def _record(
        self, request: IndirectRequest, chosen: ChosenQuery, best: Optimum
    ) -> dict[str, Any]:
        """What is stored with the trial."""
        sign = -1.0 if request.minimize else 1.0
        with torch.no_grad():
            moments = self.posterior(request.minimize, request.X_pending).moments(
                chosen.query.unsqueeze(0)
            )
        mean, variance = (float(moment[0]) for moment in moments)
        return {
            "measure": True,
            "expected_cost": chosen.cost,
            "why": (
                f"{chosen.why}{little_left(chosen.information)} The answer is expected to be "
                f"{sign * mean:.6g} with a standard deviation of {variance**0.5:.6g}, before "
                "noise."
            ),
            "phase": "rule",
            "decision": {
                "acquisition": self.settings.acquisition,
                "information": chosen.information,
                "mean": sign * mean,
                "standard_deviation": variance**0.5,
                "cost": chosen.cost,
                "recommendation": best.record(),
                **chosen.decision,
                **request.where.record(),
            },
        }


def subject_of(information: AcquisitionFunction, minimize: bool) -> str:
    """What the information is about, as words."""
    extreme = "least" if minimize else "greatest"
    if isinstance(information, ConditionalJointEntropySearch):
        return f"where the objective is {extreme}, and what it is there"
    return f"the {extreme} value of the objective"


def little_left(nats: float) -> str:
    """What to do where no answer tells anything; empty where one does."""
    if nats >= _NEXT_TO_NOTHING:
        return ""
    return " That is next to nothing: no answer tells more of the best point, so you may stop."
