import itertools
import math

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
@pytest.mark.parametrize("dtype", [torch.double, torch.float])
@pytest.mark.parametrize("rounds", [False, True])
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


def test_a_superset_is_worth_at_least_as_much(make_model, rule, bounds):
    model = make_model(lengthscale=0.2, n=25)
    values = optimize_control_sets(model, bounds, SETS, *rule).value
    for i, j in itertools.product(range(len(SETS)), repeat=2):
        if set(SETS[i]) < set(SETS[j]):
            assert values[i] <= values[j] + 1e-3


def test_uncontrolled_columns_hold_the_default(model, rule, bounds):
    default = torch.tensor([0.11, 0.22, 0.33], dtype=torch.double)
    optima = optimize_control_sets(model, bounds, [[1]], *rule, default=default)
    assert optima.point[0, [0, 2]].tolist() == [0.11, 0.33]
    nodes, weights = rule
    mean = optimize_control_sets(model, bounds, [[1]], *rule).point[0, [0, 2]]
    assert torch.allclose(mean, (weights @ nodes)[[0, 2]])


def test_the_product_rule_changes_the_linear_part_only(model, marginals, rule, bounds):
    product = ProductNodes.from_marginals(marginals)
    exact = optimize_control_sets(model, bounds, [[0]], *rule, acquisition="mean", product=product)
    sampled = optimize_control_sets(model, bounds, [[0]], *rule, acquisition="mean")
    assert torch.allclose(exact.value, sampled.value, atol=0.05)
    assert not torch.equal(exact.value, sampled.value)


def test_the_same_seed_gives_the_same_answer_and_leaves_the_global_state_alone(model, rule, bounds):
    for acquisition in ("ucb", "ts"):
        before = torch.get_rng_state()
        one = optimize_control_sets(model, bounds, SETS, *rule, acquisition=acquisition, seed=3)
        two = optimize_control_sets(model, bounds, SETS, *rule, acquisition=acquisition, seed=3)
        assert torch.equal(before, torch.get_rng_state())
        assert torch.equal(one.point, two.point)
        assert torch.equal(one.value, two.value)


def test_a_posterior_sample_is_averaged_by_one_rule(model, marginals, rule, bounds):
    """The prior's part and the update cancel at the data; two rules would break that."""
    product = ProductNodes.from_marginals(marginals)
    one = optimize_control_sets(model, bounds, SETS, *rule, acquisition="ts", product=product)
    two = optimize_control_sets(model, bounds, SETS, *rule, acquisition="ts")
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
            for seed in range(40 if kernel == "matern" else 150)
        ]
    )  # fmt: skip
    nodes = rule[0].clone()
    nodes[:, 0], nodes[:, 1] = 0.6, 0.4
    posterior = model.posterior(nodes)
    mean = rule[1] @ posterior.mean.squeeze(-1)
    std = (rule[1] @ posterior.distribution.covariance_matrix @ rule[1]).sqrt()
    standard_error = std / len(draws) ** 0.5
    assert (draws.mean() - mean).abs() < 4 * standard_error
    assert 0.7 < draws.std() / std < 1.3


def test_expected_improvement_without_an_incumbent_takes_the_best_posterior_mean(
    model, rule, bounds
):
    queries = model.train_inputs[0].unsqueeze(-2)
    with torch.no_grad():
        given = max(
            ExpectedUpperConfidenceBound(model, s, *rule, beta=0.0)(queries).max().item()
            for s in SETS
        )
    one = optimize_control_sets(model, bounds, SETS, *rule, acquisition="ei")
    two = optimize_control_sets(model, bounds, SETS, *rule, acquisition="ei", best_f=given)
    assert torch.allclose(one.value, two.value, rtol=1e-6)


def test_input_transforms_and_raw_bounds(make_model, rule):
    """The search in raw units is the search on the unit cube."""
    unit = make_model()
    lower, span = torch.tensor([10.0, -5.0, 0.0]).double(), torch.tensor([5.0, 50.0, 1e-3]).double()
    raw_bounds = torch.stack([lower, lower + span])
    raw = make_model()
    X = raw.train_inputs[0]
    raw = SingleTaskGP(
        lower + span * X,
        unit.train_targets.unsqueeze(-1),
        covar_module=unit.covar_module,
        likelihood=unit.likelihood,
        mean_module=unit.mean_module,
        outcome_transform=None,
        input_transform=Normalize(3, bounds=raw_bounds),
    ).eval()
    model = SingleTaskGP(
        X,
        unit.train_targets.unsqueeze(-1),
        covar_module=unit.covar_module,
        likelihood=unit.likelihood,
        mean_module=unit.mean_module,
        outcome_transform=None,
    ).eval()
    nodes, weights = rule
    bounds = torch.stack([torch.zeros(3), torch.ones(3)]).double()
    one = optimize_control_sets(model, bounds, [[0], [0, 1, 2]], nodes, weights)
    two = optimize_control_sets(raw, raw_bounds, [[0], [0, 1, 2]], lower + span * nodes, weights)
    assert torch.allclose(one.value, two.value, atol=1e-4)
    assert torch.allclose((two.point - lower) / span, one.point, atol=0.02)


@pytest.mark.parametrize("kernel", ["rbf", "matern"])
def test_discrete_columns_take_their_values(make_model, kernel, rule, bounds):
    model = make_model(kernel)
    values = torch.tensor([[0.0], [0.25], [1.0]], dtype=torch.double)
    optima = optimize_control_sets(
        model, bounds, [[0], [0, 1]], *rule, discrete=[((0,), values)],
        num_restarts=3, raw_samples=32,
    )  # fmt: skip
    assert set(optima.point[:, 0].tolist()) <= {0.0, 0.25, 1.0}
    grid = values.repeat(1, 3).unsqueeze(-2)
    exact = ExpectedUpperConfidenceBound(model, [0], *rule)(grid).max()
    assert torch.allclose(optima.value[0], exact, atol=1e-6)


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


def test_constraints_are_taken_in_the_precision_of_the_model(model, rule, bounds):
    options = {"num_restarts": 1, "raw_samples": 16}
    found = [
        optimize_control_sets(
            model, bounds, [[0, 1]], *rule, inequality_constraints=[one], **options
        )
        for one in (
            (torch.tensor([0, 1]), torch.tensor([-1.0, -0.5]).double(), -0.5),
            (torch.tensor([0, 1]), torch.tensor([-1.0, -0.5]), torch.tensor(-0.5)),
            ([0, 1], torch.tensor([-1.0, -0.5]), -0.5),
        )
    ]
    assert all(torch.equal(each.point, found[0].point) for each in found)


def test_constraints_without_room_are_refused(model, rule, bounds):
    impossible = [(torch.tensor([0]), torch.ones(1).double(), 2.0)]
    with pytest.raises(InputError, match="inequality_constraints: got constraints that no raw"):
        optimize_control_sets(model, bounds, [[0]], *rule, inequality_constraints=impossible)


def test_fixed_features_are_kept_where_controlled(model, rule, bounds):
    optima = optimize_control_sets(model, bounds, [[0, 1], [1]], *rule, fixed_features={0: 0.77})
    assert optima.point[0, 0] == 0.77
    assert optima.point[1, 0] != 0.77


def test_pending_points_move_the_choice(model, rule, bounds):
    first = optimize_control_sets(model, bounds, [[0, 1, 2]], *rule)
    second = optimize_control_sets(model, bounds, [[0, 1, 2]], *rule, X_pending=first.point)
    assert (first.point - second.point).abs().max() > 0.05


def test_many_control_sets_in_chunks_equal_one_by_one(make_model, rule, bounds):
    model = make_model()
    together = optimize_control_sets(model, bounds, SETS, *rule)
    alone = [optimize_control_sets(model, bounds, [s], *rule).value[0] for s in SETS]
    assert torch.allclose(together.value, torch.stack(alone), atol=1e-4)


def constraint(columns, number=None, rhs=0.5):
    return [(torch.tensor(columns), torch.ones(number or len(columns)).double(), rhs)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"control_sets": []}, "control_sets: got none"),
        ({"fixed_features": {-1: 0.5}}, r"fixed_features: got \[-1\]"),
        ({"discrete": [((7,), torch.ones(2, 1))]}, r"discrete: got \[7\]"),
        ({"discrete": [((0,), torch.ones(2))]}, r"discrete of \[0\]: got shape \(2,\)"),
        ({"discrete": [((0, 1), torch.eye(2))]}, r"of which the control set \[0\] has a part"),
        ({"fixed_features": {0: math.nan}}, r"fixed_features\[0\]=nan: expected a finite number"),
        ({"inequality_constraints": constraint([-1])}, r"inequality_constraints: got \[-1\]"),
        ({"inequality_constraints": constraint([0, 7])}, r"inequality_constraints: got \[0, 7\]"),
        ({"inequality_constraints": constraint([0], 2)}, "expected 1 finite coefficients"),
        ({"inequality_constraints": constraint([0], rhs=math.nan)}, "rhs of inequality_constr"),
        ({"default": torch.zeros(2)}, r"default: got shape \(2,\)"),
        ({"acquisition": "ei", "best_f": math.nan}, "best_f=nan: expected a finite number"),
        ({"X_pending": torch.zeros(3)}, r"X_pending: got \(3,\)"),
        ({"control_sets": [[0], []]}, "control_sets: got"),
        ({"control_sets": [[7]]}, "control_sets: got"),
        ({"bounds": torch.zeros(3, 2)}, "bounds: got shape"),
        ({"bounds": torch.tensor([[1.0] * 3, [0.0] * 3])}, "lower <= upper"),
        ({"acquisition": "pi"}, r"acquisition='pi': expected one of \['ucb', "),
        ({"beta": -1.0}, "beta=-1.0: expected"),
        ({"num_restarts": 0}, "num_restarts=0: expected"),
        ({"raw_samples": -3}, "raw_samples=-3: expected"),
        ({"seed": 1.5}, "seed=1.5: expected an integer >= 0"),
        ({"weights": torch.ones(32)}, "weights has the minimum"),
    ],
)
def test_bad_input(change, message, model, rule, bounds):
    arguments = {
        "bounds": bounds,
        "control_sets": [[0]],
        "nodes": rule[0],
        "weights": rule[1],
        **change,
    }
    with pytest.raises(InputError, match=message):
        optimize_control_sets(model, **arguments)


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
    with pytest.raises(InputError, match=r"best_f: got None; expected a number, .* MultiTaskGP"):
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
