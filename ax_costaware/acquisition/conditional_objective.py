r"""Objectives of control sets whose uncontrolled inputs depend on what is controlled.

Where the law of the random inputs depends on the controlled ones, the nodes :math:`z_j(x)` or their
weights :math:`w_j(x)` move with the point, nothing of a control set can be prepared, and the parts
of a kernel no longer come apart. What is left is one matrix of covariances :math:`k_j` between the
nodes of a point and the training inputs. With :math:`A = (K + \Sigma)^{-1}`, on the latent scale,

* :math:`\mu(z_j) = m + k_j^\top \alpha` and :math:`\sigma^2(z_j) = k(z_j, z_j) - k_j^\top A k_j`;
* :math:`g = \sum_j w_j f(z_j)` is Gaussian with :math:`v = \sum_j w_j k_j`,
  :math:`E\,g = m + v^\top \alpha` and
  :math:`\mathrm{Var}\,g = \sum_{jj'} w_j w_{j'} k(z_j, z_{j'}) - v^\top A v`.

Both hold for every kernel of an exact GP. Other models are asked through ``model.posterior``.
Gradients go through the nodes and through the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from botorch.acquisition.analytic import _log_ei_helper
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from ax_costaware.acquisition.objectives import AcquisitionName, FourierPath, rows_by_set
from ax_costaware.acquisition.partial_query import (
    CHUNK_ELEMENTS,
    MIN_RELATIVE_VARIANCE,
    QuadraticForm,
)
from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.models.cached_posterior import CachedPosterior
from ax_costaware.models.expectation import expectation_posterior
from ax_costaware.models.point_posterior import FactoredPosterior, ModelPosterior, PointPosterior
from ax_costaware.queries.joint.law import NodesGiven

# Nodes that are enough for screening, where the best of many points are looked for.
COARSE_NODES = 64

# Added to each weight of a part of the nodes before it is scaled to one: where the part has no
# weight at all, its nodes count alike.
_LEAST_WEIGHT = 1e-12

_SERVED = ("ucb", "lcb", "ei", "ts", "mean", "upper", "lower")

# Those that read the joint law of a point's nodes.
_JOINT = ("ei", "upper", "lower")

# Numbers that a model's own posterior is taken to hold for each node.
_MODEL_ELEMENTS = 64


class NodePosterior(Protocol):
    """What an objective asks of a posterior. Units are those of the transformed posterior."""

    def moments(self, nodes: Tensor, spread: bool) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (zero where not ``spread``) of nodes ``p x m x d``.

        Each is ``p x m``.
        """
        ...

    def expectation(self, nodes: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation, each ``p``, of the weighted sum over the nodes."""
        ...

    def elements(self, num_nodes: int, joint: bool) -> int:
        """Numbers held for one point, with the covariance of its nodes where ``joint``."""
        ...


@dataclass(frozen=True, eq=False)
class FactoredNodes:
    """Nodes on the cached factor of an exact GP, whatever its kernel.

    Attributes:
        posterior: The posterior.
        path: A posterior sample that ``moments`` gives in place of the mean.
    """

    posterior: CachedPosterior
    path: FourierPath | None = None

    def elements(self, num_nodes: int, joint: bool) -> int:
        """See ``NodePosterior``."""
        wide = len(self.posterior.X)
        if self.path is not None:
            wide = max(wide, len(self.path.sine))
        return num_nodes * (max(wide, num_nodes) if joint else wide)

    def moments(self, nodes: Tensor, spread: bool) -> tuple[Tensor, Tensor]:
        """See ``NodePosterior``."""
        posterior = self.posterior
        t = posterior.transform(nodes.reshape(-1, nodes.shape[-1]))
        k = posterior.prior_covariance(t, posterior.X)
        latent = k @ posterior.alpha if self.path is None else self.path(t, k)
        mean = posterior.offset + posterior.scale * (posterior.prior_mean + latent)
        if not spread:
            return mean.reshape(nodes.shape[:-1]), torch.zeros_like(nodes[..., 0])
        prior = posterior.prior_variance(t)
        explained: Tensor = QuadraticForm.apply(k, posterior.inverse)  # type: ignore[no-untyped-call]
        variance = torch.maximum(prior - explained, MIN_RELATIVE_VARIANCE * prior.detach())
        std = posterior.scale.abs() * variance.sqrt()
        return mean.reshape(nodes.shape[:-1]), std.reshape(nodes.shape[:-1])

    def expectation(self, nodes: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """See ``NodePosterior``."""
        posterior = self.posterior
        t = posterior.transform(nodes.reshape(-1, nodes.shape[-1]))
        k = posterior.prior_covariance(t, posterior.X).reshape(*nodes.shape[:-1], -1)
        v = (weights.unsqueeze(-2) @ k).squeeze(-2)
        t = t.reshape(nodes.shape)
        among = posterior.prior_covariance(t, t)
        prior = torch.linalg.vecdot((weights.unsqueeze(-2) @ among).squeeze(-2), weights)
        explained: Tensor = QuadraticForm.apply(v, posterior.inverse)  # type: ignore[no-untyped-call]
        variance = torch.maximum(prior - explained, MIN_RELATIVE_VARIANCE * prior.detach())
        mean = posterior.offset + posterior.scale * (posterior.prior_mean + v @ posterior.alpha)
        return mean, posterior.scale.abs() * variance.sqrt()


@dataclass(frozen=True, eq=False)
class ModelNodes:
    """Nodes through the posterior of any model."""

    posterior: ModelPosterior

    def elements(self, num_nodes: int, joint: bool) -> int:
        """See ``NodePosterior``."""
        return num_nodes * (max(_MODEL_ELEMENTS, num_nodes) if joint else _MODEL_ELEMENTS)

    def moments(self, nodes: Tensor, spread: bool) -> tuple[Tensor, Tensor]:
        """See ``NodePosterior``."""
        mean, variance = self.posterior.mixture(nodes)
        return mean, variance.clamp_min(1e-12).sqrt() if spread else torch.zeros_like(mean)

    def expectation(self, nodes: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """See ``NodePosterior``."""
        mean, variance = expectation_posterior(
            self.posterior.model, nodes, weights, self.posterior.posterior_transform
        )
        return mean, variance.clamp_min(1e-18).sqrt()


def node_posterior(
    model: Model,
    posterior_transform: PosteriorTransform | None = None,
    X_pending: Tensor | None = None,
) -> NodePosterior:
    """The posterior of a model, in the quickest form that it allows.

    Arguments and errors as for ``PointPosterior.of``.
    """
    posterior = PointPosterior.of(model, posterior_transform, X_pending)
    if isinstance(posterior, FactoredPosterior):
        return FactoredNodes(posterior.posterior)
    assert isinstance(posterior, ModelPosterior)
    return ModelNodes(posterior)


@dataclass(frozen=True, eq=False)
class ConditionalObjective:
    """Objectives of control sets whose nodes and weights are functions of the point.

    Attributes:
        posterior: The posterior; for ``"ts"`` that of the sample.
        given: For each control set, its nodes and weights.
        sizes: For each control set, the number of its nodes.
        acquisition: Which objective.
        beta: The weight of the standard deviation in the confidence bounds.
        best_f: The incumbent of ``"ei"``, in the posterior's units.

    Raises:
        UnsupportedInputError: For an acquisition that reads more than the nodes of one point.
    """

    posterior: NodePosterior
    given: Sequence[NodesGiven]
    sizes: Sequence[int]
    acquisition: AcquisitionName
    beta: float = 0.0
    best_f: float = 0.0

    def __post_init__(self) -> None:
        if self.acquisition not in _SERVED:
            raise UnsupportedInputError(
                f"acquisition: got {self.acquisition!r}; nodes that depend on the point take one of"
                f" {', '.join(_SERVED)}."
            )

    def __call__(self, X: Tensor, sets: Tensor, coarse: bool = False) -> Tensor:
        """Evaluate; see ``ControlSetObjective``."""
        values = torch.zeros_like(X[:, 0])
        for index, rows in rows_by_set(sets):
            part = part_of(self.sizes[index], COARSE_NODES) if coarse else None
            size = self.sizes[index] if part is None else len(part)
            step = max(
                1, CHUNK_ELEMENTS // self.posterior.elements(size, self.acquisition in _JOINT)
            )

            def value(points: Tensor, index: int = index, part: Tensor | None = part) -> Tensor:
                return self._value(index, points, part)

            chunked: Tensor = InChunks.apply(X[rows], value, step)  # type: ignore[no-untyped-call]
            values = values.index_put((rows,), chunked)
        return values

    def _value(self, index: int, points: Tensor, part: Tensor | None) -> Tensor:
        nodes, weights = self.given[index](points)
        if part is not None:
            nodes, weights = nodes[:, part], weights[:, part] + _LEAST_WEIGHT
            weights = weights / weights.sum(dim=-1, keepdim=True)
        if self.acquisition in ("upper", "lower"):
            mean, std = self.posterior.expectation(nodes, weights)
            return mean + (self.beta if self.acquisition == "upper" else -self.beta) * std
        if self.acquisition == "ei":
            mean, std = self.posterior.expectation(nodes, weights)
            log_ei: Tensor = std.log() + _log_ei_helper((mean - self.best_f) / std)
            return log_ei
        beta = {"ucb": self.beta, "lcb": -self.beta}.get(self.acquisition, 0.0)
        mean, std = self.posterior.moments(nodes, spread=beta != 0)
        expected: Tensor = torch.linalg.vecdot(weights, mean + beta * std)
        return expected


def part_of(num_nodes: int, most: int) -> Tensor | None:
    """Some of the nodes, drawn evenly; ``None`` where there are few.

    Neither the first ones (rows of a table may be ordered) nor every k-th (a Sobol sequence has
    these in one corner) would do.
    """
    if num_nodes <= most:
        return None
    shuffled = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(0))
    return shuffled[:most].sort().values


class InChunks(torch.autograd.Function):
    """A function of rows, and its gradient in the same pass, a chunk of rows at a time.

    Autograd alone would keep what every chunk has computed until the last one is done.
    """

    @staticmethod
    def forward(ctx: Any, X: Tensor, function: Callable[[Tensor], Tensor], step: int) -> Tensor:
        """The ``p`` values of ``p x d`` rows, ``step`` rows at a time."""
        values, gradients = [], []
        for rows in X.split(step):
            if not ctx.needs_input_grad[0]:
                values.append(function(rows))
                continue
            with torch.enable_grad():
                points = rows.detach().requires_grad_(True)
                value = function(points)
                (gradient,) = torch.autograd.grad(value.sum(), points)
            values.append(value.detach())
            gradients.append(gradient)
        ctx.save_for_backward(torch.cat(gradients) if gradients else None)
        return torch.cat(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient with respect to the rows."""
        (gradient,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return grad_output.unsqueeze(-1) * gradient, None, None


def check_given(
    given: Sequence[NodesGiven | None] | None, controls: Sequence[list[int]], point: Tensor
) -> list[int | None]:
    """How many nodes each control set has, ``None`` where they do not depend on the point.

    Args:
        given: The argument of ``optimize_control_sets``.
        controls: The controlled columns of each control set.
        point: ``d`` values at which the nodes are asked for.

    Raises:
        InputError: Unless there is one entry for each control set, and nodes and weights have the
            shapes, signs, sums and controlled columns that ``NodesGiven`` promises.
    """
    if given is None:
        return [None] * len(controls)
    if len(given) != len(controls):
        raise InputError(
            f"given: got {len(given)} entries; it takes one for each of the {len(controls)} control"
            " sets."
        )
    return [
        None if nodes_given is None else _checked_size(index, nodes_given, columns, point)
        for index, (nodes_given, columns) in enumerate(zip(given, controls, strict=True))
    ]


def _checked_size(index: int, given: NodesGiven, columns: list[int], point: Tensor) -> int:
    with torch.no_grad():
        nodes, weights = given(point.unsqueeze(0))
    d = len(point)
    if nodes.ndim != 3 or nodes.shape[0] != 1 or nodes.shape[1] == 0 or nodes.shape[2] != d:
        raise InputError(
            f"given[{index}]: got nodes of shape {tuple(nodes.shape)} for one point; it returns"
            f" nodes of shape (1, number of nodes, {d})."
        )
    if weights.shape != nodes.shape[:2]:
        raise InputError(
            f"given[{index}]: got weights of shape {tuple(weights.shape)} for nodes of shape"
            f" {tuple(nodes.shape)}; it returns one weight for each node of each point."
        )
    if not bool(torch.isfinite(nodes).all()):
        raise InputError(f"given[{index}]: got nodes that are not finite.")
    total = float(weights.sum())
    if not bool((weights >= 0).all()) or not abs(total - 1.0) <= 1e-6:
        raise InputError(
            f"given[{index}]: got weights with minimum {float(weights.min()):g} and sum {total:g};"
            " they must be non-negative and sum to one."
        )
    if not torch.allclose(
        nodes[0][:, columns], point[columns].expand(nodes.shape[1], -1).to(nodes)
    ):
        raise InputError(
            f"given[{index}]: got nodes whose controlled columns {columns} differ from those of the"
            " point."
        )
    return int(nodes.shape[1])
