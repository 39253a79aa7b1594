r"""Gaussian process over inputs and time, for a function that drifts.

.. math:: k((x, t), (x', t')) = k(x, x') \, (1 - \epsilon)^{|t - t'| / 2}
          = k(x, x') \, \exp(-\tfrac{1}{2} r |t - t'|), \qquad r = -\log(1 - \epsilon)

(Bogunovic, Scarlett and Cevher 2016, "Time-Varying Gaussian Process Bandit Optimization", equation
5). From one round to the next the function has the autocorrelation :math:`\sqrt{1 - \epsilon}`. The
weight of an observation falls with its age, and without new ones the posterior returns to the
prior. The forgetting rate :math:`\epsilon` is per unit of time, usually a round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch.constraints import Interval, Positive
from gpytorch.kernels import Kernel, ProductKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import Mean
from gpytorch.priors import NormalPrior
from torch import Tensor

from ax_costaware.argument_checks import number_between_zero_and_one, positive_number
from ax_costaware.exceptions import InputError
from ax_costaware.models.configurable_gp import ConfigurableGP, search_by_logarithms

PRIOR_FORGETTING = 0.01
"""Prior median of the forgetting rate of one step. Published experiments use 0.001 to 0.05."""

PRIOR_SCALE = math.sqrt(3)
"""Prior standard deviation of the log rate: 95 % of the rates are within a factor of 30."""


class ForgettingKernel(Kernel):  # type: ignore[misc]
    r"""Autocorrelation of a function over time.

    The parameter is :math:`\log r`, so that tiny rates keep their digits. Its prior is normal, and
    a change of the unit of time only shifts it.

    Args:
        forgetting: Forgetting rate :math:`\epsilon` per unit of time, in (0, 1), which is then
            fixed; None to fit it.
        step: Usual time between successive observations, in the unit of the inputs. The prior's
            median, which is the initial value, forgets 1 % in one step.
        batch_shape: Batch shape of the forgetting rates.
        active_dims: Column of the inputs that is the time; needed if there are several columns.

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
            # In double precision for any default dtype, so that a given rate is not rounded.
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
    def is_learned(self) -> bool:
        """True if the forgetting rate is a parameter, False if it is given."""
        return isinstance(self.raw_forgetting, torch.nn.Parameter)

    @property
    def forgetting(self) -> Tensor:
        r"""Forgetting rate :math:`\epsilon` per unit of time, ``batch_shape x 1 x 1``."""
        return _to_forgetting(self.raw_forgetting)

    @forgetting.setter
    def forgetting(self, value: float | Tensor) -> None:
        if not torch.is_tensor(value):
            number = number_between_zero_and_one(value, "forgetting")
            value = torch.tensor(number, dtype=torch.double)
        elif not bool(((value > 0) & (value < 1)).all()):
            raise InputError(f"forgetting={value!r}: expected numbers in (0, 1).")
        self.initialize(raw_forgetting=_to_raw(value).to(self.raw_forgetting))

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """Return correlations of times ``... x n x 1`` and ``... x m x 1``.

        Raises:
            InputError: If the inputs have more than one column.
        """
        if x1.shape[-1] != 1:
            raise InputError(
                f"The inputs have {x1.shape[-1]} columns; the kernel takes one, the time:"
                " name it by active_dims."
            )
        # Not by squared distances, which lose digits for large times.
        rate: Tensor = 0.5 * self.raw_forgetting.to(x1).exp()
        if diag:
            return (-rate.squeeze(-1) * (x1 - x2).abs().squeeze(-1)).exp()
        return (-rate * (x1 - x2.mT).abs()).exp()


# Module-level functions instead of lambdas, so that the model can be pickled.
def _to_forgetting(raw: Tensor) -> Tensor:
    return -torch.expm1(-raw.exp())


def _to_raw(forgetting: Tensor) -> Tensor:
    return (-torch.log1p(-forgetting)).log()


def _raw_forgetting(kernel: ForgettingKernel) -> Tensor:
    return kernel.raw_forgetting


def _set_raw(kernel: ForgettingKernel, value: Tensor) -> None:
    kernel.initialize(raw_forgetting=value)


class TimeVaryingGP(ConfigurableGP):
    """``SingleTaskGP`` whose last input column is the time.

    Args:
        train_X: ``batch_shape x n x (d + 1)`` inputs; the last column is the time, in the unit of
            the forgetting rate, such as rounds.
        train_Y: ``batch_shape x n x m`` outcomes.
        train_Yvar: Known noise variances, of the shape and in the squared unit of ``train_Y``.
        covar_module: Kernel over the first ``d`` columns. By default a Matern 5/2 kernel with a
            length-scale per column and BoTorch's dimension-scaled prior for inputs in the unit
            cube. A kernel without ``active_dims`` is restricted to the first ``d`` columns.
        forgetting: Forgetting rate per unit of time, in (0, 1); None to fit it.
        noise: Variance of the observation noise after the outcome transform; None to fit it.
        mean_module: Prior mean over all ``d + 1`` columns; a constant by default.
        outcome_transform: Applied to the outcomes; ``Standardize`` by default.
        input_transform: Applied to the inputs; it must not change the time.

    Raises:
        InputError: If there is no column besides the time; ``forgetting`` is not in (0, 1);
            ``noise`` is not > 0, or is given with ``train_Yvar``; the input transform changes the
            time; or the kernel has all ``d + 1`` columns.
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        train_Yvar: Tensor | None = None,
        covar_module: Kernel | None = None,
        forgetting: float | None = None,
        noise: float | None = None,
        mean_module: Mean | None = None,
        outcome_transform: OutcomeTransform | _DefaultType | None = DEFAULT,
        input_transform: InputTransform | None = None,
    ) -> None:
        d = train_X.shape[-1] - 1
        if d < 1:
            raise InputError(
                f"train_X of shape {tuple(train_X.shape)}: expected at least two columns, the"
                " last of them the time."
            )
        self._validate_tensor_args(X=train_X, Y=train_Y, Yvar=train_Yvar)
        _, batch_shape = self.get_batch_dimensions(train_X=train_X, train_Y=train_Y)
        if input_transform is not None:
            with torch.no_grad():
                transformed = self.transform_inputs(train_X, input_transform)
            if not torch.equal(transformed[..., -1], train_X[..., -1]):
                raise InputError(
                    f"input_transform={type(input_transform).__name__}: it changes the last column,"
                    " the time; give it the indices of the others."
                )
        likelihood = None
        if noise is not None:
            if train_Yvar is not None:
                raise InputError(f"noise={noise!r} with train_Yvar: expected one of them.")
            likelihood = known_noise(noise, batch_shape)
        spatial = covar_module
        if spatial is None:
            spatial = get_covar_module_with_dim_scaled_prior(
                ard_num_dims=d, batch_shape=batch_shape, use_rbf_kernel=False
            )
        _restrict(spatial, d)
        steps = train_X[..., -1].sort(dim=-1).values.diff(dim=-1)
        steps = steps[steps > 0]
        usual = float(steps.median()) if steps.numel() else 1.0
        temporal = ForgettingKernel(forgetting, usual, batch_shape, active_dims=[d])
        super().__init__(
            train_X=train_X,
            train_Y=train_Y,
            train_Yvar=train_Yvar,
            likelihood=likelihood,
            covar_module=ProductKernel(spatial, temporal),
            mean_module=mean_module,
            outcome_transform=outcome_transform,
            input_transform=input_transform,
        )
        if covar_module is None:
            search_by_logarithms(self)
            # Dimension of the outcomes in each parameter, for ``subset_output``.
            self._subset_batch_dict = {
                "mean_module.raw_constant": -1,
                "covar_module.kernels.0.raw_lengthscale": -3,
                "covar_module.kernels.1.raw_forgetting": -3,
                "likelihood.noise_covar.raw_noise": -2,
            }

    @property
    def spatial_kernel(self) -> Kernel:
        """Kernel over all columns but the time, after the input transform."""
        kernel: Kernel = self.covar_module.kernels[0]
        return kernel

    @property
    def forgetting_kernel(self) -> ForgettingKernel:
        """Kernel over the time."""
        kernel: ForgettingKernel = self.covar_module.kernels[1]
        return kernel


def known_noise(noise: float, batch_shape: torch.Size | None = None) -> GaussianLikelihood:
    """Return a likelihood with a fixed noise variance."""
    variance = positive_number(noise, "noise")
    # The default constraint would refuse less than 1e-4, and its bound is in single precision. In
    # double, so that a given variance is not rounded before the model casts it to its dtype.
    constraint = Positive(transform=None)
    likelihood = GaussianLikelihood(
        noise_constraint=constraint, batch_shape=batch_shape or torch.Size()
    ).double()
    likelihood.noise = torch.tensor(variance, dtype=torch.double)
    likelihood.requires_grad_(False)
    return likelihood


def _restrict(kernel: Kernel, d: int) -> None:
    """Restrict a kernel to the first ``d`` columns, unless it has its own."""
    for part in kernel.modules():
        if isinstance(part, Kernel) and part.ard_num_dims == d + 1:
            raise InputError(
                f"covar_module: got {d + 1} length-scales for the {d} columns besides the time;"
                f" expected ard_num_dims={d} or None."
            )
    if kernel.active_dims is None:
        kernel.active_dims = torch.arange(d)
