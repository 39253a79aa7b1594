"""Costs that are known functions of the parameters."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from ax_costaware.costs import (
    AffineCost,
    ConstantCost,
    Cost,
    ProductCost,
    SumCost,
    SwitchingCost,
    TableCost,
)
from ax_costaware.exceptions import InputError

TRAINING = AffineCost({"epochs": 2.0, "layers": 0.5}, fixed=1.0)
NETWORK = ProductCost({"width": 2, "epochs": 1}, scale=0.5)
KERNELS = TableCost("kernel", {"rbf": 4.0, "linear": 1.0})
SIZES = TableCost(1, {10: 1.0, 100: 5.0, 1000: 25.0})
PRICES = KERNELS + TableCost("solver", {"cg": 0.0, "lu": 3.0}) + AffineCost({"epochs": 2.0})


@pytest.mark.parametrize(
    ("cost", "values", "expected"),
    [
        (ConstantCost(3), {}, 3.0),
        (TRAINING, {"epochs": 10, "layers": 4.0, "unread": "x"}, 23.0),
        (NETWORK, {"epochs": 10, "width": 64, "unread": "x"}, 0.5 * 10 * 64**2),
        (ProductCost({"workers": -1, "rows": 0.5}), {"workers": 4, "rows": 9.0}, 0.75),
        (KERNELS, {"kernel": np.str_("linear")}, 1.0),
        (TableCost("warm", {True: 1.0, False: 7.0}), {"warm": False}, 7.0),
        (SIZES, {1: np.int64(100)}, 5.0),
        (SIZES, {1: 100.0 * (1 + 1e-9)}, 5.0),
        (PRICES, {"kernel": "rbf", "solver": "lu", "epochs": 10, "unread": "x"}, 27.0),
        (PRICES, {"kernel": "linear", "solver": "cg", "epochs": 0}, 1.0),
        (NETWORK + TRAINING + 0.5, {"epochs": 10, "width": 2, "layers": 4}, 43.5),
    ],
    ids=str,
)
def test_cost_of_one_trial(cost: Cost, values: dict[Any, Any], expected: float) -> None:
    assert cost.at(values) == expected


def test_adding_up() -> None:
    """A sum is flat, and takes numbers."""
    a, b, c, d = TRAINING, NETWORK, KERNELS, ConstantCost(2.0)
    assert (a + b) + (c + d) == a + (b + (c + d)) == a + b + c + 2 == sum([a, b, c, 2.0])
    assert SumCost([a + b, c, d]) == SumCost((a, SumCost([b, c]), d)) == a + b + c + d
    assert a + 0 == 0.0 + a == sum([a]) == a
    for number in (2, np.float64(2), np.int64(2), torch.tensor(2.0)):
        assert number + a == ConstantCost(2.0) + a
        assert a + number == a + d


@pytest.mark.parametrize(
    "other", ["hours", None, True, -1.0, math.nan, abs, SwitchingCost({"a": 1.0})], ids=str
)
def test_refused_terms_of_a_sum(other: Any) -> None:
    for add in (lambda: TRAINING + other, lambda: other + TRAINING):
        with pytest.raises(InputError, match="the other term="):
            add()


def test_what_a_cost_reads() -> None:
    costs = (ConstantCost(1.0), TRAINING, NETWORK, KERNELS, AffineCost({3: 1.0, 0: 1.0}), PRICES)
    assert [cost.parameters for cost in costs] == [
        *((), ("epochs", "layers"), ("epochs", "width"), ("kernel",), (0, 3)),
        ("kernel", "solver", "epochs"),
    ]


@pytest.mark.parametrize("dtype", [torch.float, torch.double, torch.long])
@pytest.mark.parametrize("batch_shape", [(), (4,), (2, 3)])
def test_costs_of_a_tensor_are_those_of_its_rows(
    dtype: torch.dtype, batch_shape: tuple[int, ...]
) -> None:
    generator = torch.Generator().manual_seed(0)
    X = (1 + 3 * torch.rand(*batch_shape, 3, generator=generator)).to(dtype)
    sizes = torch.tensor([10, 100, 1000]).to(dtype)
    X[..., 1] = sizes[torch.randint(3, batch_shape, generator=generator)]
    product = ProductCost({0: 0.5, -1: -1}, scale=3.0)
    affine = AffineCost({-3: 2.0, -1: 0.5}, fixed=0.25)
    for cost in (ConstantCost(2.5), affine, product, SIZES, 0.5 + affine + SIZES + product):
        costs = cost(X)
        assert costs.shape == batch_shape
        assert costs.dtype == (dtype if dtype.is_floating_point else torch.double)
        for row, value in zip(X.reshape(-1, 3), costs.reshape(-1), strict=True):
            values = {k: float(row[k]) for k in range(-3, 3)}
            assert float(value) == pytest.approx(cost.at(values), rel=1e-6)


def test_columns_by_name_are_evaluated_as_columns_by_index() -> None:
    X = torch.rand(5, 2, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    columns = {"a": X[:, 0], "b": X[:, 1], "other": X[:, 1]}
    for kind, named, indexed in (
        (AffineCost, {"a": 2.0, "b": 0.5}, {0: 2.0, 1: 0.5}),
        (ProductCost, {"a": 2.0, "b": 0.5}, {0: 2.0, 1: 0.5}),
    ):
        assert torch.equal(kind(named, 3.0).evaluate(columns), kind(indexed, 3.0)(X))
    table = {0.2: 1.0, 0.8: 2.0}
    assert torch.equal(TableCost("a", table).evaluate(columns), TableCost(0, table)(X))
    assert torch.equal(ConstantCost(2.0).evaluate(columns), torch.full((5,), 2.0).double())
    assert ConstantCost(2.0).evaluate({}) == 2.0


def test_gradients_are_finite_differences() -> None:
    X = torch.rand(4, 3, dtype=torch.double, generator=torch.Generator().manual_seed(2))
    product = ProductCost({0: 2.0, 1: 0.0, 2: -0.5}, scale=3.0)
    affine, table = AffineCost({0: 2.0, 2: -0.5}, fixed=3.0), TableCost(1, {0: 1.0, 1: 2.0})
    for cost in (affine, table, lambda X: product(X).log(), affine + table + product + 1.0):
        assert torch.autograd.gradcheck(cost, (X.requires_grad_(),))


def test_a_table_takes_the_nearest_value() -> None:
    table = TableCost(0, {10: 1.0, 4.0: 2.0, 1: 3.0})
    X = torch.tensor([[-1e9], [1.0], [2.4], [2.6], [6.9], [7.1], [1e9]])
    assert table(X).tolist() == [3.0, 3.0, 3.0, 2.0, 2.0, 1.0, 1.0]
    assert TableCost(0, {True: 5.0, False: 1.0})(torch.tensor([[0.0], [1.0]])).tolist() == [1, 5]
    assert TableCost(0, {7: 0.1})(torch.zeros(1, 1).double()).tolist() == [0.1]
    wide = TableCost(0, {-1.7e308: 1.0, 1.7e308: 2.0})
    assert wide(torch.tensor([[-1.0], [1.0]], dtype=torch.double)).tolist() == [1.0, 2.0]


def test_a_bad_entry_of_a_tensor_spoils_its_own_cost_only() -> None:
    X = torch.tensor([[1.0], [math.nan], [2.0]])
    for cost in (AffineCost({0: 1.0}), ProductCost({0: 1.0}), TableCost(0, {1: 1.0, 2: 2.0})):
        assert cost(X)[[0, 2]].tolist() == [1.0, 2.0]
        assert cost(X)[1].isnan()


def test_equality() -> None:
    for kind in (AffineCost, ProductCost):
        assert kind({"b": 1, "a": 2}) == kind([("a", 2.0), ["b", np.float64(1)]])
        assert kind({"a": 1}) != kind({"a": 1}, 2)
        assert kind({np.int64(1): 1}) == kind({1: 1})
    assert TableCost("a", {"y": 1, "x": 2}) == TableCost("a", {"x": 2.0, "y": 1.0})
    assert TableCost("a", {"y": 1, "x": 2}) != TableCost("b", {"x": 2, "y": 1})
    assert ConstantCost(np.float32(2)) == ConstantCost(2.0)
    assert len({TRAINING, NETWORK, KERNELS, PRICES, ConstantCost(1.0), ConstantCost(1)}) == 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        TRAINING.fixed = 2.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (ConstantCost(1), "ConstantCost(value=1.0)"),
        (TRAINING, "AffineCost({'epochs': 2.0, 'layers': 0.5}, fixed=1.0)"),
        (NETWORK, "ProductCost({'epochs': 1.0, 'width': 2.0}, scale=0.5)"),
        (KERNELS, "TableCost('kernel', {'linear': 1.0, 'rbf': 4.0})"),
        (SIZES, "TableCost(1, {10: 1.0, 100: 5.0, 1000: 25.0})"),
        (TableCost("warm", {True: 1.0, False: 7.0}), None),
        (AffineCost({"\udcff\n'": -1e-300, "b": 1e300}), None),
        (PRICES, None),
    ],
)
def test_survives_repr_json_and_pickle(cost: Cost, text: str | None) -> None:
    if not isinstance(cost, SumCost):
        fields = {f.name: getattr(cost, f.name) for f in dataclasses.fields(cost)}  # type: ignore[arg-type]
        again = type(cost)(**json.loads(json.dumps(fields)))
        assert again == cost
        assert hash(again) == hash(cost)
    assert repr(cost) == (text or repr(cost))
    assert eval(repr(cost)) == pickle.loads(pickle.dumps(cost)) == cost


MAPS = [{}, 3.0, "ab", ["ab"], [("a", 1.0, 2.0)], {"a": 1.0, 0: 1.0}, [("a", 1.0), ("a", 2.0)]]
WEIGHTS = [*MAPS, {"": 1.0}, {True: 1.0}, {0.5: 1.0}, {"a": math.nan}, {"a": "1"}]
TABLES = [*MAPS[:5], [["a", 1.0], ["a", 2.0]], {"a": 1.0, 2: 1.0}, {True: 1.0, 2: 1.0}]
NOT_POSITIVE = [0, -1.0, math.nan, math.inf, True, "1", None]
NEGATIVE = [{"a": value} for value in NOT_POSITIVE[1:]]
TERMS = [[], [TRAINING], TRAINING, [TRAINING, 1.0], [TRAINING, "hours"], [TRAINING, SIZES]]


@pytest.mark.parametrize(
    ("make", "refused", "name"),
    [
        (ConstantCost, NOT_POSITIVE, "value"),
        (lambda scale: ProductCost({"a": 1.0}, scale), NOT_POSITIVE, "scale"),
        (AffineCost, WEIGHTS, "weights"),
        (ProductCost, WEIGHTS, "powers"),
        (lambda fixed: AffineCost({"a": 1.0}, fixed), [math.inf, "1"], "fixed"),
        (lambda name: TableCost(name, {"a": 1.0}), ["", None, 1.0, True, ("a",)], "parameter"),
        (lambda costs: TableCost("x", costs), [*TABLES, {math.nan: 1}, {None: 1}], "costs"),
        (lambda costs: TableCost("x", costs), NEGATIVE, r"costs\['a'\]"),
        (SumCost, TERMS, "terms|the keys"),
    ],
)
def test_refused_arguments(make: Callable[[Any], Cost], refused: list[Any], name: str) -> None:
    for value in refused:
        with pytest.raises(InputError, match=name):
            make(value)


@pytest.mark.parametrize(
    ("cost", "values", "name"),
    [
        (TRAINING, {"epochs": 1}, "'layers'"),
        (TRAINING, [1, 2], "values="),
        (TRAINING, {"epochs": None, "layers": 1}, r"values\['epochs'\]=None"),
        (TRAINING, {"epochs": "9", "layers": 1}, r"values\['epochs'\]='9'"),
        (TRAINING, {"epochs": -0.5, "layers": 0}, "cost 0.0"),
        (TRAINING, {"epochs": 1e308, "layers": 0}, "cost inf"),
        (NETWORK, {"epochs": 1}, "'width'"),
        (NETWORK, {"epochs": "9", "width": 1}, r"values\['epochs'\]='9'"),
        (NETWORK, {"epochs": -1, "width": 1}, "cost -0.5"),
        (NETWORK, {"epochs": 1, "width": 1e200}, "cost inf"),
        (ProductCost({"x": 0.5}), {"x": -1}, "cost nan"),
        (ProductCost({"x": -1}), {"x": 0}, "cost inf"),
        (KERNELS, {"kernel": "poly"}, r"values\['kernel'\]='poly'"),
        (KERNELS, {"kernel": ["rbf"]}, r"values\['kernel'\]"),
        (SIZES, {1: 101}, r"values\[1\]=101"),
        (SIZES, {1: "10"}, r"values\[1\]='10'"),
        (SIZES, {1: True}, r"values\[1\]=True"),
        (SIZES, {1: math.nan}, r"values\[1\]=nan"),
        (PRICES, {"kernel": "rbf", "epochs": 1}, "'solver'"),
        (PRICES, {"kernel": "rbf", "solver": "lu", "epochs": -4}, "cost -1.0"),
        (TableCost("x", {"a": 0}), {"x": "a"}, "cost 0.0"),
        (TableCost("x", {True: 1.0}), {"x": 1}, r"values\['x'\]=1"),
    ],
)
def test_refused_trials(cost: Cost, values: Any, name: str) -> None:
    with pytest.raises(InputError, match=name):
        cost.at(values)


@pytest.mark.parametrize(
    ("cost", "X", "name"),
    [
        (TRAINING, torch.ones(2, 2), "'epochs'"),
        (AffineCost({2: 1.0}), torch.ones(3, 2), "X of shape .* column 2"),
        (AffineCost({-3: 1.0}), torch.ones(3, 2), "X of shape .* column -3"),
        (SIZES + AffineCost({2: 1.0}), torch.ones(3, 2), "X of shape .* column 2"),
        (ConstantCost(1.0), torch.tensor(1.0), "X="),
        (ConstantCost(1.0), [[1.0]], "X="),
        (TableCost(0, {"a": 1.0}), torch.ones(3, 2), "'a'"),
    ],
)
def test_refused_tensors(cost: Cost, X: Any, name: str) -> None:
    with pytest.raises(InputError, match=name):
        cost(X)
    with pytest.raises(InputError, match=r"columns=.*'layers"):
        TRAINING.evaluate({"epochs": torch.ones(2)})
