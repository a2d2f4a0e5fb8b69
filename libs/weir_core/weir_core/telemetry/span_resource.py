"""Resources of exported spans: of the process, and of the process working for one tenant."""

from collections import OrderedDict

from opentelemetry.sdk.resources import Resource

from weir_core.telemetry import names

_MOST = 1_000


class TenantResources:
    """The resource of each tenant's spans, which names it beside the process.

    The same object for the same tenant, as long as it is remembered.

    Args:
        resource: of the process.
    """

    def __init__(self, resource: Resource) -> None:
        self._process = resource
        self._known: OrderedDict[str, Resource] = OrderedDict()

    def of(self, tenant_id: str) -> Resource:
        """The process's with the tenant in it; itself for spans of nobody."""
        if not tenant_id:
            return self._process
        known = self._known.get(tenant_id)
        if known is None:
            attributes = {**self._process.attributes, names.TENANT_ID: tenant_id}
            known = self._known[tenant_id] = Resource(attributes, self._process.schema_url)
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return known
