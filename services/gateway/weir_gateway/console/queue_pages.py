"""The live queue."""

from typing import Any

from starlette.routing import Route

from weir_gateway.console.forms.queue_json import pool_json, waiting_json
from weir_gateway.console.gate import Gate
from weir_gateway.console.sources import Sources
from weir_gateway.console.visit import Page, Visit
from weir_gateway.openai.query import PAGE


class QueuePages:
    """The handlers.

    Args:
        sources: see there.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def routes(self, gate: Gate) -> list[Route]:
        """Under `/console/api`."""
        return [gate.get("/queue", self._queue)]

    async def _queue(self, visit: Visit) -> Any:
        query = visit.query("tenant", *PAGE)
        tenant_id, page = visit.tenant(query), visit.page(query)
        if not visit.who.is_admin:
            queue = await self._sources.cards.of(self._waiting(tenant_id, page))
            return {"queue": queue, "pools": None}
        return await self._sources.cards.all(
            queue=self._waiting(tenant_id, page), pools=self._pools()
        )

    async def _waiting(self, tenant_id: str, page: Page) -> dict[str, Any]:
        answer = await self._sources.scheduler.queue(tenant_id, page.size, page.token)
        now_us = self._sources.clock.now_us()
        return {
            "total": answer.total,
            "requests": [waiting_json(one, now_us) for one in answer.requests],
            "next_page_token": answer.next_page_token,
        }

    async def _pools(self) -> list[dict[str, Any]]:
        return [pool_json(pool) for pool in (await self._sources.scheduler.pools()).pools]
