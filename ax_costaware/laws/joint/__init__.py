"""Laws of several inputs that depend on each other."""

from ax_costaware.laws.joint.copula import GaussianCopula
from ax_costaware.laws.joint.empirical import JointEmpirical
from ax_costaware.laws.joint.law import JointLaw, NodesGiven, Placement

__all__ = ["GaussianCopula", "JointEmpirical", "JointLaw", "NodesGiven", "Placement"]
