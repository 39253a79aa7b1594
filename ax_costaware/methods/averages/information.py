"""Information of a query's answer about the best point, in nats, and its description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from torch import Tensor

from ax_costaware.acquisition import (
    ConditionalJointEntropySearch,
    ConditionalMaxValueEntropySearch,
    LatentUpperConfidenceBound,
)
from ax_costaware.argument_checks import check_fields, nonnegative_number
from ax_costaware.core.problem import Problem
from ax_costaware.methods.beta import BetaSchedule
from ax_costaware.models.posterior import ExactPosterior

Information: TypeAlias = Literal[
    "joint_entropy", "max_value_entropy", "max_value_entropy_noise_aware"
]
"""Information criterion: about the best point and its value together; about the value only, as
published; or about the value with the noise of the answer."""


@dataclass(frozen=True)
class LatentUCB:
    """GP-UCB on the latent function, for queries about a point.

    Theorem 2 of Zhang et al. 2024. In round ``t`` the query at the point of the largest
    ``mean + sqrt(beta_t) * deviation`` of the objective itself is asked. Cost does not count, and
    no resolution is chosen.

    Raises:
        InputError: If ``beta`` is neither a finite number >= 0 nor a schedule.
    """

    beta: float | BetaSchedule
    """Weight ``beta_t``: a number, or a schedule. That of the theorem (lemma 5), for ``|X|`` points
    and the probability ``delta``, is ``FiniteDomainBeta(|X|, delta)``."""

    def __post_init__(self) -> None:
        if not isinstance(self.beta, BetaSchedule):
            check_fields(self, beta=nonnegative_number)

    def of(self, problem: Problem) -> LatentUpperConfidenceBound:
        """Return the acquisition function of the next round."""
        beta = self.beta
        if isinstance(beta, BetaSchedule):
            beta = beta(len(problem.observed) + len(problem.pending) + 1)
        return LatentUpperConfidenceBound(problem.model, beta, X_pending=problem.X_pending)


MIN_INFORMATION = 1e-6
"""Nats below which an answer counts as uninformative."""

_MOST_AT_ONCE = 4096
"""Queries per evaluation, which bounds the memory."""


def posterior(problem: Problem, pending: bool = False) -> ExactPosterior:
    """Return the posterior of averages and latent points, on the scale of the model.

    Args:
        problem: The problem, whose model is a conditional mean process.
        pending: True to fantasize pending queries at their posterior mean.
    """
    X_pending = problem.X_pending if pending else None
    return ExactPosterior.of(problem.model, X_pending=X_pending)


def information_of(
    problem: Problem, optima: tuple[Tensor, Tensor], acquisition: str
) -> AcquisitionFunction:
    """Return the acquisition function of a criterion, in nats.

    With outcome constraints it is always the joint entropy: the average over infeasible points may
    be above the best feasible value, so that max-value entropy does not apply.
    """
    model, X_pending = problem.model, problem.X_pending
    if problem.constraints or acquisition == "joint_entropy":
        return ConditionalJointEntropySearch(
            model, *optima, X_pending=X_pending, constraints=problem.constraints
        )
    noise_aware = acquisition == "max_value_entropy_noise_aware"
    return ConditionalMaxValueEntropySearch(
        model, optima[1], noise_aware=noise_aware, X_pending=X_pending
    )


def information_and_score(
    problem: Problem, information: AcquisitionFunction, A: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the information of queries ``n x p``, and the score to compare them by, each ``n``.

    The score is the information. If that is zero for all queries, to rounding, it is the posterior
    variance: this happens if every sampled optimum is far above all means.
    """
    with torch.no_grad():
        nats = torch.cat([information(part) for part in A.unsqueeze(-2).split(_MOST_AT_ONCE)])
        if bool((nats > 0).any()):
            return nats, nats
        return nats, posterior(problem, pending=True)(A)[1]


def subject_of(information: AcquisitionFunction, problem: Problem) -> str:
    """Return a phrase for the subject of the information."""
    extreme = "least" if problem.minimize else "greatest"
    if problem.constraints:
        return f"where the objective is {extreme} within the bounds of other outcomes"
    if isinstance(information, ConditionalJointEntropySearch):
        return f"where the objective is {extreme}, and what it is there"
    return f"the {extreme} value of the objective"


def stop_advice(nats: float) -> str:
    """Return advice to stop if no answer is informative; else an empty string."""
    if nats >= MIN_INFORMATION:
        return ""
    return " That is next to nothing: no answer tells more of the best point, so you may stop."
