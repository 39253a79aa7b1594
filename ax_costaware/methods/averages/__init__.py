"""Base of the methods whose trials observe averages of the objective.

A trial is a query. Its outcome is the average of the objective over latent points, whose
distribution depends on the query. The goal is the best latent point (Zhang et al. 2024, "Indirect
Query Bayesian Optimization with Integrated Feedback"). Costs and the budget are in the user's own
unit of cost. Inside, values are on the scale of the model; records are in the objective's own unit.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, get_args

import numpy as np
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.utils.sampling import manual_seed
from torch import Tensor

from ax_costaware.acquisition.batch_knowledge import latent_knowledge_per_cost
from ax_costaware.acquisition.feasibility import Feasibility
from ax_costaware.acquisition.latent_optima import LatentSpace, sample_optima
from ax_costaware.acquisition.optimize import Optimum
from ax_costaware.argument_checks import (
    at_least,
    check_fields,
    instance_of,
    one_of,
    optional,
    positive_number,
    set_fields,
)
from ax_costaware.core.account import BudgetState
from ax_costaware.core.method import Expected, Method
from ax_costaware.core.model import ARGUMENT, FixedHyperparameters, GivenModel, ModelOptions
from ax_costaware.core.problem import (
    Array,
    Best,
    Decision,
    Problem,
    Stop,
    decision_seed,
    feasibility_text,
)
from ax_costaware.core.switching import switching_cost
from ax_costaware.core.traits import Traits
from ax_costaware.costs.cost_model import CostModel
from ax_costaware.exceptions import InputError
from ax_costaware.laws import Conditional, LearnedConditional
from ax_costaware.methods.averages.deployment import best_points, recommendation_record
from ax_costaware.methods.averages.information import (
    MIN_INFORMATION,
    Information,
    LatentUCB,
    information_of,
    posterior,
    stop_advice,
)
from ax_costaware.methods.averages.law import (
    DecodedConditional,
    checked_latent_parameters,
    latent_space,
    latent_transform,
    pairs_of,
    with_pairs,
)
from ax_costaware.methods.stopping import NUM_AHEAD, at_price
from ax_costaware.models.conditional_mean_process import ConditionalMeanProcess
from ax_costaware.models.fixed_hyperparameters import FixedConditionalMeanProcess
from ax_costaware.models.outcome_scale import OutcomeScale
from ax_costaware.models.posterior import ExactPosterior
from ax_costaware.space.parameters import Choice, FreeParameter, Row

if TYPE_CHECKING:
    from ax_costaware.methods.resolution_tree.tree import Cell


@dataclass(frozen=True)
class Region:
    """Queries that may be asked, in the model's space."""

    starts: Tensor
    """``m x p`` valid and affordable queries that are spread over the region."""

    cells: tuple[Cell, ...] = ()
    """The cells of ``starts`` in a resolution tree, where these are all queries."""

    record: Mapping[str, int] = field(default_factory=dict)
    """Details for the record of the decision."""

    cost: CostModel | None = None
    """Cost of queries without switching costs, over the model's space; None for cells."""


ChosenQuery: TypeAlias = tuple[Optimum[float], str, Mapping[str, Any]]
"""The chosen query with its information in nats, the reason, and details for the record."""


@dataclass(frozen=True, kw_only=True)
class AverageQueries(Method):
    """Base of the methods whose trials observe averages.

    Raises:
        InputError: On construction, when a field has a value that the method cannot use.
    """

    factory: ClassVar[str] = "indirect_query_strategy or ax_costaware.resolution_tree_strategy"

    are_cells: ClassVar[bool] = False
    """True if queries are boxes, so that ``footprint`` returns their half-widths."""

    target_parameters: tuple[FreeParameter, ...] = field(kw_only=False)
    """Parameters of the latent points, in the order of the model's columns."""

    acquisition: Information | LatentUCB = "max_value_entropy"
    """Information criterion of a query.

    - ``"joint_entropy"``: about the best point and its value.
    - ``"max_value_entropy"``: about the value only (CMES and CMETS, as published). It may repeat
      one query if answers are noisy or the conditional is learned.
    - ``"max_value_entropy_noise_aware"``: the same, with the noise of the answer.

    If no query is informative about the value (1e-6 nats), joint entropy is used. ``LatentUCB`` is
    no information criterion: it asks queries about the point of the largest confidence bound,
    whatever they cost.
    """

    hyperparameters: FixedHyperparameters | None = None
    """Hyperparameters of the model of the objective over the points, on the unit cube of the target
    parameters; None: fitted to the outcomes."""

    num_samples: int = 32
    """Sampled optima over which the information is averaged."""

    lmbda: float | None = None
    """Value of one unit of cost, in units of the objective. If the expected gain of further queries
    in the best expectation is below the price of their cost, in several decisions in a row, the run
    ends. None: only the budget ends a run."""

    def __post_init__(self) -> None:
        check_fields(
            self,
            lmbda=optional(positive_number),
            target_parameters=checked_latent_parameters,
            num_samples=at_least(1),
        )
        super().__post_init__()
        if self.are_cells or not isinstance(self.acquisition, LatentUCB):
            one_of(self.acquisition, "acquisition", get_args(Information))
        given, expected = self.hyperparameters, "FixedHyperparameters, or None for fitted ones"
        instance_of(given, "hyperparameters", FixedHyperparameters | None, expected)
        if given is not None and given.kernel != "squared_exponential":
            raise InputError(
                f"hyperparameters={given!r}: expected kernel='squared_exponential', which is a "
                "product over the inputs, as averages need."
            )
        if given is None:
            return
        set_fields(self, winsorize=False)
        lengthscale, d = given.lengthscale, len(self.target_parameters)
        if isinstance(lengthscale, tuple) and len(lengthscale) != d:
            raise InputError(
                f"hyperparameters: lengthscale={lengthscale!r} has {len(lengthscale)} numbers: "
                f"expected one, or one for each of the {d} target parameters."
            )

    @property
    def traits(self) -> Traits:
        """Trials observe averages, and latent points are deployed."""
        return replace(
            super().traits,
            measures_points=False,
            should_stop_unsupported="averages",
            refuses_constraints=None,
            latent=self.latent,
        )

    @property
    def latent(self) -> dict[str, FreeParameter]:
        """Parameters of the latent points, by name."""
        return dict(zip(self.target_names, self.target_parameters, strict=True))

    @property
    def target_names(self) -> tuple[str, ...]:
        """Names of the parameters of the points, in the order of the model's columns."""
        return tuple(parameter.name for parameter in self.target_parameters)

    @property
    def target_bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Bounds of the model's columns."""
        parameters = self.target_parameters
        return tuple(p.lower for p in parameters), tuple(p.upper for p in parameters)

    @property
    @abstractmethod
    def law(self) -> Conditional:
        """Distribution of a latent point given a query, within the bounds of the points."""

    @property
    def noise_variance(self) -> Callable[[Tensor], Tensor] | None:
        """Variance of the observation noise at queries ``n x p`` in raw units; None: fitted."""
        return None

    @abstractmethod
    def query_names(self, parameters: Iterable[str]) -> tuple[str, ...]:
        """Return the parameters of the query, in the order of the conditional's query columns.

        Args:
            parameters: Names of the experiment's parameters, in its order.
        """

    @abstractmethod
    def region(self, problem: Problem, state: BudgetState, seed: int) -> Region:
        """Return the queries that may be asked; without starts if none is affordable.

        Raises:
            InputError: If there is no valid query at any cost.
        """

    @abstractmethod
    def choose(
        self, problem: Problem, region: Region, information: AcquisitionFunction, state: BudgetState
    ) -> ChosenQuery:
        """Return the affordable query of most information per unit of cost.

        Returns:
            The query in the model's space, ``p``, and its information in nats; the reason, a
            sentence that begins with ``It``; and details for the record.
        """

    @abstractmethod
    def later_queries(
        self, problem: Problem, region: Region, optima: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the queries that later trials may ask, ``n x p``, and their costs, ``n``.

        Args:
            problem: The problem.
            region: The queries that may be asked now.
            optima: ``S x d`` candidates for the best point.
        """

    def footprint(self, problem: Problem, parameters: Row) -> tuple[Array, Array]:
        """Return mean and standard deviation, by column, of the points that a query averages over.

        Learned weights may be negative and need not sum to one; negative ones count as zero.
        """
        law = self.decoded_law(problem)
        (nodes,), (weights,) = law.conditional.nodes_and_weights(law.queries([parameters]))
        points, share = nodes.numpy(), weights.numpy().clip(0)
        centre = np.average(points, 0, share)
        return centre, np.sqrt(np.average((points - centre) ** 2, 0, share))

    def decoded_law(self, problem: Problem) -> DecodedConditional:
        """Return the distribution of a point given a query, as learned so far."""
        names = self.query_names(problem.space.names)
        law = with_pairs(self.law, pairs_of(problem.pairs, self.target_names, names))
        return DecodedConditional(law, problem.space, names)

    def model(
        self, given: GivenModel = None, problem: Problem | None = None, metric: str | None = None
    ) -> ModelOptions:
        """Return a conditional mean process under the current conditional.

        Raises:
            InputError: If a model is given; and as ``check``, before an error inside the model.
        """
        if given is not None:
            raise InputError(
                f"{ARGUMENT}={given!r}: the model of averages follows from their law; expected "
                "hyperparameters=FixedHyperparameters(...) of the method, or None."
            )
        if problem is None:
            return ModelOptions()
        if metric is not None:  # hyperparameters and noise are given for the objective alone
            return self._model(problem, None, None)
        self.check(problem)
        return self._model(problem, self.hyperparameters, self.noise_variance)

    def _model(
        self,
        problem: Problem,
        given: FixedHyperparameters | None,
        noise: Callable[[Tensor], Tensor] | None,
    ) -> ModelOptions:
        law, parameters = self.decoded_law(problem), self.target_parameters
        options: dict[str, Any] = {
            "conditional": law,
            "latent_transform": latent_transform(parameters),
            "categorical": tuple(
                i for i, p in enumerate(parameters) if isinstance(p, Choice) and not p.is_ordered
            ),
        }
        if noise is not None:
            options["noise"] = lambda A: noise(law.raw(A))
        key = law.conditional
        if given is None:
            name, model_class = "ConditionalMeanProcess", ConditionalMeanProcess
            return ModelOptions(name, model_class, options, normalizes=False, key=key)
        made = given.of(FixedConditionalMeanProcess, **options)
        if isinstance(key, LearnedConditional) and not key.sampling_error:
            # As published, weights act on the prior mean, too, so that outcomes are not centered.
            scale = OutcomeScale(unit=made.given_scale.unit)
            mean = given.mean / scale.unit * (-1 if problem.minimize else 1)
            made = replace(made, given_scale=scale, options={**made.options, "mean": mean})
        return replace(made, normalizes=False, key=key)

    def decide(self, problem: Problem) -> Decision | Stop:
        """Return the query of most information about the best point per unit of cost."""
        state, seed = self.budget_state(problem), decision_seed(self.seed, problem.next_index)
        region = self.region(problem, state, seed)
        if not len(region.starts):
            return Stop(f"{self.exhausted(problem, state)} {self._to_deploy(problem)}")
        fantasized, scale = posterior(problem, pending=True), problem.scale
        space = self._latent_space(problem)
        feasibility = Feasibility.of(problem.constraints, ExactPosterior.of)
        optima = sample_optima(fantasized, space, self.num_samples, seed, feasibility)

        def gain_per_cost() -> float:
            best = best_points(problem, fantasized, space, self.feasibility_threshold, self.seed)
            return scale.unit * latent_knowledge_per_cost(
                fantasized,
                optima[0],
                optima[0].new_tensor([point for point, *_ in best]),
                *self.later_queries(problem, region, optima[0]),
                NUM_AHEAD,
                state.remaining,
                seed,
                feasibility,
            )

        stops, record = at_price(problem, self.lmbda, gain_per_cost)
        if stops is not None:
            return Stop(
                f"Stopped: {stops}. Spent {state.spent:g}. {self._to_deploy(problem)}",
                is_final=False,
            )
        acquisition, (chosen, chosen_why, details) = self._chosen(problem, region, state, optima)
        best = self.recommend(problem)[0]
        with torch.no_grad():
            moments = scale.moments(*fantasized(chosen.point.unsqueeze(0)))
        mean, variance = map(float, moments)
        (row,) = problem.space.decode(chosen.point.unsqueeze(0))
        cost = self.cost_at(row)
        if cost is None:  # it is learned
            assert region.cost is not None
            cost = float(region.cost.log_cost(chosen.point.unsqueeze(0)).exp())
        cost += switching_cost(problem, self, row)
        return Decision(
            parameters=row,
            why=(
                f"{chosen_why}{stop_advice(chosen.value)} The answer is expected to be "
                f"{mean:.6g} with a standard deviation of {variance**0.5:.6g}, "
                "before noise."
            ),
            expected_cost=cost,
            details={
                "acquisition": acquisition,
                "information": chosen.value,
                "mean": mean,
                "standard_deviation": variance**0.5,
                "cost": cost,
                "recommendation": recommendation_record(best),
                **details,
                **state.record(),
                **record,
                **region.record,
            },
            value=chosen.value / cost,
        )

    def recommend(self, problem: Problem) -> list[Best]:
        """Return the local optima of the posterior mean over latent points, best first.

        They have the values of ``problem.deployed_at``. With outcome constraints, which apply to
        latent points, feasible points come first, then the others by their probability of being
        feasible.

        Raises:
            InputError: If a finite conditional has no point with these values.
        """
        # One seed for all trials, so that the answer depends on the model alone.
        given = problem.deployed_at.items()
        values = {self.target_names.index(n): self.latent[n].encode(x) for n, x in given}
        with manual_seed(self.seed):
            try:
                space = self._latent_space(problem).held_at(values)
            except InputError as error:
                raise InputError(
                    f"fixed_parameters={dict(given)}: expected the values of a point that "
                    f"conditional={self.law!r} counts."
                ) from error
            now, threshold = posterior(problem), self.feasibility_threshold
            found = best_points(problem, now, space, threshold, self.seed)
        return [
            Best(
                {p.name: p.decode(x) for p, x in zip(self.target_parameters, row, strict=True)},
                problem.scale.from_model(m),
                problem.scale.unit * v**0.5,
                feasibility=chance,
            )
            for row, m, v, chance in found
        ]

    def expected(self, problem: Problem, rows: Sequence[Row]) -> Expected:
        """Return what is expected of the averages that queries observe."""
        X, chance = problem.space.encode(rows), None
        with torch.no_grad():
            moments = problem.scale.moments(*posterior(problem)(X))
            if problem.constraints:
                averages = Feasibility.of(problem.constraints, ExactPosterior.of)
                chance = averages.log_probability(X)
        return Expected(*moments, chance)

    def _latent_space(self, problem: Problem) -> LatentSpace:
        """Return the space of the latent points."""
        return latent_space(self.target_parameters, self.law, problem.space.bounds.device)

    def _to_deploy(self, problem: Problem) -> str:
        """Return the recommendation as a sentence."""
        best = self.recommend(problem)[0]
        return (
            f"Deploy {best.parameters}, whose expected value is {best.mean:.6g} with a standard "
            f"deviation of {best.standard_deviation:.6g}{feasibility_text(best.feasibility)}."
        )

    def _chosen(
        self, problem: Problem, region: Region, state: BudgetState, optima: tuple[Tensor, Tensor]
    ) -> tuple[str, ChosenQuery]:
        """Return the most informative query.

        Falls back to joint entropy when max-value entropy is below ``MIN_INFORMATION``.

        Returns:
            The criterion that chose it, and the query.
        """

        def by(acquisition: str) -> ChosenQuery:
            information = information_of(problem, optima, acquisition)
            return self.choose(problem, region, information, state)

        if problem.constraints:
            return "joint_entropy", by("joint_entropy")
        if isinstance(self.acquisition, LatentUCB):
            found, why, details = self.choose(problem, region, self.acquisition.of(problem), state)
            with torch.no_grad():
                A = found.point.reshape(1, 1, -1)
                nats = float(information_of(problem, optima, "joint_entropy")(A))
            return "upper_confidence_bound", (Optimum(found.point, nats), why, details)
        chosen = by(self.acquisition)
        if chosen[0].value >= MIN_INFORMATION or self.acquisition == "joint_entropy":
            return self.acquisition, chosen
        by_point, why, details = by("joint_entropy")
        if by_point.value <= chosen[0].value:
            return self.acquisition, chosen
        extreme = "least" if problem.minimize else "greatest"
        why = f"No answer tells of the {extreme} value by itself any more. {why}"
        return "joint_entropy", (by_point, why, details)
