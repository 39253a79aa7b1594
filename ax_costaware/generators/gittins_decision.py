"""A decision of the Gittins method, as it is recorded with a trial and told to the user.

Numbers of the objective are in its own unit and sign here; costs in the user's own unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ax.core.types import TParamValue

from ax_costaware.generators.gittins_settings import GittinsSettings
from ax_costaware.generators.gittins_standing import GittinsStanding


@dataclass(frozen=True)
class Incumbent:
    """The best posterior mean at an evaluated point."""

    trial_index: int
    """The trial that evaluated it."""

    parameters: dict[str, TParamValue]
    """Its parameterization, as it was realised."""

    mean: float
    """The posterior mean, in the objective's unit and sign."""


@dataclass(frozen=True)
class Chosen:
    """The point that the acquisition function prefers among the affordable ones."""

    index: float
    """Its Gittins index at the lambda in force."""

    mean: float
    """Posterior mean there."""

    standard_deviation: float
    """Posterior standard deviation there."""

    expected_cost: float
    """Expected cost of a trial there."""

    log_cost: tuple[float, float] | None
    """Mean and standard deviation of the log of the cost of the next trial, where it is learned."""


@dataclass(frozen=True)
class GittinsDecision:
    """What a decision came to, and from what."""

    where: GittinsStanding
    """Money and history."""

    incumbent: Incumbent
    """The best point in hand."""

    reason: str
    """Why to stop or to go on, as a phrase; empty where no rule was asked."""

    stop: bool = True
    """Whether the rule, or the budget, says to stop."""

    chosen: Chosen | None = None
    """The point to try next; None if nothing is affordable."""

    lmbda: float | None = None
    """The lambda in force; None if nothing is affordable."""

    next_relative_lambda: float | None = None
    """The relative lambda of the next decision; None without a decay."""

    compared: tuple[float, float] | None = None
    """The index that the stopping rule looked at, and its lambda; None where none was asked."""

    def record(self, settings: GittinsSettings) -> dict[str, Any]:
        """What is stored with the trial."""
        chosen, where = self.chosen, self.where
        assert chosen is not None
        mean, spread = (None, None) if chosen.log_cost is None else chosen.log_cost
        return {
            "expected_cost": chosen.expected_cost,
            "why": self.why(settings),
            "phase": "rule",
            "cost_metric": settings.cost_metric,
            "decision": {
                "index": chosen.index,
                "incumbent": self.incumbent.mean,
                "incumbent_trial": self.incumbent.trial_index,
                "mean": chosen.mean,
                "standard_deviation": chosen.standard_deviation,
                "lambda": self.lmbda,
                "lambda_source": settings.lambda_source,
                "relative_lambda": where.relative_lambda,
                "next_relative_lambda": self.next_relative_lambda,
                "cost_log_mean": mean,
                "cost_log_sd": spread,
                "acquisition": settings.acquisition,
                "stop_rule": None if settings.rule is None else repr(settings.rule),
                "spent": where.spent,
                "remaining": where.remaining,
            },
        }

    def why(self, settings: GittinsSettings) -> str:
        """The reason for the choice, in sentences."""
        chosen = self.chosen
        assert chosen is not None
        if settings.acquisition == "gittins":
            first = f"Its Gittins index, {chosen.index:.6g}, is the best"
        else:
            first = (
                f"It is the best by {settings.acquisition}, with the Gittins index "
                f"{chosen.index:.6g}"
            )
        return (
            f"{first} at a price of {self.lmbda:.6g} for a unit of cost "
            f"({_SOURCES[settings.lambda_source]}); the best posterior mean so far is "
            f"{self.incumbent.mean:.6g}, of trial {self.incumbent.trial_index}."
        )

    def stop_message(self, settings: GittinsSettings) -> str:
        """Why no further trial is generated, what was saved, and what to deploy."""
        parts = [f"Stopped: {self.reason}."]
        if self.compared is not None:
            index, price = self.compared
            parts.append(
                f"Largest Gittins index {index:.6g}, best posterior mean "
                f"{self.incumbent.mean:.6g}, lambda {price:.6g}."
            )
        parts.append(f"{self._money(settings)} {deploy(self.incumbent)}")
        return " ".join(parts)

    def _money(self, settings: GittinsSettings) -> str:
        where = self.where
        if where.remaining is None:
            return f"Spent {where.spent:g}."
        saved = max(where.remaining, 0.0)
        return f"Spent {where.spent:g} of {settings.budget:g}, which saves {saved:g}."


_SOURCES: Mapping[str, str] = {
    "given": "as given",
    "budget": "from the budget",
    "decay": "as it has decayed",
}


def deploy(incumbent: Incumbent) -> str:
    """What to deploy, as a sentence."""
    values = ", ".join(f"{name}={value!r}" for name, value in incumbent.parameters.items())
    return (
        f"Deploy trial {incumbent.trial_index} with {values}: expected value {incumbent.mean:.6g}."
    )
