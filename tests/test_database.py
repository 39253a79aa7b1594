from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ax.exceptions.core import UserInputError

from ax_costaware import create_tables, read_experiment


@pytest.mark.parametrize("url", [3, "training.db", ""])
def test_what_is_no_url_is_named(url: Any) -> None:
    for refused in (lambda: create_tables(url), lambda: read_experiment("training", url)):
        with pytest.raises(UserInputError, match="url="):
            refused()


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(UserInputError, match="expected one such as") as refused:
        create_tables("post gresql://me:secret@host:port/database")
    assert "secret" not in str(refused.value)


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "mistyped.db"
    with pytest.raises(UserInputError, match=r"url=.*: there is no file .*mistyped\.db"):
        read_experiment("training", f"sqlite:///{path}")
    assert not path.exists()
