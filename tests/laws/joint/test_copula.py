"""Inputs whose normal scores are jointly normal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ax_costaware.exceptions import InputError
from ax_costaware.laws import (
    Discrete,
    Empirical,
    GaussianCopula,
    Learned,
    Marginal,
    Placement,
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


def test_given_two_of_normal_inputs() -> None:
    mean, std = moments(NORMALS, ["days", "heat"], {"heat": 3.0, "days": -0.5})
    known, cross = np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([0.7, 0.3])
    weights = np.linalg.solve(known, cross)
    assert mean["rain"] == pytest.approx(3.0 + 0.5 * weights @ [1.5, -1.5], abs=2e-3)
    assert std["rain"] == pytest.approx(0.5 * math.sqrt(1 - weights @ cross), rel=5e-3)


def test_joint_law_of_what_is_left() -> None:
    """The correlation of two inputs given a third: the partial correlation."""
    nodes, weights = NORMALS.nodes_given(["heat"], placement(num_nodes=4096))(
        transform([{"heat": 1.0}])
    )
    pair = nodes[0][:, [COLUMN["rain"], COLUMN["days"]]]
    centered = pair - weights[0] @ pair
    covariance = (centered.T * weights[0]) @ centered
    found = covariance[0, 1] / (covariance[0, 0] * covariance[1, 1]).sqrt()
    wanted = (0.3 - 0.7 * 0.5) / math.sqrt((1 - 0.49) * (1 - 0.25))
    assert float(found) == pytest.approx(wanted, abs=0.01)


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


def test_weights_of_nodes_of_an_input_with_steps_are_its_probabilities() -> None:
    """Given a continuous input they are known in closed form, up to rounding."""
    nodes_given = MIXED.nodes_given(["dose"], placement(num_nodes=4096))
    nodes, weights = nodes_given(transform([{"dose": 6.0}]))
    for value in (1, 2, 5):
        share = float(weights[0][(nodes[0, :, 5] - value / 10).abs() < 1e-9].sum())
        strict, weak = MIXED.cdf_given("days", value, {"dose": 6.0})
        assert share == pytest.approx(weak - strict, abs=5e-3)


def test_pit_is_uniform(sample: dict[str, Any]) -> None:
    """What the randomised probability integral transform needs."""
    rng = np.random.default_rng(1)
    draws = []
    for i in range(300):
        row = {name: float(column[i]) for name, column in sample.items()}
        name = ("rain", "days")[i % 2]
        given = {n: row[n] for n in ("dose", "till")}
        strict, weak = MIXED.cdf_given(name, row[name], given)
        draws.append(strict + rng.random() * (weak - strict))
    gap = np.abs(np.sort(draws) - (np.arange(300) + 0.5) / 300).max()
    assert gap < 0.09  # Kolmogorov's bound: exceeded with probability below 0.02 a draw of 300.


def test_one_hot_columns_of_a_numeric_choice() -> None:
    """Given or left, a choice between numbers may have several columns."""
    law = GaussianCopula(
        {"size": Discrete([1, 2, 4]), "rain": Uniform(0, 1)}, [[1.0, 0.8], [0.8, 1.0]]
    )

    def one_hot(rows: Sequence[Any]) -> torch.Tensor:
        return torch.tensor(
            [
                [*(float(row.get("size", 1) == v) for v in (1, 2, 4)), row.get("rain", 0.5)]
                for row in rows
            ],
            dtype=torch.double,
        )

    place = Placement(one_hot, {"size": (0, 1, 2), "rain": (3,)}, {}, 1024, 0)
    points = one_hot([{"size": 1}, {"size": 2}, {"size": 4}])
    nodes, weights = law.nodes_given(["size"], place)(points)
    means = (nodes[..., 3] * weights).sum(dim=-1).tolist()
    assert means[0] < 0.3 < means[1] < 0.7 < means[2]
    assert sum(means) / 3 == pytest.approx(0.5, abs=0.01)
    nodes, weights = law.nodes_given(["rain"], place)(one_hot([{"rain": 0.9}]))
    assert torch.equal(nodes[0, :, :3].sum(dim=-1), torch.ones(1024, dtype=torch.double))
    for i, value in enumerate((1, 2, 4)):
        strict, weak = law.cdf_given("size", value, {"rain": 0.9})
        assert float(weights[0] @ nodes[0, :, i]) == pytest.approx(weak - strict, abs=0.01)


def test_samples_without_ties_are_joined_by_lines() -> None:
    """The nodes of an ``Empirical`` marginal move with the point, within its range."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    law = GaussianCopula.fit({"heat": x[:, 0], "rain": x[:, 1]})
    heat = torch.linspace(-1.5, 1.5, 31, dtype=torch.double)
    points = transform([{"heat": float(x)} for x in heat]).requires_grad_()
    nodes, weights = law.nodes_given(["heat"], placement(num_nodes=512))(points)
    mean = (nodes[..., 4] * weights).sum(dim=-1)
    assert float((mean.detach() - 0.8 * heat).abs().max()) < 0.2
    # The slope hardly depends on which samples happen to lie beside the point.
    (gradient,) = torch.autograd.grad(mean.sum(), points)
    slope = -gradient[:, 7]  # This column runs down.
    assert float(slope.mean()) == pytest.approx(0.8, abs=0.1)
    assert 0.4 < float(slope.min()) < float(slope.max()) < 1.4
    rain = nodes[..., 4].detach()
    assert x[:, 1].min() <= float(rain.min()) < float(rain.max()) <= x[:, 1].max()


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


@given(rho=st.floats(-0.95, 0.95), heat=st.floats(0.01, 0.99))
@settings(max_examples=30, deadline=None)
def test_cdf_given_of_a_pair_is_the_closed_form(rho: float, heat: float) -> None:
    law = GaussianCopula({"heat": Uniform(0, 1), "rain": Uniform(0, 2)}, [[1, rho], [rho, 1]])
    z, y = (torch.special.ndtri(torch.tensor(p, dtype=torch.double)) for p in (heat, 0.25))
    wanted = torch.special.ndtr((y - rho * z) / math.sqrt(1 - rho**2))
    found = law.cdf_given("rain", 0.5, {"heat": heat})
    assert found == pytest.approx((float(wanted), float(wanted)), abs=1e-4)


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


def test_repr_is_the_call_that_makes_it() -> None:
    for law in (NORMALS, MIXED):
        assert eval(repr(law)) == law


TWO = {"a": Uniform(0, 1), "b": Uniform(0, 1)}
EXPECTED = "expected a symmetric, positive definite 2 x 2 matrix with ones on the diagonal"


@pytest.mark.parametrize(
    ("marginals", "correlation", "message"),
    [
        ({}, [], r"marginals=\{\}: expected a mapping from names to marginals"),
        (3, [[1]], r"marginals=3: expected a mapping from names to marginals"),
        ({"a": 0.5}, [[1]], r"marginals\['a'\]=0\.5: expected a marginal on numbers"),
        (
            {"a": Discrete(["x", "y"])},
            [[1]],
            r"marginals\['a'\]=Discrete\(.*: expected a marginal on numbers",
        ),
        ([("a", Uniform(0, 1))] * 2, np.eye(2), "marginals has 'a' more than once"),
        (TWO, 0.5, rf"correlation=0\.5: {EXPECTED}"),
        (TWO, [0.5, 0.5], rf"correlation\[0\]=0\.5: {EXPECTED}"),
        (TWO, np.eye(3), rf"correlation\[0\]=.* has 3 entries: {EXPECTED}"),
        (TWO, [[1, 0.5], [0.5]], rf"correlation\[1\]=\[0\.5\] has 1 entries: {EXPECTED}"),
        (TWO, [[1, math.nan], [0.5, 1]], r"correlation\[0\]\[1\]=nan: expected a finite"),
        (TWO, [[1, 0.5], [0.4, 1]], rf"correlation=\[.*\]: {EXPECTED}"),
        (TWO, [[2, 0.5], [0.5, 1]], r"correlation has the diagonal \[2\.0, 1\.0\]: expected ones"),
        (TWO, [[1, 1], [1, 1]], r"correlation=.* has the eigenvalue .*: expected .* above 1e-06"),
        (TWO, [[1, -2], [-2, 1]], r"correlation=.* has the eigenvalue -1: expected"),
    ],
)
def test_refuses(marginals: Any, correlation: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        GaussianCopula(marginals, correlation)


OK = [0.1 * i for i in range(12)]


@pytest.mark.parametrize(
    ("frame", "marginals", "message"),
    [
        ({"a": OK[:5]}, None, "frame has 5 rows: expected 10 or more"),
        ({"a": OK, "b": list("abcdefghijkl")}, None, r"frame\['b'\] has the value 'a': expected n"),
        ({"a": OK, "b": [True, False] * 6}, None, r"frame\['b'\] has the value True: expected n"),
        ({"a": OK, "b": [0.5] * 12}, None, r"frame\['b'\] has the value 0\.5 only: expected sev"),
        ({"a": [*OK, math.nan]}, None, r"frame\['a'\]\[12\]=nan"),
        ({"a": OK}, {"b": Uniform(0, 1)}, r"marginals=\{'b'.*: expected .* for columns of frame"),
        ({"a": OK}, [1], r"marginals=\[1\]: expected a mapping"),
        ({"a": OK}, {"a": 3}, r"marginals\['a'\]=3: expected a marginal on numbers"),
    ],
)
def test_refuses_a_sample(frame: Any, marginals: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        GaussianCopula.fit(frame, marginals)
