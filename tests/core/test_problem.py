"""What one decision is made from."""

from __future__ import annotations

import pytest

from ax_costaware.core.history import PastTrial
from ax_costaware.core.problem import Pending, Problem, decision_seed
from ax_costaware.space.parameters import Choice, Fixed, Range
from ax_costaware.space.space import Space

SPACE = Space.of([Range("x", 0, 1)])


def test_seeds_differ_between_trials_and_runs() -> None:
    """And are the same every time."""
    seeds = {decision_seed(seed, index) for seed in range(20) for index in range(20)}
    assert len(seeds) == 400
    assert decision_seed(1, 2) == decision_seed(1, 2)


def test_decisions_of_one_batch_count_as_trials_to_come() -> None:
    trials = (
        PastTrial(0, {"x": 0.25}, outcome=1.0, is_observed=True, record={"phase": "initial"}),
        PastTrial(1, {"x": 0.5}, status="RUNNING", record={"phase": "rule"}),
    )
    pending = (Pending(1, {"x": 0.5}), Pending(None, {"x": 0.75}))
    problem = Problem(SPACE, trials, pending)
    assert problem.earlier_in_batch == [{"x": 0.75}]
    assert (problem.next_index, problem.num_initial) == (3, 2)
    assert problem.X_pending is not None
    assert problem.X_pending.tolist() == [[0.5], [0.75]]
    assert problem.evaluated.tolist() == [[0.25]]
    assert Problem(SPACE).X_pending is None


def test_evaluated_as_realised() -> None:
    trial = PastTrial(0, {"x": 0.25}, outcome=1.0, is_observed=True, realized={"x": 0.125})
    assert Problem(SPACE, (trial,)).evaluated.tolist() == [[0.125]]


def test_columns_that_are_held() -> None:
    """All of a block; none of what is no column of the model."""
    space = Space.of(
        [
            Range("x", 0, 1),
            Range("rate", 0.01, 1.0, log_scale=True),
            Choice("soil", ("sand", "clay", "peat")),
            Choice("control_set", ("x", "all")),
            Fixed("site", "here"),
        ],
        hidden=["control_set"],
    )
    fixed = {"soil": "clay", "rate": 0.1, "site": "here", "control_set": "all"}
    held = Problem(space, fixed=fixed).held
    assert held == pytest.approx({1: -1.0, 2: 0.0, 3: 1.0, 4: 0.0})
    assert Problem(space).immovable == (2, 3, 4)
    assert Problem(space, fixed=fixed).immovable == (1, 2, 3, 4)


def test_what_was_not_lent_is_said() -> None:
    with pytest.raises(RuntimeError, match="without a model, an optimiser or a design"):
        _ = Problem(SPACE).model
