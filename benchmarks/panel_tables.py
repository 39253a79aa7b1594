"""Measured tables for the panel: score and seconds of training real models, at Sobol points.

Each row trains a model of scikit-learn on a data set that comes with it, by three-fold
cross-validation on one thread, and is written when it is done, so that a run that was stopped goes
on. The panel interpolates between the rows.

    python benchmarks/panel_tables.py            # about half an hour on one core
    python benchmarks/panel_tables.py --table forest

Rows go to ``benchmarks/results/panel_<table>.jsonl``: the point on the unit cube, the score (mean
accuracy, or R2 for a regression), and the seconds of CPU that it took. A fourth table,
``panel_digits.jsonl``, is what ``gittins_real.py`` had trained when its cell was made: its four
hyperparameters between the bounds of ``demo/gittins/digits.py``, all on a log scale, and minus the
logarithm of the error.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Standardize
from gpytorch.mlls import ExactMarginalLogLikelihood
from kept_runs import RESULTS
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.quasirandom import SobolEngine
from tqdm import tqdm

ROWS = 256


def log_scaled(u: float, lower: float, upper: float) -> float:
    """A number between two, on a log scale."""
    return float(lower * (upper / lower) ** u)


def whole(u: float, lower: float, upper: float) -> int:
    """The same as a whole number."""
    return round(log_scaled(u, lower, upper))


def boosting(u: Sequence[float]) -> Any:
    """Gradient boosting on the digits: rounds, rate, leaves, penalty."""
    return HistGradientBoostingClassifier(
        max_iter=whole(u[0], 3, 60),
        learning_rate=log_scaled(u[1], 0.01, 1.0),
        max_leaf_nodes=whole(u[2], 3, 32),
        l2_regularization=log_scaled(u[3], 1e-3, 1e2),
        early_stopping=False,
        random_state=0,
    )


def network(u: Sequence[float]) -> Any:
    """A network of one layer on the digits: units, epochs, rate, penalty."""
    model = MLPClassifier(
        hidden_layer_sizes=(whole(u[0], 4, 256),),
        max_iter=whole(u[1], 2, 60),
        learning_rate_init=log_scaled(u[2], 1e-4, 1e-1),
        alpha=log_scaled(u[3], 1e-5, 1e1),
        n_iter_no_change=1000,
        random_state=0,
    )
    return make_pipeline(StandardScaler(), model)


def forest(u: Sequence[float]) -> Any:
    """Randomised trees on the diabetes data: trees, features, leaves, depth."""
    return ExtraTreesRegressor(
        n_estimators=whole(u[0], 3, 300),
        max_features=0.05 + 0.95 * u[1],
        min_samples_leaf=whole(u[2], 1, 60),
        max_depth=whole(u[3], 2, 16),
        random_state=0,
    )


TABLES: dict[str, tuple[Callable[[Sequence[float]], Any], Callable[..., Any]]] = {
    "boosting": (boosting, load_digits),
    "network": (network, load_digits),
    "forest": (forest, load_diabetes),
}
"""What is trained and on what, by the table's name."""


def measure(name: str) -> None:
    """Make the rows of a table that are missing."""
    model_at, load = TABLES[name]
    X, y = load(return_X_y=True)
    path = RESULTS / f"panel_{name}.jsonl"
    done = len(path.read_text().splitlines()) if path.exists() else 0
    points = SobolEngine(4, scramble=True, seed=0).draw(ROWS).tolist()
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1), path.open("a") as table:
        for point in tqdm(points[done:], desc=name, initial=done, total=ROWS):
            started = time.process_time()
            score = float(cross_val_score(model_at(point), X, y, cv=3).mean())
            seconds = time.process_time() - started
            row = {"point": point, "score": round(score, 6), "seconds": round(seconds, 5)}
            table.write(json.dumps(row) + "\n")
            table.flush()


@cache
def table_surrogate(name: str, column: str) -> Callable[[Tensor], Tensor]:
    """The posterior mean of a Gaussian process of one column of a measured table."""
    rows = [json.loads(line) for line in (RESULTS / f"panel_{name}.jsonl").read_text().splitlines()]
    X = torch.tensor([row["point"] for row in rows], dtype=torch.double)
    y = [math.log(row["seconds"]) if column == "log_seconds" else row["score"] for row in rows]
    Y = torch.tensor(y, dtype=torch.double).unsqueeze(-1)
    model = SingleTaskGP(X, Y, outcome_transform=Standardize(1))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    model.eval()

    def function(X: Tensor) -> Tensor:
        with torch.no_grad():
            parts = [model.posterior(part).mean.squeeze(-1) for part in X.split(4096)]
        return torch.cat(parts)

    return function


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", choices=TABLES, action="append")
    for chosen in parser.parse_args().table or TABLES:
        measure(chosen)
