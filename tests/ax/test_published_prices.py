"""The settings of Xie et al. 2024, through the strategy, against their formulas.

The index g of a trial solves ``EI(x; g) = lambda * c(x)``, equation 6. lambda is 1e-4 (PBGI) or
starts at 0.1 (PBGI-D), on standardized outcomes; these stay as they are where the kernel is known.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import norm

from ax_costaware import FixedHyperparameters, GittinsDecay, StandardizedPrice
from tests.ax.gittins_toy import make_client, objective, record, run_trials, true_cost

pytestmark = pytest.mark.usefixtures("short_searches")

KNOWN = FixedHyperparameters(0.1, outputscale=4.0, noise_variance=1e-6, kernel="matern")


def improvement(index: float, mean: float, sd: float) -> float:
    """Expected improvement of a normal variable over ``index``."""
    z = (mean - index) / sd
    return float(sd * (norm.pdf(z) + z * norm.cdf(z)))


@pytest.mark.parametrize(
    ("price", "first", "is_per_mean_cost"),
    [
        ({"lmbda": StandardizedPrice(1e-4)}, 1e-4, False),
        ({"decay": GittinsDecay(per_mean_cost=False)}, 0.1, False),
        ({"decay": GittinsDecay()}, 0.1, True),
    ],
    ids=["PBGI", "PBGI-D", "PBGI-D per mean cost"],
)
@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["maximized", "minimized"])
@pytest.mark.parametrize("surrogate_spec", [None, KNOWN], ids=["fitted", "known"])
def test_price_of_a_unit_of_cost(
    price: dict[str, Any],
    first: float,
    is_per_mean_cost: bool,
    sign: float,
    surrogate_spec: FixedHyperparameters | None,
) -> None:
    """Outcomes and costs are in units of the user's own."""
    settings = {"acquisition": "gittins", "surrogate_spec": surrogate_spec, "stop": False, **price}
    client = make_client(sign < 0, **settings)
    arms = run_trials(client, 5, 30 * sign)
    made, chosen = arms[:4], arms[4]
    unit = 2.0 if surrogate_spec else stdev(30 * objective(arm) for arm in made)
    per = fmean(map(true_cost, made)) if is_per_mean_cost else 1.0
    decision = record(client, 4)["decision"]
    assert decision["lambda"] == pytest.approx(first * unit / per, rel=1e-9)
    index, mean, sd = (decision[k] for k in ("index", "mean", "standard_deviation"))
    gain = improvement(sign * index, sign * mean, sd)
    assert gain == pytest.approx(decision["lambda"] * true_cost(chosen), rel=1e-6)


@pytest.mark.usefixtures("full_searches")
def test_known_matern_kernel() -> None:
    """The trial has the largest index under the posterior of that kernel, by linear algebra."""
    client = make_client(
        acquisition="gittins",
        lmbda=StandardizedPrice(1e-4),
        stop=False,
        surrogate_spec=KNOWN,
        num_restarts=20,
        raw_samples=400,
    )
    arms = run_trials(client, 6)
    decision = record(client, 5)["decision"]
    X = np.array([[arm["x1"], arm["x2"]] for arm in arms])

    def kernel(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        s = np.sqrt(5.0) * np.linalg.norm(A[:, None] - B, axis=-1) / 0.1
        return np.asarray(4.0 * (1 + s + s**2 / 3) * np.exp(-s))

    known, outcomes = X[:5], np.array([objective(arm) for arm in arms[:5]])
    weights = np.linalg.inv(kernel(known, known) + 1e-6 * np.eye(5))
    rivals = np.random.default_rng(0).uniform(size=(500, 2))
    found = []
    for x in np.vstack([X[5:], rivals]):
        k = kernel(x[None], known)
        mean, sd = float((k @ weights @ outcomes)[0]), float(4.0 - (k @ weights @ k.T)[0, 0]) ** 0.5
        paid = 2e-4 * (2.0 * x[1] + 0.5)  # 1e-4 standardized units of size 2
        root = brentq(lambda g, m, s, c: improvement(g, m, s) - c, -50, 50, (mean, sd, paid))
        found.append((root, mean, sd))
    recorded = [decision[name] for name in ("index", "mean", "standard_deviation")]
    assert recorded == pytest.approx(found[0], rel=1e-6)
    assert found[0][0] >= max(found[1:])[0] - 1e-4


@pytest.mark.parametrize(("costs", "largest"), [("known", 21), ("printed", 81), ("uniform", 1)])
def test_costs_of_the_benchmark(
    costs: str, largest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equation 83 as printed, ``20 |x|_1 + 1``; the mean of x in the authors' code."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    cost_of = importlib.import_module("gittins_problems").cost_of
    x = np.random.default_rng(0).uniform(size=4)
    size = {"known": x.mean(), "printed": np.linalg.norm(x, 1), "uniform": 0.0}[costs]
    assert float(cost_of(4, costs)(torch.tensor(x))) == pytest.approx(20 * size + 1)
    assert float(cost_of(4, costs)(torch.ones(4))) == pytest.approx(largest)
