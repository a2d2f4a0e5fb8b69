"""A span that is recorded.

The SDK's own span checks, copies and locks what only one task writes; it costs twice as much, and
every request has ten of them.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode
from opentelemetry.util.types import Attributes

_UNSET = Status()


class Moment(NamedTuple):
    """An event of a span, Unix nanoseconds."""

    name: str
    attributes: Mapping[str, Any]
    time_ns: int


class RecordedSpan(Span):
    """Collects what is told of it, and is exported once it ends.

    Args:
        name: low-cardinality name.
        context: its own ids, with the flag *sampled*.
        parent: of its parent; None for the root of a trace.
        kind, attributes, start_time, links: as of `Tracer.start_span`; Unix nanoseconds.
        export: gets it when it ends.
    """

    def __init__(
        self,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        *,
        kind: SpanKind,
        attributes: Attributes,
        start_time: int | None,
        links: Sequence[Link],
        export: Callable[["RecordedSpan"], None],
    ) -> None:
        self.name = name
        self.context = context
        self.parent = parent
        self.kind = kind
        self.attributes: dict[str, Any] = dict(attributes) if attributes else {}
        self.start_time = start_time or time.time_ns()
        self.end_time = 0
        self.links = links
        self.events: list[Moment] = []
        self.status = _UNSET
        self._export: Callable[[RecordedSpan], None] | None = export

    def end(self, end_time: int | None = None) -> None:
        """Exports it, once."""
        export, self._export = self._export, None
        if export is not None:
            self.end_time = end_time or time.time_ns()
            export(self)

    def get_span_context(self) -> SpanContext:
        """Its ids."""
        return self.context

    def is_recording(self) -> bool:
        """Until it has ended."""
        return self._export is not None

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Adds some."""
        self.attributes.update(attributes)

    def set_attribute(self, key: str, value: Any) -> None:
        """Adds one."""
        self.attributes[key] = value

    def add_event(
        self, name: str, attributes: Attributes = None, timestamp: int | None = None
    ) -> None:
        """Adds what happened at one moment."""
        self.events.append(Moment(name, attributes or {}, timestamp or time.time_ns()))

    def add_link(self, context: SpanContext, attributes: Attributes = None) -> None:
        """Adds a link."""
        self.links = [*self.links, Link(context, attributes)]

    def update_name(self, name: str) -> None:
        """Renames it."""
        self.name = name

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Says how it went."""
        self.status = status if isinstance(status, Status) else Status(status, description)

    def record_exception(
        self,
        exception: BaseException,
        attributes: Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        """Its type alone: its message may hold text of a prompt."""
        self.add_event("exception", {"exception.type": type(exception).__name__}, timestamp)
