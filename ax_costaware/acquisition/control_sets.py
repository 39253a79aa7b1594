r"""The best values of every control set, and the acquisition functions of one.

``optimize_control_sets`` searches all control sets and restarts in one batch, see ``optimize``
(Tay et al. 2023, Algorithm 1, line 6). The rules of ``ax_costaware.methods`` use that a control set
is never better than a superset of it.

A partial query sets the controlled columns; the others are random. Its acquisition functions take
ordinary ``batch_shape x 1 x d`` points and ignore the random columns, so that ``optimize_acqf``
works with these columns in ``fixed_features``. Values are in the units of the
model's posterior after the posterior transform; larger is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, get_args

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.model import Model
from botorch.sampling.pathwise import get_matheron_path_model
from botorch.utils.sampling import manual_seed
from torch import Tensor

from ax_costaware.acquisition.check import (
    check_columns,
    check_domain,
    check_given,
    check_nodes,
    check_pending,
)
from ax_costaware.acquisition.criteria import (
    MEAN,
    AcquisitionName,
    Criterion,
    LogExpectedImprovement,
    confidence_bound,
)
from ax_costaware.acquisition.feasibility import Feasibility, feasibility_weighted
from ax_costaware.acquisition.objectives import (
    ControlSetObjective,
    QueryCosts,
    build_objectives,
    log_probability_of_queries,
    near_and_lengths,
    weighted_objective,
)
from ax_costaware.acquisition.optimize import Optimum, maximize
from ax_costaware.acquisition.partial_query import QueryNodes
from ax_costaware.acquisition.pointwise import PointwiseAcquisition, takes_its_inputs
from ax_costaware.acquisition.starts import num_starts, raw_points, regions_of
from ax_costaware.argument_checks import (
    at_least,
    checked_bounds,
    finite_number,
    finite_tensor,
    nonnegative_number,
    one_of,
    optional,
)
from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.laws.joint.law import NodesGiven
from ax_costaware.laws.nodes import ProductNodes
from ax_costaware.models.fourier_path import FourierPath, has_fourier_features
from ax_costaware.models.posterior import (
    ExactPosterior,
    FunctionalPosterior,
    ModelPosterior,
)
from ax_costaware.space.discrete import Discrete
from ax_costaware.space.elimination import Elimination, LinearConstraints

# Local searches of a control set that run to convergence, and least distance of starts, in
# length-scales.
_NUM_POLISHED = 2
_START_DISTANCE = 0.5


def optimize_control_sets(
    model: Model,
    bounds: Tensor,
    control_sets: Sequence[Sequence[int]],
    nodes: Tensor,
    weights: Tensor,
    beta: float = 2.0,
    *,
    acquisition: str = "ucb",
    num_restarts: int | None = None,
    raw_samples: int | None = None,
    product: ProductNodes | None = None,
    given: Sequence[NodesGiven | None] | None = None,
    posterior_transform: PosteriorTransform | None = None,
    X_pending: Tensor | None = None,
    discrete: Discrete | None = None,
    inequality_constraints: LinearConstraints | None = None,
    fixed_features: Mapping[int, float] | None = None,
    elimination: Elimination | None = None,
    default: Tensor | None = None,
    best_f: float | None = None,
    feasibility: Feasibility[FunctionalPosterior] | None = None,
    weighted: Callable[[Tensor, Tensor], Tensor] = feasibility_weighted,
    costs: QueryCosts | None = None,
    posterior: FunctionalPosterior | None = None,
    seed: int = 0,
) -> Optimum[Tensor]:
    r"""Maximise an acquisition function over the values of each of several control sets.

    Args:
        model: A single-output model. An exact GP with a product kernel takes the fast path; any
            other model is evaluated by its posterior.
        bounds: ``2 x d`` bounds of the inputs.
        control_sets: For each control set, the columns that it controls.
        nodes: ``m x d`` joint nodes of the inputs (see ``sobol_nodes``); of each control set the
            random columns are read.
        weights: ``m`` non-negative weights that sum to one.
        beta: Weight of the posterior standard deviation in confidence bounds.
        acquisition: ``"ucb"``, ``"lcb"``, ``"ei"``, ``"ts"``, ``"mean"``, ``"upper"``, ``"lower"``
            or ``"feasible"`` (see ``ax_costaware.acquisition.criteria``).
        num_restarts: Local searches per control set.
        raw_samples: Raw points per control set.
        product: One-dimensional rules of independent inputs, which make all but the expected
            standard deviation exact to rounding on a product kernel. A posterior sample
            (``"ts"``) is averaged over the joint nodes throughout.
        given: For each control set ``None``, or the nodes and weights of all columns given the
            point, for inputs that depend on what is controlled; ``nodes``, ``weights`` and
            ``product`` are not used for that control set.
        posterior_transform: Applied to the posterior; the result is maximised.
        X_pending: ``k x d`` pending points, fantasized at the posterior mean.
        discrete: ``(columns, values)`` of columns that jointly take one of ``values``' rows; a
            control set has all of them or none.
        inequality_constraints: ``(indices, coefficients, rhs)`` with
            ``sum_i coefficients_i x[indices_i] >= rhs``. One that reads none of a control set's
            columns is not applied to it; uncontrolled columns count with their default.
        fixed_features: Values of columns that are fixed wherever they are controlled.
        elimination: Columns that equality constraints determine, and the constraints that take
            their place among ``inequality_constraints``; every control set has all of them.
        default: ``d`` values for uncontrolled columns; the weighted mean of the nodes if omitted.
        best_f: The incumbent of ``"ei"``; if omitted, the best posterior mean of any control
            set's query at the training inputs.
        feasibility: Posteriors of further outcomes with bounds, which the expectations of queries
            are to satisfy; None for none.
        weighted: Weighted value of a query, from its value and its log probability of being
            feasible; see ``feasibility_weighted``.
        costs: Costs of queries, which change the choice of the points, not the returned values;
            None for no costs.
        posterior: ``FunctionalPosterior.of(model, posterior_transform, X_pending)``, for several
            searches to share its factor; read from the model if omitted.
        seed: Seed of the raw points and of the posterior sample.

    Returns:
        Per control set the best point and its value, in the units of the transformed posterior
        (for ``"ei"`` the expected improvement, not its log), as they count where there are bounds
        on further outcomes; for ``"feasible"`` the probability.

    Raises:
        InputError: For arguments of a wrong shape or range, or a model that does not fit.
    """
    name: AcquisitionName = one_of(acquisition, "acquisition", get_args(AcquisitionName))
    if name == "feasible" and feasibility is None:
        raise InputError("acquisition='feasible': expected feasibility, the bounds to keep to.")
    check_nodes(nodes, weights)
    nonnegative_number(beta, "beta")
    num_inputs = nodes.shape[-1]
    # Bounds may be integers, or single precision, which is torch's default for Python floats.
    bounds = checked_bounds(bounds, num_inputs).to(next(model.parameters(), nodes))
    if len(control_sets) == 0:
        raise InputError("control_sets: got none; it takes at least one list of column indices.")
    for argument, number in (("num_restarts", num_restarts), ("raw_samples", raw_samples)):
        optional(at_least(1))(number, argument)
    controls = [check_columns("control_sets", columns, num_inputs) for columns in control_sets]
    check_domain(controls, num_inputs, discrete, inequality_constraints, fixed_features)
    at_least(0)(seed, "seed")
    if default is not None:
        finite_tensor(default, "default", (num_inputs,), f"{num_inputs} finite numbers")
    best_f = optional(finite_number)(best_f, "best_f")
    check_pending(X_pending, "d")
    nodes, weights = nodes.to(bounds), weights.to(bounds)
    laws = [
        QueryNodes(nodes, weights, columns) if law is None else law
        for law, columns in zip(
            check_given(given, controls, bounds.mean(dim=0)), controls, strict=True
        )
    ]
    regions = regions_of(
        controls,
        bounds,
        weights @ nodes if default is None else default.to(bounds),
        discrete or (),
        inequality_constraints or (),
        fixed_features,
        elimination,
    )
    posterior = posterior or FunctionalPosterior.of(model, posterior_transform, X_pending)
    if name == "ts":
        posterior = sampled(posterior, model, posterior_transform, seed)
    near, lengths = near_and_lengths(posterior, bounds)
    criterion: Criterion
    if name == "ei":
        if best_f is None:
            if posterior.observed.shape[-1] != num_inputs:  # such as with a task column
                raise InputError(
                    f"best_f: got None; expected a number, since the training inputs of a "
                    f"{type(model).__name__} are not points in the bounds."
                )
            best_f = _best_mean(
                build_objectives(posterior, laws, MEAN, product), posterior.observed
            )
        criterion = LogExpectedImprovement(best_f)
    else:
        criterion = confidence_bound(name, beta)
    logarithmic = name in ("ei", "feasible")
    points = bounds.new_empty(len(controls), bounds.shape[-1])
    values = points[:, 0].clone()
    for part, objective in build_objectives(posterior, laws, criterion, product):
        where = [regions[index] for index in part]
        counts = [num_starts(controls[index], num_inputs) for index in part]
        if feasibility is not None:
            its = [laws[index] for index in part]
            log_probability = log_probability_of_queries(feasibility, its, product)
            objective = (
                log_probability
                if name == "feasible"
                else weighted_objective(objective, log_probability, weighted)
            )
        searched = objective if costs is None else costs.of(objective, part)
        found = maximize(
            searched,
            where,
            [
                raw_points(region, raw_samples or raw, near, 0.5 * lengths, seed)
                for region, (raw, _) in zip(where, counts, strict=True)
            ],
            coarse=partial(searched, coarse=True),
            num_restarts=[num_restarts or restarts for _, restarts in counts],
            num_polished=_NUM_POLISHED,
            distances=_START_DISTANCE * lengths,
        )
        best = torch.stack([optimum.point[0] for optimum in found])
        largest = torch.stack([optimum.value[0] for optimum in found])
        if costs is not None:
            with torch.no_grad():
                largest = objective(best, torch.arange(len(part)))
        points[part], values[part] = best.to(points), largest.to(values)
    return Optimum(points, values.exp() if logarithmic else values)


def _best_mean(
    objectives: Iterable[tuple[list[int], ControlSetObjective]], inputs: Tensor
) -> float:
    """Return the best mean of any control set's query at inputs ``n x d``."""
    best = -math.inf
    with torch.no_grad():
        for part, means in objectives:
            sets = torch.arange(len(part)).repeat_interleave(len(inputs))
            best = max(best, float(means(inputs.repeat(len(part), 1), sets).max()))
    return best


def sampled(
    posterior: FunctionalPosterior,
    model: Model,
    posterior_transform: PosteriorTransform | None,
    seed: int,
) -> FunctionalPosterior:
    """Return one posterior sample as a posterior, whose mean it is."""
    if isinstance(posterior, ExactPosterior):
        factor = posterior.factor
        if factor.separable is not None and has_fourier_features(factor):
            return posterior.sampled(FourierPath.draw(factor, seed))
    try:
        with manual_seed(seed):  # samples of a batch differ by the seed, not by pending points
            path = get_matheron_path_model(model)
    except NotImplementedError as error:
        got = f"model: got {type(model).__name__}; the acquisition 'ts' takes one"
        raise UnsupportedInputError(f"{got} with an RBF or Matern kernel.") from error
    if posterior_transform is not None:
        # Most transforms take Gaussian posteriors only, so apply ``evaluate`` to the sample.
        transform, drawn = posterior_transform, path
        path = GenericDeterministicModel(lambda X: transform.evaluate(drawn(X)).unsqueeze(-1))
    return ModelPosterior(path, None)


class PartialQueryAcquisition(PointwiseAcquisition):
    """Base of the acquisition functions of one control set.

    An exact GP is evaluated by its cached factor, any other model by its posterior at the nodes.
    """

    def __init__(
        self,
        model: Model,
        controlled: Sequence[int],
        nodes: Tensor | list[list[float]],
        weights: Tensor | list[float],
        criterion: Criterion,
        posterior_transform: PosteriorTransform | None,
        X_pending: Tensor | None,
    ) -> None:
        super().__init__(model=model)
        nodes = torch.as_tensor(nodes, dtype=torch.double)
        weights = torch.as_tensor(weights, dtype=torch.double)
        check_nodes(nodes, weights)
        self.controlled = check_columns("controlled", controlled, nodes.shape[-1])
        self.criterion = criterion
        self.posterior_transform = posterior_transform
        self.nodes: Tensor
        self.weights: Tensor
        self.register_buffer("nodes", nodes)
        self.register_buffer("weights", weights)
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Condition on pending points.

        Args:
            X_pending: ``k x d`` points, or ``None``. Random inputs of a point are represented by
                their expected values. A point is fantasized at its posterior mean, which on an
                exact GP is the expectation over all fantasies.
        """
        super().set_X_pending(X_pending)
        posterior = FunctionalPosterior.of(self.model, self.posterior_transform, self.X_pending)
        law = QueryNodes(self.nodes, self.weights, self.controlled)
        ((_, self._objective),) = build_objectives(posterior, [law], self.criterion)

    def _values(self, points: Tensor) -> Tensor:
        if not len(points):  # As BoTorch's own functions, of what is left after a filter.
            return points.new_empty(0)
        return self._objective(points, torch.zeros(len(points), dtype=torch.long))


@takes_its_inputs
class ExpectedUpperConfidenceBound(PartialQueryAcquisition):
    r"""Expected upper confidence bound over the uncontrolled inputs.

    .. math:: \alpha(x_C) = E_{X_R}\left[\mu(x_C, X_R) + \beta\, \sigma(x_C, X_R)\right],

    the acquisition function of UCB-CVS (Tay et al. 2023, *Bayesian Optimization with Cost-varying
    Variable Subsets*, Algorithm 1). With ``beta=0`` this is the posterior mean of the query's
    expected value.

    Example:
        >>> nodes, weights = sobol_nodes([Uniform(0, 1)] * 3, 128)
        >>> acqf = ExpectedUpperConfidenceBound(model, [0], nodes, weights, beta=2.0)
        >>> optimize_acqf(acqf, bounds, q=1, num_restarts=4, raw_samples=64,
        ...               fixed_features={1: 0.5, 2: 0.5})

    Args:
        model: A single-output model.
        controlled: The controlled columns.
        nodes: ``m x d`` nodes of the inputs, in the model's input space; the controlled columns
            are ignored.
        weights: ``m`` non-negative weights that sum to one.
        beta: Weight of the posterior standard deviation, at least zero.
        posterior_transform: Applied to the posterior; the result is maximised.
        X_pending: ``k x d`` pending points. The expectation over their fantasies is
            exact on an exact GP: the mean stays and the standard deviation does not depend on
            the fantasised outcome.

    Raises:
        InputError: For controlled columns, nodes, weights or a beta out of range.
    """

    def __init__(
        self,
        model: Model,
        controlled: Sequence[int],
        nodes: Tensor | list[list[float]],
        weights: Tensor | list[float],
        beta: float = 2.0,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        criterion = confidence_bound("ucb", nonnegative_number(beta, "beta"))
        super().__init__(
            model, controlled, nodes, weights, criterion, posterior_transform, X_pending
        )
        self.beta = beta


@takes_its_inputs
class PartialQueryLogExpectedImprovement(PartialQueryAcquisition):
    r"""Log of the expected improvement of a query's expected value.

    The value of a partial query is :math:`g(x_C) = E_{X_R} f(x_C, X_R)`, a linear functional of the
    GP, so :math:`g` is Gaussian and its expected improvement over an incumbent has the usual closed
    form. This replaces the nested Monte Carlo of EI-PSQ (Tay et al. 2023, appendix C.2; Hayashi et
    al. 2022).

    Args:
        model: A single-output model.
        best_f: The incumbent: the best value so far of any query, in the posterior's units.
        controlled: The controlled columns.
        nodes: ``m x d`` nodes of the inputs; the controlled columns are ignored.
        weights: ``m`` non-negative weights that sum to one.
        posterior_transform: Applied to the posterior; the result is maximised.
        X_pending: ``k x d`` pending points, fantasized at the posterior mean.

    Raises:
        InputError: For controlled columns, nodes, weights or an incumbent out of range.
    """

    @staticmethod
    def best_f_at(
        X: Tensor,
        model: Model,
        controlled: Sequence[int],
        nodes: Tensor | list[list[float]],
        weights: Tensor | list[float],
        posterior_transform: PosteriorTransform | None = None,
        **_: Any,
    ) -> float:
        """Return the best posterior mean of queries with the controlled values of ``n x d``."""
        mean = ExpectedUpperConfidenceBound(
            model, controlled, nodes, weights, 0.0, posterior_transform
        )
        with torch.no_grad():
            return float(mean(X.unsqueeze(-2)).max())

    def __init__(
        self,
        model: Model,
        best_f: float,
        controlled: Sequence[int],
        nodes: Tensor | list[list[float]],
        weights: Tensor | list[float],
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        criterion = LogExpectedImprovement(finite_number(best_f, "best_f"))
        super().__init__(
            model, controlled, nodes, weights, criterion, posterior_transform, X_pending
        )
        self.best_f = best_f
