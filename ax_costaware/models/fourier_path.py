"""Posterior samples as functions, by random Fourier features."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from botorch.sampling.pathwise.features import gen_kernel_features
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor

from ax_costaware.models.factor import GPFactor

# Number of random Fourier features of a prior sample, as in Tay et al. 2023 (appendix C.2).
NUM_FOURIER_FEATURES = 1024


def has_fourier_features(posterior: GPFactor) -> bool:
    """Return True if BoTorch has Fourier features for the kernel."""
    kernel = posterior.kernel
    while isinstance(kernel, ScaleKernel):
        kernel = kernel.base_kernel
    return isinstance(kernel, RBFKernel | MaternKernel)


@dataclass(frozen=True, eq=False)
class FourierPath:
    r"""Posterior sample: Fourier features of the prior and an exact update at the data.

    :math:`f(t) = \sum_i a_i \sin(\omega_i t) + b_i \cos(\omega_i t) + k(t, X) v`.

    Attributes:
        frequencies: Frequencies ``r x d``.
        sine, cosine: Amplitudes ``a`` and ``b``, ``r`` each.
        update: Weights ``v``, ``n``.
    """

    frequencies: Tensor
    sine: Tensor
    cosine: Tensor
    update: Tensor

    @classmethod
    def draw(cls, posterior: GPFactor, seed: int) -> FourierPath:
        """Draw a sample with Matheron's rule (Wilson et al. 2020), a function of ``seed``.

        With a negative scale (minimization) normal numbers change their sign, so that the sample
        equals that of the negated outcomes.
        """
        d = posterior.num_inputs

        def normal(size: int) -> Tensor:
            drawn = torch.randn(size, dtype=posterior.X.dtype).to(posterior.X)
            return drawn * posterior.scale.sign()

        with torch.no_grad(), manual_seed(seed):
            features = gen_kernel_features(
                posterior.kernel, num_inputs=d, num_outputs=NUM_FOURIER_FEATURES
            )
            # The features are sines and cosines of a linear map of the inputs. Its values at unit
            # vectors include length-scales and active columns.
            units = torch.eye(d).to(posterior.X)
            transform = features.input_transform
            frequencies = features.forward(units if transform is None else transform(units)).mT
            amplitude = float(features(units[:1]).square().sum().sqrt()) / math.sqrt(
                NUM_FOURIER_FEATURES // 2
            )
            sine, cosine = (normal(NUM_FOURIER_FEATURES) * amplitude).chunk(2)
            noise = normal(len(posterior.X)) * posterior.noise.sqrt()
            phase = posterior.X @ frequencies.mT
            prior = phase.sin() @ sine + phase.cos() @ cosine
            residual = (posterior.y - prior - noise).unsqueeze(-1)
            update = torch.cholesky_solve(residual, posterior.cholesky).squeeze(-1)
        return cls(frequencies, sine, cosine, update)

    def expected(
        self, mask: Tensor, nodes: Tensor, weights: Tensor, mean_factor: Tensor
    ) -> FourierPath:
        """Return the expectation over the uncontrolled columns, which has the same form.

        Args:
            mask: ``d``-tensor, one for a controlled column and zero for an uncontrolled one.
            nodes: ``m x d`` nodes, transformed.
            weights: ``m`` weights.
            mean_factor: Expected uncontrolled factor of the kernel, ``n``.

        Returns:
            A path whose frequencies of uncontrolled columns are zero.
        """
        phase = (nodes * (1 - mask)) @ self.frequencies.mT  # m x r
        cos, sin = weights @ phase.cos(), weights @ phase.sin()
        return FourierPath(
            frequencies=self.frequencies * mask,
            sine=self.sine * cos - self.cosine * sin,
            cosine=self.sine * sin + self.cosine * cos,
            update=self.update * mean_factor,
        )

    def __call__(self, t: Tensor, covariance: Tensor) -> Tensor:
        """Return values of ``p`` transformed rows, with covariances ``p x n`` with the data."""
        phase = t @ self.frequencies.mT
        return phase.sin() @ self.sine + phase.cos() @ self.cosine + covariance @ self.update
