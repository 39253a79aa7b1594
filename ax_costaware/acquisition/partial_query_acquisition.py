r"""Acquisition functions of one control set.

A partial query fixes the controlled columns and leaves the rest to chance. Its acquisition
functions take ordinary ``batch_shape x 1 x d`` points and ignore the random columns, so that
``optimize_acqf`` works with these columns in ``fixed_features``. Values are in the units of the
model's posterior after the posterior transform; larger is better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from ax_costaware.acquisition.check import check_beta, check_columns, check_nodes
from ax_costaware.acquisition.criteria import (
    Criterion,
    LogExpectedImprovement,
    confidence_bound,
)
from ax_costaware.acquisition.input_constructor import takes_its_inputs
from ax_costaware.acquisition.objectives import build_objectives
from ax_costaware.acquisition.partial_query import FixedNodes
from ax_costaware.exceptions import InputError
from ax_costaware.models.point_posterior import PointPosterior


class PartialQueryAcquisition(AcquisitionFunction):
    """Base of the acquisition functions of one control set.

    On an exact GP everything runs on the cached factor; any other model is asked for its posterior
    at the nodes.
    """

    def __init__(
        self,
        model: Model,
        controlled: Sequence[int],
        nodes: Tensor | list[list[float]],
        weights: Tensor | list[float],
        criterion: Criterion,
        posterior_transform: PosteriorTransform | None,
        X_pending: Tensor | None,
    ) -> None:
        super().__init__(model=model)
        nodes = torch.as_tensor(nodes, dtype=torch.double)
        weights = torch.as_tensor(weights, dtype=torch.double)
        check_nodes(nodes, weights)
        self.controlled = check_columns("controlled", controlled, nodes.shape[-1])
        self.criterion = criterion
        self.posterior_transform = posterior_transform
        self.nodes: Tensor
        self.weights: Tensor
        self.register_buffer("nodes", nodes)
        self.register_buffer("weights", weights)
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Condition on points under evaluation.

        Args:
            X_pending: ``k x d`` points, or ``None``. A point whose inputs are partly left to
                chance is represented by the values that are expected there. It is believed at its
                posterior mean, which on an exact GP is the expectation over all fantasies.
        """
        super().set_X_pending(X_pending)
        posterior = PointPosterior.of(self.model, self.posterior_transform, self.X_pending)
        law = FixedNodes(self.nodes, self.weights, self.controlled)
        ((_, self._objective),) = build_objectives(posterior, [law], self.criterion)

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """Evaluate the acquisition function.

        Args:
            X: ``batch_shape x 1 x d`` points; the random columns are ignored.

        Returns:
            A ``batch_shape``-tensor of values.
        """
        points = X.squeeze(-2)
        rows = points.reshape(-1, points.shape[-1])
        values = self._objective(rows, torch.zeros(len(rows), dtype=torch.long))
        return values.reshape(points.shape[:-1])


@takes_its_inputs
class ExpectedUpperConfidenceBound(PartialQueryAcquisition):
    r"""Expected upper confidence bound over the inputs that are left to chance.

    .. math:: \alpha(x_C) = E_{X_R}\left[\mu(x_C, X_R) + \beta\, \sigma(x_C, X_R)\right],

    the acquisition function of UCB-CVS (Tay et al. 2023, *Bayesian Optimization with Cost-varying
    Variable Subsets*, Algorithm 1). With ``beta=0`` this is the posterior mean of the query's
    expected value.

    Example:
        >>> nodes, weights = sobol_nodes([Uniform(0, 1)] * 3, 128)
        >>> acqf = ExpectedUpperConfidenceBound(model, [0], nodes, weights, beta=2.0)
        >>> optimize_acqf(acqf, bounds, q=1, num_restarts=4, raw_samples=64,
        ...               fixed_features={1: 0.5, 2: 0.5})

    Args:
        model: A single-output model.
        controlled: The controlled columns.
        nodes: ``m x d`` nodes of the inputs, in the model's input space; the controlled columns
            are ignored.
        weights: ``m`` non-negative weights that sum to one.
        beta: Weight of the posterior standard deviation, at least zero.
        posterior_transform: Applied to the posterior; the result is maximised.
        X_pending: ``k x d`` points under evaluation. The expectation over their fantasies is
            exact on an exact GP: the mean stays and the standard deviation does not depend on
            the fantasised outcome.

    Raises:
        InputError: For controlled columns, nodes, weights or a beta out of range.
    """

    def __init__(
        self,
        model: Model,
        controlled: Sequence[int],
        nodes: Tensor | list[list[float]],
        weights: Tensor | list[float],
        beta: float = 2.0,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        check_beta(beta)
        criterion = confidence_bound("ucb", beta)
        super().__init__(
            model, controlled, nodes, weights, criterion, posterior_transform, X_pending
        )
        self.beta = beta


@takes_its_inputs
class PartialQueryLogExpectedImprovement(PartialQueryAcquisition):
    r"""Log of the expected improvement of a query's expected value.

    The value of a partial query is :math:`g(x_C) = E_{X_R} f(x_C, X_R)`, a linear functional of the
    GP, so :math:`g` is Gaussian and its expected improvement over an incumbent has the usual closed
    form. This replaces the nested Monte Carlo of EI-PSQ (Tay et al. 2023, appendix C.2; Hayashi et
    al. 2022).

    Args:
        model: A single-output model.
        best_f: The incumbent: the best value so far of any query, in the posterior's units.
        controlled: The controlled columns.
        nodes: ``m x d`` nodes of the inputs; the controlled columns are ignored.
        weights: ``m`` non-negative weights that sum to one.
        posterior_transform: Applied to the posterior; the result is maximised.
        X_pending: ``k x d`` points under evaluation, believed at their posterior mean.

    Raises:
        InputError: For controlled columns, nodes, weights or an incumbent out of range.
    """

    def __init__(
        self,
        model: Model,
        best_f: float,
        controlled: Sequence[int],
        nodes: Tensor | list[list[float]],
        weights: Tensor | list[float],
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        if not math.isfinite(best_f):
            raise InputError(f"best_f: got {best_f!r}; it takes a finite number.")
        criterion = LogExpectedImprovement(best_f)
        super().__init__(
            model, controlled, nodes, weights, criterion, posterior_transform, X_pending
        )
        self.best_f = best_f
