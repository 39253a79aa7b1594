"""The README and the pages of `docs`: examples run, links lead somewhere, no name is left out."""

from __future__ import annotations

import importlib
import random
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

import ax_costaware
from tests.short_searches import short_searches

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = [
    README,
    ROOT / "CONTRIBUTING.md",
    *sorted(DOCS.glob("*.md")),
    *sorted(DOCS.glob("api/*.md")),
]

BLOCK = re.compile(r"^```python(?P<info>.*)\n(?P<code>(?:.*\n)*?)^```$", re.M)
FENCED = re.compile(r"^```.*\n(?:.*\n)*?^```$", re.M)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ (?P<text>.+)$", re.M)

PRINTED = {
    "README": [
        "Stopped: ",
        "of 150, ",
        "Deploy trial ",
        "initial: 5 trials",
        "chosen by the model: ",
    ],
    "botorch": ["worth it:", "there is a trial worth its cost"],
    "control_sets": [
        "Trial 2: set temperature",
        "of 50, ",
        "humidity: 3 trials",
        "shift: 3 trials",
        *("Trial 8: set temperature", "of 60, ", "temperature+humidity"),
    ],
    "costly_feedback": ["of 300 rounds measured; ", "Trial 2: set timeout"],
    "everyday": [
        "initial: 3 trials, 0",
        "of 400, ",
        "of 600, ",
        "epochs = ",
        "of 14, ",
        "attached: ",
        "heat = ",
    ],
    "cost_aware": ["Trial 5: set epochs", "Largest index"],
    "indirect_queries": [
        "Trial 5: set recommended",
        "dose = 4",  # the best dose is 42
        *("Trial 7: set level", "of 60, ", "east = "),
    ],
    "spaces": ["best row: {'base'", "parts: ['", "Deploy {'model': ", "Memory "],
    "own_method": [
        *("Trial 5: set seconds", "costs ", "the budget has less", "of 20, "),
        "The tool is worn",
    ],
}
"""What the examples of a page print, among other things."""

IN_FULL = {"README": {0}, "indirect_queries": {0}, "own_method": {1}}
"""Examples, by number, that search as a reader's do: README's first one, and those that are asked
how good what they find is. Others are asked whether all works."""


def read(page: Path) -> str:
    return page.read_text("utf-8")


def with_examples() -> list[Path]:
    return [page for page in PAGES if BLOCK.search(read(page))]


@pytest.mark.parametrize("page", with_examples(), ids=lambda page: page.stem)
def test_python_examples_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All examples of a page, one after the other, as a reader would type them.

    Those fenced as ``python no-run`` need what a test has not, a cluster say: they are compiled.
    Searches are short but for those of ``IN_FULL``.
    """
    monkeypatch.chdir(tmp_path)
    # Ax has one database per process.
    monkeypatch.setattr("ax.storage.sqa_store.db.SESSION_FACTORY", None)
    random.seed(0)
    torch.manual_seed(0)
    namespace: dict[str, Any] = {"__name__": page.stem}
    for number, block in enumerate(BLOCK.finditer(read(page))):
        # A reader's file has none of the future statements of this one.
        name = f"{page.name}, example {number}"
        code = compile(block["code"], name, "exec", dont_inherit=True)
        if block["info"].strip() == "no-run":
            continue
        with nullcontext() if number in IN_FULL.get(page.stem, ()) else short_searches():
            exec(code, namespace)
    printed = capsys.readouterr().out
    for text in PRINTED.get(page.stem, []):
        assert text in printed
    if page.stem == "costly_feedback":
        assert namespace["loop"].num_measured < 250
    if page.stem == "botorch":
        assert namespace["best"].point.shape == (3, 3)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    texts = (heading["text"] for heading in HEADING.finditer(FENCED.sub("", read(page))))
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for link in LINK.finditer(FENCED.sub("", read(page))):
        target, _, anchor = link["target"].partition("#")
        if target.startswith(("https:", "http:")):
            continue
        to = page if not target else (page.parent / target).resolve()
        if not to.exists() or (anchor and anchor not in anchors(to)):
            dead.append(link["target"])
    assert not dead


def test_reference_has_every_public_name() -> None:
    pages = "\n".join(page.read_text("utf-8") for page in DOCS.glob("api/*.rst"))
    described = set(re.findall(r"^\.\. auto(?:class|function):: (?:\S+\.)?(\w+)$", pages, re.M))
    modules = re.findall(r"^\.\. automodule:: (\S+)$", pages, re.M)
    for module in map(importlib.import_module, modules):
        described |= set(getattr(module, "__all__", vars(module)))
    assert set(ax_costaware.__all__) <= described
    layers = ["acquisition", "analysis", "costs", "laws", "methods", "models", "runners"]
    assert {f"ax_costaware.{layer}" for layer in [*layers, "session"]} <= set(modules)


def test_gallery_has_every_tutorial() -> None:
    gallery = read(DOCS / "gallery.md")
    for path in (ROOT / "tutorials").glob("*.ipynb"):
        assert f"(gallery/{path.stem}.png)](../tutorials/{path.name})" in gallery
        assert f"\ntutorials/{path.stem}\n" in gallery


def test_measured_tables_are_those_of_the_kept_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables that sum up the panel are what their command prints."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    measured = importlib.import_module("measured")
    losses = measured.losses_of(measured.RUNS.rows())
    page = read(DOCS / "measured.md")
    assert measured.verdict_table(losses) in page
    assert measured.choice_table(losses) in page
    assert importlib.import_module("peers").summary_table() in read(DOCS / "peers.md")
