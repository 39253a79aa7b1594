"""Mutation testing: how many small errors in the package do the tests notice?

    python -m tests.mutants cover              # which test runs which mutants; can be interrupted
    python -m tests.mutants draw --count 200   # draws mutants, and keeps the list
    python -m tests.mutants run                # runs the tests of each; can be interrupted

A mutant is the package with one operator, comparison, number or condition changed. All of them are
in one copy of the package, where ``_mutant`` says which one holds; nothing is imported twice. A
mutant is killed if a test that runs it fails, or does not end. Tests of the module come first, then
the fastest. They are cut off by the time of the processor, so that other work does not matter.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import copy
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "build" / "mutants"
PARTS = ("acquisition", "core", "costs", "methods", "models")

_LIMIT = 30
"""Seconds of the processor for a mutant's tests; tests that would start later are not run."""

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


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else value * 2 + 0.1 * (value == 0)


def mutation(node: ast.AST) -> tuple[ast.expr, str] | None:
    """Return what a node becomes, and how that is called; None if it stays."""
    new: Any = copy.deepcopy(node)
    if isinstance(node, ast.Compare) and (to := _SWAPS.get(type(node.ops[0]))):
        new.ops[0] = to()
        return new, f"{type(node.ops[0]).__name__} -> {to.__name__}"
    if isinstance(node, ast.BinOp | ast.BoolOp) and (to := _SWAPS.get(type(node.op))):
        new.op = to()
        return new, f"{type(node.op).__name__} -> {to.__name__}"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        return new.operand, f"no {type(node.op).__name__}"
    if isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        new.value = _other(node.value)
        return new, f"{node.value!r} -> {new.value!r}"
    return None


class Mutants(ast.NodeTransformer):
    """Puts all mutants of a module into it, each where ``_mutant`` of its number is true."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.found: list[tuple[int, str]] = []
        """Line of each, and what it changes."""

    def visit(self, node: ast.AST) -> Any:
        """Return the node, or the choice between it and its mutant."""
        if isinstance(node, ast.pattern | ast.JoinedStr):
            return node
        made = mutation(node)
        if made is not None:
            number = self.first + len(self.found)
            self.found.append((node.lineno, made[1]))  # type: ignore[attr-defined]
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns"):
                self._visit_all(node, name, value)
        if made is None:
            return node
        call = ast.Call(ast.Name("_mutant", ast.Load()), [ast.Constant(number)], [])
        assert isinstance(node, ast.expr)
        return ast.IfExp(call, made[0], node)

    def _visit_all(self, node: ast.AST, name: str, value: Any) -> None:
        if isinstance(value, list):
            value[:] = [self.visit(v) if isinstance(v, ast.AST) else v for v in value]
        elif isinstance(value, ast.AST):
            setattr(node, name, self.visit(value))


def write_package(place: Path) -> list[dict[str, Any]]:
    """Write the package with all mutants, and return their list."""
    shutil.rmtree(place, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "ax_costaware", place / "ax_costaware", ignore=ignored)
    every: list[dict[str, Any]] = []
    for part in PARTS:
        for path in sorted((place / "ax_costaware" / part).rglob("*.py")):
            source, name = path.read_text(), str(path.relative_to(place))
            mutants = Mutants(len(every))
            tree = ast.fix_missing_locations(mutants.visit(ast.parse(source)))
            path.write_text(ast.unparse(tree))
            lines = source.splitlines()
            every += [
                {"number": len(every) + i, "file": name, "line": line, "what": what}
                | {"text": lines[line - 1].strip()}
                for i, (line, what) in enumerate(mutants.found)
            ]
    return every


class State:
    """What ``_mutant`` knows: the mutant that holds, and those that were asked for."""

    def __init__(self) -> None:
        self.holds = -1
        self.run: set[int] = set()

    def __call__(self, number: int) -> bool:
        """Return whether the mutant of that number holds."""
        self.run.add(number)
        return number == self.holds


state = State()


def _import_package(holds: int = -1) -> None:
    state.holds = holds
    builtins._mutant = state  # type: ignore[attr-defined]
    sys.path.insert(0, str(KEPT / "package"))
    import ax_costaware

    assert str(KEPT) in str(ax_costaware.__file__)


class Base:
    """Pytest plugin that keeps the tests that fail."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def pytest_configure(self) -> None:
        from hypothesis import HealthCheck, Phase, settings

        phases = (Phase.explicit, Phase.generate)
        health = [HealthCheck.too_slow]
        settings.register_profile(
            "mutants", deadline=None, suppress_health_check=health, phases=phases, database=None
        )
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


class Cover(Base):
    """Writes which mutants each test runs, and its seconds."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.done = {each["test"] for each in _rows(path)}
        self.imported = set(state.run)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid not in self.done]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        state.run.clear()
        start, wall, failed = time.process_time(), time.perf_counter(), len(self.failed)
        result = yield
        row = {
            "test": item.nodeid,
            "seconds": round(time.process_time() - start, 3),
            "wall": round(time.perf_counter() - wall, 3),
            "failed": len(self.failed) > failed,
            "run": sorted(state.run),
        }
        _write(self.path, row)
        return result


class Run(Base):
    """Runs the tests of every mutant in a process of its own, forked after the collection."""

    def __init__(self, mutants: list[dict[str, Any]], results: Path, tests: Any) -> None:
        super().__init__()
        self.mutants, self.results, self.tests = mutants, results, tests

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for mutant in self.mutants:
            chosen = [items[test] for test in self.tests(mutant) if test in items]
            if chosen:
                start = time.perf_counter()
                found = self._outcome(mutant, chosen)
                seconds = round(time.perf_counter() - start, 1)
                _write(self.results, mutant | found | {"of": len(chosen), "wall": seconds})
        return True

    def _outcome(self, mutant: dict[str, Any], items: list[pytest.Item]) -> dict[str, Any]:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.setsid()
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (3 * _LIMIT, 3 * _LIMIT))
            state.holds = mutant["number"]
            with os.fdopen(writer, "w") as pipe:
                pipe.write(json.dumps(self._child(items)))
            os._exit(0)
        os.close(writer)
        deadline = time.monotonic() + 20 * _LIMIT
        while not os.waitpid(child, os.WNOHANG)[0]:
            if time.monotonic() > deadline:
                os.killpg(child, signal.SIGKILL)
            time.sleep(0.02)
        with os.fdopen(reader) as pipe:
            said = pipe.read()
        found: dict[str, Any] = json.loads(said) if said else {"killed": True, "by": "no end"}
        return found

    def _child(self, items: list[pytest.Item]) -> dict[str, Any]:
        start, count = time.process_time(), 0
        for item, following in zip(items, [*items[1:], None], strict=True):
            if time.process_time() - start > _LIMIT:
                break
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            count += 1
            if self.failed:
                return {"killed": True, "by": self.failed[0], "ran": count}
        return {"killed": False, "ran": count}


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _write(path: Path, row: dict[str, Any]) -> None:
    with path.open("a") as out:
        out.write(json.dumps(row) + "\n")


def _pytest(plugin: Base, *arguments: str) -> int:
    options = ["-q", "-s", "-p", "no:cacheprovider", "-m", "not slow", *arguments]
    return int(pytest.main(options, plugins=[plugin]))


def cover(arguments: list[str]) -> None:
    """Run the tests, and keep which mutants each one runs."""
    _import_package()
    _write(KEPT / "imported.jsonl", {"run": sorted(state.run)})
    _pytest(Cover(KEPT / "hits.jsonl"), *arguments)


def draw(count: int, seed: int) -> None:
    """Draw mutants, and keep their list."""
    every = json.loads((KEPT / "every.json").read_text())
    drawn = random.Random(seed).sample(every, count)
    (KEPT / "drawn.json").write_text(json.dumps(drawn, indent=0))
    print(f"{count} of {len(every)} mutants")


def tests_of(mutant: dict[str, Any], hits: list[dict[str, Any]]) -> list[str]:
    """Return the tests that run a mutant: first those of its module, then the fastest.

    What runs at import has no test of its own: all tests of the file are taken.
    """
    every = json.loads((KEPT / "every.json").read_text())
    of_file = {each["number"] for each in every if each["file"] == mutant["file"]}
    sound = [row for row in hits if not row["failed"]]
    rows = [row for row in sound if mutant["number"] in row["run"]]
    rows = rows or [row for row in sound if not of_file.isdisjoint(row["run"])]
    module = f"test_{Path(mutant['file']).stem.strip('_')}.py"
    rows.sort(key=lambda row: (module not in row["test"], row["seconds"]))
    return [row["test"] for row in rows]


def run(results: Path, arguments: list[str]) -> None:
    """Run the tests of every drawn mutant that has no result yet."""
    done = {each["number"] for each in _rows(results)}
    left = [m for m in json.loads((KEPT / "drawn.json").read_text()) if m["number"] not in done]
    hits = _rows(KEPT / "hits.jsonl")
    covered = {number for row in hits for number in row["run"]}
    _import_package()
    at_import = {m["number"] for m in left if m["number"] not in covered} & state.run
    later = [m for m in left if m["number"] not in at_import]
    for mutant in later:
        if mutant["number"] not in covered:
            _write(results, mutant | {"killed": False, "of": 0})
    _pytest(Run(later, results, lambda mutant: tests_of(mutant, hits)), *arguments)
    for mutant in left:
        if mutant["number"] in at_import:
            tests = tests_of(mutant, hits)
            files = list(dict.fromkeys(test.partition("::")[0] for test in tests[:300]))
            command = [sys.executable, "-m", "tests.mutants", "one", "--holds"]
            one = [*command, str(mutant["number"]), "--results", str(results), *files]
            subprocess.run(one, check=False)
    found = _rows(results)
    print(f"killed {sum(each['killed'] for each in found)} of {len(found)}")


def run_one(number: int, results: Path, files: list[str]) -> None:
    """Run the tests of a mutant that holds as the package is imported."""
    (mutant,) = [m for m in json.loads((KEPT / "drawn.json").read_text()) if m["number"] == number]
    hits = _rows(KEPT / "hits.jsonl")
    try:
        _import_package(number)
    except Exception as error:
        _write(results, mutant | {"killed": True, "by": f"import: {error!r}", "of": 0})
        return
    before = len(_rows(results))
    _pytest(Run([mutant], results, lambda each: tests_of(each, hits)), *files)
    if len(_rows(results)) == before:
        _write(results, mutant | {"killed": True, "by": "collection", "of": 0})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=["cover", "draw", "run", "one"])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--holds", type=int, default=-1)
    parser.add_argument("--results", type=Path, default=KEPT / "results.jsonl")
    known, others = parser.parse_known_args()
    if known.step == "one":
        run_one(known.holds, known.results, others)
        sys.exit()
    KEPT.mkdir(parents=True, exist_ok=True)
    if not (KEPT / "every.json").exists():
        (KEPT / "every.json").write_text(json.dumps(write_package(KEPT / "package")))
    if known.step == "cover":
        cover(others)
    elif known.step == "draw":
        draw(known.count, known.seed)
    else:
        run(known.results, others)
