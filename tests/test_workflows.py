"""The workflows of continuous integration do what can be done at home: every step is a target."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))


def combinations(matrix: dict[str, Any]) -> list[dict[str, str]]:
    """The values of a matrix; what is included is a combination of its own."""
    lists = {name: values for name, values in matrix.items() if name != "include"}
    return [
        *(dict(zip(lists, values, strict=True)) for values in product(*lists.values())),
        *matrix.get("include", []),
    ]


def test_there_are_workflows() -> None:
    assert {path.stem for path in WORKFLOWS} == {"nightly", "tests"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_steps_are_targets(path: Path) -> None:
    for job in yaml.safe_load(path.read_text("utf-8"))["jobs"].values():
        commands = {step["run"] for step in job["steps"] if "run" in step}
        assert commands == {"make ${{ matrix.target }}"}
        assert {values["target"] for values in combinations(job["strategy"]["matrix"])} <= TARGETS


def test_every_supported_python_is_tried() -> None:
    classifiers = (ROOT / "pyproject.toml").read_text("utf-8")
    supported = set(re.findall(r"Python :: (3\.\d+)", classifiers))
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text("utf-8"))
    tests = combinations(workflow["jobs"]["make"]["strategy"]["matrix"])
    for system in ("ubuntu", "macos"):
        tried = {
            values["python"]
            for values in tests
            if values["target"] == "test" and values["os"].startswith(system)
        }
        assert tried == supported
