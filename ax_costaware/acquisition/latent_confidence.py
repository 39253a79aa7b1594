r"""Upper confidence bound of the function behind averages, at the point that a query is about.

Zhang et al. 2024, "Indirect Query Bayesian Optimization with Integrated Feedback", theorem 2: a
query is a point :math:`a` with a disturbance of mean zero, and the next one maximizes
:math:`\mu(a) + \sqrt{\beta} \, \sigma(a)`, the bound of :math:`f` and not of its averages.
"""

from __future__ import annotations

import math
from typing import cast

from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from ax_costaware.acquisition.pointwise import PointwiseAcquisition, takes_its_inputs
from ax_costaware.argument_checks import nonnegative_number
from ax_costaware.exceptions import InputError
from ax_costaware.models.conditional_mean_process import ConditionalMeanProcess
from ax_costaware.models.posterior import ExactPosterior


@takes_its_inputs
class LatentUpperConfidenceBound(PointwiseAcquisition):
    """Upper confidence bound of the latent function at the centers of queries.

    Args:
        model: A fitted ``ConditionalMeanProcess`` whose conditional has centers, such as a
            ``GaussianConditional`` or ``UniformBoxConditional``.
        beta: Its square root multiplies the standard deviation.
        posterior_transform: A ``ScalarizedPosteriorTransform``: a weight of -1 for minimization.
        X_pending: ``k x p`` pending queries, fantasized at the posterior mean.

    Raises:
        InputError: If ``beta`` is not a finite number >= 0, or queries have no center.
    """

    pending_columns = "p"

    def __init__(
        self,
        model: Model,
        beta: float,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        super().__init__(model=model)
        self.beta = nonnegative_number(beta, "beta")
        self.posterior_transform = posterior_transform
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Condition on pending queries ``k x p``, instead of those given before."""
        super().set_X_pending(X_pending)
        self.latent = ExactPosterior.of(self.model, self.posterior_transform, X_pending).latent

    def _values(self, points: Tensor) -> Tensor:
        conditional = cast(ConditionalMeanProcess, self.latent.model).conditional
        centers = conditional.center(points)
        if centers is None:
            raise InputError(
                f"conditional={conditional!r}: expected one whose queries are about a point, such "
                "as GaussianConditional or UniformBoxConditional."
            )
        mean, variance = self.latent(centers)
        bound: Tensor = mean + math.sqrt(self.beta) * variance.sqrt()
        return bound
