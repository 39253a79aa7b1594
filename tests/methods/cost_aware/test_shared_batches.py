"""Batches that share settings or a set-up: their worth, their size, and what they are charged."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from ax.api.client import Client
from ax.exceptions.core import UserInputError

import ax_costaware as ac
from ax_costaware.core import Objective, Outcome, Simulation, Stop
from ax_costaware.costs import AffineCost, BatchCost, SwitchingCost
from ax_costaware.exceptions import InputError
from ax_costaware.methods import CostAware, MultiFidelity
from ax_costaware.methods.cost_aware.plates import Plates
from ax_costaware.space import Choice, Range, Space
from tests.ax.gittins_toy import arm_of, make_client, objective

FEW: dict[str, Any] = {"num_restarts": 2, "raw_samples": 32, "initial_trials": 3}
SPACE = Space.of([Range("heat", 0.0, 1.0), Range("a", 0.0, 1.0)])
SMALL = Space.of([Choice("heat", ("low", "mid", "high")), Range("a", 0, 4, True)])
PER_TRIAL = AffineCost({"a": 0.5}, fixed=0.5)


def value(row: Any) -> float:
    """A hill."""
    return math.exp(-8 * ((float(row["heat"]) - 0.7) ** 2 + (float(row["a"]) - 0.2) ** 2))


def told(simulation: Simulation, size: int, **metrics: float) -> int:
    """Run a batch, and return the number of its trials."""
    batch = simulation.ask_batch(size)
    assert not isinstance(batch, Stop)
    started = [(decision, simulation.start(decision).index) for decision in batch]
    for decision, index in started:
        row = decision.parameters
        simulation.tell(decision, Outcome(value(row), metrics=metrics or None), index)
    return len(batch)


def plates_of(simulation: Simulation, size: int) -> Plates:
    return Plates.of(simulation.method, replace(simulation.problem(), batch_size=size))  # type: ignore[arg-type]


def test_improvements_are_those_of_the_posterior() -> None:
    """Of points alone and together, against many samples of the model itself."""
    simulation = Simulation(CostAware(PER_TRIAL, budget=99, **FEW), SPACE)
    told(simulation, 3)
    plates = plates_of(simulation, 4)
    X = torch.tensor([[0.5, 0.4], [0.9, 0.1], [0.2, 0.3]], dtype=torch.double)
    found = plates.improvements(X)
    problem = simulation.problem()
    torch.manual_seed(0)
    with torch.no_grad():
        every = torch.cat([problem.evaluated, X])
        samples = problem.model.posterior(every).rsample(torch.Size([100_000])).squeeze(-1)
    gains = (samples[:, -3:] - samples[:, :-3].amax(dim=-1, keepdim=True)).clamp_min(0)
    assert found.mean(dim=0).tolist() == pytest.approx(
        gains.mean(dim=0).tolist(), rel=0.1, abs=1e-3
    )
    together = float(found.amax(dim=-1).mean())
    assert together == pytest.approx(float(gains.amax(dim=-1).mean()), rel=0.1)


@pytest.mark.parametrize("price", [None, 0.01])
def test_the_plan_is_near_the_best_of_all_batches(price: float | None) -> None:
    """Of all batches of up to three trials in a small space, by brute force."""
    cost, settings = BatchCost(2.0, 1.0), {"shared": ["heat"], "lmbda": price, "stop": False}
    simulation = Simulation(CostAware(cost, budget=99, **settings, **FEW), SMALL)
    places = {"low": 0.1, "mid": 0.5, "high": 0.9}
    for decision in simulation.ask_batch(3):  # type: ignore[union-attr]
        row = decision.parameters
        outcome = value({"heat": places[str(row["heat"])], "a": float(str(row["a"])) / 4})
        simulation.tell(decision, Outcome(outcome))
    plates = plates_of(simulation, 3)
    plan = plates.plan()
    assert plan is not None
    tried = [trial.parameters for trial in simulation.trials]
    scores = []
    for heat in places:
        rows = [{"heat": heat, "a": a} for a in range(5)]
        rows = [row for row in rows if row not in tried]
        gains = plates.improvements(SMALL.encode(rows).to(torch.double))
        for number in (1, 2, 3):
            for some in combinations(range(len(rows)), number):
                gain = float(gains[:, some].amax(dim=-1).mean()) * simulation.problem().scale.unit
                spent = 2.0 + number
                scores.append(gain / spent if price is None else gain - price * spent)
    score = plan.gain / plan.cost if price is None else plan.gain - price * plan.cost
    assert score == pytest.approx(max(scores), rel=0.15)


def test_trials_of_a_batch_share_and_batches_do_not() -> None:
    """The set-up is charged once, and more trials are added where it is more expensive."""
    sizes = {}
    for setup in (0.1, 5.0):
        method = CostAware(BatchCost(setup, PER_TRIAL), budget=99, shared=["heat"], **FEW)
        simulation = Simulation(method, SPACE)
        sizes[setup] = [told(simulation, 6) for _ in range(4)]
        batches: dict[int, list[Any]] = {}
        for trial, entry in zip(simulation.trials, simulation.ledger, strict=True):
            batches.setdefault(trial.record["batch"], []).append((trial.parameters, entry))
        heats = [{row["heat"] for row, _ in batch} for batch in batches.values()]
        assert all(len(heat) == 1 for heat in heats)
        assert len(set.union(*heats)) > 1
        for batch in batches.values():
            rest = [entry.charged - method.cost_at(row) for row, entry in batch]  # type: ignore[operator]
            assert rest == pytest.approx([setup] + [0.0] * (len(batch) - 1))
    assert sum(sizes[5.0][1:]) > sum(sizes[0.1][1:])
    assert 1 <= min(sizes[0.1]) <= max(sizes[5.0]) <= 6


def test_a_full_batch() -> None:
    """From the first one on, as far as the budget pays."""
    method = CostAware(BatchCost(1.0, 1.0), budget=12.0, shared=["heat"], fill=True, **FEW)
    simulation = Simulation(method, SPACE)
    assert [told(simulation, 6), told(simulation, 6)] == [6, 4]
    assert sum(entry.charged for entry in simulation.ledger) == 12.0
    assert isinstance(simulation.ask_batch(6), Stop)


def test_a_batch_may_be_worth_its_price_where_one_trial_is_not() -> None:
    """With a set-up that one trial does not earn, and a run that ends once none does."""
    method = CostAware(BatchCost(6.0, 0.1), lmbda=0.045, shared=["heat"], **FEW)
    simulation = Simulation(method, SPACE)
    told(simulation, 3)
    assert isinstance(simulation.ask_batch(1), Stop)
    while not isinstance(simulation.ask_batch(8), Stop):
        told(simulation, 8)
        assert len(simulation.trials) < 60
    assert len(simulation.trials) > 3


def test_several_objectives() -> None:
    """A front, with outcome constraints, and a switching cost inside."""
    cost = BatchCost(3.0, SwitchingCost({"a": 0.1}, "seconds"))
    simulation = Simulation(
        CostAware(cost, budget=60, shared=["heat"], **FEW),
        SPACE,
        objectives=(Objective("objective"), Objective("waste", minimize=True)),
    )
    for _ in range(2):
        batch = simulation.ask_batch(4)
        assert not isinstance(batch, Stop)
        assert len({decision.parameters["heat"] for decision in batch}) == 1
        for decision in batch:
            row = decision.parameters
            waste = float(str(row["a"])) - value(row)
            simulation.tell(decision, Outcome(value(row), cost=4.0, metrics={"waste": waste}))


def test_as_in_ax(tmp_path: Path) -> None:
    """Batches of a client, after a trial that never ran, and of a loaded experiment."""
    client = make_client(cost=BatchCost(5.0, 1.0), lmbda=1e-5, stop=False, shared=["x1"], fill=True)
    for index, arm in client.get_next_trials(max_trials=4).items():
        client.complete_trial(index, {"y": objective(dict(arm))})
    path = str(tmp_path / "batch.json")
    client.save_to_json_file(path)
    second = client.get_next_trials(max_trials=3)
    assert second == Client.load_from_json_file(path).get_next_trials(max_trials=3)
    arms = [arm_of(client, i) for i in range(7)]
    assert len({arm["x1"] for arm in arms[:4]}) == len({arm["x1"] for arm in arms[4:]}) == 1
    assert arms[0]["x1"] != arms[4]["x1"]
    assert [e.charged for e in ac.spending(client).entries] == [6.0, 1, 1, 1, 6, 1, 1]
    client.mark_trial_abandoned(4)
    assert [e.charged for e in ac.spending(client).entries[4:]] == [0.0, 6.0, 1.0]
    why = ac.query(client, 4).why
    assert "share x1=" in why
    assert "3 trials" in why
    # What a caller fixes is shared, too.
    fixed = client.get_next_trials(max_trials=2, fixed_parameters={"x1": 0.25})
    assert [arm["x1"] for arm in fixed.values()] == [0.25, 0.25]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"cost": 1.0, "shared": "heat"}, "shared='heat'"),
        ({"cost": 1.0, "shared": ["heat", "heat"]}, "shared has 'heat' more than once"),
        ({"cost": 1.0, "shared": [1]}, "shared=1"),
        ({"cost": 1.0, "fill": 2}, "fill=2"),
        ({"cost": BatchCost(1.0, -2.0)}, "per_trial=-2.0"),
        ({"cost": SwitchingCost({"a": 1.0}, BatchCost(1.0, 1.0))}, "base=BatchCost"),
        ({"cost": 1.0, "repeats": "a", "shared": ["a"]}, "shared="),
    ],
    ids=str,
)
def test_settings_that_are_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        CostAware(**settings)


def test_arguments_that_are_refused() -> None:
    for setup, per_trial, named in ((0.0, 1.0, "setup"), (1.0, BatchCost(1.0, 1.0), "per_trial")):
        with pytest.raises(InputError, match=named):
            BatchCost(setup, per_trial)
    with pytest.raises(InputError, match="shared='x3'"):
        Simulation(CostAware(1.0, shared=["x3"]), SPACE)
    simulation = Simulation(CostAware(1.0), SPACE)
    with pytest.raises(InputError, match="num_trials"):
        simulation.ask_batch(0)
    client = make_client(cost=BatchCost(5.0, 1.0), budget=5.5, initial_trials=1)
    with pytest.raises(UserInputError, match=r"budget=5\.5"):
        client.get_next_trials(max_trials=2)


def test_a_set_up_of_fidelities() -> None:
    """It is charged once for each batch."""
    each = AffineCost({"epochs": 0.5}, fixed=0.5)
    method = MultiFidelity(BatchCost(3.0, each), target={"epochs": 8}, budget=60, **FEW)
    simulation = Simulation(
        method, Space.of([Range("heat", 0.0, 1.0), Range("epochs", 1, 8, True)])
    )
    for _ in range(2):
        batch = simulation.ask_batch(3)
        assert not isinstance(batch, Stop)
        started = [(decision, simulation.start(decision).index) for decision in batch]
        for decision, index in started:
            row = decision.parameters
            simulation.tell(decision, Outcome(value({"heat": row["heat"], "a": 0.3})), index)
    assert [entry.switching_cost for entry in simulation.ledger] == [3.0, 0, 0, 3.0, 0, 0]
