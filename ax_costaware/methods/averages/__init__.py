"""What the methods share whose trials are averages of what is wanted.

A trial is a query; its outcome is the average of the objective over the points that the query
reaches. What is wanted is the best point (Zhang et al. 2024, "Indirect Query Bayesian Optimization
with Integrated Feedback"). Costs and the budget are in the user's own unit of cost. Inside, values
are on the scale of the model; what is recorded is in the objective's own unit.
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
from ax_costaware.core.method import Method
from ax_costaware.core.model import ARGUMENT, FixedHyperparameters, ModelOptions
from ax_costaware.core.problem import (
    Array,
    Best,
    Decision,
    Problem,
    Stop,
    decision_seed,
    feasibility_text,
)
from ax_costaware.exceptions import InputError
from ax_costaware.laws import Conditional
from ax_costaware.methods.averages.deployment import best_points, recommendation_record
from ax_costaware.methods.averages.information import (
    MIN_INFORMATION,
    Information,
    information_of,
    little_left,
    posterior,
)
from ax_costaware.methods.averages.law import (
    DecodedConditional,
    checked_latent_parameters,
    grown,
    latent_space,
    latent_transform,
    pairs_of,
)
from ax_costaware.methods.stopping import NUM_AHEAD, at_price
from ax_costaware.models.conditional_mean_process import ConditionalMeanProcess
from ax_costaware.models.fixed_hyperparameters import FixedConditionalMeanProcess
from ax_costaware.models.posterior import ExactPosterior
from ax_costaware.space.parameters import Choice, FreeParameter, Row

if TYPE_CHECKING:
    from ax_costaware.methods.resolution_tree.tree import Cell


@dataclass(frozen=True)
class Region:
    """Which queries may be asked, in the model's space."""

    starts: Tensor
    """``m x p`` valid queries all over it, each of which can be paid."""

    cells: tuple[Cell, ...] = ()
    """The cells of a tree that the starts are, where there are no other queries."""

    known: Mapping[str, int] = field(default_factory=dict)
    """What is recorded beside the decision."""


ChosenQuery: TypeAlias = tuple[Optimum[float], str, Mapping[str, Any]]
"""What ``AverageQueries.choose`` returns."""


@dataclass(frozen=True, kw_only=True)
class AverageQueries(Method):
    """What all strategies have in common whose trials are averages.

    Raises:
        InputError: On construction, when a field has a value that the method cannot use.
    """

    factory: ClassVar[str] = "indirect_query_strategy or ax_costaware.resolution_tree_strategy"

    measures_points: ClassVar[bool] = False

    should_stop_unsupported: ClassVar[str | None] = "averages"

    refuses_constraints: ClassVar[str | None] = None

    are_cells: ClassVar[bool] = False
    """Whether queries are boxes, whose half-widths ``reach`` gives in place of deviations."""

    target_parameters: tuple[FreeParameter, ...]
    """The parameters of the points, among which the best one is wanted."""

    acquisition: Information = "max_value_entropy"
    """What a query is chosen to tell of."""

    hyperparameters: FixedHyperparameters | None = None
    """Hyperparameters of the model of the objective over the points; None: fitted."""

    num_samples: int = 32
    """Sampled optima over which the information is averaged."""

    lmbda: float | None = None
    """What one unit of cost is worth, in units of the objective: when further queries are not worth
    their cost, there are none. None: only the budget ends a run."""

    def __post_init__(self) -> None:
        check_fields(
            self,
            lmbda=optional(positive_number),
            target_parameters=checked_latent_parameters,
            num_samples=at_least(1),
        )
        super().__post_init__()
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
        """The law of a point given a query, on the points that there are."""

    @property
    def noise(self) -> Callable[[Tensor], Tensor] | None:
        """Variance of the observation noise at queries ``n x p`` in raw units; None: fitted."""
        return None

    @abstractmethod
    def query_names(self, parameters: Iterable[str]) -> tuple[str, ...]:
        """The parameters of the query in the order of the law's query columns.

        Args:
            parameters: Names of the experiment's parameters, in its order.
        """

    @abstractmethod
    def region(self, problem: Problem, state: BudgetState, seed: int) -> Region:
        """Which queries may be asked; without starts where none can be paid.

        Raises:
            InputError: If there are none whatever they cost.
        """

    @abstractmethod
    def choose(
        self, problem: Problem, region: Region, information: AcquisitionFunction, state: BudgetState
    ) -> ChosenQuery:
        """Return the query of most information per unit of cost, of those that can be paid.

        Returns:
            The query in the model's space, ``p``, and what its answer is expected to tell, in nats;
            why it was chosen, as a sentence that begins with ``It``; what is recorded besides.
        """

    @abstractmethod
    def ahead(self, problem: Problem, region: Region, optima: Tensor) -> tuple[Tensor, Tensor]:
        """The queries that may come to be asked, ``n x p``, and what they cost, ``n``.

        Args:
            problem: The problem.
            region: Which may be asked now.
            optima: ``S x d`` points that may be the best.
        """

    def reach(self, problem: Problem, parameters: Row) -> tuple[Array, Array]:
        """Mean and standard deviation, by column, of the points that a query averages over.

        Learned weights may be below zero, and need not sum to one: those above count.
        """
        law = self.decoded_law(problem)
        (nodes,), (weights,) = law.conditional.nodes_and_weights(law.queries([parameters]))
        points, share = nodes.numpy(), weights.numpy().clip(0)
        centre = np.average(points, 0, share)
        return centre, np.sqrt(np.average((points - centre) ** 2, 0, share))

    def decoded_law(self, problem: Problem) -> DecodedConditional:
        """The law of a point given a query of the model's space, as far as it is known by now."""
        names = self.query_names(problem.space.names)
        law = grown(self.law, pairs_of(problem.pairs, self.target_names, names))
        return DecodedConditional(law, problem.space, names)

    def model(self, given: FixedHyperparameters | ModelOptions | None = None) -> ModelOptions:
        """Nothing that is given: the model follows from the law, see ``current_model``."""
        if given is not None:
            raise InputError(
                f"{ARGUMENT}={given!r}: the model of averages follows from their law; expected "
                "hyperparameters=FixedHyperparameters(...) of the method, or None."
            )
        return ModelOptions()

    def current_model(self, problem: Problem) -> ModelOptions:
        """A conditional mean process under the law that is known by now.

        Raises:
            InputError: As ``check``: what does not fit is told before it fails in the model.
        """
        self.check(problem)
        return self._model(problem, self.hyperparameters, self.noise)

    def constraint_model(self, problem: Problem) -> ModelOptions:
        """The same; hyperparameters and noise that are given are those of the objective."""
        return self._model(problem, None, None)

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
        return replace(made, normalizes=False, key=key)

    def decide(self, problem: Problem) -> Decision | Stop:
        """The query whose answer tells most about the best point, per unit of cost."""
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
                *self.ahead(problem, region, optima[0]),
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
        assert cost is not None, "what a query costs is declared"
        return Decision(
            parameters=row,
            why=(
                f"{chosen_why}{little_left(chosen.value)} The answer is expected to be "
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
                **region.known,
            },
            value=chosen.value / cost,
        )

    def recommend(self, problem: Problem) -> list[Best]:
        """The local optima of the posterior mean over the points, best first.

        They have the values of ``problem.deployed_at``. With outcome constraints, which are on
        points, those within what is feasible come first, then the others by how likely they are to
        be.

        Raises:
            InputError: If no point has these values, of those that the conditional counts.
        """
        # The seed is that of all decisions, so that the answer depends on the model alone.
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

    def expected(self, problem: Problem, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        """Posterior mean and variance of the averages that queries are answered by."""
        with torch.no_grad():
            moments = posterior(problem)(problem.space.encode(rows))
        return problem.scale.moments(*moments)

    def log_feasibility(self, problem: Problem, rows: Sequence[Row]) -> Tensor | None:
        """As for any method, of the averages that queries are answered by."""
        if not problem.constraints:
            return None
        averages = Feasibility.of(problem.constraints, ExactPosterior.of)
        with torch.no_grad():
            return averages.log_probability(problem.space.encode(rows))

    @property
    def latent(self) -> Mapping[str, FreeParameter]:
        """The parameters of the points."""
        return dict(zip(self.target_names, self.target_parameters, strict=True))

    def _latent_space(self, problem: Problem) -> LatentSpace:
        """The space of the points."""
        return latent_space(self.target_parameters, self.law, problem.space.bounds.device)

    def _to_deploy(self, problem: Problem) -> str:
        """What to deploy, as a sentence."""
        best = self.recommend(problem)[0]
        return (
            f"Deploy {best.parameters}, whose expected value is {best.mean:.6g} with a standard "
            f"deviation of {best.standard_deviation:.6g}{feasibility_text(best.feasibility)}."
        )

    def _chosen(
        self, problem: Problem, region: Region, state: BudgetState, optima: tuple[Tensor, Tensor]
    ) -> tuple[str, ChosenQuery]:
        """The query of most information, about the point, too, where none tells of the value.

        Returns:
            By which information it was chosen, and the query.
        """

        def by(acquisition: str) -> ChosenQuery:
            information = information_of(problem, optima, acquisition)
            return self.choose(problem, region, information, state)

        if problem.constraints:
            return "joint_entropy", by("joint_entropy")
        chosen = by(self.acquisition)
        if chosen[0].value >= MIN_INFORMATION or self.acquisition == "joint_entropy":
            return self.acquisition, chosen
        by_point, why, details = by("joint_entropy")
        if by_point.value <= chosen[0].value:
            return self.acquisition, chosen
        extreme = "least" if problem.minimize else "greatest"
        why = f"No answer tells of the {extreme} value by itself any more. {why}"
        return "joint_entropy", (by_point, why, details)
