from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_python_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All examples, one after the other, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    # Ax has one database per process.
    monkeypatch.setattr("ax.storage.sqa_store.db.SESSION_FACTORY", None)
    random.seed(0)
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text("utf-8"), re.M | re.S)
    assert len(blocks) >= 4
    namespace: dict[str, Any] = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{README.name}, example {number}", "exec"), namespace)
    printed = capsys.readouterr().out
    assert "Trial 7: set epochs" in printed, "the classifier has not stopped after eight trials"
    assert "initial: 5 trials" in printed
    assert "worth it:" in printed
    assert "of 300 rounds measured; " in printed
    assert namespace["loop"].num_measured < 250
    assert "Trial 7: set timeout" in printed
    assert "of 500, " in printed
    assert "Trial 9: set recommended" in printed
    assert "dose = 4" in printed, "the best dose is 42"
    assert "Trial 11: set level" in printed
    assert "of 60, " in printed
    assert "Trial 7: set temperature" in printed
    assert "Spent 8 of 50, 42 remaining." in printed
    assert "Trial 8: set temperature" in printed
    assert "of 60, " in printed
    assert "humidity: 5 trials" in printed
    assert len(namespace["client"].summarize()) == 1, "the experiment in the database has one trial"
    assert namespace["best"].points.shape == (3, 3)
