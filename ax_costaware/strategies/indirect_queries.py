"""The indirect-query strategy: what to ask next, where answers are averages of what is wanted.

Clinics report averages, satellites report coarse pixels, and what is wanted is the best point. Each
trial asks the query whose answer is expected to tell most about it (Zhang et al. 2024, "Indirect
Query Bayesian Optimization with Integrated Feedback").
"""

from __future__ import annotations

from collections.abc import Sequence

from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.generation_strategy.generation_strategy import GenerationStrategy

from ax_costaware.ax_bridge.checks import ax_errors
from ax_costaware.ax_bridge.records import parameters_of_configs
from ax_costaware.ax_bridge.strategy import strategy_of
from ax_costaware.methods.averages import Information
from ax_costaware.methods.averages.indirect_queries import IndirectQueries
from ax_costaware.methods.model import FixedHyperparameters
from ax_costaware.queries.conditionals import Conditional
from ax_costaware.queries.costs import Cost


@ax_errors()
def indirect_query_strategy(
    target_parameters: Sequence[RangeParameterConfig | ChoiceParameterConfig],
    conditional: Conditional,
    cost: float | Cost = 1.0,
    budget: float | None = None,
    query_parameters: Sequence[str] | None = None,
    acquisition: Information = "max_value_entropy",
    initial_trials: int = 5,
    charge_initial: bool = True,
    hyperparameters: FixedHyperparameters | None = None,
    seed: int = 0,
    num_samples: int = 32,
    num_restarts: int | None = None,
    raw_samples: int | None = None,
) -> GenerationStrategy:
    """A strategy that asks what tells most about the best point, and is answered by averages.

    The parameters of the Ax experiment are those of the queries, and its metric is the answer: the
    average of the objective over the points that a query reaches. ``recommend(client)`` says which
    point is best, in terms of ``target_parameters``, and what to expect there.

    Args:
        target_parameters: The parameters of the points, as Ax's configurations, in the order of the
            conditional's columns of X. They are no parameters of the experiment, and may have the
            names of such.
        conditional: The law of a point given a query: ``GaussianConditional``,
            ``UniformBoxConditional``, ``FiniteConditional`` for policies over arms, or
            ``LearnedConditional`` from pairs of points and queries, to which ``add_pairs`` adds
            while the experiment runs. Bounds that it lacks are those of ``target_parameters``. A
            column of X for a choice without an order has the position of the value in it. The
            points of a ``FiniteConditional`` are all that can be recommended.
        cost: What a query costs, in a unit of your own: a number, or a value object such as
            ``AffineCost({"patients": 2.5})`` by the names of the experiment's parameters. Queries
            are then compared by information per unit of cost.
        budget: What all trials may cost together. When what is left pays for no query, asking for
            one raises ``OptimizationShouldStop``, which says what to deploy. None: no limit.
        query_parameters: Names of the experiment's parameters in the order of the conditional's
            query columns; None: in the experiment's own order.
        acquisition: What a query is to tell of: ``"max_value_entropy"``, the best point's value
            (CMES, as published); ``"max_value_entropy_noise_aware"``, the same with an account of
            the answer's noise; or ``"joint_entropy"``, the best point together with its value,
            which also decides where no query tells of the value (less than 1e-6 nats).
        initial_trials: Quasi-random queries before the model decides. With 0 the experiment needs a
            trial with data, attached, before the first is asked for.
        charge_initial: Whether the initial trials are paid from the budget.
        hyperparameters: ``FixedHyperparameters`` of the model of the objective over the points, on
            the unit cube of the target parameters; None: fitted to the answers.
        seed: Seed of everything random. Two runs with one seed and the same outcomes agree.
        num_samples: Sampled optima over which the information is averaged.
        num_restarts: Local searches for the query; None for the method's default.
        raw_samples: Queries from the best of which these start; None for the method's default.

    Returns:
        A generation strategy for ``Client.set_generation_strategy``, ``AxClient`` or an
        ``Orchestrator``.

    Raises:
        UserInputError: If an argument has a value that the method cannot use. Whether the
            arguments fit the experiment is checked when the first trial is asked for.
    """
    settings = locals()
    settings["target_parameters"] = parameters_of_configs(target_parameters)
    return strategy_of(IndirectQueries(**settings))
