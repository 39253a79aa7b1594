"""What a release states of itself is the same everywhere; ``make release-check`` runs it, too."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
TAG = os.environ.get("RELEASE_TAG", "")
"""The tag of the release that is made; empty for none."""

_SECTION = re.compile(r"^## (?P<version>\S+) \((?P<date>[^)]+)\)$", re.M)


def test_the_newest_section_of_the_changelog_is_the_version() -> None:
    section = _SECTION.search((ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert section is not None
    assert section["version"] == VERSION
    assert re.fullmatch(r"\d{4}-\d\d-\d\d|not yet released", section["date"])
    assert not TAG or section["date"] != "not yet released"


def test_the_citation_has_the_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert str(citation["version"]) == VERSION


def test_there_are_stores_of_the_version() -> None:
    assert (ROOT / "tests" / "stores" / VERSION / "decisions.json").exists()


@pytest.mark.skipif(not TAG, reason="no release is being made")
def test_the_tag_is_the_version() -> None:
    assert f"v{VERSION}" == TAG
