"""The resolution-tree method: the cell to measure, and its resolution.

CMETS of Zhang et al. 2024, "Indirect Query Bayesian Optimization with Integrated Feedback", section
5.2. It measures the cell whose mean is most informative about the best point per unit of cost,
among the leaves of a tree and their children. The tree has no state: it is rebuilt from the trials
before every decision. Pending cells count as measured, so that a batch continues below them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, TypeGuard

import numpy as np
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from torch import Tensor

from ax_costaware.acquisition.optimize import Optimum
from ax_costaware.argument_checks import boolean, check_fields, integer_at_least, set_fields
from ax_costaware.core.account import BudgetState
from ax_costaware.core.history import PastTrial, blaming
from ax_costaware.core.problem import Array, Decision, Problem, Stop
from ax_costaware.core.traits import Groups, Traits
from ax_costaware.core.trial_costs import TrialCosts
from ax_costaware.costs import Cost
from ax_costaware.costs.declared_cost import cost_of
from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.laws import CellConditional
from ax_costaware.methods.averages import AverageQueries, ChosenQuery, Region
from ax_costaware.methods.averages.information import information_and_score, subject_of
from ax_costaware.methods.costs import check_cost, named_cost
from ax_costaware.methods.resolution_tree.tree import Cell, ResolutionTree
from ax_costaware.space.parameters import Parameter, Range, Row

LEVEL = "level"
"""Name of the integer parameter for the level of a cell in a resolution tree."""

_UNINFORMATIVE = 1e12
"""Noise variance, in prior variances, of an outcome that says nothing."""

_MOST_CELLS = 1024
"""Cells of one level whose costs are computed."""


@dataclass(frozen=True, kw_only=True)
class TreeSearch(AverageQueries):
    """Entropy search over the cells of a resolution tree.

    Raises:
        InputError: On construction, when a field has a value that the method cannot use.
    """

    factory: ClassVar[str] = "resolution_tree_strategy"

    are_cells: ClassVar[bool] = True

    max_level: int = field(kw_only=False)
    """The finest level, at least 1; the root, the whole space, is level 0."""

    splits: int | Sequence[int] = 2
    """Number of parts of a cell along every parameter, or along each one."""

    costs: Sequence[float] | Cost | None = None
    """Cost of a cell of each level, from level 0 to ``max_level``; or a value object by the level
    and the center of a cell, such as ``AffineCost({"level": 2.0, "east": 0.1}, fixed=1.0)``; None:
    ``0.5 (level + 1)``."""

    noise: Sequence[float] | float | None = None
    """Standard deviation of the noise of a measurement, one for each level or one for all; None:
    fitted, or that of ``hyperparameters``. Reported standard errors of outcomes replace it."""

    keep_siblings: bool = True
    """Keep the siblings of a measured cell as leaves, so that leaves always partition the space.
    False: Algorithm 1 as printed, in which their parts are no candidates before they themselves
    were measured."""

    initial_trials: int | None = None  # type: ignore[assignment]
    """Cells that are measured before the model decides, the coarsest first. None: the whole space
    and the cells of level 1. With 0 the model decides from the first outcome on, also that of an
    attached trial, and with given ``hyperparameters`` from the prior on."""

    def __post_init__(self) -> None:
        integer_at_least(self.max_level, 1, "max_level")
        by_default = self.initial_trials is None
        if by_default:
            set_fields(self, initial_trials=0)
        super().__post_init__()
        for parameter in self.target_parameters:
            if not _is_plain(parameter):
                raise InputError(
                    f"target_parameters has {parameter!r}: cells are boxes, so it has to be a "
                    "range of real numbers without a log scale."
                )
            if parameter.name == LEVEL:
                raise InputError(
                    f"target_parameters has the name {LEVEL!r}, which is that of the level."
                )
        check_fields(self, keep_siblings=boolean)
        if isinstance(self.costs, Cost):
            named_cost(self.costs)
        for name in ("splits", "costs", "noise"):
            value = getattr(self, name)
            if hasattr(value, "tolist"):
                value = value.tolist()
            if isinstance(value, list):
                set_fields(self, **{name: tuple(value)})
        noise = self.tree.noise
        if isinstance(noise, tuple) and min(noise) <= 0:
            raise InputError(f"noise={self.noise!r}: expected numbers > 0.")
        if by_default:
            set_fields(self, initial_trials=1 + self.tree.num_children)

    @property
    def traits(self) -> Traits:
        """Spending is shown by the level, from coarse to fine."""
        levels = tuple(f"level {level}" for level in range(self.max_level + 1))
        groups = Groups(levels, lambda row: f"level {row[LEVEL]}")
        return replace(super().traits, label="ResolutionTree", groups=groups)

    @property
    def trial_costs(self) -> CellCosts:
        """Costs of cells, by ``costs``."""
        return CellCosts(self, self.costs if isinstance(self.costs, Cost) else None)

    @cached_property
    def tree(self) -> ResolutionTree:
        """The cells, their costs and noise."""
        lower, upper = self.target_bounds
        return ResolutionTree(
            lower,
            upper,
            self.max_level,
            splits=self.splits,
            costs=None if isinstance(self.costs, Cost) else self.costs,
            noise=self.noise,
        )

    @cached_property
    def law(self) -> CellConditional:
        """Uniform on the cell of a query: its level, then its centre."""
        tree = self.tree
        return CellConditional(
            tuple(tree.half_widths(level) for level in range(tree.max_level + 1)),
            tree.lower,
            tree.upper,
        )

    @property
    def noise_variance(self) -> Callable[[Tensor], Tensor] | None:
        """Variance of the observation noise at queries ``n x p`` in raw units; None: fitted."""
        deviations = self.tree.noise
        if not isinstance(deviations, tuple):
            return None
        variances = [sd**2 for sd in deviations]
        return lambda A: A.new_tensor(variances)[A[..., 0].detach().round().to(torch.long)]

    def query_names(self, parameters: Iterable[str]) -> tuple[str, ...]:
        """Return the level, then the parameters of the centre."""
        return LEVEL, *self.target_names

    def cell_of(self, parameters: Row) -> Cell:
        """Return the cell of a parameterization.

        Raises:
            InputError: If it is no cell of the tree.
        """
        values: Any = parameters
        try:
            centre = [values[name] for name in self.target_names]
            return self.tree.cell_at(values[LEVEL], centre)
        except (InputError, KeyError) as error:
            raise InputError(f"{dict(parameters)} is no cell of the tree: {error}") from error

    def parameters_of(self, cell: Cell) -> dict[str, Any]:
        """Return the parameterization of a cell."""
        return {
            LEVEL: cell.level,
            **dict(zip(self.target_names, self.tree.centre(cell), strict=True)),
        }

    def footprint(self, problem: Problem, parameters: Row) -> tuple[Array, Array]:
        """Return the centre and the half-widths of a cell."""
        cell = self.cell_of(parameters)
        return np.array(self.tree.centre(cell)), np.array(self.tree.half_widths(cell.level))

    def cell_costs(self, cells: Iterable[Cell]) -> list[float]:
        """Return the costs of measuring cells, by ``cost_at``.

        Raises:
            InputError: If ``costs``, or a subclass's own ``cost_at``, gives no finite number > 0.
        """
        if not self.has_own_cost and not isinstance(self.costs, Cost):
            return [self.tree.cost(cell.level) for cell in cells]
        cost = self.trial_costs.searched
        return [cost_of(cost, self.parameters_of(cell)) for cell in cells]

    def check(self, problem: Problem) -> None:
        """Refuse parameters other than the level and those of a point, and trials of no cell."""
        super().check(problem)
        parameters, expected = problem.space.parameters, [LEVEL, *self.target_names]
        if set(parameters) != set(expected):
            raise InputError(
                f"the experiment has the parameters {list(parameters)}: expected "
                f"{expected}, the first of which level_parameter({self.max_level}) gives."
            )
        level = parameters[LEVEL]
        if level != Range(LEVEL, 0, self.max_level, is_integer=True):
            raise InputError(
                f"parameter {LEVEL!r} is {level}: expected level_parameter({self.max_level})."
            )
        for target in self.target_parameters:
            parameter, ends = parameters[target.name], (target.lower, target.upper)
            if not _is_plain(parameter) or not np.allclose(
                (parameter.lower, parameter.upper), ends, rtol=1e-12, atol=0.0
            ):
                raise InputError(
                    f"parameter {target.name!r} is {parameter}: expected the range of real numbers "
                    f"from {target.lower:g} to {target.upper:g} that target_parameters has, where "
                    "the centre of a cell is."
                )
        if problem.space.constraints:
            raise UnsupportedInputError(
                f"parameter constraints {problem.space.constraints} are not supported: the cells "
                "of the tree fill a box."
            )
        if isinstance(self.costs, Cost):
            check_cost(problem, self.costs)
        self.measured_cells(problem)

    def check_trial(self, problem: Problem, trial: PastTrial) -> None:
        """Refuse inputs that are no cell."""
        self.cell_of(trial.inputs)

    def measured_cells(self, problem: Problem) -> list[Cell]:
        """Return the cells of trials that have an outcome or are pending.

        Raises:
            InputError: If a trial is no cell of the tree.
        """
        cells = []
        for trial in problem.trials:
            if trial.outcome is None and not trial.is_live:
                continue
            with blaming(trial):
                cells.append(self.cell_of(trial.inputs))
        return cells

    def initial(self, problem: Problem) -> Decision | Stop:
        """Return the next affordable cell, coarsest first: the root, its children, ...

        Cells that were measured before, as past data, are skipped until all were measured. Parts of
        a failed cell come last.
        """
        if problem.fixed:
            raise InputError(
                f"fixed parameters {dict(problem.fixed)}: the initial cells are given. Attach the "
                "trial instead, or fix parameters once the model decides."
            )
        if self._starts_from_prior(problem):
            return self.decide(self._without_data(problem))
        state = self.budget_state(problem, initial=True)

        def is_paid(cell: Cell) -> bool:
            return state.pays(self.cell_costs([cell])[0])

        levels = [
            level
            for level in range(self.max_level + 1)
            if any(map(is_paid, islice(_cells(self.tree, level), _MOST_CELLS)))
        ]
        if not levels:
            return self.unfinished_design(self.exhausted(problem, state), state)
        begun = Counter(self._begun(problem))
        failed = {*self._cells_of(trial.parameters for trial in problem.failed)} - {self.tree.root}
        elsewhere = (cell for i in levels for cell in _cells(self.tree, i, failed))
        cell = next(
            itertools.chain(
                (cell for cell in elsewhere if not begun[cell] and is_paid(cell)),
                (
                    cell
                    for cell in _coarse_first(self.tree, levels)
                    if is_paid(cell) and not _taken(begun, cell)
                ),
            )
        )
        (cost,) = self.cell_costs([cell])
        return self.initial_decision(
            problem,
            self.parameters_of(cell),
            cost,
            state,
            f"it is a cell of level {cell.level}, for the coarsest come first.",
            details={"level": cell.level, "cell": list(cell.index)},
        )

    def _starts_from_prior(self, problem: Problem) -> bool:
        no_design = self.initial_trials == 0 and self.hyperparameters is not None
        return no_design and not problem.constraints and not any(True for _ in self._begun(problem))

    def _without_data(self, problem: Problem) -> Problem:
        """Return a problem whose model is the prior: its one outcome says nothing."""
        options, given = self.model(problem=problem), self.hyperparameters
        assert given is not None
        scale = options.scale_of(problem.space.bounds.new_zeros(0), problem.minimize)
        noise = {"noise": lambda A: torch.full_like(A[..., 0], given.noise_variance)}
        options = replace(options, options={**noise, **options.options}).on(scale)
        A = problem.space.encode([self.parameters_of(self.tree.root)])
        nothing, unknown = A.new_zeros(1), A.new_full((1,), _UNINFORMATIVE)
        model = options.fitted(A, nothing, problem.space.bounds, unknown)
        return replace(problem, fit=lambda: model, find_scale=lambda: scale)

    def _begun(self, problem: Problem) -> Iterator[Cell]:
        """Return the cells of all trials that are not excluded, and of undelivered decisions."""
        rows = [trial.inputs for trial in problem.trials if not trial.is_excluded]
        return self._cells_of([*rows, *problem.earlier_in_batch])

    def _cells_of(self, rows: Iterable[Row]) -> Iterator[Cell]:
        for row in rows:
            with suppress(InputError):  # a trial that never ran may have any parameters
                yield self.cell_of(row)

    def region(self, problem: Problem, state: BudgetState, seed: int) -> Region:
        """Return the affordable cells among the leaves and their children."""
        tree, fixed = self.tree, problem.fixed
        measured = self.measured_cells(problem)
        measured += [self.cell_of(row) for row in problem.earlier_in_batch]
        leaves = tree.leaves(measured)
        every = tree.with_children(leaves)
        if not self.keep_siblings:
            of_paper = tree.published(measured)
            # All cells of the finest level may have been measured: they are measured again.
            leaves, every = of_paper if of_paper[1] else (leaves, every)
        active = [c for c in every if not fixed or fixed.items() <= self.parameters_of(c).items()]
        if not active:
            raise InputError(
                f"the caller fixed {dict(fixed)}, which is none of the cells that may be measured "
                "next: attach the trial instead."
            )
        costs = zip(active, self.cell_costs(active), strict=True)
        cells = tuple(cell for cell, cost in costs if state.pays(cost))
        points = self._queries(problem, cells)
        return Region(points, cells, record={"leaves": len(leaves), "active": len(every)})

    def later_queries(
        self, problem: Problem, region: Region, optima: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the cells that may be measured now, and cells below them that contain the optima.

        A coarse cell alone reveals little about a point; its value is to lead to finer ones.
        """
        tree, active = self.tree, frozenset(region.cells)
        below = {
            cell
            for level in range(1, tree.max_level + 1)
            for point in optima.tolist()
            if not active.isdisjoint(tree.ancestors(cell := tree.cell_around(level, point)))
        }
        cells = [*region.cells, *sorted(below - active)]
        return self._queries(problem, cells), optima.new_tensor(self.cell_costs(cells))

    def _queries(self, problem: Problem, cells: Sequence[Cell]) -> Tensor:
        """Return cells as points of the model's space, ``n x p``."""
        if not cells:
            return problem.space.bounds[:0]
        # Every parameter of a tree has a linear scale: its column is its raw value.
        queries = np.column_stack([[cell.level for cell in cells], self.tree.centres(cells)])
        names = LEVEL, *self.target_names
        columns = [names.index(name) for name in problem.space.columns]
        return torch.from_numpy(queries[:, columns]).to(problem.space.bounds)

    def choose(
        self, problem: Problem, region: Region, information: AcquisitionFunction, state: BudgetState
    ) -> ChosenQuery:
        """Return the affordable cell of most information per unit of cost."""
        nats, score = information_and_score(problem, information, region.starts)
        costs = self.cell_costs(region.cells)
        position, reason = self.tree.decide(region.cells, score.tolist(), state.limit, costs)
        cell = region.cells[position]
        subject = subject_of(information, problem)
        why = f"Of what there is to know about {subject}, {reason}."
        if score is not nats:
            why = (
                f"No cell is informative about {subject}, to rounding; this one of level "
                f"{cell.level} has the largest variance per unit of cost."
            )
        value = float(score[position]) / costs[position]
        details = {"level": cell.level, "cell": list(cell.index), "value": value}
        return Optimum(region.starts[position], float(nats[position])), why, details


@dataclass(frozen=True)
class CellCosts(TrialCosts):
    """Costs of the cells of a resolution tree."""

    method: TreeSearch
    """The method."""

    def at(self, parameters: Row) -> float:
        """Return the cost of measuring a cell, given its parameters.

        Raises:
            InputError: If it is no cell of the tree.
        """
        cell = self.method.cell_of(parameters)
        if self.declared is not None:
            return cost_of(self.declared, parameters)
        return self.method.tree.cost(cell.level)

    def largest(self, problem: Problem) -> float:
        """Return the largest cost of a cell, over at most ``_MOST_CELLS`` of each level."""
        tree = self.method.tree
        cells = (islice(_cells(tree, level), _MOST_CELLS) for level in range(tree.max_level + 1))
        return max(self.method.cell_costs(itertools.chain.from_iterable(cells)))


def _is_plain(parameter: Parameter) -> TypeGuard[Range]:
    """True if a parameter is a range of real numbers on a linear scale."""
    if not isinstance(parameter, Range):
        return False
    return parameter == Range(parameter.name, parameter.lower, parameter.upper)


def _coarse_first(tree: ResolutionTree, levels: Sequence[int]) -> Iterator[Cell]:
    """Yield all cells of some levels in order, and those of the last level repeatedly."""
    for level in itertools.chain(levels, itertools.repeat(levels[-1])):
        yield from _cells(tree, level)


def _cells(
    tree: ResolutionTree, level: int, without: Collection[Cell] = frozenset()
) -> Iterator[Cell]:
    """Yield all cells of a level, except parts of the cells ``without``."""
    if level == 0:
        yield tree.root
        return
    for cell in _cells(tree, level - 1, without):
        if cell not in without:
            yield from tree.children(cell)


def _taken(begun: Counter[Cell], cell: Cell) -> bool:
    """Remove one count of a cell from ``begun``; False if there was none."""
    is_there = begun[cell] > 0
    begun[cell] -= 1
    return is_there
