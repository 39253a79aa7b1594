"""What the package uses of Ax without its public promise.

A failure here means that this version of Ax changed something that the named module relies on.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest
from ax.adapter.base import Adapter
from ax.adapter.registry import Generators
from ax.api.client import Client
from ax.core.arm import Arm
from ax.core.base_trial import (
    MANUAL_GENERATION_METHOD_STR,
    UNKNOWN_GENERATION_METHOD_STR,
    BaseTrial,
)
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.objective import Objective
from ax.core.observation import ObservationFeatures
from ax.core.utils import extend_pending_observations
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.global_stopping.strategies.base import BaseGlobalStoppingStrategy
from ax.service.ax_client import AxClient
from botorch.models import SingleTaskGP

import ax_costaware
from ax_costaware import ax_bridge
from tests.ax.toy import make_client

BRIDGE = Path(ax_bridge.__file__).parent
"""The only place where private attributes of Ax are touched."""

ATTRIBUTES: dict[str, tuple[type, ...]] = {
    "_experiment": (AxClient, GenerationStrategy),
    "_gen_metadata": (GeneratorRun,),
    "_generation_node_name": (GeneratorRun,),
    "_generation_strategy": (AxClient, GenerationNode),
    "_generator_runs": (GenerationStrategy,),
    "_maybe_experiment": (Client,),
    "_maybe_generation_strategy": (Client,),
    "_parsed": (Objective,),
    "_properties": (Experiment, BaseTrial),
    "_trials": (Experiment,),
}
"""Private attributes that ``ax_bridge`` reads or sets of Ax's classes, and of which."""

CALLED = {
    Client._save_experiment_to_db_if_possible: ["experiment"],
    Client._save_generation_strategy_to_db_if_possible: ["generation_strategy"],
    Client._save_or_update_trial_in_db_if_possible: ["experiment", "trial"],
    Client._update_experiment_properties_in_db: ["experiment_with_updated_properties"],
}
"""Private methods of both of Ax's clients that are called, with their arguments."""

OVERRIDDEN = {
    Adapter._compute_in_design: ["search_space", "experiment_data"],
    Adapter._set_model_space: ["arm_data"],
    BaseGlobalStoppingStrategy._should_stop_optimization: ["experiment"],
    GenerationNode._fit: ["experiment", "data", "kwargs"],
    GenerationNode._fitted_adapter.fget: [],
    GenerationNode._gen: [
        *("experiment", "pending_observations", "data", "n"),
        "generator_gen_kwargs",
    ],
}
"""Private methods that are overridden, with their arguments."""

METHODS = {method.__name__: arguments for method, arguments in (CALLED | OVERRIDDEN).items()}
PRIVATE = ATTRIBUTES.keys() | METHODS.keys()

PRIVATE_OF_BOTORCH: dict[str, tuple[type, ...]] = {"_validate_tensor_args": (SingleTaskGP,)}
"""Those that other parts of the package read of BoTorch's classes, which they derive from."""


@pytest.mark.parametrize("method", CALLED | OVERRIDDEN, ids=lambda method: method.__name__)
def test_private_methods(method: Callable[..., object]) -> None:
    """They have the arguments that are used."""
    found = list(inspect.signature(method).parameters)[1:]
    assert found == METHODS[method.__name__], f"Ax changed {method.__qualname__}: grep for it"
    if method in CALLED:
        assert {*found} <= {*inspect.signature(getattr(AxClient, method.__name__)).parameters}


@pytest.mark.parametrize(
    ("name", "owner"),
    [(n, c) for n, owners in {**ATTRIBUTES, **PRIVATE_OF_BOTORCH}.items() for c in owners],
)
def test_private_attributes(name: str, owner: type) -> None:
    assert _has(owner, name), f"{owner.__name__}.{name} is gone, which the package uses"


def test_every_private_attribute_is_used() -> None:
    """What is no longer used does not belong into the lists."""
    used = {name for path in BRIDGE.glob("*.py") for _, name in _touched(path)}
    used |= {name for path in BRIDGE.glob("*.py") for name in _defined([path])}
    assert used >= PRIVATE, sorted(PRIVATE - used)


def test_no_other_private_attributes_are_touched() -> None:
    """What is new belongs into the lists above, and into ``ax_bridge``."""
    package = Path(ax_costaware.__file__).parent
    paths = sorted(package.rglob("*.py"))
    inside = [path for path in paths if BRIDGE in path.parents]
    outside = [path for path in paths if BRIDGE not in path.parents]
    assert inside
    assert outside
    known = _defined(inside) | PRIVATE
    for path in inside:
        for place, name in _touched(path):
            listed = name in known
            assert listed, f"{place}: {name} is private to another library"
    own = _defined(outside) | PRIVATE_OF_BOTORCH.keys()
    for path in outside:
        for place, name in _touched(path):
            here = name in own and (name not in PRIVATE or name in _defined([path]))
            assert here, f"{place}: {name} is private to another library, or to ax_bridge"


def test_our_private_names_are_not_taken_by_ax() -> None:
    """A method or attribute of our own would override one of the same name."""
    for cls in _bridge_classes():
        theirs = [c for c in cls.__mro__ if c.__module__.startswith("ax.")]
        path = Path(inspect.getfile(cls))
        tree = ast.parse(path.read_text("utf-8"))
        (body,) = (
            n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == cls.__name__
        )
        for name in _defined_in(body) - PRIVATE:
            taken = [c.__name__ for c in theirs if _has(c, name)]
            assert not taken, f"{cls.__name__}.{name} overrides what {taken} have"


def _touched(path: Path) -> list[tuple[str, str]]:
    """Private attributes that a module reads or sets: where, and their names."""
    return [
        (f"{path}, line {node.lineno}", node.attr)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and _is_private(node.attr)
    ]


def _defined(paths: list[Path]) -> set[str]:
    """Private names that modules define: of functions, classes, and attributes of their own."""
    return set().union(*(_defined_in(ast.parse(path.read_text("utf-8"))) for path in paths))


def _defined_in(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            # Set on another object it may be private to that.
            and node.value.id == "self"
        ):
            found.add(node.attr)
    return {name for name in found if _is_private(name)}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _has(owner: type, name: str) -> bool:
    """Whether a class, or its instances, have an attribute."""
    sources = [inspect.getsource(c) for c in owner.__mro__ if c.__module__ != "builtins"]
    return hasattr(owner, name) or any(
        f"self.{name} " in source or f"self.{name}:" in source for source in sources
    )


def _bridge_classes() -> list[type]:
    """The classes of ``ax_bridge`` that derive from Ax's."""
    modules = [
        importlib.import_module(f"{ax_bridge.__name__}.{path.stem}")
        for path in sorted(BRIDGE.glob("*.py"))
        if path.stem != "__init__"
    ]
    return [
        cls
        for module in modules
        for cls in vars(module).values()
        if isinstance(cls, type)
        and cls.__module__ == module.__name__
        and any(base.__module__.startswith("ax.") for base in cls.__mro__)
    ]


def test_decisions_of_a_batch_are_pending_without_a_trial_index() -> None:
    """``pending_observations`` and ``Problem.earlier_in_batch`` know them by that."""
    client = make_client()
    run = client._generation_strategy.gen(client._experiment, n=1)[0][0]
    pending: dict[str, list[ObservationFeatures]] = {}
    for _ in range(2):
        extend_pending_observations(client._experiment, pending, run)
    assert [o.trial_index for o in pending["y"]] == [None, None], "repeats have to be kept, too"


def test_signatures_of_overridden_public_methods() -> None:
    """A parameter that Ax adds would not reach the base class, but where all are handed on."""
    compared = set()
    for cls in _bridge_classes():
        for name in vars(cls):
            if name.startswith("_") or not callable(getattr(cls, name)):
                continue
            bases = [c for c in cls.__mro__ if c.__module__.startswith("ax.") and name in vars(c)]
            if not bases:
                continue
            found, expected = (
                list(inspect.signature(getattr(c, name)).parameters) for c in (cls, bases[0])
            )
            if "kwargs" in found and "kwargs" not in expected:
                assert {*found} - {"args", "kwargs"} <= {*expected}
            else:
                assert found == expected, f"Ax changed {bases[0].__name__}.{name}"
            compared.add(name)
    assert compared >= {
        *("fit", "gen", "is_met", "model_best_point", "new_trial_limit", "predict"),
        *("cross_validate", "transform_search_space", "transform_experiment_data"),
    }


def test_how_a_trial_came_about() -> None:
    """``session/query.py`` tells an attached trial from one of Ax's initial designs by this."""
    client = make_client()
    attached = client.attach_trial({"control_set": "x1", "x1": 0.5, "x2": 0.5, "x3": 0.5})
    sobol = Generators.SOBOL(experiment=client._experiment).gen(1)
    trial = client._experiment.new_trial(sobol)
    assert client._experiment.trials[attached].generation_method_str == MANUAL_GENERATION_METHOD_STR
    assert trial.generation_method_str == "Sobol"
    bare = client._experiment.new_trial(GeneratorRun(arms=[Arm({"x1": 0.25})]))
    assert bare.generation_method_str == UNKNOWN_GENERATION_METHOD_STR
