"""What is learned from trials: of the inputs that they left to chance, and of what they cost.

What the inputs turned out to be is read from what ``complete_trial`` recorded, at full precision,
so that what is learned from it is a function of the stored experiment. A trial tells of an input
only if its control set leaves that input to chance: a controlled input that came out differently
from plan says nothing of the law that holds where nobody controls it. A value out of the
parameter's bounds counts like any other. Values are in the parameters' own units.

Of what trials with control sets are expected to cost, averages need the trials only; where the
reported costs of a control set show that they depend on the values that it sets, a model of them
does better (``ControlSetCostModel``), which takes the model's input space. A declared cost may
depend on them, too. Costs are in the user's own unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ax_costaware.core.history import PastTrial, check_complete, check_inputs
from ax_costaware.core.switching import switching_costs
from ax_costaware.costs import ControlSet
from ax_costaware.costs.cost_model import ANY_TRIAL, TrialContext
from ax_costaware.costs.declared_cost import DeclaredCost
from ax_costaware.exceptions import InputError
from ax_costaware.laws import Discrete, Empirical, JointLaw, Learned, Marginal, RawValue
from ax_costaware.methods.control_sets.rules.rule import CostEstimate
from ax_costaware.methods.costs import cost_range
from ax_costaware.models.control_set_cost import ControlSetCostModel

if TYPE_CHECKING:
    from ax_costaware.methods.control_sets import ControlSets
    from ax_costaware.methods.control_sets.query_space import QuerySpace


@dataclass(frozen=True)
class RealizedInputs:
    """The inputs of one completed trial."""

    trial_index: int
    """Index of the trial in the experiment."""

    controlled: dict[str, RawValue]
    """Values of what it controlled, as they came out, by name."""

    chance: dict[str, RawValue]
    """Values of what it left to chance, by name; at least one."""


def realized_inputs(trials: Sequence[PastTrial], method: ControlSets) -> tuple[RealizedInputs, ...]:
    """The completed trials that recorded an input left to chance, by increasing trial index.

    Raises:
        InputError: If a trial's control set is not one of the method's.
    """
    found = []
    for trial in trials:
        if not trial.is_completed or not trial.realized:
            continue
        control_set = method.control_set_of(trial)
        chance = {
            n: v
            for n, v in trial.realized.items()
            if n not in control_set.parameters and v is not None
        }
        if chance:
            inputs = trial.inputs
            controlled = {n: inputs[n] for n in control_set.parameters if n in inputs}
            found.append(RealizedInputs(trial.index, controlled, chance))
    return tuple(found)


def values_of(name: str, trials: Sequence[RealizedInputs]) -> list[RawValue]:
    """What an input was in the trials that left it to chance."""
    return [trial.chance[name] for trial in trials if name in trial.chance]


def condition_of(trial: RealizedInputs, joint: JointLaw) -> dict[str, RawValue]:
    """What a trial controlled of the inputs of a joint law."""
    return {name: value for name, value in trial.controlled.items() if name in joint.names}


def chances_of(name: str, trial: RealizedInputs, joint: JointLaw) -> tuple[float, float]:
    """Probabilities of less than what an input was, and of no more, given what was controlled."""
    return joint.cdf_given(name, trial.chance[name], condition_of(trial, joint))


def learned_from(marginal: Marginal, values: Sequence[RawValue]) -> Marginal:
    """``marginal`` after ``values``, if it is ``Learned``; else as it is.

    A value that a ``Discrete`` prior does not have happened nevertheless: it is given the prior
    probability zero, and counts from then on.
    """
    if not isinstance(marginal, Learned):
        return marginal
    prior = marginal.prior
    if isinstance(prior, Discrete):
        new = [value for value in dict.fromkeys(values) if value not in prior.values]
        chances = [*prior.probabilities, *(0.0 for _ in new)]
        prior = Discrete([*prior.values, *new], chances)
    return replace(marginal, prior=prior).updated(values)


def atoms_of(marginal: Marginal) -> tuple[float | int | str | bool, ...] | None:
    """The values that ``marginal`` can take, if they are finitely many; None otherwise."""
    if isinstance(marginal, Discrete):
        return tuple(marginal.values)
    if isinstance(marginal, Empirical):
        return tuple(sorted(set(marginal.samples)))
    if isinstance(marginal, Learned):
        atoms = atoms_of(marginal.prior)
        return None if atoms is None else tuple(dict.fromkeys((*atoms, *marginal.samples)))
    return None


def costs_to_learn_from(
    trials: Sequence[PastTrial], method: ControlSets
) -> dict[str, dict[int, float]]:
    """Reported costs of trials whose control set has an unknown cost.

    Costs that no trial of its control set can have are left out; see ``check_reported_costs`` and
    ``no_more_than_switching_costs``. So are those of trials with a value that is not offered any
    more.

    Returns:
        By the name of each such control set, costs by trial index, in the order of the indices.
    """
    found: dict[str, dict[int, float]] = {
        str(s.name): {} for s in method.control_sets if s.cost is None
    }
    for trial, control_set, change in _of_unknown_cost(trials, method):
        cost = None if trial.reported_cost is None else trial.reported_cost - change
        if cost is not None and cost > control_set.fixed_cost and not trial.has_lost_value:
            found[str(control_set.name)][trial.index] = cost
    return found


def check_reported_costs(trials: Sequence[PastTrial], method: ControlSets) -> None:
    """Check that every completed trial of an unknown cost has reported one that it can have.

    Raises:
        InputError: If a completed trial has no cost, or one that is not larger than the known part
            of its control set's.
    """
    missing: list[int] = []
    for trial, control_set, _ in _of_unknown_cost(trials, method):
        if trial.reported_cost is None:
            missing += [trial.index] if trial.is_completed else []
        elif not trial.reported_cost > control_set.fixed_cost:
            raise InputError(
                f"trial {trial.index} has the reported cost {trial.reported_cost:g}: expected more "
                f"than fixed_cost={control_set.fixed_cost:g} of its control set "
                f"{control_set.name!r}."
            )
    if missing:
        raise InputError(
            f"trials {missing} were completed without a cost, and the costs of their control sets "
            "are learned from what trials cost. Report it, for example with "
            f"ax_costaware.report_cost(client, {missing[0]}, cost=...), and for others with "
            "ax_costaware.complete_trial(..., cost=...)."
        )


def no_more_than_switching_costs(trials: Sequence[PastTrial], method: ControlSets) -> list[int]:
    """Indices of trials that were reported to cost no more than it costs to switch to them."""
    return [
        trial.index
        for trial, control_set, change in _of_unknown_cost(trials, method)
        if (cost := trial.reported_cost) is not None
        and cost > control_set.fixed_cost
        and cost - change <= control_set.fixed_cost
    ]


def _of_unknown_cost(
    trials: Sequence[PastTrial], method: ControlSets
) -> Iterator[tuple[PastTrial, ControlSet, float]]:
    """The trials of control sets with an unknown cost, with these and their switching costs."""
    if not method.learns_costs:
        return
    for trial, change in zip(trials, switching_costs(trials, method), strict=True):
        if trial.never_ran:
            continue
        control_set = method.control_set_of(trial)
        if control_set.cost is None:
            yield trial, control_set, change


@dataclass(frozen=True)
class ExpectedCosts:
    """Cost model of the control sets: costs are declared, or learned from reported ones."""

    space: QuerySpace
    """The control sets in the model's space."""

    @cached_property
    def reported(self) -> tuple[dict[int, float], ...]:
        """Of each control set, in declared order, the costs to learn from by trial index."""
        method = self.space.method
        costs = costs_to_learn_from(self.space.problem.trials, method)
        return tuple(costs.get(name, {}) for name in method.names)

    @cached_property
    def ranges(self) -> dict[int, tuple[float, float]]:
        """Of those whose declared cost depends on their values, the least and the largest one."""
        problem, declared = self.space.problem, self.space.method.declared_costs
        return {
            i: cost_range(problem, cost)
            for i, cost in enumerate(declared)
            if not isinstance(cost, float | None)
        }

    @cached_property
    def averages(self) -> tuple[float | None, ...]:
        """Expected cost of each on average; None if nothing is known.

        Of a declared cost that depends on the values it is the least one, for values are chosen by
        it.
        """
        method = self.space.method
        reported = [list(costs.values()) for costs in self.reported]
        found = list(method.expected_costs(dict(zip(method.names, reported, strict=True))))
        for i, (least, _) in self.ranges.items():
            found[i] = least
        return tuple(found)

    def depends_on_values(self, index: int) -> bool:
        """Return whether the cost of one depends on its values, as declared or as learned."""
        return index in self.ranges or index in self.models

    def log_cost(self, X: Tensor, trial: TrialContext = ANY_TRIAL) -> Tensor:
        """Logarithm of the expected cost of trials of ``trial.control_set`` at points ``... x d``.

        A cost of which nothing is known counts as one.
        """
        assert trial.control_set is not None
        index = self.space.method.names.index(trial.control_set.name)
        if index in self.declared:
            return self.declared[index].log_cost(X, trial)
        if index in self.models:
            return (
                self.models[index].estimate(X[..., list(self.space.control_sets[index])])[0].log()
            )
        average = self.averages[index]
        return X.new_full(X.shape[:-1], 0.0 if average is None else math.log(average))

    @cached_property
    def declared(self) -> dict[int, DeclaredCost]:
        """Of those whose declared cost depends on their values, the cost, by index."""
        costs, space = self.space.method.declared_costs, self.space.problem.space
        return {
            i: DeclaredCost(cost, space)
            for i, cost in enumerate(costs)
            if not isinstance(cost, float | None)
        }

    @cached_property
    def models(self) -> dict[int, ControlSetCostModel]:
        """Of those whose costs depend on their values, the model, by index."""
        found: dict[int, ControlSetCostModel] = {}
        for i, columns in enumerate(self.space.control_sets):
            if self.reported[i] and columns:
                bounds = self.space.space.bounds[:, list(columns)]
                model = _fitted(
                    tuple(map(tuple, self._tried(i).tolist())),
                    tuple(self.reported[i].values()),
                    self.space.method.control_sets[i].fixed_cost,
                    tuple(map(tuple, bounds.tolist())),
                )
                if model.kind != "constant":
                    found[i] = model
        return found

    @cached_property
    def least(self) -> tuple[float | None, ...]:
        """The least that each is expected to cost at the values that were tried."""
        found = list(self.averages)
        for i, model in self.models.items():
            found[i] = float(model.estimate(self._tried(i))[0].min())
        return tuple(found)

    def at(self, index: int, point: Tensor) -> CostEstimate | None:
        """What a trial of one costs at a point of the model's space, ``d``; None if unknown."""
        average, chosen = self.averages[index], self.space.method.control_sets[index]
        row = self.space.controlled(point, chosen.parameters) if index in self.declared else {}
        cost = self.space.method.cost_in(chosen, row)
        if cost is not None:
            return CostEstimate(cost, 0.0)
        if index in self.models:
            x = point.detach()[list(self.space.control_sets[index])].unsqueeze(0).double()
            mean, error = self.models[index].estimate(x)
            return CostEstimate(float(mean), None if error is None else float(error))
        return None if average is None else CostEstimate(average, None)

    def _tried(self, index: int) -> Tensor:
        """Controlled values of the trials of one that reported a cost, ``n x k``."""
        trials, space = self.space.problem.trials, self.space.space
        # What it cost is learned from where it failed, too.
        told = [trial for trial in trials if trial.index in self.reported[index]]
        check_complete(told, space)
        names = self.space.method.control_sets[index].parameters
        check_inputs(
            replace(t, parameters={n: t.inputs[n] for n in names}, realized={}) for t in told
        )
        X = space.encode([trial.inputs for trial in told])
        return X[:, list(self.space.control_sets[index])].double()


@lru_cache(maxsize=64)
def _fitted(
    X: tuple[tuple[float, ...], ...],
    costs: tuple[float, ...],
    fixed: float,
    bounds: tuple[tuple[float, ...], ...],
) -> ControlSetCostModel:
    """The model of one control set; of those that have no new cost it need not be fitted again."""
    points, limits = (torch.tensor(rows, dtype=torch.double) for rows in (X, bounds))
    return ControlSetCostModel(points, points.new_tensor(costs), fixed=fixed, bounds=limits)
