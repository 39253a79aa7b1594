"""The inner search of the Gittins method: an acquisition function's best affordable point.

The optimisers are Ax's own, for continuous, mixed and discrete spaces with parameter constraints.
They are reached through a ``BoTorchGenerator`` that shares the fitted surrogate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from ax.core.search_space import SearchSpaceDigest
from ax.generators.torch.botorch_modular.acquisition import Acquisition
from ax.generators.torch.botorch_modular.generator import BoTorchGenerator
from ax.generators.torch.botorch_modular.surrogate import Surrogate
from ax.generators.torch_base import TorchOptConfig
from ax.utils.common.constants import Keys
from botorch.acquisition.acquisition import AcquisitionFunction
from torch import Tensor

from ax_costaware.acquisition.affordable import Affordable, Cheapness
from ax_costaware.acquisition.log_cost import CostFunction, log_cost_function

_CHANGE = "change"
"""Name of the option of ``_ChangedAcquisition``."""


class _ChangedAcquisition(Acquisition):
    """Ax's acquisition, with its BoTorch function changed before it is optimised."""

    def optimize(self, *args: Any, **options: Any) -> tuple[Tensor, Tensor, Tensor]:
        self.acqf = self.options[_CHANGE](self.acqf)
        return super().optimize(*args, **options)


@dataclass(frozen=True)
class Found:
    """The best point of a search."""

    point: Tensor
    """The point, ``d``."""

    value: float
    """Value of the acquisition function there."""

    cost: float
    """Expected cost there."""


@dataclass(frozen=True)
class Search:
    """What the searches of one decision share."""

    surrogate: Surrogate
    """The fitted surrogate."""

    digest: SearchSpaceDigest
    """The search space in the model's terms."""

    config: TorchOptConfig
    """Objective, constraints, points under evaluation and fixed features."""

    cost: CostFunction
    """What a point costs."""

    points: Tensor
    """``n x d`` valid points all over the space."""

    limit: float | None
    """The largest cost that can be paid; None for any."""

    optimizer_options: Mapping[str, Any]
    """Options of BoTorch's optimisers."""

    def best(
        self, acquisition_class: type[AcquisitionFunction], options: dict[str, Any]
    ) -> Found | None:
        """The best affordable point of an acquisition function; None if nothing is affordable.

        Args:
            acquisition_class: Class of the acquisition function, with an input constructor.
            options: Its own arguments besides the cost.
        """
        options = {"cost": self.cost, **options}
        seen: list[AcquisitionFunction] = []

        def unchanged(acquisition: AcquisitionFunction) -> AcquisitionFunction:
            seen.append(acquisition)
            return acquisition

        found = self._run(acquisition_class, options, unchanged)
        limit = self.limit
        if limit is None or found.cost <= limit:
            return found
        if limit <= 0:
            return None
        cheapest = self._run(acquisition_class, options, lambda a: Cheapness(a, self.cost))
        if cheapest.cost > limit:
            return None
        found = self._run(
            acquisition_class, options, lambda a: Affordable(a, self.cost, limit, self.points)
        )
        if found.cost <= limit:
            return found
        points = torch.cat([cheapest.point.unsqueeze(0), self.points.to(cheapest.point)])
        points = points[self.costs(points) <= limit]
        with torch.no_grad():
            values = seen[0](points.unsqueeze(-2))
        best = int(values.argmax())
        return self._found(points[best], float(values[best]))

    def costs(self, X: Tensor) -> Tensor:
        """Expected costs at points ``n x d``: ``n``."""
        with torch.no_grad():
            return log_cost_function(self.cost)(X).exp()

    def _run(
        self,
        acquisition_class: type[AcquisitionFunction],
        options: dict[str, Any],
        change: Callable[[AcquisitionFunction], AcquisitionFunction],
    ) -> Found:
        generator = BoTorchGenerator(
            surrogate=self.surrogate,
            acquisition_class=_ChangedAcquisition,
            acquisition_options={_CHANGE: change},
            botorch_acqf_class=acquisition_class,
            botorch_acqf_options=options,
        )
        results = generator.gen(
            n=1,
            search_space_digest=self.digest,
            torch_opt_config=replace(
                self.config,
                model_gen_options={Keys.OPTIMIZER_KWARGS.value: dict(self.optimizer_options)},
            ),
        )
        value = torch.as_tensor(results.gen_metadata[Keys.EXPECTED_ACQF_VAL]).flatten()[0]
        return self._found(results.points[0].to(self.points), float(value))

    def _found(self, point: Tensor, value: float) -> Found:
        return Found(point, value, float(self.costs(point.unsqueeze(0))[0]))
