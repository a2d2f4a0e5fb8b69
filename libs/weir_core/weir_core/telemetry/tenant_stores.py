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
from weir_core.telemetry.foreign import cleaned, is_foreign, is_heard


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
        self._files: dict[str, logging.Handler] = {
            tenant: _open(tenant, path) for tenant, path in files.items()
        }

    def setFormatter(self, fmt: logging.Formatter | None) -> None:  # noqa: N802
        """Of all lines."""
        super().setFormatter(fmt)
        for handler in (self._rest, *self._files.values()):
            handler.setFormatter(fmt)

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one line."""
        handler = self._files.get(_tenant_of(record), self._rest)
        handler.emit(cleaned(record) if is_foreign(record) else record)

    def close(self) -> None:
        """Closes the files."""
        for handler in self._files.values():
            # Its last lines are lost, and that was told when they were written.
            with suppress(OSError):
                handler.close()
        super().close()


class _StreamHandler(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Says nothing: the standard way prints the arguments."""


class _FileHandler(WatchedFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Says that a line is lost, without what stood in it: that is the tenant's alone."""
        cause = type(sys.exc_info()[1]).__name__
        print(f'{{"event": "tenant_log_lost", "cause": "{cause}"}}', file=sys.stderr)  # noqa: T201


def _open(tenant: str, path: str) -> logging.Handler:
    try:
        Path(path).touch(mode=0o600)
        return _FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise StartupError(
            f"tenant_stores.{tenant}.log_file {path} cannot be written: {error.strerror}"
        ) from None


def _tenant_of(record: logging.LogRecord) -> str:
    fields = record.msg if isinstance(record.msg, dict) else record.__dict__
    return str(fields.get("tenant_id") or current_tenant_id())
