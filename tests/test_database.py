from __future__ import annotations

from typing import Any

import pytest
from ax.exceptions.core import UserInputError

from ax_costaware import create_tables, read_experiment


@pytest.mark.parametrize("url", [3, "training.db", ""])
def test_what_is_no_url_is_named(url: Any) -> None:
    for refused in (lambda: create_tables(url), lambda: read_experiment("training", url)):
        with pytest.raises(UserInputError, match=r"url=.*expected .*sqlite:///"):
            refused()
