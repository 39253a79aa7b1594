"""Recommendation of what to deploy: ``recommend``.

- control sets: per control set, the values that maximize ``E[mu(x_I, X_-I)]``
- all inputs controlled: the evaluated point with the best posterior mean
- costly feedback: the best posterior mean at the time of the next trial
- indirect queries: the best posterior mean over the target parameters

``mu`` is the posterior mean; the expectation is over the uncontrolled inputs (Tay et al. 2023,
Equation 1). With outcome constraints only points that are likely to be feasible count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

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
    """Values to set, in the parameters' own units; other parameters are uncontrolled."""

    expected_value: float
    """Posterior mean of the objective, in its own unit and sign; with control sets, of its
    expectation over the uncontrolled parameters."""

    standard_deviation: float
    """Posterior standard deviation of that value: the uncertainty of the model, not the spread of
    single outcomes."""

    expected_cost: float | None
    """Expected cost of a trial at these values, in the user's own unit. None if no cost is known
    yet, or if what is deployed is no trial, as with indirect queries."""

    alternatives: tuple[Recommendation, ...] = ()
    """Alternatives, best first. With control sets: the optimum of every other control set. Without:
    the other evaluated points, feasible ones first. With fidelities: the other inputs at the
    target. With costly feedback or indirect queries: the other local optima of the posterior
    mean. With several objectives: the other points of the front."""

    feasibility: float | None = None
    """Probability that all outcome constraints hold; None without constraints."""

    trial_index: int | None = None
    """Trial that evaluated the point; None if no trial did."""

    expected_values: Mapping[str, float] = field(default_factory=dict)
    """Posterior mean of each objective by name, if there are several; ``expected_value`` is the
    first."""

    standard_deviations: Mapping[str, float] = field(default_factory=dict)
    """Posterior standard deviation of each, if there are several."""

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
    weights: Mapping[str, float] | None = None,
) -> Recommendation:
    """Return what to deploy under the current model, with alternatives.

    The model is fitted to all data reported so far, also during the initial design. Nothing in the
    experiment changes.

    Args:
        client: An Ax ``Client``, an ``AxClient``, or a tuple ``(Experiment, GenerationStrategy)``.
        max_cost: Largest expected cost of a trial at the deployed point; None for no limit. The
            best point within the limit comes first. Points that cost more, or have no expected
            cost, are left out.
        fixed_parameters: Known values of parameters, by name, such as the weather of the day; None
            for none. The deployed point has them. With control sets, a parameter that some control
            set controls is set; for any other the expectation is conditional on its value. With
            averages they are parameters of the points, not of the queries.
        weights: Weights of several objectives by name, >= 0, such as ``{"accuracy": 3, "energy":
            1}``. The first point of the front is the nearest to the best values of all objectives,
            by the weighted Chebyshev distance relative to the range of the front. None: equal
            weights.

    Raises:
        UserInputError: If no trial has been completed with data yet, or a trial lacks a metric that
            its outcome is learned with; if the strategy is not one of this package; if ``max_cost``
            is not a finite number > 0, or below the cost of every deployable point; or if
            ``fixed_parameters`` has an unknown name, a value that does not fit, a fidelity other
            than the target, or names that no single control set controls; or if ``weights`` do not
            fit the objectives.
    """
    session = open_session(client)
    expected = "a mapping from the names of parameters to their values, or None"
    instance_of(fixed_parameters, "fixed_parameters", Mapping | None, expected)
    limit = positive_number_or_none(max_cost, "max_cost")
    expected = "a mapping from the names of objectives to numbers, or None"
    instance_of(weights, "weights", Mapping | None, expected)
    node, given = node_of(session.strategy), dict(fixed_parameters or {})
    latent = node.method.traits.latent
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
            parameters=problem.space.hierarchy.active(best.parameters),
            expected_value=best.mean,
            standard_deviation=best.standard_deviation,
            expected_cost=best.expected_cost,
            feasibility=best.feasibility,
            trial_index=best.trial_index,
            expected_values=dict(best.means),
            standard_deviations=dict(best.standard_deviations),
        )
        for best in node.loop.recommend(
            replace(problem, deployed_at=given if latent else {}, weights=dict(weights or {}))
        )
    ]
    if limit is not None:
        costs = [found.expected_cost for found in ranked if found.expected_cost is not None]
        ranked = [r for r in ranked if r.expected_cost is not None and r.expected_cost <= limit]
        if not ranked:
            smallest = "None, since no deployment has an expected cost"
            if costs:
                smallest = f"at least {min(costs):.6g}, the smallest expected cost of a deployment"
            raise UserInputError(f"max_cost={max_cost!r}: expected {smallest}.")
    return replace(ranked[0], alternatives=tuple(ranked[1:]))


def _describe(recommendation: Recommendation) -> str:
    cost = recommendation.expected_cost
    shown = "" if cost is None else f" {display_cost(recommendation.control_set, cost)}"
    value = (
        f"expected value {display_number(recommendation.expected_value)}, standard deviation "
        f"{display_number(recommendation.standard_deviation)}"
    )
    if values := recommendation.expected_values:
        deviations = map(display_number, recommendation.standard_deviations.values())
        pairs = zip(values.items(), deviations, strict=True)
        each = ", ".join(f"{name} {display_number(x)} ± {sd}" for (name, x), sd in pairs)
        value = f"expected values {each}"
    return (
        f"{display_values(recommendation.parameters)}{shown}: {value}"
        f"{feasibility_text(recommendation.feasibility)}"
    )
