r"""The functions that are maximised over the values of a control set, for all control sets at once.

A ``ControlSetObjective`` maps rows of points, each with the index of its control set, to values.
Offered are, by the names that ``optimize_control_sets`` takes:

* ``"ucb"``: :math:`E[\mu + \beta\sigma]`, the expected upper confidence bound (Tay et al. 2023,
  Algorithm 1);
* ``"lcb"``: :math:`E[\mu - \beta\sigma]`, the expected lower confidence bound;
* ``"ei"``: the log of the expected improvement of :math:`g(x_C) = E_R f(x_C, X_R)`, which is
  Gaussian, so that its closed form replaces the double Monte Carlo of EI-PSQ (their appendix C.2);
* ``"ts"``: the expectation of one pathwise posterior sample (TS-PSQ, Hayashi et al. 2022);
* ``"mean"``: :math:`E\,\mu`, what a recommendation maximises;
* ``"upper"`` and ``"lower"``: :math:`E\,\mu \pm \beta\,\mathrm{sd}[E f]`, confidence bounds of the
  expectation, which lie much closer together than those of ``"ucb"`` and ``"lcb"``;
* ``"information"``: what a trial tells about the best query (see ``information``).

``FastObjective`` serves GPs whose kernel is a product over its inputs, on the cached factor.
``PosteriorObjective`` asks BoTorch acquisition functions and serves any model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast, get_args

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import _log_ei_helper
from botorch.sampling.pathwise.features import KernelFeatureMap, gen_kernel_features
from botorch.utils.sampling import manual_seed
from torch import Tensor

from ax_costaware.acquisition.partial_query import PartialQuery
from ax_costaware.exceptions import InputError
from ax_costaware.models.cached_posterior import CachedPosterior
from ax_costaware.models.separable_kernel import SeparableKernel

AcquisitionName = Literal["ucb", "lcb", "ei", "ts", "mean", "upper", "lower", "information"]

# Random Fourier features of a prior sample, as many as the paper uses (appendix C.2).
NUM_FOURIER_FEATURES = 1024


def check_acquisition(name: str) -> AcquisitionName:
    """Refuse an unknown acquisition name with an ``InputError``."""
    if name in get_args(AcquisitionName):
        return cast(AcquisitionName, name)
    raise InputError(
        f"acquisition: got {name!r}; it takes one of {', '.join(get_args(AcquisitionName))}."
    )


class ControlSetObjective(Protocol):
    """Values of points under the control sets they belong to."""

    def __call__(self, X: Tensor, sets: Tensor, coarse: bool = False) -> Tensor:
        """Evaluate.

        Args:
            X: ``p x d`` points in the model's input space; random columns are ignored.
            sets: ``p`` indices of control sets.
            coarse: Whether an approximation will do, for screening.

        Returns:
            ``p`` values, differentiable with respect to ``X``.
        """
        ...


@dataclass(frozen=True, eq=False)
class FourierPath:
    r"""One posterior sample: Fourier features of the prior and an exact update at the data.

    :math:`f(t) = \sum_i a_i \sin(\omega_i t) + b_i \cos(\omega_i t) + k(t, X) v`.

    Attributes:
        frequencies: ``r x d``.
        sine, cosine: ``r`` amplitudes ``a`` and ``b``.
        update: ``n`` weights ``v``.
    """

    frequencies: Tensor
    sine: Tensor
    cosine: Tensor
    update: Tensor

    @classmethod
    def draw(cls, posterior: CachedPosterior, seed: int) -> FourierPath:
        """Draw with Matheron's rule (Wilson et al. 2020), reproducibly under ``seed``.

        The sample of a function that is to be minimised is that of its negative, turned over.
        """
        d = posterior.num_inputs
        with torch.no_grad(), manual_seed(seed):
            features = gen_kernel_features(
                posterior.kernel, num_inputs=d, num_outputs=NUM_FOURIER_FEATURES
            )
            # The features are sines and cosines of a linear map of the inputs; reading the map
            # off the unit vectors holds whatever length-scales and active columns are inside.
            units = torch.eye(d).to(posterior.X)
            frequencies = features.forward(_transform_inputs(features, units)).mT
            amplitude = float(features(units[:1]).square().sum().sqrt()) / math.sqrt(
                NUM_FOURIER_FEATURES // 2
            )
            sign = posterior.scale.sign()
            weights = (
                torch.randn(NUM_FOURIER_FEATURES, dtype=posterior.X.dtype).to(posterior.X)
                * amplitude
                * sign
            )
            noise = (
                torch.randn(len(posterior.X), dtype=posterior.X.dtype).to(posterior.X)
                * posterior.noise.sqrt()
                * sign
            )
            sine, cosine = weights.chunk(2)
            phase = posterior.X @ frequencies.mT
            prior = phase.sin() @ sine + phase.cos() @ cosine
            residual = (posterior.y - prior - noise).unsqueeze(-1)
            update = torch.cholesky_solve(residual, posterior.cholesky).squeeze(-1)
        return cls(frequencies, sine, cosine, update)

    def expected(self, query: PartialQuery, nodes: Tensor) -> FourierPath:
        """The expectation over the random columns, again of this form.

        Args:
            query: The control set.
            nodes: ``m x d`` nodes, transformed.

        Returns:
            A path whose frequencies of random columns are zero.
        """
        phase = (nodes[: len(query.weights)] * (1 - query.mask)) @ self.frequencies.mT  # m x r
        cos, sin = query.weights @ phase.cos(), query.weights @ phase.sin()
        return FourierPath(
            frequencies=self.frequencies * query.mask,
            sine=self.sine * cos - self.cosine * sin,
            cosine=self.sine * sin + self.cosine * cos,
            update=self.update * query.mean_factor,
        )

    def __call__(self, t: Tensor, controlled_factor: Tensor) -> Tensor:
        """Values of ``p`` rows with their ``p x n`` controlled kernel factors."""
        phase = t @ self.frequencies.mT
        return phase.sin() @ self.sine + phase.cos() @ self.cosine + controlled_factor @ self.update


def _transform_inputs(features: KernelFeatureMap, X: Tensor) -> Tensor:
    """The input transform of a feature map."""
    return X if features.input_transform is None else features.input_transform(X)


@dataclass(frozen=True, eq=False)
class FastObjective:
    """Objectives on a cached factor with a product kernel.

    Attributes:
        posterior: The posterior.
        kernel: Its kernel's product form.
        queries: One prepared partial query per control set.
        acquisition: Which objective.
        beta: The weight of the standard deviation in the confidence bounds.
        best_f: The incumbent of ``"ei"``, in the posterior's units.
        paths: The sample of ``"ts"``, in expectation per control set.
    """

    posterior: CachedPosterior
    kernel: SeparableKernel
    queries: Sequence[PartialQuery]
    acquisition: AcquisitionName
    beta: float
    best_f: float
    paths: Sequence[FourierPath]

    def __call__(self, X: Tensor, sets: Tensor, coarse: bool = False) -> Tensor:
        """Evaluate; see ``ControlSetObjective``."""
        t = self.posterior.transform(X)
        queries = self.queries
        # One call for the controlled factors of all rows; only what is per control set loops.
        masks = torch.stack([query.mask for query in queries])[sets]
        factors = self.kernel.log_factor(t, self.posterior.X, masks).exp()
        values = torch.zeros_like(X[:, 0])
        for index, rows in rows_by_set(sets):
            value = self._value(index, t[rows], factors[rows], coarse)
            values = values.index_put((rows,), value)
        return values

    def _value(self, index: int, t: Tensor, factors: Tensor, coarse: bool) -> Tensor:
        posterior = self.posterior
        query = self.queries[index]
        scale = posterior.scale
        if self.acquisition == "ts":
            return posterior.offset + scale * (posterior.prior_mean + self.paths[index](t, factors))
        mean = posterior.offset + scale * (posterior.prior_mean + query.mean(factors))
        if self.acquisition == "mean":
            return mean
        if self.acquisition == "ei":
            std = scale.abs() * query.variance(factors).sqrt()
            return std.log() + _log_ei_helper((mean - self.best_f) / std)
        beta = -self.beta if self.acquisition in ("lcb", "lower") else self.beta
        if self.acquisition in ("upper", "lower"):
            return mean + beta * scale.abs() * query.variance(factors).sqrt()
        spread = query.root_mean_variance if coarse else query.expected_std
        return mean + beta * scale.abs() * spread(factors)


@dataclass(frozen=True, eq=False)
class PosteriorObjective:
    """Objectives through BoTorch acquisition functions, one per control set.

    Attributes:
        functions: Maps ``p x 1 x d`` points to ``p`` values.
    """

    functions: Sequence[AcquisitionFunction]

    def __call__(self, X: Tensor, sets: Tensor, coarse: bool = False) -> Tensor:
        """Evaluate; see ``ControlSetObjective``. Nothing is approximated for screening."""
        values = torch.zeros_like(X[:, 0])
        for index, rows in rows_by_set(sets):
            value = self.functions[index](X[rows].unsqueeze(-2))
            values = values.index_put((rows,), value)
        return values


def rows_by_set(sets: Tensor) -> Iterator[tuple[int, Tensor]]:
    """``(index, rows)`` of every control set that occurs in ``sets``."""
    order = torch.argsort(sets, stable=True)
    indices, counts = torch.unique_consecutive(sets[order], return_counts=True)
    yield from zip(indices.tolist(), order.split(counts.tolist()), strict=True)
