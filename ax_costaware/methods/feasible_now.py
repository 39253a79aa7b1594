"""Bounds on outcomes that drift: what points count as that may be infeasible at a time.

Each outcome has a model of its own, which knows how fast it forgets. The height of a confidence
bound of the objective counts as far as the point is likely to be feasible, as in constrained
expected improvement (Gardner et al. 2014, "Bayesian Optimization with Inequality Constraints").
"""

from __future__ import annotations

import torch
from botorch.models.model import Model
from torch import Tensor

from ax_costaware.core.constraints import Feasibility
from ax_costaware.core.problem import Problem
from ax_costaware.models.posterior import ExactPosterior


class FeasibleNow:
    """What the searches of a round look at besides the objective.

    Args:
        problem: The problem, which has outcome constraints.
        posterior: The posterior of the objective at the time, with the sign of maximisation.
        now: The time.
        starts: ``m x d`` points all over the space.
        X_pending: ``k x (d + 1)`` points with their times whose outcomes are under way.
        enough: How likely a point has to be to be feasible.
        explores: Whether points count as far as they are likely to be feasible; else what is not
            likely enough is left out.
    """

    def __init__(
        self,
        problem: Problem,
        posterior: ExactPosterior,
        now: float,
        starts: Tensor,
        X_pending: Tensor | None,
        enough: float,
        explores: bool,
    ) -> None:
        def read(model: Model) -> ExactPosterior:
            return ExactPosterior.of(model, X_pending=X_pending).at_time(now)

        self.probability = Feasibility(problem.constraints, read=read)
        self.enough, self.explores = enough, explores
        with torch.no_grad():
            self.least = posterior(starts)[0].min()  # what is worth nothing
        # Until some point is likely enough, the likeliest is searched for.
        self.is_known = bool((self.probability.probability(starts) >= enough).any())

    def at(self, point: Tensor) -> float:
        """The probability that a point, ``d``, is feasible."""
        return float(self.probability.probability(point.unsqueeze(0)))

    def described(self, what: str) -> str:
        """What a point has, a phrase, as the best of those that are looked at."""
        if not self.is_known:
            return "is the likeliest to be feasible"
        if self.explores:
            return f"{what}, as far as it is likely to be feasible,"
        return f"{what} of those that are likely enough to be feasible"

    def counted(self, X: Tensor, values: Tensor) -> Tensor:
        """What points ``n x d`` with confidence bounds, ``n``, count as."""
        if not self.is_known:
            return self.probability(X)
        likely = self.probability(X).exp()
        weight = likely if self.explores else self.probability.enough(X, self.enough)
        return (values - self.least).clamp_min(0.0) * weight

    def shortfall(self, X: Tensor) -> Tensor:
        """Above zero at points ``n x d`` that are not likely enough to be feasible.

        Nothing would be deployed there, so that no other point may be mistaken for one of them.
        """
        return self.enough - self.probability(X).exp()
