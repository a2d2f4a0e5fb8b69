"""What was done by the console, and what was changed at all."""

from typing import Any

from starlette.routing import Route

from weir_gateway.admin.audit_trail import AuditTrail
from weir_gateway.console.forms.moments import moment
from weir_gateway.console.gate import Gate
from weir_gateway.console.visit import Visit
from weir_gateway.directory.sql.source import SqlDirectory
from weir_gateway.openai.query import PAGE


class Audit:
    """The trail in the directory's database; without one, only the log tells.

    Args:
        source: the database; None: there is none.
    """

    def __init__(self, source: SqlDirectory | None) -> None:
        self._source = source

    @property
    def kept(self) -> bool:
        """Whether there is a trail."""
        return self._source is not None

    def routes(self, gate: Gate) -> list[Route]:
        """Under `/console/api`."""
        return [gate.get("/audit", self._page, admin=True)]

    async def note(self, actor: str, action: str, name: str) -> None:
        """Keeps that somebody does something. Raises WeirError(DIRECTORY_UNAVAILABLE)."""
        if self._source is not None:
            await self._source.note(actor, action, name)

    async def _page(self, visit: Visit) -> Any:
        query = visit.query("tenant", *PAGE)
        tenant_id, page = visit.tenant(query), visit.page(query)
        if self._source is None:
            return {"events": [], "next_page_token": "", "audited": False}
        trail = AuditTrail(self._source)
        events, token = await trail.page(tenant_id, page.size, page.token)
        return {
            "events": [
                {
                    "time": moment(event, "time"),
                    "actor": event.actor,
                    "action": event.action,
                    "object": event.object,
                    "directory_version": event.directory_version,
                }
                for event in events
            ],
            "next_page_token": token,
            "audited": True,
        }
