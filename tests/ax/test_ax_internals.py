"""What the package uses of Ax without its public promise.

A failure here means that this version of Ax changed something that the named module relies on.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest
from ax.adapter.base import Adapter
from ax.adapter.registry import Generators
from ax.adapter.torch import TorchAdapter
from ax.api.client import Client
from ax.core.arm import Arm
from ax.core.base_trial import MANUAL_GENERATION_METHOD_STR, UNKNOWN_GENERATION_METHOD_STR
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.trial import Trial
from ax.core.utils import extend_pending_observations
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generators.torch.botorch_modular.acquisition import Acquisition
from ax.generators.torch.botorch_modular.generator import BoTorchGenerator
from ax.global_stopping.strategies.base import BaseGlobalStoppingStrategy
from ax.service.ax_client import AxClient
from botorch.models import SingleTaskGP

import ax_costaware
from ax_costaware import ax_bridge
from tests.ax.toy import make_client, run_trials

BRIDGE = Path(ax_bridge.__file__).parent
"""The only place where private attributes of Ax are touched."""

METHODS: list[tuple[Any, list[str], str]] = [
    (
        Adapter._set_and_filter_training_data,
        ["experiment_data", "search_space"],
        "adapter.py",
    ),
    (
        TorchAdapter._convert_experiment_data,
        ["experiment_data", "outcomes", "parameters", "search_space_digest"],
        "adapter.py",
    ),
    (Adapter._set_search_space, ["search_space"], "adapter.py"),
    (Adapter._set_model_space, ["arm_data"], "adapter.py"),
    (TorchAdapter._fit, ["search_space", "experiment_data", "kwargs"], "adapter.py"),
    (
        TorchAdapter._get_transformed_gen_args,
        ["search_space", "optimization_config", "pending_observations", "fixed_features"],
        "adapter.py",
    ),
    (
        TorchAdapter._get_transformed_model_gen_args,
        [
            *("search_space", "pending_observations", "fixed_features"),
            *("model_gen_options", "optimization_config"),
        ],
        "adapter.py",
    ),
    (TorchAdapter._get_serialized_model_state, [], "adapter.py"),
    (Acquisition._instantiate_acquisition, [], "generator.py"),
    (Trial._raw_evaluations_to_data, ["raw_data"], "attached.py"),
    (BaseGlobalStoppingStrategy._should_stop_optimization, ["experiment"], "stopping.py"),
    (Client._save_experiment_to_db_if_possible, ["experiment"], "client.py"),
    (Client._save_generation_strategy_to_db_if_possible, ["generation_strategy"], "client.py"),
    (Client._save_or_update_trial_in_db_if_possible, ["experiment", "trial"], "client.py"),
    (
        Client._update_experiment_properties_in_db,
        ["experiment_with_updated_properties"],
        "client.py",
    ),
]
"""Private methods of Ax that are called or overridden, their arguments, and where."""


@pytest.mark.parametrize(("method", "parameters", "module"), METHODS)
def test_private_methods(method: Any, parameters: list[str], module: str) -> None:
    """They exist, with the arguments that are used, and are used where the list says."""
    found = list(inspect.signature(method).parameters)[1:]
    assert found == parameters, f"Ax changed {method.__qualname__}, see ax_bridge/{module}"
    assert method.__name__ in (BRIDGE / module).read_text("utf-8")


def test_private_attributes() -> None:
    """They are there on a fitted adapter, and do what the package takes them to do."""
    client = make_client(initial_trials=2)
    run_trials(client, 3)
    adapter = client._generation_strategy.adapter
    for name, owners in PRIVATE.items():
        if Adapter in owners:
            assert hasattr(adapter, name), f"Ax dropped Adapter.{name}: see ax_bridge/adapter.py"
    assert "self._last_experiment_data" in inspect.getsource(TorchAdapter._fit), (
        "Ax skips fits in another way: see ax_bridge/adapter.py, which has to fit to new pairs"
    )
    assert "self._surrogate = " in inspect.getsource(BoTorchGenerator.fit), (
        "Ax keeps the surrogate elsewhere: see ax_bridge/generator.py, which has it made anew"
    )
    made = inspect.getsource(Acquisition._instantiate_acquisition)
    assert "self.acqf = " in made, "see LentOptimizer in ax_bridge/generator.py"
    assert "self.acq_function_sequence = None" in made, "see ax_bridge/generator.py"
    assert "._generation_node_name = self.name" in inspect.getsource(GenerationNode.gen), (
        "see ax_bridge/initial_node.py"
    )


PRIVATE: dict[str, tuple[type, ...]] = {
    "_adapter_kwargs": (Adapter,),
    "_arms_by_name": (Experiment,),
    "_arms_by_signature": (Adapter, Experiment),
    "_data_loader_config": (Adapter,),
    "_botorch_acqf_classes_with_options": (BoTorchGenerator,),
    "_db_id": (Experiment, GenerationStrategy),
    "_experiment": (Adapter, Client, AxClient),
    "_fit": (TorchAdapter,),
    "_fitted_adapter": (GeneratorSpec,),
    "_gen_metadata": (GeneratorRun,),
    "_generation_node_name": (GeneratorRun,),
    "_generation_strategy": (Client, AxClient, GenerationNode),
    "_generator_key": (Adapter, GeneratorRun),
    "_generator_kwargs": (Adapter, GeneratorRun),
    "_generator_runs": (GenerationStrategy,),
    "_generator_state_after_gen": (GeneratorRun,),
    "_get_serialized_model_state": (Adapter,),
    "_get_transformed_gen_args": (Adapter,),
    "_get_transformed_model_gen_args": (TorchAdapter,),
    "_instantiate_acquisition": (Acquisition,),
    "_last_experiment_data": (TorchAdapter,),
    "_maybe_experiment": (Client,),
    "_maybe_generation_strategy": (Client,),
    "_model_space": (Adapter,),
    "_optimization_config": (Adapter,),
    "_properties": (Experiment,),
    "_raw_evaluations_to_data": (Trial,),
    "_save_experiment_to_db_if_possible": (Client, AxClient),
    "_save_generation_strategy_to_db_if_possible": (Client, AxClient),
    "_save_or_update_trial_in_db_if_possible": (Client, AxClient),
    "_search_space": (Adapter,),
    "_set_and_filter_training_data": (Adapter,),
    "_set_model_space": (Adapter,),
    "_set_search_space": (Adapter,),
    "_should_stop_optimization": (BaseGlobalStoppingStrategy,),
    "_surrogate": (BoTorchGenerator,),
    "_trial_indices_by_status": (Experiment,),
    "_trials": (Experiment,),
    "_update_experiment_properties_in_db": (Client, AxClient),
}
"""Private attributes that ``ax_bridge`` reads, sets or overrides of Ax's classes, and of which."""

PRIVATE_OF_BOTORCH: dict[str, tuple[type, ...]] = {"_validate_tensor_args": (SingleTaskGP,)}
"""Those that other parts of the package read of BoTorch's classes, which they derive from."""


@pytest.mark.parametrize("name", [*PRIVATE, *PRIVATE_OF_BOTORCH])
def test_private_attributes_of_others_are_there(name: str) -> None:
    for owner in {**PRIVATE, **PRIVATE_OF_BOTORCH}[name]:
        assert _has(owner, name), (
            f"{owner.__name__}.{name} is gone, which the package uses: grep for it"
        )


def test_every_private_attribute_is_used() -> None:
    """What is no longer used does not belong into the lists."""
    used = {name for path in BRIDGE.glob("*.py") for _, name in _touched(path)}
    used |= {name for path in BRIDGE.glob("*.py") for name in _defined([path])}
    assert PRIVATE.keys() <= used, sorted(PRIVATE.keys() - used)


def test_no_other_private_attributes_are_touched() -> None:
    """What is new belongs into the list above, and into ``ax_bridge``."""
    package = Path(ax_costaware.__file__).parent
    paths = sorted(package.rglob("*.py"))
    inside = [path for path in paths if BRIDGE in path.parents]
    outside = [path for path in paths if BRIDGE not in path.parents]
    assert inside
    assert outside
    known = _defined(inside) | PRIVATE.keys()
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
    listed = {*PRIVATE, *(method.__name__ for method, _, _ in METHODS)}
    for cls in _bridge_classes():
        theirs = [c for c in cls.__mro__ if c.__module__.startswith("ax.")]
        path = Path(inspect.getfile(cls))
        tree = ast.parse(path.read_text("utf-8"))
        (body,) = (
            n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == cls.__name__
        )
        for name in _defined_in(body) - listed:
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


def test_the_first_hook_of_the_data_is_called_on_every_fit() -> None:
    """``_set_and_filter_training_data`` runs in both ways in which Ax fits an adapter."""
    for method in (Adapter.__init__, Adapter._process_and_transform_data):
        source = inspect.getsource(method)
        assert "_set_and_filter_training_data" in source, method.__qualname__
        # Our hook widens the model space, so it has to be read after the hook.
        assert source.rindex("self._model_space") > source.index("_set_and_filter_training_data")


def test_decisions_of_a_batch_are_pending_without_a_trial_index() -> None:
    """``ax_bridge/nodes.py`` and ``Problem.undelivered`` know them by that."""
    client = make_client()
    run = client._generation_strategy.gen(client._experiment, n=1)[0][0]
    pending: dict[str, list[ObservationFeatures]] = {}
    for _ in range(2):
        extend_pending_observations(client._experiment, pending, run)
    assert [o.trial_index for o in pending["y"]] == [None, None], "repeats have to be kept, too"


def test_signatures_of_overridden_public_methods() -> None:
    """A parameter that Ax adds would not reach the base class, but where all are handed on."""
    handed_on = {
        ("CostAwareGenerator", "fit"),
        ("CostAwareStrategy", "gen"),
        ("InitialNode", "gen"),
    }
    compared = set()
    for cls in _bridge_classes():
        for name in vars(cls):
            if name.startswith("_") or not callable(getattr(cls, name)):
                continue
            for base in cls.__mro__:
                if base.__module__.startswith("ax.") and name in vars(base):
                    found, expected = (
                        list(inspect.signature(getattr(c, name)).parameters) for c in (cls, base)
                    )
                    if (cls.__name__, name) in handed_on:
                        assert {*found} - {"args", "kwargs"} <= {*expected}
                        expected = found
                    assert found == expected, f"Ax changed {base.__name__}.{name}"
                    compared.add((cls.__name__, name))
                    break
    assert compared >= {
        ("CostAwareAdapter", "gen"),
        ("CostAwareAdapter", "model_best_point"),
        ("CostAwareGenerator", "fit"),
        ("MethodNode", "new_trial_limit"),
        ("InitialNode", "gen"),
        ("InitialNode", "new_trial_limit"),
        ("InitialNode", "should_transition_to_next_node"),
        ("HideParameters", "transform_search_space"),
        ("TimeFeature", "untransform_observation_features"),
        ("BatchLimit", "num_till_threshold"),
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


def test_generator_run_keeps_what_is_written_into_its_metadata() -> None:
    """``ax_bridge/initial_node.py`` adds its record to a run of Ax's Sobol generator."""
    run = GeneratorRun(arms=[Arm({"x1": 0.25})], gen_metadata={"of": "Ax"})
    run._gen_metadata = {**(run.gen_metadata or {}), "ours": 1}
    assert run.gen_metadata == {"of": "Ax", "ours": 1}
    assert run.clone().gen_metadata == run.gen_metadata
