"""Finding a method in a strategy."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from ax.adapter.registry import Generators
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import OptimizationShouldStop, UserInputError
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from botorch.acquisition.analytic import PosteriorMean

from ax_costaware import complete_trial, gittins_strategy, set_budget
from ax_costaware.ax_bridge.initial_node import InitialNode
from ax_costaware.ax_bridge.nodes import ModelNode, fitted_adapter, method_of, method_of_class
from ax_costaware.ax_bridge.strategy import strategy_of
from ax_costaware.core.method import Method
from ax_costaware.core.model import FixedHyperparameters
from ax_costaware.core.problem import Decision, Problem, SpaceExhausted, Stop
from ax_costaware.methods.control_sets import ControlSets
from ax_costaware.methods.gittins import Gittins
from tests.ax.toy import CONTROL_SETS, MARGINALS


def strategy_with(method: Any, name: str = "method") -> GenerationStrategy:
    """A strategy with a node before the one that has the method."""
    specs = [
        GeneratorSpec(Generators.SOBOL, generator_kwargs=kwargs) for kwargs in ({}, {name: method})
    ]
    nodes = [GenerationNode(name=f"node{i}", generator_specs=[s]) for i, s in enumerate(specs)]
    return GenerationStrategy(name="mine", nodes=nodes)


@pytest.mark.parametrize("name", ["method", "settings"])
@pytest.mark.parametrize("method", [ControlSets(CONTROL_SETS, dict(MARGINALS)), Gittins(cost=1.0)])
def test_every_method(method: Method, name: str) -> None:
    """It is found whatever node holds it, and under the name that 0.1 and 0.2 stored."""
    assert method_of(strategy_with(method, name)) is method


@pytest.mark.parametrize("method", [None, {"budget": 1.0}, "gittins"])
def test_strategy_of_no_method(method: Any) -> None:
    """The refusal names the strategy, and what makes one."""
    message = r"'mine' .* expected one made by ax_costaware"
    with pytest.raises(UserInputError, match=message):
        method_of(strategy_with(method))
    with pytest.raises(UserInputError, match=message):
        method_of_class(strategy_with(method), ControlSets)
    with pytest.raises(UserInputError, match="strategy 5 does not know what a trial costs"):
        method_of(5)  # type: ignore[arg-type]


def test_strategy_of_another_method() -> None:
    """The refusal says which method it is, and which it has to be."""
    strategy = strategy_with(Gittins(cost=1.0))
    assert method_of_class(strategy, Gittins) == Gittins(cost=1.0)
    message = "'mine' comes from gittins_strategy: expected .* ax_costaware.control_set_strategy"
    with pytest.raises(UserInputError, match=message):
        method_of_class(strategy, ControlSets)


@pytest.mark.parametrize("initial_trials", [0, 3])
def test_two_methods_in_one_strategy(initial_trials: int) -> None:
    """They are refused when it is made; one method beside a node of Ax's is none of it."""
    costs = ({"cost": 1.0, "budget": 10.0}, {"cost": 12.0})
    first, second = (strategy_of(Gittins(**cost, initial_trials=initial_trials)) for cost in costs)
    after = ModelNode(method_of(second), "Other")
    with pytest.raises(UserInputError, match=r"nodes \['Gittins', 'Other'\] .* of one method"):
        GenerationStrategy(name="both", nodes=[*first.nodes_by_name.values(), after])
    before = InitialNode(2, 0, "Before", "Gittins")
    if initial_trials:
        with pytest.raises(UserInputError, match=r"nodes \['Before', 'InitialTrials'\]"):
            GenerationStrategy(name="both", nodes=[before, *first.nodes_by_name.values()])
    spec = GeneratorSpec(Generators.SOBOL, generator_kwargs={})
    nodes = [GenerationNode(name="Ax", generator_specs=[spec]), *first.nodes_by_name.values()]
    assert method_of(GenerationStrategy(name="beside", nodes=nodes)) == method_of(first)


@dataclass(frozen=True)
class HalfTheDesign(Method):
    """Its initial trials have one parameter of the quasi-random design."""

    label = "HalfTheDesign"

    def initial(self, problem: Problem) -> Decision | Stop:
        row = {**problem.draw(), "x": 0.5}
        return self.initial_decision(problem, row, None, self.money(problem, initial=True))

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
    method = Gittins(1.0, budget=100.0, initial_trials=5, initialize_with_center=False)
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
    client.set_generation_strategy(gittins_strategy(cost="seconds", budget=2.5))
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
    client.set_generation_strategy(gittins_strategy(cost=1.0, budget=20, initial_trials=4))
    (index,) = client.get_next_trials(max_trials=1)
    complete_trial(client, index, 1.0)
    arms = client.get_next_trials(max_trials=3).values()
    assert len(arms) == 2, "each value that was not tried, once"


def test_the_lent_optimiser_gives_no_point_of_a_finite_space_twice() -> None:
    """Ax tries one-hot corners that are no values, and rounds them to points that were tried."""
    client = Client()
    names = ("a", "b")
    configs = [
        ChoiceParameterConfig(name, ["u", "v", "w"], "str", is_ordered=False) for name in names
    ]
    client.configure_experiment(parameters=configs)
    client.configure_optimization(objective="y")
    model = FixedHyperparameters(lengthscale=0.5)
    strategy = strategy_of(Gittins(cost=1.0, initial_trials=0), model)
    client.set_generation_strategy(strategy)
    arms = list(product("uvw", "uvw"))
    for i, arm in enumerate(arms):
        client.attach_trial(dict(zip(names, arm, strict=True)))
        client.complete_trial(i, {"y": -float(i)})
        problem = fitted_adapter(client._experiment, strategy).problem()
        if i == len(arms) - 1:
            with pytest.raises(SpaceExhausted):
                problem.maximize(PosteriorMean(problem.model), {})
        elif i >= 4:
            point, _ = problem.maximize(PosteriorMean(problem.model), {})
            (row,) = problem.space.decode(point.unsqueeze(0))
            assert (row["a"], row["b"]) in arms[i + 1 :]
