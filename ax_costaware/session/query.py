"""Instructions for a trial, with the reason of the choice: ``query``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import pandas as pd
from ax.core.base_trial import (
    MANUAL_GENERATION_METHOD_STR,
    UNKNOWN_GENERATION_METHOD_STR,
    BaseTrial,
)
from ax.core.types import TParamValue
from ax.exceptions.core import UserInputError

from ax_costaware.ax_bridge.client import SessionClient, holding_lock, open_session
from ax_costaware.ax_bridge.records import planned_trial
from ax_costaware.ax_bridge.search_space import active_parameters
from ax_costaware.core.account import expected_cost_of
from ax_costaware.core.history import PastTrial
from ax_costaware.core.method import Method
from ax_costaware.costs import ControlSet
from ax_costaware.display import display_cost, display_values
from ax_costaware.session.reported import switching_cost_of

_VALUES = ("value", "index", "improvement_per_cost", "upper_confidence_bound", "information")
"""Record keys of the value that methods without control sets compare."""

_NUMBERS = ("value", "upper_bound", "mean", "standard_deviation", "cost", "cost_standard_error")

_BY_THE_USER = (MANUAL_GENERATION_METHOD_STR, UNKNOWN_GENERATION_METHOD_STR)


@dataclass(frozen=True)
class Candidate:
    """Candidate of a decision; None where a number was not recorded."""

    control_set: str | None
    """Name of the control set; None for a method without, which records the choice only."""

    value: float | None = None
    """Value that was compared. With control sets: the largest expected acquisition value, with the
    sign of maximization. Otherwise: the Gittins index, the expected improvement per cost
    (fidelities), the confidence bound (costly feedback), the expected information of the answer
    (indirect queries), or that per unit of cost (tree)."""

    upper_bound: float | None = None
    """Upper confidence bound of the best expected value, with the sign of maximization, if the rule
    uses it."""

    mean: float | None = None
    """Posterior mean of the outcome at decision time, in its own unit and sign."""

    standard_deviation: float | None = None
    """Posterior standard deviation of the outcome."""

    cost: float | None = None
    """Expected cost of a trial, in the user's own unit."""

    cost_standard_error: float | None = None
    """Standard error of the expected cost."""

    in_play: bool = True
    """True if the rule compared this candidate with others."""

    chosen: bool = True
    """True for the chosen candidate."""


@dataclass(frozen=True)
class Query:
    """Instructions for a trial: values to set, cost, and reason."""

    trial_index: int
    """Index of the trial in the experiment."""

    control_set: str | None
    """Name of the control set that the trial uses; None for a method without control sets."""

    controlled: dict[str, TParamValue]
    """Values to set, in the parameters' own units. Parameters that are not named are realized by
    the environment. Without control sets all are named."""

    expected_cost: float | None
    """Expected cost of the trial, in the user's own unit: zero if nothing is to be measured, None
    if the trial came before any cost was known."""

    measure: bool
    """True if the outcome is to be measured. If False, use the values and complete the trial
    without an outcome, ``complete_trial(client, trial_index)``. Only costly feedback has False."""

    why: str
    """Reason for the choice, as a sentence."""

    decision: dict[str, Any]
    """Inputs of the choice, as plain JSON; empty for a trial that the strategy did not generate.

    Every trial of the strategy:

    - ``spent``, ``remaining`` (None without a budget): the account before the trial.

    Chosen by the rule or the model, with control sets:

    - ``in_play``: names of the candidates; ``values``: largest expected acquisition value of those
      that were evaluated, with the sign of maximization; ``rule``; ``state``: what the rule reads
      again later; ``problem``: fingerprint of the control sets and distributions; ``objective``;
    - ``costs``, if costs are learned or have switching costs: expected cost, and its standard error
      or None, of the candidates;
    - ``feasibility``, with outcome constraints: probability that the expectation is feasible.
      Before anything is feasible, ``values`` are that probability;
    - ``lambda`` and ``worth_per_cost``, with a price, here and with averages: the price, and the
      value of further trials per unit of cost, in units of the objective.

    With the Gittins index:

    - ``index``, ``incumbent``, ``incumbent_trial``, ``stop_rule``, ``acquisition``, ``objective``;
    - ``mean`` and ``standard_deviation`` of the objective at the point; ``cost_log_mean`` and
      ``cost_log_sd`` of the logarithm of a learned cost there, else None;
    - ``lambda``, ``lambda_source`` (``given``, ``budget`` or ``decay``), and with a decay
      ``relative_lambda`` and ``next_relative_lambda``; ``lambda_held``, which is False, if a price
      from the budget was found from fewer than two different outcomes;
    - with outcome constraints ``feasibility`` and ``incumbent_feasibility``: probability that the
      trial, and the incumbent, is feasible. Before anything is feasible, there is no ``index``, no
      ``incumbent`` and no ``lambda``, and ``incumbent_feasibility`` is that of the likeliest trial.

    With fidelities:

    - ``improvement_per_cost`` over the best bound at the target, None before anything is feasible
      there; ``correlation`` of the trial's outcome with the value of its inputs at the target;
      ``mean`` and ``standard_deviation`` of that value; ``incumbent``: the best bound there (the
      mean less half a standard deviation); ``incumbent_trial``; ``lambda``, and the probabilities
      of being feasible, as above.

    With costly feedback:

    - ``now``: time of the trial; ``mean``, ``standard_deviation`` and ``upper_confidence_bound``
      (the lower one for minimization) of the objective at the point then; ``beta``, ``forgetting``;
    - ``rule``, ``reason``, ``confidence`` (probability that the point is better than its strongest
      rival, or None); ``feasibility``, with outcome constraints.

    With indirect queries:

    - ``information``: expected information of the answer, in nats; ``acquisition``: about what;
      ``mean`` and ``standard_deviation`` of the answer; ``cost``; ``objective``;
      ``recommendation``: the best point at the time; ``pairs``: number of training pairs;
    - with a tree ``level`` and ``cell`` (index within its level), ``value`` (information per unit
      of cost), ``leaves`` and ``active`` (their numbers).
    """

    candidates: tuple[Candidate, ...] = ()
    """Candidates of the choice: the control sets in declared order; the trial alone for a method
    without."""

    resumes_trial: int | None = None
    """Trial to resume, as from its checkpoint: it has the same inputs and less progress. None if
    the trial begins anew."""

    @property
    def parameters(self) -> dict[str, TParamValue]:
        """Values of ``controlled``, under the name that a ``Recommendation`` has for them."""
        return self.controlled

    def to_frame(self) -> pd.DataFrame:
        """Return the candidates as a table, with the fields of ``Candidate`` as columns.

        Numbers that the decision did not use are NaN.
        """
        columns = [field.name for field in fields(Candidate)]
        frame = pd.DataFrame(list(self.candidates), columns=columns)
        return frame.astype(dict.fromkeys(_NUMBERS, float))

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain JSON."""
        return {**asdict(self), "candidates": [asdict(one) for one in self.candidates]}

    def __str__(self) -> str:
        return (
            f"Trial {self.trial_index}: set {display_values(self.controlled)} "
            f"{display_cost(self.control_set, self.expected_cost)}"
            f"{'' if self.measure else ', without measuring'}"
            f"{'' if self.resumes_trial is None else f', continuing trial {self.resumes_trial}'}. "
            f"{self.why}"
        )


@holding_lock
def query(client: SessionClient, trial_index: int) -> Query:
    """Return what a trial controls, what it costs, if it is measured, and why.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.
        trial_index: Index of the trial, as returned by ``client.get_next_trials``.

    Raises:
        UserInputError: If the trial does not exist, its control set is not the strategy's, or a
            controlled parameter has no value in it.
        UnsupportedError: If the trial has several arms.
    """
    session = open_session(client)
    trial = session.trial(trial_index)
    planned = planned_trial(trial)
    control_set = session.method.control_set_of(planned)
    decision = dict(planned.decision)
    cost = expected_cost_of(planned, session.method, switching_cost_of(session, trial))
    return Query(
        trial_index=trial.index,
        control_set=None if control_set is None else control_set.name,
        controlled=active_parameters(
            session.experiment.search_space, _controlled(planned, control_set)
        ),
        expected_cost=cost,
        measure=planned.is_to_be_measured,
        why=str(planned.record.get("why") or _why_without_record(trial)),
        decision=decision,
        candidates=_candidates(session.method, control_set, decision, cost),
        resumes_trial=planned.resumes_trial,
    )


def _candidates(
    method: Method,
    control_set: ControlSet | None,
    decision: Mapping[str, Any],
    expected_cost: float | None,
) -> tuple[Candidate, ...]:
    """Return the candidates of a decision, in declared order.

    Args:
        method: The method.
        control_set: The control set that was chosen; None for a method without.
        decision: The recorded decision; empty if the strategy did not choose.
        expected_cost: Expected cost of the trial.
    """
    if control_set is None:
        value = next((decision[name] for name in _VALUES if name in decision), None)
        mean, deviation = decision.get("mean"), decision.get("standard_deviation")
        return (Candidate(None, value, None, mean, deviation, cost=expected_cost),)
    values, learned = decision.get("values") or {}, decision.get("costs") or {}
    bounds = (decision.get("state") or {}).get("upper") or {}
    found: list[Candidate] = []
    for position, other in enumerate(method.traits.control_sets):
        name, chosen = str(other.name), other.name == control_set.name
        # Costs that depend on values are not recorded for values that were not evaluated.
        declared = None if other.cost_varies else other.cost
        cost, error = learned.get(name, (declared, None))
        found.append(
            Candidate(
                control_set=name,
                value=values.get(name),
                upper_bound=bounds.get(str(position)),
                cost=expected_cost if chosen else cost,
                cost_standard_error=error,
                in_play=name in decision.get("in_play", ()) or chosen,
                chosen=chosen,
            )
        )
    return tuple(found)


def _controlled(trial: PastTrial, control_set: ControlSet | None) -> dict[str, TParamValue]:
    if control_set is None:
        return dict(trial.parameters)
    if absent := [name for name in control_set.parameters if name not in trial.parameters]:
        raise UserInputError(
            f"trial {trial.index} has no value for {absent}, which its control set "
            f"{control_set.name!r} controls."
        )
    return {name: trial.parameters[name] for name in control_set.parameters}


def _why_without_record(trial: BaseTrial) -> str:
    """Return the origin of a trial without a record, such as one of Ax's own generators."""
    generated_by = trial.generation_method_str
    if generated_by in _BY_THE_USER:
        return "The trial was attached by the user, not generated by the strategy."
    return f"The trial was generated by {generated_by}, not by the strategy's rule."
