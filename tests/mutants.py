"""Mutation testing: how many small errors in the package do the tests notice?

    python -m tests.mutants cover              # which test runs which lines
    python -m tests.mutants draw --count 200   # draws mutants, and keeps the list
    python -m tests.mutants run                # runs the tests of each; can be interrupted

``cover`` and ``run`` need the package ``coverage``, which the tests do not require.

A mutant is the package with one operator, comparison, number or condition changed. It is killed if
one of the tests that run the changed line fails, or takes longer than ``_LIMIT``. Tests run in a
fork of a process that has imported PyTorch and Ax, the fastest first. Use it on a machine that does
nothing else: tests are cut off by time.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "build" / "mutants"
PARTS = ("acquisition", "core", "costs", "methods", "models")

_LIMIT = 120
"""Seconds of tests for a mutant; tests that would start later are not run."""

_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def sites(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield the nodes that can be mutated, with what becomes of them, in a fixed order."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
            yield node, f"{type(node.ops[0]).__name__} -> {_SWAPS[type(node.ops[0])].__name__}"
        elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in _SWAPS:
            yield node, f"{type(node.op).__name__} -> {_SWAPS[type(node.op)].__name__}"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            yield node, f"no {type(node.op).__name__}"
        elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
            yield node, f"{node.value} -> {_other(node.value)}"


def mutated(tree: ast.Module, number: int) -> str:
    """Return the source of a module with the mutation of the site of that number."""
    node, _ = list(sites(tree))[number]
    if isinstance(node, ast.Compare):
        node.ops[0] = _SWAPS[type(node.ops[0])]()  # type: ignore[assignment]
    elif isinstance(node, ast.BinOp | ast.BoolOp):
        node.op = _SWAPS[type(node.op)]()  # type: ignore[assignment]
    elif isinstance(node, ast.UnaryOp):
        if isinstance(node.op, ast.Not):
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
        else:
            node.op = ast.UAdd()
    elif isinstance(node, ast.Constant):
        node.value = _other(node.value)
    return ast.unparse(ast.fix_missing_locations(tree))


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else value * 2 + 0.1 * (value == 0)


class Coverage:
    """Pytest plugin that records the lines of the package that each test runs, and its time."""

    def __init__(self) -> None:
        import coverage

        self.name = os.environ.get("PYTEST_XDIST_WORKER", "main")
        self.seconds: dict[str, float] = {}
        self.coverage = coverage.Coverage(
            data_file=str(KEPT / "coverage"), data_suffix=self.name, source=["ax_costaware"]
        )
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        start = time.perf_counter()
        self.coverage.switch_context(item.nodeid)
        result = yield
        self.coverage.switch_context("")
        self.seconds[item.nodeid] = time.perf_counter() - start
        return result

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        (KEPT / f"seconds.{self.name}.json").write_text(json.dumps(self.seconds))


def pytest_configure(config: pytest.Config) -> None:
    """Record coverage in the processes that run tests, where this module is given with ``-p``."""
    if "PYTEST_XDIST_WORKER" in os.environ or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Coverage())


def cover(arguments: list[str]) -> None:
    """Run the tests, and keep the tests of each line."""
    import coverage

    shutil.rmtree(KEPT, ignore_errors=True)
    KEPT.mkdir(parents=True)
    command = ["-p", "tests.mutants", "-m", "not slow", "-q", "--dist", "loadfile", *arguments]
    os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-m", "pytest", *command])
    combined = coverage.Coverage(data_file=str(KEPT / "coverage"))
    combined.combine([str(KEPT)])
    combined.save()
    seconds: dict[str, float] = {}
    for part in KEPT.glob("seconds.*.json"):
        seconds |= json.loads(part.read_text())
    (KEPT / "seconds.json").write_text(json.dumps(seconds))


def draw(count: int, seed: int) -> None:
    """Draw mutants, and keep their list."""
    every = []
    for part in PARTS:
        for path in sorted((ROOT / "ax_costaware" / part).rglob("*.py")):
            source = path.read_text()
            lines, name = source.splitlines(), str(path.relative_to(ROOT))
            for number, (node, what) in enumerate(sites(ast.parse(source))):
                line = node.lineno  # type: ignore[attr-defined]
                text = lines[line - 1].strip()
                every.append(
                    {"file": name, "number": number, "line": line, "what": what, "text": text}
                )
    KEPT.mkdir(parents=True, exist_ok=True)
    drawn = random.Random(seed).sample(every, count)
    (KEPT / "drawn.json").write_text(json.dumps(drawn, indent=0))
    print(f"{count} of {len(every)} mutants")


def run(results: Path) -> None:
    """Run the tests of every drawn mutant that has no result yet."""
    import ax.api.client
    import botorch.acquisition
    import sklearn

    _ = ax, botorch, sklearn  # imported before the forks

    seconds = json.loads((KEPT / "seconds.json").read_text())
    done = (
        [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    )
    for mutant in json.loads((KEPT / "drawn.json").read_text()):
        if any(all(each[k] == mutant[k] for k in mutant) for each in done):
            continue
        tests = tests_of(mutant, seconds)
        start = time.perf_counter()
        outcome = outcome_of(mutant, tests) if tests else "no test"
        result = mutant | {
            "outcome": outcome,
            "tests": len(tests),
            "seconds": round(time.perf_counter() - start, 1),
        }
        done.append(result)
        with results.open("a") as out:
            out.write(json.dumps(result) + "\n")
        print(result, flush=True)
    killed = sum(each["outcome"] == "killed" for each in done)
    print(f"killed {killed} of {len(done)}")


def tests_of(mutant: dict[str, Any], seconds: dict[str, float]) -> list[str]:
    """Return the tests that run a mutant's line, fastest first.

    Lines that run at import have no test of their own: all tests of the file's functions are taken.
    """
    from coverage import CoverageData

    data = CoverageData(str(KEPT / "coverage"))
    data.read()
    lines = data.contexts_by_lineno(str(ROOT / mutant["file"]))
    tests = set(lines.get(mutant["line"], [])) - {""}
    if not tests:
        tests = {test for line in lines.values() for test in line if test}
    return sorted(tests, key=lambda test: seconds.get(test, 0.0))


def outcome_of(mutant: dict[str, Any], tests: list[str]) -> str:
    """Return what the tests say of a mutant: killed or survived."""
    place = KEPT / "package"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(
        ROOT / "ax_costaware", place / "ax_costaware", ignore=shutil.ignore_patterns("__pycache__")
    )
    tree = ast.parse((ROOT / mutant["file"]).read_text())
    (place / mutant["file"]).write_text(mutated(tree, mutant["number"]))
    child = os.fork()
    if child == 0:
        os.setsid()
        quiet = os.open(KEPT / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os._exit(_child(place, tests))
    deadline = time.monotonic() + 1.5 * _LIMIT
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return "survived" if os.waitstatus_to_exitcode(status) == 0 else "killed"
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "killed"


def _child(place: Path, tests: list[str]) -> int:
    sys.path.insert(0, str(place))
    os.environ["PYTHONPATH"] = str(place)
    try:
        import ax_costaware  # noqa: F401
    except BaseException:
        return 1
    start, at = time.perf_counter(), 0
    # The first few tests alone kill most mutants, without collecting all files.
    for size in (5, 40, len(tests)):
        some, at = tests[at : at + size], at + size
        if not some or time.perf_counter() - start > _LIMIT:
            break
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *some])
        if code not in (0, 5):
            return 1
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=["cover", "draw", "run"])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=KEPT / "results.jsonl")
    known_arguments, others = parser.parse_known_args()
    if known_arguments.step == "cover":
        cover(others)
    elif known_arguments.step == "draw":
        draw(known_arguments.count, known_arguments.seed)
    else:
        run(known_arguments.results)
