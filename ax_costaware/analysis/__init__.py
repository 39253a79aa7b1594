"""Ax analyses of cost-aware experiments, for ``client.compute_analyses([...])``."""

from ax_costaware.analysis.cost_and_value import CostAndValueAnalysis

__all__ = ["CostAndValueAnalysis"]
