"""The loop and its parts, which know neither Ax nor any particular method.

``PastTrial`` is a trial of the history, ``Problem`` has the inputs of one decision, and ``Loop``
makes decisions of a method. ``simulate`` runs a method on a function.
"""

from ax_costaware.acquisition.feasibility import OutcomeConstraint
from ax_costaware.core.history import PastTrial
from ax_costaware.core.model import FixedHyperparameters, ModelOptions
from ax_costaware.core.objectives import Objective
from ax_costaware.core.problem import Best, Decision, Problem, SpaceExhausted, Stop
from ax_costaware.core.simulation import Outcome, Simulation, simulate
from ax_costaware.core.traits import Groups, Traits

__all__ = [
    "Best",
    "Decision",
    "FixedHyperparameters",
    "Groups",
    "ModelOptions",
    "Objective",
    "Outcome",
    "OutcomeConstraint",
    "PastTrial",
    "Problem",
    "Simulation",
    "SpaceExhausted",
    "Stop",
    "Traits",
    "simulate",
]
