from __future__ import annotations

from demo.gittins.digits import train

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
