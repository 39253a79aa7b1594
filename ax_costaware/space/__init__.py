"""Search spaces: parameters in raw units, as columns of a model, and back."""

from ax_costaware.space.at_most import AtMost
from ax_costaware.space.candidates import Candidates, Descriptors
from ax_costaware.space.nonlinear import NonlinearConstraint
from ax_costaware.space.parameters import Choice, Fixed, Range
from ax_costaware.space.space import Space

__all__ = [
    "AtMost",
    "Candidates",
    "Choice",
    "Descriptors",
    "Fixed",
    "NonlinearConstraint",
    "Range",
    "Space",
]
