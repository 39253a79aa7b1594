"""A decision is a function of what is stored: JSON and SQLite, after five trials."""

from __future__ import annotations

from pathlib import Path

import pytest

from ax_costaware import complete_trial
from tests.ax.toy import complete, make_client, realize
from tests.fresh import FreshProcess
from tests.resuming import Run

pytestmark = pytest.mark.usefixtures("short_searches")

NUM_TRIALS = 5
STORED = (0, 1, 2, 4)
"""The trials after which the run is stored. The model decides from the third on."""


def test_next_decision_after_reload_is_the_same(
    tmp_path: Path, fresh_process: FreshProcess
) -> None:
    """Stored after trials of every kind; a new process decides as the old one did."""
    run = Run(tmp_path)
    # Ax's default surrogate, whose fit must not depend on the fits before it either.
    client = make_client(
        storage_config=run.config, surrogate_spec=None, budget=20, initial_trials=2
    )
    for step in range(NUM_TRIALS):
        index, arm = run.decide(client)
        # The third trial is completed by Ax's own method, without a record of full precision.
        if step == 2:
            client.complete_trial(index, raw_data={"y": -1 / 3})
            complete_trial(client, index, realized=realize(index, arm))
        else:
            complete(client, index, arm)
        if step in STORED:
            run.store(client)
    run.decide(client)
    assert any(d["record"]["phase"] == "rule" for d in run.decisions[: NUM_TRIALS // 2 + 1])
    run.assert_resumed_alike(fresh_process)
