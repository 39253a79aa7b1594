"""Generator that chooses the next trial by its Gittins index, or stops (Xie et al. 2024, PBGI).

The surrogate is Ax's modular one, in raw units of the objective. Inside this module values have the
sign of maximisation; what it records has the objective's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from ax.core.search_space import SearchSpaceDigest
from ax.core.types import TParamValue
from ax.exceptions.core import OptimizationShouldStop, SearchSpaceExhausted, UnsupportedError
from ax.generators.torch_base import TorchGenResults, TorchOptConfig
from ax.utils.common.constants import Keys
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.utils.sampling import manual_seed
from torch import Tensor

from ax_costaware.acquisition import (
    LogExpectedImprovementPerCost,
    PandoraBoxGittinsIndex,
    incumbent,
)
from ax_costaware.acquisition.log_cost import CostFunction
from ax_costaware.generators.budget import decision_seed
from ax_costaware.generators.cost_aware_generator import CostAwareGenerator, direction
from ax_costaware.generators.gittins_decision import Chosen, GittinsDecision, Incumbent
from ax_costaware.generators.gittins_price import Boxes, price_of_cost
from ax_costaware.generators.gittins_search import Found, Search
from ax_costaware.generators.gittins_settings import GittinsSettings
from ax_costaware.generators.gittins_standing import GittinsStanding, affordable_limit
from ax_costaware.models.log_normal_cost import LogNormalCostModel
from ax_costaware.models.point_posterior import PointPosterior
from ax_costaware.policies.gittins import GittinsStop, ImprovementPerCostStop, StopDecision
from ax_costaware.records import RECORD


@dataclass(frozen=True)
class GittinsRequest:
    """What the adapter hands to the generator for one decision."""

    where: GittinsStanding
    """Money and history."""

    cost: CostFunction
    """What points of the model's space cost: known, or a fitted ``LogNormalCostModel``."""

    points: Tensor
    """``n x d`` valid points all over the model's space."""

    evaluated: Tensor
    """``m x d`` points that were evaluated."""

    parameters: tuple[dict[str, TParamValue], ...]
    """The same in raw units."""

    trials: tuple[int, ...]
    """The trials that they belong to."""

    outcome_spread: float
    """Standard deviation of the outcomes."""

    mean_cost: float
    """Mean cost of the trials so far."""

    minimize: bool
    """Direction of the objective."""

    assess: bool = False
    """Whether only to say whether to stop: then ``OptimizationShouldStop`` is not raised."""


class GittinsGenerator(CostAwareGenerator):
    """Chooses the next trial, or stops."""

    settings: GittinsSettings

    def gen(
        self, n: int, search_space_digest: SearchSpaceDigest, torch_opt_config: TorchOptConfig
    ) -> TorchGenResults:
        """Choose the next point.

        Args:
            n: Must be one: a cost belongs to one arm.
            search_space_digest: The search space in the model's terms.
            torch_opt_config: Carries the ``GittinsRequest`` among its ``model_gen_options``.

        Raises:
            OptimizationShouldStop: If no trial is worth its cost, or none can be paid.
        """
        options: Mapping[str, Any] = torch_opt_config.model_gen_options
        request = options.get(RECORD)
        if not isinstance(request, GittinsRequest) or n != 1:
            raise UnsupportedError(
                "the Gittins generator makes one decision at a time, for a GittinsAdapter."
            )
        with _seeded(decision_seed(self.settings.seed, request.where.trial_index)):
            found, decision = self._decide(request, search_space_digest, torch_opt_config)
        if decision.stop and not request.assess:
            raise OptimizationShouldStop(decision.stop_message(self.settings))
        metadata: dict[str, Any] = {RECORD: decision}
        if found is not None and not request.assess:
            metadata = {
                Keys.EXPECTED_ACQF_VAL: [found.value],
                RECORD: decision.record(self.settings),
            }
        # An assessment without a point has nothing to generate, and Ax wants a point.
        point = request.evaluated[0] if found is None else found.point
        return TorchGenResults(
            points=point.detach().cpu().unsqueeze(0),
            weights=torch.ones(1, dtype=torch.double),
            gen_metadata=metadata,
        )

    def _decide(
        self, request: GittinsRequest, digest: SearchSpaceDigest, config: TorchOptConfig
    ) -> tuple[Found | None, GittinsDecision]:
        settings, where = self.settings, request.where
        sign = -1.0 if request.minimize else 1.0
        transform = direction(request.minimize)
        best, row = incumbent(self.surrogate.model, request.evaluated, transform)
        in_hand = Incumbent(request.trials[row], request.parameters[row], sign * best)
        limit = affordable_limit(where, settings)
        options = cast(
            dict[str, Any], config.model_gen_options.get(Keys.OPTIMIZER_KWARGS.value, {})
        )
        search = Search(
            surrogate=self.surrogate,
            digest=digest,
            config=config,
            cost=request.cost,
            points=request.points,
            limit=limit,
            optimizer_options={
                **{
                    name: getattr(settings, name)
                    for name in ("num_restarts", "raw_samples")
                    if getattr(settings, name) is not None
                },
                **options,
            },
        )

        def stopped(reason: str) -> tuple[None, GittinsDecision]:
            return None, GittinsDecision(where, in_hand, reason)

        if limit is not None and limit <= 0:
            return stopped(f"the budget is used up{_by_the_batch(where)}")
        price = self._price(search, request, best)
        reach = max(best, self._believed(request, config))
        try:
            found = search.best(*self._criterion(where, price, reach))
            if found is None:
                return stopped(
                    f"what is left of the budget pays for no trial{_by_the_batch(where)}"
                )
            chosen, index = self._describe(request, config, found, price)
            verdict = self._verdict(search, request, config, found, index, best, price)
            under_way = _pending(config) is not None
            if settings.acquisition == "gittins" and under_way and index <= reach:
                # Beside what is under evaluation nothing is worth the price: the trial that would
                # be at the highest price below it, and not once more one that is pending.
                found = search.best(LogExpectedImprovementPerCost, {"best_f": reach}) or found
                chosen, _ = self._describe(request, config, found, price)
        except SearchSpaceExhausted:
            return stopped("every point of the search space has been evaluated")
        after = where.relative_lambda
        # In the middle of a batch nothing is known that was not known at its start.
        if after is not None and settings.decay is not None and where.undelivered == 0:
            after = settings.decay.after(after, index, best)
        decision = GittinsDecision(
            where,
            in_hand,
            reason="" if verdict is None else _among(verdict.decision, found),
            stop=verdict is not None and verdict.decision.stop,
            chosen=chosen,
            lmbda=price,
            next_relative_lambda=after,
            compared=None if verdict is None else (sign * verdict.index, verdict.price),
        )
        return found, decision

    def _believed(self, request: GittinsRequest, config: TorchOptConfig) -> float:
        """The best value that points under evaluation are believed to have, for maximisation."""
        X_pending = _pending(config)
        if X_pending is None:
            return -math.inf
        posterior = PointPosterior.of(self.surrogate.model, direction(request.minimize))
        with torch.no_grad():
            return float(posterior.mixture(X_pending)[0].max())

    def _price(self, search: Search, request: GittinsRequest, best: float) -> float:
        def boxes() -> Boxes:
            points = request.points if len(request.points) else request.evaluated
            posterior = PointPosterior.of(self.surrogate.model, direction(request.minimize))
            with torch.no_grad():
                mean, variance = posterior.mixture(points)
            return Boxes(mean, variance.sqrt(), search.costs(points))

        return price_of_cost(
            self.settings, request.where, boxes, best, request.outcome_spread, request.mean_cost
        )

    def _criterion(
        self, where: GittinsStanding, price: float, best: float
    ) -> tuple[type[AcquisitionFunction], dict[str, Any]]:
        """What is maximised, with its arguments besides the cost."""
        settings = self.settings
        if settings.acquisition == "gittins":
            return PandoraBoxGittinsIndex, {"lmbda": price}
        exponent = 1.0
        if settings.acquisition == "log_ei_cost_cooling":
            assert where.remaining is not None
            assert settings.budget is not None
            exponent = max(where.remaining, 0.0) / settings.budget
        return LogExpectedImprovementPerCost, {"best_f": best, "exponent": exponent}

    def _describe(
        self, request: GittinsRequest, config: TorchOptConfig, found: Found, price: float
    ) -> tuple[Chosen, float]:
        """What is recorded of a point, and its index with the sign of maximisation."""
        sign = -1.0 if request.minimize else 1.0
        transform, X_pending = direction(request.minimize), _pending(config)
        model, X = self.surrogate.model, found.point.unsqueeze(0)
        with torch.no_grad():
            posterior = PointPosterior.of(model, transform, X_pending)
            mean, variance = posterior.mixture(X)
            index = PandoraBoxGittinsIndex(
                model, request.cost, price, posterior_transform=transform, X_pending=X_pending
            )(X.unsqueeze(0))
            log_cost = None
            if isinstance(request.cost, LogNormalCostModel):
                moments = request.cost.log_moments(X)
                log_cost = float(moments[0][0]), float(moments[1][0]) ** 0.5
        chosen = Chosen(
            index=sign * float(index),
            mean=sign * float(mean[0]),
            standard_deviation=float(variance[0]) ** 0.5,
            expected_cost=found.cost,
            log_cost=log_cost,
        )
        return chosen, float(index)

    def _verdict(
        self,
        search: Search,
        request: GittinsRequest,
        config: TorchOptConfig,
        found: Found,
        index: float,
        best: float,
        price: float,
    ) -> _Verdict | None:
        """What the stopping rule says, of its own maximum where the search was for another."""
        settings, where = self.settings, request.where
        rule = settings.rule or (GittinsStop() if request.assess else None)
        if rule is None or where.undelivered:
            return None
        own = rule.price(price)
        if isinstance(rule, ImprovementPerCostStop):
            if settings.acquisition != "log_ei_per_cost":
                found = search.best(LogExpectedImprovementPerCost, {"best_f": best}) or found
            # Its index at that price is on the same side of the incumbent.
            _, index = self._describe(request, config, found, own)
            return _Verdict(rule.decide(found.value, price), index, own)
        if settings.acquisition != "gittins" or own != price:
            other = search.best(PandoraBoxGittinsIndex, {"lmbda": own})
            index = index if other is None else other.value
        return _Verdict(rule.decide(index, best, price), index, own)


@dataclass(frozen=True)
class _Verdict:
    """What a stopping rule says, and of what."""

    decision: StopDecision
    """Whether to stop."""

    index: float
    """The index that it looked at, for maximisation."""

    price: float
    """The lambda of that index."""


def _pending(config: TorchOptConfig) -> Tensor | None:
    pending = config.pending_observations
    return None if not pending or not len(pending[0]) else pending[0]


def _among(decision: StopDecision, found: Found) -> str:
    """The reason of a decision; of a stop it is said if only the cheap trials were compared."""
    if decision.stop and found.restricted:
        return f"{decision.reason}, of those that what is left of the budget pays for"
    return decision.reason


def _by_the_batch(where: GittinsStanding) -> str:
    """Ax drops the trials of a batch that it cannot fill, which is no reason to lose them."""
    if not where.undelivered:
        return ""
    return f", with {where.undelivered} before it in the batch: ask for {where.undelivered}"


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed torch, and numpy, by which Ax breaks ties between one-hot columns; then restore both."""
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    try:
        with manual_seed(seed):
            yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
