"""Whole runs of ``resolution_tree_strategy`` on Ax's Client and AxClient."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.exceptions.core import (
    OptimizationShouldStop,
    UnsupportedError,
    UserInputError,
)
from scipy.stats import norm

from ax_costaware import (
    complete_trial,
    level_parameter,
    query,
    recommend,
    resolution_tree_strategy,
    spending,
)
from ax_costaware.ax_bridge.node import fitted_problem, method_of_class
from ax_costaware.core import Simulation
from ax_costaware.core.history import PastTrial
from ax_costaware.core.problem import Decision, Problem
from ax_costaware.core.simulation import Outcome
from ax_costaware.methods import averages
from ax_costaware.methods.averages.information import posterior
from ax_costaware.methods.resolution_tree import TreeSearch
from ax_costaware.methods.resolution_tree.tree import Cell, ResolutionTree
from ax_costaware.space import Range, Space
from tests.ax.indirect_toy import record
from tests.ax.tree_toy import BEST, MAX_LEVEL, TARGETS, cell_mean, make_client, run_trials

pytestmark = pytest.mark.usefixtures("short_searches")

TREE = ResolutionTree((0, -5), (10, 5), MAX_LEVEL)


def now(client: Client) -> tuple[TreeSearch, Problem]:
    """The method, and what the next decision is made from, with the model fitted to all data."""
    strategy = client._generation_strategy
    return method_of_class(strategy, TreeSearch), fitted_problem(client._experiment, strategy)


def cells_of(arms: list[dict[str, Any]]) -> list[Cell]:
    """The cells of trials."""
    return [TREE.cell_at(arm["level"], (arm["x1"], arm["x2"])) for arm in arms]


def test_decisions_are_those_of_the_tree() -> None:
    """Root and children first; then active cells, replayed; budget and record are right."""
    client = make_client(budget=16.0)
    arms = run_trials(client, 5)
    assert cells_of(arms) == [TREE.root, *TREE.children(TREE.root)]
    while True:
        try:
            (arm,) = run_trials(client, 1)
        except OptimizationShouldStop as stop:
            message = str(stop)
            break
        measured = cells_of(arms)
        (cell,) = cells_of([arm])
        assert cell in TREE.active(measured)
        decided = record(client, len(arms))
        decision = decided["decision"]
        assert decided["expected_cost"] == decision["cost"] == TREE.cost(cell.level)
        assert (decision["level"], tuple(decision["cell"])) == (cell.level, cell.index)
        assert decision["leaves"] == len(TREE.leaves(measured))
        assert decision["active"] == len(TREE.active(measured))
        assert decision["value"] == pytest.approx(decision["information"] / decision["cost"])
        assert decision["spent"] == sum(TREE.cost(c.level) for c in measured)
        assert f"level {cell.level} tells" in decided["why"]
        arms.append(arm)
    paid = sum(TREE.cost(cell.level) for cell in cells_of(arms))
    assert spending(client).spent == paid <= 16.0
    assert "what is left pays for no" in message
    best = recommend(client)
    assert f"Deploy {best.parameters}" in message
    assert math.dist([float(str(v)) for v in best.parameters.values()], BEST) < 1.0
    assert best.expected_value == pytest.approx(1.0, abs=3 * best.standard_deviation)
    assert best.expected_cost is None
    assert max(arm["level"] for arm in arms) > 1
    assert query(client, 0).expected_cost == 0.5


def test_noise_of_levels() -> None:
    """Given per level it reaches the model, and the acquisition function; reported errors count."""
    noise = (0.4, 0.3, 0.2, 0.1)
    client = make_client(noise=noise)
    run_trials(client, 5)
    _, problem = now(client)
    rows = problem.space.encode([{"level": level, "x1": 5.0, "x2": 0.0} for level in range(4)])
    square = problem.scale.unit**2
    found = (square * posterior(problem).noise_at(rows)).tolist()
    assert found == pytest.approx([sd**2 for sd in noise])
    model: Any = problem.model
    assert (square * model.likelihood.noise).tolist() == pytest.approx([0.16] + 4 * [0.09])
    fitted = make_client(hyperparameters=None, noise=0.1)
    run_trials(fitted, 6)
    exact = make_client(noise=0.5)
    for arm in ({"level": 0, "x1": 5.0, "x2": 0.0}, {"level": 1, "x1": 2.5, "x2": 2.5}):
        complete_trial(exact, exact.attach_trial(arm), {"z": (cell_mean(arm), 0.01)})
    _, problem = now(exact)
    model, square = problem.model, problem.scale.unit**2
    assert (square * model.likelihood.noise).tolist() == pytest.approx([1e-4, 1e-4])
    rows = problem.space.encode([{"level": 2, "x1": 1.25, "x2": 1.25}])
    assert square * posterior(problem).noise_at(rows).item() == pytest.approx(0.25)


def test_batches_and_attached_cells() -> None:
    """Pending cells count as measured; a cell below all others may be attached."""
    client = make_client(budget=40.0, initial_trials=2)
    first = client.get_next_trials(max_trials=2)
    for index, arm in first.items():
        complete_trial(client, index, {"z": cell_mean(dict(arm))})
    batch = client.get_next_trials(max_trials=4)
    found = cells_of([dict(arm) for arm in batch.values()])
    assert len(set(found)) == 4
    fine = {"level": 3, "x1": 0.625, "x2": -4.375}
    complete_trial(client, client.attach_trial(fine), {"z": cell_mean(fine)})
    (arm,) = run_trials(client, 1)
    measured = [*cells_of([dict(one) for one in first.values()]), *found, *cells_of([fine])]
    assert cells_of([arm])[0] in TREE.active(measured)
    assert spending(client).entries[6].charged == 2.0
    # What is left pays for two of the most expensive.
    few = make_client(budget=8.9)
    run_trials(few, 5)
    assert len(few.get_next_trials(max_trials=5)) == 2


def initial_levels(count: int, **strategy: Any) -> list[int]:
    client = make_client(initial_trials=count, **strategy)
    return [int(arm["level"]) for arm in run_trials(client, count)]


def test_the_initial_design_passes_over_levels_that_cannot_be_paid() -> None:
    assert initial_levels(3, costs=[1, 10, 2, 2], budget=9.0) == [0, 2, 2]
    assert initial_levels(3, costs=[10, 1, 2, 3], budget=8.0) == [1, 1, 1]
    assert initial_levels(6, costs=[10, 1, 2, 3], max_trial_cost=5.0) == [1, 1, 1, 1, 2, 2]
    client = make_client(costs=[2, 1, 5, 5], budget=3.5)
    arms = run_trials(client, 2)
    with pytest.raises(OptimizationShouldStop, match=r"pays for no trial.*or raise the budget"):
        client.get_next_trials(max_trials=1)
    assert [arm["level"] for arm in arms] == [0, 1]
    client = make_client(max_trial_cost=0.4)
    with pytest.raises(UserInputError, match=r"max_trial_cost=0.4.* or raise max_trial_cost"):
        client.get_next_trials(max_trials=1)


def test_the_initial_design_passes_over_what_was_measured() -> None:
    """As an attached cell; one that was excluded comes again, and the finest when all are done."""
    x = Range("x", 0, 1)
    method = TreeSearch(target_parameters=(x,), max_level=1, initial_trials=9)
    space = Space.of([Range("level", 0, 1, is_integer=True), x])
    attached = PastTrial(0, {"level": 1, "x": 0.25}, outcome=0.1, is_observed=True)
    simulation = Simulation(method, space, trials=[attached])
    found = []
    for i in range(6):
        decision = simulation.ask()
        assert isinstance(decision, Decision)
        trial = simulation.tell(decision, Outcome(0.5))
        if i == 1:
            simulation.trials[-1] = replace(trial, status="ABANDONED", is_excluded=True)
        found.append((decision.parameters["level"], decision.parameters["x"]))
    assert found == [(0, 0.5), (1, 0.75), (1, 0.75), (1, 0.25), (1, 0.75), (1, 0.25)]


@pytest.mark.parametrize("minimize", [False, True])
def test_from_the_prior(minimize: bool) -> None:
    """CMETS as published: the first cell, too, has the most information per cost."""
    client = make_client(minimize, initial_trials=0, keep_siblings=False, num_samples=512)
    ((_, arm),) = client.get_next_trials(max_trials=1).items()
    # Independent: maxima of samples on a grid, and variances of averages by quadrature.
    side = (np.arange(24) + 0.5) / 24
    K = np.exp(-((side[:, None] - side) ** 2) / (2 * 0.2**2))
    root = np.linalg.cholesky(K + 1e-9 * np.eye(24))
    draws = np.random.default_rng(0).standard_normal((512, 24, 24))
    best = np.array([(root @ draw @ root.T).max() for draw in draws])
    values = []
    for part, cost in ((slice(0, 24), 0.5), (slice(0, 12), 1.0)):
        gamma = best / K[part, part].mean()  # the variance is a product of two columns
        nats = gamma * norm.pdf(gamma) / (2 * norm.cdf(gamma)) - norm.logcdf(gamma)
        values.append(float(nats.mean()) / cost)
    assert abs(values[0] - values[1]) > 0.2 * max(values)
    assert arm["level"] == int(values[1] > values[0])
    decision = record(client, 0)["decision"]
    assert decision["value"] == pytest.approx(max(values), rel=0.1)
    assert (decision["mean"], decision["active"]) == (pytest.approx(0.0, abs=1e-6), 5)


def test_as_published_siblings_are_no_leaves() -> None:
    client = make_client(initial_trials=0, keep_siblings=False)
    arms = run_trials(client, 6)
    method, _ = now(client)
    cells = [method.cell_of(arm) for arm in arms]
    for i in range(6):
        leaves, active = method.tree.published(cells[:i])
        decision = record(client, i)["decision"]
        assert (decision["leaves"], decision["active"]) == (len(leaves), len(active))
        assert cells[i] in active


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"keep_siblings": 1}, "keep_siblings=1"),
        ({"max_level": 0}, "max_level=0"),
        ({"max_level": 99}, "max_level=99"),
        ({"splits": 1}, "splits="),
        ({"splits": 1000}, "splits=1000"),
        ({"costs": [1.0, 2.0]}, "costs="),
        ({"noise": -1.0}, "noise"),
        ({"noise": [0.0, 1, 1, 1]}, "noise"),
        ({"target_parameters": [RangeParameterConfig("k", (1, 9), "int")]}, "'k'"),
        ({"target_parameters": [RangeParameterConfig("level", (0, 1), "float")]}, "level"),
    ],
)
def test_settings_that_do_not_fit(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UserInputError, match=named):
        resolution_tree_strategy(
            **{"target_parameters": TARGETS, "max_level": MAX_LEVEL, **options}
        )


HALF = RangeParameterConfig("x2", (0, 5), "float")


@pytest.mark.parametrize(
    ("parameters", "constraints", "error", "named"),
    [
        (TARGETS, (), UserInputError, "level"),
        ([level_parameter(2), *TARGETS], (), UserInputError, "level"),
        ([level_parameter(3), TARGETS[0], HALF], (), UserInputError, "x2"),
        ([level_parameter(3), *TARGETS], ("x1 <= x2",), UnsupportedError, "x1"),
    ],
)
def test_experiments_that_do_not_fit(
    parameters: list[Any], constraints: tuple[str, ...], error: type[Exception], named: str
) -> None:
    """They are refused before the first trial."""
    client = Client()
    client.configure_experiment(parameters=parameters, parameter_constraints=list(constraints))
    client.configure_optimization(objective="z")
    client.set_generation_strategy(resolution_tree_strategy(TARGETS, MAX_LEVEL))
    with pytest.raises(error, match=named):
        client.get_next_trials(max_trials=1)


@pytest.mark.parametrize("initial_trials", [None, 0])
def test_a_trial_that_is_no_cell(initial_trials: int | None) -> None:
    """It is refused by its index; so are values to fix that no cell has."""
    arm = {"level": 2, "x1": 2.5, "x2": 2.5}
    client = make_client(initial_trials=initial_trials)
    with pytest.raises(UserInputError, match="x1"):
        client.get_next_trials(max_trials=1, fixed_parameters={"x1": 0.3})
    client.complete_trial(client.attach_trial(arm), {"z": 0.5})
    with pytest.raises(UserInputError, match="trial 0"):
        client.get_next_trials(max_trials=1)


def test_where_no_cell_tells_anything_the_one_known_least_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Information can underflow; the first cell would be no answer."""
    monkeypatch.setattr(
        averages, "information_of", lambda *_: lambda X: torch.zeros(len(X)).double()
    )
    client = make_client(acquisition="max_value_entropy")
    arms = run_trials(client, 6)
    *measured, chosen = cells_of(arms)
    assert chosen != TREE.active(measured)[0]
