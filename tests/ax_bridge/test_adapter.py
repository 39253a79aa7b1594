"""The fitted model of an experiment: what it is trained on and what it says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from ax.api.client import Client
from ax.core.observation import ObservationFeatures

from ax_costaware import FixedHyperparameters, complete_trial, recommend
from ax_costaware.ax_bridge.adapter import CostAwareAdapter
from ax_costaware.ax_bridge.nodes import fitted_adapter
from tests.ax.toy import arm_of, complete, make_client, run_trials

ARM: dict[str, Any] = {"control_set": "x1+x2", "x1": 0.25, "x2": 0.5, "x3": 0.5}


def adapter_of(client: Client) -> CostAwareAdapter:
    """Its adapter, fitted to all data."""
    return fitted_adapter(client._experiment, client._generation_strategy)


def posterior(client: Client, points: list[list[float]] | torch.Tensor) -> Any:
    """Posterior means and variances at points of the unit cube."""
    X = torch.as_tensor(points, dtype=torch.double).reshape(-1, 1, 3)
    model = adapter_of(client).botorch_model
    with torch.no_grad():
        found: Any = model.posterior(X)
    return found.mean.flatten(), found.variance.flatten()


@pytest.fixture(scope="module", params=[False, True], ids=["maximize", "minimize"])
def finished(request: pytest.FixtureRequest) -> tuple[Client, float]:
    """A client after twelve trials, with the sign of its outcomes."""
    sign = -1.0 if request.param else 1.0
    client = make_client(minimize=request.param)
    run_trials(client, 12, sign)
    return client, sign


@pytest.mark.filterwarnings("ignore:.*lies outside the bounds")
def test_controlled_input_that_came_out_differently() -> None:
    """The model is trained on it, and Ax's bounds are widened where it lies outside of them."""
    client = make_client(initial_trials=0)
    client.attach_trial(ARM)
    complete_trial(client, 0, {"y": 1.0}, realized={"x1": 0.75, "x3": 0.125})
    adapter = adapter_of(client)
    assert adapter.generator.surrogate.Xs[0].tolist() == [[0.75, 0.5, 0.125]]  # type: ignore[attr-defined]
    client.attach_trial(ARM)
    complete_trial(client, 1, {"y": 2.0}, realized={"x3": 1.5})
    # The adapter that exists already, as in one process, and a new one, as after a reload.
    again = adapter_of(client)
    assert again is adapter
    assert again.generator.surrogate.Xs[0][1].tolist() == [0.25, 0.5, 1.5]  # type: ignore[attr-defined]
    assert again.model_space.range_parameters["x3"].upper == 1.5
    assert again.space().bounds[1].tolist() == [1.0, 1.0, 1.0]
    ((_, arm),) = client.get_next_trials(max_trials=1).items()
    assert 0.0 <= float(arm["x3"]) <= 1.0


def test_default_surrogate_speaks_raw_units() -> None:
    """Outcomes of the order of 1000 come back as such, with their standard deviation."""
    client = make_client(surrogate_spec=None, initial_trials=0)
    for i in range(6):
        arm = {**ARM, "control_set": "x1+x2+x3", "x1": i / 5}
        client.attach_trial(arm)
        complete_trial(client, i, {"y": 1000.0 + 50.0 * arm["x1"]}, realized={})
    mean, variance = posterior(client, [[0.5, 0.5, 0.5], [0.5, 0.0, 1.0]])
    assert mean[0].item() == pytest.approx(1025.0, abs=2.0)
    assert 0.0 < variance[1].item() < 50.0**2


def test_fixed_hyperparameters_are_in_raw_units_on_the_unit_cube() -> None:
    """One observation at the prior's scale: the posterior is the textbook one."""
    fixed = FixedHyperparameters(lengthscale=0.5, outputscale=4.0, noise_variance=0.25, mean=1.0)
    client = make_client(surrogate_spec=fixed, initial_trials=0)
    client.attach_trial(ARM)
    complete_trial(client, 0, {"y": 3.0}, realized={"x3": 0.5})
    mean, variance = posterior(client, [[0.75, 0.5, 0.5]])
    k = 4.0 * torch.exp(torch.tensor(-0.5 * (0.5 / 0.5) ** 2, dtype=torch.double)).item()
    assert mean.item() == pytest.approx(1.0 + k / 4.25 * 2.0, rel=1e-6)
    assert variance.item() == pytest.approx(4.0 - k**2 / 4.25, rel=1e-6)


def test_recommendation_is_the_best_expectation(finished: tuple[Client, float]) -> None:
    """Against a grid of values and many draws of the rest under the posterior mean."""
    client, sign = finished
    adapter = adapter_of(client)
    optima = {optimum.control_set: optimum for optimum in adapter.recommend()}
    ranked = [sign * optimum.mean for optimum in adapter.recommend()]
    assert ranked == sorted(ranked, reverse=True)
    x1 = torch.linspace(0, 1, 51, dtype=torch.double)
    rest = torch.rand(1024, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    points = torch.cat(
        [x1[:, None, None].expand(-1, len(rest), 1), rest.expand(len(x1), -1, -1)], dim=-1
    )
    means = sign * posterior(client, points)[0].view(51, -1).mean(-1)
    assert sign * optima["x1"].mean >= float(means.max()) - 0.01
    assert optima["x1"].parameters["x1"] == pytest.approx(float(x1[means.argmax()]), abs=0.03)
    assert recommend(client).control_set == adapter.recommend()[0].control_set


def test_best_arm_is_judged_by_its_expectation(finished: tuple[Client, float]) -> None:
    """Not by the outcome it happened to have: x2 and x3 were left to chance."""
    client, sign = finished
    best = adapter_of(client).model_best_point()
    assert best is not None
    arm, prediction = best
    assert prediction is not None
    arms = [arm_of(client, index) for index in client._experiment.trials]
    assert {a["control_set"] for a in arms} == {"x1"}
    rest = torch.rand(1024, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    x1 = torch.tensor([a["x1"] for a in arms], dtype=torch.double)
    points = torch.cat(
        [x1[:, None, None].expand(-1, len(rest), 1), rest.expand(len(x1), -1, -1)], dim=-1
    )
    means = sign * posterior(client, points)[0].view(len(arms), -1).mean(-1)
    assert arm.parameters == arms[int(means.argmax())]
    assert sign * prediction[0]["y"] == pytest.approx(float(means.max()), abs=0.01)


def test_skipped_and_failed_trials_do_not_count_as_data_or_pending() -> None:
    """A trial without a measurement is completed, and is neither."""
    client = make_client(initial_trials=2)
    run_trials(client, 2)
    (skipped,) = client.get_next_trials(max_trials=1)
    complete_trial(client, skipped, None, realized={"x2": 0.5, "x3": 0.5})
    adapter = adapter_of(client)
    assert len(adapter.generator.surrogate.Xs[0]) == 2  # type: ignore[attr-defined]
    (index, arm), *_ = client.get_next_trials(max_trials=1).items()
    complete(client, index, dict(arm))
    run_trials(client, 1)


def test_decisions_of_a_batch_are_pending_without_a_trial() -> None:
    """Each counts once, however many metrics there are; what cannot report any more does not."""
    client = make_client(initial_trials=1)
    run_trials(client, 2)
    (lost, running) = client.get_next_trials(max_trials=2)
    client.mark_trial_abandoned(lost)
    pending = {
        metric: [
            *(ObservationFeatures(arm_of(client, i), trial_index=i) for i in (lost, running)),
            ObservationFeatures({**ARM, "x1": 0.5}),
            ObservationFeatures(ARM),
        ]
        for metric in ("y", "cost")
    }
    problem = adapter_of(client).problem(pending)
    assert [o.trial_index for o in problem.pending] == [running, None, None]
    assert problem.undelivered == [{**ARM, "x1": 0.5}, ARM]
    assert problem.next_index == 6
    assert adapter_of(client).problem().pending == ()
