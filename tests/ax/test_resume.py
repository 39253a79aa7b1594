"""A decision is a function of what is stored: JSON and SQLite, after every one of twelve trials."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ax.api.configs import StorageConfig
from ax.storage.sqa_store.db import (
    create_all_tables,
    get_engine,
    init_engine_and_session_factory,
)

from tests.ax.toy import complete, make_client, record

ROOT = Path(__file__).parents[2]
NUM_TRIALS = 12


def test_next_decision_after_reload_is_the_same(tmp_path: Path) -> None:
    """Twelve trials, stored in both after each; a new process decides as the old one did."""
    database = tmp_path / "toy.db"
    config = StorageConfig(url=f"sqlite:///{database}")
    init_engine_and_session_factory(url=config.url, force_init=True)
    create_all_tables(get_engine())
    # Ax's default surrogate, whose fit must not depend on the fits before it either.
    client = make_client(storage_config=config, surrogate_spec=None, budget=20, initial_trials=4)

    paths: list[str] = []
    expected: list[dict[str, Any]] = []
    for step in range(NUM_TRIALS + 1):
        ((index, arm),) = client.get_next_trials(max_trials=1).items()
        expected.append({"arm": dict(arm), "record": record(client, index)})
        if step == NUM_TRIALS:
            break
        # The sixth trial is completed by Ax's own method, without a record of full precision.
        if step == 6:
            client.complete_trial(index, raw_data={"y": -1 / 3})
        else:
            complete(client, index, dict(arm))
        saved = tmp_path / f"after{step}.json"
        client.save_to_json_file(str(saved))
        copied = tmp_path / f"after{step}.db"
        shutil.copy(database, copied)
        paths += [str(saved), str(copied)]

    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.ax.resume", *paths],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    decisions = json.loads(found.stdout.splitlines()[-1])
    assert any(d["record"]["phase"] == "rule" for d in expected[: NUM_TRIALS // 2])
    for step in range(NUM_TRIALS):
        then = json.loads(json.dumps(expected[step + 1]))
        assert decisions[2 * step] == then, f"JSON, after trial {step}"
        assert decisions[2 * step + 1] == then, f"SQLite, after trial {step}"
