"""How fairly tenants that share a pool are served."""

from typing import Any

from starlette.routing import Route

from weir_gateway.console.forms.fairness_json import fairness_json
from weir_gateway.console.gate import Gate
from weir_gateway.console.sources import Sources
from weir_gateway.console.visit import Visit


class FairnessPages:
    """The handlers, for administrators.

    Args:
        sources: see there.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def routes(self, gate: Gate) -> list[Route]:
        """Under `/console/api`."""
        return [gate.get("/fairness", self._show, admin=True)]

    async def _show(self, visit: Visit) -> Any:
        visit.query()
        return await self._sources.cards.of(self._pools())

    async def _pools(self) -> list[dict[str, Any]]:
        status = await self._sources.scheduler.pools()
        return [fairness_json(pool) for pool in status.pools]
