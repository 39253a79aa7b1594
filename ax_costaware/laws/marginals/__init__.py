"""Laws of inputs that a trial does not control, in the raw units of the parameters."""

from ax_costaware.laws.marginals.atomic import Discrete, Empirical
from ax_costaware.laws.marginals.continuous import TruncatedNormal, Uniform
from ax_costaware.laws.marginals.learned import Learned
from ax_costaware.laws.marginals.marginal import Marginal, RawValue

__all__ = ["Discrete", "Empirical", "Learned", "Marginal", "RawValue", "TruncatedNormal", "Uniform"]
