"""BoTorch and GPyTorch models, and what is computed from their posteriors."""

from ax_costaware.models.cached_posterior import CachedPosterior, information_gain
from ax_costaware.models.candidate_posterior import CandidatePosterior
from ax_costaware.models.expectation import expectation_posterior
from ax_costaware.models.forgetting_kernel import ForgettingKernel
from ax_costaware.models.independent_kernel import IndependentKernel
from ax_costaware.models.log_normal_cost import CostKind, LogNormalCostModel
from ax_costaware.models.point_posterior import PointPosterior
from ax_costaware.models.posterior_now import PosteriorNow
from ax_costaware.models.separable_kernel import SeparableKernel
from ax_costaware.models.time_varying_gp import TimeVaryingGP

__all__ = [
    "CachedPosterior",
    "CandidatePosterior",
    "CostKind",
    "ForgettingKernel",
    "IndependentKernel",
    "LogNormalCostModel",
    "PointPosterior",
    "PosteriorNow",
    "SeparableKernel",
    "TimeVaryingGP",
    "expectation_posterior",
    "information_gain",
]
