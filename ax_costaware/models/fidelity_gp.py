r"""A Gaussian process of trials at several fidelities, whose bias vanishes at a target.

A trial has inputs :math:`x` and fidelities :math:`s`, and what is wanted is the objective at the
target's, :math:`g(x) = f(x, s^*)`:

.. math:: f(x, s) = g(x) + \sum_j \left(b_j(s_j) + h_j(x, s_j)\right),

with independent processes, whose kernels are Matern-5/2 in the inputs: of each fidelity a shift
that is the same for all inputs, as that of a learning curve's first epochs, and a bias that is not,
both with a covariance in :math:`s` of

.. math:: w_j(s) w_j(s') \exp\left(-(s - s')^2 / 2 \ell_j^2\right), \quad
   w_j(s) = \frac{(u + \epsilon)^{p_j} - \epsilon^{p_j}}{(1 + \epsilon)^{p_j} - \epsilon^{p_j}},

where :math:`u` is the distance from the target, one at the farthest fidelity. The factors are
those of the kernels of Wu et al. 2019, "Practical Multi-fidelity Bayesian Optimization for
Hyperparameter Tuning" (BoTorch's ``DownsamplingKernel``), the sum that of Kennedy and O'Hagan 2000,
"Predicting the output from a complex computer code when fast approximations are available". How
large the biases are, how they vary over the inputs and how they vanish is fitted, so that a
fidelity that misleads is found out: BoTorch's ``LinearTruncatedFidelityKernel`` gives the bias the
size of the objective.

Where the same inputs were tried at several fidelities, as the steps of a learning curve are, there
can also be :math:`r(x)`, a per-configuration effect shared across fidelities: the luck of a
training, or a rough part of the objective. Without it each step would count as new evidence about
other inputs, and a curve of ten steps as ten trainings.
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

_EPSILON = 1e-3
"""Distance from the target below which a bias falls linearly: the slope of a power is infinite."""

_PRIORS = {
    "bias_variance": (0.3, 1.5),
    "shift_variance": (0.3, 1.5),
    "power": (2.0, 1.5),
    "reach": (1.0, 0.7),
}
"""Median, and standard deviation of the logarithm, of hyperparameters of each fidelity: variances
of its bias and shift beside that of the objective at the target, the power, which is large for
learning curves that saturate early, and the length-scale on the unit cube."""

_OUTPUTSCALE = (3.0, 1.0)
"""The same for the variance of the objective at the target, beside that of the outcomes: of few
trials, most of them far from the best, neither is known."""

_OWN_VARIANCE = (0.001, 3.0)
"""The same for the variance of what inputs have of their own, beside that of the objective. Wide:
where they have nothing, a trial at the cheapest fidelity would seem to tell whether they do."""

_CELLS = 2.0**15
"""Cells along an edge of the unit cube; inputs in the same one are the same. Of what is less than a
distance apart a may be as b, b as c and not a as c, which is no covariance."""

_LOG_BOUNDS = (-6.0, 4.0)
"""Bounds of all of these logarithms: beyond them a covariance is singular, or all noise."""

_LEAST_LOG_OWN = -16.0
"""The lower one of what inputs have of their own, which may be nothing."""

_LENGTHSCALE = (math.sqrt(2), math.sqrt(3))
"""Mean and standard deviation of the logarithm of a length-scale of one input: BoTorch's log-normal
prior (Hvarfner, Hellsten and Nardi 2024). Its density has the mode of a normal one that is lower by
the variance, of the logarithm."""


class FidelityKernel(Kernel):  # type: ignore[misc]
    r"""Kernel of a function at several fidelities, whose bias vanishes at the target.

    Args:
        num_inputs: The number of columns.
        fidelities: For each fidelity its columns, with their values at the target: one column of a
            number, or those of a one-hot block. Columns are on the unit cube.
        own: Include a per-configuration effect shared across fidelities.
        choices: The columns of each one-hot choice, which share their length-scales.
    """

    log_values: Tensor

    def __init__(
        self,
        num_inputs: int,
        fidelities: Sequence[Mapping[int, float]],
        own: bool = False,
        choices: Sequence[Sequence[int]] = (),
    ) -> None:
        super().__init__()
        self.own = own
        self.fidelities = [dict(columns) for columns in fidelities]
        taken = {column for columns in self.fidelities for column in columns}
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
        # One vector of logarithms, which a fit has far fewer steps to take over.
        self._slices: dict[str, slice] = {}
        for name, values in priors.items():
            first = max((found.stop for found in self._slices.values()), default=0)
            self._slices[name] = slice(first, first + len(values))
        mean, deviation = torch.tensor([v for values in priors.values() for v in values]).T
        self.register_parameter("log_values", torch.nn.Parameter(mean.clone()))
        # As BoTorch does it for length-scales: bounds of the optimiser, and no transform.
        lower, upper = (torch.full_like(mean, bound) for bound in _LOG_BOUNDS)
        if own:
            lower[self._slices["own_variance"]] = _LEAST_LOG_OWN
        self.register_constraint("log_values", Interval(lower, upper, transform=None))
        self.register_prior("log_prior", NormalPrior(mean, deviation), _log_values, _set)

    def value(self, name: str) -> Tensor:
        """A hyperparameter: one number for each input, or for each fidelity, or one alone."""
        found: Tensor = self.log_values[self._slices[name]].exp()
        return found

    def _lengthscales(self, name: str) -> Tensor:
        """Those of the columns of inputs."""
        found = self.value(name)
        columns: Tensor = found[self.parameter_of] * self.widths.to(found)
        return columns

    def _weights(self, X: Tensor, j: int) -> Tensor:
        """How far a fidelity's bias has come, from zero at the target: ``... x n``."""
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
        """Covariances of ``... x n x d`` with ``... x m x d`` points, ``... x n x m``."""

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
            apart = squared(list(columns), self.value("reach")[j])
            common = common * (-0.5 * apart).exp()
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
    """Columns from 0 on, with their values at the target on the unit cube."""
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
        raise InputError(f"{given}: expected another column beside them, an input.")
    return scaled


# Functions of the module, where GPyTorch would make local ones: a model with them can be pickled.
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
        fidelities: For each fidelity its columns, with their values at the target, in the units of
            ``train_X``; several columns are a one-hot block. -1 is the last one, as in BoTorch.
        bounds: ``2 x d`` bounds, by which columns are scaled to the unit cube.
        train_Yvar: ``n x 1`` known noise variances; None: fitted.
        outcome_transform: As of ``SingleTaskGP``, which standardises outcomes by default.
        own: Include a per-configuration effect shared across fidelities, if some inputs were tried
            at several fidelities.
        choices: The columns of each one-hot choice, which share their length-scales.

    Raises:
        InputError: If ``fidelities`` is no list of such columns, one of them is none, of no width,
            there twice or at no number, a block has not one column that is one at the target, no
            other columns are left, or ``bounds`` do not fit ``train_X``.
    """

    knows_choices = True
    """Whether it takes ``choices``."""

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
    ) -> None:
        d = train_X.shape[-1]
        bounds = checked_bounds(bounds, d).to(train_X)
        scaled = _on_the_unit_cube(fidelities, bounds)
        inputs = [i for i in range(d) if all(i not in columns for columns in scaled)]
        repeats = len(train_X[:, inputs].unique(dim=0)) < len(train_X.unique(dim=0))
        kernel = FidelityKernel(d, scaled, own and repeats, choices)
        super().__init__(
            train_X,
            train_Y,
            train_Yvar,
            covar_module=kernel,
            outcome_transform=outcome_transform,
            input_transform=Normalize(d, bounds=bounds),
        )
        search_by_logarithms(self)
        self._with_own = partial(FidelityKernel, d, scaled, True, choices)

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
        """Take over a state, also that of a model of more trials than this one has.

        So it is in a cross-validation, of which a fold may leave out the trials whose inputs were
        tried at several fidelities: what inputs have of their own is known to it all the same.
        """
        known, given = self.covar_module.log_values, state_dict["covar_module.log_values"]
        if len(given) > len(known):
            self.covar_module = self._with_own().to(known)
        super().load_state_dict(state_dict, *args, **kwargs)
