"""Tells at the terminal when the gateway refuses an edit of its directory file."""

import asyncio
import http.client
import re
from collections.abc import Callable
from pathlib import Path

from weir_cli.stack.gateway_http import get
from weir_gateway.directory.file import DirectoryFileError, read_document

_REFUSED = re.compile(r"^weir_gateway_directory_refused_total (\S+)$", re.MULTILINE)
_PAUSE_S = 2.0


class DirectoryWatch:
    """Follows the gateway's count of refusals.

    Args:
        file: the directory file.
        gateway: gives the `host:port` of its HTTP server as it runs now.
        warn: gets one line for each refusal that is seen.
        ca: see `get`.
    """

    def __init__(
        self,
        file: Path,
        gateway: Callable[[], str],
        warn: Callable[[str], None],
        *,
        ca: Path | None = None,
        pause_s: float = _PAUSE_S,
    ) -> None:
        self._file = file
        self._gateway = gateway
        self._warn = warn
        self._ca = ca
        self._pause_s = pause_s

    async def run(self) -> None:
        """Watches until cancelled; a gateway that is away is waited for."""
        seen = 0
        while True:
            count = await asyncio.to_thread(self._count)
            if count is not None:
                if count > seen:
                    self._warn(self._line())
                # A gateway that was restarted counts from 0.
                seen = count
            await asyncio.sleep(self._pause_s)

    def _count(self) -> int | None:
        """Refusals since the gateway's start; None when it does not say."""
        try:
            told = _REFUSED.search(get(self._gateway(), "/metrics", self._ca).decode())
        except (OSError, KeyError, http.client.HTTPException):
            return None
        return int(float(told[1])) if told else None

    def _line(self) -> str:
        try:
            read_document(self._file)
        except DirectoryFileError as error:
            return f"directory refused, the last good version stays in force: {error}"
        return f"directory refused, and good again since: {self._file}"
