"""Tests of the uncontrolled inputs against their assumed distributions: ``input_fit``.

Decisions are expectations over these distributions (Tay et al. 2023), so a wrong one misleads all
of them. There is one test per input, see ``ax_costaware.laws.input_fit``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import pandas as pd
import torch

from ax_costaware.argument_checks import integer_at_least, number_between_zero_and_one
from ax_costaware.ax_bridge.client import SessionClient, holding_lock, open_session
from ax_costaware.ax_bridge.node import method_of_class
from ax_costaware.ax_bridge.records import past_trials
from ax_costaware.core.history import PastTrial
from ax_costaware.display import display_number
from ax_costaware.laws import Discrete, JointEmpirical, Learned, Marginal, RawValue
from ax_costaware.laws.input_fit import (
    InputFit,
    conditional_fit_of,
    fit_of,
    rejected,
)
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.control_sets.learned import (
    RealizedInputs,
    condition_of,
    conditional_cdf,
    learned_from,
    realized_inputs,
    values_of,
)

NO_INPUTS = "No completed trial has an uncontrolled input yet."


@dataclass(frozen=True)
class InputFitReport:
    """Tests of the uncontrolled inputs against their assumed distributions."""

    fits: tuple[InputFit, ...]
    """One test for each input that was ever uncontrolled, in the order of the parameters."""

    laws: dict[str, Marginal]
    """Current distribution of each of these inputs, by name: a ``Learned`` one as fitted to all
    data, the marginal of a joint one."""

    significance: float
    """Probability of any false alarm among all tests (Holm 1979)."""

    last: int | None = None
    """Number of most recent trials that were tested; None for all."""

    @property
    def disagreeing(self) -> tuple[str, ...]:
        """Inputs that do not follow their assumed distributions."""
        return tuple(fit.name for fit in self.fits if fit in self._rejected)

    @property
    def agrees(self) -> bool:
        """True if no test rejects."""
        return not self._rejected

    @property
    def verdict(self) -> str:
        """Summary of all tests, in words."""
        if not self.fits:
            return NO_INPUTS
        if self.disagreeing:
            names = _listed(self.disagreeing)
            return f"The inputs disagree with their distributions: {names} not as assumed."
        return "The inputs agree with their distributions."

    def to_frame(self) -> pd.DataFrame:
        """Return the tests as a table with a row per input.

        The columns are those of ``InputFit``, and ``agrees``.
        """
        columns = [field.name for field in fields(InputFit)]
        frame = pd.DataFrame(list(self.fits), columns=columns)
        return frame.assign(agrees=[fit not in self._rejected for fit in self.fits])

    def __str__(self) -> str:
        lines = [self.verdict]
        for fit in self.fits:
            mark = "!" if fit in self._rejected else " "
            lines.append(
                f"{mark} {fit.name}: {fit.n} trial{'' if fit.n == 1 else 's'}, "
                f"{_moments(fit)}p = {fit.p_value:.2g} ({fit.test})"
            )
        return "\n".join(lines)

    @cached_property
    def _rejected(self) -> list[InputFit]:
        """Tests that reject."""
        verdicts = rejected([fit.p_value for fit in self.fits], self.significance)
        return [fit for fit, no in zip(self.fits, verdicts, strict=True) if no]


@holding_lock
def input_fit(
    client: SessionClient, last: int | None = None, significance: float = 0.01
) -> InputFitReport:
    """Test the uncontrolled inputs against their assumed distributions.

    The test uses completed trials whose realized inputs were recorded, and of each the inputs that
    it did not control. An input of a joint distribution is tested given the values that its trial
    controlled. An input with a ``Learned`` distribution is tested in each trial against the
    distribution that was learned before it. So a wrong prior counts as long as it has weight, and
    drift always counts.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.
        last: Number of the most recent trials to test, to detect drift; None for all trials.
        significance: Probability, in ``(0, 1)``, of any false alarm among all tests of one call.
            Every further call has the same probability again.

    Raises:
        UserInputError: If the strategy is not one of ``control_set_strategy``, ``last`` is not an
            integer >= 1, or ``significance`` is outside ``(0, 1)``.
    """
    session = open_session(client)
    method = method_of_class(session.strategy, ControlSets)
    level = number_between_zero_and_one(significance, "significance")
    earlier, recent = realized_before_and_since(
        past_trials(session.experiment, method), method, last
    )
    uncontrolled = {name for trial in recent for name in trial.uncontrolled} & method.laws.keys()
    names = [name for name in session.experiment.search_space.parameters if name in uncontrolled]
    trials = (*earlier, *recent)
    laws = {name: learned_from(method.laws[name], values_of(name, trials)) for name in names}
    return InputFitReport(
        fits=tuple(_fit(name, earlier, recent, method) for name in names),
        laws=laws,
        significance=level,
        last=last,
    )


def realized_before_and_since(
    trials: Sequence[PastTrial], method: ControlSets, last: int | None
) -> tuple[tuple[RealizedInputs, ...], tuple[RealizedInputs, ...]]:
    """Return the trials with uncontrolled inputs: the earlier ones, and the last, tested ones.

    Raises:
        InputError: If ``last`` is neither None nor an integer >= 1.
    """
    if last is not None:
        integer_at_least(last, 1, "last")
    found = realized_inputs(trials, method)
    first = 0 if last is None else max(len(found) - last, 0)
    return found[:first], found[first:]


def successive_laws(
    law: Learned, before: Sequence[RawValue], values: Sequence[RawValue]
) -> list[Learned]:
    """Return a learned distribution before each of ``values``; the first one knows ``before``."""
    known = learned_from(law, [*before, *values])  # knows values that the prior lacks
    assert isinstance(known, Learned)
    past = [*law.samples, *before]
    return [replace(known, samples=(*past, *values[:i])) for i in range(len(values))]


def _fit(
    name: str,
    earlier: Sequence[RealizedInputs],
    recent: Sequence[RealizedInputs],
    method: ControlSets,
) -> InputFit:
    values = values_of(name, recent)
    law, joint, seed = method.laws[name], method.joint, method.seed
    if joint is not None and name in joint.names:
        mine = [trial for trial in recent if name in trial.uncontrolled]
        bounds = [conditional_cdf(name, trial, joint) for trial in mine]
        size = joint.num_rows if isinstance(joint, JointEmpirical) else None
        fit = conditional_fit_of(name, values, bounds, law, seed, size)
        if not any(condition_of(trial, joint) for trial in mine):
            return fit
        test = f"{fit.test}, given the controlled inputs"
        return replace(fit, test=test, assumed_mean=None, assumed_std=None)
    if isinstance(law, Learned):
        laws = successive_laws(law, values_of(name, earlier), values)
        bounds = [_bounds(then, value) for then, value in zip(laws, values, strict=True)]
        fit = conditional_fit_of(name, values, bounds, law, seed)
        test = f"{fit.test}, against the distribution learned before each trial"
        mean, std = _averaged_moments(laws)
        return replace(fit, test=test, assumed_mean=mean, assumed_std=std)
    return fit_of(name, values, law, seed)


def _averaged_moments(laws: Sequence[Learned]) -> tuple[float | None, float | None]:
    """Return mean and standard deviation of an equal mixture of distributions."""
    if not laws[0].is_numeric:
        return None, None
    means = np.array([law.expectation for law in laws])
    variance = np.mean([law.variance for law in laws]) + means.var()
    return float(means.mean()), float(variance**0.5)


def _bounds(law: Learned, value: RawValue) -> tuple[float, float]:
    """Return the probabilities ``P(X < value)`` and ``P(X <= value)``."""
    prior = law.prior
    is_place = isinstance(prior, Discrete) and not prior.is_numeric
    node = prior.values.index(value) if is_place else float(value)  # type: ignore[attr-defined]
    ends = torch.tensor([np.nextafter(node, -np.inf), node], dtype=torch.double)
    below, reached = law.cdf(ends).tolist()
    return below, reached


def _moments(fit: InputFit) -> str:
    text = ""
    for what, realised, assumed in (
        ("mean", fit.realised_mean, fit.assumed_mean),
        ("standard deviation", fit.realised_std, fit.assumed_std),
    ):
        if realised is not None:
            law = "" if assumed is None else f" (assumed {display_number(assumed)})"
            text += f"{what} {display_number(realised)}{law}, "
    return text


def _listed(names: Sequence[str]) -> str:
    *others, final = names
    return f"{', '.join(others)} and {final}" if others else final
