"""Several objectives in an Ax experiment: thresholds, the front, cards, and Ax's own views."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.core.analysis_card import NotApplicableStateAnalysisCard
from ax.exceptions.core import UnsupportedError, UserInputError

import ax_costaware as ac
from ax_costaware.acquisition.hypervolume_improvement import hypervolume
from ax_costaware.analysis import FrontAnalysis, overview
from ax_costaware.ax_bridge.checks import check_optimization_config, objectives_of
from ax_costaware.ax_bridge.node import node_of
from ax_costaware.display import display_cost

COST = ac.AffineCost({"a": 2.0}, fixed=0.5)
BOUNDS = ["gain >= -0.5", "waste <= 1.5"]


def outcomes(parameters: Any) -> dict[str, float]:
    """A gain and a waste that both rise with ``a``."""
    a, b = float(parameters["a"]), float(parameters["b"])
    off = (b - 0.5) ** 2
    return {"gain": a - 2 * off, "waste": a**2 + off}


def make_client(
    objective: str = "gain, -waste", bounds: list[str] | None = None, **fields: Any
) -> Client:
    client = Client()
    client.configure_experiment(
        name="front", parameters=[RangeParameterConfig(n, (0.0, 1.0), "float") for n in "ab"]
    )
    client.configure_optimization(objective, BOUNDS if bounds is None else bounds)
    fields = {"budget": 30.0, "initial_trials": 3, "num_restarts": 2, "raw_samples": 64, **fields}
    client.set_generation_strategy(ac.cost_aware_strategy(COST, **fields))
    return client


def run(client: Client, count: int) -> list[dict[str, float]]:
    found = []
    for _ in range(count):
        ((index, parameters),) = client.get_next_trials(max_trials=1).items()
        known = client._experiment.metrics
        found.append({name: x for name, x in outcomes(parameters).items() if name in known})
        ac.complete_trial(client, index, found[-1])
    return found


@pytest.fixture(scope="module")
def story() -> tuple[Client, list[dict[str, float]]]:
    """A run of eight trials, and their outcomes; no test changes it."""
    client = make_client()
    return client, run(client, 8)


@pytest.mark.parametrize(
    ("objective", "bounds", "expected"),
    [
        ("gain, -waste", BOUNDS, [("gain", False, -0.5), ("waste", True, 1.5)]),
        ("gain, -waste", ["heat <= 1"], [("gain", False, None), ("waste", True, None)]),
        ("-2*gain, waste", ["2*gain <= 1"], [("gain", True, 0.5), ("waste", False, None)]),
        ("gain", [], []),
    ],
)
def test_objectives_and_thresholds(
    objective: str, bounds: list[str], expected: list[tuple[str, bool, float | None]]
) -> None:
    """As Ax writes them; a bound on another metric is a constraint."""
    client = make_client(objective, bounds)
    config = check_optimization_config(client._experiment.optimization_config)
    found = [(one.metric, one.minimize, one.threshold) for one in objectives_of(config)]
    assert found == expected
    problem = node_of(client._generation_strategy).problem(client._experiment)
    assert len(problem.constraints) == ("heat <= 1" in bounds)


def test_the_front_is_that_of_ax(story: tuple[Client, list[dict[str, float]]]) -> None:
    """And that of brute force; weights choose one of its points."""
    client, told = story
    best = ac.recommend(client)
    front = {found.trial_index for found in (best, *best.alternatives)}

    def beats(one: dict[str, float], other: dict[str, float]) -> bool:
        return one["gain"] >= other["gain"] and one["waste"] <= other["waste"] and one != other

    useful = [i for i, one in enumerate(told) if one["gain"] > -0.5 and one["waste"] < 1.5]
    assert front == {i for i in useful if not any(beats(one, told[i]) for one in told)}
    for predicted in (True, False):
        of_ax = client.get_pareto_frontier(use_model_predictions=predicted)
        assert {index for _, _, index, _ in of_ax} == front
    ranges = [ac.recommend(client, weights={name: 1.0}) for name in ("gain", "waste")]
    for name, found, choose in zip(("gain", "waste"), ranges, (max, min), strict=True):
        values = [one.expected_values[name] for one in (best, *best.alternatives)]
        assert found.expected_values[name] == pytest.approx(choose(values), rel=1e-9)
    assert best.expected_value == best.expected_values["gain"]
    (first, *_) = str(best).splitlines()
    assert f"{display_cost(None, best.expected_cost)}: expected values gain" in first
    (predicted_at,) = client.predict([dict(best.parameters)])
    for name, value in best.expected_values.items():
        assert predicted_at[name][0] == pytest.approx(value, rel=1e-4, abs=1e-5)
    for wrong in ({"heat": 1.0}, {"gain": 0.0}, [1.0]):
        with pytest.raises(UserInputError, match="weights"):
            ac.recommend(client, weights=wrong)  # type: ignore[arg-type]
    single = make_client("gain", [])
    run(single, 3)
    with pytest.raises(UserInputError, match=r"weights=.* one objective"):
        ac.recommend(single, weights={"gain": 1.0})


def test_cards(story: tuple[Client, list[dict[str, float]]]) -> None:
    """The front with its hypervolume; cards of one objective say why they do not apply."""
    client, told = story
    cards = {card.name: card for card in overview(client)}
    reasons = {n: c for n, c in cards.items() if isinstance(c, NotApplicableStateAnalysisCard)}
    assert reasons.keys() == {"StoppingAnalysis"}
    assert all("has several" in card.subtitle for card in reasons.values())
    frame = cards["FrontAnalysis"].df
    (trials,) = (t for t in cards["FrontAnalysis"].get_figure().data if t.name == "trials")
    assert list(trials.marker.color) == frame["expected_cost"].tolist()
    best = ac.recommend(client)
    on_front = {found.trial_index for found in (best, *best.alternatives)}
    assert {*frame["trial_index"][frame["on_front"]]} == on_front
    assert frame["hypervolume"].is_monotonic_increasing
    spent = ac.spending(client).to_frame()["charged"].cumsum()
    assert frame["cumulative_cost"].tolist() == pytest.approx(spent.tolist())
    Y = torch.tensor([[one["gain"], -one["waste"]] for one in told], dtype=torch.double)
    expected = hypervolume(Y, torch.tensor([-0.5, -1.5], dtype=torch.double))
    assert frame["hypervolume"].iloc[-1] == pytest.approx(expected, rel=0.05)
    assert "expected waste" in cards["RecommendationAnalysis"].df
    deployed = cards["DeploymentAnalysis"]
    assert len(deployed.df) == len(on_front)
    assert deployed.df["expected_cost"].is_monotonic_increasing
    panels = deployed.get_figure().data
    for name, panel in zip(("gain", "waste"), panels, strict=True):
        assert f"expected {name}" in panel.hovertemplate
        assert f"expected {name}" in deployed.df
    single = make_client("gain", [])
    run(single, 3)
    assert FrontAnalysis.__name__ not in {card.name for card in overview(single)}
    with pytest.raises(UserInputError, match="one objective"):
        FrontAnalysis().compute(single._experiment, single._generation_strategy)


def test_past_trials_and_inferred_thresholds() -> None:
    """A table needs each objective; without bounds the reference point is inferred."""
    client = make_client(bounds=[], initial_trials=2)
    inputs = [{"a": x, "b": y} for x, y in ((0.1, 0.4), (0.5, 0.6), (0.9, 0.2), (0.7, 0.5))]
    frame = pd.DataFrame([{**row, **outcomes(row)} for row in inputs])
    with pytest.raises(UserInputError, match="waste"):
        ac.attach_table(client, frame.drop(columns="waste"))
    assert ac.attach_table(client, frame) == [0, 1, 2, 3]
    ((index, _),) = client.get_next_trials(max_trials=1).items()
    assert "hypervolume" in ac.query(client, index).why
    priced = make_client(bounds=[], lmbda=1.0)
    with pytest.raises(UserInputError, match="no threshold"):
        priced.get_next_trials(max_trials=1)


@pytest.mark.parametrize(
    ("objective", "bounds", "message"),
    [
        ("gain + waste", [], r"several metrics, \['gain', 'waste'\], in one value"),
        ("gain + waste, heat", [], "several metrics.* in one value"),
        ("gain, -waste", ["gain >= 0.5 * baseline"], "relative to a baseline"),
    ],
)
def test_refused_objectives(objective: str, bounds: list[str], message: str) -> None:
    """Before a trial."""
    with pytest.raises(UnsupportedError, match=message):
        make_client(objective, bounds).get_next_trials(max_trials=1)


def test_should_stop_is_of_one_value(story: tuple[Client, list[dict[str, float]]]) -> None:
    """Also if the cost is an objective."""
    for client in (story[0], make_client("gain", [], front="cost")):
        if client is not story[0]:
            run(client, 3)
        with pytest.raises(UnsupportedError, match="several objectives"):
            ac.should_stop(client)
