"""Settings that go together: the "yes" of ``docs/choosing.md`` that have no test of their own."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json
from ax.storage.json_store.registry import (
    CORE_CLASS_DECODER_REGISTRY,
    CORE_CLASS_ENCODER_REGISTRY,
    CORE_DECODER_REGISTRY,
    CORE_ENCODER_REGISTRY,
)

import ax_costaware as ac
from ax_costaware.core import Decision, Objective, OutcomeConstraint, Simulation
from ax_costaware.core.simulation import Outcome
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.exceptions import InputError
from ax_costaware.laws import GaussianConditional, Uniform
from ax_costaware.methods import (
    ControlSets,
    CostAware,
    CostlyFeedback,
    Gittins,
    IndirectQueries,
    Method,
    MultiFidelity,
    TreeSearch,
)
from ax_costaware.space import (
    AtMost,
    Candidates,
    Choice,
    Descriptors,
    NonlinearConstraint,
    Range,
    Space,
)
from ax_costaware.space.hierarchy import Condition

TESTS = Path(__file__).parents[1]

pytestmark = pytest.mark.usefixtures("short_searches")

X1, X2, KIND = Range("x1", 0, 1), Range("x2", 0, 1), Choice("kind", ("a", "b", "c"))
STEPS, FOLDS = Range("steps", 1, 8, is_integer=True), Range("folds", 1, 4, is_integer=True)
SPACE = Space.of([X1, X2, KIND])
WITH_STEPS, WITH_FOLDS = (Space.of([X1, X2, KIND, more]) for more in (STEPS, FOLDS))
TREE = Space.of([X1, X2, KIND, FOLDS], conditions={"x2": Condition("kind", ("a", "b"))})
SETS = Space.of([X1, X2, Choice(CONTROL_SET, ("x1", "x1+x2"))], hidden=[CONTROL_SET])
LINE = Space.of([X1])
CELLS = Space.of([Range("level", 0, 3, is_integer=True), X1])

FEW: dict[str, Any] = {"num_restarts": 2, "raw_samples": 32, "initial_trials": 2, "budget": 60.0}
VALUES = ac.AffineCost({"x1": 1.0}, fixed=0.5)
KINDS = ac.TableCost("kind", {"a": 0.1, "b": 0.5, "c": 1.0})
SWITCH = ac.SwitchingCost({"kind": 0.3, "x2": ac.LinearSwitch(0.1, 0.2)}, VALUES + KINDS)
LEARNED = replace(SWITCH, base="hours")
FLAT = ac.SwitchingCost({"x1": 0.3, "kind": 0.2}, "hours")
OVEN = ac.SwitchingCost({"x1": ac.LinearSwitch(0.1, 0.2, unset=0.1)})
TABLE = Candidates(
    {
        "x1": [i * 7 % 20 / 20 for i in range(20)],
        "x2": [i / 20 for i in range(20)],
        "kind": list("abcbc" * 4),
        "price": [1.0 + i % 3 for i in range(20)],
    },
    cost="price",
)
SIZES = Descriptors("kind", {"kind": list("abc"), "size": [0.0, 1.0, 3.0]})
PRODUCT = NonlinearConstraint("x1 * x2 <= 0.3")
AT_PRICE = ac.StandardizedPrice(1e-3)
TWO = {"objectives": (Objective("gain"), Objective("waste", minimize=True))}
BOUNDED = {"constraints": [OutcomeConstraint("waste", upper=0.5)]}


def fidelity(cost: Any, **settings: Any) -> MultiFidelity:
    return MultiFidelity(cost, target={"steps": 8}, **settings, **FEW)


def sets(*costs: Any, **settings: Any) -> ControlSets:
    found = [ac.ControlSet(n, c) for n, c in zip((["x1"], ["x1", "x2"]), costs, strict=True)]
    return ControlSets(found, {"x2": Uniform(0, 1)}, num_nodes=16, **settings, **FEW)


def queries(cost: Any, **settings: Any) -> IndirectQueries:
    law = GaussianConditional([[1.0]], [0.0], covariance=0.01, outside="clip")
    return IndirectQueries((Range("z", 0, 1),), law, cost=cost, num_samples=8, **settings, **FEW)


def tree(costs: Any, **settings: Any) -> TreeSearch:
    return TreeSearch(
        (X1,), 3, costs=costs, num_samples=8, initial_trials=2, budget=60.0, **settings
    )


# By what is combined: the method, its space, and other arguments of the simulation.
CASES: dict[str, tuple[Method, Space, dict[str, Any]]] = {
    # Costly trials.
    "ei, learned, at most": (
        CostAware(LEARNED, at_most=[AtMost(1, ["x1", "x2"])], lmbda=AT_PRICE, **FEW), SPACE, {},
    ),
    "ei, switching, nonlinear, bound": (
        CostAware(SWITCH, input_constraints=[PRODUCT], **FEW), SPACE, BOUNDED,
    ),
    "ei, switching, descriptors": (CostAware(SWITCH, descriptors=[SIZES], **FEW), SPACE, {}),
    "ei, switching, table": (
        CostAware(ac.SwitchingCost({"kind": 0.3}, "price"), candidates=TABLE, **FEW), SPACE, {},
    ),
    "ei, learned, hierarchy": (CostAware(FLAT, lmbda=0.001, **FEW), TREE, BOUNDED),
    "ei, function, hierarchy": (
        CostAware(lambda row: 1.0 + (row["kind"] != "c") * row["x2"], **FEW), TREE, {},
    ),
    "gittins, hierarchy, nonlinear": (
        Gittins(FLAT, input_constraints=[PRODUCT], **FEW),
        TREE,
        {},
    ),
    "gittins, learned, nonlinear": (
        Gittins(LEARNED, input_constraints=[PRODUCT], **FEW), SPACE, BOUNDED,
    ),
    "gittins, switching, table": (Gittins(SWITCH, candidates=TABLE, **FEW), SPACE, {}),
    "gittins, price, at most, descriptors": (
        Gittins(
            SWITCH, descriptors=[SIZES], at_most=[AtMost(1, ["x1", "x2"])], lmbda=AT_PRICE, **FEW
        ),
        SPACE,
        {},
    ),
    # Repeats.
    "repeats, switching, table": (
        CostAware(SWITCH, repeats="folds", candidates=TABLE, **FEW), WITH_FOLDS, {},
    ),
    "repeats, learned, at most, price": (
        CostAware(
            LEARNED, repeats="folds", at_most=[AtMost(1, ["x1", "x2"])], lmbda=0.001, **FEW
        ),
        WITH_FOLDS,
        {},
    ),
    "repeats, nonlinear, descriptors, bound": (
        CostAware(
            VALUES, repeats="folds", descriptors=[SIZES], input_constraints=[PRODUCT], **FEW
        ),
        WITH_FOLDS,
        BOUNDED,
    ),
    "repeats, switching, hierarchy": (CostAware(FLAT, repeats="folds", **FEW), TREE, {}),
    # Several objectives.
    "front, learned, at most": (
        CostAware(LEARNED, at_most=[AtMost(1, ["x1", "x2"])], **FEW), SPACE, TWO,
    ),
    "front, switching, table": (CostAware(SWITCH, candidates=TABLE, **FEW), SPACE, TWO),
    "front, nonlinear, descriptors": (
        CostAware(SWITCH, descriptors=[SIZES], input_constraints=[PRODUCT], **FEW), SPACE, TWO,
    ),
    "front, learned, hierarchy": (CostAware(FLAT, **FEW), TREE, TWO),
    "front of the cost, learned, table": (
        CostAware(LEARNED, front="cost", candidates=TABLE, **FEW), SPACE, {},
    ),
    "random weights, learned": (
        CostAware(LEARNED, acquisition="parego_per_cost", **FEW), SPACE, TWO,
    ),
    "index of random weights, table": (Gittins(SWITCH, candidates=TABLE, **FEW), SPACE, TWO),
    # Fidelities.
    "fidelity, learned, at most, price": (
        fidelity(LEARNED, at_most=[AtMost(1, ["x1", "x2"])], lmbda=AT_PRICE), WITH_STEPS, {},
    ),
    "fidelity, switching, table, bound": (fidelity(SWITCH, candidates=TABLE), WITH_STEPS, BOUNDED),
    "fidelity, nonlinear, descriptors": (
        fidelity(SWITCH, descriptors=[SIZES], input_constraints=[PRODUCT]), WITH_STEPS, {},
    ),
    "resumed, learned, switching": (fidelity(LEARNED, resumes=True), WITH_STEPS, {}),
    "resumed, table": (fidelity(SWITCH, resumes=True, candidates=TABLE), WITH_STEPS, {}),
    # Control sets.
    "sets, declared beside learned, switching": (sets(VALUES, None, switching_cost=OVEN), SETS, {}),
    "sets, values, switching, price, bound": (
        sets(VALUES, 2.0, switching_cost=OVEN, lmbda=0.001), SETS, BOUNDED,
    ),
    "sets, learned, switching, bound": (sets(None, None, switching_cost=OVEN), SETS, BOUNDED),
    # Averages.
    "queries, values, price, bound": (queries(VALUES, lmbda=0.001), LINE, BOUNDED),
    "queries, learned, switching, price": (
        queries(replace(OVEN, base="hours"), lmbda=0.001), LINE, {},
    ),
    "queries, set-up": (queries(ac.BatchCost(2.0, VALUES)), LINE, {}),
    "queries, function": (queries(lambda row: 1.0 + row["x1"]), LINE, {}),
    "tree, levels, price, bound": (tree([1, 2, 3, 4], lmbda=0.001), CELLS, BOUNDED),
    "tree, values": (tree(ac.AffineCost({"level": 1.0, "x1": 0.5}, fixed=1.0)), CELLS, {}),
    # Measurements.
    "feedback, values, bound": (CostlyFeedback(cost=VALUES + KINDS, **FEW), SPACE, BOUNDED),
    "feedback, learned, bound": (CostlyFeedback(cost="hours", **FEW), SPACE, BOUNDED),
    "feedback, function": (CostlyFeedback(cost=lambda row: 1.0 + row["x1"], **FEW), SPACE, {}),
}  # fmt: skip


YES: dict[str, list[str | None]] = {
    "cost_aware_strategy": [
        "ei, switching, descriptors",
        "ei, learned, at most",
        "ei, switching, table",
        "ei, learned, at most",
        "repeats, switching, table",
        "front, learned, at most",
        "ei, switching, nonlinear, bound",
        "ei, switching, table",
        "ei, learned, at most",
        "ei, learned, hierarchy",
    ],
    "gittins_strategy": [
        "gittins, switching, table",
        "gittins, learned, nonlinear",
        "gittins, switching, table",
        "gittins, price, at most, descriptors",
        None,
        "index of random weights, table",
        "gittins, learned, nonlinear",
        "gittins, switching, table",
        "gittins, price, at most, descriptors",
        "gittins, hierarchy, nonlinear",
    ],
    "fidelity_strategy": [
        "fidelity, switching, table, bound",
        "fidelity, learned, at most, price",
        "fidelity, switching, table, bound",
        "fidelity, learned, at most, price",
        "contract/test_fidelity.py: TestFidelityRepeats",
        None,
        "fidelity, switching, table, bound",
        "fidelity, nonlinear, descriptors",
        "fidelity, nonlinear, descriptors",
        None,
    ],
    "control_set_strategy": [
        "contract/test_control_sets.py: TestCostsOfValues",
        "sets, learned, switching, bound",
        "sets, values, switching, price, bound",
        "sets, values, switching, price, bound",
        None,
        None,
        "sets, learned, switching, bound",
        *[None] * 3,
    ],
    "indirect_query_strategy": [
        "queries, values, price, bound",
        "contract/test_averages.py: TestQueriesOfLearnedCosts",
        "queries, learned, switching, price",
        "queries, values, price, bound",
        None,
        None,
        "queries, values, price, bound",
        *[None] * 3,
    ],
    "resolution_tree_strategy": [
        "tree, values",
        None,
        None,
        "tree, levels, price, bound",
        None,
        None,
        "tree, levels, price, bound",
        *[None] * 3,
    ],
    "costly_feedback_strategy": [
        "contract/test_costly_feedback.py: TestCostlyFeedbackCostsOfValues",
        "contract/test_costly_feedback.py: TestCostlyFeedbackLearnedCosts",
        *[None] * 4,
        "feedback, learned, bound",
        *[None] * 3,
    ],
}
"""For each cell of the table "What goes together" in ``docs/choosing.md`` the case, or the class of
a contract, that backs a "yes"; None for a "no"."""


def test_every_yes_of_the_page_is_backed() -> None:
    page = (TESTS.parent / "docs" / "choosing.md").read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.count("|") == 12]
    said = {name.strip("`"): cells for name, *cells in rows if name.startswith("`")}
    assert {name: ["yes" in cell for cell in cells] for name, cells in said.items()} == {
        name: [backed is not None for backed in row] for name, row in YES.items()
    }
    for backed in {each for row in YES.values() for each in row if each is not None}:
        file, _, contract = backed.partition(": ")
        assert backed in CASES or f"class {contract}(" in (TESTS / file).read_text("utf-8")


def outcome(row: Any, index: int, method: Method) -> Outcome:
    """The outcome of a trial at its inputs, with what the method needs of it."""
    realized = {"x2": 0.618034 * (index + 1) % 1} if row.get(CONTROL_SET) == "x1" else {}
    x1, x2 = row["x1"], {**row, **realized}.get("x2", 0.5)
    kind = {"a": 0.0, "b": 0.2, "c": 0.4}[row.get("kind", "a")]
    value = kind - (x1 - 0.4) ** 2 - (x2 - 0.6) ** 2 - 0.3 / row.get("steps", 1)
    repeats = None
    if method.traits.repeats is not None:
        repeats = [value + 0.1 * math.cos(7 * value + 3 * i) for i in range(row["folds"])]
    costs = method.trial_costs
    is_learned = costs.metric is not None or method.cost_at(row) is None
    cost = 1.0 + x1 + 0.1 * row.get("steps", 0) if is_learned else None
    return Outcome(
        None if repeats else value, cost, realized or None, {"waste": x1**2}, repeats=repeats
    )


@pytest.mark.parametrize("case", CASES)
def test_settings_go_together(case: str) -> None:
    """Two decisions: trials are allowed, and cost what is charged, with any switching cost."""
    method, space, arguments = CASES[case]
    simulation = Simulation(method, space, **arguments)
    method, space = simulation.method, simulation.space
    decisions: list[Decision] = []
    for index in range(4):
        decision = simulation.ask()
        assert isinstance(decision, Decision), decision
        decisions.append(decision)
        assert space.meets(decision.parameters)
        told = outcome(decision.parameters, index, method)
        is_measured = decision.extra.get("measure", True)
        simulation.tell(decision, told if is_measured else Outcome())
    assert [decision.phase for decision in decisions] == ["initial"] * 2 + ["rule"] * 2
    switching = method.trial_costs.switching
    for decision, entry in zip(decisions, simulation.ledger, strict=True):
        declared = method.cost_at(decision.parameters)
        if entry.reported_cost is not None:
            assert entry.charged == entry.reported_cost
        elif "resumes_trial" not in decision.extra and not entry.skipped:
            assert entry.charged == pytest.approx(declared + entry.switching_cost)
            assert decision.expected_cost == pytest.approx(entry.charged)
        if switching is None and not method.trial_costs.setup:
            assert not entry.switching_cost
    state = method.budget_state(simulation.problem())
    assert state.spent == pytest.approx(math.fsum(e.charged for e in simulation.ledger))
    assert space.meets(simulation.recommend().parameters) or method.traits.latent


@pytest.mark.parametrize("case", [case for case in CASES if "function" not in case])
def test_they_are_stored(case: str) -> None:
    method = CASES[case][0]
    stored = object_to_json(method, CORE_ENCODER_REGISTRY, CORE_CLASS_ENCODER_REGISTRY)
    text = json.loads(json.dumps(stored))
    assert object_from_json(text, CORE_DECODER_REGISTRY, CORE_CLASS_DECODER_REGISTRY) == method


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CostlyFeedback(cost=SWITCH), "paid whether or not a trial is measured"),
        (lambda: CostlyFeedback(cost=ac.BatchCost(1.0, 1.0)), "paid whether or not a trial"),
        (lambda: tree(ac.AffineCost({0: 1.0})), "expected names of parameters"),
        (lambda: tree("hours"), "one for each level from 0 to 3"),
        (
            lambda: Simulation(Gittins(1.0, lmbda=AT_PRICE, **FEW), SPACE, **TWO),
            "with a random weight of several objectives",
        ),
        (lambda: Simulation(tree(ac.AffineCost({"z": 1.0})), CELLS), "does not have"),
        (lambda: Simulation(queries(ac.AffineCost({"z": 1.0})), LINE), "does not have"),
        (
            lambda: Simulation(queries(replace(OVEN, base=1.0)), SPACE),
            "the experiment has the parameters",
        ),
    ],
)
def test_what_does_not_go_together(make: Any, message: str) -> None:
    """Before anything is spent, with the reason."""
    with pytest.raises(InputError, match=message):
        make()
