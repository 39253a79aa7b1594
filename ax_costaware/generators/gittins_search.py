"""The inner search of the Gittins method: an acquisition function's best affordable point.

The optimisers are Ax's own, for continuous, mixed and discrete spaces with parameter constraints.
They are reached through a ``BoTorchGenerator`` that shares the fitted surrogate.
"""

from __future__ import annotations

import warnings
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
from botorch.exceptions.warnings import OptimizationWarning
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

    restricted: bool = False
    """Whether a better point was passed over, since what is left does not pay for it."""


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
        if len(self.digest.discrete_choices) < len(self.digest.feature_names):
            # That nothing is worth its cost must not be for want of a good start. (A space that is
            # enumerated needs none, and Ax repeats no point of it.)
            found = self._better(found, self.points, seen[0])
        limit = self.limit
        if limit is None or found.cost <= limit:
            return found
        costs = self.costs(self.points)
        payable = self.points[costs <= limit]
        if not len(payable):
            if limit <= 0 or (len(costs) and float(costs.min()) == float(costs.max())):
                return None
            cheapest = self._run(acquisition_class, options, lambda a: Cheapness(a, self.cost))
            if cheapest.cost > limit:
                return None
            payable = cheapest.point.unsqueeze(0)
        with warnings.catch_warnings():
            # A line search may end at the bend of the penalty; there are the points besides.
            warnings.simplefilter("ignore", OptimizationWarning)
            warnings.filterwarnings("ignore", "Optimization failed", RuntimeWarning)
            found = self._run(
                acquisition_class, options, lambda a: Affordable(a, self.cost, limit, self.points)
            )
        # The margin of the penalty turns away what costs just what is left; the points do not.
        found = self._better(found if found.cost <= limit else None, payable, seen[0])
        return replace(found, restricted=True)

    def _better(
        self, found: Found | None, points: Tensor, acquisition: AcquisitionFunction
    ) -> Found:
        """The best of ``points``, or what was found if that is at least as good."""
        if found is not None and not len(points):
            return found
        with torch.no_grad():
            values = acquisition(points.unsqueeze(-2))
        best = int(values.argmax())
        if found is not None and found.value >= float(values[best]):
            return found
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
