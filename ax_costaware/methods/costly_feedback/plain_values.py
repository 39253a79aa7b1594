"""Rules, schedules and kernels of a loop as plain values, so that JSON can hold them.

What is read back is made by calling the class of that name with those values; nothing is pickled
or evaluated, and classes of the user's own are refused when the loop is to be stored.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import torch
from gpytorch.constraints import Positive
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel

from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.methods.beta import (
    CompactDomainBeta,
    FiniteDomainBeta,
    LogarithmicBeta,
)
from ax_costaware.methods.costly_feedback.domain import ResetEvery
from ax_costaware.methods.costly_feedback.rules import (
    BernoulliRule,
    FullFeedback,
    LCBUCBRule,
    MeasurementRule,
    MixedRule,
)
from ax_costaware.models.kernels import IndependentKernel

_VALUES = {
    cls.__name__: cls
    for cls in (
        BernoulliRule,
        CompactDomainBeta,
        FiniteDomainBeta,
        FullFeedback,
        LCBUCBRule,
        LogarithmicBeta,
        MixedRule,
        MeasurementRule,
        ResetEvery,
    )
}


def value_to_dict(value: Any, argument: str) -> Any:
    """A rule, schedule or number as plain values.

    Raises:
        UnsupportedInputError: If its class is not one of this package's.
    """
    if value is None or isinstance(value, int | float | str):
        return value
    if _VALUES.get(type(value).__name__) is not type(value):
        raise UnsupportedInputError(
            f"this loop cannot be stored: {argument}={value!r}; expected one of {sorted(_VALUES)}."
        )
    fields = {
        field.name: value_to_dict(getattr(value, field.name), argument)
        for field in dataclasses.fields(value)
    }
    return {"type": type(value).__name__, **fields}


def value_from_dict(stored: Any) -> Any:
    """The value that ``value_to_dict`` stored."""
    if not isinstance(stored, dict):
        return stored
    fields = {name: value_from_dict(v) for name, v in stored.items() if name != "type"}
    return _VALUES[stored["type"]](**fields)


def kernel_to_dict(kernel: Kernel) -> dict[str, Any]:
    """A kernel and its hyperparameters as plain values.

    Raises:
        UnsupportedInputError: If it is none of those whose hyperparameters are known here, is
            batched, or reads some of the columns only.
    """
    name = type(kernel).__name__
    if kernel.active_dims is not None or len(kernel.batch_shape):
        raise UnsupportedInputError(
            f"this loop cannot be stored: kernel={name}(...) is batched or has active_dims."
        )
    if type(kernel) is ScaleKernel:
        inner = kernel_to_dict(kernel.base_kernel)
        return {"type": name, "outputscale": float(kernel.outputscale), "base_kernel": inner}
    if type(kernel) is RBFKernel:
        return {"type": name, "lengthscale": kernel.lengthscale.tolist()}
    if type(kernel) is MaternKernel:
        return {"type": name, "nu": kernel.nu, "lengthscale": kernel.lengthscale.tolist()}
    if type(kernel) is IndependentKernel:
        return {"type": name}
    raise UnsupportedInputError(
        f"this loop cannot be stored: kernel={name}(...); expected RBFKernel, MaternKernel, "
        "IndependentKernel, or one of them in a ScaleKernel."
    )


def kernel_from_dict(stored: dict[str, Any]) -> Kernel:
    """The kernel that ``kernel_to_dict`` stored, in double precision, with nothing to be fitted.

    Raises:
        InputError: If it is of another type.
    """
    name = stored["type"]
    # Without transforms, which would round what was stored.
    exact = Positive(transform=None)
    if name == "ScaleKernel":
        inner = kernel_from_dict(stored["base_kernel"])
        scaled = ScaleKernel(inner, outputscale_constraint=exact).double()
        scaled.outputscale = torch.tensor(stored["outputscale"], dtype=torch.double)
        return scaled.requires_grad_(False)
    if name == "IndependentKernel":
        return IndependentKernel().double()
    if name not in ("MaternKernel", "RBFKernel"):
        raise InputError(f"kernel type {name!r}: expected one that a loop stored.")
    lengthscale = torch.tensor(stored["lengthscale"], dtype=torch.double)
    # One length-scale is that of all coordinates, however many they are.
    count = lengthscale.shape[-1] if lengthscale.shape[-1] > 1 else None
    kind = partial(MaternKernel, nu=stored["nu"]) if name == "MaternKernel" else RBFKernel
    kernel = kind(ard_num_dims=count, lengthscale_constraint=exact).double()
    kernel.lengthscale = lengthscale
    return kernel.requires_grad_(False)
