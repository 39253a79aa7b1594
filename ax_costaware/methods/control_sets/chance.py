"""What the inputs turned out to be in the trials that left them to chance.

It is read from what ``complete_trial`` recorded, at full precision, so that what is learned from it
is a function of the stored experiment. A trial tells of an input only if its control set leaves
that input to chance: a controlled input that came out differently from plan says nothing of the
law that holds where nobody controls it. A value out of the parameter's bounds counts like any
other. Values are in the parameters' own units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ax_costaware.methods.past import PastTrial
from ax_costaware.queries.joint import JointLaw
from ax_costaware.queries.marginals import Discrete, Empirical, Learned, Marginal, RawValue

if TYPE_CHECKING:
    from ax_costaware.methods.control_sets import ControlSets


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


def chances_of(
    name: str,
    trial: RealizedInputs,
    joint: JointLaw,
    given: Mapping[str, RawValue] | None = None,
) -> tuple[float, float]:
    """Chances of less than what an input was, and of no more, given what its trial controlled.

    Args:
        name: The input, which the trial left to chance.
        trial: The trial.
        joint: The joint law.
        given: Values of other inputs that are given, too.
    """
    return joint.cdf_given(
        name, trial.chance[name], {**condition_of(trial, joint), **(given or {})}
    )


def updated_marginals(
    marginals: Mapping[str, Marginal], trials: Sequence[RealizedInputs]
) -> dict[str, Marginal]:
    """The marginals after ``trials``: each ``Learned`` one updated, the others as they are."""
    return {
        name: learned_from(marginal, values_of(name, trials))
        for name, marginal in marginals.items()
    }


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
