"""What leaves the process of a span: redacted, and to the store of its tenant."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, Status
from opentelemetry.trace import Span as AnySpan
from opentelemetry.util.types import Attributes

from weir_core.telemetry import names
from weir_core.telemetry.context import current_tenant_id
from weir_core.telemetry.recorded_span import Moment, RecordedSpan
from weir_core.telemetry.redaction import code_word, mask_keys, redact
from weir_core.telemetry.span_resource import TenantResources

SCOPE = InstrumentationScope("weir")


class SpanTarget(Protocol):
    """Where ended spans go; it hides what is not to be seen before it passes them on."""

    def take(self, span: RecordedSpan, resource: Resource) -> None:
        """Takes one, of that resource."""

    def shutdown(self) -> None:
        """Exports what is left. Blocks."""


class RedactedSpans:
    """A target that hands redacted copies to a processor of the SDK."""

    def __init__(self, processor: SpanProcessor) -> None:
        self._processor = processor

    def take(self, span: RecordedSpan, resource: Resource) -> None:
        """See `SpanTarget`."""
        self._processor.on_end(redacted(span, resource))

    def shutdown(self) -> None:
        """See `SpanTarget`."""
        self._processor.shutdown()


class SpanGate:
    """Every ended span passes here, on to the target of its tenant.

    A span is of the tenant that it names, or else of its parent's, or else of the one that the
    task works for when the span ends. The resource of what is passed on names it.

    Args:
        resource: of the process.
        rest: of spans of no tenant, and of tenants without a target; None drops them.
        tenants: targets by tenant id.
    """

    def __init__(
        self,
        resource: Resource,
        rest: SpanTarget | None,
        tenants: Mapping[str, SpanTarget] | None = None,
    ) -> None:
        self._rest = rest
        self._tenants = dict(tenants or {})
        self._resources = TenantResources(resource)

    def take(self, span: RecordedSpan) -> None:
        """Passes on what may be seen of it."""
        tenant = _named(span) or current_tenant_id()
        target = self._tenants.get(tenant, self._rest)
        if target is not None:
            target.take(span, self._resources.of(tenant))

    def shutdown(self) -> None:
        """Exports what is left."""
        for target in (self._rest, *self._tenants.values()):
            if target is not None:
                target.shutdown()


def redacted(span: RecordedSpan, resource: Resource) -> ReadableSpan:
    """A copy of a span whose name, attributes, events, links and status hold nothing hidden.

    Args:
        span: as it ended.
        resource: of the copy.
    """
    return ReadableSpan(
        name=mask_keys(span.name),
        context=span.context,
        parent=span.parent,
        resource=resource,
        attributes=clean_attributes(span.attributes),
        events=[_event(moment) for moment in span.events],
        links=clean_links(span.links),
        kind=span.kind,
        status=clean_status(span.status),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=SCOPE,
    )


def clean_attributes(attributes: Attributes) -> Attributes:
    """A copy of them in which nothing hidden is left."""
    clean = redact(attributes or {}).items()
    # Sequences of attributes are tuples.
    return {name: tuple(v) if isinstance(v, list) else v for name, v in clean}  # type: ignore[misc]


def clean_links(links: Sequence[Link]) -> list[Link]:
    """Copies of them, likewise."""
    return [Link(link.context, clean_attributes(link.attributes)) for link in links]


def clean_status(status: Status) -> Status:
    """A copy of it, likewise."""
    return Status(status.status_code, status.description and code_word(status.description))


def hand_down_tenant(parent: AnySpan, span: RecordedSpan) -> None:
    """A span of this process names its parent's tenant, unless it names one itself."""
    if not _named(span) and (tenant := _named(parent)):
        span.attributes[names.TENANT_ID] = tenant


def _event(moment: Moment) -> Event:
    return Event(mask_keys(moment.name), clean_attributes(moment.attributes), moment.time_ns)


def _named(span: AnySpan) -> str:
    # One that comes from elsewhere, or is not recorded, has none.
    return str(span.attributes.get(names.TENANT_ID, "")) if type(span) is RecordedSpan else ""
