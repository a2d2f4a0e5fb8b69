"""The regular work around a shared store: heartbeats, probes, replays."""

from collections.abc import Callable

from weir_ratelimiter.store.degraded.local import LocalAccount
from weir_ratelimiter.store.degraded.mode import Mode
from weir_ratelimiter.store.degraded.pending_log import PendingLog
from weir_ratelimiter.store.degraded.replay import Replay
from weir_ratelimiter.store.degraded.shared import SharedStore

_BEAT_MS = 1_000


class StoreWatch:
    """Notices that the shared store is away or back, and catches up with it."""

    def __init__(
        self,
        shared: SharedStore,
        local: LocalAccount,
        pending: PendingLog,
        replay: Replay,
        *,
        mode: Mode,
        now_ms: Callable[[], int],
    ) -> None:
        self._shared = shared
        self._local = local
        self._pending = pending
        self._replay = replay
        self._mode = mode
        self._now_ms = now_ms
        self._beaten_ms = now_ms()

    async def tick(self) -> None:
        """One round; for a periodic task, several times a second. Raises as `Replay.run`."""
        await self._local.tend()
        await self._shared.probe(len(self._pending))
        if self._now_ms() - self._beaten_ms >= _BEAT_MS:
            self._beaten_ms = self._now_ms()
            await self._shared.beat()
        if not self._mode.degraded:
            await self._replay.run()
