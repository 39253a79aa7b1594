"""What is refused by the models, by the name of the argument."""

from __future__ import annotations

from functools import partial
from math import inf, nan
from typing import Any

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import SingleTaskGP
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.transforms import Standardize
from botorch.models.transforms.input import ChainedInputTransform, Normalize
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.means import LinearMean
from torch import Tensor

from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.laws import (
    FiniteConditional,
    GaussianConditional,
    ProductNodes,
    Uniform,
    UniformBoxConditional,
)
from ax_costaware.models import (
    ConditionalMeanProcess,
    ControlSetCostModel,
    ExactPosterior,
    FidelityGP,
    FixedHyperparameterGP,
    ForgettingKernel,
    FunctionalPosterior,
    LatentPaths,
    LogNormalCostModel,
    MaternGP,
    TimeVaryingGP,
    expectation_posterior,
    information_gain,
)
from ax_costaware.models.fixed_hyperparameters import FixedTimeVaryingGP

UNIT = torch.tensor([[0.0] * 3, [1.0] * 3], dtype=torch.double)
X = torch.rand(6, 3, dtype=torch.double, generator=torch.Generator().manual_seed(0))
Y = X.sum(dim=-1, keepdim=True).sin()
TWO = SingleTaskGP(X, torch.cat([Y, -Y], dim=-1))
DETERMINISTIC = GenericDeterministicModel(lambda X: X.sum(-1, keepdim=True))
LAW = GaussianConditional(torch.eye(2).tolist(), (0.0, 0.0), (0.04, 0.09), outside="keep")
AVERAGES = ConditionalMeanProcess(X[:, :2], Y, LAW)
NODES, QUARTERS = torch.rand(5, 3).double(), torch.full((4,), 0.25).double()
BOX = UniformBoxConditional("delta", (0,), (1,), "keep")

forgetting_of = partial(ForgettingKernel, step=1.0)
fidelity_gp = partial(FidelityGP, X, Y)
time_varying = partial(TimeVaryingGP, X, Y)
fixed = partial(FixedHyperparameterGP, X, Y)
fixed_in_time = partial(FixedTimeVaryingGP, X, Y)
RATES = [0.0, 1.0, -0.1, nan, inf, True, "0.1"]
POINTS = [torch.ones(3), torch.ones(0, 2), torch.tensor([[0.0], [nan], [1.0]])]
COSTS = [torch.ones(2), torch.ones(3, 1), [1.0, 2.0, 3.0], 1.0]
BOUNDS = [torch.ones(2, 3), torch.tensor([[1.0], [0.0]]), torch.tensor([[0.0], [inf]])]
HYPERPARAMETERS = [
    *(("lengthscale", value) for value in (-1.0, [0.1] * 4, [0.1, 0.0, 0.2])),
    *(("outputscale", 0.0), ("mean", nan)),
]


def log_normal(**changes: Any) -> LogNormalCostModel:
    return LogNormalCostModel(**{"X": X[:3, :1], "cost": torch.ones(3), **changes})


def control_set(**changes: Any) -> ControlSetCostModel:
    return ControlSetCostModel(**{"X": X[:3, :1], "cost": torch.ones(3), **changes})


def averages(**changes: Any) -> ConditionalMeanProcess:
    arguments = {"train_queries": X[:, :2], "train_z": Y, "conditional": LAW, **changes}
    return ConditionalMeanProcess(**arguments)


def set_rate(rate: Any) -> None:
    ForgettingKernel().forgetting = rate


def fidelities(given: Any, bounds: Tensor = UNIT) -> FidelityGP:
    return fidelity_gp(given, bounds)


def choices(model: str, given: Any) -> object:
    if model == "cost":
        return log_normal(X=X[:3], kind="trend", choices=given)
    options = {"fidelities": [{2: 1.0}], "bounds": UNIT} if model == "fidelity" else {}
    return (FidelityGP if options else MaternGP)(X, Y, choices=given, **options)


Case = tuple[Any, list[Any], str]
CASES: list[Case] = [
    (ForgettingKernel, RATES, "forgetting="),
    (set_rate, RATES, "forgetting="),
    (set_rate, [torch.tensor([[1.5]])], "forgetting"),
    (lambda step: ForgettingKernel(step=step), [0.0], "step="),
    (lambda X: ForgettingKernel()(X).to_dense(), [torch.rand(3, 2)], "2 columns"),
    (fidelities, [[{3: 1.0}], [{-4: 1.0}], [{2.0: 1.0}], [{2: 1.0}, {-1: 1.0}]], "is none"),
    (
        lambda wide: fidelities([{2: 1.0}], wide),
        [torch.tensor([[0, 0, 1.0], [1, 1, 1]])],
        "2 is none",
    ),
    (lambda wide: fidelities([{2: 1.0}], wide), [UNIT[:, :2]], "bounds"),
    (fidelities, [[{2: nan}]], "the column 2=nan"),
    (fidelities, [[{1: 1.0, 2: 1.0}]], "block"),
    (fidelities, [[{0: 1.0}, {1: 1.0}, {2: 1.0}], {2: 1.0}, [2]], "expected"),
    (lambda X: TimeVaryingGP(X, Y), [X[:, 2:]], "train_X of shape"),
    (lambda rate: time_varying(forgetting=rate), [1.0], "forgetting="),
    (lambda noise: time_varying(noise=noise), [0.0], "noise="),
    (lambda noise: time_varying(torch.ones_like(Y), noise=noise), [0.1], "train_Yvar"),
    (
        lambda d: time_varying(covar_module=ScaleKernel(RBFKernel(ard_num_dims=d))),
        [3],
        "covar_module",
    ),
    (lambda given: time_varying(input_transform=given), [Normalize(3)], "input_transform"),
    *((lambda v, n=n: fixed(**{n: v}), [value], n) for n, value in HYPERPARAMETERS),
    *((lambda v, n=n: fixed_in_time(**{n: v}), [value], n) for n, value in HYPERPARAMETERS),
    (lambda noise: fixed(noise_variance=noise), [0.0], "noise"),
    (lambda kernel: fixed(kernel=kernel), ["rbf"], "kernel="),
    *((lambda v, m=m: m(X=v), POINTS, r"X( of shape|\[1\]=)") for m in (log_normal, control_set)),
    *((lambda v, m=m: m(cost=v), COSTS, "cost of shape") for m in (log_normal, control_set)),
    *((lambda v, m=m: m(kind=v), ["cubic"], "kind=") for m in (log_normal, control_set)),
    *((lambda v, m=m: m(bounds=v), BOUNDS, "bounds") for m in (log_normal, control_set)),
    (lambda c: log_normal(cost=torch.tensor([1.0, 2.0, c])), [0.0, -2.0, nan, inf], r"cost\[2\]="),
    (
        lambda c: control_set(cost=torch.tensor([3.0, 4.0, c]), fixed=2.0),
        [2.0, 1.0, -1.0, nan, inf],
        r"cost\[2\]=",
    ),
    (lambda v: control_set(fixed=v), [-1.0, nan], "fixed="),
    (lambda X: log_normal(kind="linear").expected_cost(X), [torch.ones(4, 3)], "X of shape"),
    *(
        (lambda X, k=k: control_set(kind=k).estimate(X), [torch.ones(4, 3)], "X of shape")
        for k in ("constant", "linear", "gp")
    ),
    *(
        (lambda given, m=m: choices(m, given), [[[1, 5]], [[-1, -2]], [[0, 1], [1, 2]]], "choices=")
        for m in ("objective", "fidelity", "cost")
    ),
    (lambda X: FunctionalPosterior.of(TWO)(X), [X], "model: got one with 2 outcomes"),
    (lambda X: FunctionalPosterior.of(DETERMINISTIC, X_pending=X), [X], "X_pending"),
    (lambda model: FunctionalPosterior.of(model).observed, [DETERMINISTIC], "GenericDeterministic"),
    (
        lambda model: ExactPosterior.of(model).at_time(9.0),
        [
            SingleTaskGP(X, Y),
            TimeVaryingGP(X, torch.cat([Y, Y], dim=-1), outcome_transform=Standardize(2)),
            time_varying(mean_module=LinearMean(3)),
        ],
        "it takes a",
    ),
    (information_gain, [SingleTaskGP(X, Y, mean_module=LinearMean(3))], "model: got SingleTaskGP"),
    (lambda law: averages(conditional=law), ["gaussian"], "conditional="),
    (
        lambda A: averages(train_queries=A),
        [torch.rand(6, 3).double(), [[0.1, 0.2]] * 6, X[:0, :2]],
        "train_queries",
    ),
    (lambda z: averages(train_z=z), [Y[:5], torch.full_like(Y, nan)], "train_z"),
    (
        lambda noise: averages(noise=noise),
        [-1.0, torch.full((5,), 0.1), torch.zeros(6), torch.tensor([nan] + 5 * [0.1])],
        "noise|observations",
    ),
    (lambda columns: averages(categorical=columns), [[2]], "categorical"),
    (
        lambda given: averages(latent_transform=given),
        [Normalize(2), ChainedInputTransform(one=Normalize(2))],
        "latent_transform",
    ),
    (AVERAGES.posterior, [X[:, :1], X], "queries of shape"),
    (AVERAGES.latent_posterior, [X], "X of shape"),
    (lambda A: ExactPosterior.of(AVERAGES, X_pending=A), [X], "queries of shape"),
    (lambda A: ExactPosterior.of(AVERAGES)(A), [X], "queries of shape"),
    (lambda X: ExactPosterior.of(AVERAGES).latent(X), [X], "X of shape"),
    (lambda model: ExactPosterior.of(model).latent, [SingleTaskGP(X, Y)], "ConditionalMeanProcess"),
    (
        lambda law: LatentPaths(
            ExactPosterior.of(
                ConditionalMeanProcess(UNIT[:, :1], UNIT[:, :1], law, categorical=[0])
            ),
            2,
        ),
        [FiniteConditional(((0.5, 0.5), (0.1, 0.9)))],
        "Fourier",
    ),
    (lambda A: BOX.check_queries(A), [torch.tensor([[0.5, -0.1]])], r"query \(0\.5, -0\.1"),
    (
        lambda A: UniformBoxConditional("delta", (0,), (1,)).check_queries(A),
        [torch.tensor([[0.5, 0.7]])],
        "outside of X",
    ),
    (
        lambda c: GaussianConditional(((1.0,),), covariance=c, standard_deviation="delta"),
        [0.1],
        "covariance|either",
    ),
    (
        lambda w: expectation_posterior(SingleTaskGP(X, Y), NODES, w),
        [QUARTERS, None],
        "weights: got shape",
    ),
    (
        lambda w: expectation_posterior(
            SingleTaskGP(X, Y), ProductNodes.from_marginals([Uniform(0, 1)] * 2, n=4), w
        ),
        [QUARTERS, None],
        "weights|nodes",
    ),
    (lambda X: expectation_posterior(TWO, X, torch.full((6,), 1 / 6)), [X], "2 outcomes"),
]


@pytest.mark.parametrize(("call", "refused", "name"), CASES)
def test_refused_arguments(call: Any, refused: list[Any], name: str) -> None:
    for argument in refused:
        with pytest.raises((InputError, UnsupportedInputError), match=name):
            call(argument)


def test_one_of_two_outcomes_is_taken() -> None:
    first = ScalarizedPosteriorTransform(torch.tensor([1.0, 0.0]).double())
    weights = torch.full((6,), 1 / 6).double()
    assert expectation_posterior(TWO, X, weights, first)[0].shape == ()
