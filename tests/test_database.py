from __future__ import annotations

from typing import Any

import pytest
from ax.exceptions.core import UserInputError

from ax_costaware import create_tables, read_experiment
from ax_costaware.display import initial_place


@pytest.mark.parametrize("url", [3, "training.db", ""])
def test_what_is_no_url_is_named(url: Any) -> None:
    for refused in (lambda: create_tables(url), lambda: read_experiment("training", url)):
        with pytest.raises(UserInputError, match=r"url=.*expected .*sqlite:///"):
            refused()


def test_initial_trials_are_counted() -> None:
    assert initial_place(2, 5) == "initial trial 2 of 5"
    assert initial_place(6, 5) == "initial trial 6, since not all of the 5 before it came to an end"
