"""Outcome constraints through Ax's client: data, decisions, what to deploy, and stores."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ax.analysis.plotly.objective_p_feasible_frontier import ObjectivePFeasibleFrontierPlot
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig, StorageConfig
from ax.exceptions.core import OptimizationShouldStop, UserInputError
from ax.generators.torch.botorch_modular.generator import BoTorchGenerator

import ax_costaware as ac
from ax_costaware.analysis import overview
from ax_costaware.ax_bridge.node import fitted_problem
from ax_costaware.models import FixedHyperparameterGP
from tests.ax.gittins_toy import COST, FAST, record
from tests.fresh import FreshProcess
from tests.resuming import Run, decide

pytestmark = pytest.mark.usefixtures("short_searches")


def outcomes(x: dict[str, Any]) -> dict[str, float]:
    """The sum of the inputs, and a waste that is small around (0.8, 0.3)."""
    x1, x2 = float(x["x1"]), float(x["x2"])
    return {"y": x1 + x2, "waste": (x1 - 0.8) ** 2 + (x2 - 0.3) ** 2}


def make_client(
    storage_config: StorageConfig | None = None,
    bounds: tuple[str, ...] = ("waste <= 0.1",),
    **more: Any,
) -> Client:
    client = Client(storage_config=storage_config)
    client.configure_experiment(
        name="toy",
        parameters=[RangeParameterConfig(name, (0, 1), "float") for name in ("x1", "x2")],
    )
    client.configure_optimization(objective="y", outcome_constraints=list(bounds))
    settings = {**FAST, "lmbda": 0.02, "budget": 40.0, "stop": False, **more}
    client.set_generation_strategy(ac.cost_aware_strategy(COST, **settings))
    return client


def run(client: Client, count: int) -> None:
    for _ in range(count):
        for index, arm in client.get_next_trials(max_trials=1).items():
            ac.complete_trial(client, index, outcomes(arm))


@cache
def ran() -> Client:
    """Nine trials, with which Ax's cross-validation finds no fault either."""
    client = make_client(seed=1)
    run(client, 9)
    return client


def test_each_outcome_has_a_model_of_its_own() -> None:
    """The hyperparameters that are given are the objective's; data are complete."""
    client = ran()
    problem = fitted_problem(client._experiment, client._generation_strategy)
    (constraint,) = problem.constraints
    other = constraint.fit()
    assert isinstance(problem.model, FixedHyperparameterGP)
    assert not isinstance(other, FixedHyperparameterGP)
    with torch.no_grad():
        mean = constraint.scale.from_model(other.posterior(problem.evaluated).mean.squeeze(-1))
    waste = [outcomes(trial.inputs)["waste"] for trial in problem.observed]
    assert mean.numpy() == pytest.approx(np.array(waste), abs=0.02)
    (predicted,) = client.predict([{"x1": 0.8, "x2": 0.3}])
    assert predicted["waste"][0] < 0.05


def test_decisions_are_of_feasible_trials() -> None:
    client = ran()
    for index in range(4, 9):
        decision = record(client, index)["decision"]
        assert 0.0 <= decision["feasibility"] <= 1.0
        assert "easible with a probability of" in ac.query(client, index).why
    best = ac.recommend(client)
    assert best.feasibility is not None
    assert best.feasibility >= 0.9
    assert outcomes(best.parameters)["waste"] <= 0.1
    assert "feasible with probability" in str(best)
    chances = [other.feasibility or 0.0 for other in (best, *best.alternatives)]
    assert chances[-1] < 0.9
    found, _, index, _ = client.get_best_parameterization()
    assert found == best.parameters
    assessment = ac.should_stop(client)
    assert assessment.incumbent_trial == index
    assert assessment.feasibility == best.feasibility
    assert "feasible with probability" in str(assessment)


def test_cards() -> None:
    """Of this package, and Ax's own of the objective against feasibility."""
    cards = {card.name: card for card in overview(ran())}
    table = cards["RecommendationAnalysis"]
    assert table.df["feasibility"].between(0, 1).all()
    assert "of points that are feasible with a probability of at least 0.9" in table.subtitle
    feasible = (table.df["feasibility"] >= 0.9).sum()
    assert len(cards["DeploymentAnalysis"].df) == feasible < len(table.df)
    frontier = ObjectivePFeasibleFrontierPlot(num_points_to_generate=2)
    (card,) = ran().compute_analyses([frontier], display=False)
    assert card.name == "ObjectivePFeasibleFrontierPlot"
    assert "rror" not in card.title


def test_a_plot_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ax's puts acquisition functions of its own into the generator that it is given."""
    client = make_client(seed=1)
    run(client, 6)

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no points")

    with monkeypatch.context() as patch:
        patch.setattr(BoTorchGenerator, "gen", fail)
        (card,) = client.compute_analyses([ObjectivePFeasibleFrontierPlot()], display=False)
    assert "no points" in card.blob
    ((index, _),) = client.get_next_trials(max_trials=1).items()
    assert record(client, index)["phase"] == "rule"


def test_bounds_that_come_change_and_go() -> None:
    """An experiment may be given others while it runs."""
    client = make_client(bounds=())
    client.configure_tracking_metrics(["waste"])
    run(client, 5)
    free = ac.recommend(client)
    chances = []
    for bound in ("waste <= 0.2", "waste <= 0.1"):
        client.configure_optimization(objective="y", outcome_constraints=[bound])
        ((index, _),) = client.get_next_trials(max_trials=1).items()
        assert "feasibility" in record(client, index)["decision"]
        client.mark_trial_abandoned(index)
        best = ac.recommend(client)
        assert outcomes(best.parameters)["waste"] < 0.2
        chances.append(best.feasibility or 0.0)
    assert chances[1] < chances[0]
    client.configure_optimization(objective="y")
    assert ac.recommend(client) == free
    ((index, _),) = client.get_next_trials(max_trials=1).items()
    assert "feasibility" not in record(client, index)["decision"]
    client.configure_optimization(objective="y", outcome_constraints=["smell <= 1"])
    # Nothing is known of it, so that the initial design goes on until something is.
    ((index, _),) = client.get_next_trials(max_trials=1).items()
    assert record(client, index)["phase"] == "initial"
    for index in (0, 1):
        client.attach_data(index, {"smell": 0.5})
    ((index, _),) = client.get_next_trials(max_trials=1).items()
    assert record(client, index)["phase"] == "rule"


def test_what_is_missing_is_named() -> None:
    """As for Ax, a trial without its bounded outcome does not end the initial design."""
    client = make_client()
    for _ in range(4):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        ac.complete_trial(client, index, {"y": outcomes(arm)["y"]})
    with pytest.raises(UserInputError, match="or for a metric that has bounds") as error:
        ac.recommend(client)
    assert "no trial has a value of ['waste']" in str(error.value.__cause__)
    for x2 in (0.4, 0.9):
        arm = {"x1": 0.75, "x2": x2}
        ac.complete_trial(client, client.attach_trial(arm), outcomes(arm))
    ((index, _),) = client.get_next_trials(max_trials=1).items()
    assert record(client, index)["decision"]["feasibility"] > 0


def test_a_table_of_past_trials_may_have_them() -> None:
    pd = pytest.importorskip("pandas")
    rows = [{"x1": x1, "x2": x2} for x1 in (0.2, 0.7) for x2 in (0.3, 0.9)]
    client = make_client()
    ac.attach_table(client, pd.DataFrame([{**row, **outcomes(row)} for row in rows]))
    ((index, _),) = client.get_next_trials(max_trials=1).items()
    assert record(client, index)["decision"]["feasibility"] > 0


def test_the_argument_is_checked() -> None:
    with pytest.raises(
        UserInputError, match=r"feasibility_threshold=1\.0: expected a number strictly between"
    ):
        ac.cost_aware_strategy(1.0, feasibility_threshold=1.0)


def test_next_decision_after_reload_is_the_same(
    tmp_path: Path, fresh_process: FreshProcess
) -> None:
    """Nothing is feasible at first under the tight bound; the default surrogate is fitted."""
    stored = Run(tmp_path, "tight")
    client = make_client(
        stored.config,
        ("waste <= 0.03", "waste >= -1"),
        surrogate_spec=None,
        feasibility_threshold=0.8,
        initial_trials=2,
    )
    for step in range(5):
        index, arm = stored.decide(client)
        ac.complete_trial(client, index, outcomes(arm))
        if step in (1, 2, 4):
            stored.store(client)
    stored.decide(client)
    assert stored.decisions[2]["record"]["decision"]["lambda"] is None
    assert stored.decisions[-1]["record"]["decision"]["feasibility"] is not None
    stored.assert_resumed_alike(fresh_process)


def test_a_run_that_is_told_of_no_bounded_outcome_ends() -> None:
    """Each trial was made up for by another one, for ever."""
    client = make_client(budget=None, initial_trials=4)
    for _ in range(10):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        ac.complete_trial(client, index, {"y": outcomes(arm)["y"]})
    message = r"None of the 10 completed trials .* \['waste', 'y'\]"
    with pytest.raises(OptimizationShouldStop, match=message):
        client.get_next_trials(max_trials=1)
    client.attach_data(3, {"waste": 0.2})
    assert client.get_next_trials(max_trials=1)


def test_failures_are_learned_and_stored(tmp_path: Path) -> None:
    """They count as one more constraint, of what is next and not of what was evaluated."""
    client = make_client(bounds=(), learn_failures=True)
    for x1 in (0.7, 0.9):
        for x2 in (0.2, 0.8):
            client.mark_trial_failed(client.attach_trial({"x1": x1, "x2": x2}))
            arm = {"x1": x1 - 0.6, "x2": x2}
            ac.complete_trial(client, client.attach_trial(arm), outcomes(arm)["y"])
    path = str(tmp_path / "failures.json")
    client.save_to_json_file(path)
    found = [decide(one)[1] for one in (client, Client.load_from_json_file(path))]
    assert found[0] == found[1]
    assert 0 < found[0]["record"]["decision"]["feasibility"] < 1
    assert ac.recommend(client).feasibility is None
