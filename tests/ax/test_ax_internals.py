"""What the package uses of Ax without its public promise.

A failure here means that this version of Ax changed something that the named module relies on.
"""

from __future__ import annotations

import ast
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
from ax.core.utils import extend_pending_observations
from ax.generation_strategy.external_generation_node import ExternalGenerationNode
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generators.torch.botorch_modular.generator import BoTorchGenerator
from ax.service.ax_client import AxClient
from botorch.models import SingleTaskGP

import ax_costaware
from tests.ax.toy import make_client, run_trials


@pytest.mark.parametrize(
    ("method", "parameters", "module"),
    [
        (
            Adapter._set_and_filter_training_data,
            ["experiment_data", "search_space"],
            "adapter/cost_aware_adapter.py",
        ),
        (Adapter._set_search_space, ["search_space"], "adapter/cost_aware_adapter.py"),
        (Adapter._set_model_space, ["arm_data"], "adapter/cost_aware_adapter.py"),
        (
            ExternalGenerationNode._gen,
            ["experiment", "data", "n", "pending_observations", "generator_gen_kwargs"],
            "generators/initial_node.py",
        ),
        (
            ExternalGenerationNode._gen,
            ["experiment", "data", "n", "pending_observations", "generator_gen_kwargs"],
            "generators/tree_node.py",
        ),
        (
            TorchAdapter._fit,
            ["search_space", "experiment_data", "kwargs"],
            "adapter/indirect_adapter.py",
        ),
        (
            Client._update_experiment_properties_in_db,
            ["experiment_with_updated_properties"],
            "session/resolution.py",
        ),
    ],
)
def test_private_methods(method: Any, parameters: list[str], module: str) -> None:
    """They exist, with the arguments that are used."""
    found = list(inspect.signature(method).parameters)[1:]
    assert found == parameters, f"Ax changed {method.__qualname__}, see ax_costaware/{module}"


def test_private_attributes() -> None:
    """They are there on a fitted adapter and on nodes and clients."""
    client = make_client(initial_trials=2)
    run_trials(client, 3)
    adapter = client._generation_strategy.adapter
    for name in ("_experiment", "_search_space", "_model_space", "_optimization_config"):
        assert hasattr(adapter, name), f"Ax dropped Adapter.{name}: see cost_aware_adapter.py"
    assert "self._last_experiment_data" in inspect.getsource(TorchAdapter._fit), (
        "Ax skips fits in another way: see indirect_adapter.py, which has to fit to new pairs"
    )
    node = client._generation_strategy.nodes_by_name["InitialControlSets"]
    assert list(node.pausing_criteria) == node._pausing_criteria, "see initial_node.py"


PRIVATE: dict[str, tuple[type, ...]] = {
    "_data_loader_config": (Adapter,),
    "_experiment": (Adapter, Client, AxClient),
    "_generation_node_name": (GeneratorRun,),
    "_generation_strategy": (Client, AxClient),
    "_generator_runs": (GenerationStrategy,),
    "_maybe_experiment": (Client,),
    "_maybe_generation_strategy": (Client,),
    "_model_space": (Adapter,),
    "_optimization_config": (Adapter,),
    "_properties": (Experiment,),
    "_save_experiment_to_db_if_possible": (Client, AxClient),
    "_save_generation_strategy_to_db_if_possible": (Client, AxClient),
    "_save_or_update_trial_in_db_if_possible": (Client, AxClient),
    "_search_space": (Adapter,),
    "_set_model_space": (Adapter,),
    "_set_search_space": (Adapter,),
    "_update_experiment_properties_in_db": (Client, AxClient),
    "_validate_tensor_args": (SingleTaskGP,),
}
"""Private attributes that the package reads of classes of others, and which classes."""


@pytest.mark.parametrize("name", PRIVATE)
def test_private_attributes_of_others_are_there(name: str) -> None:
    for owner in PRIVATE[name]:
        sources = [inspect.getsource(c) for c in owner.__mro__ if c.__module__ != "builtins"]
        is_there = hasattr(owner, name) or any(
            f"self.{name} " in source or f"self.{name}:" in source for source in sources
        )
        assert is_there, f"{owner.__name__}.{name} is gone, which the package uses: grep for it"


def test_no_other_private_attributes_are_touched() -> None:
    """What is new belongs into the list above."""
    package = Path(ax_costaware.__file__).parent
    trees = {path: ast.parse(path.read_text("utf-8")) for path in package.rglob("*.py")}
    nodes = [(path, node) for path, tree in trees.items() for node in ast.walk(tree)]
    own = {n.name for _, n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    own |= {n.attr for _, n in nodes if isinstance(n, ast.Attribute) and _is_stored(n)}
    own |= {
        n.target.id
        for _, n in nodes
        if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
    }
    for path, node in nodes:
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and node.attr not in own:
            listed = node.attr in PRIVATE or node.attr.startswith("__")
            assert listed, f"{path}, line {node.lineno}: {node.attr} is private to another library"


def _is_stored(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store)


def test_the_first_hook_of_the_data_is_called_on_every_fit() -> None:
    """``_set_and_filter_training_data`` runs in both ways in which Ax fits an adapter."""
    for method in (Adapter.__init__, Adapter._process_and_transform_data):
        source = inspect.getsource(method)
        assert "_set_and_filter_training_data" in source, method.__qualname__
        # Our hook widens the model space, so it has to be read after the hook.
        assert source.rindex("self._model_space") > source.index("_set_and_filter_training_data")


def test_decisions_of_a_batch_are_pending_without_a_trial_index() -> None:
    """``generators/budget.py`` counts them by that."""
    client = make_client()
    run = client._generation_strategy.gen(client._experiment, n=1)[0][0]
    pending: dict[str, list[ObservationFeatures]] = {}
    for _ in range(2):
        extend_pending_observations(client._experiment, pending, run)
    assert [o.trial_index for o in pending["y"]] == [None, None], "repeats have to be kept, too"


def test_signatures_of_overridden_public_methods() -> None:
    """A parameter that Ax adds would not reach the base class."""
    from ax_costaware.adapter.control_set_adapter import ControlSetAdapter
    from ax_costaware.adapter.gittins_adapter import GittinsAdapter
    from ax_costaware.adapter.indirect_adapter import IndirectAdapter
    from ax_costaware.generators.control_set_generator import ControlSetGenerator
    from ax_costaware.generators.gittins_generator import GittinsGenerator
    from ax_costaware.generators.gittins_nodes import InitialGittinsNode
    from ax_costaware.generators.indirect_generator import IndirectGenerator
    from ax_costaware.generators.indirect_node import InitialQueryNode, QueryNode
    from ax_costaware.generators.initial_node import InitialControlSetNode
    from ax_costaware.generators.tree_node import InitialCellNode

    for ours, theirs, name in (
        (ControlSetAdapter, TorchAdapter, "gen"),
        (ControlSetAdapter, TorchAdapter, "model_best_point"),
        (ControlSetGenerator, BoTorchGenerator, "fit"),
        (ControlSetGenerator, BoTorchGenerator, "gen"),
        (ControlSetGenerator, BoTorchGenerator, "best_point"),
        (InitialControlSetNode, GenerationNode, "new_trial_limit"),
        (GittinsAdapter, TorchAdapter, "gen"),
        (GittinsGenerator, BoTorchGenerator, "fit"),
        (GittinsGenerator, BoTorchGenerator, "gen"),
        (InitialGittinsNode, GenerationNode, "new_trial_limit"),
        (InitialGittinsNode, GenerationNode, "gen"),
        (InitialGittinsNode, GenerationNode, "deserialize_init_args"),
        (IndirectAdapter, TorchAdapter, "gen"),
        (IndirectGenerator, BoTorchGenerator, "fit"),
        (IndirectGenerator, BoTorchGenerator, "gen"),
        (IndirectGenerator, BoTorchGenerator, "best_point"),
        (InitialQueryNode, GenerationNode, "gen"),
        (InitialQueryNode, GenerationNode, "new_trial_limit"),
        (QueryNode, GenerationNode, "new_trial_limit"),
        (QueryNode, GenerationNode, "deserialize_init_args"),
        (InitialCellNode, GenerationNode, "new_trial_limit"),
    ):
        found, expected = (
            list(inspect.signature(getattr(cls, name)).parameters) for cls in (ours, theirs)
        )
        assert found == expected, f"Ax changed {theirs.__name__}.{name}"
    assert hasattr(Client, "_maybe_experiment"), "see session/resolution.py"


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
    """``generators/gittins_nodes.py`` adds its record to a run of Ax's Sobol generator."""
    run = GeneratorRun(arms=[Arm({"x1": 0.25})], gen_metadata={"of": "Ax"})
    run._gen_metadata = {**(run.gen_metadata or {}), "ours": 1}
    assert run.gen_metadata == {"of": "Ax", "ours": 1}
    assert run.clone().gen_metadata == run.gen_metadata
