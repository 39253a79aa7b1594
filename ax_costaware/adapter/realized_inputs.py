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

from ax.core.experiment import Experiment

from ax_costaware.generators.control_set_settings import ControlSetSettings
from ax_costaware.ledger import outcome_record, with_one_arm
from ax_costaware.queries.joint import JointLaw
from ax_costaware.queries.marginals import Discrete, Learned, Marginal, RawValue


@dataclass(frozen=True)
class RealizedInputs:
    """The inputs of one completed trial."""

    trial_index: int
    """Index of the trial in the experiment."""

    control_set: str
    """Name of its control set."""

    controlled: dict[str, RawValue]
    """Values of what it controlled, as they came out, by name."""

    chance: dict[str, RawValue]
    """Values of what it left to chance, by name; at least one."""


def realized_inputs(
    experiment: Experiment, settings: ControlSetSettings
) -> tuple[RealizedInputs, ...]:
    """The completed trials that recorded an input left to chance, by increasing trial index.

    Raises:
        UserInputError: If a trial's control set is not one of the settings'.
        UnsupportedError: If a trial has several arms.
    """
    found = []
    for index, base_trial in sorted(experiment.trials.items()):
        recorded = outcome_record(base_trial).get("realized") or {}
        if not base_trial.status.is_completed or not recorded:
            continue
        trial = with_one_arm(base_trial)
        control_set = settings.control_set_of(trial)
        planned = {} if trial.arm is None else trial.arm.parameters
        chance = {n: v for n, v in recorded.items() if n not in control_set.parameters}
        if chance:
            inputs = {**planned, **recorded}
            controlled = {n: inputs[n] for n in control_set.parameters if n in inputs}
            found.append(RealizedInputs(index, str(control_set.name), controlled, chance))
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
        name: learned_from(marginal, [t.chance[name] for t in trials if name in t.chance])
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
