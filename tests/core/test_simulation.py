"""Every method in a plain loop: it runs, charges, stops, repeats, and needs no Ax."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ax_costaware.core import (
    Decision,
    FixedHyperparameters,
    Simulation,
    SpaceExhausted,
    Stop,
    simulate,
)
from ax_costaware.core.account import spent
from ax_costaware.core.history import PastTrial
from ax_costaware.core.simulation import Outcome
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.costs import ControlSet
from ax_costaware.costs.cost import AffineCost
from ax_costaware.exceptions import InputError
from ax_costaware.laws import FiniteConditional, GaussianConditional
from ax_costaware.methods import (
    ControlSets,
    CostAware,
    CostlyFeedback,
    EpsilonSchedule,
    IndirectQueries,
    Method,
    TreeSearch,
)
from ax_costaware.methods.costly_feedback.rules import MeasurementRule
from ax_costaware.methods.resolution_tree import LEVEL
from ax_costaware.space import Choice, Fixed, Range, Space
from ax_costaware.space.parameters import Row
from tests.fresh import FreshProcess
from tests.methods.control_sets import toy
from tests.repeats import mostly_slow
from tests.short_searches import full_searches

pytestmark = pytest.mark.usefixtures("short_searches")

SQUARE = Space.of([Range("x1", 0, 1), Range("x2", 0, 1)])
MODEL = FixedHyperparameters(lengthscale=0.5, outputscale=0.2, noise_variance=1e-4)
AVERAGES = FixedHyperparameters(lengthscale=0.25, noise_variance=1e-4)
TARGETS = (Range("t1", 0, 10), Range("t2", 0, 10))
FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 32}
PAST = PastTrial(0, {"x1": 0.5, "x2": 0.5}, outcome=1.0, is_observed=True)


def hill(x1: Any, x2: Any) -> Any:
    """A hill of height one on the unit square."""
    return np.exp(-4 * ((x1 - 0.3) ** 2 + (x2 - 0.6) ** 2))


def measured(row: Any, measure: bool) -> Outcome:
    """The hill at a point, where it is to be measured."""
    return Outcome(float(hill(row["x1"], row["x2"])) if measure else None)


def with_cost(row: Any, measure: bool) -> Outcome:
    """The same, with the cost of the measurement."""
    return measured(row, measure)._replace(cost=0.5 + 2.0 * row["x2"] if measure else None)


def cell_mean(row: Any, measure: bool) -> Outcome:
    """The mean of the hill over a cell."""
    steps = np.linspace(-0.5, 0.5, 21) / 2 ** row[LEVEL]
    X, Y = np.meshgrid(row["t1"] / 10 + steps, row["t2"] / 10 + steps)
    return Outcome(float(hill(X, Y).mean()))


@dataclass(frozen=True)
class Case:
    """A method on a function."""

    method: Method
    """The method, with a budget that a run uses up."""

    space: Space
    """The search space."""

    make_run: Callable[[], Any]
    """Makes the function."""

    model: FixedHyperparameters | None
    """What to model it with."""

    best: dict[str, float]
    """Where it is best, and how near to that the recommendation has to come: ``within``."""


CASES = {
    "gittins": Case(
        CostAware(
            AffineCost({"x2": 2.0}, fixed=0.5), budget=14.0, stop=False, initial_trials=3, **FAST
        ),
        SQUARE,
        lambda: measured,
        MODEL,
        {"x1": 0.3, "x2": 0.6, "within": 0.15},
    ),
    "gittins, learned costs": Case(
        CostAware("hours", budget=14.0, stop=False, initial_trials=3, cost_model="linear", **FAST),
        SQUARE,
        lambda: with_cost,
        MODEL,
        {"x1": 0.3, "x2": 0.6, "within": 0.15},
    ),
    "costly feedback": Case(
        CostlyFeedback(
            rule=MeasurementRule(0.95), budget=8.0, forgetting=0.05, initial_trials=4, **FAST
        ),
        SQUARE,
        lambda: measured,
        MODEL,
        {"x1": 0.3, "x2": 0.6, "within": 0.2},
    ),
    "costly feedback, learned costs": Case(
        CostlyFeedback(
            cost="hours",
            rule=MeasurementRule(0.95),
            budget=14.0,
            forgetting=0.05,
            initial_trials=4,
            **FAST,
        ),
        SQUARE,
        lambda: with_cost,
        MODEL,
        {"x1": 0.3, "x2": 0.6, "within": 0.2},
    ),
    "indirect queries": Case(
        IndirectQueries(
            target_parameters=TARGETS,
            conditional=GaussianConditional(((10, 0), (0, 10)), covariance=0.25),
            hyperparameters=AVERAGES,
            cost=AffineCost({"x1": 1.0}, fixed=1.0),
            budget=12.0,
            initial_trials=3,
            num_samples=8,
            **FAST,
        ),
        Space.of([Range("x1", 0.2, 0.8), Range("x2", 0.2, 0.8)]),
        lambda: measured,
        None,
        {"t1": 3.0, "t2": 6.0, "within": 1.0},
    ),
    "tree search": Case(
        TreeSearch(
            target_parameters=TARGETS,
            max_level=3,
            hyperparameters=AVERAGES,
            budget=15.0,
            num_samples=8,
        ),
        Space.of([Range(LEVEL, 0, 3, is_integer=True), *TARGETS]),
        lambda: cell_mean,
        None,
        {"t1": 3.0, "t2": 6.0, "within": 1.5},
    ),
    "control sets": Case(
        ControlSets(
            toy.CONTROL_SETS,
            toy.MARGINALS,
            rule=EpsilonSchedule(0.1),
            budget=4.0,
            initial_trials=3,
            **toy.FAST,
        ),
        toy.SPACE,
        toy.Plant,
        toy.MODEL,
        {"x1": 0.3, "within": 0.15},
    ),
}


def run_of(case: Case, count: int = 30, **changes: Any) -> Simulation:
    """A run."""
    method = replace(case.method, **changes)  # type: ignore[type-var]
    return simulate(method, case.space, case.make_run(), count, hyperparameters=case.model)


@pytest.fixture(scope="module", params=list(CASES))
def ran(request: pytest.FixtureRequest) -> tuple[Case, Simulation]:
    """A run of every method, until its budget is used up or there were thirty trials."""
    case = CASES[request.param]
    return case, run_of(case)


def test_a_run_is_charged_and_stays_within_the_budget(ran: tuple[Case, Simulation]) -> None:
    case, simulation = ran
    budget, entries = case.method.budget, simulation.ledger
    assert [entry.trial_index for entry in entries] == list(range(len(simulation.trials)))
    learned = case.method.trial_costs.metric is not None
    assert 0.5 * budget < spent(entries) <= budget * (1.0 + 0.3 * learned) + 1e-9
    for entry, trial in zip(entries, simulation.trials, strict=True):
        assert list(trial.parameters) == list(case.space.order)
        assert case.space.meets(trial.parameters)
        assert entry.initial == (trial.index < simulation.method.initial_trials)
        if learned and trial.is_observed:
            assert entry.charged == trial.reported_cost == 0.5 + 2.0 * trial.parameters["x2"]  # type: ignore[operator]
        elif learned:
            assert (entry.charged, entry.expected_cost, entry.skipped) == (0.0, 0.0, True)
        else:
            cost = case.method.cost_at(trial.parameters)
            assert entry.charged == (cost if trial.is_observed else 0.0)
            assert entry.expected_cost == entry.charged


def test_what_to_deploy(ran: tuple[Case, Simulation]) -> None:
    case, simulation = ran
    best = simulation.recommend()
    within = case.best["within"]
    found = {name: best.parameters[name] for name in case.best if name != "within"}
    assert found == pytest.approx({n: case.best[n] for n in found}, abs=within)
    assert best.standard_deviation >= 0.0
    assert simulation.recommend() == best


EXPENSIVE = ["gittins, learned costs", "costly feedback, learned costs", "indirect queries"]
"""Cases whose decisions take longest."""


@pytest.mark.parametrize(
    "name", mostly_slow(CASES, ["gittins", "costly feedback", "tree search", "control sets"])
)
def test_a_region_that_fails_is_left(name: str) -> None:
    """Where the best of all always fails, no point is tried twice, and most trials succeed."""
    case = CASES[name]
    run = case.make_run()

    def failing(row: Any, measure: bool) -> Outcome:
        outcome: Outcome = run(row, measure)
        place = row["t1"] / 10 if LEVEL in row else row["x1"]
        bad = place < 0.4 and row.get(LEVEL, 1) > 0
        return outcome._replace(value=None, failed=True) if bad else outcome

    method = replace(case.method, budget=40.0)  # type: ignore[type-var]
    # A short search leaves the region late with averages.
    with full_searches() if name == "indirect queries" else nullcontext():
        simulation = simulate(method, case.space, failing, 11, hyperparameters=case.model)
    assert len(simulation.trials) == 11
    later = [t for t in simulation.trials[3:] if t.has_failed]
    rows = [repr(trial.parameters) for trial in later]
    assert len(set(rows)) == len(rows)
    assert 1 <= len(rows) <= 4, rows


@pytest.mark.parametrize("minimize", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_a_trial_that_went_wrong_does_not_set_the_scale(name: str, minimize: bool) -> None:
    """The model is told that it was bad, and still tells the others apart."""
    case, sign = CASES[name], -1.0 if minimize else 1.0
    changes: dict[str, Any] = {"initial_trials": 9, "budget": 1e3}
    if hasattr(case.method, "hyperparameters"):
        changes |= {"hyperparameters": None}

    def spread(wanted: bool) -> float:
        """How far the worst is from the others, in the span of these, as the model sees it."""
        method: Any = replace(case.method, winsorize=wanted, **changes)
        simulation, run = Simulation(method, case.space, minimize=minimize), case.make_run()
        for i in range(9):
            decision = simulation.ask()
            found = run(decision.parameters, True)
            value = -1e6 if i == 4 else found.value
            simulation.tell(decision, found._replace(value=sign * value))
        model: Any = simulation.problem().model
        worst, *others = sorted(model.train_targets.tolist())
        return float((others[0] - worst) / (others[-1] - others[0]))

    assert spread(True) < 11.0
    assert spread(False) > 1e4
    given: Any = replace(case.method, winsorize=True)
    assert not Simulation(given, case.space, hyperparameters=case.model).method.winsorize


def test_a_design_of_more_trials_than_there_are_points() -> None:
    """A run of points, which are not tried twice, ends; queries may be asked again."""
    space = Space.of([Choice("soil", ("sand", "clay", "peat"))])

    def length(row: Any, measure: bool) -> Outcome:
        return Outcome(float(ord(row["soil"][0])))

    simulation = simulate(CostAware(1.0, initial_trials=4), space, length, 9)
    assert {trial.parameters["soil"] for trial in simulation.trials} == {"sand", "clay", "peat"}
    assert len(simulation.trials) == 3
    stop = simulation.ask()
    assert isinstance(stop, Stop)
    assert SpaceExhausted.REASON in stop.reason
    assert "Deploy" in stop.reason
    noisy = FixedHyperparameters(lengthscale=1.0, noise_variance=100.0)
    method = CostAware(1.0, budget=9.0, initial_trials=4)
    trials = simulate(method, space, length, 12, hyperparameters=noisy).trials
    assert len(trials) == 9, "much noise is averaged out"
    assert {trial.parameters["soil"] for trial in trials[:3]} == {"sand", "clay", "peat"}
    law = FiniteConditional(((0.5, 0.5, 0.0), (0.0, 0.5, 0.5)))
    method = IndirectQueries(
        target_parameters=(Choice("arm", ("a", "b", "c")),), conditional=law, initial_trials=4
    )
    queries = Space.of([Range("policy", 0, 1, is_integer=True)])
    assert len(simulate(method, queries, lambda x, measure: Outcome(1.0), 4).trials) == 4


def test_what_does_not_fit_is_refused_at_once() -> None:
    with pytest.raises(InputError, match=r"reads \['moon'\]"):
        Simulation(CostAware(AffineCost({"moon": 1.0})), SQUARE)
    with pytest.raises(InputError, match="forgetting=None"):
        Simulation(CostlyFeedback(), SQUARE, hyperparameters=MODEL)
    three = FixedHyperparameters((0.1, 0.2, 0.3))
    for method in (CostAware("hours"), CostlyFeedback(forgetting=0.1)):
        with pytest.raises(InputError, match=r"lengthscale=\[0.1, 0.2, 0.3\] has 3"):
            Simulation(method, SQUARE, hyperparameters=three)
    simulation = Simulation(CostAware("hours"), SQUARE, hyperparameters=MODEL)
    decision = simulation.ask()
    assert isinstance(decision, Decision)
    simulation.tell(decision, Outcome(1.0))
    with pytest.raises(InputError, match=r"trials \[0\] were completed without a cost"):
        simulation.ask()


def run_without_ax() -> list[str]:
    """Import the methods anew where Ax cannot be imported, and run one; modules of Ax then."""
    for name in list(sys.modules):
        if name.partition(".")[0] in {"ax", "ax_costaware"}:
            del sys.modules[name]
    sys.modules["ax"] = None  # type: ignore[assignment]
    package = ModuleType("ax_costaware")
    package.__path__ = [str(Path(__file__).parents[2] / "ax_costaware")]
    sys.modules["ax_costaware"] = package
    methods: Any = import_module("ax_costaware.methods")
    core: Any = import_module("ax_costaware.core")
    space: Any = import_module("ax_costaware.space")
    assert methods.CostAware is not CostAware
    simulation = core.simulate(
        methods.CostAware(
            import_module("ax_costaware.costs.cost").AffineCost({"x2": 2.0}, fixed=0.5),
            budget=14.0,
            initial_trials=3,
            **FAST,
        ),
        space.Space.of([space.Range("x1", 0, 1), space.Range("x2", 0, 1)]),
        lambda x, measure: import_module("ax_costaware.core.simulation").Outcome(
            -((x["x1"] - 0.3) ** 2) - (x["x2"] - 0.6) ** 2
        ),
        6,
        hyperparameters=core.FixedHyperparameters(0.5, 0.2),
    )
    assert len(simulation.trials) == 6
    assert simulation.recommend().mean > -0.1
    return [
        name
        for name, module in sys.modules.items()
        if name.startswith("ax.") or (name == "ax" and module is not None)
    ]


@pytest.mark.usefixtures("full_searches")
def test_without_ax(fresh_process: FreshProcess) -> None:
    """The methods and all below them work where Ax cannot be imported."""
    assert fresh_process.call("tests.core.test_simulation:run_without_ax") == []


@pytest.mark.parametrize(
    ("outcome", "name"),
    [
        (Outcome(float("nan")), "value=nan"),
        (Outcome(1e308), r"value=1e\+308"),
        (Outcome(1.0, metrics={"heat": -1e101}), r"metrics\['heat'\]=-1e\+101"),
        (Outcome(1.0, metrics={"heat": float("inf")}), r"metrics\['heat'\]=inf"),
        (Outcome(1.0, metrics=[1.0]), "metrics="),  # type: ignore[arg-type]
        (Outcome(1.0, cost=-5.0), "cost=-5"),
        (Outcome(1.0, cost=float("nan")), "cost=nan"),
        (Outcome(1.0, curve={5: float("nan")}), r"curve\[5.0\]=nan"),
        (Outcome(1.0, curve={"last": 1.0}), "curve='last'"),  # type: ignore[dict-item]
        (Outcome(1.0, realized={"x3": 1.0}), "realized='x3'"),
        (Outcome(1.0, realized={"x2": float("nan")}), r"realized\['x2'\]=nan"),
        (Outcome(1.0, realized={"x2": 1e200}), r"realized\['x2'\]=1e\+200"),
        (Outcome(1.0, realized={"x1": 1.0}), r"realized\['x1'\]=1.0"),
        (1.0, "outcome=1.0"),
    ],
)
def test_an_outcome_that_is_none_is_refused_before_it_is_recorded(outcome: Any, name: str) -> None:
    space = Space.of([Range("x1", 0.1, 0.9, logit_scale=True), Range("x2", 0, 1)])
    simulation = Simulation(CostAware(1.0, budget=20), space, hyperparameters=MODEL)
    decision = simulation.ask()
    assert isinstance(decision, Decision)
    with pytest.raises(InputError, match=name):
        simulation.tell(decision, outcome)
    for told in (Stop("enough"), replace(decision, parameters={"x1": 0.5})):
        with pytest.raises(InputError, match=r"decision=Stop|parameters: got"):
            simulation.tell(told, Outcome(1.0))  # type: ignore[arg-type]
    assert not simulation.trials
    assert not simulation.tell(decision, Outcome(1.0, failed=True)).is_observed
    with pytest.raises(InputError, match="no trial has an outcome yet"):
        simulation.recommend()


def test_what_is_simulated_is_checked() -> None:
    method = CostAware(1.0, budget=20)
    with pytest.raises(InputError, match=r"num_trials=2\.5"):
        simulate(method, SQUARE, lambda row, _: pytest.fail(str(row)), 2.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"outcome=0\.5"):
        simulate(method, SQUARE, lambda row, measure: 0.5, 3)  # type: ignore[arg-type, return-value]
    space = Space.of([Range("x1", 0, 1), Range("x2", 0, 1)], [({"x1": 1.0}, -1.0)])
    with pytest.raises(InputError, match="met the parameter constraints"):
        simulate(method, space, measured, 1)


def test_a_cost_under_its_metric_is_refused_before_it_is_recorded() -> None:
    """There is one for the cost: the two would be told apart at the next decision only."""
    simulation = Simulation(CostAware("seconds", budget=20), SQUARE, hyperparameters=MODEL)
    decision = simulation.ask()
    assert isinstance(decision, Decision)
    with pytest.raises(InputError, match="metrics has 'seconds'"):
        simulation.tell(decision, Outcome(1.0, metrics={"seconds": 3.0}))
    assert simulation.tell(decision, Outcome(1.0, 3.0)).metrics == {"seconds": 3.0}


def test_a_space_without_a_choice_is_refused() -> None:
    """Models have no columns then: trials were paid before that showed."""
    for space in (Space.of([]), Space.of([Fixed("x1", 1.0)])):
        with pytest.raises(InputError, match="have one value each"):
            Simulation(CostAware(1.0, budget=20), space)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("method", CostAware, ""),
        ("space", [Range("x1", 0, 1)], ""),
        ("hyperparameters", {"lengthscale": 0.3}, ""),
        ("constraints", ["e <= 5"], ""),
        ("trials", [{"x1": 0.5}], ""),
        ("trials", [replace(PAST, index=5)], "index 5"),
        ("trials", [replace(PAST, is_observed=False)], "is_observed=False"),
        ("trials", [replace(PAST, outcome=None)], "outcome"),
        ("trials", [replace(PAST, reported_cost=-1.0)], "cost"),
        ("trials", [replace(PAST, parameters={"x1": 1.0})], "got {'x1': 1.0}"),
        ("trials", [replace(PAST, realized={"x3": 1.0})], "='x3'"),
    ],
)
def test_fields_of_another_kind(name: str, value: Any, said: str) -> None:
    """Past outcomes that nothing is learned from would be paid again."""
    fields = {"method": CostAware(1.0, budget=9.0), "space": SQUARE, name: value}
    with pytest.raises(InputError, match=rf"(?s)(?=.*{name})(?=.*{said})"):
        Simulation(**fields)


@dataclass(frozen=True)
class HeatedGittins(CostAware):
    """Trials cost more by a field of a user's own."""

    heat: float = 2.0

    def cost_at(self, parameters: Row) -> float:
        return 0.5 + self.heat * float(str(parameters["x2"]))


@dataclass(frozen=True, kw_only=True)
class HeatedQueries(IndirectQueries):
    """Queries cost more by a field of a user's own."""

    heat: float = 1.0

    def cost_at(self, parameters: Row) -> float:
        return 1.0 + self.heat * float(str(parameters["x1"]))


@dataclass(frozen=True)
class HeatedSets(ControlSets):
    """Control sets cost more by what they set."""

    def cost_at(self, parameters: Row) -> float:
        chosen = self.control_set(str(parameters[CONTROL_SET]))
        return 1.0 + sum(2.0 * float(str(parameters[name])) for name in chosen.parameters)


@dataclass(frozen=True, kw_only=True)
class HeatedFeedback(CostlyFeedback):
    """The same of measurements."""

    def cost_at(self, parameters: Row) -> float:
        return 0.5 + 2.0 * float(str(parameters["x2"]))


@dataclass(frozen=True, kw_only=True)
class HeatedTree(TreeSearch):
    """Fine cells cost more."""

    def cost_at(self, parameters: Row) -> float:
        return 0.5 * 2.0 ** float(str(parameters[LEVEL]))


HEATED_SETS = [
    ControlSet(s.parameters, AffineCost(dict.fromkeys(s.parameters, 2.0), fixed=1.0))
    for s in toy.CONTROL_SETS
]

# For each method the class with a cost of its own, and the settings that declare the same.
HEATED: dict[str, tuple[type[Method], dict[str, Any], dict[str, Any]]] = {
    "gittins": (HeatedGittins, {}, {"cost": 1.0}),
    "indirect queries": (HeatedQueries, {}, {"cost": 1.0}),
    "costly feedback": (
        HeatedFeedback,
        {"cost": AffineCost({"x2": 2.0}, fixed=0.5), "budget": 14.0},
        {"cost": 1.0},
    ),
    "tree search": (HeatedTree, {"costs": (0.5, 1.0, 2.0, 4.0)}, {"costs": None}),
    "control sets": (
        HeatedSets,
        {"control_sets": HEATED_SETS, "rule": None, "budget": 20.0},
        {"control_sets": toy.CONTROL_SETS},
    ),
}


@pytest.mark.parametrize("name", HEATED)
def test_the_cost_of_a_subclass_is_searched_by_recorded_and_charged(name: str) -> None:
    """As the same cost that is declared, but for differences in place of gradients."""
    own_class, same, other = HEATED[name]
    case = CASES[name]
    case = replace(case, method=replace(case.method, **same))  # type: ignore[type-var]
    settings = {f.name: getattr(case.method, f.name) for f in fields(case.method)}
    own: Any = own_class(**{**settings, **other})
    expected, found = run_of(case, 8), run_of(replace(case, method=own), 8)
    assert len(found.trials) == len(expected.trials) > own.initial_trials
    for trial, like in zip(found.trials, expected.trials, strict=True):
        assert trial.parameters == pytest.approx(like.parameters, abs=0.02)
        costs = trial.record["expected_cost"], like.record["expected_cost"]
        assert costs[0] == pytest.approx(costs[1], rel=0.02)
        if trial.record.get("measure", True):
            assert costs[0] == pytest.approx(own.cost_at(trial.parameters))
    assert spent(found.ledger) == pytest.approx(spent(expected.ledger), rel=0.02)
    assert spent(found.ledger) == pytest.approx(
        sum(
            own.cost_at(trial.parameters)
            for trial in found.trials
            if trial.record.get("measure", True)
        )
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HeatedSets((ControlSet(["x1"]),), toy.MARGINALS), r"HeatedSets\.cost_at"),
        (
            lambda: HeatedGittins("hours"),
            r"HeatedGittins\.cost_at: .* reads costs from cost='hours'",
        ),
    ],
)
def test_the_cost_of_a_subclass_that_no_search_reads_is_refused(
    make: Callable[[], Method], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_the_cost_of_a_subclass_that_is_none_is_refused_before_a_trial() -> None:
    method = HeatedGittins(1.0, heat=-1.0)
    with pytest.raises(InputError, match=r"HeatedGittins\.cost_at\(.*=0\.0"):
        simulate(method, SQUARE, measured, 1)


def test_times_that_are_reported() -> None:
    method = CostlyFeedback(time="hour", forgetting=0.05, initial_trials=3, **FAST)
    simulation = Simulation(method, SQUARE, hyperparameters=MODEL)
    for index in range(5):
        decision = simulation.ask()
        assert isinstance(decision, Decision)
        outcome = measured(decision.parameters, True)._replace(metrics={"hour": 10.0 + index})
        simulation.tell(decision, outcome)
    times = method.times(simulation.trials)
    assert [times[index] for index in range(5)] == [10, 11, 12, 13, 14]


def test_what_cannot_be_paid() -> None:
    """It is passed over in the design, which then ends; a cap below all costs is refused."""
    method = CostAware(AffineCost({"x1": 100.0}, fixed=1.0), budget=160.0, initial_trials=6)
    simulation, rows = Simulation(method, SQUARE, hyperparameters=MODEL), []
    while isinstance(decision := simulation.ask(), Decision):
        rows.append(tuple(decision.parameters.values()))
        simulation.tell(decision, measured(decision.parameters, True))
        if len(rows) == 6:
            break
    assert len(rows) == len(set(rows)) >= 3
    stop = simulate(CostAware(1.0, budget=2.5, initial_trials=6), SQUARE, measured, 6).ask()
    assert isinstance(stop, Stop)
    assert "initial design is not finished" in stop.reason
    with pytest.raises(InputError, match=r"max_trial_cost=0\.9"):
        Simulation(replace(method, max_trial_cost=0.9), SQUARE).ask()
