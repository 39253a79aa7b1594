"""Gaussian copula: inputs whose normal scores are jointly normal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from scipy.stats import norm, rankdata
from torch import Tensor
from torch.special import ndtr, ndtri
from typing_extensions import override

from ax_costaware.argument_checks import (
    Matrix,
    Numbers,
    checked_items,
    finite_number,
    set_fields,
)
from ax_costaware.exceptions import InputError
from ax_costaware.laws.joint.law import (
    JointLaw,
    NodesGiven,
    Placement,
    at_points,
    columns_of,
    independent_rows,
    marginal_of,
    named_pairs,
)
from ax_costaware.laws.joint.scores import (
    ScoreMap,
    StepScores,
    conditional_mean,
    errors_given,
    score_map,
)
from ax_costaware.laws.marginals import Marginal, RawValue
from ax_costaware.laws.quadrature import uniforms

_SYMMETRY = 1e-8
"""Tolerance of the symmetry of a correlation, and of its unit diagonal."""

_LEAST_EIGENVALUE = 1e-6
"""Smallest eigenvalue of a given correlation, for an accurate inverse."""

_FITTED_EIGENVALUE = 1e-4
"""Smallest eigenvalue of a fitted correlation, which is shrunk towards independence."""

_NUM_DRAWS = 512
"""Draws within the intervals of scores of given values of discrete inputs."""

_EXPECTED_MARGINALS = "a mapping from names to marginals such as Uniform(0, 1)"


@dataclass(frozen=True, init=False, repr=False)
class GaussianCopula(JointLaw):
    r"""Gaussian copula of given marginals, on numbers only.

    The score of an input is :math:`z_l = \Phi^{-1}(F_l(x_l))`, and ``z`` is normal with mean zero
    and the given correlation :math:`R` (Nelsen 2006, *An Introduction to Copulas*). Given
    controlled inputs ``C``, the scores of the rest have the distribution

    .. math:: z_R \mid z_C \sim N(R_{RC} R_{CC}^{-1} z_C, \; R_{RR} - R_{RC} R_{CC}^{-1} R_{CR}),

    and the nodes move with the controlled values.

    - A value of a discrete input determines an interval of its score. Its nodes stay, and their
      weights change.
    - The distribution function of an ``Empirical`` marginal is interpolated linearly if inputs are
      given, so that nodes have a gradient.
    - A controlled value in the outer 3e-5 of its marginal counts as the quantile there.

    A controlled value at a bound where the marginal is truncated, or has an atom, has a score of
    about 4 in size. It moves dependent inputs as far, wherever the bound is. Marginals should
    therefore extend about four standard deviations beyond their mean.

    Controlling an input counts as observing it; see the module ``ax_costaware.laws.joint.law``.
    """

    marginals: tuple[tuple[str, Marginal], ...]
    """Pairs of a name and its marginal."""

    correlation: tuple[tuple[float, ...], ...]
    """Correlation of the normal scores, in the order of ``marginals``."""

    def __init__(
        self,
        marginals: Mapping[str, Marginal] | Sequence[tuple[str, Marginal]],
        correlation: Sequence[Sequence[float]],
    ) -> None:
        """Make a copula with given marginals and correlation.

        Args:
            marginals: Marginal of each input, in raw units; all on numbers.
            correlation: Correlation ``d x d`` of the normal scores, in the order of ``marginals``.
                For normal marginals it is the correlation of the inputs.

        Raises:
            InputError: If marginals are empty or not on numbers; or if the correlation has the
                wrong shape, is not symmetric or not positive definite, or has no unit diagonal.
        """
        pairs = named_pairs(marginals, "marginals", _EXPECTED_MARGINALS)
        for name, law in pairs:
            if not isinstance(law, Marginal) or not law.is_numeric:
                raise InputError(f"marginals[{name!r}]={law!r}: expected a marginal on numbers.")
        checked = _checked_correlation(correlation, len(pairs))
        set_fields(self, marginals=pairs, correlation=checked)

    @classmethod
    def fit(cls, frame: Any, marginals: Mapping[str, Marginal] | None = None) -> Self:
        """Fit a copula to a sample.

        The correlation is that of the normal scores of the ranks, ``Phi^-1(rank / (n + 1))``, which
        do not depend on the marginals. Equal values have their mean rank; many of them bias the
        correlation towards zero. If inputs determine each other, the correlation is shrunk towards
        independence, to a smallest eigenvalue of 1e-4.

        Args:
            frame: A data frame, or a mapping from names to values, with one row per joint
                observation of all inputs.
            marginals: Marginals of some inputs. Others have that of their column: ``Empirical``, or
                ``Discrete`` for integers.

        Raises:
            InputError: If ``JointEmpirical`` refuses the sample, columns are not numbers or
                constant, or marginals are of other inputs.
        """
        columns = columns_of(frame)
        given = {} if marginals is None else marginals
        if not isinstance(given, Mapping) or not set(given) <= {name for name, _ in columns}:
            raise InputError(
                f"marginals={given!r}: expected {_EXPECTED_MARGINALS}, for columns of frame."
            )
        scores = []
        for name, column in columns:
            if isinstance(column[0], str | bool):
                raise InputError(f"frame[{name!r}] has the value {column[0]!r}: expected numbers.")
            if len(set(column)) == 1:
                raise InputError(
                    f"frame[{name!r}] has the value {column[0]!r} only: expected several values "
                    "(leave it out of the copula)."
                )
            ranks = rankdata(np.array(column, dtype=np.float64))
            scores.append(norm.ppf(ranks / (len(column) + 1)))
        correlation = np.atleast_2d(np.corrcoef(np.stack(scores)))
        least = float(np.linalg.eigvalsh(correlation)[0])
        if least < _FITTED_EIGENVALUE:
            share = (_FITTED_EIGENVALUE - least) / (1.0 - least)
            correlation = (1.0 - share) * correlation + share * np.eye(len(columns))
        np.fill_diagonal(correlation, 1.0)
        laws = {name: given.get(name) or marginal_of(column) for name, column in columns}
        return cls(laws, correlation.tolist())

    def __repr__(self) -> str:
        return f"GaussianCopula({dict(self.marginals)!r}, correlation={self.correlation!r})"

    @property
    @override
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.marginals)

    @override
    def marginal(self, name: str) -> Marginal:
        self._checked([name])
        return dict(self.marginals)[name]

    @override
    def cdf_given(
        self, name: str, value: RawValue, given: Mapping[str, RawValue]
    ) -> tuple[float, float]:
        law = self.marginal(name)
        if name in given:
            raise InputError(f"given has {name!r} itself: expected other inputs.")
        target = torch.tensor([finite_number(value, name)], dtype=torch.double)
        below = torch.nextafter(target, torch.full_like(target, -torch.inf))
        reached = law.cdf(torch.cat([below, target]))
        values = {n: finite_number(given[n], n) for n in self.names if n in given}
        if not values:
            return float(reached[0]), float(reached[1])
        found = {n: self._own_map(n) for n in values}
        known = _steps_last(found)
        maps, x = [found[n] for n in known], [_one_column([values[n]]) for n in known]
        factor = self._factor((*known, name))
        u = uniforms(len(known), _NUM_DRAWS, 0)
        errors, log_weights = errors_given(maps, x, factor, u)
        mean = conditional_mean(errors.unbind(dim=-1), factor, len(known), log_weights)
        weights = torch.softmax(log_weights, dim=-1)
        # Probabilities 0 and 1 have infinite scores, and stay 0 and 1.
        probability = ndtr((ndtri(reached).unsqueeze(-1) - mean) / factor[-1, -1]) @ weights[0]
        strict, weak = probability.clamp(0.0, 1.0).tolist()
        return strict, weak

    @override
    def _num_uniforms(self, names: Sequence[str]) -> int:
        return len(names)

    @override
    def _rows_at(self, names: Sequence[str], u: Tensor) -> list[dict[str, RawValue]]:
        scores = ndtri(u) @ self._factor(names).T
        laws = {name: self.marginal(name) for name in names}
        return independent_rows(laws, ndtr(scores))

    @override
    def _conditional_nodes(
        self, given: Sequence[str], rest: Sequence[str], controlled: Sequence[str], place: Placement
    ) -> NodesGiven:
        found = {name: self._map(name, place) for name in (*given, *rest)}
        known = _steps_last({name: found[name] for name in given})
        order = (*known, *reversed(_steps_last({name: found[name] for name in rest})))
        uniform = uniforms(len(order) + len(place.independent), place.num_nodes, place.seed)
        u = uniform[:, : len(order)]
        base = place.transform(independent_rows(place.independent, uniform[:, len(order) :]))
        base = base.double()
        factor, maps = self._factor(order), [found[name] for name in order]
        blocks = [list(place.columns[name]) for name in order]
        columns, g = place.columns_of(controlled), len(known)

        def moving_nodes(points: Tensor) -> tuple[Tensor, Tensor]:
            """Return nodes of the other inputs, which move with the given ones."""
            x = points.to(device=base.device, dtype=torch.double)
            places = [x[:, block] for block in blocks[:g]]
            known_errors, log_weights = errors_given(maps[:g], places, factor, u[:, :g])
            errors = list(known_errors.unbind(dim=-1))
            nodes = base.expand(len(points), -1, -1).clone()
            for k in range(g, len(maps)):
                mean = conditional_mean(errors, factor, k, log_weights)
                drawn, error, log_ratio = maps[k].draw(mean, factor[k, k], u[:, k])
                errors.append(error)
                log_weights = log_weights + log_ratio
                nodes[..., blocks[k]] = drawn
            weights = torch.softmax(log_weights, dim=-1)
            return at_points(nodes, points, columns), weights.to(points)

        return moving_nodes

    def _own_map(self, name: str) -> ScoreMap:
        """Return the cached map between scores and raw values of an input."""
        if name not in self._own_maps:
            self._own_maps[name] = score_map(self.marginal(name), _one_column)
        return self._own_maps[name]

    @cached_property
    def _own_maps(self) -> dict[str, ScoreMap]:
        return {}

    def _map(self, name: str, place: Placement) -> ScoreMap:
        columns = list(place.columns[name])
        law = self.marginal(name)

        def coordinates(values: Sequence[RawValue]) -> Tensor:
            return place.transform([{name: value} for value in values])[:, columns]

        return score_map(law, coordinates)

    def _factor(self, names: Sequence[str]) -> Tensor:
        """Return the Cholesky factor of the correlation of ``names``, in their order."""
        order = [self.names.index(name) for name in names]
        correlation = torch.tensor(self.correlation, dtype=torch.double)[order][:, order]
        factor: Tensor = torch.linalg.cholesky(correlation)
        return factor


def _steps_last(maps: Mapping[str, ScoreMap]) -> list[str]:
    """Return the names of continuous inputs, whose scores are exact, before discrete ones."""
    return sorted(maps, key=lambda name: isinstance(maps[name], StepScores))


def _one_column(values: Sequence[RawValue]) -> Tensor:
    return torch.tensor([[float(value)] for value in values], dtype=torch.double)


def _checked_correlation(correlation: Any, size: int) -> Matrix:
    expected = f"a symmetric, positive definite {size} x {size} matrix with ones on the diagonal"

    def checked_row(row: Any, name: str) -> Numbers:
        return checked_items(row, name, expected, length=size)

    rows: Matrix = checked_items(correlation, "correlation", expected, checked_row, size)
    entries = np.array(rows)
    diagonal = np.diag(entries)
    if np.abs(diagonal - 1.0).max() > _SYMMETRY:
        raise InputError(f"correlation has the diagonal {diagonal.tolist()}: expected ones.")
    if np.abs(entries - entries.T).max() > _SYMMETRY:
        raise InputError(f"correlation={entries.tolist()}: expected {expected}.")
    least = float(np.linalg.eigvalsh(entries)[0])
    if not least > _LEAST_EIGENVALUE:
        raise InputError(
            f"correlation={entries.tolist()} has the eigenvalue {least:g}: expected "
            f"{expected}, its eigenvalues above {_LEAST_EIGENVALUE:g}."
        )
    return rows
