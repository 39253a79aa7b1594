"""Ax analyses of cost-aware experiments, for ``client.compute_analyses([...])``."""

from ax_costaware.analysis.cost_and_value import CostAndValueAnalysis
from ax_costaware.analysis.feedback import FeedbackAnalysis
from ax_costaware.analysis.indirect import IndirectQueryAnalysis
from ax_costaware.analysis.input_law import InputLawAnalysis
from ax_costaware.analysis.stopping import StoppingAnalysis

__all__ = [
    "CostAndValueAnalysis",
    "FeedbackAnalysis",
    "IndirectQueryAnalysis",
    "InputLawAnalysis",
    "StoppingAnalysis",
]
