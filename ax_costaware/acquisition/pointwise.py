"""What the acquisition functions of single points share, and how BoTorch learns of their inputs."""

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
    """An acquisition function of single points, computed for many of them as rows."""

    pending_columns: ClassVar[str] = "d"
    """What the number of columns of a point is called in messages."""

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
        """The values, ``n``, of points ``n x d``, differentiable."""


class LogTail(AcquisitionFunction):
    """A Gittins index that is logarithmic where it is far below its largest value.

    The index falls with the cost of a feasible trial, beyond all numbers where hardly any is, so
    that a local search would find no slope.

    Args:
        index: The index, of outcomes of order one.
        largest: Its largest value, from which it is counted.
        log_probability: Of points ``... x d``, that they are feasible: ``...``.
        least: The logarithm that the index takes for the least; below it this counts alone.
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
        """Values of points ``b x 1 x d``: ``b``."""
        value = self.index(X) - self.largest
        tail = torch.where(value < -1, -1 - (-value).clamp_min(1).log(), value)
        rest: Tensor = (self.log_probability(X.squeeze(-2)) - self.least).clamp_max(0.0)
        return tail + rest


def takes_its_inputs(acquisition: Class) -> Class:
    """Register a class whose inputs are the arguments of its constructor.

    Of what BoTorch offers to all acquisition functions it is given what it names. A ``best_f`` that
    is not given is found at ``X_baseline``, by the ``best_f_at`` of the class. A ``target`` that is
    not given is that of Ax's fidelity parameters, ``target_fidelities``.
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

    # What BoTorch goes by.
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
