"""Keeps prefixes computed: after each new version, and on workers that join."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence

from weir_core.clock import Clock
from weir_core.errors import WeirError
from weir_core.repeating import Repeating
from weir_core.tasks import end_task
from weir_core.telemetry.logs import get_logger
from weir_gateway.caller.caller import Caller
from weir_gateway.flow.reception import Reception
from weir_gateway.links.fleet_reader import FleetReader
from weir_gateway.prefixes.prefix import Prefix, Warmth
from weir_gateway.prefixes.store import PrefixStore
from weir_gateway.prefixes.warmer import Warmer

_log = get_logger(__name__)

_LOOK_S = 10.0
_MOST_AT_ONCE = 256
_MOST_OF_TENANT = 8
_TENANTS_AT_ONCE = 32
# For all that workers which came are to compute; what is left stays cold until it is asked for.
_NEWCOMERS_S = 600.0


class WarmKeeper:
    """Looks every few seconds for workers that came, and has the newest version of each prefix
    that was computed before computed there too. Of several gateways one does it.

    Args:
        store, warmer, fleet, reception: see there.
        clock: wall time.
        look_s: between two looks.
    """

    def __init__(
        self,
        store: PrefixStore,
        warmer: Warmer,
        fleet: FleetReader,
        reception: Reception,
        clock: Clock,
        *,
        look_s: float = _LOOK_S,
    ) -> None:
        self._store = store
        self._warmer = warmer
        self._fleet = fleet
        self._reception = reception
        self._clock = clock
        self._known: set[tuple[str, str]] | None = None
        self._looks = Repeating("prefix_warmth", self._look, look_s)
        self._tasks: set[asyncio.Task[None]] = set()
        self._of_tenant: Counter[str] = Counter()

    def start(self) -> None:
        """Begins to look."""
        self._looks.start()

    async def stop(self) -> None:
        """Ends it."""
        await self._looks.stop()
        await asyncio.gather(*map(end_task, list(self._tasks)))

    async def warm(self, caller: Caller, prefix: Prefix) -> list[Warmth]:
        """Computes a prefix now, and notes where. Raises WeirError."""
        warmths = await self._warmer.warm(caller, prefix)
        await self._store.warmed(prefix, warmths)
        return warmths

    def warm_later(self, caller: Caller, prefix: Prefix) -> None:
        """Does so in the background; where much waits already, it is left to be asked for."""
        tenant = prefix.tenant_id
        if len(self._tasks) >= _MOST_AT_ONCE or self._of_tenant[tenant] >= _MOST_OF_TENANT:
            _log.warning("prefix_left_cold", tenant_id=tenant, reason="too many are being computed")
            return
        task = asyncio.create_task(self._quietly(caller, prefix))
        self._tasks.add(task)
        self._of_tenant[tenant] += 1
        task.add_done_callback(lambda done: self._end(tenant, done))

    def _end(self, tenant: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._of_tenant[tenant] -= 1
        if not self._of_tenant[tenant]:
            del self._of_tenant[tenant]

    async def _quietly(self, caller: Caller, prefix: Prefix) -> None:
        try:
            await self.warm(caller, prefix)
        except WeirError as error:
            _log.info("prefix_left_cold", tenant_id=prefix.tenant_id, reason=error.reason)

    async def _look(self) -> None:
        try:
            await self._look_once()
        except WeirError as error:
            _log.info("prefix_warmth_unknown", reason=error.reason)

    async def _look_once(self) -> None:
        ready = set(await self._fleet.ready())
        came = ready - (self._known if self._known is not None else ready)
        if came:
            of_tenants: dict[str, list[Prefix]] = defaultdict(list)
            for prefix in await self._store.newest_of_models():
                of_tenants[prefix.tenant_id].append(prefix)
            turns = asyncio.Semaphore(_TENANTS_AT_ONCE)
            try:
                async with asyncio.timeout(_NEWCOMERS_S):
                    await asyncio.gather(
                        *(self._warm_all(own, came, ready, turns) for own in of_tenants.values())
                    )
            except TimeoutError:
                _log.warning("prefixes_left_cold", reason="workers took too long")
        self._known = ready

    async def _warm_all(
        self,
        prefixes: Sequence[Prefix],
        came: set[tuple[str, str]],
        ready: set[tuple[str, str]],
        turns: asyncio.Semaphore,
    ) -> None:
        """Those of one tenant, one after the other, in turn with those of others."""
        for prefix in prefixes:
            for model, worker in came:
                if model in prefix.models:
                    async with turns:
                        await self._warm_on(prefix, model, worker, ready)

    async def _warm_on(
        self, head: Prefix, model: str, worker: str, ready: set[tuple[str, str]]
    ) -> None:
        now_ms = self._clock.now_ms()
        among = {one for served, one in ready if served == model}
        try:
            if not await self._store.claim(head, model, worker, now_ms):
                return
            prefix = await self._store.find(head.tenant_id, head.name, head.version)
            if prefix is None:
                return
            caller = self._reception.standing(prefix.tenant_id, prefix.api_key_id)
            warmths = await self._warmer.warm_on(caller, prefix, model, {worker}, among)
            await self._store.warmed(prefix, warmths)
        except WeirError as error:
            _log.info("prefix_left_cold", tenant_id=head.tenant_id, reason=error.reason)
