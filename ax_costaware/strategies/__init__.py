"""Factories of Ax generation strategies, one module per method."""

from ax_costaware.strategies.control_sets import control_set_parameter, control_set_strategy
from ax_costaware.strategies.costly_feedback import costly_feedback_strategy
from ax_costaware.strategies.gittins import gittins_strategy

__all__ = [
    "control_set_parameter",
    "control_set_strategy",
    "costly_feedback_strategy",
    "gittins_strategy",
]
