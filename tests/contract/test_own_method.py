"""The contract of the method that ``docs/own_method.md`` writes, as it tells authors to run it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ax.api.configs import RangeParameterConfig

from ax_costaware.storage import register_value_object
from tests.contract.shared import Quick

_PAGE = Path(__file__).parents[2] / "docs" / "own_method.md"
_named: dict[str, Any] = {"__name__": __name__, "RangeParameterConfig": RangeParameterConfig}
_method, _contract = (
    code
    for code in re.findall(r"^```python\n(.*?)^```$", _PAGE.read_text("utf-8"), re.M | re.S)
    if "class ImprovementPerDollar(" in code or "class TestImprovementPerDollar(" in code
)
exec(_method, _named)
exec(_contract, _named)
register_value_object(_named["ImprovementPerDollar"])


class TestImprovementPerDollar(Quick, _named["TestImprovementPerDollar"]):  # type: ignore[misc]
    """See the page."""
