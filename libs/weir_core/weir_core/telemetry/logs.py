"""JSON logs on stderr, one line an event, redacted in one place.

Every line has `ts, level, logger, event, service` and, where known, `request_id, tenant_id,
trace_id, span_id`. The standard library's loggers (uvicorn, grpc) end in the same stream, their
warnings alone. Lines of a tenant that has a file of its own go there and nowhere else.
"""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from functools import partial
from typing import Any, TextIO, cast

import orjson
import structlog
from opentelemetry import trace

from weir_core.telemetry.context import current_request_id, current_tenant_id
from weir_core.telemetry.redaction import MASK, foreign_word, is_hidden, mask_keys, redact
from weir_core.telemetry.tenant_stores import TenantLogHandler
from weir_core.telemetry.tracebacks import describe_exception

Logger = structlog.typing.FilteringBoundLogger
EventDict = MutableMapping[str, Any]

_OF_EVERY_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
# JSON may hold them as they are; some readers end a line there, and terminals obey the rest.
_UNSAFE = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)}
# The text of a log call is a sentence; it is masked for keys but has no fields to hide.
# The others are structlog's own and are taken out before the line is written.
_KEPT_KEYS = ("event", "exception", "_record", "_from_structlog")


class LineLogger:
    """What structlog hands our own lines to: without a record of the standard library, which
    would cost as much as all else about a line.

    Args:
        handler: where lines go.
        name: of the logger.
    """

    def __init__(self, handler: TenantLogHandler, name: str) -> None:
        self.name = name
        self.debug = self.info = self.warning = self.error = self.critical = handler.write


def setup_logs(
    service: str,
    *,
    level: str = "INFO",
    exception_messages: bool = False,
    stream: TextIO | None = None,
    tenant_files: Mapping[str, str] | None = None,
) -> None:
    """Configures logging of this process, structlog and the standard library alike.

    Args:
        service: value of `service` in every line.
        level: DEBUG, INFO, WARNING or ERROR.
        exception_messages: log the messages of unexpected exceptions too. Off by default:
            they can quote a tenant's text.
        stream: where lines go; None for stderr.
        tenant_files: path of the lines of a tenant, by its id.

    Raises:
        StartupError: one of the files cannot be opened.
    """
    shared = _shared_processors(service, exception_messages)
    handler = TenantLogHandler(stream or sys.stderr, tenant_files or {})
    structlog.configure(
        processors=[*shared, _line],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level)),
        logger_factory=partial(LineLogger, handler),
        cache_logger_on_first_use=False,
    )
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[_foreign, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _render],
        )
    )
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
        if isinstance(old, TenantLogHandler):
            old.close()
    root.addHandler(handler)
    root.setLevel(level)
    _quiet_foreign_loggers()


def get_logger(name: str) -> Logger:
    """A logger; `log.info("event_in_snake_case", key=value)`."""
    return cast("Logger", structlog.stdlib.get_logger(name))


def _shared_processors(service: str, messages: bool) -> list[structlog.typing.Processor]:
    def add_identity(_: Any, __: str, event: EventDict) -> EventDict:
        event["service"] = service
        _add_known(event, "request_id", current_request_id())
        _add_known(event, "tenant_id", current_tenant_id())
        span = trace.get_current_span().get_span_context()
        if span.is_valid:
            event.setdefault("trace_id", f"{span.trace_id:032x}")
            event.setdefault("span_id", f"{span.span_id:016x}")
        return event

    def add_exception(_: Any, __: str, event: EventDict) -> EventDict:
        exc_info = event.pop("exc_info", None)
        exc = _exception_of(exc_info)
        if exc is not None:
            event["exception"] = describe_exception(exc, with_messages=messages)
        return event

    return [
        add_identity,
        add_exception,
        _redacted,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
    ]


def _add_known(event: EventDict, key: str, value: str) -> None:
    if value:
        event.setdefault(key, value)


def _exception_of(exc_info: Any) -> BaseException | None:
    if isinstance(exc_info, BaseException):
        return exc_info
    if isinstance(exc_info, tuple):
        return cast("BaseException | None", exc_info[1])
    return sys.exc_info()[1] if exc_info else None


def _foreign(_: Any, __: str, event: EventDict) -> EventDict:
    """Adds the fields that a library gave besides its message."""
    record: logging.LogRecord = event["_record"]
    for key, value in record.__dict__.items():
        if key not in _OF_EVERY_RECORD:
            event[key] = MASK if is_hidden(key) else foreign_word(value)
    return event


def _redacted(_: Any, __: str, event: EventDict) -> EventDict:
    kept = {key: event.pop(key) for key in _KEPT_KEYS if key in event}
    clean: EventDict = redact(event)
    if "event" in kept:
        kept["event"] = mask_keys(str(kept["event"]))
    return {**clean, **kept}


def _line(_: Any, __: str, event: EventDict) -> tuple[tuple[str, str], dict[str, Any]]:
    """What a `LineLogger` is called with."""
    return (str(event.get("tenant_id") or ""), _render(None, "", event)), {}


def _render(_: Any, __: str, event: EventDict) -> str:
    line = orjson.dumps(event, default=_named, option=orjson.OPT_NON_STR_KEYS).decode()
    return line if line.isascii() else line.translate(_UNSAFE)


def _named(value: object) -> str:
    return f"<{type(value).__name__}>"


def _quiet_foreign_loggers() -> None:
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers[:] = []
        logger.propagate = True
    # An access line holds the query string, where some clients put their key.
    logging.getLogger("uvicorn.access").setLevel(logging.WARNING)
    # Logs every exception of a handler with its message; the error interceptor has logged it.
    logging.getLogger("grpc._cython.cygrpc").setLevel(logging.CRITICAL)
