"""Nonlinear constraints on parameters, against brute force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.exceptions.core import UserInputError
from ax.exceptions.storage import JSONEncodeError
from botorch.acquisition.analytic import PosteriorMean

from ax_costaware import NonlinearConstraint, cost_aware_strategy, recommend
from ax_costaware.core import FixedHyperparameters, PastTrial, Simulation
from ax_costaware.core.optimize import maximize
from ax_costaware.core.simulation import Outcome, simulate
from ax_costaware.exceptions import InputError
from ax_costaware.methods import CostAware, MultiFidelity
from ax_costaware.space import Choice, Fixed, Range, Space
from tests.fresh import FreshProcess
from tests.resuming import Run

pytestmark = pytest.mark.usefixtures("short_searches")

FAST: dict[str, Any] = {"num_restarts": 4, "raw_samples": 64}
MODEL = FixedHyperparameters(0.5, 1.0, 1e-4)
PRODUCT = NonlinearConstraint("width * depth <= 400")


@pytest.mark.parametrize(
    ("text", "values", "sides"),
    [
        ("a * b <= 6", (2.0, 3.0), (6.0, 6.0)),
        ("2 >= a - -b / 4 ** 0.5", (2.0, 3.0), (3.5, 2.0)),
        ("(a + b) ** a <= +1e2", (2.0, 3.0), (25.0, 100.0)),
    ],
)
def test_both_sides(text: str, values: tuple[float, float], sides: tuple[float, float]) -> None:
    columns = {n: torch.tensor(v, dtype=torch.double) for n, v in zip("ab", values, strict=True)}
    constraint = NonlinearConstraint(text)
    assert constraint.names == ("a", "b")
    assert tuple(map(float, constraint.sides(columns))) == sides
    assert bool(constraint.holds(columns)) == (sides[0] <= sides[1])


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "a < 1", "a == 1", "a <= b <= c", "a and b <= 1", "1 <= 2", "a <="),
        *("__import__('os') <= a", "a.real <= 1", "a[0] <= 1", "a % 2 <= 1", "a <= 'x'"),
        *(
            "a <= True",
            "(lambda: a) <= 1",
            "a <= 1j",
            "-" * 999 + "a <= 1",
            "a + " * 999 + "a <= 1",
        ),
        None,
    ],
)
def test_refused(text: Any) -> None:
    with pytest.raises(InputError, match="expected an inequality with <= or >="):
        NonlinearConstraint(text)


SPACE = Space.of(
    [
        Range("width", 1, 60, is_integer=True),
        Range("depth", 1.0, 100.0, log_scale=True),
        Choice("kind", ("a", "b", "c")),
        Fixed("layers", 2),
    ]
)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (NonlinearConstraint("heigth * width <= 1"), "reads 'heigth', which is no numeric"),
        (NonlinearConstraint("kind * width <= 1"), r"reads 'kind', .*\['width', 'depth', 'layers'"),
        (lambda _: 1.0, "gave 1.0 for .*expected True or False"),
        ("width * depth <= 400", r"input_constraints=.*expected a list of Nonlinear"),
        (NonlinearConstraint("width * depth <= 0.5"), "no point among 10000 met .*depth <= 0.5"),
    ],
)
def test_refused_before_anything_is_spent(given: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        Simulation(CostAware(1.0, input_constraints=[given]), SPACE).ask()
    with pytest.raises(InputError, match="expected a list of Nonlinear"):
        CostAware(1.0, input_constraints=given)
    fidelity = MultiFidelity(1.0, target={"width": 60}, input_constraints=[PRODUCT])
    with pytest.raises(InputError, match="is in a parameter constraint"):
        Simulation(fidelity, SPACE)


@pytest.mark.parametrize(
    "constraint", [PRODUCT, lambda row: row["width"] * row["depth"] <= 400], ids=["text", "code"]
)
def test_trials_satisfy_it_and_reach_its_edge(constraint: Any) -> None:
    """The best point has the product 400, where width is largest."""

    def run(row: Any, _: bool) -> Outcome:
        return Outcome(row["width"] / 60 + 0.3 * row["depth"] / 100 + 0.1 * (row["kind"] == "b"))

    method = CostAware(1.0, budget=12, initial_trials=4, input_constraints=[constraint], **FAST)
    simulation = simulate(method, SPACE, run, 12, hyperparameters=MODEL)
    products = [t.parameters["width"] * t.parameters["depth"] for t in simulation.trials]
    assert len(products) == 12
    assert max(products) <= 400 * (1 + 1e-9)
    best = max(t.outcome or 0.0 for t in simulation.trials)
    assert best > 1 + 0.3 * (400 / 60) / 100 + 0.1 - 0.02


@pytest.mark.parametrize("equality", [False, True])
def test_maximum_is_that_of_a_grid(equality: bool) -> None:
    """Of a posterior mean, with a second, linear constraint."""
    space = Space.of(
        [Range(name, 0, 1) for name in "abc"],
        [({"b": 1.0, "a": -1.0}, 0.2)],
        equalities=[({"a": 1.0, "c": 1.0}, 1.0)] if equality else (),
    )
    constraint = NonlinearConstraint("a ** 2 + b ** 2 <= 0.5")
    trials = [
        PastTrial(i, row, "COMPLETED", row["a"] + 2 * row["b"] - row["c"], True)  # type: ignore[operator]
        for i, row in enumerate(space.sobol_rows(12))
    ]
    method = CostAware(1.0, input_constraints=[constraint], **FAST)
    problem = Simulation(method, space, hyperparameters=MODEL, trials=trials).problem()
    mean = PosteriorMean(problem.model)
    found = maximize(problem, mean, FAST)
    steps = torch.linspace(0, 1, 61, dtype=torch.double)
    a, b = torch.cartesian_prod(steps, steps).T
    # Without the equality the mean falls with c.
    grid = problem.space.feasible(torch.stack([a, b, 1 - a if equality else 0 * a], dim=-1))
    with torch.no_grad():
        best = float(mean(grid.unsqueeze(-2)).max())
    assert bool(problem.space.keeps(found.point))
    assert found.value >= best - 1e-3


def test_enumerated_spaces() -> None:
    """Every allowed point is tried, and then the run stops."""
    space = Space.of([Range("a", 1, 5, is_integer=True), Range("b", 1, 5, is_integer=True)])
    method = CostAware(
        1.0, initial_trials=2, input_constraints=[NonlinearConstraint("a * b <= 5")], **FAST
    )
    simulation = simulate(method, space, lambda row, _: Outcome(float(row["a"])), 20)  # type: ignore[arg-type]
    tried = sorted((t.parameters["a"], t.parameters["b"]) for t in simulation.trials)  # type: ignore[type-var]
    assert tried == [(a, b) for a in range(1, 6) for b in range(1, 6) if a * b <= 5]


def make_client(run: Run | None = None, **strategy: Any) -> Client:
    client = Client(storage_config=None if run is None else run.config)
    client.configure_experiment(
        name="toy",
        parameters=[RangeParameterConfig(n, bounds=(0.1, 2), parameter_type="float") for n in "ab"],
    )
    client.configure_optimization("y")
    given = {"input_constraints": [NonlinearConstraint("a * b <= 1")], **strategy}
    client.set_generation_strategy(
        cost_aware_strategy(1.0, initial_trials=2, surrogate_spec=MODEL, **FAST, **given)
    )
    return client


def test_a_loaded_run_goes_on(tmp_path: Path, fresh_process: FreshProcess) -> None:
    run = Run(tmp_path)
    client = make_client(run)
    for _ in range(3):
        index, arm = run.decide(client)
        assert arm["a"] * arm["b"] <= 1 + 1e-9
        client.complete_trial(index, {"y": arm["a"] + arm["b"] ** 2})
        run.store(client)
    run.decide(client)
    run.assert_resumed_alike(fresh_process)


def test_past_data_are_learned_from_and_never_deployed(tmp_path: Path) -> None:
    client = make_client(input_constraints=[lambda row: row["a"] * row["b"] <= 1])
    for a, b in ((2.0, 2.0), (0.5, 0.5), (1.5, 0.5)):
        index = client.attach_trial({"a": a, "b": b})
        client.complete_trial(index, {"y": a + b})
    found = recommend(client)
    assert found.parameters == {"a": 1.5, "b": 0.5}
    assert all(other.parameters["a"] != 2.0 for other in found.alternatives)
    (arm,) = client.get_next_trials(max_trials=1).values()
    assert float(arm["a"]) * float(arm["b"]) <= 1 + 1e-9  # type: ignore[arg-type]
    with pytest.raises(JSONEncodeError, match=r"input_constraints has the function .*Nonlinear"):
        client.save_to_json_file(str(tmp_path / "toy.json"))
    client = make_client(input_constraints=[NonlinearConstraint("c <= 1")])
    with pytest.raises(UserInputError, match="reads 'c', which is no numeric parameter"):
        client.get_next_trials(max_trials=1)
