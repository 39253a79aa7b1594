"""Stores in which an expression would be run as code are refused before Ax reads them."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import DerivedParameterConfig, RangeParameterConfig, StorageConfig
from ax.exceptions.core import UserInputError
from ax.storage.json_store.encoder import object_to_json

from ax_costaware import (
    AffineCost,
    check_json_file,
    cost_aware_strategy,
    create_tables,
    read_experiment,
)
from ax_costaware.ax_bridge.stored_expressions import check_values


def evil(marker: Path) -> str:
    """An expression that makes a file when SymPy reads it, past what Ax forbids."""
    letters = "+".join(f"chr(({ord(letter)}))" for letter in f"open({str(marker)!r},'w').close()")
    return f"exec({letters})"


def new_client(storage: StorageConfig | None = None) -> Client:
    """An experiment with an expression of every kind."""
    client = Client(storage_config=storage)
    client.configure_experiment(
        name="toy",
        parameters=[
            *(RangeParameterConfig(name, (0, 1), "float") for name in ("a.x", "b")),
            DerivedParameterConfig("d", "2 * a.x + b", "float"),
        ],
        parameter_constraints=["a.x + b <= 1.5"],
    )
    client.configure_optimization(
        objective="-loss:v1", outcome_constraints=["size (p50) <= 0.9 * baseline"]
    )
    client.set_generation_strategy(cost_aware_strategy(1.0, budget=10))
    return client


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the experiment as good.json and good.db."""
    folder = tmp_path_factory.mktemp("stores")
    new_client().save_to_json_file(str(folder / "good.json"))
    create_tables(f"sqlite:///{folder / 'good.db'}")
    new_client(StorageConfig(url=f"sqlite:///{folder / 'good.db'}"))
    return folder


CONSTRAINT = ("search_space", "parameter_constraints", 0)
JSON_STORES = {
    "objective": (("optimization_config", "objective", "expression"), "-y + CODE"),
    "several objectives": (("optimization_config", "objective", "expression"), "y, CODE"),
    "outcome constraint": (
        ("optimization_config", "outcome_constraints", 0),
        {"__type": "OutcomeConstraint", "expression": "CODE <= 1", "metric_name_to_signature": {}},
    ),
    "derived parameter": (("search_space", "parameters", 2, "expression_str"), "2 * b + CODE"),
    "inequality": ((*CONSTRAINT, "inequality"), "CODE <= 1"),
    "equality": (CONSTRAINT, {"__type": "ParameterConstraint", "equality": "b == CODE"}),
    "weights": (
        CONSTRAINT,
        {"__type": "ParameterConstraint", "constraint_dict": {"CODE": 1.0}, "bound": 1},
    ),
    "bound": (
        CONSTRAINT,
        {"__type": "ParameterConstraint", "constraint_dict": {"b": 1.0}, "bound": "CODE"},
    ),
    "order": (CONSTRAINT, {"__type": "OrderConstraint", "lower_name": "b", "upper_name": "CODE"}),
    "sum": (
        CONSTRAINT,
        {
            "__type": "SumConstraint",
            "parameter_names": ["CODE"],
            "is_upper_bound": True,
            "bound": 1,
        },
    ),
}


def filled(value: Any, code: str) -> Any:
    """``value`` with ``code`` in the place of CODE."""
    return json.loads(json.dumps(value).replace("CODE", code))


@pytest.mark.filterwarnings("ignore:Objective expression")
@pytest.mark.parametrize("kind", JSON_STORES)
def test_code_in_a_json_file_is_refused(stored: Path, tmp_path: Path, kind: str) -> None:
    marker, crafted = tmp_path / "ran", tmp_path / "crafted.json"
    (*path, last), value = JSON_STORES[kind]
    snapshot = json.loads((stored / "good.json").read_text())
    field = snapshot["experiment"]
    for key in path:
        field = field[key]
    field[last] = filled(value, evil(marker))
    crafted.write_text(json.dumps(snapshot))

    with pytest.raises(UserInputError, match=r"Ax would evaluate as Python code.*calls exec"):
        check_json_file(crafted)
    assert not marker.exists()
    # What this is for: if Ax should read without evaluating, the check can go.
    with pytest.raises(Exception):  # noqa: B017, PT011
        Client.load_from_json_file(str(crafted))
    assert marker.exists(), "Ax runs no code here"


ROWS = {
    "derived parameter": ("parameter_v2 SET expression_str = ? WHERE name = 'd'", "2 * b + CODE"),
    "weights": ("parameter_constraint_v2 SET constraint_dict = ?", {"CODE": 1}),
    "a weight": ("parameter_constraint_v2 SET constraint_dict = ?", {"b": "CODE"}),
    "bound": ("parameter_constraint_v2 SET bound = ?", "CODE"),
    "objective": (
        "metric_v2 SET intent = 'scalarized_objective', properties = ? WHERE intent = 'objective'",
        {"expression": "CODE"},
    ),
    "derived metric": ("metric_v2 SET properties = ?", {"expression_str": "CODE"}),
    "name of a metric": ("metric_v2 SET name = ? WHERE intent <> 'tracking'", "CODE"),
    "strategy": (
        "generation_strategy SET nodes = ?",
        [{"__type": "Objective", "expression": "CODE"}],
    ),
}


@pytest.mark.parametrize("kind", ROWS)
def test_code_in_a_database_is_refused_while_it_is_read(
    stored: Path, tmp_path: Path, kind: str
) -> None:
    marker, crafted = tmp_path / "ran", tmp_path / "crafted.db"
    shutil.copy(stored / "good.db", crafted)
    statement, value = ROWS[kind]
    code = filled(value, evil(marker))
    connection = sqlite3.connect(crafted)
    connection.execute(
        f"UPDATE {statement}",
        [code if isinstance(code, str) else json.dumps(code)],
    )
    connection.commit()
    connection.close()

    url = f"sqlite:///{crafted}"
    with pytest.raises(UserInputError, match=r"Ax would evaluate as Python code.*calls exec"):
        read_experiment("toy", url)
    with pytest.raises(UserInputError, match=r"Ax would evaluate as Python code.*calls exec"):
        Client.load_from_database("toy", storage_config=StorageConfig(url=url))
    assert not marker.exists()


def test_what_ax_stores_is_read(stored: Path) -> None:
    check_json_file(stored / "good.json")
    Client.load_from_json_file(str(stored / "good.json"))
    experiment, _ = read_experiment("toy", f"sqlite:///{stored / 'good.db'}")
    assert set(experiment.metrics) == {"loss:v1", "size (p50)"}


@pytest.mark.parametrize(
    "fields",
    [
        {"expression": "2*acc/val - 1e-3 * loss@test:p_50-99, -cost"},
        {"expression": "size (p50) - m|x + ~y <= 0.95 * baseline"},
        {"expression_str": "log(y) + sqrt(Abs(z)) - 2**(x^2)"},
        {"inequality": "a.b + 2*(c - d) >= -1.5"},
        {"equality": "a + b == 1"},
        # Ax does not evaluate the name of a single objective that a database has.
        {"metric": {"name": "test"}},
        {"metric": {"name": "beta (p50)"}},
        {"metric": {"name": "top[5]"}},
        {"metric": {"name": "loss (a, b)"}},
    ],
)
def test_arithmetic_passes(fields: dict[str, Any]) -> None:
    check_values([{"x": {"__type": "Any", **fields}}])


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("expression", "().__class__"),
        ("expression", 'y + "text"'),
        ("expression", "y\nbreakpoint()"),
        ("expression", "(breakpoint)*baseline() <= 1"),
        ("expression", "(breakpoint) * baseline(b) <= 1"),
        # Names that Ax would put into another expression as they were before it changed them.
        ("expression", "breakpoint__lparen____rparen__"),
        ("expression", "(c__rparen__ + b__lparen__chr)"),
        ("expression", "[y for y in x]"),
        ("expression_str", "exec(x)"),
        ("expression_str", "log(x, evaluate=f())"),
        ("expression_str", "lambdify(x, y)"),
        ("inequality", "(lambda:(1))() <= 1"),
        ("bound", "a:b - exec((1) - (2))"),
        ("inequality", f"{'(' * 500}x{')' * 500}"),
    ],
)
def test_other_code_is_refused(field: str, text: str) -> None:
    with pytest.raises(UserInputError, match="expected arithmetic of names and numbers"):
        check_values({"__type": "Any", field: text})
    check_values({"why": {field: text}})  # not read by Ax


@pytest.mark.parametrize("name", ["lambda", "class", "E", "n=3"])
def test_names_in_the_package_s_own_values_are_no_expressions(name: str) -> None:
    """Ax has such parameters, and a cost has their names as its weights."""
    check_values(object_to_json(AffineCost({name: 1.0}, fixed=1.0)))


@pytest.mark.parametrize("number", ["inf", "-inf", "nan"])
def test_numbers_that_json_lacks_pass(stored: Path, tmp_path: Path, number: str) -> None:
    """As later versions of Ax write them, where an expression is made of them, too."""
    typed = {"__type": "float", "value": number}
    check_values({"__type": "ParameterConstraint", "bound": typed, "weights": {"x": typed}})
    content = json.loads((stored / "good.json").read_text())
    content["experiment"]["properties"]["note"] = typed
    path = tmp_path / "typed.json"
    path.write_text(json.dumps(content, allow_nan=False))
    check_json_file(path)
    found = Client.load_from_json_file(str(path))._experiment._properties["note"]
    assert repr(found) == number


def test_code_in_place_of_a_number_is_not_run(stored: Path, tmp_path: Path) -> None:
    marker, path = tmp_path / "ran", tmp_path / "typed.json"
    content = json.loads((stored / "good.json").read_text())
    content["experiment"]["properties"]["note"] = {"__type": "float", "value": evil(marker)}
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="could not convert string to float"):
        Client.load_from_json_file(str(path))
    assert not marker.exists()
