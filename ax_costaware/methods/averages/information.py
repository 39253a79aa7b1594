"""What a query's answer tells of the best point, in nats, and how that is said."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from torch import Tensor

from ax_costaware.acquisition import (
    ConditionalJointEntropySearch,
    ConditionalMaxValueEntropySearch,
)
from ax_costaware.core.problem import Problem
from ax_costaware.models.posterior import ExactPosterior

Information: TypeAlias = Literal[
    "joint_entropy", "max_value_entropy", "max_value_entropy_noise_aware"
]
"""What a query is chosen to tell of: the best point and its value together, or the value only, that
in the form that was published, or with an account of the noise."""

MIN_INFORMATION = 1e-6
"""Nats below which an answer tells nothing by a criterion."""

_MOST_AT_ONCE = 4096
"""Queries whose information is worked out together."""


def posterior(problem: Problem, pending: bool = False) -> ExactPosterior:
    """The posterior of averages and points, on the scale of the model.

    Args:
        problem: The problem, whose model is a conditional mean process.
        pending: Whether pending queries are taken for answered.
    """
    X_pending = problem.X_pending if pending else None
    return ExactPosterior.of(problem.model, X_pending=X_pending)


def information_of(
    problem: Problem, optima: tuple[Tensor, Tensor], acquisition: str
) -> AcquisitionFunction:
    """What an answer is expected to tell, in nats; of feasible optima always the joint entropy."""
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
    """What answers of queries ``n x p`` tell, and what queries are compared by, each ``n``.

    That is the same, unless no answer tells anything, to rounding, as where every sampled optimum
    is far beyond all means: then it is the variance, for what is known least is worth most.
    """
    with torch.no_grad():
        nats = torch.cat([information(part) for part in A.unsqueeze(-2).split(_MOST_AT_ONCE)])
        if bool((nats > 0).any()):
            return nats, nats
        return nats, posterior(problem, pending=True)(A)[1]


def subject_of(information: AcquisitionFunction, problem: Problem) -> str:
    """What the information is about, as words."""
    extreme = "least" if problem.minimize else "greatest"
    if problem.constraints:
        return f"where the objective is {extreme} within the bounds of other outcomes"
    if isinstance(information, ConditionalJointEntropySearch):
        return f"where the objective is {extreme}, and what it is there"
    return f"the {extreme} value of the objective"


def little_left(nats: float) -> str:
    """What to do where no answer tells anything; empty where one does."""
    if nats >= MIN_INFORMATION:
        return ""
    return " That is next to nothing: no answer tells more of the best point, so you may stop."
