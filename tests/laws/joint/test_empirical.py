"""Rows of a sample, weighted by how close they are to what is controlled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from ax_costaware.laws import Discrete, Empirical, JointEmpirical, Uniform
from tests.laws.joint.places import SOILS, placement, transform

rng = np.random.default_rng(0)
N = 40
DOSE = np.exp(rng.normal(size=N))
SOIL = [SOILS[i] for i in rng.integers(3, size=N)]
RAIN = 0.3 * np.log10(DOSE) + np.array([0.2, 0.5, 0.8])[[SOILS.index(s) for s in SOIL]]
LAW = JointEmpirical({"dose": DOSE, "soil": SOIL, "rain": RAIN})
POINTS = transform(
    [{"dose": 0.5, "soil": "loam"}, {"dose": 4.0, "soil": "sand"}, {"dose": 900.0, "soil": "clay"}]
)


def test_weights_are_nadaraya_watson_s_in_the_models_space() -> None:
    """The mean of an input given a log-scaled one, by the textbook formula."""
    nodes, weights = LAW.nodes_given(["dose"], placement())(POINTS)
    x = np.log10(DOSE)
    bandwidth = x.std(ddof=1) * N ** (-1 / 5)
    for i, point in enumerate(POINTS[:, 0].numpy()):
        kernel = np.exp(-0.5 * ((point - x) / bandwidth) ** 2)
        wanted = float(kernel @ RAIN / kernel.sum())
        assert float(nodes[i, :, 4] @ weights[i]) == pytest.approx(wanted, rel=1e-10)
        loam = float(kernel @ (np.array(SOIL) == "loam") / kernel.sum())
        assert float(nodes[i, :, 2] @ weights[i]) == pytest.approx(loam, abs=1e-10)


def test_one_hot_and_several_columns() -> None:
    """A choice counts by its one-hot columns, with the bandwidth of two inputs."""
    wind = np.random.default_rng(1).random(N)
    law = JointEmpirical({"dose": DOSE, "soil": SOIL, "rain": wind})
    nodes, weights = law.nodes_given(["dose", "soil"], placement())(POINTS)
    table = transform([{"dose": d, "soil": s} for d, s in zip(DOSE, SOIL, strict=True)])
    columns = table[:, :4].numpy()
    bandwidth = columns.std(axis=0, ddof=1) * N ** (-1 / 6)
    for i in range(3):
        scaled = (POINTS[i, :4].numpy() - columns) / bandwidth
        kernel = np.exp(-0.5 * (scaled**2).sum(axis=1))
        found = float(nodes[i, :, 4] @ weights[i])
        assert found == pytest.approx(float(kernel @ wind / kernel.sum()), rel=1e-9)


def test_independent_inputs_do_not_alter_the_weights() -> None:
    place = placement({"heat": Uniform(0, 1), "till": Discrete([True, False])})
    nodes, weights = LAW.nodes_given(["dose"], place)(POINTS)
    plain, shares = LAW.nodes_given(["dose"], placement())(POINTS)
    assert nodes.shape[1] == 8 * N  # The most copies of 40 rows below 512, a power of two.
    for moment in (1, 2):
        found = ((nodes[..., 4] ** moment) * weights).sum(dim=-1)
        wanted = ((plain[..., 4] ** moment) * shares).sum(dim=-1)
        assert torch.allclose(found, wanted, rtol=1e-12)
    heat = ((1 - nodes[..., 7]) * weights).sum(dim=-1)
    # Far from all rows the eight copies of the nearest count, and no others.
    assert heat.tolist() == pytest.approx([0.5, 0.5, 0.5], abs=0.1)
    assert heat[:2].tolist() == pytest.approx([0.5, 0.5], abs=0.02)


def test_weights_have_gradients() -> None:
    nodes_given = LAW.nodes_given(["dose", "soil"], placement({"heat": Uniform(0, 1)}))
    points = POINTS[:2].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: nodes_given(x)[1], (points,))


def test_far_from_all_rows_the_nearest_counts() -> None:
    points = transform([{"dose": 1e30}])
    points.requires_grad_()
    nodes, weights = LAW.nodes_given(["dose"], placement())(points)
    nearest = RAIN[DOSE.argmax()]
    mean = (nodes[0, :, 4] * weights[0]).sum()
    assert float(mean.detach()) == pytest.approx(nearest, abs=1e-6)
    (gradient,) = torch.autograd.grad(mean, points)
    assert bool(torch.isfinite(gradient).all())


def test_a_controlled_column_of_one_value_says_nothing() -> None:
    law = JointEmpirical({"heat": [0.3] * N, "rain": RAIN})
    nodes, weights = law.nodes_given(["heat"], placement())(POINTS)
    assert torch.equal(weights, torch.full_like(weights, 1 / N))
    assert float(nodes[0, :, 4].mean()) == pytest.approx(RAIN.mean())


def test_of_many_rows_a_seeded_choice_is_used() -> None:
    heat = rng.random(3000)
    law = JointEmpirical({"heat": heat, "rain": heat**2})

    def mean(seed: int) -> torch.Tensor:
        nodes, weights = law.nodes_given(["heat"], placement(seed=seed))(POINTS[:1])
        assert nodes.shape[1] <= 512
        return (nodes[0, :, 4] * weights[0]).sum()

    _, weights = JointEmpirical({"heat": heat[:512], "rain": heat[:512]}).nodes_given(
        ["heat"], placement()
    )(POINTS[:1])
    assert weights.shape == (1, 512)
    assert torch.equal(mean(0), mean(0))
    assert not torch.equal(mean(0), mean(1))
    assert float(mean(0)) == pytest.approx(float(mean(1)), abs=0.03)


@pytest.mark.parametrize("n", [1, 7, 39, 40, 41, 1000])
def test_rows_without_conditioning(n: int) -> None:
    rows, weights = LAW.joint_rows(["rain", "soil"], n, seed=2)
    assert len(rows) == min(n, N)
    assert torch.equal(weights, torch.full_like(weights, 1 / len(rows)))
    known = set(zip(LAW.frame[2][1], SOIL, strict=True))
    found = [(row["rain"], row["soil"]) for row in rows]
    assert set(found) <= known
    if n >= N:
        assert set(found) == known


def test_marginals_by_kind_of_column() -> None:
    law = JointEmpirical(
        {
            "dose": DOSE,
            "soil": SOIL,
            "days": [1, 3] * 20,
            "till": [True] * 10 + [False] * 30,
            "rain": [1, 2.5] * 20,
        }
    )
    assert law.names == ("dose", "soil", "days", "till", "rain")
    assert law.num_rows == N
    assert law.marginal("dose") == Empirical(DOSE)  # type: ignore[arg-type]
    shares = [SOIL.count(soil) / N for soil in SOILS]
    assert law.marginal("soil") == Discrete(SOILS, shares)
    assert law.marginal("days") == Discrete([1, 3])
    assert law.marginal("till") == Discrete([False, True], [0.75, 0.25])
    assert law.marginal("rain") == Empirical([1, 2.5] * 20)


def test_frames_mappings_and_tensors_are_alike() -> None:
    frame = pd.DataFrame({"days": [1, 2] * 6, "soil": ["a", "b"] * 6, "till": [True, False] * 6})
    law = JointEmpirical(frame)
    columns: dict[str, list[Any]] = {name: frame[name].tolist() for name in frame}
    assert law == JointEmpirical(columns)
    assert law == JointEmpirical(frame.astype({"soil": "category", "days": "Int64"}))
    assert law == JointEmpirical({**columns, "days": torch.tensor(columns["days"])})
    assert law == JointEmpirical({**columns, "till": list(np.array(columns["till"]))})
    assert law != JointEmpirical({**columns, "days": [1.0, 2.5] * 6})
    assert law != JointEmpirical(frame[["soil", "days", "till"]])
    assert repr(law) == "JointEmpirical(<12 rows of 'days', 'soil', 'till'>)"


def test_cdf_given_is_nadaraya_watson_s() -> None:
    strict, weak = LAW.cdf_given("rain", RAIN[3], {"dose": 2.0})
    kernel = np.exp(-0.5 * ((2.0 - DOSE) / (DOSE.std(ddof=1) * N ** (-1 / 5))) ** 2)
    assert strict == pytest.approx(kernel[RAIN[3] > RAIN].sum() / kernel.sum(), rel=1e-10)
    assert weak - strict == pytest.approx(kernel[3] / kernel.sum(), rel=1e-9)


def test_cdf_of_strings_is_alphabetical() -> None:
    strict, weak = LAW.cdf_given("soil", "loam", {})
    assert (strict, weak) == pytest.approx((SOIL.count("clay") / N, 1 - SOIL.count("sand") / N))
    assert LAW.cdf_given("soil", "abc", {}) == (0.0, 0.0)
    assert LAW.cdf_given("soil", "zzz", {"dose": 1.0}) == pytest.approx((1.0, 1.0))
    strict, weak = LAW.cdf_given("dose", 1.0, {"soil": "sand", "rain": 0.8})
    assert 0.0 < strict == weak < 1.0
