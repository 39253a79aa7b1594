"""Random experiments of every method, as Hypothesis draws them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.generation_strategy.generation_strategy import GenerationStrategy
from hypothesis import strategies as st

import ax_costaware as ac
from tests.priced import strategy_for

LEARNED = "seconds"
"""The metric of costs that are learned."""


@dataclass(frozen=True)
class Configuration:
    """An experiment with its strategy."""

    parameters: list[Any]
    strategy: Callable[[], GenerationStrategy]
    budget: float | None
    minimize: bool
    learns_costs: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What was drawn, for the report of a failure."""

    def client(self) -> Client:
        """The experiment before its first trial."""
        client = Client()
        client.configure_experiment(name="audit", parameters=self.parameters)
        client.configure_optimization(objective="-y" if self.minimize else "y")
        if self.learns_costs:
            client.configure_tracking_metrics([LEARNED])
        client.set_generation_strategy(self.strategy())
        return client

    def objective(self, inputs: Mapping[str, Any]) -> float:
        """A smooth function of all inputs, of about one."""
        total = 0.0
        for position, parameter in enumerate(self.parameters):
            if parameter.name in inputs and parameter.name != "control_set":
                total += math.sin(1.0 + position + 3.0 * _place(parameter, inputs[parameter.name]))
        return total


def _place(parameter: Any, value: Any) -> float:
    """Where in its parameter a value is, from nought to one."""
    if isinstance(parameter, ChoiceParameterConfig):
        return parameter.values.index(value) / len(parameter.values)
    lower, upper = parameter.bounds
    if parameter.scaling == "log":
        lower, upper, value = math.log(lower), math.log(upper), math.log(value)
    return (value - lower) / (upper - lower)


@st.composite
def _range(draw: st.DrawFn, name: str, plain: bool = False) -> RangeParameterConfig:
    kind = "float" if plain else draw(st.sampled_from(["float", "float", "int"]))
    log = not plain and draw(st.booleans())
    lower, upper = draw(
        st.sampled_from(
            [(1, 5), (1, 1000)]
            if log
            else [(0, 1), (0, 4), (-3, 7)]
            if kind == "int"
            else [(0, 1), (-1e-3, 1e-3), (50, 1e5)]
        )
    )
    return RangeParameterConfig(name, (lower, upper), kind, scaling="log" if log else None)


@st.composite
def _choice(draw: st.DrawFn, name: str) -> ChoiceParameterConfig:
    if draw(st.booleans()):
        return ChoiceParameterConfig(name, ["red", "green", "blue"], "str", is_ordered=False)
    return ChoiceParameterConfig(name, [1, 4, 9, 16], "int", is_ordered=True)


@st.composite
def _space(draw: st.DrawFn) -> list[Any]:
    kinds = draw(st.lists(st.booleans(), min_size=1, max_size=3))
    return [draw((_range if real else _choice)(f"x{i}")) for i, real in enumerate(kinds)]


def _budget(cost: float, none: bool = True) -> st.SearchStrategy[float | None]:
    """What pays for some trials of a cost, for a few dozen, or for all."""
    paying = st.sampled_from([1.0, 2.5, 5.0, 12.0, 40.0]).map(lambda trials: trials * cost)
    return st.none() | paying if none else paying


FIXED = ac.FixedHyperparameters(lengthscale=0.3, outputscale=0.5, noise_variance=1e-3)

SURROGATES = st.sampled_from([None, FIXED])

FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 16}

COMMON = st.fixed_dictionaries(
    {
        "initial_trials": st.integers(1, 3),
        "charge_initial": st.booleans(),
        "seed": st.integers(0, 9),
    }
)


@st.composite
def gittins(draw: st.DrawFn) -> Configuration:
    """With a cost that is declared, or learned."""
    space, unit = draw(_space()), draw(st.sampled_from([1e-6, 1.0, 300.0]))
    learned = draw(st.booleans())
    numbers = [p for p in space if isinstance(p, RangeParameterConfig) and p.bounds[0] >= 0]
    affine = {p.name: unit / p.bounds[1] for p in numbers[:1]}
    cost = LEARNED if learned else ac.AffineCost(affine, fixed=unit) if affine else unit
    settings: dict[str, Any] = {**draw(COMMON), "budget": draw(_budget(2.0 * unit)), **FAST}
    named = ["gittins", "log_ei_per_cost", "log_ei_cost_cooling", "log_nei_per_cost"]
    settings["acquisition"] = draw(st.sampled_from(named[: 3 if settings["budget"] else 2]))
    settings["stop"] = draw(st.booleans())
    priced = draw(st.sampled_from(["", "lmbda", "decay"]))
    if priced == "lmbda":
        settings["lmbda"] = 0.01 / unit
    elif priced == "decay":
        settings |= {"decay": ac.GittinsDecay(), "stop": False}
    elif settings["budget"] is None:
        settings["stop"] = False
    settings["cost_model"] = draw(st.sampled_from(["gp", "linear", "trend"]))
    settings["surrogate_spec"] = draw(SURROGATES)
    return Configuration(
        space,
        lambda: strategy_for(cost, **settings),
        settings["budget"],
        draw(st.booleans()),
        learned,
        {"cost": cost, **settings},
    )


@st.composite
def control_sets(draw: st.DrawFn) -> Configuration:
    """With costs that are known, unknown, or depend on the values that are set."""
    space = [draw(_range(f"x{i}", plain=True)) for i in range(draw(st.integers(2, 3)))]
    names = [p.name for p in space]
    subsets = st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)
    drawn = draw(st.lists(subsets.map(sorted).map(tuple), min_size=1, max_size=3, unique=True))
    kind = draw(st.sampled_from(["number", "learned", "of values"]))
    learned = kind == "learned"

    def cost(names: tuple[str, ...]) -> Any:
        """From so much to five times that, if by the first of the values."""
        least, (first, *_) = 0.5 * len(names) ** 2, (p for p in space if p.name in names)
        slope = 4.0 * least / (first.bounds[1] - first.bounds[0])
        affine = ac.AffineCost({first.name: slope}, fixed=least - slope * first.bounds[0])
        return {"number": least, "learned": None, "of values": affine}[kind]

    sets = [ac.ControlSet(list(s), cost=cost(s)) for s in drawn]
    marginals: dict[str, Any] = {}
    for p in space:
        lower, upper = map(float, p.bounds)
        middle, spread = 0.5 * (lower + upper), 0.2 * (upper - lower)
        marginals[p.name] = draw(
            st.sampled_from(
                [
                    ac.Uniform(lower, upper),
                    ac.TruncatedNormal(middle, spread, lower, upper),
                    ac.Discrete([lower, middle, upper], [0.25, 0.5, 0.25]),
                ]
            )
        )
    rules: list[Any] = [None]
    if not learned:
        rules += [ac.LargestValuePerCost(), ac.EpsilonSchedule(0.3)]
    if kind == "number":
        rules += [ac.ExploreThenCommit(2)]
    else:
        rules += [ac.ExploreThenCommit(2, by="size"), ac.UnknownCosts.published(50, rounds=1)]
    settings: dict[str, Any] = {
        **draw(COMMON),
        **FAST,
        "budget": draw(_budget(1.0 if learned else 0.5 * max(len(s) for s in drawn) ** 2)),
        "rule": draw(st.sampled_from(rules)),
        "initial_design": draw(st.sampled_from(["sobol", "uniform"])),
        "affordable_only": draw(st.booleans()),
        "lmbda": draw(st.sampled_from([None, 0.1])),
        "num_nodes": 16,
        "surrogate_spec": draw(SURROGATES),
    }
    return Configuration(
        [*space, ac.control_set_parameter(sets)],
        lambda: ac.control_set_strategy(sets, marginals, **settings),
        settings["budget"],
        draw(st.booleans()),
        learned,
        {"control_sets": sets, "marginals": marginals, **settings},
    )


@st.composite
def costly_feedback(draw: st.DrawFn) -> Configuration:
    """With every rule, costs of each kind, and a forgetting rate that is given or learned."""
    unit, space = draw(st.sampled_from([1e-6, 1.0, 300.0])), draw(_space())
    numbers = [p for p in space if isinstance(p, RangeParameterConfig) and p.bounds[0] >= 0]
    affine = {p.name: 3.0 * unit / p.bounds[1] for p in numbers[:1]}
    kind = draw(st.sampled_from(["number", "learned", *(["of values"] if affine else [])]))
    costs: dict[str, Any] = {"number": unit, "learned": LEARNED, "of values": None}
    cost = costs[kind] or ac.AffineCost(affine, fixed=unit)
    least = {"number": unit, "learned": 1.0, "of values": 2.0 * unit}[kind]
    rules = [ac.MeasurementRule(0.7), ac.LCBUCBRule(), ac.BernoulliRule(0.5), ac.FullFeedback()]
    rules += [ac.MixedRule(ac.MeasurementRule(), lower=0.1, upper=0.8)]
    settings: dict[str, Any] = {
        **draw(COMMON),
        **FAST,
        "cost": cost,
        "budget": draw(_budget(least)),
        "rule": draw(st.sampled_from([None, *rules])),
        "surrogate_spec": draw(SURROGATES),
    }
    if settings["surrogate_spec"] is not None or draw(st.booleans()):
        settings["forgetting"] = draw(st.sampled_from([0.01, 0.3]))
    return Configuration(
        space,
        lambda: ac.costly_feedback_strategy(**settings),
        settings["budget"],
        draw(st.booleans()),
        kind == "learned",
        settings,
    )


AVERAGES = {
    "acquisition": st.sampled_from(
        ["max_value_entropy", "max_value_entropy_noise_aware", "joint_entropy"]
    ),
    "hyperparameters": st.sampled_from([None, ac.FixedHyperparameters(0.3, noise_variance=1e-3)]),
    "num_samples": st.just(4),
    "lmbda": st.sampled_from([None, 0.1]),
}


@st.composite
def indirect_queries(draw: st.DrawFn) -> Configuration:
    """With one or two inputs of the queries, and a Gaussian law."""
    dims = draw(st.integers(1, 2))
    space = [RangeParameterConfig(f"a{i}", (0, 1), "float") for i in range(dims)]
    targets = [RangeParameterConfig(f"z{i}", (0, 1), "float") for i in range(dims)]
    identity = [[float(i == j) for j in range(dims)] for i in range(dims)]
    law = ac.GaussianConditional(
        identity, [0.0] * dims, covariance=draw(st.sampled_from([1e-3, 0.05])), outside="clip"
    )
    settings: dict[str, Any] = {
        **draw(COMMON),
        **draw(st.fixed_dictionaries(AVERAGES)),
        **FAST,
        "cost": draw(st.sampled_from([1.0, ac.AffineCost({"a0": 2.0}, fixed=0.5)])),
        "budget": draw(_budget(2.0)),
    }
    return Configuration(
        space,
        lambda: ac.indirect_query_strategy(targets, law, **settings),
        settings["budget"],
        draw(st.booleans()),
        False,
        settings,
    )


@st.composite
def resolution_tree(draw: st.DrawFn) -> Configuration:
    """With one or two parameters, and splits of two or three."""
    levels = draw(st.integers(1, 3))
    targets = [draw(_range(f"x{i}", plain=True)) for i in range(draw(st.integers(1, 2)))]
    settings: dict[str, Any] = {
        **draw(COMMON),
        **draw(st.fixed_dictionaries(AVERAGES)),
        "max_level": levels,
        "splits": draw(st.integers(2, 3)),
        "costs": draw(st.sampled_from([None, [1.0 + level for level in range(levels + 1)]])),
        "budget": draw(_budget(2.0)),
    }
    return Configuration(
        [ac.level_parameter(levels), *targets],
        lambda: ac.resolution_tree_strategy(targets, **settings),
        settings["budget"],
        draw(st.booleans()),
        False,
        settings,
    )


CONFIGURATIONS: dict[str, Callable[[], st.SearchStrategy[Configuration]]] = {
    "gittins": gittins,
    "control sets": control_sets,
    "costly feedback": costly_feedback,
    "indirect queries": indirect_queries,
    "resolution tree": resolution_tree,
}
