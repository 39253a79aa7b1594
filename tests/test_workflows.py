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
    assert {path.stem for path in WORKFLOWS} == {"nightly", "release", "tests"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_steps_are_targets(path: Path) -> None:
    for job in yaml.safe_load(path.read_text("utf-8"))["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        commands = {
            step["run"].replace("${{ matrix.target }}", values.get("target", ""))
            for step in job["steps"]
            for values in combinations(matrix)
            if "run" in step
        }
        assert commands <= {f"make {target}" for target in TARGETS}


def test_only_publishing_may_write() -> None:
    """The job that gets an identity runs nothing of ours, after everything was checked."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))
    publish = workflow["jobs"]["publish"]
    assert publish["needs"] == "check"
    assert publish["permissions"] == {"id-token": "write"}
    assert not any("run" in step for step in publish["steps"])
    assert "permissions" not in workflow["jobs"]["check"]


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
