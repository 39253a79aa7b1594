"""What releases 0.1 and 0.2 stored under names that are no more, read by the names of today.

Whole experiments that they stored are read, and decided from, in ``tests/stores``.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from ax_costaware import (
    AffineCost,
    ControlSet,
    EpsilonSchedule,
    FixedHyperparameters,
    GaussianConditional,
    ImprovementPerCostStop,
    QueryRule,
    Uniform,
)
from ax_costaware.ax_bridge import earlier_releases
from ax_costaware.ax_bridge.earlier_releases import BatchLimit
from ax_costaware.ax_bridge.initial_node import InitialNode
from ax_costaware.ax_bridge.nodes import ModelNode
from ax_costaware.ax_bridge.transforms import HideParameters
from ax_costaware.methods import (
    ControlSets,
    CostlyFeedback,
    Gittins,
    IndirectQueries,
    Method,
    TreeSearch,
)
from ax_costaware.space import Choice, Range
from tests.test_storage import design_of, read, round_trip


def _written(name: str, /, **values: Any) -> dict[str, Any]:
    """A value object as releases 0.1 and 0.2 wrote it."""
    return {"__type": f"ax_costaware.{name}", **values}


_SEARCH = {"seed": 0, "num_restarts": None, "raw_samples": None}
_DESIGN = {"initial_trials": 4, "charge_initial": False}
_QUERIES = {**_SEARCH, **_DESIGN, "acquisition": "max_value_entropy", "num_samples": 32}
_RANGE = _written("TargetRange", name="x", lower=0.1, upper=9.0, is_integer=False, log_scale=False)
_CHOICE = _written("TargetChoice", name="k", values=[1, 2], is_ordered=True)
_TARGETS = (Range("x", 0.1, 9), Choice("k", (1, 2), is_ordered=True))
_FIXED = FixedHyperparameters((0.1, 0.2))
EARLIER: dict[str, tuple[dict[str, Any], object]] = {
    "TargetRange": (_RANGE, _TARGETS[0]),
    "TargetChoice": (_CHOICE, _TARGETS[1]),
    "ControlSetSettings": (
        _written(
            "ControlSetSettings",
            control_sets=[
                _written("ControlSet", parameters=["a"], cost=0.1, name="a", fixed_cost=0.0),
                _written("ControlSet", parameters=["a", "b"], cost=0.5, name="2", fixed_cost=0.0),
            ],
            marginals={"b": _written("Uniform", lower=0.0, upper=1.0)},
            budget=7.0,
            rule=_written("EpsilonSchedule", initial=0.1, power=0.0, ratio=1.0),
            beta=2.0,
            acquisition="ei",
            initial_control_sets=["2"],
            num_nodes=64,
            joint=None,
            **_SEARCH,
            **_DESIGN,
        ),
        ControlSets(
            (ControlSet(["a"], cost=0.1), ControlSet(["a", "b"], cost=0.5, name="2")),
            {"b": Uniform(0.0, 1.0)},
            budget=7.0,
            rule=EpsilonSchedule.constant(0.1),
            acquisition="ei",
            initial_trials=4,
            initial_control_sets=("2",),
            charge_initial=False,
            num_nodes=64,
            winsorize=False,
        ),
    ),
    "CostlyFeedbackSettings": (
        _written(
            "CostlyFeedbackSettings",
            rule=_written("QueryRule", kappa=0.8, compare="correlation", joint=True),
            beta=2.0,
            cost=0.1,
            budget=7.0,
            time="hours",
            **_SEARCH,
            **_DESIGN,
        ),
        CostlyFeedback(
            QueryRule(0.8),
            beta=2.0,
            cost=0.1,
            budget=7.0,
            time="hours",
            initial_trials=4,
            charge_initial=False,
            winsorize=False,
        ),
    ),
    "GittinsSettings": (
        _written(
            "GittinsSettings",
            cost=_written("AffineCost", weights=[["x", 0.1]], fixed=0.3),
            budget=7.0,
            lmbda=None,
            decay=None,
            stop=_written("ImprovementPerCostStop", lmbda=0.5),
            acquisition="gittins",
            cost_model="linear",
            **_SEARCH,
            **_DESIGN,
        ),
        Gittins(
            AffineCost({"x": 0.1}, fixed=0.3),
            budget=7.0,
            stop=ImprovementPerCostStop(0.5),
            acquisition="gittins",
            initial_share=None,
            initialize_with_center=False,
            winsorize=False,
            kernel="squared_exponential",
            cost_model="linear",
            initial_trials=4,
            charge_initial=False,
        ),
    ),
    "IndirectQuerySettings": (
        _written(
            "IndirectQuerySettings",
            target_parameters=[_RANGE, _CHOICE],
            budget=7.0,
            hyperparameters=_written(
                "FixedHyperparameters",
                lengthscale=[0.1, 0.2],
                outputscale=1.0,
                noise_variance=1e-4,
                mean=0.0,
            ),
            conditional=_written(
                "GaussianConditional",
                weight=[[10.0], [2.0]],
                bias=[0.0, 0.0],
                covariance=0.25,
                mean=None,
                lower=None,
                upper=None,
                outside="refuse",
                num_nodes=16,
                query_columns=None,
            ),
            cost=_written("AffineCost", weights=[["a", 0.1]], fixed=0.0),
            query_parameters=["a"],
            **_QUERIES,
        ),
        IndirectQueries(
            target_parameters=_TARGETS,
            conditional=GaussianConditional(((10.0,), (2.0,)), covariance=0.25),
            cost=AffineCost({"a": 0.1}),
            budget=7.0,
            query_parameters=("a",),
            hyperparameters=_FIXED,
            initial_trials=4,
            charge_initial=False,
            acquisition="max_value_entropy",
        ),
    ),
    "ResolutionTreeSettings": (
        _written(
            "ResolutionTreeSettings",
            target_parameters=[_RANGE],
            budget=None,
            hyperparameters=None,
            max_level=2,
            splits=[3],
            costs=[0.1, 0.30000000000000004, 1],
            noise_sd=0.1,
            **_QUERIES,
        ),
        TreeSearch(
            target_parameters=_TARGETS[:1],
            max_level=2,
            splits=(3,),
            costs=(0.1, 0.30000000000000004, 1),
            noise_sd=0.1,
            initial_trials=4,
            charge_initial=False,
            winsorize=False,
        ),
    ),
}
"""By each name that is no more: what 0.2 wrote, and the value that it was."""


@pytest.mark.parametrize("name", EARLIER)
def test_values_of_earlier_releases(name: str) -> None:
    """They are read as the value object that has taken their place, and written as that."""
    stored, value = EARLIER[name]
    found = read(stored)
    assert type(found) is type(value)
    assert found == value
    # A field that 0.2 did not have is at its default.
    assert {field.name for field in fields(value)} >= stored.keys() - {"__type"}
    assert round_trip(found) == value


METHODS: dict[str, tuple[dict[str, Any], Any]] = {
    name: pair for name, pair in EARLIER.items() if isinstance(pair[1], Method)
}


@pytest.mark.parametrize("name", METHODS)
def test_what_0_3_stored_did_nothing_about_outliers(name: str) -> None:
    """It had the names of today, and said nothing of that."""
    stored, value = METHODS[name]
    assert read(stored | {"__type": f"ax_costaware.{type(value).__name__}"}) == value
    assert type(value).winsorize


@pytest.mark.parametrize("name", ["QueryNode", "CellNode"])
@pytest.mark.parametrize("method", METHODS)
def test_nodes_of_the_model_of_earlier_releases(name: str, method: str) -> None:
    """The method is there, by the name of today."""
    stored, value = METHODS[method]
    node = read({"__type": name, "settings": stored, "name": "model"})
    assert type(node) is ModelNode
    assert (node.method, node.name, node.surrogate_spec) == (value, "model", None)
    assert type(round_trip(node)) is ModelNode


@pytest.mark.parametrize(
    ("name", "stored", "design"),
    [
        ("InitialQueryNode", {"count": 3, "seed": 7}, (3, 7, False, True)),
        ("InitialCellNode", {"count": 3}, (3, 0, False, True)),
        (
            "InitialControlSetNode",
            {"settings": METHODS["ControlSetSettings"][0]},
            (4, 0, True, True),
        ),
        ("InitialGittinsNode", {"settings": METHODS["GittinsSettings"][0]}, (4, 0, True, True)),
        # A job that is tuned while it runs always needs values.
        (
            "InitialFeedbackNode",
            {"settings": METHODS["CostlyFeedbackSettings"][0] | {"seed": 7}},
            (4, 7, True, False),
        ),
    ],
)
def test_nodes_of_the_initial_design_of_earlier_releases(
    name: str, stored: dict[str, Any], design: tuple[int, int, bool, bool]
) -> None:
    """They draw, hand over and wait as they did."""
    node = read({"__type": name, **stored, "name": "first", "next_node": "second"})
    assert type(node) is InitialNode
    count, seed, deduplicate, waits = design
    assert design_of(node) == (count, seed, "first", "second", deduplicate, waits)
    assert design_of(round_trip(node)) == design_of(node)


@pytest.mark.parametrize("name", ["AffordableBatch", "AffordableTrials"])
@pytest.mark.parametrize("initial", [True, False])
def test_criteria_of_earlier_releases(name: str, initial: bool) -> None:
    """Both are one."""
    stored, value = METHODS["GittinsSettings"]
    limit = read({"__type": name, "settings": stored, "initial": initial})
    assert type(limit) is BatchLimit
    assert (limit.settings, limit.initial) == (value, initial)


def test_transform_of_earlier_releases() -> None:
    """It hid the control set only."""
    assert read({"__type": "Type[Transform]", "transform_type": "HideControlSet"}) is HideParameters


def test_no_name_of_earlier_releases_is_forgotten() -> None:
    """Each one that is registered has a test above."""
    # Those of today are no earlier names: only a setting of each is new.
    today = {type(value).__name__ for _, value in METHODS.values()}
    assert EARLIER.keys() == earlier_releases._VALUE_OBJECTS.keys() - today
    initial = {"Query", "Cell", "ControlSet", "Gittins", "Feedback"}
    nodes = {"QueryNode", "CellNode"} | {f"Initial{name}Node" for name in initial}
    assert nodes == earlier_releases._NODES.keys()
