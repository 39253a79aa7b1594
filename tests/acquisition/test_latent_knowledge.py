"""What queries are worth to the best point per unit of cost: a closed form, and other units."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import norm

from ax_costaware.acquisition.batch_knowledge import latent_knowledge_per_cost
from ax_costaware.models import ExactPosterior
from tests.acquisition.indirect_models import line_model

POSTERIOR = ExactPosterior.of(line_model())
OPTIMA, BEST = torch.tensor([[1.0], [0.97]]).double(), torch.tensor([[0.2]]).double()
QUERIES = torch.linspace(0, 1, 11, dtype=torch.double).unsqueeze(-1)


def worth(
    costs: float | torch.Tensor = 1.0, counts: tuple[int, ...] = (1,), limit: float | None = None
) -> float:
    """Of queries on the line, most of a point that is not known yet."""
    costs = torch.ones(len(QUERIES)).double() * costs
    return latent_knowledge_per_cost(POSTERIOR, OPTIMA, BEST, QUERIES, costs, counts, limit, seed=0)


def test_one_query_is_worth_what_it_is_between_two_points() -> None:
    points = torch.cat([OPTIMA[:1], BEST])
    with torch.no_grad():
        mean = POSTERIOR.latent.mean(points)
        _, variance, cross = POSTERIOR.joint_with(POSTERIOR.latent.functionals(points))(QUERIES)
        slope = cross / (variance + POSTERIOR.noise_at(QUERIES)).sqrt().unsqueeze(-1)
    told = int(slope[:, 0].abs().argmax())
    spread = float((slope[told, 0] - slope[told, 1]).abs())
    far = float((mean[0] - mean[1]).abs()) / spread
    expected = spread * (norm.pdf(far) - far * norm.cdf(-far))
    found = latent_knowledge_per_cost(
        POSTERIOR, OPTIMA[:1], BEST, QUERIES, torch.ones(11).double(), (1,), None, seed=0
    )
    assert found == pytest.approx(expected, rel=0.15)
    assert found > 1e-3


def test_cost_counts() -> None:
    """By its unit, and for which query it is."""
    assert worth(7.0, (1, 2)) == pytest.approx(worth(1.0, (1, 2)) / 7)
    expensive = torch.where(QUERIES[:, 0] > 0.85, 1e3, 1.0)
    assert 0 < worth(expensive) < worth()


def test_several_queries_count_where_they_are_paid_for() -> None:
    """One of them may be worth most per unit of cost; none is what nothing pays for."""
    assert worth(counts=(1, 2)) >= worth() > 0
    assert worth(counts=(1, 2), limit=1.5) == worth()
    assert worth(counts=(1, 2), limit=0.5) == 0.0
