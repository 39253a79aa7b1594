"""Whether the next trial of an experiment would be worth its cost: ``should_stop``.

The check is the decision of the Gittins strategy, without making it: the best posterior mean at an
evaluated point against the largest Gittins index (Xie et al. 2024, "Cost-aware Bayesian
Optimization via the Pandora's Box Gittins Index"). It works on an experiment that any strategy
runs.
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
from ax_costaware.ax_bridge.surrogates import model_of
from ax_costaware.core import FixedHyperparameters
from ax_costaware.core.problem import feasibility_text
from ax_costaware.display import display_number, display_values
from ax_costaware.methods import CostAware
from ax_costaware.methods.gittins import StopRule
from ax_costaware.methods.priced import CostArgument


@dataclass(frozen=True)
class StopAssessment:
    """Whether to stop now, and why; values are in the objective's own unit and sign."""

    stop: bool
    """Whether no trial is worth its cost, or none can be paid."""

    index: float | None
    """The largest Gittins index of the trials that can be paid, or that of the one with the largest
    expected improvement per cost, where that is what is looked at; None where none can be paid, or
    nothing is feasible yet."""

    incumbent: float
    """The best posterior mean at an evaluated point."""

    incumbent_trial: int | None
    """The trial that evaluated it; None if none did, as where none is in the search space."""

    lmbda: float | None
    """What one unit of cost is worth, in units of the objective; None where ``index`` is."""

    spent: float
    """What was spent, reservations for unfinished trials included."""

    remaining: float | None
    """What is left of the budget; None without one."""

    parameters: dict[str, TParamValue]
    """The incumbent's parameterization: what to deploy."""

    reason: str
    """The reason, as a sentence."""

    feasibility: float | None = None
    """Probability that the incumbent keeps to all outcome constraints; None without any."""

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
    lmbda: float | None = None,
    budget: float | None = None,
    surrogate_spec: SurrogateSpec | FixedHyperparameters | None = None,
    seed: int | None = None,
) -> StopAssessment:
    """Whether another trial would be worth its cost, on an experiment that any strategy runs.

    The model is fitted to all data reported so far. Nothing in the experiment changes. What a
    strategy of ``cost_aware_strategy`` was told need not be told again, and arguments override
    it; a strategy that never stops by itself is asked whether it would by ``GittinsStop`` at the
    lambda in force.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.
        cost: What a trial costs, as in ``cost_aware_strategy``.
        lmbda: What one unit of cost is worth, in units of the objective.
        budget: What all trials may cost together. Where ``lmbda`` is not given, and the strategy
            holds none, it is the one at which just what is left would be spent: then there is no
            other reason to stop than that the budget is used up. So it is in place of a decay, too,
            but for that of a strategy with a budget of its own.
        surrogate_spec: The model of the objective; None for the strategy's, or Ax's default GP.
        seed: Seed of everything random; None for the strategy's, or 0.

    Raises:
        UserInputError: If no trial has an outcome yet, or none its cost where costs are learned;
            if ``cost``, or both ``lmbda`` and ``budget``, are missing for a strategy that does not
            have them; or if the experiment does not fit them.
        UnsupportedError: If the experiment asks for what the method does not do, or its outcomes
            are averages of what is wanted, or of several fidelities.
    """
    session = open_session(client)
    method, given_spec = _method_and_surrogate(session)
    if method is None:
        if cost is None:
            raise UserInputError(
                "cost=None: the experiment's strategy is not one of cost_aware_strategy, so say "
                "what a trial costs, and with lmbda or budget what that is worth."
            )
        method = method_to_check(cost, lmbda, budget, seed=seed or 0)
    else:
        given: dict[str, Any] = {"cost": cost, "budget": budget, "seed": seed}
        given = {name: value for name, value in given.items() if value is not None}
        # The price that a budget comes to takes the place of a decay.
        is_priced = budget is not None and method.budget is None
        method = method.priced_anew(**given) if is_priced else replace(method, **given)
        if lmbda is not None:
            # It takes the place of a decay, and of a price that the rule brings.
            rule = method.stop
            rule = replace(rule, lmbda=None) if isinstance(rule, StopRule) else rule
            method = method.priced_anew(lmbda=lmbda, stop=rule)
    model = model_of(method, surrogate_spec or given_spec)
    method = method.settled([model])
    try:
        assessment = assess_experiment(session.experiment, method, model)
    except DataRequiredError as error:
        raise UserInputError(f"nothing to assess yet: {error}") from error
    index, price = assessment.compared or (None, None)
    return StopAssessment(
        stop=assessment.stop,
        index=index,
        incumbent=assessment.incumbent,
        incumbent_trial=assessment.incumbent_trial,
        lmbda=price,
        spent=assessment.money.spent,
        remaining=assessment.money.remaining,
        parameters=assessment.incumbent_parameters,
        reason=f"{assessment.reason[0].upper()}{assessment.reason[1:]}.",
        feasibility=assessment.feasibility,
    )


def _method_and_surrogate(
    session: Session,
) -> tuple[CostAware | None, SurrogateSpec | FixedHyperparameters | None]:
    """The method and the surrogate of a Gittins strategy; None for any other."""
    try:
        method = method_of(session.strategy)
    except UserInputError:
        return None, None
    if method.should_stop_unsupported is not None:
        raise UnsupportedError(
            f"the outcomes of this experiment are {method.should_stop_unsupported}, and the check "
            "is of the best of them, which is not what is best to deploy: see what "
            "recommend(client) says of its standard deviation."
        )
    if not isinstance(method, CostAware):
        return None, None
    return method, node_of(session.strategy).surrogate_spec
