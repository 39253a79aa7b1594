"""The Gittins strategy: what is worth its cost next, and when nothing is any more.

The Pandora's Box Gittins index of Xie, Astudillo, Frazier, Scully and Terenin 2024, "Cost-aware
Bayesian Optimization via the Pandora's Box Gittins Index" (NeurIPS): quasi-random trials, then
trials with the largest index, until the best value in hand is at least the largest index.
"""

from __future__ import annotations

from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec

from ax_costaware.ax_bridge.checks import ax_errors
from ax_costaware.ax_bridge.strategy import strategy_of
from ax_costaware.methods.gittins import CostArgument, Gittins, StopRule
from ax_costaware.methods.model import FixedHyperparameters
from ax_costaware.models.log_normal_cost import CostKind
from ax_costaware.policies.gittins import GittinsDecay


@ax_errors()
def gittins_strategy(
    cost: CostArgument,
    budget: float | None = None,
    lmbda: float | None = None,
    decay: GittinsDecay | None = None,
    stop: bool | StopRule = True,
    acquisition: str = "gittins",
    cost_model: CostKind = "gp",
    initial_trials: int = 5,
    charge_initial: bool = True,
    surrogate_spec: SurrogateSpec | FixedHyperparameters | None = None,
    seed: int = 0,
    num_restarts: int | None = None,
    raw_samples: int | None = None,
) -> GenerationStrategy:
    """A strategy that chooses the trial that is most worth its cost, and stops when none is.

    What a unit of cost is worth, ``lmbda``, is given, or found from the budget, or decays. It is
    found from what is left of the budget at the first decision of the model, as the one at which
    the method is expected to spend just that, and held; without a stopping rule it is found again
    before every decision. Where there is neither ``lmbda`` nor a budget it decays.

    Args:
        cost: What a trial costs, in a unit of your own: a number; a value object such as
            ``AffineCost({"epochs": 2.5})`` or ``TableCost("machine", {...})``; the name of the
            metric in which the cost of each trial is reported, from which it is learned
            (``complete_trial(..., cost=...)`` reports it); or a function from a parameterization
            to a number, with which the experiment cannot be stored.
        budget: What all trials may cost together. No trial is chosen that is expected to cost more
            than what is left; when that pays for no trial, asking for one raises
            ``OptimizationShouldStop``, which says what to deploy. None: no limit.
        lmbda: What one unit of cost is worth, in units of the objective: the improvement for which
            one would just pay one unit. Not together with ``decay``.
        decay: How lambda falls when no trial is worth it: ``GittinsDecay``, whose numbers are in
            standard deviations of the outcomes so far per mean cost of the trials so far, so that
            they do not depend on units.
        stop: When to stop before the budget is used up. True: by ``GittinsStop``, when the best
            posterior mean at an evaluated point is at least the largest index, unless lambda
            decays. False: never. Or a rule, ``GittinsStop`` or ``ImprovementPerCostStop``, with a
            ``lmbda`` of its own or the one in force.
        acquisition: ``"gittins"``; or a peer to compare with: ``"log_ei_per_cost"``, or
            ``"log_ei_cost_cooling"``, whose exponent of the cost is the share of the budget that
            is left.
        cost_model: How a cost is learned: ``"gp"`` or ``"linear"``, both on the log of the cost.
        initial_trials: Quasi-random trials before the model decides. With 0 the experiment needs a
            trial with data, attached, before the first is asked for.
        charge_initial: Whether the initial trials are paid from the budget.
        surrogate_spec: The model: an Ax ``SurrogateSpec``, ``FixedHyperparameters``, or None for
            Ax's default GP with fitted hyperparameters.
        seed: Seed of everything random. Two runs with one seed and the same outcomes agree.
        num_restarts: Restarts of the inner optimisation; None for Ax's default.
        raw_samples: Raw starting points of the inner optimisation; None for Ax's default.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has a value that the method cannot use. Whether the
            arguments fit the experiment is checked when the first trial is asked for.
    """
    settings = locals()
    surrogate_spec = settings.pop("surrogate_spec")
    return strategy_of(Gittins(**settings), surrogate_spec)
