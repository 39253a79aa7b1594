r"""Criteria of partial queries: formulas of a mean and one standard deviation.

The value of a query is :math:`g = E_R f(x_C, X_R)`, the expectation over its uncontrolled inputs.
By the names that ``optimize_control_sets`` takes, with :math:`\mu` and :math:`\sigma` of :math:`f`:

* ``"ucb"``: :math:`E[\mu + \beta\sigma]`, the expected upper confidence bound (Tay et al. 2023,
  Algorithm 1), and ``"lcb"``: :math:`E[\mu - \beta\sigma]`, the lower one;
* ``"upper"`` and ``"lower"``: :math:`E\,\mu \pm \beta\,\mathrm{sd}[g]`, confidence bounds of the
  Gaussian :math:`g` itself, which lie much closer together;
* ``"mean"``: :math:`E\,\mu`, what a recommendation maximises;
* ``"ts"``: the same of one pathwise posterior sample (TS-PSQ, Hayashi et al. 2022);
* ``"ei"``: the log of the expected improvement of :math:`g`, whose closed form replaces the double
  Monte Carlo of EI-PSQ (Tay et al. 2023, appendix C.2);
* ``"feasible"``: the probability that further outcomes satisfy their bounds (see
  ``Feasibility``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from botorch.acquisition.analytic import _log_ei_helper
from torch import Tensor

from ax_costaware.models.posterior import Spread

AcquisitionName = Literal["ucb", "lcb", "ei", "ts", "mean", "upper", "lower", "feasible"]


def log_expected_gain(gain: Tensor, std: Tensor) -> Tensor:
    """Return ``log E[max(Y, 0)]`` for ``Y ~ N(gain, std^2)``.

    BoTorch's helper is accurate where the expectation underflows (Ament et al. 2023).
    """
    log_ei: Tensor = std.log() + _log_ei_helper(gain / std)
    return log_ei


@dataclass(frozen=True)
class ConfidenceBound:
    """The upper confidence bound, or for a negative ``beta`` the lower one."""

    beta: float
    spread: Spread = Spread.FUNCTION

    def __call__(self, mean: Tensor, std: Tensor) -> Tensor:
        """See ``Criterion``."""
        return mean + self.beta * std


MEAN = ConfidenceBound(0.0, Spread.NONE)
"""The mean itself."""


@dataclass(frozen=True)
class LogExpectedImprovement:
    """Log expected improvement over ``best_f``."""

    best_f: float
    spread: Spread = field(default=Spread.EXPECTATION, init=False)

    def __call__(self, mean: Tensor, std: Tensor) -> Tensor:
        """See ``Criterion``."""
        return log_expected_gain(mean - self.best_f, std)


@dataclass(frozen=True)
class LogProbability:
    """Log of a probability that is a function of the mean and variance of a query's value."""

    of_moments: Callable[[Tensor, Tensor], Tensor]
    spread: Spread = field(default=Spread.EXPECTATION, init=False)

    def __call__(self, mean: Tensor, std: Tensor) -> Tensor:
        """See ``Criterion``."""
        return self.of_moments(mean, std.square())


Criterion: TypeAlias = ConfidenceBound | LogExpectedImprovement | LogProbability
"""A formula of the mean of queries and of one of their standard deviations, ``spread``.

Called with both, it gives values, elementwise; the larger, the better. The standard deviation is
zero where there is none.
"""


def confidence_bound(name: AcquisitionName, beta: float) -> ConfidenceBound:
    """Return the criterion of a name other than ``"ei"``."""
    if name in ("mean", "ts", "feasible") or beta == 0:
        return MEAN
    spread = Spread.FUNCTION if name in ("ucb", "lcb") else Spread.EXPECTATION
    return ConfidenceBound(beta if name in ("ucb", "upper") else -beta, spread)
