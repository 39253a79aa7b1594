"""What the acquisition functions of single points share, and how BoTorch learns of their inputs."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from typing import Any, ClassVar, TypeVar

from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import acqf_input_constructor
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from ax_costaware.acquisition.check import check_pending

Class = TypeVar("Class", bound=type[AcquisitionFunction])


class PointwiseAcquisition(AcquisitionFunction):
    """An acquisition function of single points, computed for many of them as rows."""

    pending_columns: ClassVar[str] = "d"
    """What the number of columns of a point is called in messages."""

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Condition on points under evaluation, instead of those given before.

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


def takes_its_inputs(acquisition: Class) -> Class:
    """Register a class whose inputs are the arguments of its constructor, nothing to be made of.

    Of what BoTorch offers to all acquisition functions it is given what it names.
    """

    def construct_inputs(**arguments: Any) -> dict[str, Any]:
        return arguments

    # What BoTorch goes by.
    construct_inputs.__signature__ = inspect.signature(acquisition)  # type: ignore[attr-defined]
    acqf_input_constructor(acquisition)(construct_inputs)
    return acquisition
