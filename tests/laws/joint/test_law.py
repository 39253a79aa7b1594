"""What every joint law promises."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from ax_costaware.laws import (
    Discrete,
    Empirical,
    GaussianCopula,
    JointEmpirical,
    JointLaw,
    Learned,
    Uniform,
)
from tests.laws.joint.places import COLUMNS, placement, transform

rng = np.random.default_rng(0)
_Z = rng.normal(size=(60, 4)) @ np.linalg.cholesky(0.6 * np.ones((4, 4)) + 0.4 * np.eye(4)).T
FRAME = {
    "dose": np.exp(_Z[:, 0]),
    "soil": np.array(["clay", "loam", "sand"])[np.digitize(_Z[:, 1], [-0.5, 0.5])],
    "rain": 0.5 + 0.1 * _Z[:, 2],
    "days": np.digitize(_Z[:, 3], [-1.0, 0.0, 1.0]),
    "till": _Z[:, 1] + _Z[:, 2] > 0,
}
NUMBERS = ("dose", "rain", "days")
EMPIRICAL = JointEmpirical(FRAME)
FITTED = GaussianCopula.fit({name: FRAME[name] for name in NUMBERS})
COPULA = GaussianCopula(
    {
        "dose": Uniform(0.1, 10.0),
        "rain": Learned(Uniform(0.0, 1.0), 5.0).updated([0.4, 0.5]),
        "days": Discrete([1, 2, 5], [0.2, 0.5, 0.3]),
        "heat": Empirical(0.5 + 0.2 * _Z[:, 0]),  # type: ignore[arg-type]
        "site": Uniform(0, 1),
    },
    0.5 * np.ones((5, 5)) + 0.5 * np.eye(5),  # type: ignore[arg-type]
)
LAWS: tuple[JointLaw, ...] = (EMPIRICAL, FITTED, COPULA)
each_law = pytest.mark.parametrize("law", LAWS, ids=["empirical", "fitted", "copula"])

POINTS = torch.rand(3, 8, dtype=torch.double, generator=torch.Generator().manual_seed(0))

CONTROLS: tuple[tuple[str, ...], ...] = (
    (),
    ("heat", "till"),
    ("dose",),
    ("days",),
    ("rain", "days"),
    ("dose", "heat"),
    ("dose", "rain", "days", "site"),
    ("dose", "soil", "rain", "days", "till", "heat"),
)


def independent_of(law: JointLaw, controlled: Sequence[str]) -> dict[str, Any]:
    """Laws of the inputs that are neither controlled nor part of the law."""
    laws = {
        "soil": Discrete(["clay", "sand"], [0.25, 0.75]),
        "till": Discrete([True, False]),
        "heat": Uniform(0, 1),
    }
    return {n: m for n, m in laws.items() if n not in law.names and n not in controlled}


@each_law
def test_value_object(law: Any) -> None:
    fields = {f.name: getattr(law, f.name) for f in dataclasses.fields(law)}
    listed = {name: [list(item) for item in value] for name, value in fields.items()}
    others = (copy.deepcopy(law), pickle.loads(pickle.dumps(law)), dataclasses.replace(law))
    for other in (*others, type(law)(**listed)):
        assert other == law
        assert hash(other) == hash(law)
        assert repr(other) == repr(law)
    assert [other for other in LAWS if other == law] == [law]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(law, next(iter(fields)), ())


@each_law
@pytest.mark.parametrize("controlled", CONTROLS, ids="+".join)
@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("dtype", [torch.double, torch.float])
def test_nodes_are_a_law_with_the_points_controlled_columns(
    law: JointLaw, controlled: Sequence[str], alone: bool, dtype: torch.dtype
) -> None:
    independent = {} if alone else independent_of(law, controlled)
    given = law.nodes_given(controlled, placement(independent, num_nodes=32))
    points = POINTS.to(dtype)
    nodes, weights = given(points)
    m = weights.shape[-1]
    assert nodes.shape == (3, m, 8)
    assert nodes.dtype == weights.dtype == dtype
    assert bool((weights >= 0).all())
    assert torch.allclose(weights.sum(dim=-1), torch.ones(3, dtype=dtype), atol=1e-5)
    columns = [column for name in controlled for column in COLUMNS[name]]
    expected = points.unsqueeze(1).expand(-1, m, -1)
    assert torch.equal(nodes[..., columns], expected[..., columns])
    # What is neither controlled nor random is nominal.
    random = {*law.names, *independent}
    rest = [c for n in COLUMNS if n not in random and n not in controlled for c in COLUMNS[n]]
    nominal = transform([{}])[0].to(dtype)
    assert torch.equal(nodes[..., rest], nominal.expand(3, m, -1)[..., rest])
    # One-hot columns hold one one.
    soils = nodes[..., 1:4]
    if "soil" not in controlled:
        assert torch.equal(soils.sum(dim=-1), torch.ones_like(soils[..., 0]))
    assert given(points[:1])[0].shape == (1, m, 8)
    assert given(points[:0])[0].shape == (0, m, 8)


@each_law
@pytest.mark.parametrize("controlled", CONTROLS, ids="+".join)
def test_gradients_are_those_of_finite_differences(
    law: JointLaw, controlled: Sequence[str]
) -> None:
    given = law.nodes_given(controlled, placement(independent_of(law, controlled), num_nodes=16))
    direction = torch.linspace(0.3, 1.7, 8, dtype=torch.double)

    def expectation(points: torch.Tensor) -> torch.Tensor:
        nodes, weights = given(points)
        return (weights * torch.sin(nodes @ direction)).sum(dim=-1)

    points = POINTS.clone().requires_grad_()
    assert torch.autograd.gradcheck(expectation, (points,), eps=1e-8, atol=1e-5, rtol=1e-4)


@each_law
@pytest.mark.parametrize("others", [True, False])
@pytest.mark.parametrize("size", [16, 512])
def test_conditioning_on_nothing_is_the_joint_law(law: JointLaw, others: bool, size: int) -> None:
    """Exactly its rows, whatever else is controlled."""
    controlled = [name for name in COLUMNS if others and name not in law.names]
    names = [name for name in law.names if COLUMNS[name]]
    nodes, weights = law.nodes_given(controlled, placement(num_nodes=size, seed=3))(POINTS)
    rows, shares = law.joint_rows(names, size, seed=3)
    columns = [c for name in names for c in COLUMNS[name]]
    assert torch.equal(weights, shares.expand(3, -1))
    assert torch.equal(nodes[1][:, columns], transform(rows)[:, columns])


@each_law
def test_rows_have_the_marginals(law: JointLaw) -> None:
    rows, weights = law.joint_rows(law.names, 1024, seed=1)
    assert len(rows) == len(weights) <= 1024
    assert float(weights.sum()) == pytest.approx(1.0)
    for name in law.names:
        marginal = law.marginal(name)
        values = [row[name] for row in rows]
        if not marginal.is_numeric:
            assert isinstance(marginal, Discrete)
            for value, share in zip(marginal.values, marginal.probabilities, strict=True):
                found = sum(float(w) for w, v in zip(weights, values, strict=True) if v == value)
                assert found == pytest.approx(share, abs=0.02)
            continue
        x = torch.tensor([float(value) for value in values], dtype=torch.double)
        places = x.unique()
        reached = torch.stack([weights[x <= place].sum() for place in places])
        assert float((reached - marginal.cdf(places)).abs().max()) < 0.02


@each_law
@pytest.mark.parametrize("controlled", [(), ("dose",), ("heat",)])
def test_seed_fixes_the_nodes(law: JointLaw, controlled: Sequence[str]) -> None:
    def nodes(seed: int) -> torch.Tensor:
        place = placement(independent_of(law, controlled), num_nodes=16, seed=seed)
        return law.nodes_given(controlled, place)(POINTS)[0]

    before = torch.get_rng_state()
    assert torch.equal(nodes(1), nodes(1))
    assert not torch.equal(nodes(1), nodes(2))
    assert torch.equal(torch.get_rng_state(), before)


@each_law
def test_cdf_given_nothing_is_the_marginal_s(law: JointLaw) -> None:
    for value in (1, 2, 3):
        strict, weak = law.cdf_given("days", value, {"unknown": 3.0})
        x = torch.tensor([value - 1e-9, value], dtype=torch.double)
        assert [strict, weak] == pytest.approx(law.marginal("days").cdf(x).tolist(), abs=1e-12)


@each_law
def test_a_controlled_input_without_columns_is_integrated_out(law: JointLaw) -> None:
    plain = law.nodes_given((), placement(num_nodes=32))(POINTS)
    other = law.nodes_given(("site",), placement(num_nodes=32))(POINTS)
    for a, b in zip(plain, other, strict=True):
        assert torch.equal(a, b)
