import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from gpytorch.kernels import RBFKernel
from gpytorch.means import LinearMean

from ax_costaware.acquisition import objectives, optimize_control_sets
from ax_costaware.acquisition.control_sets import sampled
from ax_costaware.acquisition.criteria import LogExpectedImprovement, confidence_bound
from ax_costaware.acquisition.objectives import (
    NodeObjective,
    ProductObjective,
    build_objectives,
)
from ax_costaware.acquisition.partial_query import QueryNodes
from ax_costaware.models.posterior import COARSE_NODES, FunctionalPosterior

NAMES = ["ucb", "lcb", "mean", "ei", "upper", "lower"]
MINIMISE = ScalarizedPosteriorTransform(torch.tensor([-1.0]).double())


def _moving(nodes, controlled):
    """Nodes that move with the point, with weights that fall with the distance from it."""
    random = [column for column in range(nodes.shape[-1]) if column not in controlled]

    def given(points):
        level = points[:, controlled].mean(dim=-1)[:, None, None]
        at = nodes.expand(len(points), -1, -1).clone()
        at[..., random] = 0.4 * at[..., random] + 0.5 * torch.sin(2 * level)
        at[..., controlled] = points[:, None, controlled]
        distance = (nodes[:, random].mean(dim=-1) - level.squeeze(-1)).square()
        return at, torch.softmax(-3 * distance, dim=-1)

    return given


def _linear_mean_model():
    """An exact GP that the cached factor does not read."""
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(12, 3, dtype=torch.double, generator=generator)
    model = SingleTaskGP(
        X,
        torch.sin(5 * X).sum(dim=-1, keepdim=True),
        covar_module=RBFKernel(ard_num_dims=3),
        mean_module=LinearMean(3),
        outcome_transform=None,
    )
    model.covar_module.lengthscale = 0.4
    model.likelihood.noise = 0.01
    return model.double().eval()


def _transformed_model(make_model):
    """Inputs and outcomes that the model transforms."""
    X = make_model().train_inputs[0]
    model = SingleTaskGP(
        X,
        100 * torch.sin(5 * X).sum(dim=-1, keepdim=True),
        covar_module=RBFKernel(ard_num_dims=3),
        outcome_transform=Standardize(1),
        input_transform=Normalize(3, bounds=torch.tensor([[-1.0] * 3, [2.0] * 3]).double()),
    )
    model.covar_module.lengthscale = 0.2
    model.likelihood.noise = 0.01
    return model.double().eval()


@pytest.fixture(params=["rbf", "matern", "linear mean", "transformed"])
def any_model(request, make_model):
    """A product kernel, a kernel that is none, no cached factor at all, and transforms."""
    if request.param == "transformed":
        return _transformed_model(make_model)
    return _linear_mean_model() if request.param == "linear mean" else make_model(request.param)


def _points(n=5, seed=3):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, 3, dtype=torch.double, generator=generator)


def _criterion(acquisition, beta=2.0, best_f=1.0):
    if acquisition == "ei":
        return LogExpectedImprovement(best_f)
    return confidence_bound(acquisition, beta)


def _objective(model, laws, acquisition, transform=None, pending=None, best_f=1.0):
    """For all control sets together, on a product kernel where all nodes are fixed."""
    posterior = FunctionalPosterior.of(model, transform, pending)
    if acquisition == "ts":
        posterior = sampled(posterior, model, transform, 5)
    criterion = _criterion(acquisition, best_f=best_f)
    ((part, objective),) = build_objectives(posterior, laws, criterion)
    assert part == list(range(len(laws)))
    return objective


def _by_hand(model, given, points, acquisition, transform=None, beta=2.0, best_f=1.0):
    """Point by point from the joint posterior of the nodes."""
    values = []
    for nodes, weights in zip(*given(points), strict=True):
        posterior = model.posterior(nodes, posterior_transform=transform)
        mean = weights @ posterior.mean.squeeze(-1)
        if acquisition == "ei":
            std = (weights @ posterior.distribution.covariance_matrix @ weights).sqrt()
            normal, u = torch.distributions.Normal(0.0, 1.0), (mean - best_f) / std
            values.append((std * (normal.log_prob(u).exp() + u * normal.cdf(u))).log())
            continue
        if acquisition in ("upper", "lower"):
            std = (weights @ posterior.distribution.covariance_matrix @ weights).sqrt()
            values.append(mean + (beta if acquisition == "upper" else -beta) * std)
            continue
        sign = {"ucb": beta, "lcb": -beta, "mean": 0.0}[acquisition]
        values.append(mean + sign * weights @ posterior.variance.squeeze(-1).sqrt())
    return torch.stack(values).detach()


@pytest.mark.parametrize("acquisition", NAMES)
@pytest.mark.parametrize("transform", [None, MINIMISE])
@pytest.mark.parametrize("pending", [None, _points(2, seed=9)])
def test_values_are_those_of_the_models_posterior(any_model, acquisition, transform, pending, rule):
    """Pending points count as observed at their posterior mean."""
    givens = [_moving(rule[0], [0]), _moving(rule[0], [0, 2])]
    points, sets = _points(), torch.tensor([0, 1, 0, 1, 1])
    model = any_model
    with torch.no_grad():
        got = _objective(model, givens, acquisition, transform, pending)(points, sets)
        if pending is not None:
            mean = model.posterior(pending).mean
            model = model.condition_on_observations(pending, mean)
    for index, given in enumerate(givens):
        rows = sets == index
        exact, found = _by_hand(model, given, points[rows], acquisition, transform), got[rows]
        if acquisition == "ei":
            exact, found = exact.exp(), found.exp()
        assert torch.allclose(found, exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("acquisition", [*NAMES, "ts"])
def test_gradients_are_finite_differences(any_model, acquisition, rule):
    givens = [_moving(rule[0][:12], [0]), _moving(rule[0][:12], [1, 2])]
    objective = _objective(any_model, givens, acquisition, MINIMISE)
    points = _points(3).requires_grad_(True)
    sets = torch.tensor([0, 1, 0])
    assert torch.autograd.gradcheck(lambda X: objective(X, sets), (points,), atol=1e-4, rtol=1e-3)
    (gradient,) = torch.autograd.grad(objective(points, sets).sum(), points)
    assert bool((gradient[0, 1:] == 0).all())
    assert bool((gradient[1, 1:] != 0).all())


@pytest.mark.parametrize("acquisition", NAMES)
def test_chunks_change_nothing(any_model, acquisition, rule, monkeypatch):
    objective = _objective(any_model, [_moving(rule[0], [0])], acquisition)
    points, sets = _points(7).requires_grad_(True), torch.zeros(7, dtype=torch.long)
    whole = objective(points, sets)
    (gradient,) = torch.autograd.grad(whole.sum(), points)
    monkeypatch.setattr(objectives, "CHUNK_ELEMENTS", 1)
    single = objective(points, sets)
    assert torch.allclose(whole, single, rtol=1e-8)
    assert torch.allclose(gradient, torch.autograd.grad(single.sum(), points)[0], rtol=1e-5)


@pytest.mark.parametrize("acquisition", [*NAMES, "ts"])
@pytest.mark.parametrize("pending", [None, _points(2, seed=8)])
def test_nodes_that_do_not_depend_on_the_point_give_what_is_prepared(
    model, acquisition, pending, rule
):
    fixed = [QueryNodes(*rule, columns) for columns in ([0], [1, 2], [0, 1, 2])]
    prepared = _objective(model, fixed, acquisition, MINIMISE, pending)
    read = _objective(model, [law.__call__ for law in fixed], acquisition, MINIMISE, pending)
    assert isinstance(prepared, ProductObjective)
    assert isinstance(read, NodeObjective)
    points, sets = _points(9), torch.arange(3).repeat(3)
    with torch.no_grad():
        one, two = prepared(points, sets), read(points, sets)
    if acquisition == "ei":  # not the logs, which lie far below where there is little hope
        one, two = one.exp(), two.exp()
    assert torch.allclose(one, two, rtol=1e-8, atol=1e-8)


def test_a_posterior_sample_is_averaged_over_the_nodes(any_model, rule):
    """It is the sample of the usual path: that of the full set at every node."""
    given = _moving(rule[0], [0])
    points = _points(3)
    with torch.no_grad():
        got = _objective(any_model, [given], "ts", MINIMISE)(points, torch.zeros(3).long())
        nodes, weights = given(points)
        flat = nodes.reshape(-1, 3)
        full = _objective(any_model, [QueryNodes(*rule, [0, 1, 2])], "ts", MINIMISE)
        sample = full(flat, torch.zeros(len(flat)).long())
    assert torch.allclose(got, (weights * sample.reshape(weights.shape)).sum(dim=-1), rtol=1e-8)


def test_the_incumbent_reads_the_dependent_nodes(any_model, rule, bounds):
    controls = [[0], [1]]
    givens = [_moving(rule[0], [0]), _moving(rule[0], [1])]
    tried = FunctionalPosterior.of(any_model).observed
    best = max(float(_by_hand(any_model, given, tried, "mean", MINIMISE).max()) for given in givens)
    one, two = (
        optimize_control_sets(
            any_model, bounds, controls, *rule, acquisition="ei", given=givens, best_f=best_f,
            posterior_transform=MINIMISE, num_restarts=2, raw_samples=32,
        ).value
        for best_f in (None, best)
    )  # fmt: skip
    assert torch.allclose(one, two, rtol=1e-5)


def test_screening_with_a_part_of_the_nodes_comes_close(model):
    generator = torch.Generator().manual_seed(2)
    nodes = torch.rand(4 * COARSE_NODES, 3, dtype=torch.double, generator=generator)
    objective = _objective(model, [_moving(nodes, [0])], "ucb")
    points, sets = _points(20), torch.zeros(20, dtype=torch.long)
    with torch.no_grad():
        fine, coarse = objective(points, sets), objective(points, sets, coarse=True)
    assert not torch.equal(fine, coarse)
    assert float((fine - coarse).abs().max()) < 0.3 * float(fine.std())
