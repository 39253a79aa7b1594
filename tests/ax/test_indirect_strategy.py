"""Whole runs of ``indirect_query_strategy`` on Ax's Client and AxClient."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import (
    OptimizationShouldStop,
    UserInputError,
)

from ax_costaware import (
    AffineCost,
    FiniteConditional,
    FixedHyperparameters,
    GaussianConditional,
    LearnedConditional,
    RegressedConditional,
    TableCost,
    add_pairs,
    attach_table,
    complete_trial,
    indirect_query_strategy,
    query,
    recommend,
    register_conditional_mean,
)
from ax_costaware.acquisition import ConditionalJointEntropySearch, sample_optima
from ax_costaware.ax_bridge.node import fitted_problem, method_of_class
from ax_costaware.core.problem import Problem, decision_seed
from ax_costaware.methods.averages.indirect_queries import IndirectQueries
from ax_costaware.methods.averages.information import posterior
from ax_costaware.methods.averages.law import latent_space
from ax_costaware.models import ConditionalMeanProcess
from tests.ax.indirect_toy import (
    FAST,
    KNOWN,
    TARGETS,
    answer,
    learned,
    make_client,
    pairs,
    record,
    run_trials,
)

pytestmark = pytest.mark.usefixtures("short_searches")


def now(client: Client) -> tuple[IndirectQueries, Problem]:
    """Return the method, and what the next decision is made from."""
    strategy = client._generation_strategy
    return method_of_class(strategy, IndirectQueries), fitted_problem(client._experiment, strategy)


@pytest.mark.usefixtures("full_searches")
def test_a_decision_is_that_of_the_method() -> None:
    """No query on a grid tells more, by BoTorch's classes on the same data; the record is right."""
    sign = -1.0
    client = make_client(minimize=True, raw_samples=128, num_restarts=4)
    run_trials(client, 5, sign)
    method, problem = now(client)
    model = problem.model
    assert isinstance(model, ConditionalMeanProcess)
    targets = posterior(problem)
    seed = decision_seed(0, 5)
    inputs, outputs = sample_optima(targets, latent_space(method.target_parameters), 8, seed)
    entropy = ConditionalJointEntropySearch(model, inputs, outputs)
    side = torch.linspace(0.2, 0.8, 31, dtype=torch.double)
    grid = torch.cartesian_prod(side, side)
    with torch.no_grad():
        values = entropy(grid.unsqueeze(-2))
    ((_, arm),) = client.get_next_trials(max_trials=1).items()
    decided = record(client, 5)
    decision = decided["decision"]
    assert decision["information"] > float(values.max()) - 1e-6
    point = torch.tensor([[arm["a1"], arm["a2"]]], dtype=torch.double)
    mean, variance = problem.scale.moments(*targets(point))
    assert decision["mean"] == pytest.approx(float(mean), abs=1e-9)
    assert decision["standard_deviation"] == pytest.approx(float(variance) ** 0.5, abs=1e-9)
    assert decision["recommendation"]["parameters"] == recommend(client).parameters
    assert decision["recommendation"]["mean"] == recommend(client).expected_value


def test_where_no_query_tells_anything() -> None:
    """The least known query, and no corner of the space, is asked."""
    client = make_client()
    run_trials(client, 3)
    method, problem = now(client)
    state = method.budget_state(problem)
    region = method.region(problem, state, decision_seed(method.seed, problem.next_index))
    nothing: Any = lambda X: 0.0 * X.sum(dim=(-2, -1))  # noqa: E731
    chosen, *_ = method.choose(problem, region, nothing, state)
    _, variance = posterior(problem)(region.starts)
    _, own = posterior(problem)(chosen.point.unsqueeze(0))
    assert float(own) == pytest.approx(float(variance.max()))
    assert chosen.value == 0.0


def test_a_design_repeats_what_is_fixed_altogether() -> None:
    client = make_client(initial_trials=3, budget=50.0)
    fixed = {"a1": 0.3, "a2": 0.6}
    for _ in range(3):
        ((index, arm),) = client.get_next_trials(max_trials=1, fixed_parameters=fixed).items()
        assert dict(arm) == fixed
        complete_trial(client, index, {"z": answer(dict(arm))})


def test_reported_standard_errors_are_used() -> None:
    """An answer with a large standard error moves the posterior less."""
    means = []
    for sem in (0.01, 1.0):
        client = make_client(initial_trials=0)
        for a1 in (0.3, 0.5):
            index = client.attach_trial({"a1": a1, "a2": 0.5})
            complete_trial(client, index, {"z": (1.0, sem)})
        means.append(recommend(client).expected_value)
    assert means[0] > 1.0 > means[1] + 0.2
    # None at all is a small one.
    for other in (1.0, 0.5):
        exact = make_client(initial_trials=0, hyperparameters=None)
        for a1, value in ((0.3, 1.0), (0.5, other)):
            index = exact.attach_trial({"a1": a1, "a2": 0.5})
            complete_trial(exact, index, {"z": (value, 0.0)})
        assert recommend(exact).standard_deviation > 0


def test_learned_conditional_and_pairs() -> None:
    """What is learned answers alike; pairs are used from the next decision on, and by name."""
    client = make_client(conditional=learned(40))
    run_trials(client, 5)
    known = record(client, 4)["decision"]["pairs"]
    before = recommend(client).parameters
    X, A = pairs(30, seed=3)
    rows = [dict(zip(("x2", "x1"), reversed(x), strict=True)) for x in X.tolist()]
    assert add_pairs(client, rows, pd.DataFrame(A, columns=["a1", "a2"])) == 70
    assert known == 40
    # No new outcome, and yet another model.
    assert recommend(client).parameters != before
    run_trials(client, 1)
    assert record(client, 5)["decision"]["pairs"] == 70
    other = make_client(conditional=learned(40).with_pairs(X, A), query_parameters=["a1", "a2"])
    for index in range(6):
        arm = dict(client._experiment.trials[index].arms[0].parameters)
        complete_trial(other, other.attach_trial(arm), {"z": answer(arm)})
    assert recommend(other) == recommend(client)


def test_queries_far_from_all_pairs_are_left_alone() -> None:
    """The search stays where something was learned, and an attached trial elsewhere is refused."""
    X, A = pairs(40)
    near = A[:, 0] < 0.5
    law = LearnedConditional(X[near], A[near], lengthscale=0.3, regularization=1e-3)
    client = make_client(conditional=law)
    assert all(arm["a1"] < 0.75 for arm in run_trials(client, 6))
    nowhere = make_client(conditional=LearnedConditional(X, A + 9.0, lengthscale=0.3))
    with pytest.raises(OptimizationShouldStop, match=r"None of 256 .* is near the pairs"):
        nowhere.get_next_trials(max_trials=1)
    index = client.attach_trial({"a1": 0.8, "a2": 0.2})
    with pytest.raises(UserInputError, match=r"trial 6: .* is no query of the conditional: .*away"):
        complete_trial(client, index, {"z": 0.1})


def test_more_pairs_do_not_end_a_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Answers of queries that they are far from, by their own scale, are left out meanwhile."""
    client = make_client(conditional=learned(60), initial_trials=4)
    arms = run_trials(client, 5)
    best = recommend(client)
    (pending,) = client.get_next_trials(max_trials=1)
    random = np.random.default_rng(0)
    A = np.array([0.43, 0.62]) + 0.01 * random.standard_normal((600, 2))
    add_pairs(client, 10 * A, A)
    method, problem = now(client)
    far = list(method.omitted(problem).trials)
    kept = [trial.index for trial in problem.observed]
    assert 0 < len(far) < 5
    assert sorted([*far, *kept]) == [0, 1, 2, 3, 4]
    complete_trial(client, pending, {"z": 0.5})  # whether or not it is far
    frame = pd.DataFrame([{**arms[far[0]], "z": 0.1}])
    with pytest.raises(UserInputError, match=r"row 0: .*length-scales away"):
        attach_table(client, frame)
    client.save_to_json_file(str(tmp_path / "toy.json"))
    ((_, arm),) = client.get_next_trials(max_trials=1).items()
    assert str(far)[:-1] in caplog.text
    assert recommend(client) != best
    loaded = Client.load_from_json_file(str(tmp_path / "toy.json"))
    ((_, again),) = loaded.get_next_trials(max_trials=1).items()
    assert dict(again) == dict(arm)
    spread = random.uniform(0.15, 0.85, (1500, 2))
    add_pairs(client, 10 * spread, spread)
    _, problem = now(client)
    assert [trial.index for trial in problem.observed] == [0, 1, 2, 3, 4, 5]


def test_answers_that_are_all_far_from_the_pairs(caplog: pytest.LogCaptureFixture) -> None:
    """They are left out, which is logged, and the initial design goes on near the pairs."""
    client = make_client(conditional=learned(60), initial_trials=1)
    run_trials(client, 1)
    A = 0.9 + 1e-3 * np.random.default_rng(0).standard_normal((3000, 2))
    add_pairs(client, np.full((3000, 2), 9.0), A)
    (index,) = client.get_next_trials(max_trials=1)
    assert record(client, index)["phase"] == "initial"
    assert "The outcomes of trials [0] are left out until there are pairs near" in caplog.text


def bandit(conditional: FiniteConditional, values: list[Any], **strategy: Any) -> Client:
    """Providers that report averages over the arms that they use."""
    client = Client()
    client.configure_experiment(
        name="toy",
        parameters=[ChoiceParameterConfig("provider", values, "str", is_ordered=False)],
    )
    client.configure_optimization(objective="z")
    client.set_generation_strategy(
        indirect_query_strategy(
            [ChoiceParameterConfig("drug", ["a", "b", "c"], "str", is_ordered=False)],
            conditional,
            **{**FAST, **strategy},
        )
    )
    return client


POLICIES = ((0.8, 0.1, 0.1), (0.2, 0.6, 0.2), (0.1, 0.2, 0.7), (0.4, 0.3, 0.3))


def test_indirect_bandit() -> None:
    """The best arm from providers' averages; a provider may be asked again."""
    worth = np.array([0.2, 0.9, 0.5])
    names = ("north", "east", "south", "west")
    client = bandit(
        FiniteConditional(POLICIES, queries=names),
        list(names[::-1]),
        hyperparameters=FixedHyperparameters(lengthscale=0.5, noise_variance=0.05),
        cost=TableCost("provider", dict(zip(names, (1.0, 1.5, 2.0, 50.0), strict=True))),
    )
    noise = np.random.default_rng(0)
    for _ in range(10):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        mean = float(np.array(POLICIES[names.index(str(arm["provider"]))]) @ worth)
        complete_trial(client, index, {"z": mean + 0.1 * noise.standard_normal()})
    asked = [query(client, index).controlled["provider"] for index in range(3, 10)]
    assert "west" not in asked, "it is expensive, and says least"
    best = recommend(client)
    assert best.parameters == {"drug": "b"}
    assert {str(other.parameters["drug"]) for other in best.alternatives} == {"a", "c"}
    assert best.expected_value == pytest.approx(0.9, abs=3 * best.standard_deviation)


def test_points_of_a_finite_conditional() -> None:
    """What is recommended is one of them, with all its digits."""
    points = ((0.1, 0.2), (0.3, 1 / 3), (0.9, 0.7))
    client = Client()
    client.configure_experiment(parameters=[RangeParameterConfig("provider", (0, 3), "int")])
    client.configure_optimization(objective="z")
    targets = [RangeParameterConfig(name, (0, 1), "float") for name in ("x1", "x2")]
    law = FiniteConditional(POLICIES, points=points)
    client.set_generation_strategy(indirect_query_strategy(targets, law, **FAST))
    for _ in range(6):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        mean = float(np.array(POLICIES[int(str(arm["provider"]))]) @ [0.2, 0.9, 0.5])
        complete_trial(client, index, {"z": mean})
    assert recommend(client).parameters == {"x1": 0.3, "x2": 1 / 3}
    with pytest.raises(UserInputError, match="provider"):
        attach_table(client, pd.DataFrame({"provider": [7], "z": [0.1]}))


def test_scales_integers_and_named_means() -> None:
    """Log scales and integers on both sides, a fixed parameter, and a mean by name."""
    register_conditional_mean("decades", lambda A: torch.stack([A[..., 1], A[..., 0]], dim=-1))
    client = Client()
    client.configure_experiment(
        name="toy",
        parameters=[
            RangeParameterConfig("dose", (2.0, 50.0), "float", scaling="log"),
            RangeParameterConfig("size", (2, 8), "int"),
            ChoiceParameterConfig("unit", [1.0], "float"),
        ],
    )
    client.configure_optimization(objective="z")
    law = GaussianConditional.from_mean("triple", 3, covariance=[0.01, 0.01], outside="clip")
    register_conditional_mean(
        "triple", lambda A: torch.stack([A[..., 0] * A[..., 2], A[..., 1]], dim=-1)
    )
    targets = [
        RangeParameterConfig("x", (1.0, 100.0), "float", scaling="log"),
        RangeParameterConfig("k", (1, 9), "int"),
    ]
    client.set_generation_strategy(indirect_query_strategy(targets, law, **FAST))
    for _ in range(8):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        assert isinstance(arm["size"], int)
        far = (math.log10(float(str(arm["dose"]))) - 1) ** 2 + ((int(arm["size"]) - 5) / 8) ** 2
        complete_trial(client, index, {"z": math.exp(-4 * far)})
    best = recommend(client).parameters
    assert isinstance(best["k"], int)
    assert abs(math.log10(float(str(best["x"]))) - 1) < 0.3
    assert abs(best["k"] - 5) <= 1


@pytest.mark.usefixtures("full_searches")
def test_queries_go_on_telling_where_the_best_value_is_far_above_all_averages() -> None:
    """The value alone is told of by no average then, but the point is."""
    client = Client()
    client.configure_experiment(parameters=[RangeParameterConfig("a", (0, 50), "float")])
    client.configure_optimization(objective="z")
    client.set_generation_strategy(
        indirect_query_strategy(
            [RangeParameterConfig("dose", (0, 50), "float")],
            GaussianConditional([[1.0]], [0.0], covariance=25, outside="clip"),
            hyperparameters=FixedHyperparameters(lengthscale=0.06, noise_variance=1e-4),
            acquisition="max_value_entropy",
            num_restarts=2,
            raw_samples=32,
        )
    )
    told = []
    for _ in range(8):
        for index, arm in client.get_next_trials(max_trials=1).items():
            a = float(str(arm["a"]))
            complete_trial(client, index, 0.6 * math.exp(-(((a - 17) / 8) ** 2)))
            if "information" in query(client, index).decision:
                told.append(query(client, index))
    assert len(told) == 3
    assert all(found.decision["information"] > 1e-6 for found in told)
    assert told[-1].decision["acquisition"] == "joint_entropy"


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_published_model_is_equation_5(sign: float) -> None:
    """With a prior mean, and learned weights that do not sum to one."""
    m, lengthscale, noise, X, A = 0.6 * sign, 0.25, 1e-3, *pairs(40)
    law = LearnedConditional(X, A, 0.4, 1e-2, sampling_error=False, outside="keep")
    client = make_client(
        sign < 0,
        conditional=law,
        hyperparameters=FixedHyperparameters(lengthscale, 1.5, noise, mean=m),
    )
    arms = run_trials(client, 5, sign)
    best = recommend(client)

    def rbf(left: Any, right: Any) -> Any:
        return np.exp(-0.5 * ((left[:, None] - right) ** 2).sum(-1))

    asked = np.array([[arm["a1"], arm["a2"]] for arm in arms])
    unit = 0.4 * A.std(0)
    W = np.linalg.solve(
        rbf(A / unit, A / unit) + len(A) * 1e-2 * np.eye(len(A)), rbf(A / unit, asked / unit)
    )
    assert W.sum(0).max() < 0.95
    at, points = np.array([[*best.parameters.values()]]), X / (10 * lengthscale)
    k = 1.5 * rbf(at / (10 * lengthscale), points) @ W
    Q = 1.5 * W.T @ rbf(points, points) @ W + noise * np.eye(5)
    z = sign * np.array([answer(arm) for arm in arms])
    assert best.expected_value == pytest.approx(
        float((m + k @ np.linalg.solve(Q, z - m * W.sum(0)))[0]), abs=1e-5
    )
    variance = 1.5 - float((k @ np.linalg.solve(Q, k.T))[0, 0])
    assert best.standard_deviation == pytest.approx(math.sqrt(variance), abs=1e-5)


@pytest.mark.parametrize(
    ("X", "A", "named"),
    [
        ([[1, 2]], [[0.1, 0.2], [0.3, 0.4]], "X has 1 rows and A has 2"),
        ([[1, math.nan]], [[0.1, 0.2]], "X, row 0, 'x2'"),
        ([[1, 2]], [[0.1, math.inf]], "A, row 0, 'a2'"),
        ([[1, 2, 3]], [[0.1, 0.2]], "X"),
        ([{"x1": 1, "y": 2}], [[0.1, 0.2]], "X"),
        (pd.DataFrame([[1, 2, 3]], columns=["x1", "x2", "x1"]), [[0.1, 0.2]], "X"),
        ([[1, 99]], [[0.1, 0.2]], "X"),
        ([], [], "X"),
        ("pairs", [[0.1, 0.2]], "X='pairs'"),
        ([["a", 2]], [[0.1, 0.2]], "'x1'"),
    ],
)
def test_bad_pairs(X: Any, A: Any, named: str) -> None:
    """By row and name; nothing changes. Other conditionals have nothing to learn."""
    client = make_client(conditional=learned(40))
    with pytest.raises(UserInputError, match=named):
        add_pairs(client, X, A)
    assert not client._experiment._properties.get("ax_costaware")
    with pytest.raises(UserInputError, match="pairs"):
        add_pairs(make_client(), [[1, 2]], [[0.1, 0.2]])


KINDS = [TARGETS[0], ChoiceParameterConfig("x2", ["a", "b", "c"], "str", is_ordered=False)]
SMALL = [RangeParameterConfig(name, (0, 1), "float") for name in ("x1", "x2")]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"conditional": 3}, "conditional=3"),
        ({"conditional": GaussianConditional(((10, 0),), covariance=1.0)}, "target_parameters"),
        ({"target_parameters": []}, "target_parameters"),
        ({"target_parameters": ["x"]}, "target_parameters"),
        ({"target_parameters": [TARGETS[0]] * 2}, "x1"),
        ({"target_parameters": KINDS, "conditional": RegressedConditional(*pairs(9))}, "x2"),
        ({"target_parameters": SMALL, "conditional": learned(40)}, "outside of X"),
        ({"cost": ""}, "cost=''"),
        ({"cost": -1.0}, "cost=-1.0"),
        ({"acquisition": "ei"}, "acquisition='ei'"),
        ({"query_parameters": ["a1"]}, "query_parameters"),
        ({"query_parameters": 3}, "query_parameters=3"),
        ({"num_samples": 0}, "num_samples=0"),
        ({"hyperparameters": FixedHyperparameters(lengthscale=(1.0, 1.0, 1.0))}, "lengthscale"),
        ({"conditional": FiniteConditional(POLICIES)}, "target_parameters|arms"),
    ],
)
def test_settings_that_do_not_fit(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UserInputError, match=named):
        indirect_query_strategy(**{"target_parameters": TARGETS, "conditional": KNOWN, **options})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"query_parameters": ["a1", "b"]}, "query_parameters"),
        ({"conditional": GaussianConditional(((10,), (0,)), covariance=0.1)}, "conditional"),
        ({"conditional": GaussianConditional(((10, 0), (0, 10)), covariance=4.0)}, "outside="),
        ({"cost": AffineCost({"b": 1.0})}, "'b'"),
    ],
)
@pytest.mark.parametrize("initial_trials", [0, 2])
def test_experiments_that_do_not_fit(
    options: dict[str, Any], named: str, initial_trials: int
) -> None:
    """Before a trial is generated, with and without an initial design."""
    client = make_client(**options, initial_trials=initial_trials)
    if not initial_trials:
        client.complete_trial(client.attach_trial({"a1": 0.4, "a2": 0.4}), {"z": 0.5})
    before = len(client._experiment.trials)
    with pytest.raises(UserInputError, match=named):
        client.get_next_trials(max_trials=1)
    assert len(client._experiment.trials) == before


LINE = GaussianConditional(((10.0,),), covariance=0.1)
NAMED = FiniteConditional(POLICIES, queries=tuple("wxyz"))


@pytest.mark.parametrize(
    ("law", "parameter"),
    [
        (LINE, ChoiceParameterConfig("a", [0.5], "float", is_ordered=True)),
        (LINE, ChoiceParameterConfig("control_set", [0.5, 0.6], "float", is_ordered=True)),
        (LINE, ChoiceParameterConfig("a", ["x", "y"], "str", is_ordered=False)),
        (NAMED, ChoiceParameterConfig("provider", ["w", "x", "u"], "str", is_ordered=False)),
    ],
)
def test_parameters_that_do_not_fit(law: Any, parameter: Any) -> None:
    client = Client()
    client.configure_experiment(parameters=[parameter])
    client.configure_optimization(objective="z")
    targets = TARGETS[:1] if law is LINE else KINDS[1:]
    client.set_generation_strategy(indirect_query_strategy(targets, law, **FAST))
    with pytest.raises(UserInputError, match=parameter.name):
        client.get_next_trials(max_trials=1)


def test_fitted_bandit_with_numbers() -> None:
    """Arms that are numbers, in order; providers by number; hyperparameters fitted."""
    client = Client()
    client.configure_experiment(parameters=[RangeParameterConfig("provider", (1, 4), "int")])
    client.configure_optimization(objective="z")
    law = FiniteConditional(POLICIES, queries=(1, 2, 3, 4))
    doses = ChoiceParameterConfig("dose", [1.0, 2.0, 4.0], "float", is_ordered=True)
    options = {**FAST, "hyperparameters": None}
    client.set_generation_strategy(indirect_query_strategy([doses], law, **options))
    for _ in range(6):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        mean = float(np.array(POLICIES[int(str(arm["provider"])) - 1]) @ [0.2, 0.5, 0.9])
        complete_trial(client, index, {"z": mean})
    assert recommend(client).parameters == {"dose": 4.0}
