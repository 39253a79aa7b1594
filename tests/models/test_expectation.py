import itertools

import pytest
import torch
from botorch.acquisition.objective import (
    ExpectationPosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.models.transforms.input import InputPerturbation
from gpytorch.kernels import LinearKernel, MaternKernel

from ax_costaware.exceptions import UnsupportedInputError
from ax_costaware.laws import Discrete, Empirical, ProductNodes, TruncatedNormal, Uniform
from ax_costaware.models import expectation_posterior

BOUNDS = torch.tensor([[0.0, -1.0, 10.0], [1.0, 1.0, 20.0]], dtype=torch.double)
MARGINALS = [
    TruncatedNormal(0.4, 0.2, 0.0, 1.0),
    Uniform(-1.0, 1.0),
    Discrete((11.0, 14.0, 19.0), (0.2, 0.5, 0.3)),
]


def _model(covar_module=None):
    generator = torch.Generator().manual_seed(3)
    X = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * torch.rand(15, 3, generator=generator).double()
    Y = 40 + 7 * torch.sin(X).sum(dim=-1, keepdim=True)
    options = {} if covar_module is None else {"covar_module": covar_module}
    model = SingleTaskGP(X, Y, input_transform=Normalize(3, bounds=BOUNDS), **options)
    model.likelihood.noise = 0.01
    if covar_module is None:
        model.covar_module.lengthscale = torch.tensor([[0.3, 0.5, 0.7]])
    return model.eval()


def _grid(rules):
    """Brute force: the product grid with its weights."""
    nodes = torch.cartesian_prod(*[nodes for nodes, _ in rules])
    weights = torch.stack([w.prod() for w in torch.cartesian_prod(*[w for _, w in rules])])
    return nodes, weights


@pytest.mark.parametrize("sign", [None, -1.0])
def test_closed_form_equals_brute_force_over_the_grid(sign):
    model = _model()
    transform = (
        None if sign is None else ScalarizedPosteriorTransform(torch.tensor([sign]).double())
    )
    rules = [marginal.nodes_and_weights(12) for marginal in MARGINALS]
    nodes, weights = _grid(rules)
    posterior = model.posterior(nodes, posterior_transform=transform)
    mean = weights @ posterior.mean.squeeze(-1)
    variance = weights @ posterior.distribution.covariance_matrix @ weights
    product = ProductNodes.from_marginals(MARGINALS, n=12)
    closed = expectation_posterior(model, product, posterior_transform=transform)
    brute = expectation_posterior(model, nodes, weights, posterior_transform=transform)
    assert torch.allclose(closed[0], mean, rtol=1e-8, atol=0)
    assert torch.allclose(closed[1], variance, rtol=1e-8, atol=1e-10)
    assert torch.allclose(brute[0], mean, rtol=1e-8, atol=0)
    assert torch.allclose(brute[1], variance, rtol=1e-8, atol=1e-10)


def test_a_block_of_two_columns_carries_dependence():
    model = _model()
    pair = torch.tensor([[0.1, -0.5], [0.9, 0.7]], dtype=torch.double)
    pair_weights = torch.tensor([0.25, 0.75], dtype=torch.double)
    third, third_weights = MARGINALS[2].nodes_and_weights(3)
    query = ProductNodes(((0, 1), (2,)), (pair, third.unsqueeze(-1)), (pair_weights, third_weights))
    rows = [
        (torch.cat([p, t.reshape(1)]), a * b)
        for (p, a), (t, b) in itertools.product(
            zip(pair, pair_weights, strict=True), zip(third, third_weights, strict=True)
        )
    ]
    nodes = torch.stack([row for row, _ in rows])
    weights = torch.stack([weight for _, weight in rows])
    closed, brute = (
        expectation_posterior(model, query),
        expectation_posterior(model, nodes, weights),
    )
    assert torch.allclose(closed[0], brute[0], rtol=1e-9)
    assert torch.allclose(closed[1], brute[1], rtol=1e-7)


def test_a_grid_too_large_is_sampled():
    model = _model(MaternKernel(nu=2.5, ard_num_dims=3).double())
    marginals = [*MARGINALS[:2], Empirical(tuple(torch.linspace(10, 20, 60).tolist()))]
    sampled = expectation_posterior(model, ProductNodes.from_marginals(marginals, n=40))
    brute = expectation_posterior(model, ProductNodes.from_marginals(marginals, n=8))
    assert (sampled[0] - brute[0]).abs().item() < 0.02 * 7


def test_batches_of_queries():
    model = _model()
    nodes = torch.rand(4, 2, 5, 3, dtype=torch.double)
    weights = torch.full((5,), 0.2, dtype=torch.double)
    mean, variance = expectation_posterior(model, nodes, weights)
    assert mean.shape == variance.shape == (4, 2)
    single = expectation_posterior(model, nodes[1, 1], weights)
    assert torch.allclose(mean[1, 1], single[0])


def test_the_mean_is_differentiable_with_respect_to_nodes():
    model = _model()
    nodes = torch.rand(5, 3, dtype=torch.double, requires_grad=True)
    weights = torch.full((5,), 0.2, dtype=torch.double)
    assert torch.autograd.gradcheck(
        lambda n: expectation_posterior(model, n, weights)[0], nodes, atol=1e-5
    )


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
def test_rules_and_weights_take_the_precision_of_the_model():
    X = torch.rand(8, 3)
    model = SingleTaskGP(X, X.sum(dim=-1, keepdim=True), covar_module=LinearKernel())
    product = ProductNodes.from_marginals([Uniform(0.0, 1.0)] * 3, n=3)
    nodes, weights = _grid([Uniform(0.0, 1.0).nodes_and_weights(3)] * 3)
    by_rule = expectation_posterior(model, product)
    by_nodes = expectation_posterior(model, nodes.float(), weights)
    assert by_rule[0].dtype == torch.float32
    torch.testing.assert_close(by_rule, by_nodes, rtol=1e-4, atol=1e-5)


def test_an_input_transform_that_makes_several_points_of_one():
    X = torch.rand(8, 3).double()
    moves = InputPerturbation(torch.tensor([[0.0] * 3, [0.1] * 3]).double())
    model = SingleTaskGP(X, X.sum(dim=-1, keepdim=True), input_transform=moves)
    nodes, weights = torch.rand(5, 3).double(), torch.full((5,), 0.2).double()
    with pytest.raises(UnsupportedInputError, match="makes 10 points of 5"):
        expectation_posterior(model, nodes, weights)
    average = ExpectationPosteriorTransform(n_w=2)
    mean, _ = expectation_posterior(model, nodes, weights, average)
    torch.testing.assert_close(mean, weights @ model.posterior(nodes).mean.view(5, 2).mean(dim=-1))
