r"""Posterior of an expectation of a Gaussian process.

With nodes and weights, :math:`g = \sum_j w_j f(x_j)` is a linear functional of the GP and therefore
Gaussian. If the kernel is a product over independent inputs, the sum over the product grid is a
product of one-dimensional sums: with
:math:`v_n = s \prod_l \sum_j w_{lj} k_l(x_{lj}, X_{nl})`,

.. math:: E[g] = m + v^\top (K + \Sigma)^{-1} (y - m), \qquad
          \mathrm{Var}[g] = s \prod_l \sum_{jj'} w_{lj} w_{lj'} k_l(x_{lj}, x_{lj'})
          - v^\top (K + \Sigma)^{-1} v,

which is exact for the product rule and any number of inputs (Bayesian quadrature: O'Hagan 1991).
Each sum depends on its own block of columns only, so that it is computed once for all control sets
that do not control the block. Mean and variance are in the units of ``model.posterior``.
"""

from __future__ import annotations

import math

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from botorch.posteriors.fully_bayesian import GaussianMixturePosterior
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.posteriors.posterior import Posterior
from torch import Tensor
from torch.quasirandom import SobolEngine

from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.laws import ProductNodes
from ax_costaware.models.factor import GPFactor

# Largest grid to which a product rule is expanded for a kernel that does not factorize, since the
# joint covariance of the nodes is computed. Larger grids are sampled with as many Sobol points.
MAX_GRID = 1024


class BlockSums:
    r"""One-dimensional sums over independent inputs.

    Args:
        posterior: The posterior, whose kernel is a product.
        product: One-dimensional rules of independent inputs.
        reference: ``d`` valid values for the columns outside a block, so that points are in the
            domain of the input transform; by default the first nodes of the blocks.

    Attributes:
        columns: Columns of each block.
        mean_factors: Per block :math:`\sum_j w_j k_b(z_j, X)`, an ``n``-tensor.
        variances: Per block :math:`\sum_{jj'} w_j w_{j'} k_b(z_j, z_{j'})`, a scalar tensor.
    """

    def __init__(
        self, posterior: GPFactor, product: ProductNodes, reference: Tensor | None = None
    ) -> None:
        kernel = posterior.separable
        assert kernel is not None
        blocks = list(zip(product.columns, product.nodes, product.weights, strict=True))
        if reference is None:
            reference = posterior.X.new_zeros(posterior.num_inputs)
            for columns, nodes, _ in blocks:
                reference[list(columns)] = nodes[0].to(reference)
        self.columns = product.columns
        self.mean_factors: list[Tensor] = []
        self.variances: list[Tensor] = []
        with torch.no_grad():
            for columns, nodes, block_weights in blocks:
                index = list(columns)
                mask = torch.zeros_like(reference)
                mask[index] = 1.0
                points = reference.expand(len(nodes), -1).clone()
                points[:, index] = nodes.to(points)
                points = posterior.transform(points)
                weights = block_weights.to(points)
                to_data = kernel.log_factor(points, posterior.X, mask).exp()
                among = kernel.log_factor(points, points, mask).exp()
                self.mean_factors.append(weights @ to_data)
                self.variances.append(weights @ among @ weights)

    def combine(self, controlled: list[int], num_inputs: int) -> tuple[Tensor, Tensor] | None:
        """Return products over the uncontrolled columns; None if they are not a union of blocks."""
        random = set(range(num_inputs)) - set(controlled)
        chosen = [i for i, columns in enumerate(self.columns) if random.issuperset(columns)]
        if sum(len(self.columns[i]) for i in chosen) != len(random):
            return None
        mean_factor = torch.stack([self.mean_factors[i] for i in chosen]).prod(dim=0)
        variance = torch.stack([self.variances[i] for i in chosen]).prod()
        return mean_factor, variance


def expectation_posterior(
    model: Model,
    nodes: Tensor | ProductNodes,
    weights: Tensor | None = None,
    posterior_transform: PosteriorTransform | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Return posterior mean and variance of :math:`\sum_j w_j f(x_j)`.

    Args:
        model: A single-output model.
        nodes: Nodes ``batch_shape x n x d`` in the model's input space; or a ``ProductNodes`` whose
            independent blocks cover all ``d`` columns, where a point mass is a block of one node.
            The latter is in closed form for a product kernel, and is expanded for any other.
        weights: ``n`` or ``batch_shape x n`` weights for tensor nodes; ``ProductNodes`` brings
            its own.
        posterior_transform: Applied to the posterior.

    Returns:
        Mean and variance, each of shape ``batch_shape``, scalars for ``ProductNodes``. The variance
        is that of the function, without observation noise.

    Raises:
        InputError: For weights that do not fit the nodes, or blocks that do not cover the
            columns.
        UnsupportedInputError: If the posterior is not jointly Gaussian, or of several outcomes.
    """
    if isinstance(nodes, Tensor):
        if weights is None or weights.shape[-1] != nodes.shape[-2]:
            shape = None if weights is None else tuple(weights.shape)
            raise InputError(
                f"weights: got shape {shape}; nodes of shape {tuple(nodes.shape)} take a tensor"
                f" whose last dimension is {nodes.shape[-2]}."
            )
        mean, covariance = joint_moments(
            model.posterior(nodes, posterior_transform=posterior_transform), nodes.shape[-2]
        )
        weights = weights.to(mean)
        mean = (weights * mean).sum(dim=-1)
        variance = ((covariance @ weights.unsqueeze(-1)).squeeze(-1) * weights).sum(dim=-1)
        return mean, variance.clamp_min(0.0)
    if weights is not None:
        raise InputError("weights: got a value; ProductNodes bring their own weights.")
    cached = GPFactor.from_model(model, posterior_transform)
    if cached is None or cached.separable is None:
        points, weights = _joint_nodes(nodes)
        points = points.to(next(model.parameters(), points))
        return expectation_posterior(model, points, weights, posterior_transform)
    _check_covers(nodes, cached.num_inputs)
    sums, scale = BlockSums(cached, nodes), cached.separable.outputscale
    v = scale * torch.stack(sums.mean_factors).prod(dim=0)
    prior = scale * torch.stack(sums.variances).prod()
    half = torch.linalg.solve_triangular(cached.cholesky, v.unsqueeze(-1), upper=False)
    variance = (prior - half.square().sum()).clamp_min(0.0)
    return cached.mean_of(v), cached.scale.square() * variance


def joint_moments(posterior: Posterior, num_points: int) -> tuple[Tensor, Tensor]:
    """Return means ``... x n`` and covariances ``... x n x n`` of points, also of a mixture.

    Raises:
        UnsupportedInputError: If the posterior is neither jointly Gaussian nor a mixture of such,
            or has several outcomes or another number of points.
    """
    if isinstance(posterior, GaussianMixturePosterior):
        return posterior.mixture_mean.squeeze(-1), posterior.mixture_covariance_matrix
    if not isinstance(posterior, GPyTorchPosterior):
        raise UnsupportedInputError(
            f"model: got one with a {type(posterior).__name__}; it takes one whose posterior is "
            "jointly Gaussian."
        )
    check_one_outcome(posterior.mean, num_points)
    return posterior.mean.squeeze(-1), posterior.distribution.covariance_matrix


def check_one_outcome(mean: Tensor, num_points: int) -> None:
    """Refuse means of several outcomes, or of another number of points.

    Args:
        mean: Means ``... x n x m``.
        num_points: Expected number of points.

    Raises:
        UnsupportedInputError: If ``m`` is not 1, or ``n`` is not ``num_points``.
    """
    if mean.shape[-1] != 1:
        raise UnsupportedInputError(
            f"model: got one with {mean.shape[-1]} outcomes; it takes one outcome, or a"
            " posterior_transform that leaves one."
        )
    if mean.shape[-2] != num_points:
        raise UnsupportedInputError(
            f"model: got one that makes {mean.shape[-2]} points of {num_points}, as by its input"
            " transform; it takes one that keeps their number, or a posterior_transform such as"
            " ExpectationPosteriorTransform."
        )


def _check_covers(rule: ProductNodes, num_inputs: int) -> None:
    covered = sorted(column for columns in rule.columns for column in columns)
    if covered != list(range(num_inputs)):
        raise InputError(
            f"nodes: got blocks for the columns {covered}; they must cover each of the"
            f" {num_inputs} columns of the model once."
        )


def _joint_nodes(rule: ProductNodes) -> tuple[Tensor, Tensor]:
    """Return the product grid of a rule, or Sobol points from it if the grid is too large."""
    num_inputs = sum(len(columns) for columns in rule.columns)
    _check_covers(rule, num_inputs)
    sizes = [len(weights) for weights in rule.weights]
    dtype = rule.nodes[0].dtype
    if math.prod(sizes) <= MAX_GRID:
        picks = torch.cartesian_prod(*map(torch.arange, sizes)).reshape(-1, len(sizes))
        weights = torch.stack([block[picks[:, i]] for i, block in enumerate(rule.weights)]).prod(
            dim=0
        )
    else:
        u = SobolEngine(len(sizes), scramble=True, seed=0).draw(MAX_GRID, dtype=dtype)
        columns = [
            torch.searchsorted(w.cumsum(0), u[:, block].contiguous()).clamp_max(len(w) - 1)
            for block, w in enumerate(rule.weights)
        ]
        picks = torch.stack(columns, dim=-1)
        weights = torch.full((MAX_GRID,), 1.0 / MAX_GRID, dtype=dtype)
    joint = torch.empty(len(weights), num_inputs, dtype=dtype)
    for block, (index, nodes) in enumerate(zip(rule.columns, rule.nodes, strict=True)):
        joint[:, list(index)] = nodes[picks[:, block]]
    return joint, weights
