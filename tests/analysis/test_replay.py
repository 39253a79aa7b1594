"""The history that is read off a fitted model, against experiments that stopped earlier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from ax.api.client import Client
from ax.core.types import TParamValue
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize

from ax_costaware.analysis.replay import (
    ExpectedValue,
    even_selection,
    expected_values,
    largest_control_sets,
    recommendations,
    without_later,
)
from ax_costaware.ax_bridge.node import fitted_problem, method_of_class
from ax_costaware.costs.control_set import ControlSet
from ax_costaware.laws.marginals import Uniform
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.control_sets.query_space import QuerySpace
from ax_costaware.session import recommend

from .conftest import add_trials, make_client


def _space(client: Client) -> QuerySpace:
    method = method_of_class(client._generation_strategy, ControlSets)
    return QuerySpace(fitted_problem(client._experiment, client._generation_strategy), method)


def _value(space: QuerySpace, arm: Mapping[str, TParamValue]) -> ExpectedValue:
    (found,) = expected_values(space, space.points([arm]), [space.method.index_of(arm)])
    return found


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_recommendations_are_those_of_the_time_valued_today(sign: float) -> None:
    client = make_client(sign)
    add_trials(client, 4, sign)
    space = _space(client)
    replayed = recommendations(space)
    assert list(replayed) == [0, 1, 2, 3]
    for count in (1, 2, 4):
        earlier = make_client(sign)
        add_trials(earlier, count, sign)
        best = recommend(earlier)
        arm: dict[str, TParamValue] = {
            "control_set": best.control_set,
            "water": 50.0,
            "acid": 0.5,
            **best.parameters,
        }
        today = _value(space, arm)
        found = replayed[count - 1]
        assert found.control_set == today.control_set
        assert found.mean == pytest.approx(today.mean, abs=2e-3)
        assert found.standard_deviation == pytest.approx(today.standard_deviation, abs=2e-3)
    now = recommend(client)
    assert replayed[3].mean == now.expected_value
    assert sign * replayed[3].mean >= sign * replayed[0].mean - 1e-9


def test_value_of_a_query_is_the_mean_over_what_it_leaves_to_chance(client: Client) -> None:
    space = _space(client)
    assert [trial.index for trial in space.problem.observed] == [0, 2, 3]
    arm: dict[str, TParamValue] = {"control_set": "water", "water": 20.0, "acid": 0.5}
    value = _value(space, arm)
    levels = 200
    points: list[dict[str, TParamValue]] = [
        {**arm, "acid": (i + 0.5) / levels} for i in range(levels)
    ]
    means = space.problem.model.posterior(space.points(points)).mean
    expected = space.problem.scale.from_model(float(means.mean()))
    assert value.mean == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("known_noise", [True, False])
def test_restricted_model_is_the_gp_on_the_kept_rows(known_noise: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = 10 * torch.rand(7, 2, generator=generator, dtype=torch.double)
    outcomes = inputs.sin().sum(dim=-1, keepdim=True)
    noise = torch.linspace(0.01, 0.2, 7, dtype=torch.double).unsqueeze(-1)
    model = SingleTaskGP(
        inputs,
        outcomes,
        train_Yvar=noise if known_noise else None,
        input_transform=Normalize(2, bounds=torch.tensor([[0.0, 0.0], [10.0, 10.0]])),
        outcome_transform=Standardize(1),
    ).eval()
    keep = torch.tensor([True, True, False, True, False, False, True])
    scale = outcomes.std()
    with torch.no_grad():
        posterior = without_later(model, keep).posterior(inputs[:3] + 0.3)
        kept, new = inputs[keep] / 10, (inputs[:3] + 0.3) / 10
        kernel, constant = model.covar_module, model.mean_module.constant
        variance = noise[keep].flatten() / scale**2 if known_noise else model.likelihood.noise
        gram = kernel(kept).to_dense() + torch.eye(4, dtype=torch.double) * variance
        cross = kernel(new, kept).to_dense()
        residual = (outcomes[keep] - outcomes.mean()) / scale - constant
        mean = constant + cross @ torch.linalg.solve(gram, residual)
        spread = kernel(new).to_dense() - cross @ torch.linalg.solve(gram, cross.T)
        everything = without_later(model, torch.ones(7, dtype=torch.bool)).posterior(new)
        assert torch.allclose(everything.mean, model.posterior(new).mean)
    assert torch.allclose(posterior.mean, outcomes.mean() + scale * mean)
    assert torch.allclose(posterior.variance, scale**2 * spread.diagonal().unsqueeze(-1))
    assert len(model.train_targets) == 7


def test_largest_control_sets() -> None:
    settings = ControlSets(
        control_sets=tuple(
            ControlSet(parameters=tuple(name), cost=1.0, name=name)
            for name in ("a", "ab", "bc", "c")
        ),
        marginals={name: Uniform(0.0, 1.0) for name in "abc"},
    )
    assert largest_control_sets(settings) == [1, 2]
    alone = replace(settings, control_sets=settings.control_sets[:1], initial_control_sets=())
    assert largest_control_sets(alone) == [0]


@pytest.mark.parametrize(
    ("count", "expected"), [(2, [3, 9]), (3, [3, 5, 9]), (4, [3, 4, 5, 9]), (40, [3, 4, 5, 9])]
)
def test_even_selection(count: int, expected: list[int]) -> None:
    assert even_selection([3, 4, 5, 9], count) == expected
