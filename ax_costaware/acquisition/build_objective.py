"""Choosing and preparing the objective of a search over control sets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.model import Model
from botorch.sampling.pathwise import get_matheron_path_model
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor

from ax_costaware.acquisition.best_queries import sample_best_queries
from ax_costaware.acquisition.conditional_objective import (
    ConditionalObjective,
    FactoredNodes,
    ModelNodes,
    NodePosterior,
    check_given,
    node_posterior,
)
from ax_costaware.acquisition.expected_ucb import (
    ExpectedLowerConfidenceBound,
    ExpectedUpperConfidenceBound,
)
from ax_costaware.acquisition.information import (
    BestQueries,
    FixedNodes,
    InformationObjective,
)
from ax_costaware.acquisition.objectives import (
    AcquisitionName,
    ControlSetObjective,
    FastObjective,
    FourierPath,
    PosteriorObjective,
)
from ax_costaware.acquisition.partial_query import PartialQuery
from ax_costaware.acquisition.partial_query_acquisition import PartialQueryAcquisition
from ax_costaware.acquisition.partial_query_bounds import ConfidenceBoundOfExpectation
from ax_costaware.acquisition.partial_query_ei import PartialQueryLogExpectedImprovement
from ax_costaware.acquisition.starts import SearchDomain
from ax_costaware.exceptions import UnsupportedInputError
from ax_costaware.models.block_sums import BlockSums
from ax_costaware.models.cached_posterior import CachedPosterior
from ax_costaware.models.point_posterior import ModelPosterior
from ax_costaware.queries.joint.law import NodesGiven
from ax_costaware.queries.nodes import ProductNodes

# Doubles held for prepared control sets at once (32 MiB), so that memory does not grow with their
# number: each needs an n x n matrix and its nodes' kernel values.
MAX_PREPARED_ELEMENTS = 2**22


@dataclass(frozen=True, eq=False)
class ObjectiveBuilder:
    """Builds the objective of a search, a slice of the control sets at a time.

    Fields as the arguments of ``optimize_control_sets``; ``controls`` are the checked control
    sets.
    """

    model: Model
    bounds: Tensor
    controls: Sequence[list[int]]
    domain: SearchDomain
    nodes: Tensor
    weights: Tensor
    beta: float
    acquisition: AcquisitionName
    product: ProductNodes | None
    posterior_transform: PosteriorTransform | None
    X_pending: Tensor | None
    best_f: float | None
    seed: int
    given: Sequence[NodesGiven | None] | None = None

    @cached_property
    def _cached(self) -> CachedPosterior | None:
        """The posterior with its factor kept, if the model is an exact GP."""
        pending = self.X_pending
        return CachedPosterior.from_model(
            self.model,
            self.posterior_transform,
            X_pending=pending if pending is not None and len(pending) else None,
        )

    @cached_property
    def _posterior(self) -> CachedPosterior | None:
        """The cached factor, where the fast path can serve this search."""
        posterior = self._cached
        if posterior is None or posterior.separable is None:
            return None
        if self.acquisition == "ts" and not _has_fourier_features(posterior):
            return None
        return posterior

    @property
    def chunk_size(self) -> int:
        """How many control sets to prepare at once."""
        if self._posterior is None:
            return len(self.controls)
        n = len(self._posterior.X)
        return max(1, MAX_PREPARED_ELEMENTS // (n * (n + len(self.weights))))

    @cached_property
    def _sizes(self) -> list[int | None]:
        """The number of nodes of each control set whose nodes depend on the point."""
        return check_given(self.given, self.controls, self.bounds.mean(dim=0))

    @property
    def parts(self) -> list[list[int]]:
        """Indices of the control sets that are searched together."""
        dependent = [index for index, size in enumerate(self._sizes) if size is not None]
        usual = [index for index, size in enumerate(self._sizes) if size is None]
        starts = range(0, len(usual), self.chunk_size)
        parts = [usual[start : start + self.chunk_size] for start in starts]
        return [*parts, dependent] if dependent else parts

    @cached_property
    def near(self) -> Tensor:
        """Points near which maxima may lie: training inputs, pending points, sampled optima."""
        if self.acquisition == "information":
            return torch.cat([self._observed, self._best_queries.points])
        return self._observed

    @cached_property
    def _observed(self) -> Tensor:
        if self._posterior is None:
            return self.bounds[:0]
        transform = self._posterior.input_transform
        X = self._posterior.X
        return X if transform is None else transform.untransform(X)

    @cached_property
    def lengths(self) -> Tensor:
        """``d`` lengths over which the function varies, at most half the range of a column."""
        span = (self.bounds[1] - self.bounds[0]).clamp_min(torch.finfo(self.bounds.dtype).eps)
        posterior = self._posterior
        if posterior is None or posterior.separable is None:
            return 0.2 * span
        kernel = posterior.separable
        transformed = posterior.transform(self.bounds)
        stretch = (transformed[1] - transformed[0]).abs() / span
        lengths = (kernel.inverse_lengthscale * stretch).clamp_min(1e-6 / span).reciprocal()
        for column, lengthscale, _ in kernel.matern:
            lengths[column] = lengthscale / stretch[column].clamp_min(1e-6)
        return torch.minimum(lengths, 0.5 * span)

    def build(self, part: Sequence[int]) -> ControlSetObjective:
        """The objective of one of the ``parts``."""
        if self.acquisition == "information":
            laws = [self._laws[index] for index in part]
            return InformationObjective(self._factored, self._best_queries, laws)
        posterior = self._posterior
        if self._sizes[part[0]] is not None:
            best_f = self._incumbent if self.acquisition == "ei" else 0.0
            return self._conditional(part, self._node_posterior, self.acquisition, best_f)
        if posterior is None or posterior.separable is None:
            return PosteriorObjective(self._acquisition_functions(self._controls_of(part)))
        queries = self._queries(part)
        paths: list[FourierPath] = []
        if self.acquisition == "ts":
            transformed = posterior.transform(self.nodes.to(posterior.X))
            paths = [self._path.expected(query, transformed) for query in queries]
        return FastObjective(
            posterior=posterior,
            kernel=posterior.separable,
            queries=queries,
            acquisition=self.acquisition,
            beta=self.beta,
            best_f=self._incumbent if self.acquisition == "ei" else 0.0,
            paths=paths,
        )

    @cached_property
    def _factored(self) -> CachedPosterior:
        """The posterior that information is read from, whatever its kernel."""
        posterior = self._cached
        if posterior is None or not _has_fourier_features(posterior):
            raise UnsupportedInputError(
                f"model: got {type(self.model).__name__}; the acquisition 'information' takes an"
                " exact, single-output Gaussian process with an RBF or Matern kernel."
            )
        return posterior

    @cached_property
    def _laws(self) -> list[NodesGiven]:
        """Where a trial of each control set lands."""
        given = self.given or [None] * len(self.controls)
        return [
            FixedNodes(self.nodes.to(self.bounds), self.weights.to(self.bounds), columns)
            if law is None
            else law
            for law, columns in zip(given, self.controls, strict=True)
        ]

    @cached_property
    def _best_queries(self) -> BestQueries:
        """Samples of the best query, the same for all control sets."""
        return sample_best_queries(
            self._factored,
            self._laws,
            self.controls,
            self.domain,
            self.lengths,
            self._observed,
            self.seed,
        )

    def _controls_of(self, part: Sequence[int]) -> list[list[int]]:
        return [self.controls[index] for index in part]

    def _conditional(
        self,
        part: Sequence[int],
        posterior: NodePosterior,
        acquisition: AcquisitionName,
        best_f: float,
    ) -> ConditionalObjective:
        """The objective of control sets whose nodes depend on the point."""
        assert self.given is not None
        chosen = [(self.given[index], self._sizes[index]) for index in part]
        return ConditionalObjective(
            posterior=posterior,
            given=[given for given, _ in chosen if given is not None],
            sizes=[size for _, size in chosen if size is not None],
            acquisition=acquisition,
            beta=self.beta,
            best_f=best_f,
        )

    @cached_property
    def _node_posterior(self) -> NodePosterior:
        """The posterior at nodes that depend on the point; for ``"ts"`` the same sample."""
        if self.acquisition != "ts":
            return node_posterior(self.model, self.posterior_transform, self.X_pending)
        if self._posterior is not None:
            return FactoredNodes(self._posterior, self._path)
        return ModelNodes(ModelPosterior(self._path_model, None))

    def _queries(self, chunk: Sequence[int]) -> list[PartialQuery]:
        posterior = self._posterior
        assert posterior is not None
        assert posterior.separable is not None
        return [
            PartialQuery.prepare(
                posterior, posterior.separable, controlled, self.nodes, self.weights, self._blocks
            )
            for controlled in self._controls_of(chunk)
        ]

    @cached_property
    def _blocks(self) -> BlockSums | None:
        """The one-dimensional sums of independent inputs, if rules for them were given."""
        posterior = self._posterior
        if self.product is None or posterior is None or posterior.separable is None:
            return None
        # The two parts of a posterior sample cancel at the data, so both have to be averaged by
        # one rule, and that of the Fourier features is the joint nodes.
        if self.acquisition == "ts":
            return None
        return BlockSums.prepare(
            posterior, posterior.separable, self.product, self.nodes[0].to(posterior.X)
        )

    @cached_property
    def _path(self) -> FourierPath:
        """One posterior sample for all control sets."""
        assert self._posterior is not None
        return FourierPath.draw(self._posterior, self.seed)

    @cached_property
    def _path_model(self) -> Model:
        """One posterior sample for all control sets, of a model without a fast path."""
        with manual_seed(self.seed):
            path = get_matheron_path_model(self.model)
        transform = self.posterior_transform
        if transform is None:
            return path
        # A sample is no Gaussian posterior, which is what most transforms take.
        return GenericDeterministicModel(lambda X: transform.evaluate(path(X)).unsqueeze(-1))

    @cached_property
    def _incumbent(self) -> float:
        """The best posterior mean of any control set's query at the training inputs."""
        if self.best_f is not None:
            return self.best_f
        best = -math.inf
        for part in self.parts:
            with torch.no_grad():
                best = max(best, *(float(mean.max()) for mean in self._means(part)))
        return best

    def _means(self, part: Sequence[int]) -> Iterator[Tensor]:
        posterior = self._posterior
        fast = posterior is not None and posterior.separable is not None
        X = self.near if fast else cast(tuple[Tensor, ...], self.model.train_inputs)[0]
        means: ControlSetObjective
        if self._sizes[part[0]] is not None:
            means = self._conditional(part, self._node_posterior, "mean", 0.0)
        elif posterior is not None and posterior.separable is not None:
            queries = self._queries(part)
            means = FastObjective(posterior, posterior.separable, queries, "mean", 0.0, 0.0, ())
        else:
            controls = self._controls_of(part)
            means = PosteriorObjective(self._expected_ucb(self.model, controls, beta=0.0))
        for index in range(len(part)):
            yield means(X, torch.full((len(X),), index))

    def _expected_ucb(
        self, model: Model, controls: Sequence[list[int]], beta: float
    ) -> list[PartialQueryAcquisition]:
        # A posterior sample is transformed already, and needs no fantasies to differ from the last.
        sampled = self.acquisition == "ts"
        pending = None if sampled else self.X_pending
        transform = None if sampled else self.posterior_transform
        bound = ExpectedUpperConfidenceBound if beta >= 0 else ExpectedLowerConfidenceBound
        return [
            bound(model, columns, self.nodes, self.weights, abs(beta), transform, pending)
            for columns in controls
        ]

    def _acquisition_functions(
        self, controls: Sequence[list[int]]
    ) -> list[PartialQueryAcquisition]:
        """One BoTorch acquisition function per control set, for models of any kind."""
        if self.acquisition == "ts":
            return self._expected_ucb(self._path_model, controls, beta=0.0)
        if self.acquisition in ("upper", "lower"):
            return [
                ConfidenceBoundOfExpectation(
                    self.model,
                    columns,
                    self.nodes,
                    self.weights,
                    self.beta,
                    self.acquisition == "upper",
                    self.posterior_transform,
                    self.X_pending,
                )
                for columns in controls
            ]
        if self.acquisition != "ei":
            beta = {"ucb": self.beta, "lcb": -self.beta}.get(self.acquisition, 0.0)
            return self._expected_ucb(self.model, controls, beta)
        return [
            PartialQueryLogExpectedImprovement(
                self.model,
                self._incumbent,
                columns,
                self.nodes,
                self.weights,
                self.posterior_transform,
                self.X_pending,
            )
            for columns in controls
        ]


def _has_fourier_features(posterior: CachedPosterior) -> bool:
    """Whether BoTorch has Fourier features for the kernel."""
    kernel = posterior.kernel
    while isinstance(kernel, ScaleKernel):
        kernel = kernel.base_kernel
    return isinstance(kernel, RBFKernel | MaternKernel)
