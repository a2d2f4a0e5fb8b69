"""Lines that libraries log: what they quote may be a request, and what they chat is not wanted."""

import logging
from collections.abc import Mapping

from weir_core.telemetry.redaction import MASK, foreign_word, mask_keys

_MAX_LINE = 300
# The rest would say at INFO and DEBUG which statements, headers and bodies went over the wire.
_HEARD = frozenset({"uvicorn.error", "alembic.runtime.migration"})


def is_heard(record: logging.LogRecord) -> bool:
    """Whether a record is written: of libraries warnings and errors, and what a few say at INFO."""
    if record.levelno >= logging.WARNING:
        return True
    return record.name in _HEARD and record.levelno >= logging.INFO


def cleaned(record: logging.LogRecord) -> logging.LogRecord:
    """A copy of a library's record with nothing of its message but `foreign_line`."""
    clean = logging.makeLogRecord(record.__dict__)
    clean.msg, clean.args = foreign_line(record), ()
    return clean


def foreign_line(record: logging.LogRecord) -> str:
    """The first line of a library's message; of its arguments numbers and single words alone.

    asyncio tells of a task that failed in a first line, and below it what it failed of.
    """
    template = str(record.msg)
    try:
        text = template % _arguments(record.args) if record.args else template
    except (TypeError, ValueError, KeyError):
        text = template
    return mask_keys(text.partition("\n")[0])[:_MAX_LINE]


def _arguments(args: object) -> object:
    if isinstance(args, Mapping):
        return {key: foreign_word(value) for key, value in args.items()}
    if isinstance(args, tuple):
        return tuple(foreign_word(value) for value in args)
    return MASK
