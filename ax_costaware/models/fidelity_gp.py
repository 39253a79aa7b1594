r"""Gaussian process of trials at several fidelities, whose bias vanishes at a target.

A trial has inputs :math:`x` and fidelities :math:`s`. The objective is the function at the target
fidelities, :math:`g(x) = f(x, s^*)`:

.. math:: f(x, s) = g(x) + \sum_j \left(b_j(s_j) + h_j(x, s_j)\right).

All terms are independent processes, with Matern-5/2 kernels in the inputs. :math:`b_j` is a shift
that is the same for all inputs, as in the first epochs of learning curves. :math:`h_j` is a bias
that depends on the inputs. Both have the covariance in :math:`s`

.. math:: w_j(s) w_j(s') \exp\left(-(s - s')^2 / 2 \ell_j^2\right), \quad
   w_j(s) = \frac{(u + \epsilon)^{p_j} - \epsilon^{p_j}}{(1 + \epsilon)^{p_j} - \epsilon^{p_j}},

where :math:`u` is the distance from the target, scaled to one at the farthest fidelity. The factors
are those of Wu et al. 2019, "Practical Multi-fidelity Bayesian Optimization for Hyperparameter
Tuning" (BoTorch's ``DownsamplingKernel``). The sum is that of Kennedy and O'Hagan 2000, "Predicting
the output from a complex computer code when fast approximations are available". The variance of the
bias, its length-scales and its power are fitted, so that a misleading fidelity is recognized. In
BoTorch's ``LinearTruncatedFidelityKernel`` the bias has the variance of the objective.

If the same inputs were tried at several fidelities, as in a learning curve, there can also be
:math:`r(x)`, a per-configuration effect shared across fidelities: the noise of a training run, or a
rough part of the objective. Without it each step of a curve would be independent evidence about
other inputs, and a curve of ten steps would count as ten runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from botorch.models.transforms.input import Normalize
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch.constraints import Interval
from gpytorch.kernels import Kernel
from gpytorch.priors import NormalPrior
from torch import Tensor

from ax_costaware.argument_checks import (
    checked_bounds,
    finite_number,
    with_integer_keys,
)
from ax_costaware.exceptions import InputError
from ax_costaware.models.choice_kernel import shared_lengthscales
from ax_costaware.models.configurable_gp import ConfigurableGP, search_by_logarithms
from ax_costaware.models.kernels import matern_correlation, squared_distances
from ax_costaware.models.repeats_likelihood import Noise, repeats_likelihood

_EPSILON = 1e-3
"""Distance from the target below which a bias falls linearly, since a power may have an infinite
slope at zero."""

_PRIORS = {
    "bias_variance": (0.3, 1.5),
    "shift_variance": (0.3, 1.5),
    "power": (2.0, 1.5),
    "reach": (1.0, 0.7),
}
"""Log-normal priors of each fidelity, as median and standard deviation of the logarithm: variances
of bias and shift relative to the objective at the target; the power, which is large for learning
curves that saturate early; and the length-scale on the unit cube."""

_OUTPUTSCALE = (3.0, 1.0)
"""Prior of the variance of the objective at the target, relative to that of the outcomes: few
trials, most of them far from the best, determine neither."""

_OWN_VARIANCE = (0.001, 3.0)
"""Prior of the variance of the per-configuration effect, relative to the objective. It is wide:
without such an effect, a trial at the cheapest fidelity would seem informative about its size."""

_CELLS = 2.0**15
"""Cells along an edge of the unit cube. Inputs in the same cell are equal. A threshold on distances
would not be transitive, and therefore not a covariance."""

_LOG_BOUNDS = (-6.0, 4.0)
"""Bounds of the logarithms of hyperparameters, beyond which a covariance is singular or noise."""

_LEAST_LOG_OWN = -16.0
"""Lower bound of the log variance of the per-configuration effect, which may be negligible."""

_LENGTHSCALE = (math.sqrt(2), math.sqrt(3))
"""Mean and standard deviation of the log length-scale for one input: BoTorch's log-normal prior
(Hvarfner, Hellsten and Nardi 2024). As a normal prior of the logarithm with the same mode, its mean
is lower by the variance."""


class FidelityKernel(Kernel):  # type: ignore[misc]
    r"""Kernel of a function at several fidelities, whose bias vanishes at the target.

    Args:
        num_inputs: Number of columns.
        fidelities: Columns of each fidelity with their values at the target: one column of a
            number, or those of a one-hot block. Columns are on the unit cube.
        own: Include a per-configuration effect shared across fidelities.
        choices: Columns of each one-hot choice, which share their length-scales.
        repeats: Column of the number of repeats, on which nothing depends; None without one.
    """

    log_values: Tensor

    def __init__(
        self,
        num_inputs: int,
        fidelities: Sequence[Mapping[int, float]],
        own: bool = False,
        choices: Sequence[Sequence[int]] = (),
        repeats: int | None = None,
    ) -> None:
        super().__init__()
        self.own = own
        self.fidelities = [dict(columns) for columns in fidelities]
        taken = {repeats, *(column for columns in self.fidelities for column in columns)}
        self.inputs = [i for i in range(num_inputs) if i not in taken]
        places, widths = shared_lengthscales(self.inputs, choices, num_inputs)
        self.register_buffer("parameter_of", places)
        self.register_buffer("widths", widths)
        k, count = len(places.unique()), len(self.fidelities)
        mode = _LENGTHSCALE[0] + 0.5 * math.log(k) - _LENGTHSCALE[1] ** 2
        priors = {"objective_lengthscale": [(mode, _LENGTHSCALE[1])] * k}
        priors["bias_lengthscale"] = priors["objective_lengthscale"]
        for name, (median, deviation) in _PRIORS.items():
            priors[name] = [(math.log(median), deviation)] * count
        priors["outputscale"] = [(math.log(_OUTPUTSCALE[0]), _OUTPUTSCALE[1])]
        if own:
            priors["own_variance"] = [(math.log(_OWN_VARIANCE[0]), _OWN_VARIANCE[1])]
        # A single vector of logarithms needs far fewer steps of a fit.
        self._slices: dict[str, slice] = {}
        for name, values in priors.items():
            first = max((found.stop for found in self._slices.values()), default=0)
            self._slices[name] = slice(first, first + len(values))
        mean, deviation = torch.tensor([v for values in priors.values() for v in values]).T
        self.register_parameter("log_values", torch.nn.Parameter(mean.clone()))
        # As for length-scales in BoTorch: bounds of the optimizer, without a transform.
        lower, upper = (torch.full_like(mean, bound) for bound in _LOG_BOUNDS)
        if own:
            lower[self._slices["own_variance"]] = _LEAST_LOG_OWN
        self.register_constraint("log_values", Interval(lower, upper, transform=None))
        self.register_prior("log_prior", NormalPrior(mean, deviation), _log_values, _set)

    def value(self, name: str) -> Tensor:
        """Return a hyperparameter: a number per input, a number per fidelity, or one number."""
        found: Tensor = self.log_values[self._slices[name]].exp()
        return found

    def _lengthscales(self, name: str) -> Tensor:
        """Return the length-scales of the columns of inputs."""
        found = self.value(name)
        columns: Tensor = found[self.parameter_of] * self.widths.to(found)
        return columns

    def _weights(self, X: Tensor, j: int) -> Tensor:
        """Return the bias weights ``w_j``, ``... x n``, which are zero at the target."""
        columns, power = self.fidelities[j], self.value("power")[j]
        if len(columns) > 1:
            (target,) = (column for column, value in columns.items() if value > 0.5)
            distance = 1.0 - X[..., target]
        else:
            ((column, value),) = columns.items()
            distance = (X[..., column] - value).abs() / max(value, 1.0 - value)
        distance = distance.clamp(0.0, 1.0)
        low: Tensor = _EPSILON**power
        weights: Tensor = ((distance + _EPSILON) ** power - low) / ((1 + _EPSILON) ** power - low)
        return weights

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """Return covariances of ``... x n x d`` with ``... x m x d`` points, ``... x n x m``."""

        def squared(columns: list[int], lengthscale: Tensor) -> Tensor:
            left, right = x1[..., columns] / lengthscale, x2[..., columns] / lengthscale
            if diag:
                return (left - right).square().sum(dim=-1)
            return squared_distances(left, right)

        total, bias = (
            matern_correlation(squared(self.inputs, self._lengthscales(name)))
            for name in ("objective_lengthscale", "bias_lengthscale")
        )
        for j, columns in enumerate(self.fidelities):
            first, second = self._weights(x1, j), self._weights(x2, j)
            common = first * second if diag else first.unsqueeze(-1) * second.unsqueeze(-2)
            squares = squared(list(columns), self.value("reach")[j])
            common = common * (-0.5 * squares).exp()
            shift, varying = self.value("shift_variance")[j], self.value("bias_variance")[j]
            total = total + common * (shift + varying * bias)
        if self.own:
            left, right = ((x[..., self.inputs] * _CELLS).round() for x in (x1, x2))
            if not diag:
                left, right = left.unsqueeze(-2), right.unsqueeze(-3)
            total = total + self.value("own_variance") * (left == right).all(dim=-1)
        return self.value("outputscale") * total


def _on_the_unit_cube(
    fidelities: Sequence[Mapping[int, float]], bounds: Tensor
) -> list[dict[int, float]]:
    """Return columns, numbered from 0, with their target values on the unit cube."""
    given = f"fidelities={fidelities!r}"
    if not isinstance(fidelities, list | tuple) or not all(
        isinstance(columns, Mapping) and columns for columns in fidelities
    ):
        raise InputError(f"{given}: expected a list such as [{{2: 1.0}}], an entry for each.")
    (lower, upper), d = bounds, bounds.shape[-1]
    scaled, taken = list[dict[int, float]](), set[int]()
    for columns in fidelities:
        found: dict[int, float] = {}
        for i, at in with_integer_keys(columns).items():
            if type(i) is not int or not -d <= i < d or lower[i] == upper[i] or i % d in taken:
                raise InputError(
                    f"{given}: expected columns from 0 to {d - 1}, each once, of which the lower "
                    f"bound is below the upper one, and {i} is none."
                )
            taken.add(i % d)
            value = finite_number(at, f"fidelities: the column {i}")
            found[i % d] = float((value - lower[i]) / (upper[i] - lower[i]))
        if len(found) > 1 and sum(value > 0.5 for value in found.values()) != 1:
            raise InputError(f"{given}: expected a block of which one column is one at the target.")
        scaled.append(found)
    if len(taken) == d:
        raise InputError(f"{given}: expected another column besides them, an input.")
    return scaled


# Module-level functions instead of lambdas, so that the model can be pickled.
def _log_values(kernel: FidelityKernel) -> Tensor:
    return kernel.log_values


def _set(kernel: FidelityKernel, value: Tensor) -> None:
    kernel.initialize(log_values=value)


class FidelityGP(ConfigurableGP):
    r"""Gaussian process with a ``FidelityKernel``.

    ``k((x, s), (x', s')) = k_g(x, x') + sum_j w_j(s) w_j(s') l_j(s, s') (k_b(x, x') + v_j)``, with
    Matern-5/2 kernels ``k_g`` and ``k_b`` and bias weights ``w_j`` that are zero at the target.

    Args:
        train_X: ``n x d`` inputs, fidelities among the columns.
        train_Y: ``n x 1`` outcomes.
        fidelities: Columns of each fidelity with their values at the target, in the units of
            ``train_X``; several columns are a one-hot block. -1 is the last column, as in BoTorch.
        bounds: ``2 x d`` bounds, by which columns are scaled to the unit cube.
        train_Yvar: ``n x 1`` known noise variances; None to infer the noise.
        outcome_transform: As in ``SingleTaskGP``, which standardizes outcomes by default.
        own: Include a per-configuration effect shared across fidelities, if some inputs were tried
            at several fidelities.
        choices: Columns of each one-hot choice, which share their length-scales.
        repeats: Column of the number of repeats ``n`` of which a trial reports the mean: the noise
            variance is ``sigma^2(x) / n``. None: one measurement each.
        noise: With ``repeats``, the noise variance of one measurement, see ``repeats_likelihood``.

    Raises:
        InputError: If ``fidelities`` is not a list of such columns; if a column does not exist, has
            width zero, is repeated, or has no number; if a block does not have exactly one column
            that is one at the target; if no other columns are left; or if ``bounds`` do not fit
            ``train_X``.
    """

    knows_choices = True
    """True: the constructor takes ``choices``."""

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        fidelities: Sequence[Mapping[int, float]],
        bounds: Tensor,
        train_Yvar: Tensor | None = None,
        outcome_transform: OutcomeTransform | _DefaultType | None = DEFAULT,
        own: bool = False,
        choices: Sequence[Sequence[int]] = (),
        repeats: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        d = train_X.shape[-1]
        bounds = checked_bounds(bounds, d).to(train_X)
        scaled = _on_the_unit_cube(fidelities, bounds)
        columns = [i for i in range(d) if i != repeats]
        inputs = [i for i in columns if all(i not in each for each in scaled)]
        continues = len(train_X[:, inputs].unique(dim=0)) < len(train_X[:, columns].unique(dim=0))
        kernel = FidelityKernel(d, scaled, own and continues, choices, repeats)
        scaling, likelihood = Normalize(d, bounds=bounds), None
        if repeats is not None:
            likelihood = repeats_likelihood(train_X, repeats, scaling, noise)
        super().__init__(
            train_X,
            train_Y,
            train_Yvar,
            likelihood,
            covar_module=kernel,
            outcome_transform=outcome_transform,
            input_transform=scaling,
        )
        search_by_logarithms(self)
        self._with_own = partial(FidelityKernel, d, scaled, True, choices, repeats)

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
        """Load a state, perhaps of a model with more trials.

        A fold of a cross-validation may lack the trials whose inputs were tried at several
        fidelities. It then gets the per-configuration effect from the state.
        """
        known, given = self.covar_module.log_values, state_dict["covar_module.log_values"]
        if len(given) > len(known):
            self.covar_module = self._with_own().to(known)
        super().load_state_dict(state_dict, *args, **kwargs)
