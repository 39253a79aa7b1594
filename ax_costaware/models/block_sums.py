r"""The sums over the nodes of independent inputs, one block of columns at a time.

For a product kernel and independent inputs, the expectation of the kernel factorises into sums over
one-dimensional nodes. Each sum depends on its own block only, so it is computed once, whatever the
number of control sets that leave the block to chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ax_costaware.models.cached_posterior import CachedPosterior
from ax_costaware.models.separable_kernel import SeparableKernel
from ax_costaware.queries.nodes import ProductNodes


@dataclass(frozen=True, eq=False)
class BlockSums:
    r"""The one-dimensional sums of independent inputs.

    Attributes:
        columns: The columns of each block.
        mean_factors: Per block :math:`\sum_j w_j k_b(z_j, X)`, an ``n``-tensor.
        variances: Per block :math:`\sum_{jj'} w_j w_{j'} k_b(z_j, z_{j'})`, a scalar tensor.
    """

    columns: tuple[tuple[int, ...], ...]
    mean_factors: tuple[Tensor, ...]
    variances: tuple[Tensor, ...]

    @classmethod
    def prepare(
        cls,
        posterior: CachedPosterior,
        kernel: SeparableKernel,
        product: ProductNodes,
        reference: Tensor | None = None,
    ) -> BlockSums:
        """Evaluate the sums.

        Args:
            posterior: The posterior.
            kernel: Its kernel's product form.
            product: One-dimensional rules of independent inputs.
            reference: ``d`` valid values for the columns outside a block, so that the input
                transform sees its own domain; by default the first nodes of the blocks.
        """
        if reference is None:
            reference = posterior.X.new_zeros(posterior.num_inputs)
            for columns, nodes in zip(product.columns, product.nodes, strict=True):
                reference[list(columns)] = nodes[0].to(reference)
        mean_factors, variances = [], []
        with torch.no_grad():
            for columns, nodes, block_weights in zip(
                product.columns, product.nodes, product.weights, strict=True
            ):
                index = list(columns)
                mask = torch.zeros_like(reference)
                mask[index] = 1.0
                points = reference.expand(len(nodes), -1).clone()
                points[:, index] = nodes.to(points)
                points = posterior.transform(points)
                weights = block_weights.to(points)
                to_data = kernel.log_factor(points, posterior.X, mask).exp()
                among = kernel.log_factor(points, points, mask).exp()
                mean_factors.append(weights @ to_data)
                variances.append(weights @ among @ weights)
        return cls(product.columns, tuple(mean_factors), tuple(variances))

    def combine(self, controlled: list[int], num_inputs: int) -> tuple[Tensor, Tensor] | None:
        """The products over the random columns, or ``None`` if these are no union of blocks."""
        random = set(range(num_inputs)) - set(controlled)
        chosen = [i for i, columns in enumerate(self.columns) if random.issuperset(columns)]
        if sum(len(self.columns[i]) for i in chosen) != len(random):
            return None
        mean_factor = torch.stack([self.mean_factors[i] for i in chosen]).prod(dim=0)
        variance = torch.stack([self.variances[i] for i in chosen]).prod()
        return mean_factor, variance
