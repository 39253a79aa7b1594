"""Settings of the costly-feedback method: everything that a decision depends on besides the trials.

The method is CE-GP-UCB of Wang, Ren, Bogunovic, Xiong and Urtasun 2020, "Cost-Efficient Online
Hyperparameter Optimization". A ``CostlyFeedbackSettings`` is checked when it is made, is compared
by value, and survives Ax's JSON and SQL stores. The cost of a measurement and the budget are in the
user's own unit of cost, ``beta`` has no unit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ax.core.trial import Trial
from ax.exceptions.core import UserInputError

from ax_costaware.exceptions import InputError
from ax_costaware.generators.method_settings import (
    ROUNDING,
    MethodSettings,
    check_bool,
    check_integer,
    checked_budget,
)
from ax_costaware.policies.beta import LogarithmicBeta
from ax_costaware.policies.query_rules import FeedbackRule, QueryRule
from ax_costaware.queries.argument_checks import nonnegative_number, positive_number


@dataclass(frozen=True)
class CostlyFeedbackSettings(MethodSettings):
    """What the costly-feedback strategy was asked to do.

    Raises:
        UserInputError: On construction, when a field has a value that the method cannot use.
    """

    method: ClassVar[str] = "costly_feedback_strategy"

    may_skip: ClassVar[bool] = True

    rule: FeedbackRule = field(default_factory=QueryRule)
    """Says of a trial whether its outcome is measured."""

    beta: float | LogarithmicBeta = field(default_factory=LogarithmicBeta)
    """Weight of the upper confidence bound ``mean + sqrt(beta) * sd``, or its schedule over the
    trials, of which the first is trial 1."""

    cost: float = 1.0
    """What a measurement costs."""

    budget: float | None = None
    """What the measurements may cost in total; None for no limit."""

    time: str | None = None
    """Metric in which the time of each trial is reported; None: time is the trial's index."""

    initial_trials: int = 5
    """Number of quasi-random trials, all measured, before the model decides."""

    charge_initial: bool = True
    """Whether initial trials are paid from the budget."""

    seed: int = 0
    """Seed of everything random; a decision draws from (seed, trial index)."""

    num_restarts: int | None = None
    """Restarts of the inner optimisation; None for the method's default."""

    raw_samples: int | None = None
    """Raw starting points of the inner optimisation; None for the method's default."""

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        if not isinstance(self.rule, FeedbackRule):
            raise UserInputError(f"rule={self.rule!r}: expected a rule such as QueryRule(0.9).")
        try:
            if not isinstance(self.beta, LogarithmicBeta):
                set_field(self, "beta", nonnegative_number(self.beta, "beta"))
            set_field(self, "cost", positive_number(self.cost, "cost"))
        except InputError as error:
            raise UserInputError(str(error)) from error
        set_field(self, "budget", checked_budget(self.budget))
        if self.time is not None and (not isinstance(self.time, str) or not self.time):
            raise UserInputError(
                f"time={self.time!r}: expected the name of the metric in which the time of each "
                "trial is reported, or None for the trial's index."
            )
        for name, least in (("seed", 0), ("initial_trials", 0)):
            check_integer(name, getattr(self, name), least)
        for name in ("num_restarts", "raw_samples"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), 1)
        check_bool("charge_initial", self.charge_initial)
        self._check_initial_cost()

    @property
    def cost_metric(self) -> None:
        """None: what a measurement costs is declared."""
        return None

    def control_set_of(self, trial: Trial) -> None:
        """None: every trial controls every parameter."""
        return None

    def declared_cost(self, trial: Trial) -> float:
        """What a measurement costs."""
        return self.cost

    def beta_at(self, trial_index: int) -> float:
        """Weight of the upper confidence bound for the trial of that index."""
        return self.beta(trial_index + 1) if callable(self.beta) else self.beta

    def pays(self, remaining: float | None) -> bool:
        """Whether ``remaining`` pays for a measurement, rounding allowed for."""
        if remaining is None or self.budget is None:
            return True
        return self.cost <= remaining + ROUNDING * self.budget

    def _check_initial_cost(self) -> None:
        if self.budget is None:
            return
        # One measurement at least: what the budget can never pay for is a slip.
        needed = self.cost * max(1, self.initial_trials if self.charge_initial else 1)
        if needed > self.budget * (1 + ROUNDING):
            raise UserInputError(
                f"budget={self.budget!r}: it does not pay for the measurements of "
                f"initial_trials={self.initial_trials} at cost={self.cost!r}, which take "
                f"{needed:g}: expected a larger budget, or fewer initial trials."
            )
