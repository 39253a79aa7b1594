"""The small experiment of the session's tests, for those of what is below the session."""

from tests.session.conftest import any_client, client, strategy

__all__ = ["any_client", "client", "strategy"]
