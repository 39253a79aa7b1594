"""Every class that a stored experiment holds survives the way to JSON and back."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ax.exceptions.core import UserInputError
from ax.exceptions.storage import JSONEncodeError
from ax.generation_strategy.transition_criterion import MinTrials
from ax.generators.torch.botorch_modular.kernels import ScaleMaternKernel
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json
from ax.storage.json_store.encoders import botorch_modular_to_dict
from ax.storage.json_store.registry import (
    CORE_CLASS_DECODER_REGISTRY,
    CORE_CLASS_ENCODER_REGISTRY,
    CORE_DECODER_REGISTRY,
    CORE_ENCODER_REGISTRY,
)

from ax_costaware import (
    AffineCost,
    BatchCost,
    BernoulliRule,
    Budget,
    BudgetExhausted,
    CompactDomainBeta,
    ConstantCost,
    ControlSet,
    CostAwareNode,
    Discrete,
    Empirical,
    EpsilonSchedule,
    ExploreThenCommit,
    FiniteDomainBeta,
    FixedHyperparameters,
    FullFeedback,
    GaussianCopula,
    GittinsDecay,
    GittinsStop,
    GittinsStoppingStrategy,
    ImprovementPerCostStop,
    JointEmpirical,
    LargestValuePerCost,
    LCBUCBRule,
    Learned,
    LinearSwitch,
    LogarithmicBeta,
    MeasurementRule,
    MixedRule,
    NonlinearConstraint,
    ProductCost,
    StandardizedPrice,
    SwitchingCost,
    TableCost,
    TableSwitch,
    TheoreticalBeta,
    TruncatedNormal,
    Uniform,
    UnknownCosts,
)
from ax_costaware.acquisition import (
    ExpectedUpperConfidenceBound,
    LogExpectedImprovementPerCost,
    PandoraBoxGittinsIndex,
    PartialQueryLogExpectedImprovement,
)
from ax_costaware.core.method import Method
from ax_costaware.costs import Cost
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.cost_aware import CostAware, Gittins
from ax_costaware.methods.costly_feedback import CostlyFeedback
from ax_costaware.methods.costly_feedback.rules import FeedbackRule, MeasurementChoice, Prospect
from ax_costaware.methods.fidelity import MultiFidelity
from ax_costaware.models import TimeVaryingGP
from ax_costaware.models.fixed_hyperparameters import FixedHyperparameterGP, FixedTimeVaryingGP
from ax_costaware.space import AtMost, Candidates, Descriptors
from tests.ax.feedback_toy import make_client as make_feedback_client
from tests.ax.gittins_toy import make_client as make_gittins_client
from tests.ax.toy import CONTROL_SETS, MARGINALS, make_client

SETTINGS = ControlSets(
    control_sets=CONTROL_SETS,
    marginals={**MARGINALS, "x2": Discrete((True, False), (0.25, 0.75))},
    budget=7,
    rule=EpsilonSchedule.polynomial(1.0, 0.5),
    beta=TheoreticalBeta(norm_bound=1.0, noise_std=0.1),
    initial_control_sets=("x1", "x1+x2"),
    initial_design="uniform",
    affordable_only=False,
)
GITTINS = CostAware(
    AffineCost({"x1": 1e-12, "x2": 0.1}, fixed=0.3), budget=7, stop=ImprovementPerCostStop(0.5)
)
FEEDBACK = CostlyFeedback(
    MixedRule(
        MeasurementRule(0.8, "local_optima_only", joint=False, bandwidth=0.1),
        *(0.1, 0.9),
        reach_upper=False,
    ),
    beta=FiniteDomainBeta(1000, 0.1),
    cost=0.1,
    budget=7,
    time="hours",
)
TABLE = TableCost("size", {"S": 0.1, "L": 0.30000000000000004})
VALUES = [
    AffineCost({"a": 0.1, "b": -2}, fixed=3.0),
    ConstantCost(0.1),
    ProductCost({"a": 0.1, "b": -2}, scale=0.30000000000000004),
    SwitchingCost({"a": 0.1, "b": 0.30000000000000004}),
    LinearSwitch(0.1, 1 / 3, unset=0.2),
    TableSwitch({("a", "b"): 1 / 3, ("b", "a"): 2.0}),
    BatchCost(20, "hours"),
    Budget("hours", 1 / 3, TABLE),
    SwitchingCost(
        {
            "a": LinearSwitch(0.1, 0.30000000000000004, unset=2),
            "b": TableSwitch({("x", "y"): 0.1, ("y", "x"): 0.30000000000000004}),
            "c": TableSwitch({True: {False: 1.0}, False: {True: 0.0}}, unset=0.1),
        },
        0.1,
    ),
    CostAware(SwitchingCost({"x1": 5}, TableCost("x2", {True: 1.0, False: 2.0})), budget=7),
    TABLE,
    TABLE + AffineCost({"x1": 0.1}) + ProductCost({"x2": 2}) + 0.30000000000000004,
    TableCost(1, {1: 0.0, 2.5: 0.1}) + AffineCost({0: 0.1}),
    CostAware(SwitchingCost({"x1": 5}, TABLE + AffineCost({"x1": 0.1}))),
    CostAware(BatchCost(20, SwitchingCost({"x1": 5}, "hours")), shared=["x1"], fill=True),
    CostAware(
        cost={"dollars": TABLE, "hours": "hours"},  # type: ignore[arg-type]
        budget={"dollars": 5, "hours": 0.30000000000000004},  # type: ignore[arg-type]
    ),
    TableCost(2, {1: 1.0, 2.5: 2.0}),
    BernoulliRule(0.1),
    MeasurementRule(0.1 + 0.2),
    LCBUCBRule("local_optima"),
    MixedRule(LCBUCBRule(), 0.1, 0.30000000000000004),
    FullFeedback(),
    LogarithmicBeta(0.1, 1.1),
    CompactDomainBeta(2, 0.1, 0.30000000000000004),
    FEEDBACK,
    CostlyFeedback(cost="seconds", cost_model="linear"),
    GittinsDecay(0.2, 3.0, per_mean_cost=False),
    StandardizedPrice(0.30000000000000004),
    CostAware(2, lmbda=StandardizedPrice(0.1)),
    NonlinearConstraint("a ** 0.5 * b <= 0.30000000000000004"),
    CostAware(2, input_constraints=[NonlinearConstraint("x1 * x2 <= 0.1")]),
    GittinsStop(1e-9),
    ImprovementPerCostStop(0.1),
    GITTINS,
    Gittins(TABLE, decay=GittinsDecay(), stop=False, num_restarts=3),
    ControlSet(["a", "b"], cost=0.1, name="both"),
    ControlSet(["a"], fixed_cost=0.1, name="a kind"),
    UnknownCosts.published(500, worst_value=-1, decays_with_budget=True),
    UnknownCosts(0.30000000000000004, halve_every=3, cost_range=0.1, worst_value=-1, rounds=2),
    Uniform(0, 1),
    TruncatedNormal(0.5, 0.2, 0, 1),
    Discrete(("red", "green"), (0.1, 0.9)),
    Empirical((0.1, 0.30000000000000004, 2.0)),
    Learned(Discrete(("red", "green")), 0.1, ("red", "red")),
    Learned(Uniform(0, 1), 3, (0.30000000000000004, 0.1)),
    JointEmpirical({"a": [0.1, 2.0] * 5, "b": [1, 3] * 5, "c": ["x", "y"] * 5, "d": [True] * 10}),
    GaussianCopula({"a": Learned(Uniform(0, 1)), "b": Empirical((0.1, 2.0))}, ((1, 0.1), (0.1, 1))),
    ExploreThenCommit(3),
    ExploreThenCommit(3, by="size"),
    ExploreThenCommit.adaptive(2.5),
    EpsilonSchedule.polynomial(1.0, 0.5),
    LargestValuePerCost(),
    TheoreticalBeta(norm_bound=1.0, noise_std=0.1, theorem="4.4"),
    FixedHyperparameters((0.1, 0.2), 2.0, 1e-6, -1.0),
    SETTINGS,
    Candidates({"a": [1, 2], "b": [0.1, 0.30000000000000004], "m": [3, 4]}, "b", {"a": ["m"]}),
    AtMost(1, {"a": 0, "k": "none"}),
    Descriptors("k", {"k": ["x", "y"], "mass": [0.1, 2]}),
    CostAware("b", candidates=Candidates({"a": ["x", "y"], "b": [0.1, 2.0]}, cost="b")),
    CostAware(1, descriptors=[Descriptors("k", {"k": [True, False], "mass": [0.1, 2]})]),
    MultiFidelity(2.5, target={"epochs": 100, "data": "all"}, budget=7.0, lmbda=0.1),
]


def round_trip(value: Any) -> Any:
    """Through Ax's encoder, a JSON text, and Ax's decoder, with the registries its stores use."""
    return read(object_to_json(value, CORE_ENCODER_REGISTRY, CORE_CLASS_ENCODER_REGISTRY))


def read(stored: object) -> Any:
    """What Ax's decoder, with the same registries, makes of something stored as a JSON text."""
    text = json.dumps(stored, allow_nan=False)
    return object_from_json(json.loads(text), CORE_DECODER_REGISTRY, CORE_CLASS_DECODER_REGISTRY)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_value_objects(value: object) -> None:
    """Equal, of the same type, and printed alike afterwards."""
    found = round_trip(value)
    assert type(found) is type(value)
    assert found == value
    assert repr(found) == repr(value)


OWN = SurrogateSpec(
    model_configs=[
        ModelConfig(botorch_model_class=TimeVaryingGP, covar_module_class=ScaleMaternKernel)
    ]
)


@pytest.mark.parametrize("method", [SETTINGS, GITTINS, FEEDBACK])
@pytest.mark.parametrize("surrogate_spec", [None, FixedHyperparameters((0.1, 0.2)), OWN])
def test_node(method: Method, surrogate_spec: SurrogateSpec | FixedHyperparameters | None) -> None:
    """With all that it was made from."""
    criteria = [BudgetExhausted(transition_to="next"), MinTrials(7, transition_to="next")]
    node = round_trip(CostAwareNode(method, "mine", surrogate_spec, "cpu", False, criteria))
    assert type(node) is CostAwareNode
    assert (node.method, node.name, node.surrogate_spec) == (method, "mine", surrogate_spec)
    assert (node.torch_device, node.count_attached) == ("cpu", False)
    assert node.transition_criteria == criteria
    node = round_trip(CostAwareNode(method))
    assert (node.name, node.surrogate_spec, node.torch_device) == (method.traits.label, None, None)
    assert (node.count_attached, node.transition_criteria) == (True, [])


def test_gittins_stopping_strategy() -> None:
    """It takes what the rule needs along."""
    stopping = GittinsStoppingStrategy(
        TABLE, 0.5, rule=GittinsStop(), surrogate_spec=FixedHyperparameters(0.1), min_trials=7
    )
    found = round_trip(stopping)
    assert isinstance(found, GittinsStoppingStrategy)
    assert found == stopping
    assert found.surrogate_spec == stopping.surrogate_spec == FixedHyperparameters(0.1)
    assert found.min_trials == 7


def test_classes_that_are_stored_by_name() -> None:
    """The models and the acquisition functions."""
    for acquisition in (
        ExpectedUpperConfidenceBound,
        LogExpectedImprovementPerCost,
        PandoraBoxGittinsIndex,
        PartialQueryLogExpectedImprovement,
    ):
        assert round_trip(acquisition) is acquisition
    for stored in (FixedHyperparameterGP, FixedTimeVaryingGP, TimeVaryingGP):
        assert round_trip(stored) is stored
    assert botorch_modular_to_dict(FixedHyperparameterGP)["index"] is not None


@dataclass(frozen=True)
class OwnRule(FeedbackRule):
    """A user's own rule, which nobody registered."""

    def decide(self, prospect: Prospect) -> MeasurementChoice:
        """Never."""
        return MeasurementChoice(False, "it is not asked for")


@dataclass(frozen=True)
class OwnCost(Cost):
    """A user's own cost."""

    parameters = ("x1",)

    def evaluate(self, columns: Any) -> Any:
        """One more than the input."""
        return 1.0 + columns["x1"]


class OwnLaw(JointEmpirical):
    """A user's own joint law."""


LAW = OwnLaw({"x2": [0.1 * i for i in range(10)]})
OTHERS = {name: law for name, law in MARGINALS.items() if name != "x2"}


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: make_feedback_client(rule=OwnRule()), r" rule=OwnRule\(\)"),
        (
            lambda: make_feedback_client(rule=MixedRule(MixedRule(OwnRule(), 0, 1), 0, 1)),
            r" rule\.rule\.rule=OwnRule\(\)",
        ),
        (
            lambda: make_gittins_client(cost=AffineCost({"x2": 2.0}) + OwnCost()),
            r" cost\.terms=OwnCost\(\)",
        ),
        (lambda: make_client(marginals=OTHERS, joint=LAW), "joint=.* class OwnLaw"),
    ],
)
def test_storing_what_nobody_registered_says_how(make: Any, named: str, tmp_path: Path) -> None:
    """It works; saving names the argument, its class, and the way out."""
    client = make()
    client.get_next_trials(max_trials=1)
    with pytest.raises(JSONEncodeError, match=f"{named}.*register_value_object"):
        client.save_to_json_file(str(tmp_path / "toy.json"))


def test_registering_something_else_is_refused() -> None:
    """Only dataclasses are values."""
    from ax_costaware.storage import register_value_object

    with pytest.raises(UserInputError, match="expected a dataclass"):
        register_value_object(int)


def test_numbers_that_json_lacks() -> None:
    """As later versions of Ax write them."""
    stored = {"a": {"__type": "float", "value": "-inf"}, "b": [{"__type": "float", "value": "nan"}]}
    found = read(stored)
    assert found["a"] == -math.inf
    assert math.isnan(found["b"][0])
    cost = {"__type": "ax_costaware.ConstantCost", "value": 2.5}
    assert read(cost).value == 2.5
