import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import MaternKernel

from ax_costaware.acquisition import (
    ExpectedUpperConfidenceBound,
    PartialQueryLogExpectedImprovement,
)
from ax_costaware.acquisition.control_sets import PartialQueryAcquisition
from ax_costaware.acquisition.criteria import confidence_bound
from ax_costaware.exceptions import InputError, UnsupportedInputError


def _at_nodes(x, controlled, nodes):
    rows = nodes.clone()
    rows[:, controlled] = x[controlled]
    return rows


def _bound(name, model, controlled, rule, X_pending=None):
    criterion = confidence_bound(name, 2.0)
    return PartialQueryAcquisition(model, controlled, *rule, criterion, None, X_pending)


def _naive_ucb(model, x, controlled, nodes, weights, beta, transform=None):
    posterior = model.posterior(
        _at_nodes(x, controlled, nodes).unsqueeze(-2), posterior_transform=transform
    )
    return weights @ (posterior.mean + beta * posterior.variance.sqrt()).flatten()


def _naive_log_ei(model, x, controlled, nodes, weights, best_f):
    posterior = model.posterior(_at_nodes(x, controlled, nodes))
    mean = weights @ posterior.mean.squeeze(-1)
    std = (weights @ posterior.distribution.covariance_matrix @ weights).sqrt()
    normal = torch.distributions.Normal(0.0, 1.0)
    u = (mean - best_f) / std
    return (std * (normal.log_prob(u).exp() + u * normal.cdf(u))).log()


@pytest.mark.parametrize("kernel", ["rbf", "matern"])
@pytest.mark.parametrize("controlled", [[0], [0, 2], [0, 1, 2]])
@pytest.mark.parametrize("sign", [None, -1.0])
def test_expected_ucb_equals_the_sum_over_nodes(make_model, kernel, controlled, sign, rule):
    model = make_model(kernel)
    transform = (
        None if sign is None else ScalarizedPosteriorTransform(torch.tensor([sign]).double())
    )
    acqf = ExpectedUpperConfidenceBound(
        model, controlled, *rule, beta=1.7, posterior_transform=transform
    )
    X = torch.rand(4, 2, 1, 3, dtype=torch.double)
    values = acqf(X)
    assert values.shape == (4, 2)
    for i in range(4):
        exact = _naive_ucb(model, X[i, 1, 0], controlled, *rule, 1.7, transform)
        assert torch.allclose(values[i, 1], exact, atol=1e-7)


@pytest.mark.parametrize("kernel", ["rbf", "matern"])
@pytest.mark.parametrize("controlled", [[1], [0, 1, 2]])
def test_log_ei_equals_the_closed_form_of_the_expectation(make_model, kernel, controlled, rule):
    model = make_model(kernel)
    acqf = PartialQueryLogExpectedImprovement(model, 0.5, controlled, *rule)
    X = torch.rand(4, 1, 3, dtype=torch.double)
    exact = [_naive_log_ei(model, x[0], controlled, *rule, 0.5) for x in X]
    assert torch.allclose(acqf(X), torch.stack(exact), atol=1e-5)


@pytest.mark.parametrize("kernel", ["rbf", "matern"])
@pytest.mark.parametrize("acqf_class", ["ucb", "ei"])
def test_gradients_agree_with_finite_differences(make_model, kernel, acqf_class, rule):
    model = make_model(kernel)
    if acqf_class == "ucb":
        acqf = ExpectedUpperConfidenceBound(model, [0, 2], *rule)
    else:
        acqf = PartialQueryLogExpectedImprovement(model, 1.0, [0, 2], *rule)
    X = torch.rand(3, 1, 3, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(acqf, X, eps=1e-6, atol=1e-5)
    (gradient,) = torch.autograd.grad(acqf(X).sum(), X)
    assert (gradient[..., 1] == 0).all()  # a random input has no value of its own


@pytest.mark.filterwarnings("ignore:The model inputs are of type torch.float32")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kernel", ["rbf", "matern"])
def test_dtype_follows_the_model(dtype, kernel, rule):
    X = torch.rand(8, 3, dtype=torch.double).to(dtype)
    kernel = {"rbf": None, "matern": MaternKernel(nu=2.5, ard_num_dims=3).to(dtype)}[kernel]
    model = SingleTaskGP(X, X.sum(dim=-1, keepdim=True).sin(), covar_module=kernel)
    for value in (
        ExpectedUpperConfidenceBound(model, [0], *rule)(X[:2].unsqueeze(-2)),
        PartialQueryLogExpectedImprovement(model, 0.0, [0], *rule)(X[:2].unsqueeze(-2)),
    ):
        assert value.dtype == dtype
        assert torch.isfinite(value).all()


def test_beta_zero_is_the_posterior_mean_of_the_query(model, rule):
    X = torch.rand(2, 1, 3, dtype=torch.double)
    values = ExpectedUpperConfidenceBound(model, [0], *rule, beta=0.0)(X)
    assert torch.allclose(values[0], _naive_ucb(model, X[0, 0], [0], *rule, 0.0), atol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "matern"])
def test_pending_points_lower_the_value_near_them(make_model, kernel, rule):
    model = make_model(kernel)
    acqf = ExpectedUpperConfidenceBound(model, [0, 1, 2], *rule)
    X = torch.tensor([[[0.31, 0.62, 0.43]]], dtype=torch.double)
    free = acqf(X)
    acqf.set_X_pending(X[0])
    pending = acqf(X)
    mean = ExpectedUpperConfidenceBound(model, [0, 1, 2], *rule, beta=0.0)(X)
    assert pending < free - 0.1
    assert torch.allclose(pending, mean, atol=2 * 0.5)
    acqf.set_X_pending(None)
    assert torch.allclose(acqf(X), free)


def test_pending_points_agree_with_many_fantasies(model, rule):
    """The fantasized mean is the exact expectation over fantasies."""
    pending = torch.tensor([[0.2, 0.4, 0.6], [0.7, 0.1, 0.5]], dtype=torch.double)
    X = torch.rand(3, 1, 3, dtype=torch.double)
    acqf = ExpectedUpperConfidenceBound(model, [0, 1], *rule, X_pending=pending)
    sampler = SobolQMCNormalSampler(torch.Size([256]), seed=1)
    fantasies = model.fantasize(pending, sampler)
    nodes, weights = rule
    for x, value in zip(X, acqf(X), strict=True):
        posterior = fantasies.posterior(_at_nodes(x[0], [0, 1], nodes)[:, None, None])
        bound = (posterior.mean + 2.0 * posterior.variance.sqrt()).squeeze(-1).squeeze(-1)
        assert torch.allclose(value, weights @ bound.mean(dim=-1), atol=0.02)


def test_optimize_acqf_with_fixed_features_and_sequential_batches(model, rule, bounds):
    acqf = ExpectedUpperConfidenceBound(model, [0], *rule)
    with manual_seed(0):
        candidates, _ = optimize_acqf(
            acqf,
            bounds,
            q=2,
            num_restarts=2,
            raw_samples=16,
            fixed_features={1: 0.5, 2: 0.5},
            sequential=True,
        )
    assert candidates.shape == (2, 3)
    assert (candidates[:, 1:] == 0.5).all()
    grid = torch.linspace(0, 1, 400, dtype=torch.double).reshape(-1, 1, 1).repeat(1, 1, 3)
    acqf.set_X_pending(None)
    assert acqf(candidates[:1].unsqueeze(0)) >= acqf(grid).max() - 1e-4


@pytest.mark.parametrize(
    ("acqf_class", "extra"),
    [
        (ExpectedUpperConfidenceBound, {"beta": 1.0}),
        (PartialQueryLogExpectedImprovement, {"best_f": 0.0}),
    ],
)
def test_input_constructor(acqf_class, extra, model, rule):
    nodes, weights = rule
    inputs = get_acqf_input_constructor(acqf_class)(
        model=model,
        training_data=None,
        X_pending=None,
        controlled=[0],
        nodes=nodes.tolist(),
        weights=weights.tolist(),
        **extra,
    )
    X = torch.rand(2, 1, 3, dtype=torch.double)
    direct = acqf_class(model, controlled=[0], nodes=nodes, weights=weights, **extra)
    assert torch.equal(acqf_class(**inputs)(X), direct(X))


@pytest.mark.parametrize("controlled", [[], [0, 0], [3], [-1], [0.5], [True]])
def test_bad_columns(controlled, model, rule):
    with pytest.raises(InputError, match="controlled: got"):
        ExpectedUpperConfidenceBound(model, controlled, *rule)


@pytest.mark.parametrize("beta", [-1.0, float("nan"), float("inf")])
def test_bad_beta(beta, model, rule):
    with pytest.raises(InputError, match=r"beta=.*: expected"):
        ExpectedUpperConfidenceBound(model, [0], *rule, beta=beta)


@pytest.mark.parametrize("best_f", [float("nan"), float("inf")])
def test_bad_incumbent(best_f, model, rule):
    with pytest.raises(InputError, match=r"best_f=.*: expected"):
        PartialQueryLogExpectedImprovement(model, best_f, [0], *rule)


@pytest.mark.parametrize(
    ("nodes", "weights", "message"),
    [
        (torch.rand(4), torch.full((4,), 0.25), "nodes: got shape"),
        (torch.full((4, 3), torch.nan), torch.full((4,), 0.25), "nodes: got NaN"),
        (torch.rand(4, 3), torch.full((3,), 1 / 3), "weights has the shape"),
        (
            torch.rand(4, 3),
            torch.full((4,), 0.5),
            "weights has the minimum 0.5 and the sum 2",
        ),
        (torch.rand(2, 3), torch.tensor([1.5, -0.5]), "expected weights >= 0"),
    ],
)
def test_bad_nodes(nodes, weights, message, model):
    with pytest.raises(InputError, match=message):
        ExpectedUpperConfidenceBound(model, [0], nodes.double(), weights.double())


@pytest.mark.parametrize("kernel", ["rbf", "matern"])
@pytest.mark.parametrize("pending", [False, True])
def test_bounds_of_the_expectation_equal_its_closed_form(make_model, kernel, pending, rule):
    model = make_model(kernel)
    nodes, weights = rule
    X = torch.rand(3, 1, 3, dtype=torch.double)
    seen = torch.tensor([[0.2, 0.4, 0.6]], dtype=torch.double) if pending else None
    upper = _bound("upper", model, [1], rule, seen)(X)
    lower = _bound("lower", model, [1], rule, seen)(X)
    if pending:
        fantasized = model.posterior(seen).mean.detach()
        model = model.condition_on_observations(seen, fantasized)
    for x, high, low in zip(X, upper, lower, strict=True):
        posterior = model.posterior(_at_nodes(x[0], [1], nodes))
        mean = weights @ posterior.mean.detach().squeeze(-1)
        covariance = posterior.distribution.covariance_matrix.detach()
        std = (weights @ covariance @ weights).sqrt()
        assert high.item() == pytest.approx(float(mean + 2 * std), abs=1e-5)
        assert low.item() == pytest.approx(float(mean - 2 * std), abs=1e-5)


def test_lower_bounds_lie_below(model, rule):
    X = torch.rand(3, 1, 3, dtype=torch.double)
    pointwise = _bound("lcb", model, [0], rule)(X)
    lower = _bound("lower", model, [0], rule)(X)
    mean = ExpectedUpperConfidenceBound(model, [0], *rule, beta=0.0)(X)
    upper = ExpectedUpperConfidenceBound(model, [0], *rule)(X)
    assert torch.allclose(mean - pointwise, upper - mean)
    assert (pointwise < lower).all()
    assert (lower < mean).all()


def test_refuses_several_models_in_one(rule):
    # As many as there are nodes: each node would get a model of its own.
    nodes, weights = rule
    X, Y = torch.rand(len(nodes), 5, 3).double(), torch.rand(len(nodes), 5, 1).double()
    acqf = ExpectedUpperConfidenceBound(SingleTaskGP(X, Y), [0], nodes, weights)
    with pytest.raises(UnsupportedInputError, match="it takes a single model, or an ensemble"):
        acqf(torch.rand(2, 1, 3).double())


def test_incumbent_of_the_input_constructor(model, rule):
    """Where none is given it is the best mean of the query at the controlled values tried."""
    construct = get_acqf_input_constructor(PartialQueryLogExpectedImprovement)
    query = {"model": model, "controlled": [0], "nodes": rule[0], "weights": rule[1]}
    X = torch.rand(4, 3, dtype=torch.double)
    nodes = rule[0].repeat(4, 1, 1)
    nodes[..., 0] = X[:, :1]
    means = model.posterior(nodes).mean.detach().squeeze(-1) @ rule[1]
    assert construct(**query, X_baseline=X)["best_f"] == pytest.approx(float(means.max()))
    with pytest.raises(InputError, match="best_f=None: expected a number, or X_baseline"):
        construct(**query)
