"""Workers, and their drain."""

from typing import Any

from starlette.routing import Route

from weir_core.errors import Reason, WeirError
from weir_core.telemetry.logs import get_logger
from weir_gateway.console.audit import Audit
from weir_gateway.console.forms.worker_json import worker_json
from weir_gateway.console.gate import Gate
from weir_gateway.console.sources import Sources
from weir_gateway.console.visit import Visit

_log = get_logger(__name__)


class WorkerPages:
    """The handlers, for administrators.

    Args:
        sources, audit: see there.
    """

    def __init__(self, sources: Sources, audit: Audit) -> None:
        self._sources = sources
        self._audit = audit

    def routes(self, gate: Gate) -> list[Route]:
        """Under `/console/api`."""
        return [
            gate.get("/workers", self._list, admin=True),
            gate.post("/workers/{worker:path}/drain", self._drain, admin=True),
            gate.post("/workers/{worker:path}/undrain", self._undrain, admin=True),
        ]

    async def _list(self, visit: Visit) -> Any:
        visit.query()
        return await self._sources.cards.of(self._workers())

    async def _workers(self) -> list[dict[str, Any]]:
        return [worker_json(view) for view in await self._sources.scheduler.workers()]

    async def _drain(self, visit: Visit) -> Any:
        return await self._change(visit, "drain", cancel=False)

    async def _undrain(self, visit: Visit) -> Any:
        return await self._change(visit, "undrain", cancel=True)

    async def _change(self, visit: Visit, action: str, *, cancel: bool) -> Any:
        worker_id, scheduler = visit.part("worker"), self._sources.scheduler
        known = {view.registration.worker_id for view in await scheduler.workers()}
        if worker_id not in known:
            raise WeirError(Reason.NOT_FOUND, "there is no such worker", field="worker")
        # First: nothing is done that is not kept.
        await self._audit.note(visit.who.name, action, f"worker/{worker_id}")
        _log.info("console_worker", action=action, worker_id=worker_id, actor=visit.who.name)
        return worker_json(await scheduler.drain(worker_id, cancel=cancel))
