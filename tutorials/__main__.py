"""Run tutorials in full and keep their outputs: ``python -m tutorials``, or with their names.

The times of cells are said, not kept: they would change with every run. No cell should take longer
than two minutes on two cores.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent


def run(path: Path) -> None:
    """Run a tutorial, say which cell took longest, and write its outputs into it."""
    notebook = nbformat.read(path, as_version=4)
    taken: dict[int, float] = {}

    def starts(cell_index: int, **_: object) -> None:
        taken[cell_index] = -time.monotonic()

    def ends(cell_index: int, **_: object) -> None:
        taken[cell_index] += time.monotonic()

    client = NotebookClient(
        notebook,
        resources={"metadata": {"path": str(FOLDER)}},
        record_timing=False,
        coalesce_streams=True,
        on_cell_execute=starts,
        on_cell_executed=ends,
    )
    client.execute()
    nbformat.write(notebook, path)
    slowest = max(taken, key=lambda cell: taken[cell])
    print(
        f"{path.stem}: {sum(taken.values()):.0f} seconds, the slowest cell {slowest} "
        f"{taken[slowest]:.0f} seconds",
        flush=True,
    )


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        if path.stem in sys.argv[1:] or not sys.argv[1:]:
            run(path)
