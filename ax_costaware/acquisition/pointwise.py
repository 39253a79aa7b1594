"""Base of acquisition functions of single points, and their BoTorch input constructors."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import acqf_input_constructor
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from ax_costaware.acquisition.check import check_pending
from ax_costaware.exceptions import InputError

Class = TypeVar("Class", bound=type[AcquisitionFunction])


class PointwiseAcquisition(AcquisitionFunction):
    """Acquisition function with ``q = 1``, computed on the rows of a matrix of points."""

    pending_columns: ClassVar[str] = "d"
    """Symbol of the number of columns of a point in messages."""

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Condition on pending points, instead of those given before.

        A sequence of these is how ``optimize_acqf(..., q > 1, sequential=True)`` builds a batch.

        Args:
            X_pending: ``k x d`` points, or None.

        Raises:
            InputError: If it is neither.
        """
        check_pending(X_pending, self.pending_columns)
        super().set_X_pending(X_pending)

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """Evaluate the acquisition function.

        Args:
            X: ``batch_shape x 1 x d`` points.

        Returns:
            A ``batch_shape``-tensor of values.
        """
        points = X.squeeze(-2)
        return self._values(points.reshape(-1, points.shape[-1])).reshape(points.shape[:-1])

    @abstractmethod
    def _values(self, points: Tensor) -> Tensor:
        """Return the values, ``n``, of points ``n x d``, differentiable."""


class LogTail(AcquisitionFunction):
    """Gittins index with a logarithmic tail far below its largest value.

    With a small probability of feasibility :math:`P`, the index falls as ``cost / P``, beyond the
    range of floats. The tail keeps a slope for local searches.

    Args:
        index: The index, for outcomes of order one.
        largest: Its largest value, which is subtracted.
        log_probability: Log probability of feasibility of points ``... x d``: ``...``.
        least: Lower bound of the log probability inside the index; below it the excess is added.
    """

    def __init__(
        self,
        index: AcquisitionFunction,
        largest: float,
        log_probability: Callable[[Tensor], Tensor],
        least: float,
    ) -> None:
        super().__init__(model=index.model)
        self.index, self.largest = index, largest
        self.log_probability, self.least = log_probability, least

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """Return values of points ``b x 1 x d``: ``b``."""
        value = self.index(X) - self.largest
        tail = torch.where(value < -1, -1 - (-value).clamp_min(1).log(), value)
        rest: Tensor = (self.log_probability(X.squeeze(-2)) - self.least).clamp_max(0.0)
        return tail + rest


def takes_its_inputs(acquisition: Class) -> Class:
    """Register an input constructor that passes the arguments of the class's own constructor.

    A missing ``best_f`` is computed at ``X_baseline`` by the class's ``best_f_at``. A missing
    ``target`` is that of Ax's fidelity parameters, ``target_fidelities``.
    """
    own = inspect.signature(acquisition).parameters

    def construct_inputs(**arguments: Any) -> dict[str, Any]:
        inputs = {name: value for name, value in arguments.items() if name in own}
        if target := arguments.get("target_fidelities"):
            if "target" not in own:
                raise InputError(
                    f"target_fidelities={target!r}: {acquisition.__name__} knows no fidelities; "
                    "expected LogTargetImprovementPerCost, or parameters that are no fidelities."
                )
            inputs.setdefault("target", target)
        required = [name for name, p in own.items() if p.default is p.empty and name != "best_f"]
        if missing := [name for name in required if name not in inputs]:
            raise InputError(
                f"{acquisition.__name__}: got no {' and no '.join(missing)}; expected one among "
                "the options of the acquisition function, in Ax botorch_acqf_options."
            )
        if "best_f" in own and inputs.get("best_f") is None:
            X_baseline = arguments.get("X_baseline")
            if X_baseline is None:
                raise InputError("best_f=None: expected a number, or X_baseline to find it at.")
            find_best = cast(Any, acquisition).best_f_at
            inputs["best_f"] = find_best(**{**inputs, "X": X_baseline})
        return inputs

    # BoTorch reads the signature to select which arguments to pass.
    parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in own.values()]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in ("X_baseline", "target_fidelities")
        if name not in own
    ]
    signature = inspect.Signature([*parameters, *more])
    construct_inputs.__signature__ = signature  # type: ignore[attr-defined]
    acqf_input_constructor(acquisition)(construct_inputs)
    return acquisition
