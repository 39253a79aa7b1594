r"""A GP over inputs and time, for a function that drifts.

.. math:: k((x, t), (x', t')) = k(x, x') \, (1 - \epsilon)^{|t - t'| / 2}
          = k(x, x') \, \exp(-\tfrac{1}{2} r |t - t'|), \qquad r = -\log(1 - \epsilon)

(Bogunovic, Scarlett and Cevher 2016, "Time-Varying Gaussian Process Bandit Optimization", equation
5). Between rounds the function keeps the share :math:`\sqrt{1 - \epsilon}` of itself and is renewed
by the rest. An observation counts less the older it is, and where nothing is measured the posterior
goes back to the prior. Time is in whatever unit the inputs have, and the forgetting rate
:math:`\epsilon` is per unit of time; rounds are the usual one.
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


class TimeVaryingGP(ConfigurableGP):
    """A ``SingleTaskGP`` whose last input column is time.

    What is not given is fitted by the marginal likelihood, as for any BoTorch model.

    Args:
        train_X: ``batch_shape x n x (d + 1)`` inputs; the last column is time in its own unit, such
            as rounds, in which the forgetting rate is meant.
        train_Y: ``batch_shape x n x m`` outcomes.
        train_Yvar: Known noise variances, of the shape and in the squared unit of ``train_Y``.
        covar_module: The kernel over the first ``d`` columns. By default a Matern 5/2 kernel with
            a length-scale per column and BoTorch's dimension-scaled prior, which takes inputs in
            the unit cube. A kernel that names no columns of its own is restricted to the first
            ``d``, by its ``active_dims``.
        forgetting: The forgetting rate per unit of time, in (0, 1); ``None`` fits it.
        noise: Variance of the observation noise after the outcome transform; ``None`` fits it.
        mean_module: The prior mean over all ``d + 1`` columns; a constant by default.
        outcome_transform: Applied to the outcomes; ``Standardize`` by default.
        input_transform: Applied to the inputs; it has to leave the time as it is.

    Raises:
        InputError: If there is no column beside the time, ``forgetting`` is not in (0, 1) or
            ``noise`` not > 0, the noise is given twice, the input transform changes the time, or
            the kernel takes all ``d + 1`` columns.
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
                raise InputError(f"noise={noise!r} beside train_Yvar: expected one of them.")
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
            # Which dimension of a parameter is the outcome's, for ``subset_output``.
            self._subset_batch_dict = {
                "mean_module.raw_constant": -1,
                "covar_module.kernels.0.raw_lengthscale": -3,
                "covar_module.kernels.1.raw_forgetting": -3,
                "likelihood.noise_covar.raw_noise": -2,
            }

    @property
    def spatial_kernel(self) -> Kernel:
        """The kernel over the columns beside the time, after the input transform."""
        kernel: Kernel = self.covar_module.kernels[0]
        return kernel

    @property
    def forgetting_kernel(self) -> ForgettingKernel:
        """The kernel over the time."""
        kernel: ForgettingKernel = self.covar_module.kernels[1]
        return kernel


def known_noise(noise: float, batch_shape: torch.Size | None = None) -> GaussianLikelihood:
    """A likelihood whose noise variance model fitting leaves as it is."""
    variance = positive_number(noise, "noise")
    # The default constraint would refuse less than 1e-4, and a bound is in single precision. In
    # double until the model takes over its data's: the number is given, and not to be rounded.
    constraint = Positive(transform=None)
    likelihood = GaussianLikelihood(
        noise_constraint=constraint, batch_shape=batch_shape or torch.Size()
    ).double()
    likelihood.noise = torch.tensor(variance, dtype=torch.double)
    likelihood.requires_grad_(False)
    return likelihood


def _restrict(kernel: Kernel, d: int) -> None:
    """Have a kernel read the first ``d`` columns, unless it names its own."""
    for part in kernel.modules():
        if isinstance(part, Kernel) and part.ard_num_dims == d + 1:
            raise InputError(
                f"covar_module: got {d + 1} length-scales for the {d} columns beside the time;"
                f" expected ard_num_dims={d} or None."
            )
    if kernel.active_dims is None:
        kernel.active_dims = torch.arange(d)
