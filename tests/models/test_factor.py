import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.models.transforms.input import InputStandardize, InputTransform
from gpytorch.means import LinearMean

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


def test_information_gain_is_the_log_determinant():
    model = _model()
    K = model.covar_module(model.train_inputs[0]).to_dense()
    n = K.shape[0]
    noise = model.likelihood.noise.detach()
    exact = 0.5 * torch.logdet(torch.eye(n, dtype=torch.double) + K.detach() / noise)
    assert information_gain(model) == pytest.approx(exact.item(), rel=1e-8)


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
