"""Commands that a shell block calls, carried out in the process of the tests.

An interpreter of its own for every `weir` takes a second of a core. The commands on the path of a
block are small programs that send what they were called with through a socket.
"""

import json
import os
import socket
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cli.command import Ended

NAMES = ("weir", "python", "python3", "make")
_WAIT_S = 0.02
_SENDER = """#!{python} -IS
import json, os, socket, sys
given = "" if sys.stdin.isatty() else sys.stdin.read()
with socket.socket(socket.AF_UNIX) as door:
    door.connect({path!r})
    asked = dict(name={name!r}, arguments=sys.argv[1:], given=given, folder=os.getcwd(),
                 environment=dict(os.environ))
    door.sendall(json.dumps(asked).encode())
    door.shutdown(socket.SHUT_WR)
    answer = json.loads(b"".join(iter(lambda: door.recv(65536), b"")))
sys.stdout.write(answer["stdout"])
sys.stderr.write(answer["stderr"])
sys.exit(answer["code"])
"""


@dataclass(frozen=True)
class Called:
    """A command as a block called it."""

    name: str
    arguments: Sequence[str]
    given: str
    folder: str
    environment: Mapping[str, str]


class Forwarding:
    """The commands of a folder, and the socket at which they arrive."""

    def __init__(self, folder: Path, answer: Callable[[Called], Ended]) -> None:
        self._answer = answer
        self.folder = folder / "commands"
        self.folder.mkdir()
        # A socket's path is bounded, a test's folder is not.
        path = f"/tmp/weir-docs-{os.getpid()}-{id(self)}.sock"
        self._path = Path(path)
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(path)
        self._door.listen(16)
        self._door.settimeout(_WAIT_S)
        for name in NAMES:
            command = self.folder / name
            command.write_text(_SENDER.format(python=sys.executable, path=path, name=name))
            command.chmod(command.stat().st_mode | stat.S_IXUSR)

    def serve_one(self) -> None:
        """Answers a call, if one comes soon."""
        try:
            connection, _ = self._door.accept()
        except TimeoutError:
            return
        with connection:
            connection.settimeout(60)
            asked = json.loads(b"".join(iter(lambda: connection.recv(65536), b"")))
            ended = self._answer(Called(**asked))
            told = {"code": ended.returncode, "stdout": ended.stdout, "stderr": ended.stderr}
            connection.sendall(json.dumps(told).encode())

    def close(self) -> None:
        self._door.close()
        self._path.unlink(missing_ok=True)
