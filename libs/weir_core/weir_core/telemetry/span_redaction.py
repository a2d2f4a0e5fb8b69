"""What leaves the process of a span: redacted, and to the store of its tenant."""

from collections.abc import Mapping, Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import Link, Status, get_current_span
from opentelemetry.trace import Span as AnySpan
from opentelemetry.util.types import Attributes

from weir_core.telemetry import names
from weir_core.telemetry.context import current_tenant_id
from weir_core.telemetry.redaction import code_word, mask_keys, redact
from weir_core.telemetry.span_resource import TenantResources


class SpanGate(SpanProcessor):
    """Every ended span passes here: redacted, then on to its tenant's exporter.

    A span is of the tenant that it names, or else of its parent's, or else of the one that the
    task works for when the span ends. The resource of what is passed on names it.

    Args:
        rest: of spans of no tenant, and of tenants without an exporter; None drops them.
        tenants: exporters by tenant id.
    """

    def __init__(
        self, rest: SpanProcessor | None, tenants: Mapping[str, SpanProcessor] | None = None
    ) -> None:
        self._rest = rest
        self._tenants = dict(tenants or {})
        self._resources = TenantResources()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Hands the tenant down from a parent in this process."""
        hand_down_tenant(get_current_span(parent_context), span)

    def on_end(self, span: ReadableSpan) -> None:
        """Passes on what may be seen of it."""
        tenant = _named(span) or current_tenant_id()
        target = self._tenants.get(tenant, self._rest)
        if target is not None:
            target.on_end(redacted(span, self._resources.of(span.resource, tenant)))

    def shutdown(self) -> None:
        """Exports what is left."""
        for processor in self._all():
            processor.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Exports what has ended; whether all of it went in time."""
        flushed = [processor.force_flush(timeout_millis) for processor in self._all()]
        return all(flushed)

    def _all(self) -> Sequence[SpanProcessor]:
        return [*([self._rest] if self._rest is not None else []), *self._tenants.values()]


def redacted(span: ReadableSpan, resource: Resource) -> ReadableSpan:
    """A copy of a span whose name, attributes, events, links and status hold nothing hidden.

    Args:
        span: as it ended.
        resource: of the copy.
    """
    description = span.status.description
    return ReadableSpan(
        name=mask_keys(span.name),
        context=span.get_span_context(),
        parent=span.parent,
        resource=resource,
        attributes=_attributes(span.attributes),
        events=[_event(event) for event in span.events],
        links=[Link(link.context, _attributes(link.attributes)) for link in span.links],
        kind=span.kind,
        status=Status(span.status.status_code, description and code_word(description)),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _event(event: Event) -> Event:
    return Event(mask_keys(event.name), _attributes(event.attributes), event.timestamp)


def _attributes(attributes: Attributes) -> Attributes:
    clean = redact(attributes or {}).items()
    # Sequences of attributes are tuples.
    return {name: tuple(v) if isinstance(v, list) else v for name, v in clean}  # type: ignore[misc]


def hand_down_tenant(parent: AnySpan, span: AnySpan) -> None:
    """A span of this process names its parent's tenant, unless it names one itself."""
    if not _named(span) and (tenant := _named(parent)):
        span.set_attribute(names.TENANT_ID, tenant)


def _named(span: AnySpan | ReadableSpan) -> str:
    # One that comes from elsewhere, or is not recorded, has none.
    attributes = getattr(span, "attributes", None)
    return str(attributes.get(names.TENANT_ID, "")) if attributes else ""
