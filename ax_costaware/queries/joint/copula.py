"""Inputs whose normal scores are jointly normal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor
from typing_extensions import override

from ax_costaware.queries.joint.law import JointLaw, NodesGiven, Placement
from ax_costaware.queries.marginals import Marginal, RawValue


@dataclass(frozen=True, init=False)
class GaussianCopula(JointLaw):
    """Inputs with given marginals whose normal scores are jointly normal; numbers only."""

    marginals: tuple[tuple[str, Marginal], ...]
    """Pairs of a name and its law."""

    correlation: tuple[tuple[float, ...], ...]
    """Correlation of the normal scores, in the order of ``marginals``."""

    def __init__(self, marginals: Mapping[str, Marginal] | Any, correlation: Any) -> None:
        """Inputs with given marginals and correlation of their normal scores."""
        raise NotImplementedError

    @classmethod
    def fit(cls, frame: Any, marginals: Mapping[str, Marginal] | None = None) -> Self:
        """The copula of a sample."""
        raise NotImplementedError

    @property
    @override
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.marginals)

    @override
    def marginal(self, name: str) -> Marginal:
        raise NotImplementedError

    @override
    def cdf_given(
        self, name: str, value: RawValue, given: Mapping[str, RawValue]
    ) -> tuple[float, float]:
        raise NotImplementedError

    @override
    def _num_uniforms(self, names: Sequence[str]) -> int:
        return len(names)

    @override
    def _rows_at(self, names: Sequence[str], u: Tensor) -> list[dict[str, RawValue]]:
        raise NotImplementedError

    @override
    def _conditional_nodes(
        self, given: Sequence[str], rest: Sequence[str], controlled: Sequence[str], place: Placement
    ) -> NodesGiven:
        raise NotImplementedError
