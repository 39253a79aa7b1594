"""What a stored indirect-query or resolution-tree strategy holds survives JSON and SQL."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import UserInputError
from ax.exceptions.storage import JSONEncodeError
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
    recommend,
    register_conditional_mean,
)
from ax_costaware.ax_bridge.storage import VALUE_OBJECTS
from ax_costaware.methods.averages.indirect_queries import IndirectQueries
from ax_costaware.methods.resolution_tree import TreeSearch
from ax_costaware.space.parameters import Choice, Range
from tests import test_storage
from tests.ax.indirect_toy import KNOWN, learned, make_client, pairs, run_trials

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
    client = make_client(target_parameters=targets, conditional=law, hyperparameters=None)
    run_trials(client, 5)
    row = {"dose": 5.0, "size": 3, "drug": "b", "day": 1}
    assert add_pairs(client, [row], [[0.4, 0.5]]) == 41
    best = recommend(client).parameters
    assert best["drug"] in ("a", "b")
    assert best["day"] in (0, 1)
    assert isinstance(best["size"], int)


def test_a_mean_is_stored_by_its_name(tmp_path: Path) -> None:
    """A process that did not register it is told so; another one goes on."""
    register_conditional_mean("ten times", lambda A: 10 * A)
    law = GaussianConditional.from_mean("ten times", 2, covariance=0.25)
    client = make_client(conditional=law)
    run_trials(client, 4)
    path = tmp_path / "toy.json"
    client.save_to_json_file(str(path))
    assert recommend(Client.load_from_json_file(str(path))) == recommend(client)
    path.write_text(path.read_text().replace("ten times", "twenty times"))
    with pytest.raises(UserInputError, match="mean='twenty times'"):
        Client.load_from_json_file(str(path)).get_next_trials(max_trials=1)
