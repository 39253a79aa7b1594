import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.generation.gen import gen_candidates_scipy
from botorch.models import MultiTaskGP, SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.models.transforms.input import ChainedInputTransform, Round
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.means import LinearMean

from ax_costaware.acquisition import (
    ExpectedUpperConfidenceBound,
    optimize_control_sets,
)
from ax_costaware.acquisition.control_sets import PartialQueryAcquisition
from ax_costaware.acquisition.criteria import LogExpectedImprovement, confidence_bound
from ax_costaware.exceptions import InputError
from ax_costaware.laws import ProductNodes, Uniform, sobol_nodes
from tests.repeats import mostly_slow

SETS = [[0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]]


def _function(model, controlled, rule, acquisition, best_f, transform=None):
    is_improvement = acquisition == "ei"
    criterion = (
        LogExpectedImprovement(best_f) if is_improvement else confidence_bound(acquisition, 2.0)
    )
    return PartialQueryAcquisition(model, controlled, *rule, criterion, transform, None)


@pytest.mark.parametrize("acquisition", ["ucb", "lcb", "mean", "ei", "upper", "lower"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_finds_what_brute_force_finds(make_model, acquisition, sign, rule, bounds):
    model = make_model(lengthscale=0.2, n=25)
    transform = ScalarizedPosteriorTransform(torch.tensor([sign]).double())
    best_f = 1.0
    optima = optimize_control_sets(
        model, bounds, SETS, *rule, 2.0, acquisition=acquisition, best_f=best_f,
        posterior_transform=transform,
    )  # fmt: skip
    raw = draw_sobol_samples(bounds, n=2000, q=1, seed=7)
    for index, controlled in enumerate(SETS):
        function = _function(model, controlled, rule, acquisition, best_f, transform)
        with torch.no_grad():
            order = function(raw).argsort(descending=True)
        _, reached = gen_candidates_scipy(raw[order[:20]], function, 0.0, 1.0)
        best = reached.max()
        best = best.exp() if acquisition == "ei" else best
        assert optima.value[index] >= best - 2e-3 * (1 + best.abs())
        with torch.no_grad():
            value = function(optima.point[index].reshape(1, 1, -1))[0]
        value = value.exp() if acquisition == "ei" else value
        assert torch.allclose(optima.value[index], value, atol=1e-6)


@pytest.mark.parametrize("acquisition", ["ucb", "mean", "ts", "lower"])
@pytest.mark.parametrize("constrained", [False, True])
def test_the_unit_of_the_objective_does_not_stop_the_search_early(
    make_model, acquisition, constrained, rule, bounds
):
    """The optimisers' tolerances are absolute, the values in any unit and on any level."""
    model = make_model(lengthscale=0.2, n=25)
    # The first two columns sum to at most 1.3.
    room = [(torch.tensor([0, 1]), torch.tensor([-1.0, -1.0]).double(), -1.3)]
    points = [
        optimize_control_sets(
            model, bounds, [[1], [0, 1]], *rule, acquisition=acquisition,
            posterior_transform=ScalarizedPosteriorTransform(torch.tensor([unit]).double(), level),
            inequality_constraints=room if constrained else None, num_restarts=2, raw_samples=64,
        ).point
        for unit, level in ((1.0, 0.0), (1e-5, 0.0), (1e3, 1e5))
    ]  # fmt: skip
    assert torch.allclose(points[0], points[1], rtol=0, atol=1e-4)
    assert torch.allclose(points[0], points[2], rtol=0, atol=1e-4)


def _of_wide_inputs(mean=None, dtype=torch.double, rounds=False):
    """A model of two inputs between 0 and 100, and their bounds."""
    generator = torch.Generator().manual_seed(0)
    bounds = torch.tensor([[0.0] * 2, [100.0] * 2], dtype=dtype)
    X = (100 * torch.rand(15, 2, generator=generator)).round().to(dtype)
    Y = -(X / 100 - 0.4).square().sum(dim=-1, keepdim=True)
    transform = Normalize(2, bounds=bounds)
    if rounds:
        transform = ChainedInputTransform(a=Round(integer_indices=[0]), b=transform)
    return SingleTaskGP(X, Y, mean_module=mean, input_transform=transform).eval(), bounds


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
@pytest.mark.parametrize(("dtype", "rounds"), [(torch.double, True), (torch.float, False)])
@pytest.mark.parametrize("acquisition", mostly_slow(["ucb", "ei"], ["ei"]))
def test_with_and_without_a_cached_factor_it_is_the_same(dtype, rounds, acquisition):
    """A linear mean of zero is one that is not cached. Nodes are in double precision."""
    zero = LinearMean(2).to(dtype)
    zero.load_state_dict({name: 0 * value for name, value in zero.state_dict().items()})
    rule = sobol_nodes([Uniform(0, 100)] * 2, 8)
    found = []
    for mean in (None, zero):
        model, bounds = _of_wide_inputs(mean, dtype, rounds)
        found.append(
            optimize_control_sets(
                model, bounds, [[0], [0, 1]], *rule, acquisition=acquisition,
                num_restarts=2, raw_samples=64,
            )
        )  # fmt: skip
    assert {found[0].point.dtype, found[0].value.dtype} == {dtype}
    tolerance = 1e-5 if dtype is torch.double else 1e-3
    torch.testing.assert_close(found[1].value, found[0].value, rtol=tolerance, atol=tolerance)


def test_the_same_seed_gives_the_same_answer_and_leaves_the_global_state_alone(model, rule, bounds):
    for acquisition in ("ucb", "ts"):
        before = torch.get_rng_state()
        one = optimize_control_sets(model, bounds, SETS, *rule, acquisition=acquisition, seed=3)
        two = optimize_control_sets(model, bounds, SETS, *rule, acquisition=acquisition, seed=3)
        assert torch.equal(before, torch.get_rng_state())
        assert torch.equal(one.point, two.point)
        assert torch.equal(one.value, two.value)


@pytest.mark.parametrize("kernel", ["rbf", "matern"])
def test_thompson_samples_follow_the_posterior_of_the_query(make_model, kernel, rule, bounds):
    """The best value of a set without freedom is the sampled expectation itself."""
    model = make_model(kernel)
    point = {1: 0.4, 0: 0.6}
    draws = torch.stack(
        [
            optimize_control_sets(
                model, bounds, [[0, 1]], *rule, acquisition="ts", fixed_features=point,
                raw_samples=1, num_restarts=1, seed=seed,
            ).value[0]
            for seed in range(40)
        ]
    )  # fmt: skip
    nodes = rule[0].clone()
    nodes[:, 0], nodes[:, 1] = 0.6, 0.4
    posterior = model.posterior(nodes)
    mean = rule[1] @ posterior.mean.squeeze(-1)
    std = (rule[1] @ posterior.distribution.covariance_matrix @ rule[1]).sqrt()
    standard_error = std / len(draws) ** 0.5
    assert (draws.mean() - mean).abs() < 4 * standard_error
    assert 0.6 < draws.std() / std < 1.5


def test_one_hot_columns_move_together(make_model, rule, bounds):
    model = make_model()
    optima = optimize_control_sets(
        model, bounds, [[0, 1, 2]], *rule, discrete=[((1, 2), torch.eye(2).double())]
    )
    assert sorted(optima.point[0, 1:].tolist()) == [0.0, 1.0]


@pytest.mark.parametrize("kernel", ["rbf", "matern"])
def test_constraints_hold_and_bind(make_model, kernel, rule, bounds):
    model = make_model(kernel)
    index, ones = torch.tensor([0, 1]), torch.ones(2).double()
    free = optimize_control_sets(model, bounds, [[0, 1]], *rule, num_restarts=2, raw_samples=64)
    limit = float(free.point[0, :2].sum()) + 0.3
    optima = optimize_control_sets(
        model, bounds, [[0, 1], [0], [2]], *rule, num_restarts=2, raw_samples=64,
        inequality_constraints=[(index, ones, limit)],
        default=torch.tensor([0.9, 0.9, 0.5]).double(),
    )  # fmt: skip
    assert float(optima.point[0, :2].sum()) >= limit - 1e-6
    assert float(optima.point[1, 0]) + 0.9 >= limit - 1e-6  # uncontrolled: at its default
    assert optima.value[0] <= free.value[0]
    axis = torch.linspace(0, 1, 60, dtype=torch.double)
    grid = torch.cartesian_prod(axis, axis)
    grid = grid[grid.sum(dim=-1) >= limit]
    full = torch.cat([grid, grid[:, :1]], dim=-1).unsqueeze(-2)
    assert optima.value[0] >= ExpectedUpperConfidenceBound(model, [0, 1], *rule)(full).max() - 1e-3


def test_fixed_features_are_kept_where_controlled(model, rule, bounds):
    optima = optimize_control_sets(model, bounds, [[0, 1], [1]], *rule, fixed_features={0: 0.77})
    assert optima.point[0, 0] == 0.77
    assert optima.point[1, 0] != 0.77


@pytest.mark.parametrize("dtype", [torch.float32, torch.long])
def test_bounds_are_taken_in_the_precision_of_the_model(model, rule, bounds, dtype):
    options = {"num_restarts": 1, "raw_samples": 16}
    given = optimize_control_sets(model, bounds.to(dtype), [[0], [0, 1]], *rule, **options)
    found = optimize_control_sets(model, bounds, [[0], [0, 1]], *rule, **options)
    assert torch.equal(given.point, found.point)
    assert torch.equal(given.value, found.value)


@pytest.mark.filterwarnings("ignore::UserWarning:linear_operator")
def test_improvement_needs_an_incumbent_where_the_data_have_a_task(rule, bounds):
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(12, 3, generator=generator, dtype=torch.double)
    task = torch.arange(12).remainder(2).to(X).unsqueeze(-1)
    model = MultiTaskGP(torch.cat([X, task], -1), X.sum(-1, keepdim=True), -1, output_tasks=[0])
    options = {"acquisition": "ei", "num_restarts": 1, "raw_samples": 16}
    with pytest.raises(InputError, match=r"best_f: got None"):
        optimize_control_sets(model, bounds, [[0]], *rule, **options)
    found = optimize_control_sets(model, bounds, [[0]], *rule, best_f=1.0, **options)
    assert float(found.value[0]) > 0


@pytest.mark.parametrize("total", [10.0, 15.0])
@pytest.mark.parametrize("acquisition", ["ucb", "mean", "ei"])
def test_integers_that_sum_to_a_number(make_model, acquisition, total):
    """Where one of them moves, another one has to move, too."""
    columns, d = [0, 1, 2, 3], 5
    unit = torch.arange(11.0).double() / 10
    model = make_model(d=d, lengthscale=0.3, n=25)
    rule = sobol_nodes([Uniform(0.0, 1.0)] * d, 16)
    index, ones = torch.tensor(columns), torch.ones(4).double()
    optima = optimize_control_sets(
        model, torch.tensor([[0.0] * d, [1.0] * d]).double(), [columns, [*columns, 4]], *rule, 2.0,
        acquisition=acquisition, best_f=1.0,
        discrete=[((i,), unit.unsqueeze(-1)) for i in columns],
        inequality_constraints=[(index, ones, total / 10), (index, -ones, -total / 10)],
    )  # fmt: skip
    grid = torch.cartesian_prod(*[unit] * 4)
    grid = grid[((grid.sum(dim=-1) - total / 10).abs() < 1e-9)]
    X = torch.cat([grid, optima.point[0, 4:].expand(len(grid), 1)], dim=-1).unsqueeze(-2)
    with torch.no_grad():
        values = _function(model, columns, rule, acquisition, 1.0)(X)
    best = values.max().exp() if acquisition == "ei" else values.max()
    assert float((optima.point[:, :4].sum(dim=-1) - total / 10).abs().max()) < 1e-9
    assert optima.value[0] >= best - 1e-6
    assert optima.value[1] >= optima.value[0] - 1e-6


def test_the_product_rule_changes_the_linear_part_only(model, marginals, rule, bounds):
    product = ProductNodes.from_marginals(marginals)
    exact = optimize_control_sets(model, bounds, [[0]], *rule, acquisition="mean", product=product)
    sampled = optimize_control_sets(model, bounds, [[0]], *rule, acquisition="mean")
    assert torch.allclose(exact.value, sampled.value, atol=0.05)
    assert not torch.equal(exact.value, sampled.value)


def test_a_posterior_sample_is_averaged_by_one_rule(model, marginals, rule, bounds):
    """The prior's part and the update cancel at the data; two rules would break that."""
    product = ProductNodes.from_marginals(marginals)
    one = optimize_control_sets(model, bounds, SETS, *rule, acquisition="ts", product=product)
    two = optimize_control_sets(model, bounds, SETS, *rule, acquisition="ts")
    assert torch.equal(one.value, two.value)
