"""Inputs whose normal scores are jointly normal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from ax_costaware.laws import (
    Discrete,
    Empirical,
    GaussianCopula,
    Learned,
    Marginal,
    TruncatedNormal,
    Uniform,
)
from tests.laws.joint.places import placement, transform

CORRELATION = ((1.0, 0.7, 0.5), (0.7, 1.0, 0.3), (0.5, 0.3, 1.0))


def normal(mean: float, std: float) -> TruncatedNormal:
    """As good as a normal law."""
    return TruncatedNormal(mean, std, mean - 9 * std, mean + 9 * std)


NORMALS = GaussianCopula(
    {"heat": normal(0.0, 2.0), "rain": normal(3.0, 0.5), "days": normal(1.0, 1.0)}, CORRELATION
)
# Of all kinds; "days" has steps.
MIXED = GaussianCopula(
    {
        "dose": Uniform(0.1, 10.0),
        "rain": TruncatedNormal(0.4, 0.3, 0.0, 1.0),
        "days": Discrete([1, 2, 5], [0.2, 0.5, 0.3]),
        "till": Discrete([0, 1], [0.6, 0.4]),
    },
    (
        (1.0, 0.7, 0.5, -0.4),
        (0.7, 1.0, 0.3, -0.2),
        (0.5, 0.3, 1.0, 0.1),
        (-0.4, -0.2, 0.1, 1.0),
    ),
)
COLUMN = {"dose": 0, "rain": 4, "days": 5, "till": 6, "heat": 7}


def moments(
    law: GaussianCopula, controlled: Sequence[str], point: dict[str, Any], num_nodes: int = 2048
) -> tuple[dict[str, float], dict[str, float]]:
    """Mean and standard deviation of the model's columns under the nodes at a point."""
    nodes_given = law.nodes_given(controlled, placement(num_nodes=num_nodes))
    nodes, weights = nodes_given(transform([point]))
    mean = weights[0] @ nodes[0]
    std = (weights[0] @ (nodes[0] - mean).square()).sqrt()
    found = [name for name in law.names if name not in controlled]
    return (
        {name: float(mean[COLUMN[name]]) for name in found},
        {name: float(std[COLUMN[name]]) for name in found},
    )


@pytest.mark.parametrize("heat", [-5.0, 0.0, 3.0])
def test_given_one_of_normal_inputs(heat: float) -> None:
    """The closed form: mean R_RC z_C, covariance R_RR - R_RC R_CR."""
    mean, std = moments(NORMALS, ["heat"], {"heat": heat})
    z = heat / 2.0
    assert mean["rain"] == pytest.approx(3.0 + 0.5 * 0.7 * z, abs=2e-3)
    assert std["rain"] == pytest.approx(0.5 * math.sqrt(1 - 0.49), rel=5e-3)
    assert mean["days"] == pytest.approx((1.0 + 0.5 * z) / 10, abs=1e-3)
    assert std["days"] == pytest.approx(math.sqrt(1 - 0.25) / 10, rel=5e-3)


@pytest.fixture(scope="module")
def sample() -> dict[str, Any]:
    """A large sample of the mixed law, drawn without this package."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(1_000_000, 4)) @ np.linalg.cholesky(np.array(MIXED.correlation)).T
    u = torch.special.ndtr(torch.tensor(z))
    return {name: law.icdf(u[:, i]).numpy() for i, (name, law) in enumerate(MIXED.marginals)}


GIVEN: list[dict[str, float]] = [
    {"dose": 6.0},
    {"days": 5},
    {"days": 2, "till": 1},
    {"dose": 2.0, "days": 1},
    {"rain": 0.7, "till": 0},
    {"rain": 0.2, "dose": 3.0, "days": 2},
]


def near(sample: dict[str, Any], given: dict[str, float]) -> Any:
    """The rows of the sample close to what is given."""
    width = {"dose": 0.15, "rain": 0.015, "days": 0.1, "till": 0.1}
    keep = [abs(sample[name] - value) < width[name] for name, value in given.items()]
    return np.all(keep, axis=0)


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_nodes_agree_with_a_narrow_window_of_a_large_sample(
    sample: dict[str, Any], given: dict[str, float]
) -> None:
    """Also where inputs with steps are given, or left."""
    keep = near(sample, given)
    mean, std = moments(MIXED, list(given), given)
    for name in mean:
        x = sample[name][keep]
        x = np.log10(x) if name == "dose" else x / 10 if name == "days" else x
        error = x.std() / math.sqrt(len(x)) + 0.02 * x.std()
        assert mean[name] == pytest.approx(x.mean(), abs=4 * error)
        assert std[name] == pytest.approx(x.std(), rel=0.05)


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_cdf_agrees_with_a_narrow_window_of_a_large_sample(
    sample: dict[str, Any], given: dict[str, float]
) -> None:
    keep = near(sample, given)
    for name, values in {"dose": [1.0, 5.0], "rain": [0.3, 0.6], "days": [1, 2, 5]}.items():
        if name in given:
            continue
        for value in values:
            x = sample[name][keep]
            wanted = (x < value).mean(), (x <= value).mean()
            error = 4 * 0.5 / math.sqrt(keep.sum()) + 0.005
            assert MIXED.cdf_given(name, value, given) == pytest.approx(wanted, abs=error)


@pytest.mark.parametrize("heat", [-1e9, -18.0, 18.0, 1e9])
def test_extreme_values_count_as_those_with_a_score_of_four(heat: float) -> None:
    mean, _ = moments(NORMALS, ["heat"], {"heat": heat})
    wanted, _ = moments(NORMALS, ["heat"], {"heat": math.copysign(8.0, heat)})
    assert mean["rain"] == pytest.approx(wanted["rain"], abs=0.005)


@pytest.mark.parametrize("law", [Uniform(0, 1), Learned(Uniform(0, 1), 2).updated([0.5] * 3)])
def test_atoms_and_bounds_give_finite_gradients(law: Marginal) -> None:
    copula = GaussianCopula({"heat": law, "rain": law}, [[1.0, 0.999], [0.999, 1.0]])
    points = transform([{"heat": x} for x in (-0.5, 0.0, 0.3, 0.5, 1.0, 1.5)]).requires_grad_()
    nodes, weights = copula.nodes_given(["heat"], placement())(points)
    (gradient,) = torch.autograd.grad((nodes[..., 4].square() * weights).sum(), points)
    assert bool(torch.isfinite(gradient).all())
    assert bool(torch.isfinite(nodes).all())


def test_nearly_determined_steps_keep_their_weights_finite() -> None:
    days = Discrete([1, 2, 5], [1e-7, 0.5, 0.5 - 1e-7])
    copula = GaussianCopula(
        {"heat": Uniform(0, 1), "days": days, "till": days},
        [[1.0, -0.999, 0.99], [-0.999, 1.0, -0.99], [0.99, -0.99, 1.0]],
    )
    points = transform([{"heat": x, "days": 1} for x in (0.0, 0.5, 1.0)]).requires_grad_()
    for controlled in (["heat"], ["heat", "days"], ["days"]):
        nodes, weights = copula.nodes_given(controlled, placement())(points)
        assert torch.allclose(weights.sum(dim=-1), torch.ones(3, dtype=torch.double))
        (gradient,) = torch.autograd.grad((nodes[..., 6] * weights).sum(), points)
        assert bool(torch.isfinite(gradient).all())


def test_fit_is_the_correlation_of_normal_scores() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(3000, 3)) @ np.linalg.cholesky(np.array(CORRELATION)).T
    frame = pd.DataFrame({"heat": np.exp(z[:, 0]), "rain": z[:, 1] ** 3, "days": z[:, 2]})
    law = GaussianCopula.fit(frame)
    assert np.array(law.correlation) == pytest.approx(np.array(CORRELATION), abs=0.05)
    assert law.marginal("rain") == Empirical(frame["rain"])
    monotone = GaussianCopula.fit(frame.assign(heat=-1 / frame["heat"]))
    assert monotone.correlation == law.correlation
    given = GaussianCopula.fit(frame, {"days": normal(0, 1)})
    assert given.marginal("days") == normal(0, 1)
    assert given.correlation == law.correlation
    whole = GaussianCopula.fit({"days": [1, 2] * 10, "rain": [0.1, 0.9, 0.3, 0.4] * 5})
    assert whole.marginal("days") == Discrete([1, 2])


def test_fit_of_inputs_that_determine_each_other_is_shrunk() -> None:
    x = np.linspace(0, 1, 30)
    law = GaussianCopula.fit({"heat": x, "rain": x**2, "dose": 1 / (1 + x)})
    eigenvalues = np.linalg.eigvalsh(np.array(law.correlation))
    assert eigenvalues[0] == pytest.approx(1e-4, rel=1e-6)
    assert np.abs(law.correlation).min() > 0.999
