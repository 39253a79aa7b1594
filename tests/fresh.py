"""A process beside the tests, in which functions run that share no memory with them.

It imports Ax and the package once, from disk, and forks a child for every call: nothing that the
tests or an earlier call did is in the child's memory. Starting an interpreter for every call would
prove the same, and take ten seconds each.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import traceback
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from tests.quick import make_quick
from tests.short_searches import searches_are_short, short_searches

ROOT = Path(__file__).parents[1]
_PROGRAM = """
import logging
logging.disable(logging.WARNING)
# The last three are imported by the first decision and by the first database, of every child.
import tabulate, torch.fx.experimental.symbolic_shapes, sqlalchemy.dialects.sqlite
from sqlalchemy.orm import configure_mappers
from tests import fresh, resuming
configure_mappers()
fresh.serve()
"""


class FreshProcess:
    """The process; use it as a context manager."""

    def __enter__(self) -> FreshProcess:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _PROGRAM],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def call(self, function: str, *arguments: Any) -> Any:
        """Call a function in a child of the process; searches are short there if they are here.

        Args:
            function: The function, as ``package.module:function``.
            arguments: What JSON can say.

        Returns:
            What it returned, through JSON.

        Raises:
            AssertionError: If it raised; the message has its traceback.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([function, arguments, searches_are_short()]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the process ended while it ran {function}"
        error, value = json.loads(answer)
        assert error is None, error
        return value


def _answer(request: str) -> str:
    function, arguments, are_short = json.loads(request)
    module, name = function.split(":")
    try:
        with short_searches() if are_short else nullcontext():
            value = getattr(importlib.import_module(module), name)(*arguments)
        return json.dumps([None, value])
    except BaseException:
        return json.dumps([traceback.format_exc(), None])


def serve() -> None:
    """Answer each line of the standard input from a child of its own."""
    # A child would look through, and so copy, all that was imported.
    make_quick()
    # What is printed on the way must not get between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    for request in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            with os.fdopen(writer, "w", encoding="utf-8") as pipe:
                pipe.write(_answer(request) + "\n")
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as pipe:
            answer = pipe.readline()
        # Who has the answer may rely on it that the child has ended.
        os.waitpid(child, 0)
        answers.write(answer or json.dumps(["the child ended without an answer", None]) + "\n")
        answers.flush()
    # There is nothing to tidy up, which would take seconds after importing so much.
    os._exit(0)
