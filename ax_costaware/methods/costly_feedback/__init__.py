"""The costly-feedback method: the point to use next, and the decision to measure its outcome.

CE-GP-UCB of Wang, Ren, Bogunovic, Xiong and Urtasun 2020, "Cost-Efficient Online Hyperparameter
Optimization", Algorithm 1. The point has the largest upper confidence bound at the time of the
trial. A rule measures it if it may be confused with a better one. The cost of a measurement and the
budget are in the user's own unit of cost; ``beta`` has no unit. Searches are on the scale of the
model. A rule gets the objective's own unit with the sign of maximization; records have the
objective's own sign.

With outcome constraints, whose outcomes drift as the objective does, the value of a bound above the
worst mean is weighted by the probability of being feasible at the time (as in constrained expected
improvement, Gardner et al. 2014). Until a point is feasible, the likeliest one is next.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ax_costaware.acquisition.confidence_search import ConfidenceSearch
from ax_costaware.acquisition.feasibility import Feasibility, feasibility_weighted
from ax_costaware.acquisition.optimize import Region, is_flat
from ax_costaware.argument_checks import (
    check_fields,
    nonempty_string,
    number_between_zero_and_one,
    optional,
)
from ax_costaware.core.account import ROUNDING, BudgetState
from ax_costaware.core.model import ARGUMENT, FixedHyperparameters, GivenModel, ModelOptions
from ax_costaware.core.problem import Best, Decision, Problem, Stop, decision_seed, feasibility_text
from ax_costaware.core.traits import Traits
from ax_costaware.costs import BatchCost, SwitchingCost
from ax_costaware.costs.declared_cost import cost_of
from ax_costaware.exceptions import InputError
from ax_costaware.methods.beta import BetaSchedule, checked_beta
from ax_costaware.methods.costed import (
    CostArgument,
    CostedMethod,
    DeclaredOrLearned,
    NothingToLearnFrom,
)
from ax_costaware.methods.costly_feedback.round import SearchedRound
from ax_costaware.methods.costly_feedback.rules import (
    RIVAL_CORRELATION,
    FeedbackRule,
    MeasurementChoice,
    checked_rule,
    default_rule,
)
from ax_costaware.methods.costs import cost_range
from ax_costaware.models import ExactPosterior, FixedTimeVaryingGP, TimeVaryingGP
from ax_costaware.space.finite_spaces import starts_of
from ax_costaware.space.parameters import Row

NUM_STARTS = 1024
"""Default number of quasi-random points from which searches start, in a space with more than
``ALL_POINTS``."""


@dataclass(frozen=True, kw_only=True)
class CostlyFeedback(CostedMethod):
    """Upper confidence bounds of a drifting objective, with a rule for measurements.

    Raises:
        InputError: On construction, when a field has a value that the method cannot use.
    """

    factory: ClassVar[str] = "costly_feedback_strategy"

    rule: FeedbackRule | None = field(default=None, kw_only=False)
    """Rule that decides on a measurement: ``MeasurementRule``, ``LCBUCBRule``, ``BernoulliRule``,
    ``MixedRule`` or ``FullFeedback``. A larger ``kappa`` of a ``MeasurementRule`` measures more.
    None: ``MeasurementRule()`` if the forgetting rate is given, else
    ``MixedRule(MeasurementRule(), lower=0.1, upper=1.0)``. The latter measures at least a tenth of
    the trials, without which a drift could not be learned."""

    forgetting: float | None = None
    """Forgetting rate per unit of time, strictly between 0 and 1: values of the objective at a time
    difference ``D`` have the correlation ``(1 - forgetting) ** (D / 2)``. None: learned with the
    other hyperparameters, or given with the model."""

    beta: float | BetaSchedule | None = None
    """Weight of the upper confidence bound ``mean + sqrt(beta) * sd``: a number >= 0, or a schedule
    that grows with the trials, of which the first is trial 1. None: ``LogarithmicBeta()``."""

    cost: CostArgument = 1.0
    """Cost of a measurement, in a unit of your own: a number, a value object such as
    ``AffineCost({"epochs": 2.5})``, a function of the parameterization, or the name of the metric
    in which the cost of each measured trial is reported, from which it is learned; no
    ``SwitchingCost`` or ``BatchCost``. The cost at the settings of a trial decides whether a
    measurement can be paid. If it cannot be paid at the largest upper confidence bound, the trial
    is at the best posterior mean. A learned cost is unknown until the first report: then anything
    that is left of the budget pays for it."""

    budget: float | None = None
    """Largest total cost of all measurements; None for no limit. If no measurement is affordable,
    trials go on without one, at the best posterior mean."""

    time: str | None = None
    """Time of a trial. None: its index. Otherwise the name of a tracking metric under which the
    time of each trial is reported, in a unit of your own, also for trials that were not measured:
    ``complete_trial(client, i, {"hours": 3.5})``. It has to increase: hours since the start, not
    hours left. The time of the next trial is predicted as that of the last report plus the median
    step between reports."""

    def __post_init__(self) -> None:
        expected = (
            "the name of the metric in which the time of each trial is reported, or None for the "
            "trial's index"
        )
        check_fields(
            self,
            rule=optional(checked_rule),
            beta=checked_beta,
            forgetting=optional(number_between_zero_and_one),
            time=optional(partial(nonempty_string, expected=expected)),
        )
        if isinstance(self.cost, SwitchingCost | BatchCost):
            raise InputError(
                f"cost={self.cost!r}: expected the cost of a measurement alone. Switching and "
                "set-up costs are paid whether or not a trial is measured."
            )
        super().__post_init__()
        if self.time is not None and self.time == self.trial_costs.metric:
            raise InputError(
                f"time={self.time!r} and cost={self.cost!r} are one metric: expected one for the "
                "time of each trial, and another one for the cost of its measurement."
            )
        if isinstance(cost := self.trial_costs.searched, float):
            self._check_limits(cost, "what a measurement costs, for all cost the same")

    def _check_limits(self, least: float, what: str) -> None:
        """Refuse limits that pay for no measurement, or not for the initial ones.

        Args:
            least: Least cost of a measurement.
            what: Its description in a message.
        """
        if self.max_trial_cost is not None and self.max_trial_cost < least:
            raise InputError(
                f"max_trial_cost={self.max_trial_cost!r} with cost={self.cost!r}: expected at "
                f"least {what}."
            )
        if self.budget is None:
            return
        # A budget that never pays for a measurement is a mistake, so at least one counts.
        needed = least * max(1, self.initial_trials if self.charge_initial else 1)
        amount = "" if isinstance(self.trial_costs.searched, float) else "at least "
        if needed > self.budget * (1 + ROUNDING):
            raise InputError(
                f"budget={self.budget!r}: it does not pay for the measurements of "
                f"initial_trials={self.initial_trials} at cost={self.cost!r}, which take "
                f"{amount}{needed:g}: expected a larger budget, or fewer initial trials."
            )

    @property
    def traits(self) -> Traits:
        """Trials may skip their measurement; the same inputs at another time are another point."""
        return replace(
            super().traits,
            label="CostlyFeedback",
            refuses_constraints=None,
            may_skip=True,
            may_repeat=True,
            sees_time=True,
            time_metric=self.time,
        )

    def _least_cost(self, problem: Problem) -> float | None:
        """Return the least declared cost of a measurement; None for a learned cost."""
        if self.trial_costs.metric is not None:
            return None
        cost = self.trial_costs.searched
        return cost if isinstance(cost, float) else cost_range(problem, cost)[0]

    @property
    def trial_costs(self) -> MeasurementCosts:
        """Costs of measurements by ``cost``."""
        return MeasurementCosts.of(self)

    def _time_of(self, problem: Problem, index: int) -> float:
        times = self.times(problem.trials)
        assert times is not None
        return times[index]

    def beta_at(self, trial_index: int) -> float:
        """Return the weight of the upper confidence bound for the trial of an index."""
        assert self.beta is not None
        return self.beta(trial_index + 1) if callable(self.beta) else self.beta

    def model(
        self, given: GivenModel = None, problem: Problem | None = None, metric: str | None = None
    ) -> ModelOptions:
        """Return a ``TimeVaryingGP`` with the forgetting rate, fitted or as given.

        That of an outcome constraint has a fitted rate of its own.
        """
        if metric is not None:
            return replace(self, forgetting=None).model()
        if isinstance(given, FixedHyperparameters):
            if self.forgetting is None:
                raise InputError(
                    f"forgetting=None with {ARGUMENT}={given!r}: nothing is fitted there, so the "
                    "forgetting rate is needed, too."
                )
            given = given.of(FixedTimeVaryingGP)
        found = given or ModelOptions("TimeVarying", TimeVaryingGP)
        if found.model_class is None or not issubclass(found.model_class, TimeVaryingGP):
            raise InputError(
                f"{ARGUMENT} has the model class {found.model_class!r}: expected TimeVaryingGP, "
                "or a class derived from it, since the objective drifts."
            )
        if self.forgetting is None:
            return found
        if "forgetting" in found.options:
            raise InputError(
                f"forgetting={self.forgetting!r}, and {ARGUMENT} has the model options "
                f"{found.options!r}: expected it in one of them."
            )
        return replace(found, options={**found.options, "forgetting": self.forgetting})

    def check(self, problem: Problem) -> None:
        """Refuse an invalid cost or time metric, and measured trials without a cost or a time."""
        super().check(problem)
        is_new = not any(trial.record for trial in problem.trials)
        # Parameters that the caller fixes hold for one trial only, so they do not count.
        varies = not isinstance(self.trial_costs.searched, float)
        if varies and is_new and problem.fixed.keys() <= {*problem.disabled}:
            least = self._least_cost(problem)
            if least is not None:
                self._check_limits(least, f"what the cheapest measurement costs, {least:g}")
        metric = self.time
        if metric is None:
            return
        if metric == problem.objective:
            raise InputError(
                f"time={metric!r} is the objective: expected another metric, in which the time of "
                "each trial is reported."
            )
        if metric not in problem.metrics:
            raise InputError(
                f"time={metric!r} is no metric of the experiment: add it with "
                f"client.configure_tracking_metrics([{metric!r}])."
            )
        self.check_outcomes(problem)

    def check_outcomes(self, problem: Problem) -> None:
        """Refuse outcomes without their time if times are reported."""
        metric = self.time
        missing = [
            t.index
            for t in problem.trials
            # A trial that still runs may yet report its time.
            if metric and t.outcome is not None and metric not in t.metrics and not t.is_live
        ]
        if missing:
            raise InputError(
                f"time={metric!r}: trials {missing} have an outcome but no time. Report it with "
                f"complete_trial(..., raw_data={{..., {metric!r}: ...}}); for a trial that is "
                f"completed add it with client.attach_data({missing[0]}, {{{metric!r}: ...}})."
            )

    def initial(self, problem: Problem) -> Decision:
        """Return the next quasi-random point, which is measured if the budget pays for it.

        The design continues until there are enough outcomes for a model, because a running system
        always needs values.
        """
        state = self.budget_state(problem, initial=True)
        row = problem.draw()
        (cost,) = self.trial_costs.expected(problem, [row])
        pays = state.pays(cost)
        decision = self.initial_decision(
            problem,
            row,
            cost if pays else 0.0,
            state,
            "its values are quasi-random, and its outcome is measured.",
            measure=pays,
            details={"now": self._time_of(problem, problem.next_index)},
        )
        why = decision.why
        if problem.num_begun >= self.initial_trials:
            why = (
                "The initial trials do not have enough outcomes for a model yet; the values are "
                "quasi-random, and the outcome is measured."
            )
        if not pays:
            because = self._too_expensive(state, cost)
            why = f"Its values are quasi-random, and nothing is measured: {because}."
        return replace(decision, why=why)

    def decide(self, problem: Problem) -> Decision | Stop:
        """Return the point of the next trial, and the decision to measure it.

        If a measurement is not affordable at the largest upper confidence bound, the point is that
        of the best posterior mean, which is measured if that is affordable and the rule says so.
        """
        state, index, scale = self.budget_state(problem), problem.next_index, problem.scale
        now = self._time_of(problem, index)
        pays, may_pay = False, state.pays(self._least_cost(problem))
        for explores in (True, False) if may_pay else (False,):
            pending = self._measured(problem)
            search, feasibility, is_any_feasible = self._search(problem, index, pending, explores)
            # Without a measurement exploration gains nothing: take the best mean.
            beta = self.beta_at(index) if explores else 0.0
            found = SearchedRound(search, now, beta, scale)
            choice = found.choose(now, beta)
            point = found.optima.point[[choice.key]]
            (row,) = problem.space.decode(point)
            (cost,) = self.trial_costs.expected(problem, [row])
            if pays := state.pays(cost):
                break
        model = problem.model
        assert isinstance(model, TimeVaryingGP)
        rule = self.rule or default_rule(not model.forgetting_kernel.is_learned)
        chance = None
        if feasibility is not None:
            chance = float(feasibility.probability(point))
        if pays:
            draw = np.random.default_rng(search.seed).random
            unsure = chance if chance is not None and chance < self.feasibility_threshold else None
            advice = found.measurement(rule, choice, now, self.beta_at(index), draw, unsure)
        else:
            advice = MeasurementChoice(False, self._too_expensive(state, cost))
        mean, spread, value = scale.sign * choice.mean, choice.variance**0.5, found.optima.value[0]
        what = "has the best posterior mean"
        if explores:
            what = "has the smallest lower" if problem.minimize else "has the largest upper"
            what += " confidence bound"
        if not is_any_feasible:
            what = "is the likeliest to be feasible"
        elif feasibility is not None and explores:
            what += ", weighted by its probability of being feasible,"
        elif feasibility is not None:
            what += " of the feasible points"
        model = problem.model
        assert isinstance(model, TimeVaryingGP)
        return Decision(
            parameters=row,
            why=(
                f"It {what} at time {now:.10g}: posterior mean {mean:.6g}, standard "
                f"deviation {spread:.6g}, beta {beta:.6g}{feasibility_text(chance)}. "
                f"{'Measure' if advice.measure else 'Do not measure'}: {advice.reason}."
            ),
            expected_cost=cost if advice.measure else 0.0,
            details={
                "rule": repr(rule),
                "reason": advice.reason,
                "confidence": advice.confidence,
                "mean": mean,
                "standard_deviation": spread,
                "upper_confidence_bound": scale.from_model(float(value)),
                "beta": beta,
                "forgetting": model.forgetting_kernel.forgetting.item(),
                "now": now,
                **({} if chance is None else {"feasibility": chance}),
                **state.record(),
            },
            extra={"measure": advice.measure},
            value=float(value),
        )

    def recommend(self, problem: Problem) -> list[Best]:
        """Return the local optima of the posterior mean at the next trial's time, best first.

        If the mean is constant, they are the points of least variance. Feasible points come first,
        then the others by their probability of being feasible.
        """
        index = len(problem.trials)
        search, feasibility, _ = self._search(problem, index, None, explores=False)
        posterior, starts = search.posterior, search.starts
        assert starts is not None
        with torch.no_grad():
            if feasibility is None and is_flat(posterior(starts)[0]):
                search = replace(search, counted=lambda X, _: -posterior(X)[1])
        rows = problem.space.decode(search.upper_confidence_bound(0.0).point)
        return self.ranked(problem, rows, [None] * len(rows))

    def _too_expensive(self, state: BudgetState, cost: float | None) -> str:
        """Return the reason, as a phrase, why a measurement is not affordable."""
        limit = f"what is left of the budget, {max(state.remaining or 0.0, 0.0):g} of "
        limit += f"{self.budget or 0.0:g},"
        if state.is_capped:
            limit = f"max_trial_cost={self.max_trial_cost:g}"
        if cost is None:
            return f"{limit} does not pay for a measurement"
        price = (
            f"costs {cost:g}"
            if self.trial_costs.metric is None
            else f"is expected to cost {cost:.3g}"
        )
        where = "" if isinstance(self.trial_costs.searched, float) else " at these values"
        return f"{limit} does not pay for a measurement, which {price}{where}"

    def _measured(self, problem: Problem) -> Tensor | None:
        """Return points, with their times, of pending measurements; None without any."""
        following, rows = itertools.count(len(problem.trials)), dict[int, Row]()
        for index, parameters, measure in problem.pending:
            place = next(following) if index is None else index
            if measure:
                rows[place] = parameters
        return self.model_points(problem, [*rows.values()], [*rows]) if rows else None

    def _search(
        self, problem: Problem, index: int, X_pending: Tensor | None, explores: bool
    ) -> tuple[ConfidenceSearch, Feasibility[ExactPosterior] | None, bool]:
        """Return the search at the time of a trial, within the outcome constraints.

        Args:
            problem: The problem.
            index: Index of the trial.
            X_pending: Points, with their times, of pending measurements.
            explores: True to weight bounds by the probability of being feasible; False to exclude
                points below the threshold.

        Returns:
            The search; the feasibility at the time, None without outcome constraints; and True if
            some point is feasible. If none is, the search maximizes the probability of it.
        """
        space, seed = problem.space, decision_seed(self.seed, index)
        now = self._time_of(problem, index)
        posterior = ExactPosterior.of(problem.model, X_pending=X_pending).at_time(now)
        starts = starts_of(space, self.raw_samples or NUM_STARTS, seed, problem.held)
        search = ConfidenceSearch(
            posterior,
            Region.of(space, problem.held),
            RIVAL_CORRELATION,
            starts=starts,
            seed=seed,
            num_restarts=self.num_restarts or ConfidenceSearch.num_restarts,
        )
        if not problem.constraints:
            return search, None, True
        feasibility = Feasibility.of(
            problem.constraints,
            lambda model: ExactPosterior.of(model, X_pending=X_pending).at_time(now),
        )
        threshold = self.feasibility_threshold
        is_any_feasible = bool((feasibility.probability(starts) >= threshold).any())
        with torch.no_grad():
            worst = posterior(starts)[0].min()
        log_threshold = 0.0 if explores else math.log(threshold)

        def counted(X: Tensor, values: Tensor) -> Tensor:
            log_p = feasibility.log_probability(X)
            if not is_any_feasible:
                return log_p
            return feasibility_weighted(values, log_p, worst, log_threshold, not explores)

        def shortfall(X: Tensor) -> Tensor:
            # Infeasible points are never deployed, so they are no rivals.
            return threshold - feasibility.log_probability(X).exp()

        return replace(search, counted=counted, shortfall=shortfall), feasibility, is_any_feasible


@dataclass(frozen=True)
class MeasurementCosts(DeclaredOrLearned):
    """Costs of measurements, of trials that may go without."""

    def expected(self, problem: Problem, rows: Sequence[Row]) -> list[float | None]:
        """Return the expected costs of measurements; None before the first report of a cost."""
        if self.metric is None:
            return [cost_of(self.searched, row) for row in rows]
        try:
            return super().expected(problem, rows)
        except NothingToLearnFrom:
            return [None] * len(rows)

    def reserved(self, problem: Problem, initial: bool) -> list[float]:
        """Return the expected costs of undelivered decisions, zero without a measurement."""
        batch = [pending for pending in problem.pending if pending.trial_index is None]
        costs = self.expected(problem, [other.parameters for other in batch])
        return [(cost or 0.0) * other.measure for cost, other in zip(costs, batch, strict=True)]

    def largest(self, problem: Problem) -> None:
        """Return no limit: trials without an affordable measurement are not measured."""
