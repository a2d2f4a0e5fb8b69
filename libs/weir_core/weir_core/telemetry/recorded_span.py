"""A span below one that is recorded: nothing is to be decided about it any more.

The SDK's own span checks, copies and locks what only one task writes; it costs twice as much, and
every request has ten of them.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode
from opentelemetry.util.types import Attributes

SCOPE = InstrumentationScope("weir")


class RecordedSpan(Span):
    """Collects what is told of it, and is exported once it ends.

    Args:
        name: low-cardinality name.
        context: its own ids, with the flag *sampled*.
        parent: of its parent.
        resource: of the process.
        kind, attributes, start_time, links: as of `Tracer.start_span`; Unix nanoseconds.
        export: gets it when it ends.
    """

    def __init__(
        self,
        name: str,
        context: SpanContext,
        parent: SpanContext,
        *,
        resource: Resource,
        kind: SpanKind,
        attributes: Attributes,
        start_time: int | None,
        links: Sequence[Link],
        export: Callable[[ReadableSpan], None],
    ) -> None:
        self._name = name
        self._context = context
        self._parent = parent
        self._resource = resource
        self._kind = kind
        self.attributes: dict[str, Any] = dict(attributes or {})
        self._start_time = start_time or time.time_ns()
        self._links = list(links)
        self._export: Callable[[ReadableSpan], None] | None = export
        self._events: list[Event] = []
        self._status = Status()

    def end(self, end_time: int | None = None) -> None:
        """Exports it, once."""
        export, self._export = self._export, None
        if export is None:
            return
        export(
            ReadableSpan(
                name=self._name,
                context=self._context,
                parent=self._parent,
                resource=self._resource,
                attributes=self.attributes,
                events=self._events,
                links=self._links,
                kind=self._kind,
                status=self._status,
                start_time=self._start_time,
                end_time=end_time or time.time_ns(),
                instrumentation_scope=SCOPE,
            )
        )

    def get_span_context(self) -> SpanContext:
        """Its ids."""
        return self._context

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
        self._events.append(Event(name, dict(attributes or {}), timestamp or time.time_ns()))

    def add_link(self, context: SpanContext, attributes: Attributes = None) -> None:
        """Adds a link."""
        self._links.append(Link(context, attributes))

    def update_name(self, name: str) -> None:
        """Renames it."""
        self._name = name

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Says how it went."""
        self._status = status if isinstance(status, Status) else Status(status, description)

    def record_exception(
        self,
        exception: BaseException,
        attributes: Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        """Its type alone: its message may hold text of a prompt."""
        self.add_event("exception", {"exception.type": type(exception).__name__}, timestamp)
