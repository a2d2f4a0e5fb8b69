"""The overview: what happens now, for everybody or for one tenant."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from weir.gateway.v1.history_service_pb2 import HistorySample
from weir_core.errors import Reason, WeirError
from weir_core.errors.refusal import rfc3339
from weir_gateway.console.alerts import Alert, alerts_json, of_fleet, of_parts, of_targets
from weir_gateway.console.forms.queue_json import reasons_json, waited_s
from weir_gateway.console.forms.traffic_json import WINDOW_S, series_json, traffic_json
from weir_gateway.console.forms.worker_json import fleet_json
from weir_gateway.console.past import Past
from weir_gateway.console.sources import Sources, only_at_edges
from weir_gateway.history.far_reader import FarLook
from weir_gateway.history.keeper import HistoryKeeper
from weir_gateway.history.own_share import own_share


class Overview:
    """Makes it.

    Args:
        sources: see there.
        keeper: what this gateway has seen; None: it sees no requests.
        look: asks the far parts, where there is no keeper.
    """

    def __init__(
        self,
        sources: Sources,
        keeper: HistoryKeeper | None,
        look: Callable[[], Awaitable[FarLook]],
    ) -> None:
        self._sources = sources
        self._keeper = keeper
        self._look = look
        self._past = None if keeper is None else Past(self._series, sources.clock)

    async def of(self, tenant_id: str) -> dict[str, Any]:
        """Now; an empty id for everybody."""
        far = await self._far()
        cards = self._sources.cards
        told: dict[str, Any] = await cards.all(
            traffic=self._traffic(tenant_id),
            queue=self._queue(far, tenant_id),
            alerts=self._alerts(far, tenant_id),
        )
        told["workers"] = None if tenant_id else await cards.of(self._workers(far))
        return {"time": rfc3339(self._sources.clock.now_ms()), **told}

    async def history(self, tenant_id: str, window_s: int, step_s: int) -> dict[str, Any]:
        """The past in steps. Raises WeirError where nothing is seen."""
        if self._past is None:
            raise only_at_edges()
        return await self._past.series(tenant_id, window_s, step_s)

    async def _series(self, window_s: float, step_s: float, tenant_id: str) -> dict[str, Any]:
        assert self._keeper is not None

        def form(samples: Sequence[HistorySample]) -> dict[str, Any]:
            return series_json(samples, fleet=not tenant_id)

        return await self._keeper.read(window_s, step_s, tenant_id, form)

    async def _far(self) -> FarLook:
        """What the far parts said last."""
        if self._keeper is None:
            return await self._look()
        samples = self._keeper.history(WINDOW_S)
        read = next((one for one in reversed(samples) if one.far_read), HistorySample())
        if not read.far_read:
            read.parts.scheduler_error = "it has not been asked yet"
        return FarLook(
            parts=read.parts,
            pools=list(read.pools),
            workers=[one.view for one in read.workers],
            depths=list(read.depths),
        )

    async def _traffic(self, tenant_id: str) -> dict[str, Any]:
        if self._keeper is None:
            raise only_at_edges()
        samples = self._keeper.history(WINDOW_S)
        return traffic_json([own_share(sample, tenant_id) for sample in samples])

    async def _queue(self, far: FarLook, tenant_id: str) -> dict[str, Any]:
        _check(far)
        depths = [one for one in far.depths if tenant_id in ("", one.tenant_id)]
        head = await self._sources.scheduler.queue(tenant_id, 1, "")
        now_us = self._sources.clock.now_us()
        oldest = max((waited_s(one, now_us) for one in head.requests), default=0.0)
        return {
            "waiting": head.total,
            "waiting_tokens": _waiting_tokens(far, tenant_id) if head.total else 0,
            "oldest_wait_s": oldest,
            "reasons": reasons_json(depths),
        }

    async def _workers(self, far: FarLook) -> dict[str, Any]:
        _check(far)
        return fleet_json(far.workers)

    async def _alerts(self, far: FarLook, tenant_id: str) -> list[dict[str, Any]]:
        alerts: Iterator[Alert] = iter(())
        if not tenant_id:
            pools = [pool.status for pool in far.pools]
            alerts = chain(of_parts(far.parts), of_fleet(far.workers, pools))
        if not far.parts.scheduler_error:
            status = await self._sources.scheduler.pools(tenant_id)
            own = [one for one in status.slos if tenant_id in ("", one.tenant_id)]
            alerts = chain(alerts, of_targets(own))
        return alerts_json(alerts)


def _check(far: FarLook) -> None:
    if far.parts.scheduler_error:
        raise WeirError(Reason.SCHEDULER_UNAVAILABLE, far.parts.scheduler_error)


def _waiting_tokens(far: FarLook, tenant_id: str) -> int | None:
    """Of a tenant None where others have so much more waiting that its part is not told."""
    queues = [queue for pool in far.pools for queue in pool.status.queues]
    if not tenant_id:
        return sum(queue.waiting_tokens for queue in queues)
    own = [one for queue in queues for one in queue.tenant_queues if one.tenant_id == tenant_id]
    return sum(one.waiting_tokens for one in own) if own else None
