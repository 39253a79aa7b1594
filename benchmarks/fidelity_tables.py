"""Measured learning curves for ``fidelity.py``: a network's accuracy after every epoch.

Each row trains a network of one layer on half of scikit-learn's digits, and scores it on the other
half after every epoch, and is written when it is done, so that a run that was stopped goes on. The
benchmark interpolates between the rows.

    python benchmarks/fidelity_tables.py            # a few minutes on one core

Rows go to ``benchmarks/results/fidelity_network.jsonl``: the point on the unit cube, the scores,
and the seconds of CPU that they took.
"""

from __future__ import annotations

import json
import time

import numpy as np
from kept_runs import RESULTS
from panel_tables import log_scaled, whole
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits
from torch.quasirandom import SobolEngine
from tqdm import tqdm

ROWS, EPOCHS = 160, 50
TABLE = RESULTS / "fidelity_network.jsonl"


def measure() -> None:
    """Make the rows that are missing."""
    X, y = load_digits(return_X_y=True)
    parts = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    train, test, y_train, y_test = parts
    scaler = StandardScaler().fit(train)
    train, test = scaler.transform(train), scaler.transform(test)
    done = len(TABLE.read_text().splitlines()) if TABLE.exists() else 0
    points = SobolEngine(3, scramble=True, seed=0).draw(ROWS).tolist()
    with threadpool_limits(1), TABLE.open("a") as table:
        for point in tqdm(points[done:], initial=done, total=ROWS):
            started = time.process_time()
            model = MLPClassifier(
                hidden_layer_sizes=(whole(point[0], 4, 128),),
                learning_rate_init=log_scaled(point[1], 1e-4, 3e-1),
                alpha=log_scaled(point[2], 1e-5, 1e1),
                random_state=0,
            )
            scores = []
            for _ in range(EPOCHS):
                model.partial_fit(train, y_train, classes=np.unique(y))
                scores.append(round(float(model.score(test, y_test)), 6))
            seconds = round(time.process_time() - started, 5)
            table.write(json.dumps({"point": point, "scores": scores, "seconds": seconds}) + "\n")
            table.flush()


if __name__ == "__main__":
    measure()
