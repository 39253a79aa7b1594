"""Learning from trials with control sets: distributions of uncontrolled inputs, and costs.

Realized inputs are those that ``complete_trial`` recorded, at full precision, so that learning is a
function of the stored experiment. An input is learned from a trial only if its control set does not
control it: a controlled input that deviates from its setting says nothing about the distribution of
the uncontrolled input. Values outside of the parameter's bounds count. Values are in the
parameters' own units.

The expected cost of a control set is an average of reports. If its reports depend on the values
that it sets, it is a ``ControlSetCostModel`` in the model's input space. A declared cost may depend
on the values, too. Costs are in the user's own unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ax_costaware.core.history import PastTrial, blaming, check_complete, check_inputs
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
    """Realized inputs of one completed trial."""

    trial_index: int
    """Index of the trial in the experiment."""

    controlled: dict[str, RawValue]
    """Realized values of the controlled inputs, by name."""

    uncontrolled: dict[str, RawValue]
    """Realized values of the uncontrolled inputs, by name; at least one."""


def realized_inputs(trials: Sequence[PastTrial], method: ControlSets) -> tuple[RealizedInputs, ...]:
    """Return the completed trials that recorded uncontrolled inputs, by increasing trial index.

    Raises:
        InputError: If a trial's control set is not one of the method's.
    """
    found = []
    for trial in trials:
        if not trial.is_completed or not trial.realized:
            continue
        control_set = method.chosen(trial)
        uncontrolled = {
            n: v
            for n, v in trial.realized.items()
            if n not in control_set.parameters and v is not None
        }
        if uncontrolled:
            inputs = trial.inputs
            controlled = {n: inputs[n] for n in control_set.parameters if n in inputs}
            found.append(RealizedInputs(trial.index, controlled, uncontrolled))
    return tuple(found)


def values_of(name: str, trials: Sequence[RealizedInputs]) -> list[RawValue]:
    """Return the realized values of an input in the trials that did not control it."""
    return [trial.uncontrolled[name] for trial in trials if name in trial.uncontrolled]


def condition_of(trial: RealizedInputs, joint: JointLaw) -> dict[str, RawValue]:
    """Return the controlled inputs of a trial that are in a joint distribution."""
    return {name: value for name, value in trial.controlled.items() if name in joint.names}


def conditional_cdf(name: str, trial: RealizedInputs, joint: JointLaw) -> tuple[float, float]:
    """Return ``P(X < x)`` and ``P(X <= x)`` of a realized input given the controlled ones."""
    return joint.cdf_given(name, trial.uncontrolled[name], condition_of(trial, joint))


def learned_from(marginal: Marginal, values: Sequence[RawValue]) -> Marginal:
    """Return a ``Learned`` marginal updated with values; any other marginal as it is.

    A realized value that a ``Discrete`` prior does not have is added with prior probability zero.
    """
    if not isinstance(marginal, Learned):
        return marginal
    prior = marginal.prior
    if isinstance(prior, Discrete):
        new = [value for value in dict.fromkeys(values) if value not in prior.values]
        probabilities = [*prior.probabilities, *(0.0 for _ in new)]
        prior = Discrete([*prior.values, *new], probabilities)
    return replace(marginal, prior=prior).updated(values)


def atoms_of(marginal: Marginal) -> tuple[float | int | str | bool, ...] | None:
    """Return the values of a marginal with finitely many; None for any other."""
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
    """Return the reported costs of trials whose control set has an unknown cost.

    Impossible costs are left out, see ``check_reported_costs`` and
    ``no_more_than_switching_costs``, and costs of trials with a choice that was removed.

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
    """Check that every completed trial of an unknown cost has reported a possible cost.

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
    """Return the indices of trials whose reported cost is at most their switching cost."""
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
    """Yield trials of control sets with an unknown cost, with the set and the switching cost."""
    if not method.learns_costs:
        return
    for trial, change in zip(trials, switching_costs(trials, method), strict=True):
        if trial.never_ran:
            continue
        with blaming(trial):
            control_set = method.chosen(trial)
        if control_set.cost is None:
            yield trial, control_set, change


@dataclass(frozen=True)
class ExpectedCosts:
    """Cost model of the control sets: costs are declared, or learned from reported ones."""

    space: QuerySpace
    """The control sets in the model's space."""

    @cached_property
    def reported(self) -> tuple[dict[int, float], ...]:
        """Reported costs of each control set, in declared order, by trial index."""
        method = self.space.method
        costs = costs_to_learn_from(self.space.problem.trials, method)
        return tuple(costs.get(name, {}) for name in method.names)

    @cached_property
    def ranges(self) -> dict[int, tuple[float, float]]:
        """Least and largest declared cost, by index, of control sets with a cost of values."""
        problem, declared = self.space.problem, self.space.method.declared_costs
        return {
            i: cost_range(problem, cost)
            for i, cost in enumerate(declared)
            if not isinstance(cost, float | None)
        }

    @cached_property
    def averages(self) -> tuple[float | None, ...]:
        """Average expected cost of each control set; None if unknown.

        For a declared cost that depends on the values it is the least one, because values are
        chosen by their cost.
        """
        method = self.space.method
        reported = [list(costs.values()) for costs in self.reported]
        found = list(method.expected_costs(dict(zip(method.names, reported, strict=True))))
        for i, (least, _) in self.ranges.items():
            found[i] = least
        return tuple(found)

    def depends_on_values(self, index: int) -> bool:
        """True if the cost of a control set depends on its values, as declared or as learned."""
        return index in self.ranges or index in self.models

    def log_cost(self, X: Tensor, trial: TrialContext = ANY_TRIAL) -> Tensor:
        """Return the log of the expected cost of ``trial.control_set`` at points ``... x d``.

        An unknown cost counts as one.
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
        """Declared costs that depend on the values, by the index of the control set."""
        costs, space = self.space.method.declared_costs, self.space.problem.space
        return {
            i: DeclaredCost(cost, space)
            for i, cost in enumerate(costs)
            if not isinstance(cost, float | None)
        }

    @cached_property
    def models(self) -> dict[int, ControlSetCostModel]:
        """Learned costs that depend on the values, by the index of the control set."""
        found: dict[int, ControlSetCostModel] = {}
        rule = self.space.method.rule
        if rule is not None and not rule.models_costs:
            return found
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
        """Least expected cost of each control set at the values that were tried."""
        found = list(self.averages)
        for i, model in self.models.items():
            found[i] = float(model.estimate(self._tried(i))[0].min())
        return tuple(found)

    def at(self, index: int, point: Tensor) -> CostEstimate | None:
        """Return the cost of a control set at a point of the model's space, ``d``; or None."""
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
        """Return the controlled values of a control set's trials with a cost, ``n x k``."""
        trials, space = self.space.problem.trials, self.space.space
        # Failed trials count, too: their costs are learned from.
        reported = [trial for trial in trials if trial.index in self.reported[index]]
        check_complete(reported, space)
        names = self.space.method.control_sets[index].parameters
        check_inputs(
            replace(t, parameters={n: t.inputs[n] for n in names}, realized={}) for t in reported
        )
        X = space.encode([trial.inputs for trial in reported])
        return X[:, list(self.space.control_sets[index])].double()


@lru_cache(maxsize=64)
def _fitted(
    X: tuple[tuple[float, ...], ...],
    costs: tuple[float, ...],
    fixed: float,
    bounds: tuple[tuple[float, ...], ...],
) -> ControlSetCostModel:
    """Return the cost model of one control set, cached until it has a new cost."""
    points, limits = (torch.tensor(rows, dtype=torch.double) for rows in (X, bounds))
    return ControlSetCostModel(points, points.new_tensor(costs), fixed=fixed, bounds=limits)
