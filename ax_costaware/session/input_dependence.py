"""Whether inputs left to chance depend on each other as is assumed: pairs and their tests."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.control_sets.chance import RealizedInputs, chances_of, condition_of
from ax_costaware.queries.input_fit import Dependence, dependence_beyond, dependence_of
from ax_costaware.queries.joint import JointEmpirical, JointLaw
from ax_costaware.queries.marginals import RawValue

LEAST_PAIRS = 10
"""Inputs that met in fewer trials are not tested: the tests are good from here on."""


def independence_tests(
    trials: Sequence[RealizedInputs], names: Sequence[str], method: ControlSets
) -> tuple[Dependence, ...]:
    """Tests of the inputs that are assumed to be independent of each other or of what is set.

    Args:
        trials: The trials, by increasing index.
        names: The inputs that they left to chance.
        method: The method.
    """
    controlled = dict.fromkeys(name for trial in trials for name in trial.controlled)
    joint = method.joint
    found = []
    for a, b in combinations(dict.fromkeys((*names, *controlled)), 2):
        if joint is not None and a in joint.names and b in joint.names:
            continue
        count = {n: sum(n in trial.chance for trial in trials) for n in (a, b)}
        pair = (a, b) if count[a] >= count[b] else (b, a)
        found.append(_independence(pair, trials, joint))
    return tuple(test for test in found if test is not None)


def joint_tests(trials: Sequence[RealizedInputs], method: ControlSets) -> tuple[Dependence, ...]:
    """Tests of whether the inputs of the joint law go together as it says."""
    joint = method.joint
    if joint is None:
        return ()
    found = [_jointly(pair, trials, joint) for pair in combinations(joint.names, 2)]
    return tuple(test for test in found if test is not None)


def _independence(
    pair: tuple[str, str], trials: Sequence[RealizedInputs], joint: JointLaw | None
) -> Dependence | None:
    """Test whether the first of a pair depends on the second in the trials that leave it alone.

    In these it has one law whatever becomes of the other, which may be controlled in some. Under a
    joint law it is replaced by how far up it is in its law given what was controlled: else it would
    seem to depend on whatever is controlled together with what moves it.
    """
    first, second = pair
    met: list[tuple[RawValue, RawValue]] = []
    for trial in trials:
        inputs = {**trial.controlled, **trial.chance}
        if first in trial.chance and second in inputs:
            level = inputs[first]
            if joint is not None and first in joint.names:
                level = _level(first, trial, joint, {})
            met.append((level, inputs[second]))
    if len(met) < LEAST_PAIRS or len({b for _, b in met}) == 1:
        return None
    a, b = zip(*met, strict=True)
    return dependence_of(pair, a, b)


def _jointly(
    pair: tuple[str, str], trials: Sequence[RealizedInputs], joint: JointLaw
) -> Dependence | None:
    """Test whether two inputs of a joint law go together as it says.

    How far up the second one is in its law given the first one has nothing to do with the first
    one, if the law is right (Rosenblatt 1952). A ``JointEmpirical`` law may be too smooth for that:
    there the rank correlation is compared with that of its rows, in trials that control neither
    one nor anything that both may depend on.
    """
    a, b = pair
    both = [trial for trial in trials if a in trial.chance and b in trial.chance]
    if isinstance(joint, JointEmpirical):
        both = [trial for trial in both if not condition_of(trial, joint)]
    if len(both) < LEAST_PAIRS:
        return None
    if isinstance(joint, JointEmpirical):
        rows = dict(joint.frame)
        values = [trial.chance[a] for trial in both], [trial.chance[b] for trial in both]
        return dependence_beyond(pair, *values, (rows[a], rows[b]))
    first = [_level(a, trial, joint, {}) for trial in both]
    second = [_level(b, trial, joint, {a: trial.chance[a]}) for trial in both]
    return dependence_of(pair, first, second)


def _level(
    name: str, trial: RealizedInputs, joint: JointLaw, given: dict[str, RawValue]
) -> RawValue:
    """How far up an input is in its law given what was controlled, and what else is ``given``."""
    below, reached = chances_of(name, trial, joint, given)
    return (below + reached) / 2
