"""Ax's own views of an experiment: predictions, cross-validation, analyses, the best point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from ax.adapter.cross_validation import cross_validate
from ax.adapter.torch import TorchAdapter
from ax.analysis.plotly.arm_effects import ArmEffectsPlot
from ax.analysis.plotly.cross_validation import CrossValidationPlot
from ax.analysis.plotly.surface.slice import SlicePlot
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

from ax_costaware import complete_trial, cost_aware_strategy
from ax_costaware.ax_bridge.node import fitted_problem
from ax_costaware.core.model import winsorized
from tests.ax import gittins_toy
from tests.ax.toy import arm_of, make_client, run_trials
from tests.resuming import load

pytestmark = pytest.mark.usefixtures("short_searches")

ARM: dict[str, Any] = {"control_set": "x1+x2", "x1": 0.25, "x2": 0.5, "x3": 0.5}


def adapter_of(client: Client) -> Any:
    """What Ax's views ask."""
    adapter = client._generation_strategy.adapter
    assert isinstance(adapter, TorchAdapter)
    return adapter


def by_the_loop(client: Client, points: list[dict[str, Any]]) -> dict[str, tuple[Any, Any]]:
    """Means and standard deviations that decisions are made from, by metric."""
    problem = fitted_problem(client._experiment, client._generation_strategy)
    X = problem.space.encode(points)
    models: dict[str, Any] = {problem.objective: (problem.model, problem.scale)}
    models |= {bound.metric: (bound.model(), bound.scale) for bound in problem.constraints}
    found = {}
    for name, (model, scale) in models.items():
        with torch.no_grad():
            posterior = model.posterior(X.unsqueeze(-2))
        mean, variance = scale.moments(posterior.mean, posterior.variance)
        found[name] = (mean.flatten(), variance.flatten().sqrt())
    return found


def check_predictions(client: Client, points: list[dict[str, Any]], rel: float = 1e-6) -> None:
    """They are those of the loop, of the objective and of what has bounds."""
    found, expected = client.predict(points), by_the_loop(client, points)
    for name, (means, deviations) in expected.items():
        assert [one[name][0] for one in found] == pytest.approx(means.tolist(), rel=rel)
        assert [one[name][1] for one in found] == pytest.approx(deviations.tolist(), rel=rel)
    assert all(one.keys() == expected.keys() for one in found)


@pytest.fixture(scope="module")
def finished(short_searches: None) -> Client:
    """A client after twelve trials."""
    client = make_client(minimize=True)
    run_trials(client, 12, -1.0)
    return client


def test_predictions_are_those_of_decisions(finished: Client) -> None:
    """At inputs as they were realized; the control set says nothing about the outcome."""
    client = finished
    points = [{**ARM, "control_set": name, "x1": x} for name in ("x1", "x1+x2") for x in (0, 0.7)]
    check_predictions(client, points)
    assert client.predict(points[:2]) == client.predict(points[2:])
    observed = fitted_problem(client._experiment, client._generation_strategy).observed
    (X,) = adapter_of(client).generator.surrogate.Xs
    assert X.tolist() == [[trial.inputs[n] for n in ("x1", "x2", "x3")] for trial in observed]
    assert adapter_of(client).parameters == ["x1", "x2", "x3"]


@pytest.mark.filterwarnings("ignore:.*lies outside the bounds")
def test_inputs_that_came_out_differently() -> None:
    """A controlled one, and one outside of its bounds; what was planned is left as it is."""
    client = make_client(initial_trials=0)
    client.attach_trial(ARM)
    complete_trial(client, 0, {"y": 1.0}, realized={"x1": 0.75, "x3": 0.125})
    client.attach_trial(ARM)
    complete_trial(client, 1, {"y": 2.0}, realized={"x3": 1.5})
    (X,) = adapter_of(client).generator.surrogate.Xs
    assert X.tolist() == [[0.75, 0.5, 0.125], [0.25, 0.5, 1.5]]
    check_predictions(client, [ARM])
    assert arm_of(client, 0) == arm_of(client, 1) == ARM
    ((_, arm),) = client.get_next_trials(max_trials=1).items()
    assert 0.0 <= float(arm["x3"]) <= 1.0


def every_kind(**strategy: Any) -> Client:
    """An experiment with parameters of all kinds, a bound, and a metric that is only tracked."""
    client = Client()
    client.configure_experiment(
        name="every",
        parameters=[
            ChoiceParameterConfig("soil", ["sand", "clay", "peat"], "str", is_ordered=False),
            RangeParameterConfig("rate", (0.01, 1.0), "float", scaling="log"),
            ChoiceParameterConfig("lamp", [20, 1, 5], "int", is_ordered=True),
            RangeParameterConfig("pots", (1, 4), "int"),
            ChoiceParameterConfig("lid", [True, False], "bool", is_ordered=False),
        ],
    )
    client.configure_optimization("-y", outcome_constraints=["heat <= 1000.5"])
    client.configure_tracking_metrics(["noise"])
    options = {"initial_trials": 4, "num_restarts": 2, "raw_samples": 32, **strategy}
    client.set_generation_strategy(cost_aware_strategy(1.0, **options))
    return client


def test_predictions_of_a_mixed_space_with_a_bound(tmp_path: Path) -> None:
    """By fitted models, of the bounded outcome, too, in raw units; loaded they are the same."""
    client = every_kind()
    for _ in range(6):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        values = {"y": 1000.0 + 50.0 * float(arm["rate"]), "heat": 1000.0 + int(arm["pots"]) / 4}
        complete_trial(client, index, {**values, "noise": 1.0})
    points = [{**arm_of(client, index), "rate": 0.5} for index in range(6)]
    check_predictions(client, points, rel=1e-4)
    assert 900 < client.predict(points[:1])[0]["y"][0] < 1100
    path = str(tmp_path / "toy.json")
    client.save_to_json_file(path)
    assert load(path).predict(points) == client.predict(points)


def test_outliers_are_clipped_as_for_decisions() -> None:
    """And the views show what was reported."""
    outcomes = [3.0, 1.0, 2.0, 2.5, 1.5, -40.0, 60.0, 2.2]
    client = gittins_toy.make_client(initial_trials=8, surrogate_spec=None)
    for outcome in outcomes:
        (index,) = client.get_next_trials(1)
        client.complete_trial(index, {"y": outcome})
    (data,) = adapter_of(client).generator.surrogate.training_data
    expected = winsorized(torch.tensor(outcomes, dtype=torch.double), False, 1.5)
    problem = fitted_problem(client._experiment, client._generation_strategy)
    clipped = problem.scale.from_model(data.Y.flatten()).tolist()
    assert clipped == pytest.approx(expected.tolist())
    assert clipped != pytest.approx(outcomes)
    shown = adapter_of(client).get_training_data().observation_data
    assert shown["mean", "y"].tolist() == outcomes
    check_predictions(client, [{"x1": 0.1, "x2": 0.7}], rel=1e-4)


def test_cross_validation_and_analyses(finished: Client) -> None:
    """Each left-out trial is predicted from the others, at its realized inputs."""
    client = finished
    found = cross_validate(adapter_of(client))
    assert len(found) == 12
    observed = fitted_problem(client._experiment, client._generation_strategy).observed
    outcomes = sorted(trial.outcome for trial in observed if trial.outcome is not None)
    assert sorted(one.observed.data.means[0] for one in found) == pytest.approx(outcomes)
    errors = [abs(one.observed.data.means[0] - one.predicted.means[0]) for one in found]
    assert 1e-6 < sum(errors) / len(errors) < 0.3
    analyses = [CrossValidationPlot("y"), SlicePlot("x1", "y"), ArmEffectsPlot("y")]
    cards = [
        card
        for group in client.compute_analyses(analyses, display=False)
        for card in group.flatten()
    ]
    assert len(cards) >= 3
    assert not [card.blob for card in cards if "Error" in type(card).__name__]
