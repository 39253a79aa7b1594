"""Running the cells of a notebook in a kernel, in a process that is thrown away.

The kernel is Jupyter's own for a program that has one inside: it answers messages and runs each
cell within an event loop. ``tests/fresh.py`` forks the process, which has imported Ax by then.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from tests.short_searches import shorten

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted((ROOT / "tutorials").glob("*.ipynb"))
LONG = [path for path in TUTORIALS if path.stem in {"first_ten_minutes", "cost_aware"}]
"""Tutorials that take as long as all others do, for a file of tests of their own."""

SECONDS = 300
"""More than any cell takes; a cell that hangs fails."""


RUN = "tests.notebooks:run"
"""To be called in the process, with the path of a notebook."""


def read(path: Path) -> Any:
    """A notebook, as it is stored."""
    return json.loads(path.read_text("utf-8"))


def counts(path: Path) -> list[int]:
    """What the cells of code count in a kernel that runs all of them, each once."""
    code = [cell for cell in read(path)["cells"] if cell["cell_type"] == "code"]
    return list(range(1, 1 + len(code)))


def run(path: str) -> list[int]:
    """Run a notebook in its folder, in its small version; what its cells of code have counted.

    Raises:
        AssertionError: For a cell that raises; the message names the notebook and the cell.
    """
    sys.modules["debugpy"] = None  # It takes a while to be imported.
    from ipykernel.inprocess.manager import InProcessKernelManager

    sys.path.append(str(ROOT))  # It was the empty name so far, which moves with the folder.
    os.chdir(Path(path).parent)
    os.environ["SMOKE_TEST"] = "1"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # It does not begin again in a forked process.
    _learn_little()
    shorten()
    signal.signal(signal.SIGALRM, _hangs)
    manager = InProcessKernelManager()  # type: ignore[no-untyped-call]
    manager.start_kernel()  # type: ignore[no-untyped-call]
    client = manager.client()  # type: ignore[no-untyped-call]
    client.start_channels()
    found = []
    for number, cell in enumerate(read(Path(path))["cells"]):
        if cell["cell_type"] != "code":
            continue
        signal.alarm(SECONDS)
        client.execute("".join(cell["source"]))
        reply = client.get_shell_msg(timeout=1)["content"]
        signal.alarm(0)
        place = f"{Path(path).name}, cell {number} ({cell['id']})"
        assert reply["status"] == "ok", f"{place}:\n" + "\n".join(reply["traceback"])
        found.append(reply["execution_count"])
    return found


def _learn_little() -> None:
    """Classifiers learn from a fifth of the digits, and the demonstration's network in few steps.

    That all works is asked here, not how well.
    """
    import sklearn.datasets

    import demo.feedback.training

    demo.feedback.training.STEPS = 3
    whole = sklearn.datasets.load_digits

    def few(**options: Any) -> tuple[Any, ...]:
        return tuple(part[::5] for part in whole(**options))

    sklearn.datasets.load_digits = few


def _hangs(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"a cell takes more than {SECONDS} seconds.")
