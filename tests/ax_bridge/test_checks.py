"""What is refused with the experiment at hand, before its first trial is generated."""

from __future__ import annotations

from typing import Any

import pytest
from ax.api.client import Client
from ax.api.configs import (
    ChoiceParameterConfig,
    DerivedParameterConfig,
    RangeParameterConfig,
)
from ax.core.parameter import ChoiceParameter, ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from ax.exceptions.core import UnsupportedError, UserInputError

from ax_costaware import (
    ControlSet,
    Discrete,
    Empirical,
    Uniform,
    control_set_parameter,
    control_set_strategy,
)
from ax_costaware.ax_bridge.checks import (
    ax_errors,
    check_optimization_config,
    constraints_of,
)
from ax_costaware.ax_bridge.search_space import space_of
from ax_costaware.exceptions import InputError, UnsupportedInputError

SETS = (ControlSet(["x"], cost=1.0), ControlSet(["x", "n", "soil"], cost=2.0, name="all"))
MARGINALS: dict[str, Any] = {
    "n": Discrete((1, 2)),
    "soil": Discrete(("clay", "sand")),
}


def first_trial(
    control_sets: tuple[ControlSet, ...] = SETS,
    change: dict[str, Any] | None = None,
    without: str = "",
    parameter: Any = None,
    more: Any = None,
    constraints: list[str] | None = None,
    objective: str = "y",
    outcome_constraints: list[str] | None = None,
    rule: Any = None,
) -> Client:
    """Ask for the first trial of an experiment that has one thing changed."""
    client = Client()
    parameters = [
        RangeParameterConfig("x", (0.0, 1.0), "float"),
        RangeParameterConfig("n", (1, 4), "int"),
        ChoiceParameterConfig("soil", ["clay", "sand"], "str", is_ordered=False),
        control_set_parameter(SETS) if parameter is None else parameter,
        *([] if more is None else [more]),
    ]
    client.configure_experiment(
        name="checks",
        parameters=[p for p in parameters if p.name != without],
        parameter_constraints=constraints or [],
    )
    client.configure_optimization(objective, outcome_constraints=outcome_constraints)
    marginals = {name: m for name, m in {**MARGINALS, **(change or {})}.items() if m is not None}
    strategy = control_set_strategy(control_sets, marginals, rule=rule, budget=99.0)
    client.set_generation_strategy(strategy)
    client.get_next_trials(max_trials=1)
    return client


def test_outcome_constraints() -> None:
    """As Ax writes them: on either side, with a factor, and two on one metric."""
    client = Client()
    client.configure_experiment(
        name="bounds", parameters=[RangeParameterConfig("x", (0, 1), "int")]
    )
    client.configure_optimization("y", ["z <= 3", "-2*w >= 1", "z >= 0", "v >= 2.5"])
    config = check_optimization_config(client._experiment.optimization_config)
    found = {c.metric: (c.lower, c.upper) for c in constraints_of(config)}
    assert found == {"z": (0.0, 3.0), "w": (None, -0.5), "v": (2.5, None)}
    assert constraints_of(None) == ()


def test_fixed_parameters_need_nothing_and_cannot_be_controlled() -> None:
    """A parameter with one value takes no part."""
    fixed = ChoiceParameterConfig("lamp", ["on"], "str", is_ordered=False)
    client = first_trial(more=fixed)
    (arm,) = client._experiment.trials[0].arms
    assert arm.parameters["lamp"] == "on"
    with pytest.raises(UserInputError, match="'lamp', which the experiment fixes"):
        first_trial(
            control_sets=(SETS[0], ControlSet(["x", "lamp"], 2.0, name="all")), more=fixed,
            change={"x": Uniform(0, 1)},
        )  # fmt: skip


def test_spaces_that_no_method_takes() -> None:
    """What only Ax's own parameters can say."""
    x = RangeParameter("x", ParameterType.FLOAT, 0.0, 1.0)
    options: dict[str, Any] = {"is_ordered": False, "sort_values": False}
    task = ChoiceParameter(
        "site", ParameterType.STRING, ["a", "b"], is_task=True, target_value="a", **options
    )
    fidelity = RangeParameter(
        "epochs", ParameterType.FLOAT, 0.0, 1.0, is_fidelity=True, target_value=1.0
    )
    many = RangeParameter("seed", ParameterType.INT, 0, 2 * 10**8)
    for parameters, message in (
        ([x, task], "'site' is a task parameter"),
        ([x, fidelity], "'epochs' is a fidelity parameter"),
        ([x, many], r"'seed' has the bounds \(0, 200000000\): .* at most 1e\+08"),
    ):
        with pytest.raises(UnsupportedError, match=message):
            space_of(SearchSpace(parameters))
    space_of(SearchSpace([x]))


@pytest.mark.parametrize(
    ("ours", "axs"), [(InputError, UserInputError), (UnsupportedInputError, UnsupportedError)]
)
def test_errors_from_below_are_axs(ours: type[Exception], axs: type[Exception]) -> None:
    """With the same message, and what raised it; others pass as they are."""

    @ax_errors()
    def fail(error: Exception) -> None:
        raise error

    with pytest.raises(axs, match=r"x=1: expected 2") as caught:
        fail(ours("x=1: expected 2."))
    assert isinstance(caught.value.__cause__, ours)
    with pytest.raises(KeyError):
        fail(KeyError("x"))


NAMED = "control_set"
OTHERS = ChoiceParameterConfig(NAMED, ["x", "y"], "str", is_ordered=False)


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        ({"without": NAMED}, UserInputError, "control_set_parameter"),
        ({"parameter": OTHERS}, UserInputError, NAMED),
        ({"parameter": RangeParameterConfig(NAMED, (0, 1), "int")}, UserInputError, NAMED),
        ({"without": "soil"}, UserInputError, "soil"),
        ({"change": {"n": None}}, UserInputError, "'n'"),
        ({"change": {"wind": Uniform(0, 1)}}, UserInputError, "wind"),
        ({"change": {"x": Uniform(-0.5, 1)}}, UserInputError, "'x'.*'x >= 0'"),
        ({"change": {"x": Discrete(("a", "b"))}}, UserInputError, "'x'"),
        ({"change": {"n": Uniform(1, 4)}}, UserInputError, "'n'"),
        ({"change": {"n": Discrete((1, 9))}}, UserInputError, r"'n'.*'n <= \d'"),
        ({"change": {"n": Empirical((1.5, 2.0))}}, UserInputError, "'n'"),
        ({"change": {"soil": Uniform(0, 1)}}, UserInputError, "soil"),
        ({"change": {"soil": Discrete(("clay", "loam"))}}, UserInputError, "loam"),
        ({"constraints": ["x + n <= 0.5"]}, UserInputError, "constraint"),
        ({"objective": "y + 2*z"}, UnsupportedError, r"\['y', 'z'\]"),
        ({"outcome_constraints": ["z >= 0.9 * baseline"]}, UnsupportedError, "z"),
        ({"outcome_constraints": ["z + 2*w <= 1"]}, UnsupportedError, "metric"),
        ({"more": DerivedParameterConfig("twice", "2 * x", "float")}, UnsupportedError, "twice"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    change: dict[str, Any], error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named):
        first_trial(**change)


def test_no_objective() -> None:
    with pytest.raises(UserInputError, match="no objective"):
        check_optimization_config(None)


def test_a_sample_of_integers_and_a_single_control_set() -> None:
    """Ax makes a fixed parameter of a choice between one."""
    first_trial(change={"n": Empirical((1.0, 1.0, 3.0))})
    one = control_set_parameter([SETS[1]])
    client = first_trial((SETS[1],), change={"x": Uniform(0, 1)}, parameter=one)
    assert client._experiment.trials[0].arms[0].parameters["control_set"] == "all"
