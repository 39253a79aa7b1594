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
    UnsupportedError,
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
    UniformBoxConditional,
    add_pairs,
    attach_table,
    complete_trial,
    indirect_query_strategy,
    query,
    recommend,
    register_conditional_mean,
    spending,
)
from ax_costaware.acquisition import ConditionalJointEntropySearch, sample_optima
from ax_costaware.analysis import IndirectQueryAnalysis
from ax_costaware.ax_bridge.node import fitted_problem, method_of_class
from ax_costaware.core.problem import Problem, decision_seed
from ax_costaware.methods.averages.indirect_queries import IndirectQueries
from ax_costaware.methods.averages.information import posterior
from ax_costaware.methods.averages.law import latent_space
from ax_costaware.models import ConditionalMeanProcess
from tests.ax.indirect_toy import (
    BEST,
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
def test_finds_the_best_point_from_averages() -> None:
    """The optimum in X, and its height above any answer; Ax's own views would mislead."""
    client = make_client(raw_samples=128, num_restarts=4)
    run_trials(client, 13)
    best = recommend(client)
    found = [float(str(best.parameters[name])) for name in ("x1", "x2")]
    assert math.dist(found, BEST) < 0.5
    assert best.expected_value == pytest.approx(1.0, abs=0.1)
    assert 0 < best.standard_deviation < 0.2
    assert best.expected_cost is None
    assert best.control_set is None
    assert "cost" not in str(best)
    assert all(best.expected_value >= other.expected_value for other in best.alternatives)
    with pytest.raises(UnsupportedError, match=r"are averages .*ax_costaware\.recommend"):
        client.predict([{"a1": 0.4, "a2": 0.6}])
    assert str(spending(client)).startswith("Spent 13.")


@pytest.mark.usefixtures("full_searches")
@pytest.mark.parametrize("minimize", [False, True])
def test_a_decision_is_that_of_the_method(minimize: bool) -> None:
    """No query on a grid tells more, by BoTorch's classes on the same data; the record is right."""
    sign = -1.0 if minimize else 1.0
    client = make_client(minimize, raw_samples=128, num_restarts=4)
    run_trials(client, 5, sign)
    method, problem = now(client)
    assert problem.minimize == minimize
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
    assert (decided["phase"], decided["expected_cost"]) == ("rule", 1.0)
    assert query(client, 5).measure
    assert decided["why"].count("least" if minimize else "greatest") == 1


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


def test_budget_and_costs() -> None:
    """Costs are by the query's parameters; what is chosen can be paid; then it says what to do."""
    client = make_client(cost=AffineCost({"a1": 10.0}), budget=24.0)
    costs = []
    for _ in range(30):
        try:
            ((index, arm),) = client.get_next_trials(max_trials=1).items()
        except OptimizationShouldStop as stop:
            message = str(stop)
            break
        asked = query(client, index)
        assert asked.expected_cost == 10.0 * float(str(arm["a1"]))
        costs.append(asked.expected_cost)
        assert sum(costs) <= 24.0 * (1 + 1e-9)
        complete_trial(client, index, {"z": answer(dict(arm))})
    assert spending(client).spent == pytest.approx(sum(costs))
    assert "what is left pays for no trial" in message
    assert f"Deploy {recommend(client).parameters}" in message
    assert 24.0 - sum(costs) < 2.0 + 0.1, "the cheapest query costs 2"
    assert ", per unit of cost: " in query(client, 3).why
    # In a batch as many as are certain to be paid.
    batch = make_client(cost=2.0, budget=9.0)
    assert len(batch.get_next_trials(max_trials=9)) == 3, "the initial design"
    for index in range(3):
        complete_trial(batch, index, {"z": 0.1 * index})
    assert len(batch.get_next_trials(max_trials=9)) == 1
    free = make_client(cost=2.0, budget=2.0, charge_initial=False)
    run_trials(free, 4)
    with pytest.raises(OptimizationShouldStop):
        free.get_next_trials(max_trials=1)
    with pytest.raises(UserInputError, match=r"budget=1\.0: expected a larger one"):
        make_client(cost=2.0, budget=1.0).get_next_trials(max_trials=1)


def test_another_strategy_asks_no_query_of_the_design_again() -> None:
    client = make_client(initial_trials=4)
    arms = run_trials(client, 2)
    other = make_client(initial_trials=4, budget=50.0)
    client.set_generation_strategy(other._generation_strategy)
    arms += run_trials(client, 2)
    assert [record(client, index)["phase"] for index in range(4)] == ["initial"] * 4
    assert len({tuple(arm.values()) for arm in arms}) == 4


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


@pytest.mark.parametrize(
    ("X", "A", "message"),
    [
        ([[1, 2]], [[0.1, 0.2], [0.3, 0.4]], "X has 1 rows and A has 2"),
        ([[1, math.nan]], [[0.1, 0.2]], "X, row 0, 'x2': got nan; expected a finite number"),
        ([[1, 2]], [[0.1, math.inf]], "A, row 0, 'a2': got inf"),
        ([[1, 2, 3]], [[0.1, 0.2]], r"X has the columns \[0, 1, 2\]: expected rows with"),
        ([{"x1": 1, "y": 2}], [[0.1, 0.2]], r"X has the columns \['x1', 'y'\]"),
        (
            pd.DataFrame([[1, 2, 3]], columns=["x1", "x2", "x1"]),
            [[0.1, 0.2]],
            r"X has the columns \['x1', 'x2', 'x1'\]",
        ),
        ([[1, 99]], [[0.1, 0.2]], "outside of X"),
        ([], [], "X has no rows"),
        ("pairs", [[0.1, 0.2]], "X='pairs': expected rows"),
        ([["a", 2]], [[0.1, 0.2]], "'x1' has the value 'a': expected a number"),
    ],
)
def test_bad_pairs(X: Any, A: Any, message: str) -> None:
    """They are refused by row and name, and change nothing."""
    client = make_client(conditional=learned(40))
    with pytest.raises(UserInputError, match=message):
        add_pairs(client, X, A)
    assert not client._experiment._properties.get("ax_costaware")


def test_pairs_are_for_a_learned_conditional() -> None:
    """Anything else has nothing to learn."""
    with pytest.raises(UserInputError, match="pairs are for a RegressedConditional or a L"):
        add_pairs(make_client(), [[1, 2]], [[0.1, 0.2]])


def test_scatter_is_about_numbers() -> None:
    """A regression on values without an order is refused where it is made."""
    targets = [TARGETS[0], ChoiceParameterConfig("x2", ["a", "b", "c"], "str", is_ordered=False)]
    with pytest.raises(UserInputError, match=r"target_parameters \['x2'\], whose values have no"):
        indirect_query_strategy(targets, RegressedConditional(*pairs(9)))


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
    assert f"The outcomes of trials {str(far)[:-1]}" in caplog.text
    assert recommend(client) != best
    client.compute_analyses([IndirectQueryAnalysis()])
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
    asked = [
        dict(trial.arms[0].parameters)["provider"] for trial in client._experiment.trials.values()
    ]
    assert "west" not in asked[3:], "it is expensive, and says least"
    assert (
        spending(client).entries[5].charged == {"north": 1.0, "east": 1.5, "south": 2.0}[asked[5]]
    )
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
    assert len(recommend(client).alternatives) == 2
    with pytest.raises(
        UserInputError, match=r"7.0: expected one of the queries \[0.0, 1.0, 2.0, 3"
    ):
        attach_table(client, pd.DataFrame({"provider": [7], "z": [0.1]}))


def test_fitted_bandit_with_numbers() -> None:
    """Arms that are numbers, in order; providers by number; hyperparameters fitted."""
    client = Client()
    client.configure_experiment(
        name="toy", parameters=[RangeParameterConfig("provider", (1, 4), "int")]
    )
    client.configure_optimization(objective="z")
    law = FiniteConditional(POLICIES, queries=(1, 2, 3, 4))
    doses = ChoiceParameterConfig("dose", [1.0, 2.0, 4.0], "float", is_ordered=True)
    options = {**FAST, "hyperparameters": None}
    client.set_generation_strategy(indirect_query_strategy([doses], law, **options))
    for _ in range(7):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        mean = float(np.array(POLICIES[int(str(arm["provider"])) - 1]) @ [0.2, 0.5, 0.9])
        complete_trial(client, index, {"z": mean})
    assert recommend(client).parameters == {"dose": 4.0}


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


def test_boxes() -> None:
    """A window around the query; half of it may leave X where the user says what then."""
    client = make_client(
        conditional=UniformBoxConditional(0.1, outside="clip"),
        target_parameters=[RangeParameterConfig(n, (0.2, 0.8), "float") for n in ("x1", "x2")],
    )
    run_trials(client, 4)
    assert recommend(client).parameters.keys() == {"x1", "x2"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"conditional": 3}, "conditional=3: expected one such as GaussianConditional"),
        (
            {"conditional": GaussianConditional(((10, 0),), covariance=1.0)},
            r"target_parameters has \['x1', 'x2'\], and .* points of 1 columns",
        ),
        ({"target_parameters": []}, "expected at least one parameter"),
        ({"target_parameters": ["x"]}, "target_parameters has 'x': expected RangeParameterConfig"),
        ({"target_parameters": [TARGETS[0]] * 2}, r"has \['x1'\] more than once"),
        ({"cost": "minutes"}, "cost='minutes': expected a finite number > 0"),
        ({"cost": -1.0}, "cost=-1.0"),
        ({"budget": 0}, "budget=0"),
        ({"acquisition": "ei"}, "acquisition='ei': expected one of"),
        ({"query_parameters": ["a1"]}, "expected the names of 2 parameters"),
        ({"num_samples": 0}, "num_samples=0"),
        (
            {"hyperparameters": FixedHyperparameters(lengthscale=(1.0, 1.0, 1.0))},
            "has 3 numbers: expected one, or one for each of the 2 target parameters",
        ),
        (
            {"conditional": FiniteConditional(POLICIES)},
            "probabilities of 3 arms and no points: expected one parameter with as many values",
        ),
        (
            {
                "conditional": learned(40),
                "target_parameters": [
                    RangeParameterConfig(n, (0, 1), "float") for n in ("x1", "x2")
                ],
            },
            "rows outside of X",
        ),
    ],
)
def test_settings_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    """They are refused when the strategy is made."""
    with pytest.raises(UserInputError, match=message):
        indirect_query_strategy(**{"target_parameters": TARGETS, "conditional": KNOWN, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"query_parameters": ["a1", "b"]}, r"the experiment has the parameters \['a1', 'a2'\]"),
        (
            {"conditional": GaussianConditional(((10,), (0,)), covariance=0.1)},
            "takes queries of 1 columns: expected as many",
        ),
        (
            {"conditional": GaussianConditional(((10, 0), (0, 10)), covariance=4.0)},
            "outside='clip' moves them to the bounds",
        ),
        ({"cost": AffineCost({"b": 1.0})}, r"reads \['b'\], which the experiment does not have"),
    ],
)
def test_experiments_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    """They are refused before the first trial, with and without an initial design."""
    for initial_trials in (2, 0):
        client = make_client(**options, initial_trials=initial_trials)
        if not initial_trials:
            complete_trial_as_ax_does(client)
        with pytest.raises(UserInputError, match=message):
            client.get_next_trials(max_trials=1)
        assert len(client._experiment.trials) == (0 if initial_trials else 1)


def complete_trial_as_ax_does(client: Client) -> None:
    """An attached trial with an outcome."""
    client.complete_trial(client.attach_trial({"a1": 0.4, "a2": 0.4}), {"z": 0.5})


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        (ChoiceParameterConfig("a", [0.5], "float"), "none of which can be chosen"),
        (ChoiceParameterConfig("control_set", [0.5, 0.6], "float"), "a name that is kept"),
        (ChoiceParameterConfig("a", ["x", "y"], "str"), "values that are no numbers"),
    ],
)
@pytest.mark.filterwarnings("ignore:`is_ordered` is not specified")
def test_parameters_that_do_not_fit(parameter: Any, message: str) -> None:
    """A query is chosen, and is a number."""
    client = Client()
    client.configure_experiment(parameters=[parameter])
    client.configure_optimization(objective="z")
    law = GaussianConditional(((10.0,),), covariance=0.1)
    client.set_generation_strategy(indirect_query_strategy(TARGETS[:1], law, **FAST))
    with pytest.raises(UserInputError, match=message):
        client.get_next_trials(max_trials=1)


def test_values_that_name_no_policy() -> None:
    """A choice of which one stands for no row of the conditional."""
    client = bandit(FiniteConditional(POLICIES, queries=tuple("wxyz")), ["w", "x", "u"])
    with pytest.raises(
        UserInputError, match=r"'provider' has the values .*expected a choice among"
    ):
        client.get_next_trials(max_trials=1)


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
    assert told[-1].why.startswith("No answer tells of the greatest value by itself any more.")


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
