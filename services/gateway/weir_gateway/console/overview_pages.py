"""The overview, its past, and its stream."""

from typing import Any

from starlette.routing import Route

from weir_gateway.console.event_stream import EventStream
from weir_gateway.console.gate import Gate
from weir_gateway.console.live import Live
from weir_gateway.console.overview import Overview
from weir_gateway.console.sources import Sources
from weir_gateway.console.visit import Visit

_WINDOW_S, _LONGEST_S = 900, 86_400


class OverviewPages:
    """The handlers.

    Args:
        sources, overview, live: see there.
    """

    def __init__(self, sources: Sources, overview: Overview, live: Live) -> None:
        self._sources = sources
        self._overview = overview
        self._live = live

    def routes(self, gate: Gate) -> list[Route]:
        """Under `/console/api`."""
        return [
            gate.get("/overview", self._now),
            gate.get("/history", self._past),
            gate.get("/live", self._stream),
        ]

    async def _now(self, visit: Visit) -> Any:
        visit.query()
        return await self._overview.of(visit.who.tenant_id)

    async def _past(self, visit: Visit) -> Any:
        query = visit.query("window_s", "step_s")
        window_s = query.integer("window_s", default=_WINDOW_S, least=10, most=_LONGEST_S)
        step_s = query.integer("step_s", default=5, most=3_600)
        return await self._sources.cards.of(
            self._overview.history(visit.who.tenant_id, window_s, step_s)
        )

    async def _stream(self, visit: Visit) -> Any:
        visit.query()
        self._live.check_room(visit.session)
        return EventStream(self._live.watch(visit.session))
