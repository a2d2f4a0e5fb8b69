"""Tracebacks for logs: types and places; messages only when asked for."""

from collections.abc import Iterator
from traceback import TracebackException

from weir_core.telemetry.redaction import mask_keys

_MAX_FRAMES = 30
_MAX_CHAIN = 8


def describe_exception(exc: BaseException, *, with_messages: bool) -> list[dict[str, object]]:
    """The exception and its causes, outermost first.

    Each is `{"type": str, "frames": ["file:line function", ...]}`, innermost frame last, and
    `message` when `with_messages`. Messages are left out by default because many libraries put
    their input into them (a JSON or validation error quotes the prompt).
    """
    return [_described(link, with_messages) for link in _chain(exc)]


def _chain(exc: BaseException) -> Iterator[BaseException]:
    pending, seen = [exc], set[int]()
    while pending and len(seen) < _MAX_CHAIN:
        link = pending.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        if isinstance(link, BaseExceptionGroup):
            pending.extend(link.exceptions)
        cause = link.__cause__
        if cause is None and not link.__suppress_context__:
            cause = link.__context__
        if cause is not None:
            pending.append(cause)


def _described(exc: BaseException, with_messages: bool) -> dict[str, object]:
    stack = TracebackException(type(exc), exc, exc.__traceback__, compact=True).stack
    described: dict[str, object] = {
        "type": f"{type(exc).__module__}.{type(exc).__qualname__}",
        "frames": [f"{f.filename}:{f.lineno} {f.name}" for f in stack[-_MAX_FRAMES:]],
    }
    if with_messages:
        described["message"] = mask_keys(str(exc))
    return described
