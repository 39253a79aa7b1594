"""Saving everything at once, after the database was away: ``save``."""

from __future__ import annotations

from ax.exceptions.core import UserInputError

from ax_costaware.ax_bridge.client import SessionClient, open_session


def save(client: SessionClient) -> None:
    """Save the experiment, with every trial and its data, and the strategy to the database.

    Ax saves what a call changed within that call. Where the database was away the call raised, and
    what it did is in this process only: this stores it. Doing so again changes nothing.

    Args:
        client: An Ax ``Client`` or an ``AxClient`` with a database.

    Raises:
        UserInputError: If the client has no database, no experiment or no strategy of this package.
    """
    session = open_session(client)
    if not session.has_database:
        raise UserInputError(
            "client has no database: save it with client.save_to_json_file, or make it with a "
            "storage configuration."
        )
    session.save_everything()
