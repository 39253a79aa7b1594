"""Budgets in several units: none is exceeded, and the scarcer one decides."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.exceptions.core import OptimizationShouldStop, UserInputError

import ax_costaware as ac
from ax_costaware.core import Outcome, Simulation, Stop
from ax_costaware.costs import AffineCost, BatchCost, Budget, SwitchingCost
from ax_costaware.costs.cost_model import ScarcestCost
from ax_costaware.exceptions import InputError
from ax_costaware.methods import CostAware, Gittins
from ax_costaware.space import Range, Space

FEW: dict[str, Any] = {"num_restarts": 2, "raw_samples": 32, "initial_trials": 3}
SPACE = Space.of([Range("a", 0.0, 1.0), Range("b", 0.0, 1.0)])
DOLLARS, HOURS = AffineCost({"a": 3.0}, fixed=1.0), AffineCost({"b": 3.0}, fixed=1.0)


def value(row: Any) -> float:
    """A hill where both costs are large."""
    return math.exp(-2 * ((float(row["a"]) - 0.9) ** 2 + (float(row["b"]) - 0.9) ** 2))


def run(dollars: float, hours: float, cost: Any = HOURS, size: int = 1) -> Simulation:
    """Run until a stop, with the costs of ``HOURS``, reported where they are learned."""
    method = CostAware(
        cost={"dollars": DOLLARS, "hours": cost},  # type: ignore[arg-type]
        budget={"dollars": dollars, "hours": hours},  # type: ignore[arg-type]
        **FEW,
    )
    simulation = Simulation(method, SPACE)
    while not isinstance(batch := simulation.ask_batch(size), Stop):
        started = [(decision, simulation.start(decision).index) for decision in batch]
        for decision, index in started:
            row = decision.parameters
            metrics = {"hours": HOURS.at(row)} if isinstance(cost, str) else None
            simulation.tell(decision, Outcome(value(row), metrics=metrics), index)
        assert len(simulation.trials) < 60
    return simulation


def test_the_scarcest_cost() -> None:
    """The largest share, in the unit of the first budget, by hand."""
    X = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.double)
    costs = (lambda X: 1 + 3 * X[:, 0]), (lambda X: 1 + 3 * X[:, 1])
    found = ScarcestCost(costs, (10.0, 5.0)).log_cost(X).exp()
    assert found.tolist() == pytest.approx([2.0, 4.0, 8.0])  # of ten: 1/5, 4/10, 4/5


@pytest.mark.parametrize(
    ("dollars", "hours", "size"), [(20.0, 50.0, 3), (50.0, 16.0, 1), (16.0, 16.0, 3)]
)
def test_no_budget_is_exceeded(dollars: float, hours: float, size: int) -> None:
    """And the run goes on until one of them pays for no trial."""
    simulation = run(dollars, hours, size=size)
    spent = [
        math.fsum(cost.at(trial.parameters) for trial in simulation.trials)
        for cost in (DOLLARS, HOURS)
    ]
    assert spent[0] <= dollars * (1 + 1e-9)
    assert spent[1] <= hours * (1 + 1e-9)
    assert min(dollars - spent[0], hours - spent[1]) < 1.0  # the cheapest trial costs one
    recorded = [trial.record["further_costs"]["hours"] for trial in simulation.trials]
    assert recorded == pytest.approx([HOURS.at(trial.parameters) for trial in simulation.trials])


def test_trials_spare_the_scarcer_budget() -> None:
    """The input that is expensive in its unit is smaller on average."""
    means = []
    for dollars, hours in ((20.0, 99.0), (99.0, 20.0)):
        trials = run(dollars, hours).trials[3:]
        means.append([sum(float(str(t.parameters[n])) for t in trials) / len(trials) for n in "ab"])
    assert means[0][0] < means[1][0]
    assert means[0][1] > means[1][1]


def test_the_initial_design_has_its_share_of_each_budget() -> None:
    """A fifth of the scarcer one, although most of the points are expensive in it."""
    trials = run(99.0, 30.0).trials[:3]
    assert math.fsum(HOURS.at(trial.parameters) for trial in trials) <= 1.25 * 6.0


def test_a_learned_cost_in_a_further_unit() -> None:
    """It is exceeded by less than one trial, and charged as reported."""
    simulation = run(60.0, 20.0, cost="hours")
    spent = math.fsum(HOURS.at(trial.parameters) for trial in simulation.trials)
    assert 16.0 < spent < 24.0
    assert simulation.method.reads == ("hours",)


def client_of(**settings: Any) -> Client:
    client = Client()
    client.configure_experiment(
        name="units",
        parameters=[RangeParameterConfig(name, (0.0, 1.0), "float") for name in "ab"],
    )
    client.configure_optimization("y")
    given: dict[str, Any] = {
        "cost": {"dollars": DOLLARS, "hours": "hours"},
        "budget": {"dollars": 20.0, "hours": 30.0},
    }
    client.configure_tracking_metrics(["hours"])
    client.set_generation_strategy(ac.cost_aware_strategy(**{**given, **FEW, **settings}))
    return client


def told(client: Client) -> None:
    ((index, row),) = client.get_next_trials(max_trials=1).items()
    ac.complete_trial(
        client, index, {"y": value(row), "hours": HOURS.at(row)}, cost=DOLLARS.at(row)
    )


def test_in_ax(tmp_path: Path) -> None:
    """Both accounts, a loaded experiment, a failed trial, and budgets that change."""
    client = client_of()
    for _ in range(3):
        told(client)
    ((failed, _),) = client.get_next_trials(max_trials=1).items()
    client.mark_trial_failed(failed)
    path = str(tmp_path / "units.json")
    client.save_to_json_file(path)
    loaded = Client.load_from_json_file(path)
    assert loaded.get_next_trials(max_trials=2) == client.get_next_trials(max_trials=2)
    account = ac.spending(client)
    assert account.unit == "dollars"
    hours = account.further["hours"]
    rows = [client._experiment.trials[i].arms[0].parameters for i in range(3)]
    assert [e.charged for e in hours.entries[:3]] == pytest.approx([HOURS.at(r) for r in rows])
    assert hours.entries[3].charged > 0
    assert f"Spent {hours.spent:.6g} of 30 hours" in str(account)
    assert " hours" in ac.query(client, failed).why
    with pytest.raises(UserInputError, match=r"budget\['hours'\]=1"):
        ac.set_budget(client, {"hours": 1.0})
    with pytest.raises(UserInputError, match="units out of"):
        ac.set_budget(client, {"days": 1.0})
    ac.set_budget(client, {"hours": hours.spent + 1e-6})
    with pytest.raises(OptimizationShouldStop, match="e-06 hours pays for no trial"):
        client.get_next_trials(max_trials=1)
    ac.set_budget(client, {"hours": 60.0, "dollars": 50.0})
    assert ac.spending(client).budget == 50.0
    told_before = len(ac.spending(client).entries)
    told(client)
    assert len(ac.spending(client).entries) == told_before + 1
    ((index, row),) = client.get_next_trials(max_trials=1).items()
    with pytest.raises(UserInputError, match="lacks 'hours'"):
        ac.complete_trial(client, index, {"y": value(row)}, cost=1.0)


BOTH = {"dollars": 1.0, "hours": 2.0}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"cost": BOTH, "budget": 3.0}, "budget=3.0"),
        ({"cost": 1.0, "budget": BOTH}, "cost=1.0"),
        ({"cost": BOTH, "budget": {"dollars": 1.0}}, "by the same names"),
        ({"cost": {"hours": 1.0}, "budget": {"hours": 1.0}}, "two or more units"),
        ({"cost": BOTH, "budget": {**BOTH, "hours": -1.0}}, "total=-1.0"),
        ({"cost": {**BOTH, "hours": math.nan}, "budget": BOTH}, "nan"),
        ({"cost": {**BOTH, "hours": SwitchingCost({"a": 1.0}, 1.0)}, "budget": BOTH}, "switching"),
        ({"cost": {**BOTH, "hours": BatchCost(1.0, 1.0)}, "budget": BOTH}, "set-ups"),
        ({"cost": BOTH, "budget": BOTH, "lmbda": 1.0}, "lmbda=1.0 with several budgets"),
        ({"cost": BOTH, "budget": BOTH, "stop": True}, "stop=True with several budgets"),
        ({"cost": {"a": "s", "b": "s"}, "budget": {"a": 1.0, "b": 1.0}}, "'s' more than once"),
        ({"cost": 1.0, "further_budgets": [Budget("hours", 1.0, 1.0)]}, "budget=None"),
        ({"cost": 1.0, "budget": 1.0, "further_budgets": [1.0]}, "a sequence of Budget"),
    ],
    ids=str,
)
def test_settings_that_are_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        CostAware(**settings)


def test_what_else_is_refused() -> None:
    with pytest.raises(InputError, match="one unit"):
        Gittins(cost=BOTH, budget=BOTH)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unit"):
        Budget("", 1.0, 1.0)
    client = client_of(cost={"dollars": 1.0, "hours": "minutes"})
    with pytest.raises(UserInputError, match="'minutes', which the experiment does not have"):
        client.get_next_trials(max_trials=1)
    for cost in (AffineCost({"z": 1.0}), AffineCost({"a": -9.0}, fixed=1.0)):
        client = client_of(cost={"dollars": 1.0, "hours": cost})
        with pytest.raises(UserInputError, match="cost="):
            client.get_next_trials(max_trials=1)
