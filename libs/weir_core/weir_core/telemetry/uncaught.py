"""Exceptions that nobody catches: the interpreter would print them with their messages."""

import logging
import sys
import threading
from types import TracebackType

from weir_core.telemetry.logs import get_logger

_log = get_logger("weir.uncaught")


def log_uncaught() -> None:
    """Makes them, and warnings, log lines like all others, for the rest of the process."""
    sys.excepthook = _left_main
    sys.unraisablehook = _ignored
    threading.excepthook = _left_thread
    logging.captureWarnings(True)


def _left_main(_: type[BaseException], exc: BaseException, __: TracebackType | None) -> None:
    if not isinstance(exc, KeyboardInterrupt):
        _log.critical("process_failed", exc_info=exc)


def _ignored(args: "sys.UnraisableHookArgs") -> None:
    _log.error("exception_ignored", exc_info=args.exc_value)


def _left_thread(args: threading.ExceptHookArgs) -> None:
    _log.error("thread_failed", exc_info=args.exc_value)
