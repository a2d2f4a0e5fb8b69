"""Tells at the terminal when the gateway takes or refuses an edit of its directory file."""

import asyncio
import http.client
import re
from collections.abc import Callable
from pathlib import Path

from weir_cli.stack.gateway_http import get
from weir_gateway.directory.file import DirectoryFileError, read_document

_VERSION = re.compile(r"^weir_gateway_directory_version (\S+)$", re.MULTILINE)
_REFUSED = re.compile(r"^weir_gateway_directory_refused_total (\S+)$", re.MULTILINE)
_PAUSE_S = 2.0


class DirectoryWatch:
    """Follows the gateway's version of the directory, and its count of refusals.

    Args:
        file: the directory file.
        gateway: gives the `host:port` of its HTTP server as it runs now.
        warn: gets one line for each refusal that is seen.
        say: gets one line for each version that is taken.
        ca: see `get`.

    Attributes:
        version: that was seen last; 0: none yet.
    """

    def __init__(
        self,
        file: Path,
        gateway: Callable[[], str],
        warn: Callable[[str], None],
        say: Callable[[str], None] = lambda _: None,
        *,
        ca: Path | None = None,
        pause_s: float = _PAUSE_S,
    ) -> None:
        self.version = 0
        self._file = file
        self._gateway = gateway
        self._warn = warn
        self._say = say
        self._ca = ca
        self._pause_s = pause_s

    async def run(self) -> None:
        """Watches until cancelled; a gateway that is away is waited for."""
        refusals = 0
        while True:
            told = await asyncio.to_thread(self._look)
            if told is not None:
                if told[0] > refusals:
                    self._warn(self._line())
                if self.version and told[1] != self.version:
                    self._say(f"directory taken, version {told[1]}: {self._file}")
                # A gateway that was restarted counts from 0.
                refusals, self.version = told
            await asyncio.sleep(self._pause_s)

    def _look(self) -> tuple[int, int] | None:
        """Refusals since the gateway's start, and the version; None when it does not say."""
        try:
            page = get(self._gateway(), "/metrics", self._ca).decode()
        except (OSError, KeyError, http.client.HTTPException):
            return None
        refused, version = _REFUSED.search(page), _VERSION.search(page)
        if refused is None or version is None:
            return None
        return int(float(refused[1])), int(float(version[1]))

    def _line(self) -> str:
        try:
            read_document(self._file)
        except DirectoryFileError as error:
            return f"directory refused, the last good version stays in force: {error}"
        return f"directory refused, and good again since: {self._file}"
