"""Resources of exported spans: of the process, and of the process working for one tenant."""

from collections import OrderedDict
from functools import cached_property

from opentelemetry.sdk.resources import Resource

from weir_core.telemetry import names

_MOST = 1_000


class SpanResource(Resource):
    """A resource whose hash is taken once: the exporter asks for it with every span."""

    @cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __hash__(self) -> int:
        return self._hash


class TenantResources:
    """The resource of each tenant's spans, which names it beside the process."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, str], Resource] = OrderedDict()

    def of(self, resource: Resource, tenant_id: str) -> Resource:
        """`resource` with the tenant in it; itself for spans of nobody."""
        if not tenant_id:
            return resource
        key = (id(resource), tenant_id)
        known = self._known.get(key)
        if known is None:
            attributes = {**resource.attributes, names.TENANT_ID: tenant_id}
            known = self._known[key] = SpanResource(attributes, resource.schema_url)
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return known
