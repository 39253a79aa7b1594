"""BoTorch and GPyTorch models, and what is computed from their posteriors."""

from ax_costaware.models.average_kernel import AverageKernel
from ax_costaware.models.candidate_posterior import CandidatePosterior
from ax_costaware.models.conditional_mean_process import ConditionalMeanProcess
from ax_costaware.models.configurable_gp import DefaultGP
from ax_costaware.models.control_set_cost import ControlSetCostKind, ControlSetCostModel
from ax_costaware.models.dense_marginal_likelihood import DenseMarginalLogLikelihood
from ax_costaware.models.expectation import expectation_posterior
from ax_costaware.models.factor import GPFactor, information_gain
from ax_costaware.models.fidelity_gp import FidelityGP, FidelityKernel
from ax_costaware.models.fixed_hyperparameters import (
    FixedConditionalMeanProcess,
    FixedHyperparameterGP,
    FixedTimeVaryingGP,
)
from ax_costaware.models.kernels import IndependentKernel, SeparableKernel
from ax_costaware.models.latent_paths import LatentPaths
from ax_costaware.models.log_normal_cost import CostKind, LogNormalCostModel
from ax_costaware.models.matern_gp import MaternGP
from ax_costaware.models.noise_variance import NoiseVariance
from ax_costaware.models.posterior import ExactPosterior, FunctionalPosterior
from ax_costaware.models.repeats_gp import RepeatsGP
from ax_costaware.models.time_varying_gp import ForgettingKernel, TimeVaryingGP

__all__ = [
    "AverageKernel",
    "CandidatePosterior",
    "ConditionalMeanProcess",
    "ControlSetCostKind",
    "ControlSetCostModel",
    "CostKind",
    "DefaultGP",
    "DenseMarginalLogLikelihood",
    "ExactPosterior",
    "FidelityGP",
    "FidelityKernel",
    "FixedConditionalMeanProcess",
    "FixedHyperparameterGP",
    "FixedTimeVaryingGP",
    "ForgettingKernel",
    "FunctionalPosterior",
    "GPFactor",
    "IndependentKernel",
    "LatentPaths",
    "LogNormalCostModel",
    "MaternGP",
    "NoiseVariance",
    "RepeatsGP",
    "SeparableKernel",
    "TimeVaryingGP",
    "expectation_posterior",
    "information_gain",
]
