"""The node of a strategy: it asks the loop, goes together with Ax's own nodes, and is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ax.adapter.registry import Generators
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig, StorageConfig
from ax.exceptions.core import OptimizationShouldStop, UserInputError
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MinTrials, TransitionCriterion

from ax_costaware import (
    BudgetExhausted,
    CostAwareNode,
    complete_trial,
    cost_aware_strategy,
    query,
    recommend,
    set_budget,
)
from ax_costaware.ax_bridge.node import method_of, method_of_class, node_of
from ax_costaware.ax_bridge.strategy import strategy_of
from ax_costaware.core.method import Method
from ax_costaware.core.problem import Decision, Problem, Stop
from ax_costaware.core.traits import Traits
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.cost_aware import CostAware
from tests.ax import gittins_toy
from tests.resuming import load, open_database

pytestmark = pytest.mark.usefixtures("short_searches")


def ax_node(
    name: str, generator: Generators, criteria: Sequence[TransitionCriterion] = ()
) -> GenerationNode:
    """A node of Ax's own."""
    kwargs = {"seed": 0} if generator is Generators.SOBOL else {}
    spec = GeneratorSpec(generator, generator_kwargs=kwargs)
    return GenerationNode(name=name, generator_specs=[spec], transition_criteria=[*criteria])


def test_two_methods_in_one_strategy() -> None:
    """They are refused when it is made."""
    nodes = [CostAwareNode(CostAware(1.0, budget=10.0)), CostAwareNode(CostAware(12.0), "Other")]
    with pytest.raises(UserInputError, match=r"nodes \['CostAware', 'Other'\] .* of one method"):
        GenerationStrategy(name="both", nodes=nodes)


def _composed(
    ours: Sequence[TransitionCriterion],
    config: StorageConfig | None = None,
    **method: Any,
) -> Client:
    """The toy experiment, run by Ax's design, then by CostAware, then by Ax's model."""
    client = gittins_toy.make_client(storage_config=config)
    given = {"cost": 1.0, "initial_trials": 2, "num_restarts": 2, "raw_samples": 32, **method}
    nodes = [
        ax_node("First", Generators.SOBOL, [MinTrials(3, transition_to="Ours")]),
        CostAwareNode(
            CostAware(**given), "Ours", gittins_toy.FAST["surrogate_spec"], transition_criteria=ours
        ),
        ax_node("Last", Generators.BOTORCH_MODULAR),
    ]
    client.set_generation_strategy(GenerationStrategy(name="composed", nodes=nodes))
    return client


def _nodes(client: Client) -> list[str]:
    runs = [trial.generator_runs[0] for trial in client._experiment.trials.values()]
    return [str(run._generation_node_name) for run in runs]


def test_a_batch_goes_on_with_the_next_node_when_the_budget_is_used_up() -> None:
    """The trials that are decided on count, as they will be charged."""
    client = _composed([BudgetExhausted(transition_to="Last")], budget=5.0)
    gittins_toy.run_trials(client, 3)
    assert len(client.get_next_trials(max_trials=4)) == 2
    gittins_toy.run_trials(client, 1)
    assert _nodes(client) == ["First"] * 3 + ["Ours"] * 2 + ["Last"]


def test_with_a_larger_budget_a_used_up_one_is_spent_again() -> None:
    """As long as no other node has gone on."""
    client = _composed([BudgetExhausted(transition_to="Last")], budget=5.5)
    gittins_toy.run_trials(client, 5)
    ours = node_of(client._generation_strategy)
    with pytest.raises(OptimizationShouldStop):
        ours.gen(experiment=client._experiment, pending_observations=None, n=1)
    (criterion,) = ours.transition_criteria
    assert criterion.is_met(client._experiment, ours)
    set_budget(client, 9.0)
    assert not criterion.is_met(client._experiment, ours)
    gittins_toy.run_trials(client, 1)
    assert _nodes(client)[-1] == "Ours"


def test_a_budget_of_a_node_of_ax() -> None:
    """It has none."""
    node = ax_node("Ax", Generators.SOBOL, [BudgetExhausted(transition_to="Other")])
    client = gittins_toy.make_client()
    client.set_generation_strategy(
        GenerationStrategy(name="ax", nodes=[node, ax_node("Other", Generators.SOBOL)])
    )
    with pytest.raises(UserInputError, match=r"node 'Ax': expected one of this package"):
        client.get_next_trials(max_trials=1)


def test_a_model_is_fitted_once_for_the_same_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch, a recommendation and the next call share it."""
    fitted: list[object] = []
    client = gittins_toy.make_client(initial_trials=2)
    gittins_toy.run_trials(client, 2)
    options = node_of(client._generation_strategy).loop.options
    make = type(options).fitted

    def fit(*args: Any) -> Any:
        fitted.append(args)
        return make(*args)

    monkeypatch.setattr(type(options), "fitted", fit)
    client.get_next_trials(max_trials=2)
    recommend(client)
    client.get_next_trials(max_trials=1)
    assert len(fitted) == 1


@dataclass(frozen=True)
class HalfTheDesign(Method):
    """Its initial trials have one parameter of the quasi-random design."""

    traits = Traits(label="HalfTheDesign")

    def initial(self, problem: Problem) -> Decision | Stop:
        row = {**problem.draw(), "x": 0.5}
        return self.initial_decision(problem, row, None, self.budget_state(problem, initial=True))

    def decide(self, problem: Problem) -> Decision | Stop:
        return Stop("never")


def test_an_initial_trial_is_what_the_method_decides() -> None:
    """Not what it drew; and the design goes on where it was."""
    client = Client()
    configs = [
        RangeParameterConfig(name, bounds=(0, 1), parameter_type="float") for name in ("x", "z")
    ]
    client.configure_experiment(parameters=configs)
    client.configure_optimization(objective="y")
    client.set_generation_strategy(strategy_of(HalfTheDesign(initial_trials=3)))
    arms = [*client.get_next_trials(max_trials=2).values(), *client.get_next_trials(1).values()]
    assert [arm["x"] for arm in arms] == [0.5, 0.5, 0.5]
    assert len({arm["z"] for arm in arms}) == 3
    for trial, arm in zip(client._experiment.trials.values(), arms, strict=True):
        assert trial.arms[0].parameters == arm


@pytest.mark.parametrize("together", [1, 5])
def test_a_design_goes_on_after_the_point_that_was_taken(together: int) -> None:
    """Quasi-random points thirty-two apart, which costs are looked at of, are beside each other."""
    client = Client()
    client.configure_experiment(parameters=[RangeParameterConfig("x", (0, 1), "float")])
    client.configure_optimization(objective="y")
    method = CostAware(1.0, budget=100.0, initial_trials=5, initialize_with_center=False)
    client.set_generation_strategy(strategy_of(method))
    points: list[float] = []
    while len(points) < 5:
        arms = client.get_next_trials(max_trials=together).values()
        points += [float(arm["x"]) for arm in arms]
    assert {int(4 * x) for x in points[:4]} == {0, 1, 2, 3}


@pytest.mark.parametrize("fixed", [{}, {"z": 0.3}])
def test_a_design_does_not_go_on_after_points_of_a_call_that_stopped(
    fixed: dict[str, float], tmp_path: Path
) -> None:
    """Nothing of them is stored: what is loaded goes on as the running experiment does."""
    client = Client()
    configs = [RangeParameterConfig(name, (0, 1), "float") for name in ("x", "z")]
    client.configure_experiment(parameters=configs)
    client.configure_optimization(objective="y")
    client.set_generation_strategy(cost_aware_strategy(cost="seconds", budget=2.5))
    (index,) = client.get_next_trials(max_trials=1)
    complete_trial(client, index, 1.0, cost=2.0)
    with pytest.raises(OptimizationShouldStop):
        client.get_next_trials(max_trials=1)
    set_budget(client, 20)
    path = str(tmp_path / "stored.json")
    client.save_to_json_file(path)
    loaded = Client.load_from_json_file(path)
    running, resumed = (
        each.get_next_trials(max_trials=2, fixed_parameters=fixed) for each in (client, loaded)
    )
    assert running == resumed


def test_a_batch_goes_on_with_the_model_where_the_design_has_no_further_point() -> None:
    """The last trial of a batch may be the first to ask for the model."""
    client = Client()
    configs = [ChoiceParameterConfig("x", [1, 4, 9], "int", is_ordered=True)]
    client.configure_experiment(parameters=configs)
    client.configure_optimization(objective="y")
    client.set_generation_strategy(cost_aware_strategy(cost=1.0, budget=20, initial_trials=4))
    (index,) = client.get_next_trials(max_trials=1)
    complete_trial(client, index, 1.0)
    arms = client.get_next_trials(max_trials=3).values()
    assert len(arms) == 2, "each value that was not tried, once"


@pytest.mark.parametrize(
    ("criterion", "method", "count", "suffix"),
    [
        # A half is left, and pays for no trial.
        (BudgetExhausted(transition_to="Last"), {"budget": 5.5}, 2, ".db"),
        (MinTrials(2, transition_to="Last"), {}, 2, ".json"),
    ],
)
def test_between_nodes_of_ax(
    criterion: TransitionCriterion,
    method: dict[str, Any],
    count: int,
    suffix: str,
    tmp_path: Path,
) -> None:
    """Each node goes on where the one before ends, loaded in between or not."""
    path = tmp_path / f"toy{suffix}"
    client = _composed([criterion], open_database(path) if suffix == ".db" else None, **method)
    stays = _composed([criterion], **method)
    for number in range(3 + count + 1):
        if number > 2:
            if suffix == ".json":
                client.save_to_json_file(str(path))
            client = load(str(path))
        gittins_toy.run_trials(client, 1)
        gittins_toy.run_trials(stays, 1)
    assert _nodes(client) == _nodes(stays) == ["First"] * 3 + ["Ours"] * count + ["Last"]
    for index in range(3, 3 + count):
        assert query(client, index) == query(stays, index)
    assert node_of(client._generation_strategy).transition_criteria == [criterion]
    assert recommend(client).parameters
    assert "Sobol" in query(client, 0).why


def test_the_method_of_a_strategy() -> None:
    """It is found whatever nodes of Ax's stand before it; another one is refused by name."""
    nodes = [ax_node("Ax", Generators.SOBOL), CostAwareNode(CostAware(cost=1.0))]
    strategy = GenerationStrategy(name="mine", nodes=nodes)
    assert node_of(strategy) is nodes[1]
    assert method_of_class(strategy, CostAware) == CostAware(cost=1.0)
    with pytest.raises(UserInputError, match=r"'mine'.*control_set_strategy"):
        method_of_class(strategy, ControlSets)
    other = GenerationStrategy(name="other", nodes=nodes[:1])
    for given, named in ((other, "'other'"), (5, "strategy 5")):
        with pytest.raises(UserInputError, match=named):
            method_of(given)  # type: ignore[arg-type]
