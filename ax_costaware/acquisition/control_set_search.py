r"""The search of several control sets in one batch.

Screening: raw points of every control set are scored with few nodes. Search: the best of them,
spaced apart, are the rows of one batched L-BFGS-B, whatever control set they belong to. Polish:
the leaders of every control set are continued to convergence with all nodes. Discrete columns stay
at the values of their starting point while the others move, and are then improved by trying their
other values. Linear constraints go through BoTorch's SLSQP.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from ax_costaware.acquisition.local_search import ascend
from ax_costaware.acquisition.objectives import ControlSetObjective
from ax_costaware.acquisition.optimize import Optimum
from ax_costaware.acquisition.partial_query import rows_by_set
from ax_costaware.acquisition.starts import SearchDomain, raw_points, spaced_best
from ax_costaware.space.discrete import exchanges

# Raw points per control set by the number of controlled columns; a surface with length-scale 0.1
# has about 5 maxima per unit and column. Without random columns a point costs one node, and there
# the surface is also at its roughest.
RAW_SAMPLES = {1: 64, 2: 192, 3: 384}
RAW_SAMPLES_MANY = 512
RAW_SAMPLES_FULL_CONTROL = 4096

# Local searches per control set, and how far apart (in length-scales) their starts are.
NUM_RESTARTS = 4
NUM_RESTARTS_FULL_CONTROL = 24
START_DISTANCE = 0.5

# Iterations before and after the field is narrowed to the leaders.
SEARCH_ITERATIONS = 15
POLISH_ITERATIONS = 100
NUM_POLISHED = 2

# Raw points whose values differ by less, in relation to their size, differ by rounding.
RELATIVE_SPREAD = 1e-10

# Rows that are evaluated at once outside the local search.
EVALUATED_ROWS = 1024

# Rounds of trying other discrete values; each that helps is followed by another local search.
DISCRETE_ROUNDS = 3


class ControlSetSearch:
    """One search: the objective, where it may look, and the rows of all control sets together.

    Args:
        objective: What is maximised.
        domain: Where.
        controls: Per control set, the columns that it controls.
        lengths: ``d`` lengths over which the objective varies.
        logarithmic: Whether its values are logarithms, which have no unit.
    """

    def __init__(
        self,
        objective: ControlSetObjective,
        domain: SearchDomain,
        controls: Sequence[list[int]],
        lengths: Tensor,
        logarithmic: bool = False,
    ) -> None:
        self.objective = objective
        self.domain = domain
        self.controls = controls
        self.lengths = lengths
        self.free = torch.zeros(len(controls), len(lengths), dtype=torch.bool).to(lengths.device)
        for index, controlled in enumerate(controls):
            self.free[index, domain.continuous_of(controlled)] = True
        self.logarithmic = logarithmic
        # The tolerances of the optimisers are absolute: they get values less the level of their
        # control set, over its height.
        self.level = torch.zeros(len(controls)).to(lengths)
        self.height = torch.ones(len(controls)).to(lengths)

    def run(
        self, near: Tensor, num_restarts: int | None, raw_samples: int | None, seed: int
    ) -> Optimum[Tensor]:
        """Screen, search, polish, and try other discrete values."""
        X, sets = self.starts(near, num_restarts, raw_samples, seed)
        X, values = self.climb(X, sets, SEARCH_ITERATIONS, coarse=True)
        leaders = self.leaders(values, sets, NUM_POLISHED)
        X, sets = X[leaders], sets[leaders]
        X, values = self.climb(X, sets, POLISH_ITERATIONS)
        for _ in range(DISCRETE_ROUNDS if self.domain.discrete else 0):
            moved, X, values = self.try_discrete(X, values, sets)
            if not moved:
                break
            X, values = self.climb(X, sets, SEARCH_ITERATIONS)
        best = self.leaders(values, sets, 1)
        return Optimum(X[best], values[best])

    def starts(
        self,
        near: Tensor,
        num_restarts: int | None,
        raw_samples: int | None,
        seed: int,
    ) -> tuple[Tensor, Tensor]:
        """Starting points of all control sets, and the control set of each."""
        d = len(self.lengths)
        usual = {**RAW_SAMPLES, d: RAW_SAMPLES_FULL_CONTROL}
        raw = [
            raw_points(
                self.domain,
                controlled,
                raw_samples or usual.get(len(controlled), RAW_SAMPLES_MANY),
                near,
                0.5 * self.lengths,
                seed,
            )
            for controlled in self.controls
        ]
        sizes = [len(points) for points in raw]
        index = torch.arange(len(raw))  # on the CPU, where indices serve tensors of any device
        with torch.no_grad():
            sets = index.repeat_interleave(torch.tensor(sizes))
            scores = self._evaluate(torch.cat(raw), sets, coarse=True).split(sizes)
        chosen = []
        for i, (points, score) in enumerate(zip(raw, scores, strict=True)):
            # Their mean and standard deviation are the unit, unless they differ by rounding only.
            height, level = torch.std_mean(score, correction=0)
            least = RELATIVE_SPREAD * score.abs().max()
            if not self.logarithmic and bool(torch.isfinite(height)) and bool(height > least):
                self.level[i], self.height[i] = level, height
            full = len(self.controls[i]) == d
            number = num_restarts or (NUM_RESTARTS_FULL_CONTROL if full else NUM_RESTARTS)
            chosen.append(points[spaced_best(score, points / self.lengths, number, START_DISTANCE)])
        counts = torch.tensor([len(points) for points in chosen])
        return torch.cat(chosen), index.repeat_interleave(counts)

    def _evaluate(self, X: Tensor, sets: Tensor, coarse: bool = False) -> Tensor:
        """Values in chunks of rows, so that memory does not grow with the raw points."""
        parts = zip(X.split(EVALUATED_ROWS), sets.split(EVALUATED_ROWS), strict=True)
        return torch.cat([self.objective(*part, coarse) for part in parts])

    def climb(
        self, X: Tensor, sets: Tensor, iterations: int, coarse: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Local search from every row; no row ends worse than it started."""
        constrained = bool(self.domain.constraints)
        climbed = X.clone()
        # The constraints differ between control sets.
        parts = rows_by_set(sets) if constrained else [(0, torch.arange(len(X)))]
        for index, rows in parts:
            climbed[rows] = ascend(
                partial(self._scaled, sets[rows], coarse and not constrained),
                X[rows],
                self.domain.bounds,
                self.free[sets[rows]],
                iterations,
                self.domain.constraints_of(self.controls[index]),
            )
        climbed = self.domain.complete(climbed)
        with torch.no_grad():
            both = self._evaluate(torch.cat([X, climbed]), sets.repeat(2), coarse)
        before, after = both.chunk(2)
        better = after > before
        return torch.where(better.unsqueeze(-1), climbed, X), torch.where(better, after, before)

    def _scaled(self, sets: Tensor, coarse: bool, points: Tensor, rows: Tensor) -> Tensor:
        sets, points = sets[rows], self.domain.complete(points)
        return (self.objective(points, sets, coarse) - self.level[sets]) / self.height[sets]

    def leaders(self, values: Tensor, sets: Tensor, num: int) -> Tensor:
        """Indices of the ``num`` best rows of every control set, in order of control sets."""
        picked = []
        for index in range(len(self.controls)):
            rows = torch.nonzero(sets == index).flatten()
            order = values[rows].argsort(descending=True, stable=True).cpu()
            picked.append(rows[order[:num]])
        return torch.cat(picked)

    def try_discrete(self, X: Tensor, values: Tensor, sets: Tensor) -> tuple[bool, Tensor, Tensor]:
        """Make the change of every row that helps most: of a discrete block, or of two numbers."""
        X, values = X.clone(), values.clone()
        moved = False
        for row in range(len(X)):
            controlled = self.controls[int(sets[row])]
            blocks, constraints = (
                self.domain.discrete_of(controlled),
                self.domain.constraints_of(controlled),
            )
            taken = {column for columns, _ in blocks for column in columns}
            free = taken | {*self.domain.continuous_of(controlled)}
            still = {*range(X.shape[-1])} - free
            trials = [exchanges(X[[row]], blocks, self.domain.bounds, constraints, still)]
            for columns, choices in blocks:
                changed = X[row].expand(len(choices), -1).clone()
                changed[:, list(columns)] = choices.to(X)
                trials.append(changed[self.domain.feasible(changed, controlled)])
            candidates = torch.cat(trials)
            if not len(candidates):
                continue
            with torch.no_grad():
                scores = self._evaluate(candidates, sets[row].expand(len(candidates)))
            best = int(scores.argmax())
            if scores[best] > values[row]:
                X[row], values[row], moved = candidates[best], scores[best], True
        return moved, X, values
