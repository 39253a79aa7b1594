"""What to deploy after an experiment, or in the middle of one: ``recommend``.

With control sets the recommendation maximises the expected value of the objective under the fitted
model's posterior mean: for every control set the controlled values with the best
``E[mu(x_I, X_-I)]`` over the marginals of the uncontrolled inputs (Tay et al. 2023, the expected
objective of Equation 1, with the posterior mean for the unknown function). Where a trial controls
everything, it is the evaluated point with the best posterior mean, of those that are likely to be
feasible where there are outcome constraints; with costly feedback, where an
old value need not hold any more, the point with the best posterior mean at the time of the next
trial. Where trials are queries that are answered by averages, it is the point with the best
posterior mean of the objective itself, in the space of the target parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ax.core.observation import ObservationFeatures
from ax.core.types import TParamValue
from ax.exceptions.core import DataRequiredError, UserInputError

from ax_costaware.argument_checks import instance_of, positive_number_or_none
from ax_costaware.ax_bridge.client import SessionClient, holding_lock, open_session
from ax_costaware.ax_bridge.node import fitted_problem, node_of
from ax_costaware.core.problem import feasibility_text
from ax_costaware.display import display_cost, display_number, display_values
from ax_costaware.space.parameters import check_fixed

_ALTERNATIVES_SHOWN = 10


@dataclass(frozen=True)
class Recommendation:
    """Values to set, and what to expect of deploying them."""

    control_set: str | None
    """Name of the control set; None for a method without control sets."""

    parameters: dict[str, TParamValue]
    """Values to set, in the parameters' own units; the other parameters, if there are any, are
    left to chance."""

    expected_value: float
    """Posterior mean of the objective, in its own unit and sign; with control sets, of its
    expectation over the uncontrolled parameters."""

    standard_deviation: float
    """Posterior standard deviation of that: how uncertain the model is about it, not how much
    single outcomes vary."""

    expected_cost: float | None
    """Expected cost of a trial at these values, in the user's own unit; None while nothing is known
    of it, and for a method whose trials are queries, and what is deployed is none."""

    alternatives: tuple[Recommendation, ...] = ()
    """What else could be deployed, best first: the best that every other control set can do, or,
    without control sets, the other points that were evaluated, feasible ones first; with
    fidelities the other inputs at the target; with costly feedback or indirect queries, the other
    local optima of the posterior mean."""

    feasibility: float | None = None
    """Probability that all outcome constraints hold; None for an experiment without."""

    trial_index: int | None = None
    """The trial that evaluated it; None if none did, as where the model knows better or where what
    is deployed is no trial."""

    def __str__(self) -> str:
        shown = self.alternatives[:_ALTERNATIVES_SHOWN]
        lines = [_describe(self), *(f"  or {_describe(other)}" for other in shown)]
        if more := len(self.alternatives) - len(shown):
            lines.append(f"  and {more} more")
        return "\n".join(lines)


@holding_lock
def recommend(
    client: SessionClient,
    max_cost: float | None = None,
    fixed_parameters: Mapping[str, TParamValue] | None = None,
) -> Recommendation:
    """What to deploy under the current model, and the alternatives.

    The model is fitted to all data reported so far, also if the strategy still generates its
    initial trials. Nothing in the experiment changes.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.
        max_cost: What a trial there may be expected to cost, for those who deploy it again and
            again; None for no limit. The best of what costs no more comes first, and what costs
            more is left out, as is what has no expected cost.
        fixed_parameters: Known values of parameters, by name, such as the weather of the day; None
            for none. What is deployed has them. With control sets those that some control set
            controls are set, and of the others, which the day gives, the expectation is given
            their values. With averages they are parameters of the points, not of the queries.

    Raises:
        UserInputError: If no trial has been completed with data yet, or one lacks what its outcome
            is to be learned with; if the strategy is not one of this package; if ``max_cost`` is
            not a finite number > 0, or below the cost of everything that could be deployed; if
            ``fixed_parameters`` names no parameter, or none of its values, a fidelity elsewhere
            than at the target, or more than one control set controls.
    """
    session = open_session(client)
    expected = "a mapping from the names of parameters to their values, or None"
    instance_of(fixed_parameters, "fixed_parameters", Mapping | None, expected)
    limit = positive_number_or_none(max_cost, "max_cost")
    node, given = node_of(session.strategy), dict(fixed_parameters or {})
    latent = node.method.latent
    if latent:
        check_fixed(given, latent, [*latent], "the points that are deployed")
    fixed = ObservationFeatures(parameters={} if latent else given)
    try:
        problem = fitted_problem(session.experiment, session.strategy, fixed)
    except DataRequiredError as error:
        raise UserInputError(
            "the experiment has no data for its objective yet, or for a metric that has bounds: "
            "complete a trial with its outcome before asking for a recommendation."
        ) from error
    ranked = [
        Recommendation(
            control_set=best.control_set,
            parameters=dict(best.parameters),
            expected_value=best.mean,
            standard_deviation=best.standard_deviation,
            expected_cost=best.expected_cost,
            feasibility=best.feasibility,
            trial_index=best.trial_index,
        )
        for best in node.loop.recommend(replace(problem, deployed_at=given if latent else {}))
    ]
    if limit is not None:
        costs = [found.expected_cost for found in ranked if found.expected_cost is not None]
        ranked = [r for r in ranked if r.expected_cost is not None and r.expected_cost <= limit]
        if not ranked:
            least = f"at least {min(costs):.6g}, the least" if costs else "None, for nothing has an"
            raise UserInputError(
                f"max_cost={max_cost!r}: expected {least} expected cost of what could be deployed."
            )
    return replace(ranked[0], alternatives=tuple(ranked[1:]))


def _describe(recommendation: Recommendation) -> str:
    cost = recommendation.expected_cost
    shown = "" if cost is None else f" {display_cost(recommendation.control_set, cost)}"
    return (
        f"{display_values(recommendation.parameters)}{shown}: expected value "
        f"{display_number(recommendation.expected_value)}, standard deviation "
        f"{display_number(recommendation.standard_deviation)}"
        f"{feasibility_text(recommendation.feasibility)}"
    )
