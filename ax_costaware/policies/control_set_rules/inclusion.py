r"""Which control sets can matter, from their inclusion alone.

If control set :math:`I` is part of :math:`J`, then
:math:`\max E[u_I] \le \max E[u_J]` for every function :math:`u`, because whatever ``J`` does with
the further inputs, the best fixed values are at least as good as random ones. So the largest value
of all is reached on a set that is part of no other, and within sets of equal cost on one that is
part of no other of that cost (Tay et al. 2023, *Bayesian Optimization with Cost-varying Variable
Subsets*, section 4: "any control set that is a strict subset of another will never be chosen").
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]


def proper_supersets(parameters: Sequence[frozenset[str]]) -> Mask:
    """``S x S``: whether the set of the column is a proper superset of the set of the row."""
    names = sorted(frozenset().union(*parameters))
    place = {name: i for i, name in enumerate(names)}
    member = np.zeros((len(parameters), len(names)), dtype=np.float32)
    for row, controlled in enumerate(parameters):
        member[row, [place[name] for name in controlled]] = 1.0
    sizes = member.sum(axis=1)
    shared = member @ member.T
    contained: Mask = (shared == sizes[:, None]) & (sizes[:, None] < sizes[None, :])
    return contained


def maximal(contained: Mask, among: Iterable[int]) -> list[int]:
    """Those ``among`` the indices whose set is part of no other of them, in increasing order."""
    chosen = np.array(sorted(among), dtype=np.intp)
    inside = contained[np.ix_(chosen, chosen)].any(axis=1)
    return [int(index) for index in chosen[~inside]]


def cost_groups(costs: Sequence[float]) -> list[tuple[int, ...]]:
    """Indices of equal cost (to rounding), cheapest group first; declared order within a group."""
    groups: list[list[int]] = []
    for index in sorted(range(len(costs)), key=lambda i: costs[i]):
        if groups and math.isclose(costs[index], costs[groups[-1][0]]):
            groups[-1].append(index)
        else:
            groups.append([index])
    return [tuple(sorted(group)) for group in groups]
