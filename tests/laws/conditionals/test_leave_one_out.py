"""The closed form of the leave-one-out error against fits without each pair."""

from __future__ import annotations

import numpy as np
import pytest

from ax_costaware.laws.conditionals.landmarks import half_median_distance, rbf
from ax_costaware.laws.conditionals.leave_one_out import (
    Smoother,
    choose,
    least_ridge,
    nystrom_errors,
    random_features,
    target_features,
)

RNG = np.random.default_rng(0)
A = RNG.random((40, 2))
X = np.sin(3 * A) + 0.2 * RNG.standard_normal((40, 2))
RIDGES = np.array([1e-4, 1e-2, 1.0, 100.0])


def brute_force(L: np.ndarray, K: np.ndarray, ridge: float) -> float:
    """The mean of ``||k(x_j, .) - mu_j||^2`` with ``mu_j`` fitted to the other pairs."""
    errors = []
    for j in range(len(L)):
        others = np.delete(np.arange(len(L)), j)
        w = np.linalg.solve(L[np.ix_(others, others)] + ridge * np.eye(len(others)), L[others, j])
        errors.append(K[j, j] - 2 * w @ K[others, j] + w @ K[np.ix_(others, others)] @ w)
    return float(np.mean(errors))


def test_closed_form_is_brute_force() -> None:
    L = rbf(A / 0.3, A / 0.3)
    scaled = X / half_median_distance(X)
    K = rbf(scaled, scaled)
    found = Smoother(L).errors(target_features(X, 0))(RIDGES)
    assert found.tolist() == pytest.approx([brute_force(L, K, c) for c in RIDGES], rel=1e-7)


def test_closed_form_of_low_rank_is_brute_force() -> None:
    psi = rbf(A / 0.3, A[:12] / 0.3)
    F = random_features(X, 0)
    found = nystrom_errors(psi.T @ psi, psi.T @ F, psi, F)(RIDGES)
    expected = [brute_force(psi @ psi.T, F @ F.T, c) for c in RIDGES]
    assert found.tolist() == pytest.approx(expected, rel=1e-7)
    exact = Smoother(psi @ psi.T).errors(F)(RIDGES)
    assert found.tolist() == pytest.approx(exact.tolist(), rel=1e-7)
    # Some pairs are left out in turn, of a fit to all.
    some = nystrom_errors(psi.T @ psi, psi.T @ F, psi[:10], F[:10])(RIDGES)
    rest = nystrom_errors(psi.T @ psi, psi.T @ F, psi[10:], F[10:])(RIDGES)
    assert ((10 * some + 30 * rest) / 40).tolist() == pytest.approx(found.tolist())


def test_the_least_error_is_found() -> None:
    def errors_of(lengthscale: float):  # type: ignore[no-untyped-def]
        return lambda ridges: (
            np.log(lengthscale / 0.9) ** 2 + 0.1 * np.log10(np.asarray(ridges) / 0.03) ** 2
        )

    lengthscale, ridge = choose(errors_of, None)
    assert lengthscale == pytest.approx(0.9, rel=0.1)
    assert ridge == pytest.approx(10**-1.5)
    assert least_ridge(errors_of(2.0))[0] == pytest.approx(10**-1.5)
    assert choose(errors_of, 7.0)[1] == 7.0
    assert least_ridge(errors_of(1.0))[0] == pytest.approx(10**-1.5)
