"""The initial design: values on the right scale, control sets in turn, constraints met."""

from __future__ import annotations

import pytest
from ax.core.parameter import ChoiceParameter, ParameterType, RangeParameter
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpace

from ax_costaware import ControlSet, Uniform
from ax_costaware.generators.control_set_settings import ControlSetSettings
from ax_costaware.generators.initial_design import InitialDesign, value_at
from ax_costaware.queries import Marginal

FLOAT, INT = ParameterType.FLOAT, ParameterType.INT


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        (RangeParameter("x", FLOAT, 2.0, 4.0), [2.0, 3.0, 4.0]),
        (RangeParameter("x", FLOAT, 0.01, 1.0, log_scale=True), [0.01, 0.1, 1.0]),
        (RangeParameter("x", FLOAT, 0.1, 0.9, logit_scale=True), [0.1, 0.5, 0.9]),
        (RangeParameter("x", INT, 1, 5), [1, 3, 5]),
        (RangeParameter("x", INT, -3, -1), [-3, -2, -1]),
        (RangeParameter("x", INT, 1, 100, log_scale=True), [1, 10, 100]),
        (
            ChoiceParameter(
                "x", ParameterType.STRING, ["a", "b", "c"], is_ordered=False, sort_values=False
            ),
            ["a", "b", "c"],
        ),
    ],
)
def test_values_on_the_parameters_own_scale(
    parameter: RangeParameter | ChoiceParameter, values: list[object]
) -> None:
    """The ends and the middle of the range, as valid values."""
    found = [value_at(parameter, u) for u in (0.0, 0.5, 1.0 - 1e-12)]
    assert found == pytest.approx(values) if parameter.parameter_type is FLOAT else found == values
    assert all(parameter.validate(value) for value in found)


SETS = (ControlSet(["x"], 1.0), ControlSet(["z"], 1.0), ControlSet(["x", "z"], 3.0))
SPACE = SearchSpace([RangeParameter("x", FLOAT, 0.0, 1.0), RangeParameter("z", FLOAT, 0.0, 1.0)])


def design(space: SearchSpace = SPACE, seed: int = 0, sets: tuple[str, ...] = ()) -> InitialDesign:
    """A design over two inputs and three control sets."""
    marginals: dict[str, Marginal] = {"x": Uniform(0.2, 0.6), "z": Uniform(0.0, 1.0)}
    return InitialDesign(
        ControlSetSettings(SETS, marginals, seed=seed, initial_control_sets=sets), space
    )


def test_control_sets_take_turns() -> None:
    """Those named; the next one that may be used where one may not; the cheapest of the rest."""
    every = dict.fromkeys(["x", "z", "x+z"], True)
    names = [str(design().control_set(i, every).name) for i in range(4)]  # type: ignore[union-attr]
    assert names == ["x", "z", "x", "z"]
    assert design(sets=("x+z",)).control_set(5, every) == SETS[2]
    assert design().control_set(0, {**every, "x": False}) == SETS[1]
    assert design(sets=("x+z",)).control_set(0, {**every, "x+z": False}) == SETS[0]
    assert design().control_set(0, dict.fromkeys(every, False)) is None


def test_points_repeat_and_spread() -> None:
    """Functions of seed and index; uncontrolled inputs at their nominal values."""
    arms = [design().arm(i, SETS[0], {}) for i in range(8)]
    assert arms == [design().arm(i, SETS[0], {}) for i in range(8)]
    assert arms != [design(seed=1).arm(i, SETS[0], {}) for i in range(8)]
    assert {arm["z"] for arm in arms} == {0.5}
    assert {int(float(str(arm["x"])) * 8) for arm in arms} == set(range(8)), "one in each eighth"
    assert design().arm(0, SETS[2], {"x": 0.125})["x"] == 0.125


def test_constraints_are_met_with_the_rest_at_nominal_values() -> None:
    """Also by a control set that controls only one of the constrained inputs."""
    constraint = ParameterConstraint(inequality="x + z <= 0.6")
    space = SearchSpace(list(SPACE.parameters.values()), [constraint])
    for control_set in (SETS[0], SETS[2]):
        for index in range(6):
            arm = design(space).arm(index, control_set, {})
            assert float(str(arm["x"])) + float(str(arm["z"])) <= 0.6 + 1e-8
