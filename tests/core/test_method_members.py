"""A subclass of ``Method`` may override at most fifteen members, each of which is documented."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from ax_costaware.core.method import Method

TABLE = Path(__file__).parents[2] / "docs" / "own_method.md"


def is_final(member: Any) -> bool:
    """True for a method, or the getter of a property, that is ``typing.final``."""
    return bool(getattr(getattr(member, "fget", member), "__final__", False))


def test_the_members_that_may_be_overridden_are_the_documented_ones() -> None:
    members: dict[str, Any] = {}
    for cls in Method.__mro__[-2::-1]:
        members |= {name: m for name, m in vars(cls).items() if not name.startswith("_")}
    settings = {field.name for field in fields(Method)}
    found = {name for name, m in members.items() if name not in settings and not is_final(m)}
    table = TABLE.read_text().split("| member | answers | default |")[1].split("\n\n")[0]
    assert found == set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert len(found) <= 15
