r"""Sums over pairs of nodes of a squared-exponential correlation in one dimension.

In one dimension the correlation is a short sum of cosines to rounding, so that averages of cosines
replace pairs of nodes. Averages with the same rule share its sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import one_hot

MOST_ENTRIES = 4_000_000
"""Largest number of entries of a covariance between nodes in memory."""

REACH = 8.6
"""Distance in length-scales at which a squared-exponential kernel is below rounding in double."""

MOST_LENGTHSCALES = 2000.0
"""Extent of nodes, in length-scales, above which pairs of nodes are fewer than cosines."""

_MANY = 16
"""Number of averages from which on equal rules are looked for."""


@dataclass(frozen=True, eq=False)
class ColumnRules:
    """Distinct rules of averages in each column, and the assignment of averages to rules."""

    nodes: Tensor
    """Nodes ``d x ... x u x J``."""

    weights: Tensor
    """Weights ``d x ... x u x J``."""

    place: Tensor | None = None
    """Assignment ``d x n x u`` of averages to rules, one-hot; None if each has its own rule."""

    @cached_property
    def extremes(self) -> tuple[Tensor, Tensor]:
        """Smallest and largest node of each column, ``d`` each."""
        nodes = self.nodes.detach().flatten(1)
        return torch.aminmax(nodes if nodes.numel() else nodes.new_zeros(len(nodes), 1), dim=1)

    @classmethod
    def of(cls, nodes: Tensor, weights: Tensor) -> ColumnRules:
        """Return rules, without repetitions if that saves work, as for the cells of a grid.

        Args:
            nodes: Nodes ``d x ... x n x J``.
            weights: Weights of the same shape.
        """
        many = nodes.ndim == 3 and nodes.shape[1] >= _MANY and nodes.shape[-1] > 1
        if not many or nodes.requires_grad or weights.requires_grad:
            return cls(nodes, weights)
        columns = torch.cat([nodes, weights], dim=-1)
        found = [column.unique(dim=0, return_inverse=True) for column in columns]
        most = max(len(rules) for rules, _ in found)
        if 2 * most > nodes.shape[1]:
            return cls(nodes, weights)
        rules = torch.stack([torch.cat([r, r[:1].expand(most - len(r), -1)]) for r, _ in found])
        place = torch.stack([one_hot(places, most) for _, places in found]).to(nodes)
        distinct, their_weights = rules.tensor_split(2, dim=-1)
        return cls(distinct, their_weights, place)

    def sums(self, other: ColumnRules, lengthscales: Tensor) -> Tensor:
        """Return averages of the correlation in each column, ``d x ... x n x m``.

        Args:
            other: The rules of ``m`` averages.
            lengthscales: Of the columns, ``d``.
        """
        left, right = self.extremes, other.extremes
        extents = torch.maximum(left[1], right[1]) - torch.minimum(left[0], right[0])
        longest = float((extents / lengthscales.detach()).max())
        if longest > MOST_LENGTHSCALES:
            columns = zip(
                self.nodes, self.weights, other.nodes, other.weights, lengthscales, strict=True
            )
            sums = torch.stack([_by_pairs(u / h, w, v / h, z) for u, w, v, z, h in columns])
        else:
            # Periods are rounded up by at most a fifth, so that similar extents share cosines.
            period = float(2.0 ** (math.ceil(4 * math.log2(longest + REACH)) / 4))
            if other is self and lengthscales.requires_grad and not self._differentiable:
                own = lengthscales, self.nodes, self.weights, period
                sums = _OwnSums.apply(*own)  # type: ignore[no-untyped-call]
            else:
                sums = self.features(lengthscales, period) @ other.features(lengthscales, period).mT
        return other.spread(self.spread(sums).mT).mT

    def variances(self, lengthscales: Tensor) -> Tensor:
        """Return averages of the correlation within each average, ``d x ... x n``.

        Args:
            lengthscales: Of the columns, ``d``.
        """
        # Only the extent of the nodes of one average matters.
        nodes = self.nodes - self.nodes.mean(dim=-1, keepdim=True)
        scaled = nodes / lengthscales.reshape(-1, *[1] * (nodes.ndim - 1))
        extents = scaled.detach().amax(dim=-1) - scaled.detach().amin(dim=-1)
        extent = float(extents.max()) if extents.numel() else 0.0
        w = self.weights
        if extent > MOST_LENGTHSCALES:
            correlation = (scaled.unsqueeze(-1) - scaled.unsqueeze(-2)).square().mul(-0.5).exp()
            found = ((correlation @ w.unsqueeze(-1)).squeeze(-1) * w).sum(dim=-1)
        else:
            found = averaged(scaled, w, *cosines(extent + REACH, scaled)).square().sum(dim=-1)
        return self.spread(found.unsqueeze(-1)).squeeze(-1)

    @property
    def _differentiable(self) -> bool:
        return self.nodes.requires_grad or self.weights.requires_grad

    def features(self, lengthscales: Tensor, period: float) -> Tensor:
        """Return features ``d x ... x u x 2M`` of the rules, whose products are covariances.

        Args:
            lengthscales: Length-scales of the columns, ``d``.
            period: Period of the cosines, in length-scales.
        """
        differentiable = self._differentiable or lengthscales.requires_grad
        if differentiable or torch.is_inference_mode_enabled():
            return self._features(lengthscales, period)
        # In a search the observed averages stay the same.
        key = lengthscales.tolist(), period
        return kept_last(self, key, lambda: self._features(lengthscales, period))

    def _features(self, lengthscales: Tensor, period: float) -> Tensor:
        scales = lengthscales.reshape(-1, *[1] * (self.nodes.ndim - 1))
        return averaged(self.nodes / scales, self.weights, *cosines(period, self.nodes))

    def spread(self, values: Tensor) -> Tensor:
        """Return values of the averages, ``d x ... x n x m``, from those of the rules."""
        return values if self.place is None else self.place @ values


def kept_last(owner: object, key: Any, compute: Callable[[], Tensor]) -> Tensor:
    """Return the value computed for an object last time, if the key was the same."""
    last: tuple[Any, Tensor] | None = owner.__dict__.get("_last")
    if last is None or last[0] != key:
        last = owner.__dict__["_last"] = key, compute()
    return last[1]


class _OwnSums(torch.autograd.Function):
    """Products of the features of averages with themselves, ``d x u x u``.

    The forward pass also computes the derivatives by the ``d`` length-scales.
    """

    @staticmethod
    def forward(
        ctx: Any, lengthscales: Tensor, nodes: Tensor, weights: Tensor, period: float
    ) -> Tensor:
        frequencies, amplitudes = cosines(period, nodes)
        scales = lengthscales.reshape(-1, *[1] * (nodes.ndim - 1))
        angles = (nodes / scales).unsqueeze(-1) * frequencies
        cosine, sine = angles.cos(), angles.sin()
        angles = angles / scales.unsqueeze(-1)
        w, root = weights.unsqueeze(-2), amplitudes.sqrt()

        def average(*parts: Tensor) -> Tensor:
            return torch.cat([(w @ part).squeeze(-2) * root for part in parts], dim=-1)

        features, slopes = average(cosine, sine), average(sine * angles, -cosine * angles)
        half = slopes @ features.mT
        ctx.save_for_backward(half)
        return features @ features.mT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (half,) = ctx.saved_tensors
        return ((gradient + gradient.mT) * half).flatten(1).sum(dim=-1), None, None, None


def cosines(period: float, like: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return frequencies and amplitudes whose cosines sum to :math:`e^{-t^2 / 2}`.

    The trapezoidal rule for the kernel's Fourier integral. For ``t`` up to ``period - REACH``, the
    truncated tail and the periodic repetition are both below ``exp(-REACH ** 2 / 2)``, less than
    rounding.
    """
    step = 2 * math.pi / period
    count = math.ceil(REACH / step) + 1
    frequencies = step * torch.arange(count, dtype=like.dtype, device=like.device)
    amplitudes = 2 * step / math.sqrt(2 * math.pi) * frequencies.square().mul(-0.5).exp()
    amplitudes[0] = amplitudes[0] / 2
    return frequencies, amplitudes


def _by_pairs(left: Tensor, w: Tensor, right: Tensor, z: Tensor) -> Tensor:
    """Return the product of the features from all pairs of nodes, some rows at a time."""
    rows = max(1, MOST_ENTRIES // max(1, left.shape[-1] * right.numel()))
    blocks = []
    for nodes, weights in zip(left.split(rows, dim=-2), w.split(rows, dim=-2), strict=True):
        difference = nodes[..., :, None, :, None] - right[..., None, :, None, :]
        correlation = difference.square().mul(-0.5).exp()
        sums = (correlation * z[..., None, :, None, :]).sum(dim=-1)
        blocks.append((sums * weights[..., :, None, :]).sum(dim=-1))
    return torch.cat(blocks, dim=-2)


def averaged(nodes: Tensor, weights: Tensor, frequencies: Tensor, amplitudes: Tensor) -> Tensor:
    """Return features ``... x n x 2M`` of averages in a column: their products are covariances."""
    angles = nodes.unsqueeze(-1) * frequencies
    w, root = weights.unsqueeze(-2), amplitudes.sqrt()
    parts = [(w @ part).squeeze(-2) * root for part in (angles.cos(), angles.sin())]
    return torch.cat(parts, dim=-1)
