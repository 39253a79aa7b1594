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
from ax.core.observation import ObservationFeatures
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
from tests.ax.toy import CONTROL_SETS, MARGINALS, arm_of, make_client, run_trials
from tests.resuming import load, open_database

pytestmark = pytest.mark.usefixtures("short_searches")


def ax_node(
    name: str, generator: Generators, criteria: Sequence[TransitionCriterion] = ()
) -> GenerationNode:
    """A node of Ax's own."""
    kwargs = {"seed": 0} if generator is Generators.SOBOL else {}
    spec = GeneratorSpec(generator, generator_kwargs=kwargs)
    return GenerationNode(name=name, generator_specs=[spec], transition_criteria=[*criteria])


@pytest.mark.parametrize(
    "method", [ControlSets(CONTROL_SETS, dict(MARGINALS)), CostAware(cost=1.0)]
)
def test_the_method_of_a_strategy(method: Method) -> None:
    """It is found whatever nodes of Ax's stand before it."""
    nodes = [ax_node("Ax", Generators.SOBOL), CostAwareNode(method)]
    strategy = GenerationStrategy(name="mine", nodes=nodes)
    assert method_of(strategy) is method
    assert node_of(strategy) is nodes[1]
    assert node_of(strategy).name == method.traits.label


def test_strategy_of_no_method() -> None:
    """The refusal names the strategy, and what makes one."""
    strategy = GenerationStrategy(name="mine", nodes=[ax_node("Ax", Generators.SOBOL)])
    message = r"'mine' .* expected one made by ax_costaware"
    with pytest.raises(UserInputError, match=message):
        method_of(strategy)
    with pytest.raises(UserInputError, match=message):
        method_of_class(strategy, ControlSets)
    with pytest.raises(UserInputError, match="strategy 5 does not know what a trial costs"):
        method_of(5)  # type: ignore[arg-type]


def test_strategy_of_another_method() -> None:
    """The refusal says which method it is, and which it has to be."""
    strategy = strategy_of(CostAware(cost=1.0))
    assert method_of_class(strategy, CostAware) == CostAware(cost=1.0)
    message = "'CostAware' comes from cost_aware_strategy: expected .*control_set_strategy"
    with pytest.raises(UserInputError, match=message):
        method_of_class(strategy, ControlSets)


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


@pytest.mark.parametrize("suffix", [".json", ".db"])
@pytest.mark.parametrize(
    ("criterion", "method", "count"),
    [
        (BudgetExhausted(transition_to="Last"), {"budget": 4.0, "charge_initial": False}, 4),
        # A half is left, and pays for no trial.
        (BudgetExhausted(transition_to="Last"), {"budget": 6.5}, 3),
        (MinTrials(2, transition_to="Last"), {"budget": 40.0}, 2),
        (MinTrials(2, transition_to="Last"), {}, 2),
    ],
)
def test_between_nodes_of_ax(
    criterion: TransitionCriterion,
    method: dict[str, Any],
    count: int,
    suffix: str,
    tmp_path: Path,
) -> None:
    """Each node goes on where the one before ends, loaded before every trial or not."""
    path = tmp_path / f"toy{suffix}"
    config = open_database(path) if suffix == ".db" else None
    client = _composed([criterion], config, **method)
    stays = _composed([criterion], **method)
    for _ in range(3 + count + 2):
        if suffix == ".json":
            client.save_to_json_file(str(path))
        client = load(str(path))
        gittins_toy.run_trials(client, 1)
        gittins_toy.run_trials(stays, 1)
    assert _nodes(client) == _nodes(stays) == ["First"] * 3 + ["Ours"] * count + ["Last"] * 2
    ours = [query(client, index).why for index in range(3, 3 + count)]
    assert ours == [query(stays, index).why for index in range(3, 3 + count)]
    assert [arm_of(client, i) for i in range(3, 3 + count)] == [
        arm_of(stays, i) for i in range(3, 3 + count)
    ]
    assert node_of(client._generation_strategy).transition_criteria == [criterion]
    assert recommend(client).parameters


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


def test_decisions_of_a_batch_are_pending_without_a_trial() -> None:
    """Each counts once, however many metrics there are; what cannot report any more does not."""
    client = make_client(initial_trials=1)
    run_trials(client, 2)
    (lost, running) = client.get_next_trials(max_trials=2)
    client.mark_trial_abandoned(lost)
    arm: dict[str, Any] = {"control_set": "x1+x2", "x1": 0.25, "x2": 0.5, "x3": 0.5}
    pending = {
        metric: [
            *(ObservationFeatures(arm_of(client, i), trial_index=i) for i in (lost, running)),
            ObservationFeatures({**arm, "x1": 0.5}),
            ObservationFeatures(arm),
        ]
        for metric in ("y", "cost")
    }
    node = node_of(client._generation_strategy)
    problem = node.problem(client._experiment, pending)
    assert [o.trial_index for o in problem.pending] == [running, None, None]
    assert problem.earlier_in_batch == [{**arm, "x1": 0.5}, arm]
    assert problem.next_index == 6
    assert node.problem(client._experiment).pending == ()


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
