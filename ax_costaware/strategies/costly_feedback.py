"""The costly-feedback strategy: which values to use next, and whether to measure the outcome.

CE-GP-UCB of Wang, Ren, Bogunovic, Xiong and Urtasun 2020, "Cost-Efficient Online Hyperparameter
Optimization": something is tuned while it runs, its response to the parameters drifts, and to look
at the response costs. Every trial uses the point with the largest upper confidence bound at its
time, and is measured where that point could be mistaken for a better one.
"""

from __future__ import annotations

from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec

from ax_costaware.ax_bridge.checks import ax_errors
from ax_costaware.ax_bridge.strategy import strategy_of
from ax_costaware.methods.costly_feedback import CostlyFeedback
from ax_costaware.methods.model import FixedHyperparameters
from ax_costaware.policies.beta import LogarithmicBeta
from ax_costaware.policies.query_rules import FeedbackRule


@ax_errors()
def costly_feedback_strategy(
    rule: FeedbackRule | None = None,
    forgetting: float | None = None,
    beta: float | LogarithmicBeta | None = None,
    cost: float = 1.0,
    budget: float | None = None,
    time: str | None = None,
    initial_trials: int = 5,
    charge_initial: bool = True,
    surrogate_spec: SurrogateSpec | FixedHyperparameters | None = None,
    seed: int = 0,
    num_restarts: int | None = None,
    raw_samples: int | None = None,
) -> GenerationStrategy:
    """A strategy that chooses the values of every trial, and says whether to measure its outcome.

    ``query(client, trial_index).measure`` says whether to measure. If so, the outcome is reported
    as ever; if not, ``complete_trial(client, trial_index)`` completes the trial without one, which
    costs nothing. What is reported against the advice is used all the same.

    Trials under way that are to be measured count at their posterior mean, so that trials asked for
    together differ where they should. The strategy itself never stops.

    Args:
        rule: Says whether a trial is measured: ``QueryRule``, ``LCBUCBRule``, ``BernoulliRule``,
            ``MixedRule`` or ``FullFeedback``. A larger ``kappa`` of a ``QueryRule`` measures more.
            None: ``QueryRule()`` where the forgetting rate is given. Where it is learned,
            ``MixedRule(QueryRule(), lower=0.1, upper=1.0)``: who looks at nothing does not learn
            that things have changed, so a tenth of the trials is measured in any case.
        forgetting: How much of the objective is forgotten per unit of time, strictly between 0 and
            1: its values a time ``D`` apart have the correlation ``(1 - forgetting) ** (D / 2)``.
            None: learned with the other hyperparameters.
        beta: Weight of the upper confidence bound ``mean + sqrt(beta) * sd``: a number >= 0,
            or ``LogarithmicBeta``, which grows with the trials (None).
        cost: What a measurement costs, in a unit of your own.
        budget: What all measurements may cost together. Where what is left does not pay for one,
            trials go on without, at the point of the best posterior mean. None: no limit.
        time: What counts as time. None: the index of the trial. Else the name of a tracking metric
            under which you report when each trial was, in a unit of your own, also of trials that
            were not measured: ``complete_trial(client, i, {"hours": 3.5})``. It has to grow: hours
            since the start, not hours left. The next trial is taken to be later than the last
            report by the median step between reports.
        initial_trials: Quasi-random trials, all measured, before the model decides. With 0 the
            experiment needs a trial with data, attached, before the first is asked for.
        charge_initial: Whether the initial trials are paid from the budget.
        surrogate_spec: The model: an Ax ``SurrogateSpec`` of ``TimeVaryingGP`` or classes derived
            from it, ``FixedHyperparameters`` (with ``forgetting``), or None for a ``TimeVaryingGP``
            with fitted hyperparameters.
        seed: Seed of everything random. Two runs with one seed and the same outcomes agree.
        num_restarts: Restarts of the inner optimisation; None for the method's default.
        raw_samples: Raw starting points of the inner optimisation; None for the method's default.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has a value that the method cannot use. Whether the
            arguments fit the experiment is checked when a trial is asked for.
    """
    settings = locals()
    surrogate_spec = settings.pop("surrogate_spec")
    return strategy_of(CostlyFeedback(**settings), surrogate_spec)
