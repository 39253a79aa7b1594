"""The methods: what each decides from a ``Problem``, without Ax.

``Method`` says what a method answers; each of the six is one frozen value object, the same that a
strategy stores.
"""

from ax_costaware.core.method import Method
from ax_costaware.methods.averages.indirect_queries import IndirectQueries
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.costly_feedback import CostlyFeedback
from ax_costaware.methods.fidelity import MultiFidelity
from ax_costaware.methods.gittins import Gittins
from ax_costaware.methods.resolution_tree import TreeSearch

__all__ = [
    "ControlSets",
    "CostlyFeedback",
    "Gittins",
    "IndirectQueries",
    "Method",
    "MultiFidelity",
    "TreeSearch",
]
