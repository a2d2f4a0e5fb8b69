"""Where the telemetry of a tenant goes that has stores of its own."""

import logging
import sys
from collections.abc import Mapping
from contextlib import suppress
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import TextIO

from weir_core.errors.startup import StartupError
from weir_core.telemetry.context import current_tenant_id
from weir_core.telemetry.foreign import cleaned, is_heard


class TenantLogHandler(logging.Handler):
    """Writes each line into the file of its tenant, every other to one stream.

    A line is of the tenant that it names, or else of the one that the task works for.

    Args:
        stream: of lines of no tenant, and of tenants without a file.
        files: path by tenant id; appended to, readable by the owner alone. A file that was moved
            away is made anew.

    Raises:
        StartupError: a file cannot be opened.
    """

    def __init__(self, stream: TextIO, files: Mapping[str, str]) -> None:
        super().__init__()
        self.addFilter(is_heard)
        self._rest = _StreamHandler(stream)
        self._files = {tenant: _open(tenant, path) for tenant, path in files.items()}

    def setFormatter(self, fmt: logging.Formatter | None) -> None:  # noqa: N802
        """Of all lines."""
        super().setFormatter(fmt)
        self._rest.setFormatter(fmt)
        for handler in self._files.values():
            handler.setFormatter(fmt)

    def write(self, tenant_id: str, line: str) -> None:
        """Writes a line of our own, which names that tenant, or of the task's tenant."""
        handler = self._place_of(tenant_id)
        handler.acquire()
        try:
            stream = handler.opened()
            stream.write(line + handler.terminator)
            stream.flush()
        except Exception:
            handler.lost()
        finally:
            handler.release()

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a line of a library."""
        tenant_id = str(record.__dict__.get("tenant_id", ""))
        self._place_of(tenant_id).emit(cleaned(record))

    def close(self) -> None:
        """Closes the files."""
        for handler in self._files.values():
            # Its last lines are lost, and that was told when they were written.
            with suppress(OSError):
                handler.close()
        super().close()

    def _place_of(self, tenant_id: str) -> "_StreamHandler | _FileHandler":
        if not self._files:
            return self._rest
        return self._files.get(tenant_id or current_tenant_id(), self._rest)


class _StreamHandler(logging.StreamHandler[TextIO]):
    def opened(self) -> TextIO:
        """Where the next line goes."""
        return self.stream

    def lost(self) -> None:
        """Says nothing: the standard way prints the arguments."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """See `lost`."""


class _FileHandler(WatchedFileHandler):
    def opened(self) -> TextIO:
        """Where the next line goes."""
        self.reopenIfNeeded()
        if self.stream is None:
            self.stream = self._open()
        return self.stream

    def lost(self) -> None:
        """Says that a line is lost, without what stood in it: that is the tenant's alone."""
        cause = type(sys.exc_info()[1]).__name__
        print(f'{{"event": "tenant_log_lost", "cause": "{cause}"}}', file=sys.stderr)  # noqa: T201

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """See `lost`."""
        self.lost()


def _open(tenant: str, path: str) -> _FileHandler:
    try:
        Path(path).touch(mode=0o600)
        return _FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise StartupError(
            f"tenant_stores.{tenant}.log_file {path} cannot be written: {error.strerror}"
        ) from None
