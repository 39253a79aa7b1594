"""Traits of a method: what the loop, the bridge to Ax and the pictures must know of its trials."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from ax_costaware.costs import ControlSet
from ax_costaware.space.at_most import AtMost
from ax_costaware.space.candidates import Candidates, Descriptors
from ax_costaware.space.nonlinear import InputConstraint
from ax_costaware.space.parameters import Parameter, Row
from ax_costaware.space.space import Space

CONTROL_SET = "control_set"
"""Name of the string choice parameter for the control set of a trial."""


@dataclass(frozen=True)
class Groups:
    """Groups of trials in pictures of spending."""

    names: tuple[str, ...]
    """All groups, in the order in which they are shown."""

    of: Callable[[Row], str]
    """Group of a trial, given its parameterization."""


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Properties of the trials of a method.

    The defaults are for trials that set every parameter and are all measured, of which the best one
    is deployed.
    """

    label: str = "Method"
    """Name of the strategy, and of the generation node that has the model."""

    reads: tuple[str, ...] = ()
    """Metrics that decisions need, besides the objective, constrained outcomes, a learned cost and
    ``time_metric``."""

    refuses_constraints: str | None = "it does not look at other outcomes"
    """Reason why outcome constraints are refused, or None if they are supported."""

    refuses_objectives: str | None = "it compares the values of one"
    """Reason why several objectives are refused, or None if they are supported."""

    should_stop_unsupported: str | None = None
    """Reason why ``should_stop`` does not apply, or None."""

    measures_points: bool = True
    """True if trials observe the objective at a point, False if they observe an average."""

    may_skip: bool = False
    """True if a trial may skip its measurement, and is then free."""

    may_repeat: bool = False
    """True if a parameterization may be asked for while a trial at it is pending. A trial with
    uncontrolled inputs is no exact repeat, so it always may."""

    repeats_design: bool = False
    """True if the quasi-random design may repeat points of a space without real parameters."""

    repeats: str | None = None
    """Parameter that counts the repeats of a trial, whose mean is its outcome; None for one
    measurement each. A trial may then be at inputs that were tried."""

    control_sets: tuple[ControlSet, ...] = ()
    """The control sets to choose from; none if a trial sets every parameter."""

    refuses_hierarchy: str | None = "every parameter is needed in every trial"
    """Reason why hierarchical search spaces are refused, or None if they are supported."""

    input_constraints: tuple[InputConstraint, ...] = ()
    """Nonlinear constraints on the parameters of trials and of what is deployed."""

    shared: tuple[str, ...] = ()
    """Names of parameters that all trials of a batch set to the same value."""

    fills_batches: bool = False
    """True if a batch has as many trials as are asked for, whether or not all are worth it."""

    hidden: tuple[str, ...] = ()
    """Names of parameters that are no input of the model."""

    candidates: Candidates | None = None
    """Table of the only possible trials; None if all combinations are."""

    descriptors: tuple[Descriptors, ...] = ()
    """Descriptors of choices, which the model sees in place of their values."""

    at_most: tuple[AtMost, ...] = ()
    """Restrictions of the number of parts that are present in a trial."""

    latent: Mapping[str, Parameter] = field(default_factory=dict)
    """Parameters of the latent points to deploy, by name; empty if trials are deployed."""

    progress: tuple[str, ...] = ()
    """Parameters of which one may be the step of learning curves; none to ignore curves."""

    sees_time: bool = False
    """True if the last input of the model is the time of a trial."""

    time_metric: str | None = None
    """Metric in which the time of each trial is reported; None if it is the trial's index."""

    winsorize_iqr: float = 10.0
    """Clip bad outliers at this many interquartile ranges, see ``winsorized``."""

    risk_aversion: float = 0.0
    """Rank points for deployment by ``mean - risk_aversion * standard_deviation``."""

    groups: Groups | None = None
    """Groups of trials in pictures of spending; None for no groups."""

    warnings: tuple[str, ...] = ()
    """Warnings about the settings, as sentences."""

    def restricted(self, space: Space) -> Space:
        """Return the space of an experiment with the method's table, descriptors and constraints.

        Raises:
            InputError: If they do not fit its parameters.
        """
        found = space.restricted(self.candidates, self.descriptors, self.at_most)
        return found.within(self.input_constraints)

    def progress_parameter(self, ranges: Collection[str]) -> str | None:
        """Return the parameter that is the step of learning curves, or None to ignore curves.

        Args:
            ranges: Names of the range parameters; several of ``progress`` give none.
        """
        found = [name for name in self.progress if name in ranges]
        return found[0] if len(found) == 1 else None
