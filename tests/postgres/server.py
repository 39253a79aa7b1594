"""A PostgreSQL server of our own for the tests, on the loopback interface, in a temporary folder.

usage: python -m tests.postgres.server   installs Debian's package if no server is installed
"""

from __future__ import annotations

import ctypes
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

USER = "ax"
_SYSTEM_USER = "postgres"
"""Who runs the server if we are root, as whom PostgreSQL refuses to run."""

_PR_SET_PDEATHSIG = 1


def programs() -> Path | None:
    """The folder with the server's programs; None if none is installed."""
    # Debian keeps them out of the search path, by version.
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version)
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return None if on_path is None else Path(on_path).resolve().parent


def _version(path: Path) -> float:
    return float(path.parents[1].name)


def install() -> None:
    """Install Debian's package unless a server is installed; exits with a message if it cannot."""
    if programs() is not None:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        sys.exit(
            "PostgreSQL is not installed, and installing it takes apt-get and root: install it, on "
            "Debian by `sudo apt-get install postgresql`, and try again."
        )
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", "postgresql"]):
        subprocess.run(["apt-get", "--quiet", *arguments], check=True, env=quiet)
    if programs() is None:
        sys.exit("the Debian package postgresql was installed, but has no initdb.")


class Server:
    """A server; use it as a context manager, which stops it and removes what it stored.

    It stops with this process, too, however that ends.
    """

    def __enter__(self) -> Server:
        found = programs()
        assert found is not None, "PostgreSQL is not installed: see `make test-postgres`"
        self._programs = found
        self._owner = _SYSTEM_USER if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        self._folder = Path(tempfile.mkdtemp(prefix="ax_costaware_postgres_"))
        self._password = secrets.token_urlsafe(16)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])
        self._databases = 0
        try:
            self._make_cluster()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def _make_cluster(self) -> None:
        password = self._folder / "password"
        password.write_text(self._password)
        for path in (self._folder, password):
            shutil.chown(path, self._owner)
        subprocess.run(
            [
                *(self._programs / "initdb", "--pgdata", self._folder / "data"),
                *("--username", USER, "--pwfile", password, "--auth", "scram-sha-256"),
                *("--encoding", "UTF8", "--locale", "C", "--no-sync"),
            ],
            user=self._owner,
            cwd=self._folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        libc = ctypes.CDLL(None)
        with (self._folder / "log").open("a") as log:
            self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
                [
                    *(self._programs / "postgres", "-D", self._folder / "data"),
                    *("-c", "listen_addresses=127.0.0.1", "-p", str(self._port)),
                    *("-k", self._folder, "-c", "fsync=off"),
                ],
                user=self._owner,
                cwd=self._folder,
                stdout=log,
                stderr=log,
                # If this process is killed the kernel stops the server as `stop` does.
                preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT),
            )
        import psycopg  # an extra of its own

        while True:
            try:
                psycopg.connect(self._dsn("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None:
                    raise RuntimeError((self._folder / "log").read_text()) from None
                time.sleep(0.05)

    def stop(self) -> None:
        """Stop the server, which cuts the connections that it has."""
        process = getattr(self, "_process", None)
        if process is not None:
            process.send_signal(signal.SIGINT)
            process.wait()
            self._process = None

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        self._databases += 1
        name = f"experiments{self._databases}"
        import psycopg  # an extra of its own

        with psycopg.connect(self._dsn("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
        return self._dsn(name, driver="+psycopg")

    def _dsn(self, database: str, driver: str = "") -> str:
        address = f"127.0.0.1:{self._port}/{database}"
        return f"postgresql{driver}://{USER}:{self._password}@{address}"


if __name__ == "__main__":
    install()
