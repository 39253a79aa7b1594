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
    Problem,
    Simulation,
    SpaceExhausted,
    Stop,
    simulate,
)
from ax_costaware.core.account import spent
from ax_costaware.core.history import PastTrial
from ax_costaware.core.problem import Pending
from ax_costaware.core.simulation import Outcome
from ax_costaware.core.traits import CONTROL_SET
from ax_costaware.costs import ControlSet, CostModel, CostOfTrial
from ax_costaware.costs.cost import AffineCost
from ax_costaware.costs.cost_model import ANY_TRIAL
from ax_costaware.exceptions import InputError
from ax_costaware.laws import FiniteConditional, GaussianConditional
from ax_costaware.methods import (
    ControlSets,
    CostAware,
    CostlyFeedback,
    EpsilonSchedule,
    IndirectQueries,
    Method,
    MultiFidelity,
    TreeSearch,
)
from ax_costaware.methods.cost_aware.rules import GittinsStop
from ax_costaware.methods.costly_feedback.rules import MeasurementRule
from ax_costaware.methods.priced import PricedCosts
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
            AffineCost({"x2": 2.0}, fixed=0.5),
            budget=14.0,
            stop=False,
            initial_trials=3,
            **FAST,
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


def test_a_run_goes_on_from_its_trials(ran: tuple[Case, Simulation]) -> None:
    """Trials are all that there is to keep: there is no other state, and asking changes none."""
    case, simulation = ran
    first = simulation.trials[:6]
    resumed = Simulation(case.method, case.space, False, case.model, trials=list(first))
    assert resumed.ask() == resumed.ask()
    decision = resumed.ask()
    assert isinstance(decision, Decision)
    assert decision.parameters == simulation.trials[6].parameters
    assert decision.why == simulation.trials[6].record["why"]


EXPENSIVE = ["gittins, learned costs", "costly feedback, learned costs", "indirect queries"]
"""Cases whose decisions take longest."""


@pytest.mark.parametrize("name", mostly_slow(CASES, CASES.keys() - EXPENSIVE))
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


def test_stops_where_nothing_is_worth_its_cost() -> None:
    """Before the budget is used up; and it never does where it is told not to."""
    method = CostAware(1.0, lmbda=0.05, stop=GittinsStop(), initial_trials=3, **FAST)
    simulation = simulate(method, SQUARE, measured, 40, hyperparameters=MODEL)
    assert 3 <= len(simulation.trials) < 40
    stop = simulation.ask()
    assert isinstance(stop, Stop)
    assert "lambda 0.05" in stop.reason


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
            assert isinstance(decision, Decision)
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


def test_what_to_deploy_right_after_a_trial() -> None:
    """A model of the method's own is then fitted for the recommendation."""
    simulation = simulate(CostAware(1.0, initial_trials=5, **FAST), SQUARE, measured, 5)
    best = max(trial.outcome for trial in simulation.trials if trial.outcome is not None)
    assert simulation.recommend().mean == pytest.approx(best, abs=0.2)


def test_more_integers_than_are_searched_one_by_one() -> None:
    space = Space.of([Range("x1", 0, 1), Range("n", 1, 20_000, is_integer=True)])
    method = CostAware(1.0, initial_trials=3, stop=False, **FAST)
    run = simulate(
        method, space, lambda x, _: Outcome(-abs(x["n"] / 2e4 - 0.5)), 5, hyperparameters=MODEL
    )
    assert all(isinstance(trial.parameters["n"], int) for trial in run.trials)


EVERY_KIND = (
    Range("x", 0.01, 1.0, log_scale=True),
    Range("n", 1, 4, is_integer=True),
    Choice("soil", ("sand", "clay", "peat")),
    Choice("lamp", (1, 5, 20), is_ordered=True),
    Fixed("site", "here"),
)


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


@pytest.mark.parametrize(
    ("names", "sums"),
    [
        (["x", "n", "soil", "lamp", "site"], []),
        (["x", "n", "lamp"], []),
        (["n", "soil", "site"], []),
        (["x", "n", "soil"], [({"x": 2.0, "n": 1.0}, 3.5)]),
        (["x", "n"], [({"x": 2.0, "n": 1.0}, 3.5)]),
    ],
    ids=["all", "no blocks", "finite", "blocks and a sum", "integers and a sum"],
)
def test_spaces_of_all_kinds(names: list[str], sums: Any) -> None:
    """Every trial is valid, meets the constraints, and costs what its values say."""
    # On a log scale Ax takes no sums either.
    parameters = [p for p in EVERY_KIND if p.name in names]
    if sums:
        parameters = [Range("x", 0.01, 1.0) if p.name == "x" else p for p in parameters]
    space = Space.of(parameters, sums)

    def run(row: Any, measure: bool) -> Outcome:
        value = -((row["n"] - 2) ** 2) - (row.get("x", 0.5) - 0.5) ** 2
        return Outcome(float(value - (row.get("soil") == "peat")))

    cost = AffineCost({"n": 1.0}, fixed=1.0)
    method = CostAware(cost, budget=60.0, stop=False, initial_trials=4, **FAST)
    model = FixedHyperparameters(0.5)
    simulation = simulate(method, space, run, 8, hyperparameters=model)
    assert len(simulation.trials) == 8
    for trial in simulation.trials:
        assert list(trial.parameters) == [p.name for p in parameters]
        (back,) = space.decode(space.encode([trial.parameters]))
        assert back == pytest.approx(trial.parameters)
        assert space.meets(trial.parameters)
        assert trial.record["expected_cost"] == 1.0 + trial.parameters["n"]  # type: ignore[operator]
    if names == ["n", "soil", "site"]:
        chosen = [tuple(trial.parameters.values()) for trial in simulation.trials]
        assert len(set(chosen)) == 8, "no point is tried twice while there are others"


@pytest.mark.parametrize("law", [False, True], ids=["points", "averages"])
def test_what_the_budget_does_not_pay_for_is_passed_over(law: bool) -> None:
    """The initial trials that are left are different ones, also where a design may repeat."""
    cost = AffineCost({"x1": 100.0}, fixed=1.0)
    method: Method = CostAware(cost, budget=160.0, initial_trials=6, **FAST)
    if law:
        case = CASES["indirect queries"]
        method = replace(case.method, cost=cost, budget=160.0, initial_trials=6)  # type: ignore[call-arg, type-var]
    space = CASES["indirect queries"].space
    simulation = Simulation(method, space, hyperparameters=None if law else MODEL)
    rows = []
    for _ in range(6):
        decision = simulation.ask()
        if isinstance(decision, Stop):
            break
        rows.append(tuple(decision.parameters.values()))
        simulation.tell(decision, measured(decision.parameters, True))
    assert len(rows) == len(set(rows)) >= 3
    design = simulate(CostAware(1.0, initial_trials=6), space, measured, 6).trials
    assert rows != [tuple(trial.parameters.values()) for trial in design[: len(rows)]]


def test_constraints_that_cannot_be_met() -> None:
    """They are named, instead of being looked for without end."""
    space = Space.of([Range("x1", 0, 1), Range("x2", 0, 1)], [({"x1": 1.0}, -1.0)])
    with pytest.raises(InputError, match="met the parameter constraints"):
        simulate(CostAware(1.0), space, measured, 1)


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
        with pytest.raises(InputError, match=r"lengthscale=\[0.1, 0.2, 0.3\] has 3 .*expected 2"):
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


CAPS = {
    "gittins": (1.2, 0.5),
    "gittins, learned costs": (1.4, None),
    "indirect queries": (1.4, 1.2),
    "tree search": (1.0, 0.5),
    "control sets": (0.5, 0.1),
}
"""By case the most that a trial may cost, which rules out some, and the least that any does."""


def spends_more_on_a_trial(case: Case, cap: float, budget: float | None) -> bool:
    """Whether one of the first ten trials costs more than a cap, where none is set."""
    method: Any = replace(case.method, budget=budget)  # type: ignore[type-var]
    simulation = Simulation(method, case.space, hyperparameters=case.model)
    run = case.make_run()
    for _ in range(10):
        decision = simulation.ask()
        if isinstance(decision, Stop):
            break
        simulation.tell(decision, run(decision.parameters, True))
        if simulation.ledger[-1].charged > cap:
            return True
    return False


@pytest.mark.parametrize("name", [name for name, (_, least) in CAPS.items() if least])
def test_a_largest_cost_that_allows_no_trial_is_refused(name: str) -> None:
    case, (_, least) = CASES[name], CAPS[name]
    with pytest.raises(InputError, match=r"max_trial_cost=.*: expected a larger one\. No trial"):
        run_of(case, 1, max_trial_cost=0.9 * (least or 0.0))
    with pytest.raises(InputError, match="max_trial_cost=0: expected a finite number > 0, or None"):
        replace(case.method, max_trial_cost=0)  # type: ignore[type-var]


def test_a_largest_cost_below_that_of_every_measurement_is_refused() -> None:
    with pytest.raises(InputError, match=r"max_trial_cost=0\.5 with cost=1\.0: expected at least"):
        CostlyFeedback(cost=1.0, max_trial_cost=0.5)
    assert CostlyFeedback(cost=1.0, max_trial_cost=1.0).max_trial_cost == 1.0


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (Outcome(float("nan")), "value=nan: expected a finite number"),
        (Outcome(1e308), r"value=1e\+308: expected a finite number, at most 1e\+100 in size"),
        (Outcome(1.0, metrics={"heat": -1e101}), r"metrics\['heat'\]=-1e\+101: .* at most 1e\+100"),
        (Outcome(1.0, cost=-5.0), "cost=-5.0: expected a finite number >= 0"),
        (Outcome(1.0, cost=float("nan")), "cost=nan"),
        (Outcome(1.0, metrics={"heat": float("inf")}), r"metrics\['heat'\]=inf"),
        (Outcome(1.0, metrics=[1.0]), r"metrics=\[1.0\]: expected a mapping, or None"),  # type: ignore[arg-type]
        (Outcome(1.0, curve={5: float("nan")}), r"curve\[5.0\]=nan: expected a finite number"),
        (Outcome(1.0, curve={"last": 1.0}), "a step of curve='last': expected a finite number"),  # type: ignore[dict-item]
        (Outcome(1.0, realized={"x3": 1.0}), r"realized='x3': expected one of \['x1', 'x2'\]"),
        (Outcome(1.0, realized={"x2": float("nan")}), r"realized\['x2'\]=nan"),
        (Outcome(1.0, realized={"x2": 1e200}), r"realized\['x2'\]=1e\+200: .* at most 1e\+100"),
    ],
)
def test_an_outcome_that_is_none_is_refused_before_it_is_recorded(
    outcome: Outcome, message: str
) -> None:
    simulation = Simulation(CostAware(1.0, budget=20), SQUARE, hyperparameters=MODEL)
    decision = simulation.ask()
    assert isinstance(decision, Decision)
    with pytest.raises(InputError, match=message):
        simulation.tell(decision, outcome)
    assert not simulation.trials


def test_a_number_of_trials_that_is_none_is_refused_before_any_is_run() -> None:
    method = CostAware(1.0, budget=20)
    with pytest.raises(InputError, match=r"num_trials=2\.5: expected an integer >= 0"):
        simulate(method, SQUARE, lambda row, _: pytest.fail(str(row)), 2.5)  # type: ignore[arg-type]


def test_a_cost_under_its_metric_is_refused_before_it_is_recorded() -> None:
    """There is one for the cost: the two would be told apart at the next decision only."""
    simulation = Simulation(CostAware("seconds", budget=20), SQUARE, hyperparameters=MODEL)
    decision = simulation.ask()
    assert isinstance(decision, Decision)
    with pytest.raises(InputError, match="metrics has 'seconds': expected what a trial cost as"):
        simulation.tell(decision, Outcome(1.0, metrics={"seconds": 3.0}))
    assert simulation.tell(decision, Outcome(1.0, 3.0)).metrics == {"seconds": 3.0}


def test_an_input_that_has_no_logit_is_refused_before_it_is_recorded() -> None:
    space = Space.of([Range("share", 0.1, 0.9, logit_scale=True)])
    simulation = Simulation(CostAware(1.0, budget=20), space, hyperparameters=MODEL)
    decision = simulation.ask()
    assert isinstance(decision, Decision)
    with pytest.raises(InputError, match=r"realized\['share'\]=1.0: .* strictly between 0 and 1"):
        simulation.tell(decision, Outcome(1.0, realized={"share": 1.0}))
    assert not simulation.trials


def test_what_has_failed_is_not_learned_from() -> None:
    simulation = Simulation(CostAware(1.0, budget=20), SQUARE, hyperparameters=MODEL)
    decision = simulation.ask()
    assert isinstance(decision, Decision)
    assert not simulation.tell(decision, Outcome(1.0, failed=True)).is_observed
    with pytest.raises(InputError, match="no trial has an outcome yet"):
        simulation.recommend()


def test_a_space_without_a_choice_is_refused() -> None:
    """Models have no columns then: trials were paid before that showed."""
    for space in (Space.of([]), Space.of([Fixed("x1", 1.0)])):
        with pytest.raises(InputError, match=r"have one value each: expected a range"):
            Simulation(CostAware(1.0, budget=20), space)


def test_a_query_that_has_no_law_is_refused_before_it_is_recorded() -> None:
    law = GaussianConditional([[1.0]], covariance=0.01)
    method = IndirectQueries(target_parameters=(Range("t", 0, 10),), conditional=law, budget=9)
    simulation = Simulation(method, Space.of([Range("x", 2, 8)]))
    decision = simulation.ask()
    assert isinstance(decision, Decision)
    with pytest.raises(InputError, match="its points are outside of X"):
        simulation.tell(decision, Outcome(1.0, realized={"x": 12.0}))
    assert not simulation.trials


def test_an_outcome_that_is_corrected_is_learned_from() -> None:
    method = CostAware(1.0, budget=20, **FAST)
    run = simulate(method, SQUARE, measured, 6, hyperparameters=MODEL)
    best = run.recommend().trial_index
    assert best is not None
    run.trials[best] = replace(run.trials[best], outcome=-100.0)
    anew = Simulation(run.method, SQUARE, hyperparameters=MODEL, trials=list(run.trials))
    assert run.recommend() == anew.recommend()
    assert run.recommend().trial_index != best


@pytest.mark.usefixtures("full_searches")
@pytest.mark.parametrize("name", ["costly feedback", "indirect queries", "control sets"])
def test_of_a_flat_posterior_mean_what_was_tried_is_recommended(name: str) -> None:
    case = CASES[name]
    simulation = Simulation(case.method, case.space, hyperparameters=case.model)
    decision = simulation.ask()
    assert isinstance(decision, Decision)
    realized = {column: 0.25 for column in ("x2", "x3") if name == "control sets"}
    inputs = simulation.tell(decision, Outcome(0.0, realized=realized)).inputs
    best = simulation.recommend()
    scale = 10.0 if name == "indirect queries" else 1.0  # a query is a tenth of its point
    tried = [scale * float(inputs[column.replace("t", "x")]) for column in best.parameters]
    assert list(best.parameters.values()) == pytest.approx(tried, abs=1e-3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": CostAware}, "method=.* expected a method such as"),
        ({"space": [Range("x1", 0, 1)]}, "space=.* expected one that Space.of makes"),
        ({"hyperparameters": {"lengthscale": 0.3}}, "hyperparameters=.* FixedHyperparameters"),
        ({"constraints": ["e <= 5"]}, "constraints='e <= 5': expected a list of OutcomeConstr"),
        ({"trials": [{"x1": 0.5}]}, "trials=.* expected a list of PastTrial"),
        ({"trials": [replace(PAST, index=5)]}, r"trials\[0\] has the index 5: expected 0"),
        ({"trials": [replace(PAST, is_observed=False)]}, "is_observed=False: expected True, or"),
        ({"trials": [replace(PAST, outcome=None)]}, r"the outcome of trials\[0\]=None"),
        ({"trials": [replace(PAST, reported_cost=-1.0)]}, r"the cost of trials\[0\]=-1.0"),
        ({"trials": [replace(PAST, parameters={"x1": 1.0})]}, r"trials\[0\]: got {'x1': 1.0}"),
        (
            {"trials": [replace(PAST, realized={"x3": 1.0})]},
            r"of trials\[0\]='x3': expected one of",
        ),
    ],
)
def test_fields_of_another_kind(given: dict[str, Any], message: str) -> None:
    """Past outcomes that nothing is learned from were paid again; the rest failed by and by."""
    with pytest.raises(InputError, match=message):
        Simulation(**{"method": CostAware(1.0, budget=9.0), "space": SQUARE, **given})


def test_what_is_told_is_an_outcome_of_a_trial() -> None:
    """A plain number for an Outcome is the mistake next at hand, and parameters stay for ever."""
    simulation = Simulation(CostAware(1.0, budget=9.0), SQUARE)
    decision = simulation.ask()
    assert isinstance(decision, Decision)
    other = replace(decision, parameters={"x1": 0.5})
    for told, outcome, message in (
        (decision, 1.0, r"outcome=1.0: expected an Outcome, such as Outcome\(0.5\)"),
        (Stop("enough"), Outcome(1.0), "decision=Stop.* expected a Decision, as ask gives it"),
        (other, Outcome(1.0), "parameters: got {'x1': 0.5}; expected a value of each of"),
    ):
        with pytest.raises(InputError, match=message):
            simulation.tell(told, outcome)  # type: ignore[arg-type]
    assert simulation.trials == []
    with pytest.raises(InputError, match=r"outcome=0\.5: expected an Outcome"):
        simulate(simulation.method, SQUARE, lambda row, measure: 0.5, 3)  # type: ignore[arg-type, return-value]


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


@dataclass(frozen=True, kw_only=True)
class HeatedFidelity(MultiFidelity):
    """The same at several fidelities."""

    def cost_at(self, parameters: Row) -> float:
        return 0.5 + 2.0 * float(str(parameters["x2"]))


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


@dataclass(frozen=True)
class Surcharged(CostAware):
    """Learned costs of which every trial is expected to cost as much more."""

    @property
    def trial_costs(self) -> SurchargedCosts:
        return SurchargedCosts.of(self)


class SurchargedCosts(PricedCosts):
    """As much more than is learned."""

    def model(self, problem: Problem) -> CostModel:
        learned = super().model(problem)
        assert learned is not None
        return CostOfTrial(lambda X: 100.0 + learned.log_cost(X).exp(), ANY_TRIAL)


HEATED_SETS = [
    ControlSet(s.parameters, AffineCost(dict.fromkeys(s.parameters, 2.0), fixed=1.0))
    for s in toy.CONTROL_SETS
]

# For each method the class with a cost of its own, and the settings that declare the same.
HEATED: dict[str, tuple[type[Method], dict[str, Any], dict[str, Any]]] = {
    "gittins": (HeatedGittins, {}, {"cost": 1.0}),
    "indirect queries": (HeatedQueries, {}, {"cost": 1.0}),
    "fidelity": (HeatedFidelity, {}, {"cost": 1.0}),
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
    if name == "fidelity":
        declared: Method = MultiFidelity(
            AffineCost({"x2": 2.0}, fixed=0.5),
            target={"x2": 1.0},
            budget=14.0,
            initial_trials=3,
            **FAST,
        )
        case = replace(CASES["gittins"], method=declared, model=None)
    else:
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


def test_the_learned_cost_of_a_subclass_is_searched_by_recorded_and_reserved() -> None:
    case = CASES["gittins, learned costs"]
    settings = {f.name: getattr(case.method, f.name) for f in fields(case.method)}
    settings |= {"budget": 300.0, "initial_share": None}
    own: Any = Surcharged(**settings)
    simulation = Simulation(own, SQUARE, hyperparameters=MODEL)
    for _ in range(4):
        decision = simulation.ask()
        assert isinstance(decision, Decision)
        simulation.tell(decision, with_cost(decision.parameters, True))
    problem = simulation.problem()
    (last,) = [e for e in simulation.ledger if e.by_rule]
    assert last.expected_cost is not None
    assert last.expected_cost > 100.0
    batch = replace(problem, pending=(Pending(None, decision.parameters),))
    more = own.budget_state(batch).spent - own.budget_state(problem).spent
    assert 100.0 < more < 104.0
    # What is left pays for no trial, by what the search takes it to cost.
    capped = replace(simulation.method, max_trial_cost=50.0)  # type: ignore[type-var]
    assert isinstance(capped.decide(problem), Stop)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: HeatedSets((ControlSet(["x1"]),), toy.MARGINALS),
            r"HeatedSets\.cost_at: expected that of Method, .* from control_sets alone",
        ),
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
    with pytest.raises(InputError, match=r"HeatedGittins\.cost_at\(.*=0\.0: expected a finite"):
        simulate(method, SQUARE, measured, 1)
