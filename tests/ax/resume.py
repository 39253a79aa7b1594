"""Loads stored experiments and prints their next decisions, for the resume test.

usage: python -m tests.ax.resume PATH ...   (a .json file or a .db file each)
"""

from __future__ import annotations

import json
import logging
import sys

from ax.api.client import Client
from ax.api.configs import StorageConfig
from ax.storage.sqa_store.db import init_engine_and_session_factory

from tests.ax.toy import record


def next_decision(path: str) -> dict[str, object]:
    """Parameters and record of the next trial of the experiment stored at ``path``."""
    if path.endswith(".json"):
        client = Client.load_from_json_file(path)
    else:
        config = StorageConfig(url=f"sqlite:///{path}")
        init_engine_and_session_factory(url=config.url, force_init=True)
        client = Client.load_from_database("toy", storage_config=config)
    ((index, arm),) = client.get_next_trials(max_trials=1).items()
    return {"arm": dict(arm), "record": record(client, index)}


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    print(json.dumps([next_decision(path) for path in sys.argv[1:]]))
