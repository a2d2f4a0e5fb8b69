"""How the targets of tenants are kept."""

from typing import Any

from starlette.routing import Route

from weir_gateway.console.forms.slo_json import slo_json
from weir_gateway.console.gate import Gate
from weir_gateway.console.sources import Sources
from weir_gateway.console.visit import Visit


class SloPages:
    """The handlers.

    Args:
        sources: see there.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def routes(self, gate: Gate) -> list[Route]:
        """Under `/console/api`."""
        return [gate.get("/slo", self._show)]

    async def _show(self, visit: Visit) -> Any:
        tenant_id = visit.tenant(visit.query("tenant"))
        return await self._sources.cards.of(self._slos(tenant_id))

    async def _slos(self, tenant_id: str) -> list[dict[str, Any]]:
        status = await self._sources.scheduler.pools(tenant_id)
        return [slo_json(one) for one in status.slos if tenant_id in ("", one.tenant_id)]
