"""Where an experiment stands: plays and money, decisions included that are no trials yet.

``GenerationStrategy.gen(num_trials=k)`` asks for several decisions before any of them becomes a
trial. The earlier ones of such a batch show up among Ax's pending observations without a trial
index; counting them there, and not in the generator, drops each as soon as its trial exists and
needs no state. Costs are in the user's own unit.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from ax.core.experiment import Experiment
from ax.core.observation import ObservationFeatures
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.transition_criterion import TrialCountPausingCriterion

from ax_costaware.generators.control_set_settings import ControlSetSettings
from ax_costaware.generators.learned_costs import average_costs, costs_to_learn_from
from ax_costaware.ledger import LedgerEntry, decision_record, ledger, remaining, spent
from ax_costaware.policies.control_set_rules import ControlSetHistory, PastDecision
from ax_costaware.records import CONTROL_SET

NO_LIMIT = 2**31
"""More trials than anybody asks for at once."""

PendingObservations = Mapping[str, list[ObservationFeatures]]

_LIVE = frozenset({TrialStatus.CANDIDATE, TrialStatus.STAGED, TrialStatus.RUNNING})


@dataclass(frozen=True)
class Standing:
    """Where the experiment stands before the next decision."""

    trial_index: int
    """Index that the next trial will have."""

    plays: tuple[int, ...]
    """Decisions that the rule has made for each control set, in declared order."""

    spent: float
    """What was spent, reservations for unfinished trials included."""

    remaining: float | None
    """What is left of the budget; None without one."""

    affordable: tuple[bool, ...]
    """Which control sets that pays for, in declared order."""

    costs: tuple[float | None, ...]
    """What each costs: declared, or expected on average; None while nothing is known of it."""

    cheapest: float | None
    """The least of what was compared with what is left; None while nothing is known."""

    reported: tuple[tuple[float, ...], ...]
    """Reported costs of each control set whose cost is unknown, empty for the others."""

    past: tuple[PastDecision, ...]
    """Earlier decisions of the rule, in the order of their trials."""

    def history(
        self,
        settings: ControlSetSettings,
        allowed: Sequence[bool] | None = None,
        pending: bool = False,
    ) -> ControlSetHistory:
        """What the rule is told.

        Args:
            settings: The settings of the strategy.
            allowed: Rules out control sets on top of the budget.
            pending: Whether the values to come are not those of the problem with all outcomes.
        """
        allowed = allowed or [True] * len(self.affordable)
        return ControlSetHistory(
            parameters=tuple(frozenset(s.parameters) for s in settings.control_sets),
            # Where nothing is known, all are alike.
            costs=tuple(1.0 if cost is None else cost for cost in self.costs),
            plays=self.plays,
            affordable=tuple(a and b for a, b in zip(self.affordable, allowed, strict=True)),
            round=sum(self.plays) + 1,
            names=tuple(settings.names),
            known=tuple(control_set.cost is not None for control_set in settings.control_sets),
            reported=self.reported,
            past=self.past,
            budget=settings.budget,
            remaining=self.remaining,
            pending=pending,
        )


def standing(
    experiment: Experiment,
    settings: ControlSetSettings,
    undelivered: Sequence[str],
    initial: bool,
    reserved: Sequence[float] | None = None,
    least: Sequence[float | None] | None = None,
) -> Standing:
    """Where ``experiment`` stands.

    Args:
        experiment: The experiment.
        settings: The settings of the strategy.
        undelivered: Names of the control sets of decisions that are no trials yet.
        initial: Whether these, and the next decision, belong to the initial design.
        reserved: What the undelivered decisions are expected to cost, by default what their control
            sets cost on average.
        least: What each control set costs at least, where that depends on its values: the budget
            pays for one if it pays for that. By default what it costs on average.
    """
    entries = ledger(experiment, settings)
    reported = costs_to_learn_from(experiment, settings)
    costs = average_costs(settings, reported)
    names = settings.names
    free = initial and not settings.charge_initial
    if reserved is None:
        reserved = [costs[names.index(name)] or 0.0 for name in undelivered]
    total = 0.0 if free else math.fsum(reserved)
    left = remaining(entries, settings.budget)
    left = None if left is None else left - total
    chosen = [entry.control_set for entry in entries if entry.by_rule]
    chosen += [] if initial else list(undelivered)
    place = {name: i for i, name in enumerate(names)}
    past = [
        _past_decision(experiment, settings, place, entry) for entry in entries if entry.by_rule
    ]
    if not initial:
        past += [
            PastDecision(place[name], cost)
            for name, cost in zip(undelivered, reserved, strict=True)
        ]
    compared = costs if least is None else tuple(least)
    return Standing(
        trial_index=len(experiment.trials) + len(undelivered),
        plays=tuple(chosen.count(name) for name in names),
        spent=spent(entries) + total,
        remaining=left,
        affordable=settings.affordable(None if free else left, compared),
        costs=costs,
        cheapest=min((cost for cost in compared if cost is not None), default=None),
        reported=tuple(tuple(reported.get(name, {}).values()) for name in names),
        past=tuple(past),
    )


def _past_decision(
    experiment: Experiment,
    settings: ControlSetSettings,
    place: Mapping[str, int],
    entry: LedgerEntry,
) -> PastDecision:
    """What the rule is told of an earlier decision, which another strategy may have made.

    What a rule of another kind wanted to remember means nothing to this one.
    """
    decision = decision_record(experiment.trials[entry.trial_index]).get("decision") or {}
    values = decision.get("values") or {}
    same_rule = str(decision.get("rule")).split("(")[0] == type(settings.rule).__name__
    return PastDecision(
        index=place[str(entry.control_set)],
        charged=entry.charged,
        state=(decision.get("state") or {}) if same_rule else {},
        values={place[name]: float(value) for name, value in values.items() if name in place},
        comparable=decision.get("problem") == settings.problem_digest,
    )


def undelivered_observations(
    pending_observations: PendingObservations | None,
) -> list[ObservationFeatures]:
    """The pending observations that belong to no trial yet, in their order, each once."""
    by_metric = [
        [o for o in observations if o.trial_index is None]
        for observations in (pending_observations or {}).values()
    ]
    return max(by_metric, key=len, default=[])


def undelivered_control_sets(pending_observations: PendingObservations | None) -> list[str]:
    """Control sets of the pending observations that belong to no trial yet, in their order."""
    return [str(o.parameters[CONTROL_SET]) for o in undelivered_observations(pending_observations)]


def live_observations(
    experiment: Experiment, pending_observations: PendingObservations | None
) -> dict[str, list[ObservationFeatures]]:
    """The pending observations that can still report.

    Ax also counts trials that were completed without data, or abandoned, as pending for ever.
    """
    return {
        metric: [
            o
            for o in observations
            if o.trial_index is None or experiment.trials[int(o.trial_index)].status in _LIVE
        ]
        for metric, observations in (pending_observations or {}).items()
    }


def decision_seed(seed: int, trial_index: int) -> int:
    """Seed of the decision on one trial: decisions of one run differ, and each one replays."""
    return int(np.random.SeedSequence([seed, trial_index]).generate_state(1)[0])


def stop_message(where: Standing, settings: ControlSetSettings, advice: str) -> str:
    """Why no further trial is generated, and what to do instead."""
    budget = math.inf if settings.budget is None else settings.budget
    message = (
        f"The budget is exhausted: {where.spent:g} of {budget:g} is spent (reservations for "
        "unfinished trials included)"
    )
    if where.cheapest is not None and not any(where.affordable):
        costs = "is expected to cost" if settings.learns_costs else "costs"
        message += f", and the cheapest control set {costs} {where.cheapest:g}"
    return f"{message}. {advice}"


class BatchLimit(TrialCountPausingCriterion):
    """Limits a batch of trials to the number that can be paid.

    Ax drops the whole batch if one of its trials cannot be generated. The criterion itself never
    pauses: that the budget is exhausted is said by the generator, which knows what to deploy.
    """

    @abstractmethod
    def num_till_threshold(self, experiment: Experiment, trials_from_node: set[int]) -> int:
        """Trials that can be paid; at least one."""

    def is_met(self, experiment: Experiment, curr_node: GenerationNode) -> bool:
        """Always False."""
        return False

    def block_continued_generation_error(
        self, node_name: str, experiment: Experiment, trials_from_node: set[int]
    ) -> None:
        """Nothing to raise: the criterion never blocks."""


class AffordableTrials(BatchLimit):
    """Limits a batch of trials to the number that the budget is certain to pay for.

    Args:
        settings: The settings of the strategy.
        initial: Whether the trials belong to the initial design.
    """

    def __init__(self, settings: ControlSetSettings, initial: bool = False) -> None:
        super().__init__(threshold=0)
        self.settings = settings
        self.initial = initial

    def num_till_threshold(self, experiment: Experiment, trials_from_node: set[int]) -> int:
        """Trials that can be paid whatever control sets they use; at least one.

        Where costs are learned they are certain as far as costs are: as expected, or, for what is
        to be reserved for a trial, as large as any reported. Before anything is known of costs
        there is no limit.
        """
        settings = self.settings
        where = standing(experiment, settings, undelivered=[], initial=self.initial)
        if where.remaining is None or (self.initial and not settings.charge_initial):
            return NO_LIMIT
        names = set(settings.initial_control_sets) if self.initial else set(settings.names)
        open_sets = [
            (cost, max([cost or 0.0, *reported]))
            for name, affordable, cost, reported in zip(
                settings.names, where.affordable, where.costs, where.reported, strict=True
            )
            if affordable and name in names
        ]
        if not open_sets:
            return 1
        payable = [cost for cost, _ in open_sets if cost is not None]
        if not payable:
            return NO_LIMIT
        dearest = max(cost for _, cost in open_sets)
        # After j trials at most j * dearest is gone, and the cheapest must still fit.
        return 1 + max(0, math.floor((where.remaining - min(payable)) / dearest + 1e-9))
