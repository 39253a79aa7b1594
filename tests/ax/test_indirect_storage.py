"""What a stored indirect-query or resolution-tree strategy holds survives JSON and SQL."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.api.protocols import IMetric, IRunner
from ax.api.types import TParameterization
from ax.core.trial_status import TrialStatus
from ax.exceptions.core import UserInputError
from ax.exceptions.storage import JSONEncodeError
from ax.storage.json_store.encoder import object_to_json
from torch import Tensor

from ax_costaware import (
    AffineCost,
    FiniteConditional,
    FiniteDomainBeta,
    FixedHyperparameters,
    GaussianConditional,
    LatentUCB,
    LearnedConditional,
    RegressedConditional,
    UniformBoxConditional,
    add_pairs,
    complete_trial,
    indirect_query_strategy,
    recommend,
    register_conditional_mean,
    resolution_tree_strategy,
    spending,
)
from ax_costaware.ax_bridge.node import CostAwareNode, method_of, node_of
from ax_costaware.ax_bridge.storage import VALUE_OBJECTS
from ax_costaware.methods.averages.indirect_queries import IndirectQueries
from ax_costaware.methods.resolution_tree import TreeSearch
from ax_costaware.space.parameters import Choice, Range
from tests import test_storage
from tests.ax import tree_toy
from tests.ax.indirect_toy import FAST, KNOWN, TARGETS, answer, learned, make_client, pairs
from tests.repeats import mostly_slow

pytestmark = pytest.mark.usefixtures("short_searches")

round_trip = test_storage.round_trip

INDIRECT = IndirectQueries(
    target_parameters=(Range("x1", 0, 10), Range("x2", 1e-3, 10, log_scale=True)),
    conditional=KNOWN,
    cost=AffineCost({"a1": 0.1}),
    budget=7,
    query_parameters=("a2", "a1"),
    hyperparameters=FixedHyperparameters((0.1, 0.2)),
)
TREE = TreeSearch(
    target_parameters=(Range("x1", 0, 10),),
    max_level=2,
    splits=(3,),
    costs=(0.1, 0.30000000000000004, 1),
    noise=0.1,
)


VALUES = [
    KNOWN,
    GaussianConditional(((0.1, 1 / 3),), (0.5,), ((2.0,),), lower=(0,), upper=(1,), outside="clip"),
    GaussianConditional.from_mean("bent", 2, covariance=(0.1, 0.2)),
    UniformBoxConditional((0.1, 0.2), num_nodes=5),
    UniformBoxConditional("delta", (0, 0), (1, 1), "clip"),
    FiniteDomainBeta(961),
    LatentUCB(FiniteDomainBeta(961, delta=0.05)),
    UniformBoxConditional(("delta", 0.1)),
    GaussianConditional(((0.1,),), standard_deviation="delta"),
    FiniteConditional(((0.1, 0.9), (1 / 3, 2 / 3)), queries=("north", "south")),
    FiniteConditional(((0.1, 0.9), (0.5, 0.5)), points=((0.1,), (2.0,)), queries=(1, 2)),
    learned(9),
    RegressedConditional(*pairs(9), lower=(0, 0), upper=(10, 10), num_nodes=8),
    Range("x", 0, 1 / 3),
    Range("n", 1, 9, is_integer=True, log_scale=True),
    Choice("c", ("red", "green")),
    Choice("d", (0.5, 0.1), is_ordered=True),
    INDIRECT,
    TREE,
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_value_objects(value: object) -> None:
    """Equal, of the same type, and printed alike afterwards."""
    found = round_trip(value)
    assert type(found) is type(value)
    assert found == value
    assert repr(found) == repr(value)


def test_every_value_object_is_tested() -> None:
    """A class that is registered has an example here, or beside those of the other methods."""
    others = {type(value) for value in test_storage.VALUES}
    assert {type(value) for value in VALUES} | others == set(VALUE_OBJECTS)


def test_pairs_keep_all_digits() -> None:
    """Whatever the numbers are."""
    X = np.array([[1e-300, 1 / 3], [math.pi, -1e99], [0.1, 2.0], [5e-324, 7.0]])
    law = LearnedConditional(X, X[:, ::-1] / 3)
    found = round_trip(law)
    assert np.array_equal(found.X, X)
    assert np.array_equal(found.A, law.A)


def test_nodes() -> None:
    """A node and a strategy are the same after a round trip, and store the method once."""
    for method in (INDIRECT, TREE):
        node = round_trip(CostAwareNode(method, "model", count_attached=False))
        assert type(node) is CostAwareNode
        assert (node.method, node.name, node.surrogate_spec) == (method, "model", None)
        assert (node.torch_device, node.count_attached) == (None, False)
    for strategy in (
        indirect_query_strategy(TARGETS, learned(9)),
        resolution_tree_strategy(tree_toy.TARGETS, 3),
    ):
        found = round_trip(strategy)
        assert method_of(found) == method_of(strategy)
        stored = json.dumps(object_to_json(node_of(strategy)))
        assert stored.count(f'"ax_costaware.{type(method_of(strategy)).__name__}"') == 1
        assert json.dumps(object_to_json(node_of(found))) == stored


def test_a_mean_is_stored_by_its_name(tmp_path: Path) -> None:
    """A process that did not register it is told so; after that it goes on."""
    register_conditional_mean("ten times", lambda A: 10 * A)
    law = GaussianConditional.from_mean("ten times", 2, covariance=0.25)
    client = make_client(conditional=law)
    for _ in range(4):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        complete_trial(client, index, {"z": answer(dict(arm))})
    client.save_to_json_file(str(tmp_path / "toy.json"))
    from ax_costaware.laws.conditionals import gaussian

    function = gaussian._MEANS.pop("ten times")
    loaded = Client.load_from_json_file(str(tmp_path / "toy.json"))
    with pytest.raises(UserInputError, match=r"mean='ten times' is not registered .*register_cond"):
        loaded.get_next_trials(max_trials=1)
    register_conditional_mean("ten times", function)
    assert recommend(loaded) == recommend(client)


@dataclass(frozen=True)
class Shifted(GaussianConditional):
    """A user's own conditional, which nobody registered."""

    def mean_of(self, A: Tensor) -> Tensor:
        """A little to the right."""
        return super().mean_of(A) + 0.1


def test_own_conditional_works_and_storing_it_says_why_not(tmp_path: Path) -> None:
    """Saving names the argument, its class, and the way out."""
    client = make_client(conditional=Shifted(((10, 0), (0, 10)), covariance=0.25))
    client.get_next_trials(max_trials=1)
    with pytest.raises(JSONEncodeError, match=r"conditional=Shifted\(.*register_value_object"):
        client.save_to_json_file(str(tmp_path / "toy.json"))


class Survey(IRunner, IMetric):
    """Asks a query, and reports the answer."""

    def __init__(self) -> None:
        super().__init__(name="z")
        self.arms: dict[int, Any] = {}

    def run_trial(self, trial_index: int, parameterization: TParameterization) -> dict[str, Any]:
        """Start a trial."""
        self.arms[trial_index] = dict(parameterization)
        return {}

    def poll_trial(self, trial_index: int, trial_metadata: Any) -> TrialStatus:
        """Done at once."""
        return TrialStatus.COMPLETED

    def stop_trial(self, trial_index: int, trial_metadata: Any) -> dict[str, Any]:
        """Nothing to stop."""
        return {}

    def fetch(self, trial_index: int, trial_metadata: Any) -> tuple[int, float]:
        """The answer."""
        arm = self.arms[trial_index]
        return 0, tree_toy.cell_mean(arm) if "level" in arm else answer(arm)


@pytest.mark.parametrize("is_tree", mostly_slow([False, True], [False]))
def test_run_trials(is_tree: bool) -> None:
    """``Client.run_trials`` takes the strategies as they are, in parallel, up to the budget."""
    budget = 8.0 if is_tree else 5.0
    client = (tree_toy.make_client if is_tree else make_client)(budget=budget)
    survey = Survey()
    client.configure_runner(survey)
    client.configure_metrics([survey])
    client.run_trials(max_trials=30, parallelism=2, initial_seconds_between_polls=0)
    assert budget - 2.0 <= spending(client).spent <= budget
    assert len(client._experiment.trials) < 30
    assert recommend(client).parameters.keys() == {"x1", "x2"}


def test_targets_of_every_kind() -> None:
    """Choices, integers and logarithms among the target parameters, in a learned conditional."""
    random = np.random.default_rng(0)
    A = random.uniform(0.2, 0.8, (40, 2))
    X = np.stack(
        [10 ** (2 * A[:, 0]), np.round(1 + 8 * A[:, 1]), (A[:, 0] > 0.5) * 1.0, A[:, 1].round()],
        axis=1,
    )
    targets = [
        RangeParameterConfig("dose", (1, 100), "float", scaling="log"),
        RangeParameterConfig("size", (1, 9), "int"),
        ChoiceParameterConfig("drug", ["a", "b"], "str"),
        ChoiceParameterConfig("day", [0, 1], "int", is_ordered=True),
    ]
    law = LearnedConditional(X, A, lengthscale=0.5, regularization=1e-3)
    for hyperparameters in (FAST["hyperparameters"], None):
        client = make_client(
            target_parameters=targets, conditional=law, hyperparameters=hyperparameters
        )
        for _ in range(5):
            ((index, arm),) = client.get_next_trials(max_trials=1).items()
            complete_trial(client, index, {"z": float(arm["a1"]) + float(arm["a2"])})
        row = {"dose": 5.0, "size": 3, "drug": "b", "day": 1}
        assert add_pairs(client, [row], [[0.4, 0.5]]) == 41
        best = recommend(client).parameters
        assert best["drug"] in ("a", "b")
        assert best["day"] in (0, 1)
        assert isinstance(best["size"], int)


@pytest.mark.slow
def test_many_pairs() -> None:
    """Thirty thousand of them make a decision no slower, once they are learned from."""
    client = make_client(conditional=LearnedConditional(*pairs(30_000)))
    for _ in range(4):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        complete_trial(client, index, {"z": answer(dict(arm))})
    started = time.process_time()
    client.get_next_trials(max_trials=1)
    assert time.process_time() - started < 5
    assert torch.tensor(recommend(client).standard_deviation) > 0
