"""What the acquisition functions of one control set have in common.

A partial query fixes the controlled columns and leaves the rest to chance. Its acquisition
functions take ordinary ``batch_shape x 1 x d`` points and ignore the random columns, so that
``optimize_acqf`` works with these columns in ``fixed_features``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import cast

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import FantasizeMixin, Model
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from ax_costaware.acquisition.check import check_columns, check_nodes
from ax_costaware.acquisition.partial_query import PartialQuery
from ax_costaware.models.cached_posterior import CachedPosterior

# Fantasies of pending points for models without a cached factor (see `set_X_pending`).
NUM_FANTASIES = 16


class PartialQueryAcquisition(AcquisitionFunction):
    """Base of the acquisition functions of one control set.

    On an exact GP with a product kernel everything runs on the cached factor; any other model
    is asked for its posterior at the nodes.
    """

    def __init__(
        self,
        model: Model,
        controlled: Sequence[int],
        nodes: Tensor,
        weights: Tensor,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        super().__init__(model=model)
        check_nodes(nodes, weights)
        self.controlled = check_columns("controlled", controlled, nodes.shape[-1])
        self.posterior_transform = posterior_transform
        self.nodes: Tensor
        self.weights: Tensor
        self.register_buffer("nodes", nodes)
        self.register_buffer("weights", weights)
        self._fantasies: Model | None = None
        self._posterior: CachedPosterior | None = None
        self._query: PartialQuery | None = None
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Condition on points under evaluation.

        Args:
            X_pending: ``k x d`` points, or ``None``. A point whose inputs are partly left to
                chance is represented by the values that are expected there. On the cached
                factor the point is believed at its posterior mean, which is the expectation
                over all fantasies; any other model is fantasised.
        """
        super().set_X_pending(X_pending)
        pending = self.X_pending if X_pending is not None and len(X_pending) else None
        self._posterior = CachedPosterior.from_model(
            self.model, self.posterior_transform, X_pending=pending
        )
        self._fantasies = None
        if self._posterior is not None and self._posterior.separable is not None:
            self._query = PartialQuery.prepare(
                self._posterior,
                self._posterior.separable,
                self.controlled,
                self.nodes,
                self.weights,
            )
        elif pending is not None:
            sampler = SobolQMCNormalSampler(torch.Size([NUM_FANTASIES]), seed=0)
            self._fantasies = cast(
                Model, cast(FantasizeMixin, self.model).fantasize(X=pending, sampler=sampler)
            )

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """Evaluate the acquisition function.

        Args:
            X: ``batch_shape x 1 x d`` points; the random columns are ignored.

        Returns:
            A ``batch_shape``-tensor of values.
        """
        points = X.squeeze(-2)
        flat = points.reshape(-1, points.shape[-1])
        if self._query is not None and self._posterior is not None:
            values = self._from_factor(flat, self._posterior, self._query)
        else:
            values = self._from_posterior(self._at_nodes(flat))
        return values.reshape(points.shape[:-1])

    def _at_nodes(self, points: Tensor) -> Tensor:
        """``p x d`` points as ``p x m x d``, the random columns at the nodes."""
        expanded = self.nodes.to(points).expand(len(points), -1, -1).clone()
        expanded[..., self.controlled] = points[:, None, self.controlled]
        return expanded

    def _controlled_factor(
        self, points: Tensor, posterior: CachedPosterior, query: PartialQuery
    ) -> Tensor:
        """The ``p x n`` part of the kernel that belongs to the controlled columns."""
        kernel = posterior.separable
        assert kernel is not None
        return kernel.log_factor(posterior.transform(points), posterior.X, query.mask).exp()

    @abstractmethod
    def _from_factor(
        self, points: Tensor, posterior: CachedPosterior, query: PartialQuery
    ) -> Tensor:
        """``p`` values of ``p x d`` points on the cached factor."""

    @abstractmethod
    def _from_posterior(self, points: Tensor) -> Tensor:
        """``p`` values of ``p x m x d`` nodes through ``model.posterior``."""
