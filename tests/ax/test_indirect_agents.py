"""Agents with covariates: the probabilities of a classifier are the policies (section 3.1)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig

import ax_costaware as ac

linear_model = pytest.importorskip("sklearn.linear_model")
pytestmark = pytest.mark.usefixtures("short_searches")

ARMS = ["none", "low", "medium", "high"]
AGENTS = [f"clinic {i}" for i in range(10)]
REWARDS = np.array([0.1, 0.4, 0.9, 0.3])
LENGTHSCALE, NOISE = 0.5, 1e-3


def test_a_classifier_gives_the_policies() -> None:
    rng = np.random.default_rng(0)
    slopes = rng.normal(0, 2, (2, len(ARMS)))

    def policy(covariates: np.ndarray) -> np.ndarray:
        odds = np.exp(covariates @ slopes)
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    seen = rng.normal(size=(600, 2))
    treated = [rng.choice(len(ARMS), p=row) for row in policy(seen)]
    classifier = linear_model.LogisticRegression().fit(seen, treated)
    agents = rng.normal(size=(len(AGENTS), 2))
    known = classifier.predict_proba(agents)
    assert np.abs(known - policy(agents)).max() < 0.1

    client = Client()
    client.configure_experiment([ChoiceParameterConfig("clinic", AGENTS, "str", is_ordered=False)])
    client.configure_optimization("recovery")
    client.set_generation_strategy(
        ac.indirect_query_strategy(
            target_parameters=[ChoiceParameterConfig("dose", ARMS, "str", is_ordered=False)],
            conditional=ac.FiniteConditional(known, queries=AGENTS),
            hyperparameters=ac.FixedHyperparameters(LENGTHSCALE, noise_variance=NOISE, mean=0.5),
            initial_trials=2,
        )
    )
    asked, answers = [], []
    for _ in range(7):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        asked.append(AGENTS.index(str(arm["clinic"])))
        answers.append(float(policy(agents[asked[-1:]])[0] @ REWARDS))
        ac.complete_trial(client, index, answers[-1])

    # z = P f + e with f ~ N(m, S): the posterior of the arms.
    P, m = known[asked], np.full(len(ARMS), 0.5)
    S = np.where(np.eye(len(ARMS)) > 0, 1.0, math.exp(-1 / LENGTHSCALE))
    gain = S @ P.T @ np.linalg.inv(P @ S @ P.T + NOISE * np.eye(len(asked)))
    mean = m + gain @ (np.array(answers) - P @ m)
    deviation = np.sqrt((S - gain @ P @ S).diagonal())
    best = ac.recommend(client)
    place = ARMS.index(str(best.parameters["dose"]))
    assert place == int(mean.argmax()) == int(REWARDS.argmax())
    assert best.expected_value == pytest.approx(mean[place], abs=1e-6)
    assert best.standard_deviation == pytest.approx(deviation[place], abs=1e-6)
