r"""The kernel of a function that is slowly forgotten (Bogunovic et al. 2016, equation 5).

Between rounds the function keeps the share :math:`\sqrt{1 - \epsilon}` of itself and is renewed by
the rest, so that its values at two times have the correlation

.. math:: k(t, t') = (1 - \epsilon)^{|t - t'| / 2} = \exp(-\tfrac{1}{2} r |t - t'|), \qquad
          r = -\log(1 - \epsilon).

Time is in whatever unit the inputs have, and the forgetting rate :math:`\epsilon` is per unit of
time; rounds are the usual one.

Bogunovic, Scarlett and Cevher 2016, "Time-Varying Gaussian Process Bandit Optimization" (AISTATS).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from gpytorch.constraints import Interval
from gpytorch.kernels import Kernel
from gpytorch.priors import NormalPrior
from torch import Tensor

from ax_costaware.exceptions import InputError
from ax_costaware.queries.argument_checks import number_between_zero_and_one, positive_number

PRIOR_FORGETTING = 0.01
"""Median of the prior: the forgetting rate of one step. Published experiments have .001 to .05."""

PRIOR_SCALE = math.sqrt(3)
"""Standard deviation of the log rate under the prior: 95 % of it lies within a factor of 30."""


class ForgettingKernel(Kernel):  # type: ignore[misc]
    r"""Correlation of a function with itself after some time.

    The parameter is :math:`\log r`, in which rates of all magnitudes are alike and tiny ones keep
    their digits. Its prior is normal; a change of the unit of time shifts it and nothing else.

    Args:
        forgetting: The forgetting rate :math:`\epsilon` per unit of time, in (0, 1), which is then
            no parameter; ``None`` for a parameter to be fitted.
        step: The usual time between neighbouring observations, in the unit of the inputs. The
            prior's median, where the parameter also starts, forgets 1 % in one step.
        batch_shape: Of the forgetting rates.
        active_dims: The column of the inputs that is time; needed where there are several.

    Raises:
        InputError: If ``forgetting`` is not in (0, 1) or ``step`` is not > 0.
    """

    raw_forgetting: Tensor

    def __init__(
        self,
        forgetting: float | None = None,
        step: float = 1.0,
        batch_shape: torch.Size | None = None,
        active_dims: Sequence[int] | None = None,
    ) -> None:
        super().__init__(
            batch_shape=batch_shape,
            active_dims=None if active_dims is None else tuple(active_dims),
        )
        shape = (*self.batch_shape, 1, 1)
        if forgetting is not None:
            number = number_between_zero_and_one(forgetting, "forgetting")
            # In double precision whatever the default is: it is given, and not to be rounded.
            raw = _to_raw(torch.full(shape, number, dtype=torch.double))
            self.register_buffer("raw_forgetting", raw)
            return
        median = math.log(-math.log1p(-PRIOR_FORGETTING) / positive_number(step, "step"))
        self.register_parameter("raw_forgetting", torch.nn.Parameter(torch.full(shape, median)))
        self.register_constraint("raw_forgetting", Interval(0.0, 1.0, _to_forgetting, _to_raw))
        self.register_prior(
            "forgetting_prior", NormalPrior(median, PRIOR_SCALE), _raw_forgetting, _set_raw
        )

    @property
    def forgetting(self) -> Tensor:
        r"""The forgetting rate :math:`\epsilon` per unit of time, ``batch_shape x 1 x 1``."""
        return _to_forgetting(self.raw_forgetting)

    @forgetting.setter
    def forgetting(self, value: float | Tensor) -> None:
        if not torch.is_tensor(value):
            number = number_between_zero_and_one(value, "forgetting")
            value = torch.tensor(number, dtype=torch.double)
        elif not bool(((value > 0) & (value < 1)).all()):
            raise InputError(f"forgetting={value!r}: expected numbers in (0, 1).")
        self.initialize(raw_forgetting=_to_raw(value).to(self.raw_forgetting))

    @property
    def is_stationary(self) -> bool:
        """Whether covariances depend on differences only: they do."""
        return True

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """The correlations of the times ``... x n x 1`` and ``... x m x 1``.

        Raises:
            InputError: If the inputs have more than one column.
        """
        if x1.shape[-1] != 1:
            raise InputError(
                f"The inputs have {x1.shape[-1]} columns; the kernel takes one, the time:"
                " name it by active_dims."
            )
        # Not by way of squared distances, which cancel where times are large.
        rate: Tensor = 0.5 * self.raw_forgetting.to(x1).exp()
        if diag:
            return (-rate.squeeze(-1) * (x1 - x2).abs().squeeze(-1)).exp()
        return (-rate * (x1 - x2.mT).abs()).exp()


# Functions of the module rather than lambdas: a model with them can be pickled.
def _to_forgetting(raw: Tensor) -> Tensor:
    return -torch.expm1(-raw.exp())


def _to_raw(forgetting: Tensor) -> Tensor:
    return (-torch.log1p(-forgetting)).log()


def _raw_forgetting(kernel: ForgettingKernel) -> Tensor:
    return kernel.raw_forgetting


def _set_raw(kernel: ForgettingKernel, value: Tensor) -> None:
    kernel.initialize(raw_forgetting=value)
