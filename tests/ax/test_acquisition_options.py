"""The acquisition functions in Ax's own modular generator, with options that are stored as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from ax.adapter.registry import Generators
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.core.parameter import ParameterType, RangeParameter
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec

from ax_costaware import AffineCost
from ax_costaware.acquisition import (
    LogExpectedImprovementPerCost,
    LogNoisyExpectedImprovementPerCost,
    LogTargetImprovementPerCost,
    PandoraBoxGittinsIndex,
    PartialQueryLogExpectedImprovement,
)
from ax_costaware.exceptions import InputError

COST = AffineCost({0: 1.0}, fixed=1.0)
QUERY = {
    "controlled": [0],
    "nodes": [[0.2, 0.3], [0.5, 0.6], [0.8, 0.9]],
    "weights": [0.25, 0.5, 0.25],
}


def client_with(acquisition: type, options: dict[str, Any], target: float | None = None) -> Client:
    """A client whose next trials are by an acquisition function, after five trials."""
    client = Client()
    client.configure_experiment(
        [RangeParameterConfig(name=n, bounds=(0, 1), parameter_type="float") for n in "ab"]
    )
    client.configure_optimization(objective="-y")
    if target is not None:
        fidelity = RangeParameter(
            "b", ParameterType.FLOAT, 0.0, 1.0, is_fidelity=True, target_value=target
        )
        client._experiment.search_space.update_parameter(fidelity)
    kwargs = {"botorch_acqf_class": acquisition, "botorch_acqf_options": options}
    specs = [GeneratorSpec(Generators.BOTORCH_MODULAR, generator_kwargs=kwargs)]
    node = GenerationNode(name="modular", generator_specs=specs)
    client.set_generation_strategy(GenerationStrategy(name="modular", nodes=[node]))
    for i in range(5):
        index = client.attach_trial({"a": 0.1 + 0.2 * i, "b": 0.37 * i % 1})
        client.complete_trial(index, {"y": (0.1 + 0.2 * i - 0.5) ** 2})
    return client


@pytest.mark.parametrize(
    ("acquisition", "options"),
    [
        (PartialQueryLogExpectedImprovement, QUERY),
        (LogNoisyExpectedImprovementPerCost, {"cost": COST}),
        (PandoraBoxGittinsIndex, {"cost": COST, "lmbda": 0.01}),
        (LogTargetImprovementPerCost, {"cost": COST, "target": {1: 1.0}}),
    ],
)
def test_options_of_modular_generator(
    acquisition: type, options: dict[str, Any], tmp_path: Path
) -> None:
    """A strategy that was stored makes the same trial as before."""
    client = client_with(acquisition, options)
    path = str(tmp_path / "stored.json")
    client.save_to_json_file(path)
    found = []
    for made in (client, Client.load_from_json_file(path)):
        torch.manual_seed(0)
        (parameters,) = made.get_next_trials(max_trials=1).values()
        found.append(parameters["a"])  # a query leaves the other one to chance
    assert found[1] == pytest.approx(found[0], abs=1e-4)


def test_target_of_ax() -> None:
    """A fidelity parameter's target value is the target, where no option says otherwise."""
    found = []
    for options in ({}, {"target": {1: 0.8}}):
        client = client_with(LogTargetImprovementPerCost, {"cost": COST, **options}, target=0.8)
        torch.manual_seed(0)
        found += client.get_next_trials(max_trials=1).values()
    assert found[0] == pytest.approx(found[1], abs=1e-6)


def test_missing_options() -> None:
    """They are named, and so is the class that knows no fidelities."""
    with pytest.raises(InputError, match="LogExpectedImprovementPerCost: got no cost; expected"):
        client_with(LogExpectedImprovementPerCost, {}).get_next_trials(max_trials=1)
    with pytest.raises(InputError, match=r"target_fidelities=\{1: 0.8\}.*knows no fidelities"):
        client_with(
            PandoraBoxGittinsIndex, {"cost": 1.0, "lmbda": 0.1}, target=0.8
        ).get_next_trials(max_trials=1)
