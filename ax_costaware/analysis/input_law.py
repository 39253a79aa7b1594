"""What the inputs left to chance turned out to be, against what is assumed of them: an Ax analysis.

Decisions of the control-set strategy are expectations over these laws (Tay et al. 2023). The tests
are those of ``ax_costaware.session.input_fit``. Values are in the parameters' own units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, final

import numpy as np
import pandas as pd
import torch
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard, create_plotly_analysis_card
from ax.core.experiment import Experiment
from ax.generation_strategy.generation_strategy import GenerationStrategy

from ax_costaware.analysis.input_law_figure import InputPanel, input_law_figure
from ax_costaware.analysis.method_analysis import MethodAnalysis
from ax_costaware.ax_bridge.records import past_trials
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.control_sets.chance import (
    RealizedInputs,
    atoms_of,
    condition_of,
    learned_from,
    realized_inputs,
    values_of,
)
from ax_costaware.queries.input_fit import InputFit
from ax_costaware.queries.marginals import Discrete, Learned, Marginal, RawValue
from ax_costaware.session.input_fit import InputFitReport, fits_of, laws_in_turn

Item = TypeVar("Item")

_BAND = (0.05, 0.95)
"""Quantiles between which the law puts nine values of ten."""

_GRID = 201
"""Points at which a distribution function is drawn."""

_CONDITIONAL_GRID = 31
"""The same where it is an average over trials, each of which takes a while."""

_MOST_TRIALS = 30
"""Trials that such an average is over; of more, an even selection."""

_MOST_BARS = 12
"""A law on more values than these is drawn as a distribution function."""


@final
class InputLawAnalysis(MethodAnalysis[ControlSets]):
    """What inputs left to chance turned out to be, beside the laws that are assumed of them.

    The card's data frame has one row per test, the laws of inputs first:

    - ``input``, ``with``: the input, and for a test of two inputs the other one (else missing);
    - ``n``: trials that the test is about; ``test``, ``statistic`` (the rank correlation in a test
      of two), ``p_value``;
    - ``realised_mean``, ``realised_std``, ``assumed_mean``, ``assumed_std``: of numeric inputs;
    - ``agrees``: False where the test says no, allowing for how many tests there are.
    """

    title = "Inputs left to chance"
    method_class = ControlSets

    def __init__(self, last: int | None = None, significance: float = 0.01) -> None:
        """An analysis of the inputs.

        Args:
            last: Test only that many of the most recent trials; None for all.
            significance: The chance of any false alarm among the tests of one card.
        """
        self.last = last
        self.significance = significance

    def _missing(self, experiment: Experiment, method: ControlSets) -> str | None:
        report = fits_of(experiment, method, self.last, self.significance)
        return None if report.fits else report.verdict

    def _card(
        self,
        experiment: Experiment,
        generation_strategy: GenerationStrategy,
        method: ControlSets,
    ) -> PlotlyAnalysisCard:
        report = fits_of(experiment, method, self.last, self.significance)
        trials = realized_inputs(past_trials(experiment, method), method)
        panels = [_panel(fit, report, trials, method) for fit in report.fits]
        return create_plotly_analysis_card(
            name=type(self).__name__,
            title=self.title
            + ("" if report.agrees else ": WARNING, they disagree with their laws"),
            subtitle=_subtitle(report),
            df=_frame(report),
            fig=input_law_figure(panels),
        )


def _frame(report: InputFitReport) -> pd.DataFrame:
    laws = report.to_frame().rename(columns={"name": "input"})
    laws.insert(1, "with", None)
    tests = [(found, "Spearman", report.dependent) for found in report.dependences]
    tests += [
        (found, "Spearman, beyond the joint law", report.dependent_otherwise)
        for found in report.joint_dependences
    ]
    pairs = pd.DataFrame(
        [
            {
                "input": found.names[0],
                "with": found.names[1],
                "n": found.n,
                "statistic": found.correlation,
                "p_value": found.p_value,
                "test": test,
                "agrees": found.names not in rejected,
            }
            for found, test, rejected in tests
        ],
        columns=list(laws.columns),
    )
    if pairs.empty:
        return laws
    numbers = ("realised_mean", "realised_std", "assumed_mean", "assumed_std")
    parts = [part.astype(dict.fromkeys(numbers, float)) for part in (laws, pairs)]
    return pd.concat(parts, ignore_index=True)


def _panel(
    fit: InputFit,
    report: InputFitReport,
    trials: Sequence[RealizedInputs],
    method: ControlSets,
) -> InputPanel:
    name = fit.name
    mine = [trial for trial in trials if name in trial.chance]
    values, tested = values_of(name, mine), mine[len(mine) - fit.n :]
    assumed = _assumed(name, values, tested, method)
    return InputPanel(
        name=name,
        trial_indices=[trial.trial_index for trial in mine],
        values=values,
        num_tested=fit.n,
        x=assumed.x,
        assumed=assumed.heights,
        is_shares=assumed.is_shares,
        band=assumed.band,
        p_value=fit.p_value,
        agrees=name not in report.disagreeing,
        law=assumed.label,
    )


@dataclass(frozen=True)
class _Assumed:
    """What is drawn of a law."""

    x: Sequence[RawValue]
    heights: Sequence[float]
    is_shares: bool
    band: tuple[float, float] | None
    label: str


def _assumed(
    name: str,
    values: Sequence[RawValue],
    tested: Sequence[RealizedInputs],
    method: ControlSets,
) -> _Assumed:
    """The law of an input, averaged over the tested trials where it differs between these."""
    law, joint = method.laws[name], method.joint
    now = learned_from(law, values)
    atoms = atoms_of(now) if isinstance(_prior(now), Discrete) else None
    is_shares = atoms is not None and (not now.is_numeric or len(atoms) <= _MOST_BARS)
    x = list(atoms) if is_shares and atoms is not None else _places(now, values, _GRID)
    band = _band(now) if now.is_numeric else None
    conditions: list[dict[str, RawValue]] = []
    if joint is not None and name in joint.names:
        conditions = _selected([condition_of(trial, joint) for trial in tested])
    if joint is not None and any(conditions):
        # Distribution functions are in alphabetical order.
        x = sorted(x) if is_shares else _places(now, values, _CONDITIONAL_GRID)
        cdf = [[joint.cdf_given(name, v, given)[1] for v in x] for given in conditions]
        heights = np.mean(cdf, axis=0)
        heights = np.diff(heights, prepend=0.0) if is_shares else heights
        return _Assumed(x, heights.tolist(), is_shares, None, "assumed, given what was controlled")
    laws: Sequence[Marginal] = [law]
    if isinstance(law, Learned):
        before = values[: len(values) - len(tested)]
        laws = _selected(laws_in_turn(law, before, values[len(before) :]))
    curves = [_shares(law, x) if is_shares else _cdf(law, x) for law in laws]
    label = "assumed" if len(laws) == 1 else "learned before each trial, on average"
    return _Assumed(x, np.mean(curves, axis=0).tolist(), is_shares, band, label)


def _prior(law: Marginal) -> Marginal:
    return law.prior if isinstance(law, Learned) else law


def _selected(items: Sequence[Item]) -> list[Item]:
    """All items, or an even selection of the most that are averaged over."""
    count = min(len(items), _MOST_TRIALS)
    return [items[i] for i in np.linspace(0, len(items) - 1, count).round().astype(int)]


def _shares(law: Marginal, atoms: Sequence[RawValue]) -> list[float]:
    nodes, weights = law.nodes_and_weights(len(atoms))
    shares = dict(zip(law.decode(nodes), weights.tolist(), strict=True))
    return [shares.get(value, 0.0) for value in atoms]


def _cdf(law: Marginal, x: Sequence[RawValue]) -> list[float]:
    places = torch.tensor([float(value) for value in x], dtype=torch.double)
    return [float(height) for height in law.cdf(places)]


def _places(law: Marginal, values: Sequence[RawValue], count: int) -> list[RawValue]:
    """Evenly spread places that show the whole law and all values."""
    numbers = [float(value) for value in values]
    low, high = min(law.lower, *numbers), max(law.upper, *numbers)
    return [float(place) for place in np.linspace(low, high, count)]


def _band(law: Marginal) -> tuple[float, float]:
    low, high = law.icdf(torch.tensor(_BAND, dtype=torch.double)).tolist()
    return low, high


def _subtitle(report: InputFitReport) -> str:
    scope = "" if report.last is None else f" The tests are of the last {report.last} trials."
    worst = min(report.dependences, key=lambda found: found.p_value, default=None)
    pair = (
        ""
        if worst is None
        else f" Of the inputs that are assumed to be independent, {worst.names[0]} and "
        f"{worst.names[1]} went together most: rank correlation {worst.correlation:.2f} over "
        f"{worst.n} trials, p = {worst.p_value:.2g}."
    )
    advice = (
        ""
        if report.agrees
        else " Decisions rest on these laws: give the strategy new ones, a Learned marginal, or a "
        "joint law for inputs that go together."
    )
    return (
        f"{report.verdict}{advice}{pair} Left: how the values were spread over the trials that did "
        "not control the input, beside the law. Right: the same values in order of the trials; the "
        f"band holds nine of ten by the present law.{scope} A false alarm in any test has the "
        f"chance {report.significance:g}."
    )
