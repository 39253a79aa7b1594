from __future__ import annotations

import pytest

from demo.gittins.digits import BOUNDS, confirmed_accuracy, hyperparameters, train

CHEAP = {"learning_rate": 1e-2, "units": 16, "epochs": 3, "batch_size": 256}


def test_accuracy_is_repeatable_and_the_time_is_measured() -> None:
    first, again = train(CHEAP), train(CHEAP)
    assert first.accuracy == again.accuracy
    assert 0.3 < first.accuracy < 0.95
    assert 0 < first.seconds < 5
    assert first.seconds != again.seconds


def test_more_training_costs_more_and_pays() -> None:
    cheap, expensive = train(CHEAP), train({**CHEAP, "units": 64, "epochs": 20, "batch_size": 64})
    assert expensive.seconds > 2 * cheap.seconds
    assert expensive.accuracy > max(cheap.accuracy, 0.96)


def test_other_shuffles_give_other_accuracies() -> None:
    other = confirmed_accuracy(CHEAP, shuffles=1)
    assert other == train(CHEAP, shuffle=1).accuracy
    assert other != train(CHEAP).accuracy


def test_search_space() -> None:
    space = {parameter.name: parameter for parameter in hyperparameters()}
    assert {name: parameter.bounds for name, parameter in space.items()} == BOUNDS
    assert {parameter.scaling for parameter in space.values()} == {"log"}
    floats = [name for name, parameter in space.items() if parameter.parameter_type == "float"]
    assert floats == ["learning_rate"]


def test_a_missing_hyperparameter_is_named() -> None:
    with pytest.raises(KeyError, match="units"):
        train({"learning_rate": 1e-2, "epochs": 3, "batch_size": 256})
