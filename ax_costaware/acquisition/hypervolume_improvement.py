r"""Expected hypervolume improvement per cost, in closed form.

The region that improves on a front above a reference point :math:`r` is a union of disjoint cells
:math:`[l, u]`. For independent outcomes that are maximized the expected improvement is

.. math:: \sum_{cells} \prod_i \left( EI_i(l_i) - EI_i(u_i) \right), \quad
    EI_i(t) = E[(f_i(x) - t)^+]

(Emmerich, Giannakoglou and Naujoks 2006; the cells of Yang et al. 2019, "Efficient Computation of
Expected Hypervolume Improvement Using Box Decomposition Algorithms"). Logarithms of all terms keep
their gradients where the improvement underflows (Ament et al. 2023).

With noise the front is uncertain. As in noisy expected hypervolume improvement (Daulton, Balandat
and Bakshy 2021, "Parallel Bayesian Optimization of Multiple Noisy Objectives with Expected
Hypervolume Improvement"), it is averaged over samples of the values at the evaluated points. Given
a sample, the closed form holds, so that only these values are sampled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import torch
from botorch.models.deterministic import DeterministicModel
from botorch.models.model import Model, ModelList
from botorch.utils.multi_objective.box_decompositions.non_dominated import (
    FastNondominatedPartitioning,
)
from botorch.utils.multi_objective.pareto import is_non_dominated
from botorch.utils.safe_math import log1mexp
from botorch.utils.sampling import draw_sobol_normal_samples
from torch import Tensor

from ax_costaware.acquisition.baseline import SampledBaseline
from ax_costaware.acquisition.criteria import log_expected_gain
from ax_costaware.acquisition.noisy_improvement import HOPELESS, compressed
from ax_costaware.acquisition.pointwise import PointwiseAcquisition, takes_its_inputs
from ax_costaware.argument_checks import at_least, finite_tensor, nonnegative_number, optional
from ax_costaware.costs import CostFunction, log_cost_function
from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.models.posterior import ExactPosterior, FunctionalPosterior

Given: TypeAlias = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Means ``n x s`` given each sample of the baseline, and deviations ``n x 1``, of points."""

Moments: TypeAlias = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Means and variances, ``n`` each, of points ``n x d``."""

_LEAST_STD = 1e-4
"""Standard deviation of an outcome that is known exactly, for a slope at the edges of cells."""

_WIDTH = 2.0
"""Standard deviations within which a point of the baseline may be on the front."""

_LEAST_STEP = -1e-14
"""Upper bound of the log ratio of the improvements at both ends of a cell, for its gradient."""


def models_of(model: Model) -> list[Model]:
    """Return the models of the single outcomes of a ``ModelListGP`` or ``ModelList``.

    Raises:
        UnsupportedInputError: If the model is no list of models of one outcome.
    """
    if not isinstance(model, ModelList):
        raise UnsupportedInputError(
            f"model: got a {type(model).__name__}; hypervolume improvement takes a ModelListGP or a"
            " ModelList with an independent model of each objective."
        )
    return [cast(Model, each) for each in model.models]


@takes_its_inputs
class LogExpectedHypervolumeImprovementPerCost(PointwiseAcquisition):
    r"""Log expected hypervolume improvement per power of the expected cost, ``q = 1``.

    Args:
        model: A ``ModelListGP`` or ``ModelList`` with an independent model of each objective, all
            of them maximized. A ``DeterministicModel`` is an objective that is known exactly.
        ref_point: ``m`` values, the reference point of the hypervolume.
        X_baseline: ``n x d`` evaluated points.
        cost: A number > 0, a callable from points ``n x d`` to ``n`` costs > 0, a ``CostModel``
            such as ``LogNormalCostModel``, or a cost of BoTorch, see ``costs.CostFunction``.
        exponent: Power of the cost, at least zero.
        X_pending: ``k x d`` pending points. Their values are uncertain, too; without samples they
            are fantasized at the posterior mean.
        is_feasible: ``n`` booleans: which points of ``X_baseline`` may be on the front. None: all.
        num_samples: Samples of the values at the baseline, for exact Gaussian processes. None: the
            front is that of the posterior means.
        seed: Of the samples.
        log_weight: A function from points ``n x d`` to ``n`` logarithms that are added, such as
            that of the probability that the trial is feasible; None for none.

    Raises:
        InputError: If an argument is not of that kind.
        UnsupportedInputError: If the model is another one.
    """

    def __init__(
        self,
        model: Model,
        ref_point: Tensor,
        X_baseline: Tensor,
        cost: CostFunction,
        exponent: float = 1.0,
        X_pending: Tensor | None = None,
        is_feasible: Tensor | None = None,
        num_samples: int | None = None,
        seed: int = 0,
        log_weight: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__(model=model)
        self._models = models_of(model)
        finite_tensor(X_baseline, "X_baseline", (None, None), "n x d finite numbers, n >= 1")
        number = len(self._models)
        finite_tensor(ref_point, "ref_point", (number,), f"{number} finite numbers")
        if is_feasible is None:
            is_feasible = torch.ones(len(X_baseline), dtype=torch.bool)
        is_mask = isinstance(is_feasible, Tensor) and is_feasible.dtype == torch.bool
        if not is_mask or is_feasible.shape != X_baseline.shape[:1]:
            raise InputError(
                f"is_feasible: got {is_feasible}; expected {len(X_baseline)} booleans."
            )
        optional(at_least(1))(num_samples, "num_samples")
        self.cost = cost
        self.exponent = nonnegative_number(exponent, "exponent")
        self._log_cost, self._log_weight = log_cost_function(cost), log_weight
        self._ref_point = ref_point.to(X_baseline)
        self._evaluated, self._may_be_best = X_baseline, is_feasible.to(X_baseline.device)
        self._num_samples, self._seed = num_samples, seed
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Add pending points to the baseline; see the base class."""
        super().set_X_pending(X_pending)
        X, may_be_best = self._evaluated, self._may_be_best
        if X_pending is not None:
            X = torch.cat([X, X_pending.to(X)])
            may_be_best = torch.cat([may_be_best, may_be_best.new_ones(len(X_pending))])
        X = X[may_be_best]
        with torch.no_grad():
            if self._num_samples is None:
                self._given: list[Given] = [
                    _as_given(moments_of(m, X_pending)) for m in self._models
                ]
                fronts = torch.stack([given(X)[0] for given in self._given], dim=-1)
                values = fronts.transpose(0, 1)
            else:
                values = self._sampled(X, self._num_samples)
            self._lower, self._upper, self._sample = self._cells(values)
            self._hopeless = HOPELESS + values.new_zeros(())

    def _sampled(self, X: Tensor, num_samples: int) -> Tensor:
        """Sample the baseline, and return its values ``s x n x m``."""
        posteriors = [moments_of(each) for each in self._models]
        moments = [one(X) for one in posteriors]
        best = torch.stack([mean + _WIDTH * variance.sqrt() for mean, variance in moments], dim=-1)
        least = torch.stack([mean - _WIDTH * variance.sqrt() for mean, variance in moments], dim=-1)
        beaten = (least.unsqueeze(0) >= best.unsqueeze(1)).all(dim=-1).any(dim=-1)
        X = X[~beaten]
        number = len(self._models)
        z = draw_sobol_normal_samples(
            number * max(len(X), 1), num_samples, device=X.device, dtype=X.dtype, seed=self._seed
        ).reshape(num_samples, number, -1)
        self._given, values = [], []
        for i, posterior in enumerate(posteriors):
            if isinstance(posterior, ExactPosterior) and len(X):
                sampled = SampledBaseline(posterior, X, z[:, i])
                self._given.append(sampled)
                values.append(sampled.values)
            else:
                self._given.append(_as_given(posterior))
                values.append(posterior(X)[0].expand(num_samples, -1))
        return torch.stack(values, dim=-1)

    def _cells(self, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return lower and upper ends ``t x m`` of all cells, and the sample of each, ``t``."""
        lower, upper, sample = [], [], []
        for s, Y in enumerate(values):
            cells = FastNondominatedPartitioning(self._ref_point, Y=Y).get_hypercell_bounds()
            lower.append(cells[0])
            upper.append(cells[1])
            sample.append(torch.full((cells.shape[1],), s, device=Y.device))
        return torch.cat(lower), torch.cat(upper), torch.cat(sample)

    def _values(self, points: Tensor) -> Tensor:
        log_volume: Any = 0.0
        num_samples = self._num_samples or 1
        for i, given in enumerate(self._given):
            means, std = given(points)
            means = means.expand(-1, num_samples)[:, self._sample]
            log_volume = log_volume + self._log_length(i, means, std)
        log_improvement = torch.logsumexp(log_volume, dim=-1) - math.log(num_samples)
        value = compressed(log_improvement, self._hopeless)
        value = value - self.exponent * self._log_cost(points)
        return value if self._log_weight is None else value + self._log_weight(points)

    def _log_length(self, i: int, means: Tensor, std: Tensor) -> Tensor:
        """Return the log of ``EI(l) - EI(u)`` of objective ``i`` in each cell, ``n x t``."""
        lower, upper = self._lower[:, i], self._upper[:, i]
        is_open = upper.isinf()
        above_lower = log_expected_gain(means - lower, std)
        above_upper = log_expected_gain(means - torch.where(is_open, lower + 1.0, upper), std)
        inside = log1mexp((above_upper - above_lower).clamp_max(_LEAST_STEP))
        return above_lower + torch.where(is_open, 0.0, inside)


def hypervolume(Y: Tensor, ref_point: Tensor) -> float:
    """Return the hypervolume of points ``n x m``, all maximized, above a reference point ``m``."""
    better = Y[(ref_point < Y).all(dim=-1)]
    if not len(better):
        return 0.0
    cells = FastNondominatedPartitioning(ref_point, Y=better)
    return float(cells.compute_hypervolume())


def non_dominated(Y: Tensor, may_be: Sequence[bool] | None = None) -> list[int]:
    """Return the rows of points ``n x m``, all maximized, that no other row dominates.

    Args:
        Y: The points. Of equal ones, all are returned.
        may_be: Which rows count; None for all.
    """
    rows = list(range(len(Y))) if may_be is None else [i for i, it in enumerate(may_be) if it]
    if not rows:
        return []
    return [i for i, it in zip(rows, is_non_dominated(Y[rows]).tolist(), strict=True) if it]


def moments_of(model: Model, X_pending: Tensor | None = None) -> Moments:
    """Return means and variances of points as a function, of a model of one outcome."""
    if not isinstance(model, DeterministicModel):
        posterior = FunctionalPosterior.of(model, X_pending=X_pending)
        return posterior if isinstance(posterior, ExactPosterior) else posterior.mixture

    def known(X: Tensor) -> tuple[Tensor, Tensor]:
        value = model(X.unsqueeze(-2)).reshape(X.shape[:-1])
        return value, torch.zeros_like(value)

    return known


def _as_given(moments: Moments) -> Given:
    def given(X: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance = moments(X)
        std = variance.clamp_min(_LEAST_STD**2).sqrt()
        return mean.unsqueeze(-1), std.unsqueeze(-1)

    return given
