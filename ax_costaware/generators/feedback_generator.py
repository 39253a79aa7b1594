"""Generator that chooses the point of a trial and whether its outcome is measured (CE-GP-UCB).

Algorithm 1 of Wang et al. 2020: the point is the one with the largest upper confidence bound at the
time of the trial, and a rule says whether it could be mistaken for a better one. The surrogate is
Ax's modular one with a ``TimeVaryingGP``, in raw units of the objective. Inside this module values
have the sign of maximisation; what it records has the objective's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from ax.core.search_space import SearchSpaceDigest
from ax.exceptions.core import UnsupportedError
from ax.generators.torch_base import TorchGenResults, TorchOptConfig
from ax.utils.common.constants import Keys
from torch import Tensor

from ax_costaware.acquisition import incumbent
from ax_costaware.acquisition.confidence_search import ConfidenceOptima, ConfidenceSearch
from ax_costaware.adapter.time_feature import TIME
from ax_costaware.generators.budget import decision_seed
from ax_costaware.generators.cost_aware_generator import CostAwareGenerator, direction
from ax_costaware.generators.feedback_settings import CostlyFeedbackSettings
from ax_costaware.generators.feedback_standing import FeedbackStanding
from ax_costaware.models.posterior_now import PosteriorNow
from ax_costaware.models.time_varying_gp import TimeVaryingGP
from ax_costaware.policies.query_rules import RIVAL_CORRELATION, Prospect, QueryDecision, Rivals
from ax_costaware.records import RECORD


@dataclass(frozen=True)
class FeedbackRegion:
    """Where points may be, in the model's space with ``d`` columns beside the time."""

    bounds: Tensor
    """Bounds of the columns, ``2 x d``."""

    starts: Tensor
    """``m x d`` valid points all over it."""

    held: tuple[int, ...]
    """Columns in which a search stays at the value of its start: those of parameters that are not
    continuous, or that the caller fixed."""

    constraints: list[tuple[Tensor, Tensor, float]]
    """Parameter constraints as ``(indices, coefficients, rhs)``, ``sum_i c_i x_i >= rhs``."""

    X_pending: Tensor | None
    """``k x (d + 1)`` points that are being measured, with their times."""

    minimize: bool
    """Direction of the objective."""


@dataclass(frozen=True)
class FeedbackRequest:
    """What the adapter hands to the generator for one decision."""

    where: FeedbackStanding
    """Time and money."""

    region: FeedbackRegion
    """Where the point may be."""


class FeedbackGenerator(CostAwareGenerator):
    """Chooses the point of the next trial, and whether to measure."""

    settings: CostlyFeedbackSettings

    def gen(
        self, n: int, search_space_digest: SearchSpaceDigest, torch_opt_config: TorchOptConfig
    ) -> TorchGenResults:
        """Choose the next point and whether to measure it.

        Args:
            n: Must be one: a measurement is of one arm.
            search_space_digest: The search space in the model's terms.
            torch_opt_config: Carries the ``FeedbackRequest`` among its ``model_gen_options``.
        """
        options: Mapping[str, Any] = torch_opt_config.model_gen_options
        request = options.get(RECORD)
        if not isinstance(request, FeedbackRequest) or n != 1:
            raise UnsupportedError(
                "the costly-feedback generator makes one decision at a time, for a FeedbackAdapter."
            )
        where, settings = request.where, self.settings
        seed = decision_seed(settings.seed, where.trial_index)
        search = self.search(request.region, where.now, seed)
        if where.pays:
            beta = settings.beta_at(where.trial_index)
            found = search.upper_confidence_bound(beta)
            draw = np.random.default_rng(seed).random
            rivals = self._rivals(search, found)
            decision = settings.rule.decide(
                Prospect(found.mean, found.variance, beta, draw, rivals)
            )
        else:
            # Where nothing can be measured any more there is nothing to explore for.
            beta = 0.0
            found = search.upper_confidence_bound(beta)
            decision = QueryDecision(False, where.too_dear(settings))
        time = found.point.new_tensor([where.now])
        return TorchGenResults(
            points=torch.cat([found.point, time]).detach().cpu().unsqueeze(0),
            weights=torch.ones(1, dtype=torch.double),
            candidate_metadata=[{TIME: where.now}],
            gen_metadata={
                Keys.EXPECTED_ACQF_VAL: [found.value],
                RECORD: self._record(request, found, beta, decision),
            },
        )

    def best_point(
        self, search_space_digest: SearchSpaceDigest, torch_opt_config: TorchOptConfig
    ) -> Tensor | None:
        """The evaluated point that has the best posterior mean at the present time."""
        points: Tensor = self.surrogate.Xs[0].clone()
        # The transform that adds the time fixes it, too.
        points[:, -1] = (torch_opt_config.fixed_features or {})[points.shape[-1] - 1]
        minimize = bool(torch_opt_config.objective_weights.sum() < 0)
        _, row = incumbent(self.surrogate.model, points, direction(minimize))
        return points[row]

    @property
    def search_space_digest(self) -> SearchSpaceDigest:
        """What Ax's sensitivity analysis looks at: all inputs, at the time of the last outcome."""
        digest = super().search_space_digest
        last = float(self.surrogate.Xs[0][:, -1].max())
        return replace(digest, bounds=[*digest.bounds[:-1], (last, last)])

    @property
    def model(self) -> TimeVaryingGP:
        """The fitted model."""
        model = self.surrogate.model
        assert isinstance(model, TimeVaryingGP)
        return model

    def search(self, region: FeedbackRegion, now: float, seed: int) -> ConfidenceSearch:
        """The search of a region at a time, with the sign of maximisation."""
        restarts = self.settings.num_restarts
        return ConfidenceSearch(
            PosteriorNow(self.model, now, direction(region.minimize), region.X_pending),
            region.bounds,
            RIVAL_CORRELATION,
            starts=region.starts,
            held=region.held,
            inequality_constraints=region.constraints,
            seed=seed,
            **({} if restarts is None else {"num_restarts": restarts}),
        )

    def _rivals(self, search: ConfidenceSearch, found: ConfidenceOptima) -> Rivals | None:
        """What the rule compares the point with, if it does."""
        rule = self.settings.rule
        if rule.compare is None:
            return None
        rivals = search.rivals(found, rule.compare, rule.joint)
        return Rivals(
            mean=rivals.mean.cpu().numpy(),
            variance=rivals.variance.cpu().numpy(),
            covariance=rivals.covariance.cpu().numpy() if rule.joint else None,
        )

    def _record(
        self,
        request: FeedbackRequest,
        found: ConfidenceOptima,
        beta: float,
        decision: QueryDecision,
    ) -> dict[str, Any]:
        """What is stored with the trial."""
        settings, where = self.settings, request.where
        sign = -1.0 if request.region.minimize else 1.0
        mean, spread = sign * found.mean, found.variance**0.5
        what = "best posterior mean"
        if where.pays:
            what = "smallest lower" if request.region.minimize else "largest upper"
            what += " confidence bound"
        return {
            "measure": decision.measure,
            "expected_cost": settings.cost if decision.measure else 0.0,
            "why": (
                f"It has the {what} at time {where.now:.10g}: posterior mean {mean:.6g}, standard "
                f"deviation {spread:.6g}, beta {beta:.6g}. "
                f"{'Measure' if decision.measure else 'Do not measure'}: {decision.reason}."
            ),
            "phase": "rule",
            "decision": {
                "rule": repr(settings.rule),
                "reason": decision.reason,
                "confidence": decision.confidence,
                "mean": mean,
                "standard_deviation": spread,
                "upper_confidence_bound": sign * found.value,
                "beta": beta,
                "forgetting": self.model.forgetting_kernel.forgetting.item(),
                **where.record(),
            },
        }
