import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.models.transforms.input import InputStandardize, InputTransform
from gpytorch.kernels import MaternKernel
from gpytorch.means import LinearMean

from ax_costaware.exceptions import UnsupportedInputError
from ax_costaware.models import GPFactor, information_gain

# The data are in raw units on purpose: the transforms of the model are under test.
pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")


def _data(n=12, d=2, seed=0, dtype=torch.double):
    generator = torch.Generator().manual_seed(seed)
    X = 3 + 4 * torch.rand(n, d, dtype=dtype, generator=generator)
    return X, 5 + 2 * torch.sin(X).sum(dim=-1, keepdim=True)


def _model(n=12, d=2, fixed_noise=False, **kwargs):
    X, Y = _data(n, d)
    bounds = torch.tensor([[3.0] * d, [7.0] * d], dtype=torch.double)
    noise = (
        {"train_Yvar": torch.linspace(0.01, 0.1, n).double().unsqueeze(-1)} if fixed_noise else {}
    )
    options = {"input_transform": Normalize(d, bounds=bounds), **noise, **kwargs}
    return SingleTaskGP(X, Y, **options).eval()


def _mean_and_variance(posterior, X):
    t = posterior.transform(X)
    k = posterior.kernel(t, posterior.X).to_dense()
    mean = posterior.offset + posterior.scale * (posterior.prior_mean + k @ posterior.alpha)
    prior = posterior.kernel(t, diag=True)
    variance = prior - ((k @ posterior.inverse) * k).sum(dim=-1)
    return mean, posterior.scale**2 * variance


@pytest.mark.parametrize("fixed_noise", [False, True])
@pytest.mark.parametrize("outcome", [Standardize(m=1), None])
@pytest.mark.parametrize("weight", [None, -1.0])
def test_equals_the_models_posterior(fixed_noise, outcome, weight):
    model = _model(fixed_noise=fixed_noise, outcome_transform=outcome)
    transform = None
    if weight is not None:
        transform = ScalarizedPosteriorTransform(torch.tensor([weight]).double(), offset=1.5)
    cached = GPFactor.from_model(model, transform)
    X, _ = _data(n=6, seed=1)
    posterior = model.posterior(X.unsqueeze(-2), posterior_transform=transform)
    mean, variance = _mean_and_variance(cached, X)
    assert torch.allclose(mean, posterior.mean.flatten(), atol=1e-8)
    assert torch.allclose(variance, posterior.variance.flatten(), atol=1e-8)


def test_a_list_of_one_model_is_read_like_the_model():
    model = _model()
    one, listed = GPFactor.from_model(model), GPFactor.from_model(ModelListGP(model))
    assert torch.equal(one.alpha, listed.alpha)


def test_pending_points_keep_the_mean_and_shrink_the_variance_as_fantasies_do():
    model = _model(outcome_transform=None)
    pending, _ = _data(n=2, seed=5)
    X, _ = _data(n=6, seed=6)
    before = _mean_and_variance(GPFactor.from_model(model), X)
    after = _mean_and_variance(GPFactor.from_model(model, X_pending=pending), X)
    fantasized = model.posterior(pending).mean
    fantasy = model.condition_on_observations(
        pending, fantasized, noise=model.likelihood.noise.expand(2, 1)
    )
    assert torch.allclose(after[0], before[0], atol=1e-9)
    assert torch.allclose(after[1], fantasy.posterior(X).variance.flatten(), atol=1e-7)
    assert (after[1] < before[1]).all()


def _linear_mean():
    return SingleTaskGP(*_data(), mean_module=LinearMean(2))


def _two_outputs():
    X, Y = _data()
    return SingleTaskGP(X, Y.repeat(1, 2))


def _batched():
    X, Y = _data()
    return SingleTaskGP(X.repeat(3, 1, 1), Y.repeat(3, 1, 1))


class _OwnPosterior(SingleTaskGP):
    """A user's own class, which is asked for nothing but its posterior."""

    def posterior(self, X, *args, **kwargs):
        return super().posterior(0.5 * X, *args, **kwargs)


class _OwnPrior(SingleTaskGP):
    def forward(self, x):
        return super().forward(x**2)


def _own_posterior():
    return _OwnPosterior(*_data())


def _own_prior():
    return _OwnPrior(*_data())


@pytest.mark.parametrize("make", [_linear_mean, _two_outputs, _batched, _own_posterior, _own_prior])
def test_models_of_another_kind_are_left_to_their_own_posterior(make):
    assert GPFactor.from_model(make()) is None


def test_a_kernel_that_is_no_product_still_has_a_cached_factor():
    cached = GPFactor.from_model(_model(covar_module=MaternKernel(ard_num_dims=2).double()))
    assert cached.separable is None
    assert cached.cholesky.shape == (12, 12)


def test_information_gain_is_the_log_determinant():
    model = _model()
    K = model.covar_module(model.train_inputs[0]).to_dense()
    n = K.shape[0]
    noise = model.likelihood.noise.detach()
    exact = 0.5 * torch.logdet(torch.eye(n, dtype=torch.double) + K.detach() / noise)
    assert information_gain(model) == pytest.approx(exact.item(), rel=1e-8)


def test_information_gain_refuses_what_is_no_exact_gp():
    model = _linear_mean()
    with pytest.raises(UnsupportedInputError, match="model: got SingleTaskGP"):
        information_gain(model)


@pytest.mark.parametrize(
    "transform",
    [
        Normalize(2, bounds=torch.tensor([[-1.0, 0.0], [1.0, 4.0]]), center=0.0),
        Normalize(2, indices=[1], bounds=torch.tensor([[-1.0, 0.0], [1.0, 4.0]])),
        Normalize(2, transform_on_eval=False, bounds=torch.tensor([[-1.0, 0.0], [1.0, 4.0]])),
        Normalize(2, reverse=True, bounds=torch.tensor([[-1.0, 0.0], [1.0, 4.0]])),
        InputStandardize(2),
        None,
    ],
    ids=["all columns", "some columns", "in training only", "reverse", "standardized", "none"],
)
def test_points_are_transformed_as_the_model_does(transform: InputTransform | None) -> None:
    X, Y = _data(n=6)
    model = SingleTaskGP(X, Y, input_transform=transform).eval()
    posterior = GPFactor.from_model(model)
    assert posterior is not None
    points = _data(n=6, seed=1)[0].reshape(3, 2, 2)
    for given in (points, points.float()):
        found, expected = posterior.transform(given), model.transform_inputs(given)
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
