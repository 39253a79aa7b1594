"""The methods: what each decides from a ``Problem``, without Ax.

``Method`` says what a method answers; each of the six is one frozen value object, the same that a
strategy stores. ``simulate`` runs a method on a function in a plain loop.
"""

from ax_costaware.methods.averages.indirect_queries import IndirectQueries
from ax_costaware.methods.constraints import OutcomeConstraint
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.costly_feedback import CostlyFeedback
from ax_costaware.methods.fidelity import MultiFidelity
from ax_costaware.methods.gittins import Gittins
from ax_costaware.methods.method import Method
from ax_costaware.methods.model import FixedHyperparameters, ModelOptions
from ax_costaware.methods.parameters import Choice, Fixed, Range
from ax_costaware.methods.past import PastTrial
from ax_costaware.methods.problem import Best, Decision, Problem, SpaceExhausted, Stop
from ax_costaware.methods.resolution_tree import TreeSearch
from ax_costaware.methods.simulation import Outcome, Simulation, simulate
from ax_costaware.methods.space import Space

__all__ = [
    "Best",
    "Choice",
    "ControlSets",
    "CostlyFeedback",
    "Decision",
    "Fixed",
    "FixedHyperparameters",
    "Gittins",
    "IndirectQueries",
    "Method",
    "ModelOptions",
    "MultiFidelity",
    "Outcome",
    "OutcomeConstraint",
    "PastTrial",
    "Problem",
    "Range",
    "Simulation",
    "Space",
    "SpaceExhausted",
    "Stop",
    "TreeSearch",
    "simulate",
]
