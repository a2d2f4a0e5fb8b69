"""`weir` in this process: an interpreter of its own takes a second of a core to start."""

import contextlib
import io
import os
import sys
from dataclasses import dataclass
from unittest import mock

from weir_cli.app import main


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it printed."""

    returncode: int
    stdout: str
    stderr: str


class _Stdout(io.TextIOWrapper):
    """Text in memory, with the bytes below it that some commands write."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="", write_through=True)

    def getvalue(self) -> str:
        told = self.buffer
        assert isinstance(told, io.BytesIO)
        return told.getvalue().decode()


def weir(*arguments: str, given: str = "", **environment: str) -> Ended:
    """Runs a command as the installed `weir` does, with `given` on its standard input."""
    code = 0
    with (
        mock.patch.object(sys, "argv", ["weir", *arguments]),
        mock.patch.object(sys, "stdin", io.StringIO(given)),
        mock.patch.dict(os.environ, environment),
        contextlib.redirect_stdout(_Stdout()) as stdout,
        contextlib.redirect_stderr(io.StringIO()) as stderr,
    ):
        try:
            main()
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else int(left.code is not None)
    return Ended(code, stdout.getvalue(), stderr.getvalue())
