import pytest
import torch
from botorch.acquisition.analytic import _log_ei_helper
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
    some_nodes,
)
from ax_costaware.acquisition.partial_query import QueryNodes
from ax_costaware.exceptions import InputError
from ax_costaware.laws import ProductNodes
from ax_costaware.models.posterior import COARSE_NODES, FunctionalPosterior, ModelPosterior

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
    """In raw units, with outcomes that are standardised."""
    X = make_model().train_inputs[0]
    model = SingleTaskGP(
        10 + 5 * X,
        100 * torch.sin(5 * X).sum(dim=-1, keepdim=True),
        covar_module=RBFKernel(ard_num_dims=3),
        outcome_transform=Standardize(1),
        input_transform=Normalize(3, bounds=torch.tensor([[10.0] * 3, [15.0] * 3]).double()),
    )
    model.covar_module.lengthscale = 0.4
    return model.double().eval()


@pytest.fixture(params=["rbf", "matern", "linear mean"])
def any_model(request, make_model):
    """A product kernel, a kernel that is none, and no cached factor at all."""
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
            values.append(std.log() + _log_ei_helper((mean - best_f) / std))
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
def test_values_are_those_of_the_models_posterior(any_model, acquisition, transform, rule):
    givens = [_moving(rule[0], [0]), _moving(rule[0], [0, 2])]
    points, sets = _points(), torch.tensor([0, 1, 0, 1, 1])
    with torch.no_grad():
        got = _objective(any_model, givens, acquisition, transform)(points, sets)
    for index, given in enumerate(givens):
        rows = sets == index
        exact = _by_hand(any_model, given, points[rows], acquisition, transform)
        assert torch.allclose(got[rows], exact, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("acquisition", NAMES)
def test_values_with_input_and_outcome_transforms(make_model, acquisition, rule):
    model = _transformed_model(make_model)

    def given(points):
        nodes, weights = _moving(rule[0], [1])((points - 10) / 5)
        return 10 + 5 * nodes, weights

    points = 10 + 5 * _points()
    objective = _objective(model, [given], acquisition, MINIMISE, best_f=20.0)
    with torch.no_grad():
        got = objective(points, torch.zeros(5, dtype=torch.long))
    exact = _by_hand(model, given, points, acquisition, MINIMISE, best_f=20.0)
    assert torch.allclose(got, exact, rtol=1e-6)


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


@pytest.mark.parametrize("acquisition", [*NAMES, "ts"])
def test_a_search_with_nodes_that_do_not_depend_finds_the_same(model, acquisition, rule, bounds):
    controls = [[0], [1, 2]]
    givens = [QueryNodes(*rule, columns).__call__ for columns in controls]
    one = optimize_control_sets(model, bounds, controls, *rule, acquisition=acquisition)
    two = optimize_control_sets(
        model, bounds, controls, *rule, acquisition=acquisition, given=givens
    )
    assert torch.allclose(one.value, two.value, rtol=1e-5)
    for index, columns in enumerate(controls):
        assert torch.allclose(one.point[index, columns], two.point[index, columns], atol=1e-3)


def test_control_sets_with_and_without_dependence_keep_their_order(model, rule, bounds):
    product = ProductNodes((((0,)), ((1,)), ((2,))), tuple(rule[0].T.unsqueeze(-1)), (rule[1],) * 3)
    controls = [[0], [1], [2], [0, 1]]
    moving = [_moving(rule[0], [0]), None, _moving(rule[0], [2]), None]
    options = {"product": product, "num_restarts": 3, "raw_samples": 32}
    together = optimize_control_sets(model, bounds, controls, *rule, given=moving, **options)
    for index, (columns, given) in enumerate(zip(controls, moving, strict=True)):
        alone = optimize_control_sets(model, bounds, [columns], *rule, given=[given], **options)
        assert torch.allclose(together.value[index], alone.value[0], rtol=1e-5)
        assert torch.allclose(together.point[index], alone.point[0], atol=1e-3)


def _grid_model(function):
    """A GP that knows a function of two inputs well."""
    axis = torch.linspace(0, 1, 7, dtype=torch.double)
    X = torch.cartesian_prod(axis, axis)
    model = SingleTaskGP(
        X, function(X[:, :1], X[:, 1:]), covar_module=RBFKernel(), outcome_transform=None
    )
    model.covar_module.lengthscale = 0.6
    model.likelihood.noise_covar.raw_noise_constraint.lower_bound.fill_(1e-8)
    model.likelihood.noise = 1e-6
    return model.double().eval()


SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()


@pytest.mark.parametrize("acquisition", ["mean", "ucb", "lcb", "ts"])
def test_an_input_that_follows_the_controlled_one(acquisition):
    """E f = -(x - 0.2)^2 - 2 (x - 0.8)^2 - 0.02 is largest at 0.6, and with z at chance at 0.2."""
    model = _grid_model(lambda x, z: -((x - 0.2) ** 2) - 2 * (z - 0.8) ** 2)

    def follows(points):
        x = points[:, :1]
        z = x + torch.tensor([[-0.1, 0.1]]).double()
        return torch.stack([x.expand_as(z), z], dim=-1), torch.full_like(z, 0.5)

    nodes = torch.tensor([[0.5, 0.3], [0.5, 0.7]]).double()
    rule = nodes, torch.tensor([0.5, 0.5]).double()
    # A small beta: next to nothing is left to learn.
    options = {"acquisition": acquisition, "beta": 0.1}
    dependent = optimize_control_sets(model, SQUARE, [[0]], *rule, given=[follows], **options)
    independent = optimize_control_sets(model, SQUARE, [[0]], *rule, **options)
    assert float(dependent.point[0, 0]) == pytest.approx(0.6, abs=0.02)
    assert float(dependent.value[0]) == pytest.approx(-0.16 - 0.08 - 0.02, abs=5e-3)
    assert float(independent.point[0, 0]) == pytest.approx(0.2, abs=0.02)


def test_a_probability_that_follows_the_controlled_input():
    """P(z = 1 | x) = x makes E (z - x^2) = x - x^2, largest at 1/2; at even odds it is at 0."""
    model = _grid_model(lambda x, z: z - x**2)

    def odds(points):
        x = points[:, 0]
        nodes = points.unsqueeze(1).repeat(1, 2, 1)
        nodes[..., 1] = torch.tensor([0.0, 1.0])
        return nodes, torch.stack([1 - x, x], dim=-1)

    nodes = torch.tensor([[0.5, 0.0], [0.5, 1.0]]).double()
    rule = nodes, torch.tensor([0.5, 0.5]).double()
    dependent = optimize_control_sets(model, SQUARE, [[0]], *rule, acquisition="mean", given=[odds])
    independent = optimize_control_sets(model, SQUARE, [[0]], *rule, acquisition="mean")
    assert float(dependent.point[0, 0]) == pytest.approx(0.5, abs=0.01)
    assert float(dependent.value[0]) == pytest.approx(0.25, abs=5e-3)
    assert float(independent.point[0, 0]) == pytest.approx(0.0, abs=0.01)


def test_constraints_and_discrete_columns(model, rule, bounds):
    controls = [[0, 1]]
    given = [_moving(rule[0], [0, 1])]
    options = {"num_restarts": 2, "raw_samples": 48, "given": given}
    free = optimize_control_sets(model, bounds, controls, *rule, **options)
    limit = float(free.point[0, :2].sum()) + 0.3
    bound = optimize_control_sets(
        model, bounds, controls, *rule,
        inequality_constraints=[(torch.tensor([0, 1]), torch.ones(2).double(), limit)], **options,
    )  # fmt: skip
    assert float(bound.point[0, :2].sum()) >= limit - 1e-6
    axis = torch.linspace(0, 1, 41, dtype=torch.double)
    grid = torch.cartesian_prod(axis, axis, axis[:1])
    with torch.no_grad():
        values = _objective(model, given, "ucb")(grid, torch.zeros(len(grid), dtype=torch.long))
    assert free.value[0] >= values.max() - 1e-6
    assert bound.value[0] >= values[grid.sum(dim=-1) >= limit].max() - 1e-3
    levels = torch.tensor([[0.0], [0.25], [1.0]]).double()
    chosen = optimize_control_sets(
        model, bounds, controls, *rule, discrete=[((0,), levels), ((1,), levels)], **options
    )
    on_levels = (grid[:, :2, None] == levels.flatten()).any(dim=-1).all(dim=-1)
    assert float(chosen.value[0]) == pytest.approx(float(values[on_levels].max()), rel=1e-8)


def test_expected_improvement_is_that_of_joint_samples(any_model, rule):
    given = _moving(rule[0], [0])
    point = _points(1)
    with torch.no_grad():
        got = _objective(any_model, [given], "ei", best_f=0.5)(point, torch.zeros(1).long()).exp()
        nodes, weights = given(point)
        covariance = any_model.posterior(nodes[0]).distribution
        root = torch.linalg.cholesky(
            covariance.covariance_matrix + 1e-9 * torch.eye(len(rule[1])).double()
        )
        generator = torch.Generator().manual_seed(0)
        draws = torch.randn(100_000, len(root), dtype=torch.double, generator=generator)
        gains = ((covariance.mean + draws @ root.mT) @ weights[0] - 0.5).clamp_min(0)
    assert float(gains.mean()) > 0.01
    assert abs(float(gains.mean() - got[0])) < 4 * float(gains.std()) / len(gains) ** 0.5


@pytest.mark.parametrize("acquisition", NAMES)
def test_pending_points_are_fantasized_at_their_posterior_mean(any_model, acquisition, rule):
    pending = _points(2, seed=9)
    given = _moving(rule[0], [1])
    with torch.no_grad():
        fantasized = any_model.condition_on_observations(pending, any_model.posterior(pending).mean)
    points = _points(4)
    with torch.no_grad():
        objective = _objective(any_model, [given], acquisition, pending=pending)
        got = objective(points, torch.zeros(4, dtype=torch.long))
    exact = _by_hand(fantasized, given, points, acquisition)
    assert torch.allclose(got, exact, rtol=1e-5, atol=1e-6)
    if acquisition != "mean":
        assert not torch.allclose(got, _by_hand(any_model, given, points, acquisition), rtol=1e-3)


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
    best = max(
        float(_by_hand(any_model, given, any_model.train_inputs[0], "mean", MINIMISE).max())
        for given in givens
    )
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


def test_screening_where_the_part_has_no_weight_is_finite(model):
    nodes = torch.rand(2 * COARSE_NODES, 3, dtype=torch.double)

    def one_node(points):
        at, _ = QueryNodes(nodes, nodes[:, 0], [0])(points)
        weights = torch.zeros(at.shape[:2]).double()
        weights[:, missed] = 1.0
        return at, weights

    indices = torch.arange(len(nodes)).reshape(1, -1, 1)
    kept, _ = some_nodes(indices, torch.ones(1, len(nodes)), COARSE_NODES)
    missed = min(set(range(len(nodes))) - set(kept.flatten().tolist()))
    objective = _objective(model, [one_node], "ucb")
    value = objective(_points(), torch.zeros(5, dtype=torch.long), coarse=True)
    assert bool(value.isfinite().all())


def test_a_model_without_a_cached_factor_is_asked_itself(rule):
    posterior = FunctionalPosterior.of(_linear_mean_model())
    assert isinstance(posterior, ModelPosterior)


def _answers(nodes=None, weights=None):
    def given(points):
        at, even = QueryNodes(torch.rand(4, 3).double(), torch.full((4,), 0.25), [0])(points)
        return at if nodes is None else nodes(at), even if weights is None else weights(even)

    return given


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "given: got 0 entries; it takes one for each of the 1 control sets"),
        ([None, None], "given: got 2 entries"),
        ([_answers(lambda z: z[0])], r"nodes of given\[0\]: got shape \(4, 3\); .* one point"),
        ([_answers(lambda z: z[..., :2])], r"nodes of given\[0\]: got shape \(1, 4, 2\)"),
        ([_answers(lambda z: z / 0)], r"nodes of given\[0\]: got NaN or infinite values"),
        ([_answers(lambda z: z + 0.1)], r"given\[0\]: got nodes whose controlled columns \[0\]"),
        ([_answers(weights=lambda w: w[0])], r"weights of given\[0\] has the shape \(4,\)"),
        ([_answers(weights=lambda w: 2 * w)], r"weights of given\[0\] has .* sum 2\.0:"),
        ([_answers(weights=lambda w: -w)], r"weights of given\[0\] has the minimum -0\.25"),
        ([_answers(weights=lambda w: w / 0)], r"weights of given\[0\] has the minimum"),
    ],
)
def test_bad_input(given, message, model, rule, bounds):
    with pytest.raises(InputError, match=message):
        optimize_control_sets(model, bounds, [[0]], *rule, given=given)
