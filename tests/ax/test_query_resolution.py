"""Queries that choose their resolution, and queries whose distribution changes with time."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig, StorageConfig
from ax.exceptions.core import UserInputError
from torch import Tensor

import ax_costaware as ac
from ax_costaware.exceptions import InputError
from tests.resuming import decide, decisions, open_database

pytestmark = pytest.mark.usefixtures("short_searches")

LENGTHSCALE, NOISE = 0.15, 1e-4
MODEL = ac.FixedHyperparameters(lengthscale=LENGTHSCALE, noise_variance=NOISE)
FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 64, "num_samples": 8}
PLACE = RangeParameterConfig("place", (0, 10), "float")


def height(x: Any) -> Any:
    return np.exp(-((x - 6.3) ** 2) / 2)


def client_of(
    second: RangeParameterConfig, storage: StorageConfig | None = None, **strategy: Any
) -> Client:
    """A client whose first parameter is not the first column of the query."""
    client = Client(storage_config=storage)
    place = RangeParameterConfig("at", (0, 10), "float")
    client.configure_experiment(name="toy", parameters=[second, place])
    client.configure_optimization(objective="z")
    options = {"target_parameters": [PLACE], "hyperparameters": MODEL, **FAST, **strategy}
    client.set_generation_strategy(ac.indirect_query_strategy(**options))
    return client


def assert_resumed_alike(client: Client, folder: Path, **fixed: float) -> None:
    """Both stores make the decision that the client makes next."""
    paths = [str(folder / name) for name in ("stored.json", "stored.db")]
    client.save_to_json_file(paths[0])
    shutil.copy(folder / "toy.db", paths[1])
    _, then = decide(client, **fixed)
    assert decisions(paths, **fixed) == 2 * [then]


def posterior(means: Any, variances: Any, answers: Any, X: Any) -> tuple[Any, Any]:
    """Mean and deviation of the function at points, from averages over normal distributions."""
    own = (10 * LENGTHSCALE) ** 2

    def covariance(distance: Any, variance: Any) -> Any:
        total = own + variance
        return np.sqrt(own / total) * np.exp(-(distance**2) / (2 * total))

    K = covariance(means[:, None] - means, variances[:, None] + variances)
    k = covariance(X[:, None] - means, variances)
    solved = np.linalg.solve(K + NOISE * np.eye(len(means)), np.column_stack([answers, k.T]))
    return k @ solved[:, 0], np.sqrt(1 - (k * solved[:, 1:].T).sum(1))


UNIFORM = ac.UniformBoxConditional("width", outside="clip")
NORMAL = ac.GaussianConditional([[1]], standard_deviation="width", outside="clip")


@pytest.mark.parametrize(
    ("conditional", "cost"),
    [
        (UNIFORM, ac.ProductCost({"width": -1})),
        (NORMAL, ac.AffineCost({"width": -0.5}, fixed=2)),
    ],
)
def test_the_resolution_is_chosen_at_its_cost(conditional: Any, cost: Any, tmp_path: Path) -> None:
    width = RangeParameterConfig("width", (0.2, 3), "float", scaling="log")
    storage = open_database(tmp_path / "toy.db")
    client = client_of(width, storage, conditional=conditional, cost=cost, initial_trials=3)
    u = (np.arange(2000) + 0.5) / 2000
    standard = 2 * u - 1 if conditional is UNIFORM else torch.special.ndtri(torch.tensor(u)).numpy()
    widths = []
    for _ in range(9):
        index, decision = decide(client)
        arm = decision["arm"]
        points = np.clip(arm["at"] + arm["width"] * standard, 0, 10)
        ac.complete_trial(client, index, float(height(points).mean()))
        widths.append(arm["width"])
    assert max(widths) > 2 * min(widths)
    assert ac.spending(client).spent == pytest.approx(sum(cost.at({"width": w}) for w in widths))
    assert abs(ac.recommend(client).parameters["place"] - 6.3) < 0.5
    assert_resumed_alike(client, tmp_path)


def test_a_missing_resolution_is_refused() -> None:
    other = RangeParameterConfig("depth", (0.2, 3), "float")
    client = client_of(other, conditional=UNIFORM)
    with pytest.raises(UserInputError, match=r"'width'.*expected just these"):
        client.get_next_trials(max_trials=1)


def drift(A: Tensor) -> Tensor:
    """Points are to the right of the query, every day a little more."""
    return A[..., :1] + 0.2 * A[..., 1:]


def test_each_trial_is_read_with_the_distribution_of_its_own_day(tmp_path: Path) -> None:
    """A parameter that the caller fixes is the time; p_t(x | a) of the paper's section 2."""
    ac.register_conditional_mean("drift", drift)
    law = ac.GaussianConditional.from_mean("drift", 2, covariance=0.25, outside="keep")
    day = RangeParameterConfig("day", (0, 20), "float")
    storage = open_database(tmp_path / "toy.db")
    client = client_of(
        day, storage, conditional=law, initial_trials=3, query_parameters=["at", "day"]
    )
    means, answers = [], []
    for today in range(8):
        index, decision = decide(client, day=today)
        arm = decision["arm"]
        assert arm["day"] == today
        mean = arm["at"] + 0.2 * today
        answer = math.exp(-((mean - 6.3) ** 2) / (2 * 1.25)) / math.sqrt(1.25)
        ac.complete_trial(client, index, answer)
        means.append(mean)
        answers.append(answer)
    best = ac.recommend(client)
    at = np.array([best.parameters["place"]])
    (mean,), (deviation,) = posterior(np.array(means), np.full(8, 0.25), answers, at)
    assert best.expected_value == pytest.approx(mean, abs=1e-6)
    assert best.standard_deviation == pytest.approx(deviation, abs=1e-5)
    assert_resumed_alike(client, tmp_path, day=8)


def test_latent_ucb_is_theorem_2(tmp_path: Path) -> None:
    """The largest bound of f itself, with the theorem's beta and a schedule of the resolution."""
    law = ac.GaussianConditional([[1]], standard_deviation="width", outside="keep")
    width = RangeParameterConfig("width", (0.1, 3), "float")
    storage = open_database(tmp_path / "toy.db")
    rule = ac.LatentUCB(ac.FiniteDomainBeta(1001, delta=0.05))
    client = client_of(
        width, storage, conditional=law, acquisition=rule, initial_trials=2, query_parameters=None
    )
    grid = np.linspace(0, 10, 1001)
    asked, variances, answers = np.empty(0), np.empty(0), np.empty(0)
    for t in range(1, 7):
        tau = 1.5 * t**-0.25
        index, decision = decide(client, width=tau)
        at = decision["arm"]["at"]
        if t > 2:
            beta = 2 * math.log(1001 * (math.pi**2 * t**2 / 6) / 0.05)
            mean, deviation = posterior(asked, variances, answers, grid)
            bound = mean + math.sqrt(beta) * deviation
            assert abs(at - grid[bound.argmax()]) < 0.02
            record = decision["record"]["decision"]
            assert record["beta"] == pytest.approx(beta)
            assert record["upper_confidence_bound"] == pytest.approx(bound.max(), abs=1e-3)
        answer = math.exp(-((at - 6.3) ** 2) / (2 * (1 + tau**2))) / math.sqrt(1 + tau**2)
        ac.complete_trial(client, index, answer)
        asked, variances = np.append(asked, at), np.append(variances, tau**2)
        answers = np.append(answers, answer)
    with pytest.raises(UserInputError, match=r"chooses no resolution: .*\['width'\]"):
        client.get_next_trials(max_trials=1)
    assert_resumed_alike(client, tmp_path, width=0.8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"conditional": ac.FiniteConditional([[0.5, 0.5]])}, "about a point"),
        ({"acquisition": "ucb"}, "acquisition='ucb'"),
    ],
)
def test_what_latent_ucb_refuses(options: dict[str, Any], message: str) -> None:
    given = {"conditional": UNIFORM, "acquisition": ac.LatentUCB(2), **options}
    with pytest.raises(UserInputError, match=message):
        ac.indirect_query_strategy([PLACE], **given)
    with pytest.raises(UserInputError, match="acquisition=LatentUCB"):
        ac.resolution_tree_strategy([PLACE], 2, acquisition=ac.LatentUCB(2))
    with pytest.raises(InputError, match="beta=-1"):
        ac.LatentUCB(-1)
