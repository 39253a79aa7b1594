from __future__ import annotations

from ax_costaware.generators.indirect_generator import little_left


def test_the_reason_says_when_nothing_is_left_to_learn() -> None:
    assert little_left(0.1) == ""
    assert "you may stop" in little_left(1e-9)
