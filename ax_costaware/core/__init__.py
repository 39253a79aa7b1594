"""The loop, and what it is made of; it knows neither Ax nor any method.

``History`` is what has happened, ``Problem`` what one decision is made from, and ``Loop`` makes
decisions of a method. ``simulate`` runs a method on a function.
"""

from ax_costaware.acquisition.feasibility import OutcomeConstraint
from ax_costaware.core.history import PastTrial
from ax_costaware.core.model import FixedHyperparameters, ModelOptions
from ax_costaware.core.problem import Best, Decision, Problem, SpaceExhausted, Stop
from ax_costaware.core.simulation import Outcome, Simulation, simulate

__all__ = [
    "Best",
    "Decision",
    "FixedHyperparameters",
    "ModelOptions",
    "Outcome",
    "OutcomeConstraint",
    "PastTrial",
    "Problem",
    "Simulation",
    "SpaceExhausted",
    "Stop",
    "simulate",
]
