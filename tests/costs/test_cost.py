"""Costs that are known functions of the parameters."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

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


def test_cost_of_one_trial() -> None:
    assert ConstantCost(3).at({}) == 3.0
    assert ConstantCost(3).at({"x": 1.0}) == 3.0
    assert TRAINING.at({"epochs": 10, "layers": 4.0, "unread": "x"}) == 23.0
    assert NETWORK.at({"epochs": 10, "width": 64, "unread": "x"}) == 0.5 * 10 * 64**2
    assert ProductCost({"workers": -1, "rows": 0.5}).at({"workers": 4, "rows": 9.0}) == 0.75
    assert KERNELS.at({"kernel": "rbf"}) == 4.0
    assert KERNELS.at({"kernel": np.str_("linear")}) == 1.0
    assert TableCost("warm", {True: 1.0, False: 7.0}).at({"warm": False}) == 7.0
    assert SIZES.at({1: 100}) == 5.0
    assert SIZES.at({1: np.int64(100)}) == 5.0
    assert SIZES.at({1: 100.0 * (1 + 1e-9)}) == 5.0


def test_a_sum_costs_what_its_terms_do() -> None:
    assert PRICES.at({"kernel": "rbf", "solver": "lu", "epochs": 10, "unread": "x"}) == 27.0
    assert PRICES.at({"kernel": "linear", "solver": "cg", "epochs": 0}) == 1.0
    assert (NETWORK + TRAINING + 0.5).at({"epochs": 10, "width": 2, "layers": 4}) == 43.5
    assert (ConstantCost(2) + 1).at({}) == 3.0


def test_adding_up() -> None:
    """A sum is flat, prints as it is written, and takes numbers."""
    assert PRICES.parameters == ("kernel", "solver", "epochs")
    assert repr(PRICES) == (
        "TableCost('kernel', {'linear': 1.0, 'rbf': 4.0}) + TableCost('solver', {'cg': 0.0, "
        "'lu': 3.0}) + AffineCost({'epochs': 2.0}, fixed=0.0)"
    )
    a, b, c, d = TRAINING, NETWORK, KERNELS, ConstantCost(2.0)
    assert (a + b) + (c + d) == a + (b + (c + d)) == a + b + c + 2 == sum([a, b, c, 2.0])
    assert SumCost([a + b, c, d]) == SumCost((a, SumCost([b, c]), d)) == a + b + c + d
    assert a + b != b + b
    assert len({a + b, TRAINING + NETWORK, a + c}) == 2
    assert a + 0 == 0.0 + a == sum([a]) == a
    for number in (2, np.float64(2), np.int64(2), torch.tensor(2.0)):
        assert number + a == ConstantCost(2.0) + a
        assert a + number == a + d


@pytest.mark.parametrize(
    "other", ["hours", None, True, -1.0, math.nan, abs, SwitchingCost({"a": 1.0})], ids=str
)
def test_refuses_to_add(other: Any) -> None:
    message = r"the other term=.*: expected a cost such as Affine.*, or a finite number >= 0 \(a Sw"
    with pytest.raises(InputError, match=message):
        TRAINING + other
    with pytest.raises(InputError, match=message):
        other + TRAINING


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ([], r"terms=\[\]: expected a sequence of two or more costs"),
        ([TRAINING], r"terms=\[AffineCost.*\]: expected a sequence of two or more costs"),
        (TRAINING, r"terms=AffineCost.*: expected a sequence of two or more costs"),
        ([TRAINING, 1.0], r"terms\[1\]=1\.0: expected a cost such as AffineCost"),
        ([TRAINING, "hours"], r"terms\[1\]='hours': expected a cost such as AffineCost"),
        ([TRAINING, SIZES], r"has the keys 'epochs' and 1: expected .* all by parameter names or"),
    ],
)
def test_refuses_terms(terms: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SumCost(terms)


def test_what_a_cost_reads() -> None:
    assert ConstantCost(1.0).parameters == ()
    assert TRAINING.parameters == ("epochs", "layers")
    assert NETWORK.parameters == ("epochs", "width")
    assert KERNELS.parameters == ("kernel",)
    assert AffineCost({3: 1.0, 0: 1.0}).parameters == (0, 3)
    assert SIZES.parameters == (1,)


@pytest.mark.parametrize("dtype", [torch.float, torch.double])
@pytest.mark.parametrize("batch_shape", [(), (4,), (2, 3)])
def test_costs_of_a_tensor_are_those_of_its_rows(
    dtype: torch.dtype, batch_shape: tuple[int, ...]
) -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(*batch_shape, 3, dtype=dtype, generator=generator)
    X[..., 1] = torch.tensor([10.0, 100.0, 1000.0])[
        torch.randint(3, batch_shape, generator=generator)
    ]
    product = ProductCost({0: 0.5, -1: -1}, scale=3.0)
    affine = AffineCost({0: 2.0, -1: 0.5}, fixed=0.25)
    for cost in (ConstantCost(2.5), affine, product, SIZES, 0.5 + affine + SIZES + product):
        costs = cost(X)
        assert costs.shape == batch_shape
        assert costs.dtype == dtype
        for row, value in zip(X.reshape(-1, 3), costs.reshape(-1), strict=True):
            values = dict(enumerate(row.tolist())) | {-1: float(row[-1])}
            assert float(value) == pytest.approx(cost.at(values), rel=1e-6)


def test_columns_by_name_are_evaluated_as_columns_by_index() -> None:
    X = torch.rand(5, 2, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    columns = {"epochs": X[:, 0], "layers": X[:, 1], "other": X[:, 1]}
    assert torch.equal(TRAINING.evaluate(columns), AffineCost({0: 2.0, 1: 0.5}, 1.0)(X))
    product = ProductCost({"epochs": 2.0, "layers": 0.5}, 3.0)
    assert torch.equal(product.evaluate(columns), ProductCost({0: 2.0, 1: 0.5}, 3.0)(X))
    named = TableCost("epochs", {0.2: 1.0, 0.8: 2.0})
    assert torch.equal(named.evaluate(columns), TableCost(0, {0.2: 1.0, 0.8: 2.0})(X))
    assert torch.equal(ConstantCost(2.0).evaluate(columns), torch.full((5,), 2.0).double())
    assert ConstantCost(2.0).evaluate({}) == 2.0


def test_integer_columns_cost_what_floating_ones_do() -> None:
    X = torch.tensor([[3, 100], [1, 10]])
    for cost in (ConstantCost(2.5), AffineCost({0: 0.25, 1: 0.5}), ProductCost({0: 0.5}), SIZES):
        assert torch.equal(cost(X), cost(X.double()))


def test_gradients() -> None:
    X = torch.rand(4, 3, dtype=torch.double, generator=torch.Generator().manual_seed(2))
    X.requires_grad_(True)
    affine = AffineCost({0: 2.0, 2: -0.5}, fixed=3.0)
    (gradient,) = torch.autograd.grad(affine(X).sum(), X)
    assert torch.equal(gradient, torch.tensor([2.0, 0.0, -0.5]).double().expand(4, 3))
    assert torch.autograd.gradcheck(affine, (X,))
    product = ProductCost({0: 2.0, 1: 0.0, 2: -0.5}, scale=3.0)
    (gradient,) = torch.autograd.grad(product(X).log().sum(), X)
    powers = torch.tensor([2.0, 0.0, -0.5]).double()
    assert torch.allclose(gradient, powers / X, rtol=1e-12)
    assert torch.autograd.gradcheck(lambda X: product(X).log(), (X,))
    table = TableCost(1, {0: 1.0, 1: 2.0})
    (gradient,) = torch.autograd.grad(table(X).sum(), X)
    assert torch.equal(gradient, torch.zeros_like(X))
    assert torch.autograd.gradcheck(affine + table + product + 1.0, (X,))


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
        costs = cost(X)
        assert costs[[0, 2]].tolist() == [1.0, 2.0]
        assert costs[1].isnan()


def test_equality_and_repr() -> None:
    assert AffineCost({"b": 1, "a": 2}) == AffineCost([("a", 2.0), ["b", np.float64(1)]])
    assert AffineCost({"a": 1}) != AffineCost({"a": 1}, fixed=1)
    assert ProductCost({"b": 1, "a": 2}) == ProductCost([("a", 2.0), ["b", np.float64(1)]], 1)
    assert ProductCost({"a": 1}) != ProductCost({"a": 1}, scale=2)
    assert AffineCost({np.int64(1): 1}) == AffineCost({1: 1})
    assert TableCost("a", {"y": 1, "x": 2}) == TableCost("a", {"x": 2.0, "y": 1.0})
    assert TableCost("a", {"y": 1, "x": 2}) != TableCost("b", {"x": 2, "y": 1})
    assert ConstantCost(np.float32(2)) == ConstantCost(2.0)
    assert len({TRAINING, NETWORK, KERNELS, SIZES, ConstantCost(1.0), ConstantCost(1)}) == 5
    assert repr(ConstantCost(1)) == "ConstantCost(value=1.0)"
    assert repr(TRAINING) == "AffineCost({'epochs': 2.0, 'layers': 0.5}, fixed=1.0)"
    assert repr(NETWORK) == "ProductCost({'epochs': 1.0, 'width': 2.0}, scale=0.5)"
    assert repr(KERNELS) == "TableCost('kernel', {'linear': 1.0, 'rbf': 4.0})"
    for cost in (TRAINING, NETWORK, KERNELS, SIZES, ConstantCost(3.0), PRICES):
        assert eval(repr(cost)) == cost
    with pytest.raises(dataclasses.FrozenInstanceError):
        TRAINING.fixed = 2.0  # type: ignore[misc]


_keys = st.one_of(
    st.lists(st.text(min_size=1), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(-3, 20), min_size=1, max_size=4, unique=True),
)
_choices = st.one_of(
    st.lists(st.text(), min_size=1, max_size=4, unique=True),
    st.just([True, False]),
    st.lists(st.integers() | st.floats(-1e9, 1e9), min_size=1, max_size=4, unique=True),
)
_finite = st.floats(-1e300, 1e300)
_positive = st.floats(1e-300, 1e300)


def _mapping(keys: list[Any], values: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(dict.fromkeys(keys, values))


_costs = st.one_of(
    st.builds(ConstantCost, _positive),
    st.builds(
        AffineCost, _keys.flatmap(lambda k: st.fixed_dictionaries(dict.fromkeys(k, _finite)))
    ),
    st.builds(ProductCost, _keys.flatmap(lambda k: _mapping(k, _finite)), _positive),
    st.builds(
        TableCost,
        _keys.map(lambda keys: keys[0]),
        _choices.flatmap(lambda keys: _mapping(keys, _positive)),
    ),
)


@given(cost=_costs)
def test_survives_json_and_pickle(cost: Cost) -> None:
    fields = {f.name: getattr(cost, f.name) for f in dataclasses.fields(cost)}  # type: ignore[arg-type]
    again = type(cost)(**json.loads(json.dumps(fields)))
    assert again == cost
    assert repr(again) == repr(cost)
    assert hash(again) == hash(cost)
    assert pickle.loads(pickle.dumps(cost)) == cost


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, True, "1", None], ids=str)
def test_refuses_values(value: Any) -> None:
    with pytest.raises(InputError, match=r"value=.*: expected a finite number > 0\."):
        ConstantCost(value)
    with pytest.raises(InputError, match=r"scale=.*: expected a finite number > 0\."):
        ProductCost({"a": 1.0}, scale=value)
    if value != 0:
        with pytest.raises(InputError, match=r"costs\['a'\]=.*: expected a finite number >= 0\."):
            TableCost("x", {"b": 1.0, "a": value})


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({}, r"weights=\{\}: expected a mapping from one or more parameters"),
        (3.0, r"weights=3\.0: expected a mapping from one or more parameters"),
        ("ab", r"weights='ab': expected a mapping from one or more parameters"),
        (["ab"], r"weights=\['ab'\]: expected a mapping from one or more parameters"),
        ([("a", 1.0, 2.0)], r"weights=.*: expected a mapping from one or more parameters"),
        ({"a": 1.0, 0: 1.0}, r"weights has the keys 'a' and 0: expected .* all parameters by name"),
        ([("a", 1.0), ("a", 2.0)], r"weights has 'a' more than once: expected a mapping"),
        ({"": 1.0}, r"weights=\{'': 1\.0\}: expected a mapping"),
        ({True: 1.0}, r"weights=\{True: 1\.0\}: expected a mapping"),
        ({0.5: 1.0}, r"weights=\{0\.5: 1\.0\}: expected a mapping"),
        ({"a": math.nan}, r"weights\['a'\]=nan: expected a finite number\."),
        ({"a": "1"}, r"weights\['a'\]='1': expected a finite number\."),
    ],
)
def test_refuses_weights(weights: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        AffineCost(weights)
    with pytest.raises(InputError, match=message.replace("weights", "powers")):
        ProductCost(weights)


def test_refuses_a_fixed_cost() -> None:
    with pytest.raises(InputError, match=r"fixed=inf: expected a finite number\."):
        AffineCost({"a": 1.0}, fixed=math.inf)


@pytest.mark.parametrize("parameter", ["", None, 1.0, True, ("a",)])
def test_refuses_parameters(parameter: Any) -> None:
    with pytest.raises(InputError, match=r"parameter=.*: expected a parameter's name, or the ind"):
        TableCost(parameter, {"a": 1.0})


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ({}, r"costs=\{\}: expected a mapping from one or more values"),
        ([["a", 1.0], ["a", 2.0]], r"costs has 'a' more than once: expected a mapping"),
        ({"a": 1.0, 2: 1.0}, r"the values of costs\[1\]=2: expected .* all numbers or all str"),
        ({True: 1.0, 2: 1.0}, r"the values of costs\[1\]=2: expected .* all numbers or all str"),
        ({math.nan: 1.0}, r"the values of costs\[0\]=nan: expected .* all numbers or all strings"),
        ({None: 1.0}, r"the values of costs\[0\]=None: expected .* all numbers or all strings"),
    ],
)
def test_refuses_tables(costs: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TableCost("x", costs)


@pytest.mark.parametrize(
    ("cost", "values", "message"),
    [
        (TRAINING, {"epochs": 1}, r"values=\{'epochs': 1\}: expected also a value of 'layers'"),
        (TRAINING, [1, 2], r"values=\[1, 2\]: expected a mapping from parameters to values"),
        (TRAINING, {"epochs": None, "layers": 1}, r"values\['epochs'\]=None: expected a finite"),
        (TRAINING, {"epochs": "9", "layers": 1}, r"values\['epochs'\]='9': expected a finite"),
        (TRAINING, {"epochs": -0.5, "layers": 0}, r"values=.* cost 0\.0 by AffineCost.*: expected"),
        (TRAINING, {"epochs": -9, "layers": 0}, r"values=.* cost -17\.0 by AffineCost.*: expected"),
        (TRAINING, {"epochs": 1e308, "layers": 0}, r"values=.* cost inf by AffineCost"),
        (NETWORK, {"epochs": 1}, r"values=\{'epochs': 1\}: expected also a value of 'width'"),
        (NETWORK, {"epochs": "9", "width": 1}, r"values\['epochs'\]='9': expected a finite"),
        (NETWORK, {"epochs": 0, "width": 1}, r"values=.* cost 0\.0 by ProductCost.*: expected"),
        (NETWORK, {"epochs": -1, "width": 1}, r"values=.* cost -0\.5 by ProductCost.*: expected"),
        (NETWORK, {"epochs": 1, "width": 1e200}, r"values=.* cost inf by ProductCost"),
        (ProductCost({"x": 0.5}), {"x": -1}, r"values=.* cost nan by ProductCost"),
        (ProductCost({"x": -1}), {"x": 0}, r"values=.* cost inf by ProductCost"),
        (KERNELS, {"kernel": "poly"}, r"values\['kernel'\]='poly': expected one of \['linear', "),
        (KERNELS, {"kernel": 1}, r"values\['kernel'\]=1: expected one of \['linear', 'rbf'\]"),
        (KERNELS, {"kernel": ["rbf"]}, r"values\['kernel'\]=\['rbf'\]: expected one of"),
        (SIZES, {1: 101}, r"values\[1\]=101: expected one of \[10, 100, 1000\]"),
        (SIZES, {1: "10"}, r"values\[1\]='10': expected one of \[10, 100, 1000\]"),
        (SIZES, {1: True}, r"values\[1\]=True: expected one of \[10, 100, 1000\]"),
        (SIZES, {1: math.nan}, r"values\[1\]=nan: expected a finite number"),
        (PRICES, {"kernel": "rbf", "epochs": 1}, r"expected also a value of 'solver'"),
        (PRICES, {"kernel": "rbf", "solver": "qr", "epochs": 1}, r"'solver'\]='qr': expected one"),
        (PRICES, {"kernel": "rbf", "solver": "lu", "epochs": -4}, r"cost -1\.0 by TableCost.* \+ "),
        (TableCost("x", {"a": 0}), {"x": "a"}, r"values=.* cost 0\.0 by TableCost"),
        (TableCost("x", {True: 1.0}), {"x": 1}, r"values\['x'\]=1: expected one of \[True\]"),
    ],
)
def test_refuses_trials(cost: Cost, values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cost.at(values)


@pytest.mark.parametrize(
    ("cost", "X", "message"),
    [
        (TRAINING, torch.ones(2, 2), r"has the parameter 'epochs': expected the index of its col"),
        (NETWORK, torch.ones(2, 2), r"has the parameter 'epochs': expected the index of its col"),
        (AffineCost({2: 1.0}), torch.ones(3, 2), r"X of shape \(3, 2\): expected a column 2"),
        (AffineCost({-3: 1.0}), torch.ones(3, 2), r"X of shape \(3, 2\): expected a column -3"),
        (ConstantCost(1.0), torch.tensor(1.0), r"X=tensor\(1\.\): expected a tensor of shape"),
        (ConstantCost(1.0), [[1.0]], r"X=\[\[1\.0\]\]: expected a tensor of shape batch_shape x d"),
        (TableCost(0, {"a": 1.0}), torch.ones(3, 2), r"has the value 'a': expected a cost whose"),
        (PRICES, torch.ones(2, 2), r"has the parameter 'kernel': expected the index of its col"),
        (
            SIZES + AffineCost({2: 1.0}),
            torch.ones(3, 2),
            r"X of shape \(3, 2\): expected a column 2",
        ),
    ],
)
def test_refuses_tensors(cost: Cost, X: Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cost(X)


def test_refuses_missing_columns() -> None:
    with pytest.raises(InputError, match=r"columns=\['epochs'\]: expected also the column 'layers"):
        TRAINING.evaluate({"epochs": torch.ones(2)})
