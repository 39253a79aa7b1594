"""BoTorch and GPyTorch models, and what is computed from their posteriors."""

from ax_costaware.models.cached_posterior import CachedPosterior, information_gain
from ax_costaware.models.expectation import expectation_posterior
from ax_costaware.models.log_normal_cost import CostKind, LogNormalCostModel
from ax_costaware.models.point_posterior import PointPosterior
from ax_costaware.models.separable_kernel import SeparableKernel

__all__ = [
    "CachedPosterior",
    "CostKind",
    "LogNormalCostModel",
    "PointPosterior",
    "SeparableKernel",
    "expectation_posterior",
    "information_gain",
]
