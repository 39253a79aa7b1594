"""What a user's function returns, as plain data, and names for such functions."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from ax.exceptions.core import UserInputError

from ax_costaware.runners.registry import register_trial_function, trial_function
from ax_costaware.runners.result import (
    AttemptState,
    AttemptStatus,
    TrialFailedError,
    TrialResult,
    plain_result,
    read_result,
    run_function,
)


def raw(data: Any) -> Any:
    """Numpy's numbers, which the type of ``TrialResult`` does not name."""
    return data


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (1, TrialResult(1)),
        (np.float32(0.5), TrialResult(0.5)),
        (torch.tensor(0.5), TrialResult(0.5)),
        (np.array(2), TrialResult(2)),
        (Fraction(1, 4), TrialResult(0.25)),
        ((1.0, None), TrialResult((1.0, None))),
        ((np.float64(1.0), np.int64(2)), TrialResult((1.0, 2))),
        ({"a": 1.0, "b": (2.0, 0.1)}, TrialResult({"a": 1.0, "b": (2.0, 0.1)})),
        ([1, np.float64(0.5)], TrialResult([1.0, 0.5])),
        ({"a": np.array([0.5, 1.0]), "b": 2.0}, TrialResult({"a": [0.5, 1.0], "b": 2.0})),
        (TrialResult(), TrialResult()),
        (
            TrialResult(
                raw({"a": np.int32(1)}), realized={"wind": np.float64(3), "on": np.True_}, cost=2
            ),
            TrialResult({"a": 1}, realized={"wind": 3.0, "on": True}, cost=2),
        ),
    ],
)
def test_travels_as_plain_data(outcome: Any, expected: TrialResult) -> None:
    plain = json.loads(json.dumps(plain_result(outcome), allow_nan=False))
    assert read_result(plain) == expected
    assert plain["returned"]


def test_nothing_returned_is_told_from_nothing_measured() -> None:
    assert not plain_result(None)["returned"]
    assert plain_result(TrialResult())["returned"]


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (math.nan, "its outcome as nan"),
        ({"a": math.inf}, r"its outcome\['a'\] as inf"),
        ([1.0, math.nan], "its outcome as nan"),
        ([[1.0], [0.1]], "a list"),
        (object(), "a object"),
        (TrialResult(1.0, realized=[1]), "realized="),  # type: ignore[arg-type]
        (TrialResult(1.0, cost=math.nan), "cost as nan"),
    ],
)
def test_refuses_what_is_no_outcome(outcome: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        plain_result(outcome)


def test_a_run_is_finished_or_failed() -> None:
    def fail(parameters: Any) -> float:
        raise TrialFailedError(f"spilt {parameters['water']}", cost=float(np.float32(0.5)))

    finished = run_function(lambda parameters: parameters["water"], {"water": 2.0})
    assert finished.status is AttemptStatus.FINISHED
    assert finished.result is not None
    assert read_result(finished.result) == TrialResult(2.0)
    assert AttemptState.from_plain(json.loads(json.dumps(finished.to_plain()))) == finished
    failed = run_function(fail, {"water": 2.0})
    assert (failed.status, failed.error, failed.cost) == (AttemptStatus.FAILED, "spilt 2.0", 0.5)
    assert run_function(fail, {}).error == (
        f"KeyError: 'water' (test_result.py, line {fail.__code__.co_firstlineno + 1}, in fail)"
    )
    assert "nan" in str(run_function(lambda _: math.nan, {}).error)


@pytest.mark.parametrize("cost", [-1.0, True, 10**400])
def test_a_cost_that_is_none_is_said_so(cost: float) -> None:
    def fail(_: Any) -> None:
        raise TrialFailedError("spilt", cost=cost)

    failed = run_function(fail, {})
    assert failed.cost is None
    assert f"spilt (cost={cost!r}" in failed.error


def test_an_interrupt_passes_and_an_exit_is_a_failure() -> None:
    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_function(interrupt, {})
    assert str(run_function(lambda _: exit(1), {}).error).startswith("SystemExit: 1 (")


def test_a_failure_says_where_and_never_nothing() -> None:
    def fail(_: Any) -> None:
        raise TrialFailedError("")

    assert run_function(fail, {}).error == "TrialFailedError"
    assert str(run_function(lambda _: next(iter([])), {}).error).startswith("StopIteration (")
    # What a library raises is told by the line of the user's function that called it.
    error = str(run_function(lambda _: np.linalg.inv(np.zeros((2, 2))), {}).error)
    assert error.startswith("LinAlgError: Singular matrix (test_result.py, line ")


def test_functions_have_names() -> None:
    def grow(parameters: Any) -> float:
        return 1.0

    register_trial_function("grow", grow)
    assert trial_function("grow") is grow
    assert trial_function(grow) is grow
    with pytest.raises(UserInputError, match="register_trial_function\\('shrink'"):
        trial_function("shrink")
    with pytest.raises(UserInputError, match="name=''"):
        register_trial_function("", grow)
    with pytest.raises(UserInputError, match="function=3"):
        register_trial_function("three", 3)  # type: ignore[arg-type]
