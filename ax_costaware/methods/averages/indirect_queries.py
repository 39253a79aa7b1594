"""The indirect-query method: the query whose answer is most informative about the best point.

Zhang et al. 2024, "Indirect Query Bayesian Optimization with Integrated Feedback".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from torch import Tensor

from ax_costaware.acquisition.latent_confidence import LatentUpperConfidenceBound
from ax_costaware.acquisition.optimize import Optimum, maximize
from ax_costaware.acquisition.optimize import Region as SearchRegion
from ax_costaware.argument_checks import (
    instance_of,
    sequence_of,
    set_fields,
)
from ax_costaware.core.account import BudgetState
from ax_costaware.core.history import PastTrial, blaming
from ax_costaware.core.method import Omitted
from ax_costaware.core.problem import Decision, Problem, Stop
from ax_costaware.core.switching import keeping_settings, next_cost
from ax_costaware.core.traits import CONTROL_SET, Traits
from ax_costaware.costs.cost_model import CostModel
from ax_costaware.exceptions import InputError
from ax_costaware.laws import (
    Conditional,
    FiniteConditional,
    GaussianConditional,
    PairsConditional,
    RegressedConditional,
    UniformBoxConditional,
)
from ax_costaware.methods.averages import AverageQueries, ChosenQuery, Region
from ax_costaware.methods.averages.information import (
    Information,
    LatentUCB,
    information_and_score,
    subject_of,
)
from ax_costaware.methods.averages.law import DecodedConditional, policy_indices, policy_key
from ax_costaware.methods.costed import CostArgument, CostedMethod
from ax_costaware.methods.costs import MOST_VALUES, center_and_corners
from ax_costaware.space.parameters import Choice, FreeParameter, Range, Row

NUM_STARTS = 512
"""Default number of quasi-random queries from which the searches start."""

NUM_RESTARTS = 8
"""Default number of local searches for a query."""

_NUM_KEEPING = 64
"""Quasi-random queries for each combination of settings kept from the previous one."""

_NUM_CHECKED = 128
"""Queries, besides the corners of the query space, at which a conditional is checked."""

_MOST_DRAWS = 256
"""Quasi-random queries to try before the initial design gives up."""


@dataclass(frozen=True, kw_only=True)
class IndirectQueries(AverageQueries, CostedMethod):
    """Entropy search over queries that are answered by averages.

    Raises:
        InputError: On construction, when a field has a value that the method cannot use.
    """

    factory: ClassVar[str] = "indirect_query_strategy"

    conditional: Conditional = field(kw_only=False)
    """Distribution of a latent point given a query: ``GaussianConditional``,
    ``UniformBoxConditional``, ``FiniteConditional`` for policies over arms, or, learned from pairs
    of points and queries, ``RegressedConditional`` or ``LearnedConditional``; ``add_pairs`` adds
    pairs while the experiment runs. Missing bounds are those of ``target_parameters``. For a choice
    without an order, a column of X has the position of the value. Only points of a
    ``FiniteConditional`` are recommended."""

    cost: CostArgument = 1.0
    """Cost of a query, in a unit of your own: a number; a value object such as
    ``AffineCost({"patients": 2.5})`` by the names of the experiment's parameters, or a function of
    the parameterization; the name of the metric in which the cost of each query is reported, from
    which it is learned; or a ``SwitchingCost`` or ``BatchCost`` on top of one of these. Queries are
    compared by information per unit of cost."""

    acquisition: Information | LatentUCB = "joint_entropy"

    query_parameters: Sequence[str] | None = None
    """Names of the experiment's parameters in the order of the conditional's query columns; None:
    in the experiment's own order."""

    def __post_init__(self) -> None:
        super().__post_init__()
        classes = (
            "GaussianConditional, UniformBoxConditional, FiniteConditional, "
            "RegressedConditional or LearnedConditional"
        )
        instance_of(self.conditional, "conditional", Conditional, f"one such as {classes}")
        if isinstance(self.acquisition, LatentUCB) and not isinstance(
            self.conditional, GaussianConditional | UniformBoxConditional
        ):
            raise InputError(
                f"acquisition={self.acquisition!r} with conditional={self.conditional!r}: expected "
                "a GaussianConditional or UniformBoxConditional, whose queries are about a point."
            )
        d, columns = len(self.target_parameters), self.conditional.num_latent_columns
        if columns is not None and columns != d and not _counts_arms(self.conditional):
            raise InputError(
                f"target_parameters has {list(self.target_names)}, and conditional="
                f"{self.conditional!r} is about points of {columns} columns: expected as many."
            )
        choices = [p for p in self.target_parameters if isinstance(p, Choice)]
        unordered = [p.name for p in choices if not (p.is_ordered or p.is_ranked)]
        if isinstance(self.conditional, RegressedConditional) and unordered:
            raise InputError(
                f"conditional={self.conditional!r} with the target_parameters {unordered}, whose "
                "values have no order: expected numbers, about which points scatter; a "
                "LearnedConditional takes any."
            )
        _ = self.law
        named = self.conditional.query_names
        if self.query_parameters is not None:
            set_fields(self, query_parameters=self._checked_names(self.query_parameters))
            if named not in (None, self.query_parameters):
                raise InputError(
                    f"query_parameters={self.query_parameters!r}: A of the conditional has the "
                    f"columns {named}; expected these, or None."
                )
        set_fields(self, query_parameters=named or self.query_parameters)

    @property
    def traits(self) -> Traits:
        """The design repeats queries where there are few, since answers are noisy."""
        return replace(super().traits, label="IndirectQueries", repeats_design=True)

    @cached_property
    def law(self) -> Conditional:
        """The conditional within the bounds of the points, with the values of numbered arms."""
        conditional = self.conditional
        if _counts_arms(conditional):
            conditional = _with_values(conditional, self.target_parameters)
        try:
            if isinstance(conditional, PairsConditional):
                conditional = conditional.ordered(self.target_names)
            return conditional.within(*self.target_bounds)
        except InputError as error:
            raise InputError(f"conditional={self.conditional!r}: {error}") from error

    def query_names(self, parameters: Iterable[str]) -> tuple[str, ...]:
        """Return the parameters of the query in the user's order, or in the experiment's.

        Those of the resolution come last.
        """
        given = self.query_parameters
        return self.conditional.query_order(parameters if given is None else given)

    def check(self, problem: Problem) -> None:
        """Refuse parameters, a cost or trials that do not fit the conditional."""
        self._check_names(problem)
        super().check(problem)
        law = self.decoded_law(problem)
        if isinstance(law.conditional, FiniteConditional):
            self._check_policies(problem, law.names[0], law.conditional)
        elif not isinstance(law.conditional, PairsConditional):
            self._check_support(problem, law)
        far = self.omitted(problem).trials
        for trial in problem.trials:
            if trial.outcome is None or trial.index in far:
                continue
            with blaming(trial):
                _check_query(law, trial.inputs)

    def check_trial(self, problem: Problem, trial: PastTrial) -> None:
        """Refuse inputs for which the conditional has no distribution."""
        _check_query(self.decoded_law(problem), trial.inputs)

    def omitted(self, problem: Problem) -> Omitted:
        """Return trials without pairs nearby, and reported costs that the model leaves out.

        If fitted length-scales have become shorter, pairs may no longer be near. The trials are
        learned from again once there are pairs nearby.
        """
        law, costs = self.decoded_law(problem), super().omitted(problem)
        if not isinstance(law.conditional, PairsConditional):
            return costs
        answered = [trial for trial in problem.trials if trial.outcome is not None]
        near = law.supported(problem.space.encode([trial.inputs for trial in answered])).tolist()
        far = [trial.index for trial, is_near in zip(answered, near, strict=True) if not is_near]
        said = (
            f"The outcomes of trials {far} are left out until there are pairs near them: by the "
            "pairs that there are now nothing is known of the law of their queries."
        )
        return Omitted(far, [*costs.sentences, said] if far else costs.sentences)

    def initial(self, problem: Problem) -> Decision | Stop | None:
        """Return the next affordable quasi-random query that the conditional supports."""
        law = self.decoded_law(problem)

        def answered() -> Row:
            for _ in range(_MOST_DRAWS):
                row = problem.draw()
                if bool(law.supported(problem.space.encode([row]))):
                    return row
            raise _NoAnswer

        try:
            return super().initial(replace(problem, draw=answered))
        except _NoAnswer:
            return Stop(
                f"None of {_MOST_DRAWS} quasi-random queries is near the pairs of conditional="
                f"{law.conditional!r}: add pairs there, or make the search space smaller."
            )

    def region(self, problem: Problem, state: BudgetState, seed: int) -> Region:
        """Return affordable quasi-random queries that the conditional supports."""
        starts = problem.space.sobol_points(self.raw_samples or NUM_STARTS, seed, problem.held)
        given = f" with {dict(problem.fixed)} fixed" if problem.fixed else ""
        if not len(starts):
            raise InputError(
                f"no query among {NUM_STARTS} of the search space{given} met the parameter "
                "constraints: loosen them."
            )
        law = self.decoded_law(problem)
        supported = law.supported(starts)
        if not bool(supported.any()):
            raise InputError(
                f"conditional={self.law!r} answers for no query of the search "
                f"space{given}: add pairs there."
            )
        keeping = keeping_settings(problem, self, _NUM_KEEPING)
        starts = torch.cat([starts, *(points for _, points in keeping)])
        starts = starts[law.supported(starts)]
        cost = self.trial_costs.model(problem)
        if state.limit is not None:
            payable = self._costs(problem, cost)
            starts = _within(starts, payable, state.limit)
            if not len(starts):  # the cheapest query is at a corner
                corners = problem.space.encode([*center_and_corners(problem)])
                starts = _within(corners[law.supported(corners)], payable, state.limit)
        record = {}
        if isinstance(law.conditional, PairsConditional):
            record = {"pairs": law.conditional.num_pairs}
        return Region(starts, record=record, cost=cost)

    def later_queries(
        self, problem: Problem, region: Region, optima: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the queries that may be asked now."""
        with torch.no_grad():
            return region.starts, self._costs(problem, region.cost)(region.starts)

    def choose(
        self, problem: Problem, region: Region, information: AcquisitionFunction, state: BudgetState
    ) -> ChosenQuery:
        """Return the affordable query of most information per unit of cost."""
        costs_of = self._costs(problem, region.cost, is_compared=True)
        is_bound = isinstance(information, LatentUpperConfidenceBound)
        if is_bound:
            free = {*self.law.resolution_parameters} & {*problem.space.columns} - {*problem.fixed}
            if free:
                raise InputError(
                    f"acquisition={self.acquisition!r} chooses no resolution: expected "
                    f"fixed_parameters with {sorted(free)}."
                )

        def value(A: Tensor, _: Tensor) -> Tensor:
            found: Tensor = information(A.unsqueeze(-2))
            return found if is_bound else found / costs_of(A)

        kept = keeping_settings(problem, self, _NUM_KEEPING)
        searches = [({}, region.starts), *(kept if problem.space.elimination is None else ())]
        optima = maximize(
            value,
            [
                replace(SearchRegion.of(problem.space, {**problem.held, **held}), candidates=None)
                for held, _ in searches
            ],
            [starts for _, starts in searches],
            num_restarts=self.num_restarts or NUM_RESTARTS,
            num_polished=None,
        )
        ends = torch.cat([each.point for each in optima])
        ends = ends[self.decoded_law(problem).supported(ends)]
        if state.limit is not None:
            ends = _within(ends, self._costs(problem, region.cost), state.limit)
        found = torch.cat([ends, region.starts])
        if isinstance(information, LatentUpperConfidenceBound):
            with torch.no_grad():
                values = information(found.unsqueeze(-2))
            best = int(values.argmax())
            bound = problem.scale.from_model(float(values[best]))
            why = (
                "It is about the point with the best confidence bound of the objective, "
                f"{bound:.6g} with beta {information.beta:.4g}."
            )
            record = {"upper_confidence_bound": bound, "beta": information.beta}
            return Optimum(found[best], float(values[best])), why, record
        with torch.no_grad():
            all_nats, score = information_and_score(problem, information, found)
            costs = costs_of(found)
        best = int((score / costs).argmax())
        nats, cost = float(all_nats[best]), float(costs[best])
        priced = not isinstance(self.cost, float) or self.has_own_cost
        why = (
            "It is the query of the most information about "
            f"{subject_of(information, problem)}"
            f"{', per unit of cost' if priced else ''}: "
            f"{nats:.4g} nats{f' at a cost of {cost:.4g}' if priced else ''}."
        )
        return Optimum(found[best], nats), why, {}

    def _costs(
        self, problem: Problem, cost: CostModel | None, is_compared: bool = False
    ) -> Callable[[Tensor], Tensor]:
        """Return the costs of the next query as a function of points, see ``next_cost``."""
        log_cost = next_cost(self, problem, cost, is_compared=is_compared).log_cost
        return lambda A: log_cost(A).exp()

    def _checked_names(self, names: Any) -> tuple[str, ...]:
        count = self.law.num_query_columns
        expected = f"the names of {count} parameters of the experiment, each once"
        found = sequence_of(names, "query_parameters", expected)
        are_names = all(isinstance(name, str) for name in found)
        if not are_names or len(set(found)) < len(found) or len(found) != count:
            raise InputError(f"query_parameters={names!r}: expected {expected}.")
        return found

    def _check_names(self, problem: Problem) -> None:
        parameters, columns = problem.space.parameters, self.law.num_query_columns
        known, names = list(parameters), self.query_names(parameters)
        if CONTROL_SET in known:
            raise InputError(
                f"the experiment has a parameter {CONTROL_SET!r}, a name that is kept for the "
                "method of control sets: expected another name."
            )
        if not problem.space.columns:
            raise InputError(
                f"the experiment has the parameters {known}, none of which can be chosen: expected "
                "a range or choice parameter."
            )
        if set(names) != set(known):
            raise InputError(
                f"query_parameters={list(names)}, and the experiment has the parameters {known}: "
                "expected just these, in the order of the conditional's query columns."
            )
        if len(names) != columns:
            raise InputError(
                f"the experiment has the parameters {known}, and conditional={self.conditional!r} "
                f"takes queries of {columns} columns: expected as many."
            )
        if isinstance(self.conditional, FiniteConditional):
            return
        for name in names:
            if not parameters[name].is_numeric:
                raise InputError(
                    f"parameter {name!r} has values that are no numbers, and conditional="
                    f"{self.conditional!r} takes numbers: expected a FiniteConditional, or numeric "
                    "parameters."
                )

    def _check_policies(self, problem: Problem, name: str, law: FiniteConditional) -> None:
        """Refuse a parameter with values that stand for no policy."""
        values = problem.space.parameters[name].values_up_to(MOST_VALUES)
        index = policy_indices(law)
        if values is None or any(
            isinstance(value, bool) or policy_key(value) not in index for value in values
        ):
            shown = "a continuum of values" if values is None else f"the values {list(values)}"
            raise InputError(
                f"parameter {name!r} has {shown}, and conditional={self.conditional!r} has the "
                f"queries {list(index)}: expected a choice among these."
            )

    def _check_support(self, problem: Problem, law: DecodedConditional) -> None:
        """Refuse a conditional that leaves the bounds of the points without ``outside``."""
        space = problem.space
        rows = [*center_and_corners(problem), *filter(space.meets, space.sobol_rows(_NUM_CHECKED))]
        try:
            law.check_rows(rows)
        except InputError as error:
            raise InputError(
                f"conditional={self.conditional!r} does not answer for all of the experiment's "
                f"search space, or not within the bounds of target_parameters: {error} Make the "
                "search space smaller, or say what happens to points outside of the bounds: "
                "outside='clip' moves them to the bounds, outside='keep' says that the objective "
                "exists there, too."
            ) from error
        law.check_answers(rows[:2], len(self.target_parameters))


def _within(points: Tensor, costs: Callable[[Tensor], Tensor], limit: float) -> Tensor:
    """Return the queries of the model's space that cost at most ``limit``."""
    with torch.no_grad():
        return points[costs(points) <= limit]


def _check_query(law: DecodedConditional, row: Row) -> None:
    try:
        law.check_rows([row])
    except InputError as error:
        raise InputError(f"{row} is no query of the conditional: {error}") from error


class _NoAnswer(Exception):
    """The conditional supports none of many quasi-random queries."""


def _counts_arms(conditional: Conditional) -> bool:
    return isinstance(conditional, FiniteConditional) and conditional.points is None


def _with_values(conditional: Conditional, parameters: tuple[FreeParameter, ...]) -> Conditional:
    """Return a conditional over arms with the values of one parameter as points."""
    assert isinstance(conditional, FiniteConditional)
    (num_arms,) = {len(row) for row in conditional.policies}
    first = parameters[0]
    if len(parameters) != 1 or first.grid is None or len(first.grid) != num_arms:
        raise InputError(
            f"target_parameters has {[p.name for p in parameters]}, and conditional="
            f"{conditional!r} has probabilities of {num_arms} arms and no points: expected one "
            "parameter with as many values, in the order of the probabilities, or the points."
        )
    if not (isinstance(first, Range) or first.is_ordered):
        return conditional
    return replace(conditional, points=tuple((value,) for value in first.grid))
