"""Ax analyses of cost-aware experiments.

``overview(client)`` returns every card of the client's method. Each analysis also works with
``client.compute_analyses([...])``.
"""

from ax_costaware.analysis.cost_and_value import CostAndValueAnalysis
from ax_costaware.analysis.deployment import DeploymentAnalysis
from ax_costaware.analysis.feedback import FeedbackAnalysis
from ax_costaware.analysis.front import FrontAnalysis
from ax_costaware.analysis.indirect import IndirectQueryAnalysis
from ax_costaware.analysis.input_law import InputLawAnalysis
from ax_costaware.analysis.overview import CostAwareOverview, overview
from ax_costaware.analysis.spending import SpendingAnalysis
from ax_costaware.analysis.stopping import StoppingAnalysis
from ax_costaware.analysis.tables import DecisionAnalysis, RecommendationAnalysis

__all__ = [
    "CostAndValueAnalysis",
    "CostAwareOverview",
    "DecisionAnalysis",
    "DeploymentAnalysis",
    "FeedbackAnalysis",
    "FrontAnalysis",
    "IndirectQueryAnalysis",
    "InputLawAnalysis",
    "RecommendationAnalysis",
    "SpendingAnalysis",
    "StoppingAnalysis",
    "overview",
]
