"""A batch that ends early keeps what it has, also for a strategy that Ax has loaded as its own."""

from __future__ import annotations

import pytest
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.core.generator_run import GeneratorRun
from ax.exceptions.core import AxError, DataRequiredError, OptimizationShouldStop, UserInputError
from ax.exceptions.generation_strategy import MaxParallelismReachedException
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.service.ax_client import AxClient, ObjectiveProperties

from ax_costaware import complete_trial, cost_aware_strategy, spending
from ax_costaware.ax_bridge.node import CostAwareNode
from ax_costaware.ax_bridge.turns import CostAwareStrategy
from tests.ax.gittins_toy import FAST, make_client, objective

WAITING = [DataRequiredError("Wait."), MaxParallelismReachedException(2, node_name="Wait.")]
ENDS = [OptimizationShouldStop("No more."), *WAITING]


def _last_of(count: int, monkeypatch: pytest.MonkeyPatch, signal: Exception = ENDS[0]) -> Exception:
    """No trial after ``count`` of them."""
    generate = CostAwareNode.gen

    def gen(self: CostAwareNode, **kwargs: object) -> GeneratorRun | None:
        if len(self.generation_strategy._generator_runs) >= count:
            raise signal
        return generate(self, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(CostAwareNode, "gen", gen)
    return signal


def make_ax_client(strategy: GenerationStrategy) -> AxClient:
    """The toy experiment in Ax's earlier client."""
    client = AxClient(generation_strategy=strategy, verbose_logging=False)
    client.create_experiment(
        parameters=[{"name": n, "type": "range", "bounds": [0.0, 1.0]} for n in ("x1", "x2")],
        objectives={"y": ObjectiveProperties(minimize=False)},
        tracking_metric_names=["sec"],
    )
    return client


def test_other_strategies_are_left_alone() -> None:
    """And ours is one of Ax's to all that asks, and equal to another of the same nodes."""
    ours, same = (make_client()._generation_strategy for _ in range(2))
    assert isinstance(ours, GenerationStrategy)
    assert type(ours.clone_reset()) is CostAwareStrategy
    assert ours == same
    client = Client()
    client.configure_experiment([RangeParameterConfig("x1", (0, 1), "float")], name="toy")
    client.configure_optimization("y")
    client.configure_generation_strategy()
    assert type(client._generation_strategy) is GenerationStrategy


def _said(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [record.getMessage() for record in caplog.records]
    return [line for line in said if line.startswith("The batch ends with")]


@pytest.mark.parametrize("signal", ENDS)
def test_a_batch_of_client_ends_before_any_signal(
    signal: AxError, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = make_client()
    _last_of(2, monkeypatch, signal)
    assert list(client.get_next_trials(max_trials=4)) == [0, 1]
    assert _said(caplog) == [f"The batch ends with 2 of 4 trials. {signal.message}"]
    with pytest.raises(type(signal)):
        client.get_next_trials(max_trials=4)
    assert len(client._generation_strategy._generator_runs) == 2


@pytest.mark.filterwarnings("ignore:The `AxClient` class is deprecated:DeprecationWarning")
@pytest.mark.parametrize("signal", WAITING)
def test_a_batch_of_ax_client_that_waits_is_returned(
    signal: AxError, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And is not over; with nothing made it says that it waits."""
    client = make_ax_client(cost_aware_strategy(cost=1.0, **FAST))
    _last_of(2, monkeypatch, signal)
    trials, is_over = client.get_next_trials(4)
    assert (sorted(trials), is_over) == ([0, 1], False)
    assert trials == {i: client.get_trial_parameters(i) for i in trials}
    assert _said(caplog) == [f"The batch ends with 2 of 4 trials. {signal.message}"]
    with pytest.raises(type(signal)):
        client.get_next_trials(4)


@pytest.mark.filterwarnings("ignore:The `AxClient` class is deprecated:DeprecationWarning")
def test_an_error_in_a_batch_of_ax_client_names_the_trials_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = make_ax_client(cost_aware_strategy(cost=1.0, **FAST))
    _last_of(2, monkeypatch, UserInputError("cost is none."))
    with pytest.raises(UserInputError, match="cost is none") as caught:
        client.get_next_trials(4)
    (note,) = caught.value.__notes__
    assert note.startswith("Trials [0, 1] of the batch were made before")


@pytest.mark.filterwarnings("ignore:The `AxClient` class is deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    ("terms", "cost"),
    [({"cost": 1.0, "lmbda": 0.05}, None), ({"cost": "sec", "budget": 9.0}, 1.0)],
)
def test_every_trial_of_ax_client_is_handed_out(terms: dict[str, object], cost: float) -> None:
    """Where the run waits for a report or a cost in the middle of a batch."""
    client, handed_out, is_over = make_ax_client(cost_aware_strategy(**FAST | terms)), [], False
    while not is_over:
        trials, is_over = client.get_next_trials(3)
        handed_out += trials
        for index, arm in trials.items():
            complete_trial(client, index, objective(arm), cost=cost)
    assert handed_out == list(client.experiment.trials)
    assert {entry.status for entry in spending(client).entries} == {"COMPLETED"}
