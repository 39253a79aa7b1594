"""Factories of Ax generation strategies, one module per method."""

from ax_costaware.strategies.control_sets import control_set_parameter, control_set_strategy
from ax_costaware.strategies.costly_feedback import costly_feedback_strategy
from ax_costaware.strategies.gittins import gittins_strategy
from ax_costaware.strategies.indirect_queries import indirect_query_strategy
from ax_costaware.strategies.resolution_tree import level_parameter, resolution_tree_strategy

__all__ = [
    "control_set_parameter",
    "control_set_strategy",
    "costly_feedback_strategy",
    "gittins_strategy",
    "indirect_query_strategy",
    "level_parameter",
    "resolution_tree_strategy",
]
