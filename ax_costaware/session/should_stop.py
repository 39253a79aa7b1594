"""Stopping rule for an experiment that any strategy runs: ``should_stop``.

The rule is that of the Gittins strategy: stop if the largest Gittins index is no better than the
best posterior mean at an evaluated point (Xie et al. 2024, "Cost-aware Bayesian Optimization via
the Pandora's Box Gittins Index").
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ax.core.types import TParamValue
from ax.exceptions.core import DataRequiredError, UnsupportedError, UserInputError
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec

from ax_costaware.ax_bridge.client import Session, SessionClient, holding_lock, open_session
from ax_costaware.ax_bridge.node import method_of, node_of
from ax_costaware.ax_bridge.stopping import assess_experiment, method_to_check
from ax_costaware.ax_bridge.surrogates import given_model, model_of
from ax_costaware.core import FixedHyperparameters
from ax_costaware.core.problem import feasibility_text
from ax_costaware.display import display_number, display_values
from ax_costaware.methods import CostAware, StandardizedPrice
from ax_costaware.methods.costed import CostArgument


@dataclass(frozen=True)
class StopAssessment:
    """Verdict of the stopping rule, with its reason; values have the objective's unit and sign."""

    stop: bool
    """True if no trial is worth its cost, or none can be paid."""

    index: float | None
    """Largest Gittins index of the affordable trials. If the rule uses expected improvement per
    cost: the index of the trial that maximizes it. None if no trial is affordable, or nothing is
    feasible yet."""

    incumbent: float
    """Best posterior mean at an evaluated point."""

    incumbent_trial: int | None
    """Trial that evaluated the incumbent; None if no trial did, for example if none is in the
    search space."""

    lmbda: float | None
    """Value of one unit of cost, in units of the objective; None where ``index`` is."""

    spent: float
    """Amount spent, including reservations for unfinished trials."""

    remaining: float | None
    """Remaining budget; None without a budget."""

    parameters: dict[str, TParamValue]
    """Parameterization of the incumbent: what to deploy."""

    reason: str
    """Reason, as a sentence."""

    feasibility: float | None = None
    """Probability that the incumbent satisfies all outcome constraints; None without any."""

    def __str__(self) -> str:
        compared = ""
        where = "not tried yet"
        if self.incumbent_trial is not None:
            where = f"trial {self.incumbent_trial}"
        if self.index is not None:
            index, mean = display_number(self.index), display_number(self.incumbent)
            compared = f" Largest index {index}, best posterior mean {mean}."
        return (
            f"{'Stop' if self.stop else 'Go on'}. {self.reason}{compared} Best so far: "
            f"{where}, {display_values(self.parameters)}{feasibility_text(self.feasibility)}."
        )


@holding_lock
def should_stop(
    client: SessionClient,
    cost: CostArgument | None = None,
    lmbda: float | StandardizedPrice | None = None,
    budget: float | None = None,
    surrogate_spec: SurrogateSpec | FixedHyperparameters | None = None,
    seed: int | None = None,
) -> StopAssessment:
    """Test if another trial is worth its cost, on an experiment that any strategy runs.

    The model is fitted to all data reported so far. Nothing in the experiment changes. Settings of
    a ``cost_aware_strategy`` are taken from the strategy; arguments override them. For a strategy
    without a stopping rule the rule is ``GittinsStop`` at the current lambda.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.
        cost: Cost of a trial, as in ``cost_aware_strategy``.
        lmbda: Value of one unit of cost, in units of the objective.
        budget: Budget of all trials together. Without a ``lmbda`` here or in the strategy, lambda
            is the price at which exactly the remaining budget would be spent. Then the only reason
            to stop is that the budget is used up. This price also replaces a decay, except that of
            a strategy with its own budget.
        surrogate_spec: The model of the objective; None for the strategy's, or Ax's default GP.
        seed: Seed of all random numbers; None for the strategy's, or 0.

    Raises:
        UserInputError: If no trial has an outcome yet, or none has a cost where costs are learned;
            if ``cost``, or both ``lmbda`` and ``budget``, are missing for a strategy that does not
            have them; or if the experiment does not fit them.
        UnsupportedError: If the method does not support the experiment, or if outcomes are averages
            or of several fidelities.
    """
    session = open_session(client)
    method, given_spec = _method_and_surrogate(session)
    if method is None:
        if cost is None:
            raise UserInputError(
                "cost=None: the experiment's strategy is not one of cost_aware_strategy. Expected "
                "the cost of a trial, and lmbda or budget."
            )
        method = method_to_check(cost, lmbda, budget, seed=seed or 0)
    else:
        given: dict[str, Any] = {"cost": cost, "budget": budget, "seed": seed}
        given = {name: value for name, value in given.items() if value is not None}
        # The price that follows from a budget replaces a decay.
        is_priced = budget is not None and method.budget is None
        method = method.with_lambda_source(**given) if is_priced else replace(method, **given)
        if lmbda is not None:
            method = method.with_lambda_source(lmbda=lmbda)
    spec = surrogate_spec or given_spec
    method = method.configured_for(model_of(method, spec))
    try:
        assessment = assess_experiment(session.experiment, method, given_model(spec))
    except DataRequiredError as error:
        raise UserInputError(f"nothing to assess yet: {error}") from error
    index, price = assessment.index_and_price or (None, None)
    return StopAssessment(
        stop=assessment.stop,
        index=index,
        incumbent=assessment.incumbent,
        incumbent_trial=assessment.incumbent_trial,
        lmbda=price,
        spent=assessment.budget_state.spent,
        remaining=assessment.budget_state.remaining,
        parameters=assessment.incumbent_parameters,
        reason=f"{assessment.reason[0].upper()}{assessment.reason[1:]}.",
        feasibility=assessment.feasibility,
    )


def _method_and_surrogate(
    session: Session,
) -> tuple[CostAware | None, SurrogateSpec | FixedHyperparameters | None]:
    """Return the method and the surrogate of a Gittins strategy; None for any other."""
    try:
        method = method_of(session.strategy)
    except UserInputError:
        return None, None
    unsupported = method.traits.should_stop_unsupported
    if unsupported is not None:
        raise UnsupportedError(
            f"the outcomes of this experiment are {unsupported}. The rule is "
            "about the best outcome, which is not the best deployment here: see the "
            "standard_deviation of recommend(client)."
        )
    if not isinstance(method, CostAware):
        return None, None
    return method, node_of(session.strategy).surrogate_spec
