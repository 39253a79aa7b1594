"""Several objectives without Ax: decisions, fronts, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ax_costaware.acquisition.feasibility import OutcomeConstraint
from ax_costaware.acquisition.hypervolume_improvement import hypervolume
from ax_costaware.core import Decision, Objective, Outcome, PastTrial, Simulation, Stop
from ax_costaware.costs import AffineCost, SwitchingCost
from ax_costaware.exceptions import InputError, UnsupportedInputError
from ax_costaware.methods import CostAware, Gittins, MultiFidelity, StandardizedPrice
from ax_costaware.methods.cost_aware.rules import GittinsStop, ImprovementPerCostStop
from ax_costaware.space import Range, Space

SPACE = Space.of([Range("a", 0.0, 1.0), Range("b", 0.0, 1.0)])
COST = AffineCost({"a": 2.0}, fixed=0.5)
OBJECTIVES = (Objective("gain", threshold=-0.5), Objective("waste", minimize=True, threshold=1.5))
FEW: dict[str, Any] = {"num_restarts": 2, "raw_samples": 64, "initial_trials": 3, "seed": 1}


def outcome(row: dict[str, Any]) -> Outcome:
    """A gain that rises with ``a``, and waste that does, too; ``b`` is best in the middle."""
    a, b = float(row["a"]), float(row["b"])
    off = (b - 0.5) ** 2
    return Outcome(a - 2 * off, cost=None, metrics={"waste": a**2 + off, "heat": b})


def run(count: int, method: CostAware, **arguments: Any) -> Simulation:
    """Run trials until a stop."""
    arguments = {"objectives": OBJECTIVES, **arguments}
    simulation = Simulation(method, SPACE, **arguments)
    for _ in range(count):
        decision = simulation.ask()
        if isinstance(decision, Stop):
            break
        simulation.tell(decision, outcome(decision.parameters))
    return simulation


def values_of(simulation: Simulation) -> torch.Tensor:
    """Return outcomes, both maximized."""
    rows = [[t.outcome, -t.metrics["waste"]] for t in simulation.trials if t.is_observed]
    return torch.tensor(rows, dtype=torch.double)


@pytest.mark.parametrize(
    "method",
    [
        CostAware(COST, budget=12.0, **FEW),
        CostAware(COST, budget=12.0, acquisition="parego_per_cost", **FEW),
        Gittins(COST, budget=12.0, **FEW),
    ],
    ids=["hypervolume", "parego", "gittins"],
)
def test_runs_find_a_front_within_their_budget(method: CostAware) -> None:
    """They end with the state of the budget, and repeat themselves with the same seed."""
    simulation = run(30, method)
    stop = simulation.ask()
    assert isinstance(stop, Stop)
    assert "of the front" in stop.reason
    assert sum(entry.charged for entry in simulation.ledger) <= 12.0
    ref_point = torch.tensor([-0.5, -1.5], dtype=torch.double)
    best = torch.tensor([[a, -(a**2)] for a in torch.linspace(0, 1, 200).tolist()]).double()
    share = hypervolume(values_of(simulation), ref_point) / hypervolume(best, ref_point)
    assert share > (0.9 if type(method) is CostAware else 0.7)
    again = Simulation(method, SPACE, objectives=OBJECTIVES, trials=simulation.trials[:6])
    decision = again.ask()
    assert isinstance(decision, Decision)
    assert decision.parameters == simulation.trials[6].parameters


def test_the_front_is_that_of_the_outcomes() -> None:
    """Without noise, the points that brute force finds; the first one by the weights."""
    simulation = run(9, CostAware(COST, budget=30.0, **FEW))
    Y = values_of(simulation)
    useful = (torch.tensor([-0.5, -1.5]) < Y).all(dim=-1)
    expected = {
        i
        for i in range(len(Y))
        if useful[i] and not any((Y[j] >= Y[i]).all() and (Y[j] > Y[i]).any() for j in range(9))
    }
    found = simulation.recommendations()
    assert {best.trial_index for best in found} == expected
    for best in found:
        assert best.trial_index is not None
        trial = simulation.trials[best.trial_index]
        assert best.mean == best.means["gain"] == pytest.approx(trial.outcome, abs=0.05)
        assert best.means["waste"] == pytest.approx(trial.metrics["waste"], abs=0.05)
        assert best.standard_deviation == best.standard_deviations["gain"] >= 0
        assert best.expected_cost == pytest.approx(0.5 + 2 * trial.parameters["a"])
    for weights in ({"gain": 1.0}, {"waste": 2.0}):
        (name,) = weights
        ranked = [best.means[name] for best in simulation.recommendations(weights)]
        assert ranked[0] == (max if name == "gain" else min)(ranked)
    for wrong in ({"heat": 1.0}, {"gain": -1.0}, {"gain": 0.0}):
        with pytest.raises(InputError, match="weights"):
            simulation.recommendations(wrong)


def test_cost_is_an_objective() -> None:
    """The front is of the objective and of the cost, known or learned, without its switching."""
    for cost in (COST, "seconds", SwitchingCost({"b": 0.1}, COST)):
        method = CostAware(cost, budget=20.0, front="cost", **FEW)
        simulation = Simulation(method, SPACE)
        for _ in range(9):
            decision = simulation.ask()
            assert isinstance(decision, Decision)
            a = float(decision.parameters["a"])
            spent = 0.5 + 2.0 * a if cost == "seconds" else None
            simulation.tell(decision, outcome(decision.parameters)._replace(cost=spent))
        name = "seconds" if cost == "seconds" else "cost"
        found = sorted(simulation.recommendations(), key=lambda best: best.means[name])
        assert len(found) > 2
        gains = [best.means["objective"] for best in found]
        assert gains == sorted(gains)
        for best in found:
            expected = 0.5 + 2.0 * float(best.parameters["a"])
            assert best.means[name] == pytest.approx(
                expected, rel=0.2 if cost == "seconds" else 1e-6
            )


def test_constraints_failures_and_pending_trials() -> None:
    """The front is feasible, a failed point is left, and pending ones are not repeated."""
    bound = OutcomeConstraint("heat", upper=0.4)
    method = CostAware(COST, budget=60.0, **FEW)
    simulation = run(10, method, constraints=[bound])
    for best in simulation.recommendations():
        assert best.feasibility is not None
        assert best.feasibility >= 0.9
        assert best.parameters["b"] <= 0.4 + 1e-6
    decided = [t.decision for t in simulation.trials if t.record["phase"] == "rule"]
    assert all(0.0 <= decision["feasibility"] <= 1.0 for decision in decided)
    running = []
    for _ in range(3):
        decision = simulation.ask()
        assert isinstance(decision, Decision)
        running.append(decision.parameters)
        simulation.start(decision)
    gaps = [
        max(abs(float(p[n]) - float(q[n])) for n in "ab")
        for i, p in enumerate(running)
        for q in running[:i]
    ]
    assert min(gaps) > 0.01
    for acquisition in ("log_nei_per_cost", "parego_per_cost"):
        failing = run(5, CostAware(COST, budget=60.0, acquisition=acquisition, **FEW))
        places = []
        for _ in range(4):
            decision = failing.ask()
            assert isinstance(decision, Decision)
            places.append(decision.parameters)
            failing.tell(decision, Outcome(failed=True))
        assert len({repr(place) for place in places}) == 4


def test_a_price_ends_a_run() -> None:
    """In hypervolume per cost, or standardized; the unit of a threshold's metric counts."""
    for price in (0.05, StandardizedPrice(0.05)):
        simulation = run(40, CostAware(COST, lmbda=price, **FEW))
        stop = simulation.ask()
        assert isinstance(stop, Stop)
        assert "of the hypervolume, the expected improvement per unit of cost" in stop.reason
        assert len(simulation.trials) < 40
    assert isinstance(run(6, CostAware(COST, lmbda=1e-6, budget=30.0, **FEW)).ask(), Decision)


def test_trials_that_lack_an_objective() -> None:
    """They teach the model of the other one, and are not initial trials with outcomes."""
    method = CostAware(COST, budget=30.0, **FEW)
    simulation = Simulation(method, SPACE, objectives=OBJECTIVES)
    for i in range(4):
        decision = simulation.ask()
        assert isinstance(decision, Decision)
        told = outcome(decision.parameters)
        simulation.tell(decision, told if i else told._replace(metrics=None))
    problem = simulation.problem()
    assert [t.index for t in problem.observed] == [0, 1, 2, 3]
    assert [t.index for t in problem.measured] == [1, 2, 3]
    assert isinstance(simulation.ask(), Decision)


def test_directions_and_units_do_not_matter() -> None:
    """Nor does the order of the objectives matter for the improvement's value."""
    method = CostAware(COST, budget=30.0, **FEW)
    found = []
    for scale, sign in ((1.0, -1.0), (1024.0, -1.0), (1.0, 1.0)):
        waste = Objective("waste", minimize=sign < 0, threshold=-sign * scale * 1.5)
        simulation = Simulation(method, SPACE, objectives=(OBJECTIVES[0], waste))
        for _ in range(6):
            decision = simulation.ask()
            assert isinstance(decision, Decision)
            told = outcome(decision.parameters)
            assert told.metrics is not None
            value = -sign * scale * told.metrics["waste"]
            simulation.tell(decision, told._replace(metrics={"waste": value}))
        found.append([t.parameters for t in simulation.trials])
    assert found[0] == found[1] == found[2]


PLAIN = (Objective("gain"), Objective("waste", minimize=True))


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        (CostAware(COST, acquisition="parego_per_cost"), {"objectives": ()}, "single objective"),
        (CostAware(COST, lmbda=1.0), {"objectives": PLAIN}, r"\['gain', 'waste'\] have no thresh"),
        (CostAware(COST, budget=9.0, stop=True), {}, "Gittins index is of one value"),
        (CostAware(COST, lmbda=1.0, stop=GittinsStop()), {}, "Gittins index is of one value"),
        (Gittins(COST, lmbda=1.0, stop=False), {}, "which has no unit"),
        (
            CostAware(
                COST,
                lmbda=StandardizedPrice(1.0),
                stop=ImprovementPerCostStop(),
                acquisition="parego_per_cost",
            ),
            {},
            "random weight",
        ),
        (CostAware(COST, budget=9.0, confirm=0.1), {}, "confirm=0.1 with several objectives"),
        (CostAware("waste", budget=9.0), {}, "cost='waste' is an objective"),
        (
            MultiFidelity(cost=COST, target={"a": 1.0}),
            {},
            "several metrics, .*fidelity_strategy takes a single one",
        ),
        (CostAware(COST), {"objectives": PLAIN[:1]}, "objectives=.*expected several"),
    ],
)
def test_refusals(method: Any, arguments: dict[str, Any], message: str) -> None:
    """Before anything is spent, by the argument and the reason."""
    with pytest.raises((InputError, UnsupportedInputError), match=message):
        Simulation(method, SPACE, **{"objectives": OBJECTIVES, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lmbda": 1.0, "front": "cost"}, "lmbda=1.0 with front='cost'"),
        ({"lmbda": 1.0, "acquisition": "parego_per_cost"}, "lmbda=1.0 .* which has no unit"),
        ({"front": "price"}, "front='price': expected one of"),
    ],
)
def test_refused_settings(arguments: dict[str, Any], message: str) -> None:
    """When the method is made."""
    with pytest.raises(InputError, match=message):
        CostAware(COST, **arguments)


@pytest.mark.parametrize("acquisition", ["log_nei_per_cost", "parego_per_cost"])
def test_exact_outcomes_are_not_measured_again(acquisition: str) -> None:
    """Also where a fit of few outcomes does not find them exact."""
    simulation = run(12, CostAware(COST, budget=60.0, acquisition=acquisition, **FEW))
    rows = [tuple(trial.parameters.values()) for trial in simulation.trials]
    assert len({tuple(round(float(x), 3) for x in row) for row in rows}) == len(rows)


def test_no_trial_can_be_deployed() -> None:
    """After bounds were narrowed, a decision is made, and a recommendation is refused."""
    method = CostAware(COST, budget=30.0, **FEW)
    past = [
        PastTrial(i, {"a": x, "b": 1.5}, "COMPLETED", outcome=x, is_observed=True,
                  metrics={"waste": x * x}, reported_cost=1.0)
        for i, x in enumerate((0.1, 0.5, 0.9, 0.3))
    ]  # fmt: skip
    simulation = Simulation(method, SPACE, trials=past, objectives=OBJECTIVES)
    assert isinstance(simulation.ask(), Decision)
    with pytest.raises(InputError, match="in the search space"):
        simulation.recommendations()
