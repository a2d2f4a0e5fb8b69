"""What gateways learn of sessions that another one has deleted, within a second."""

import asyncio
import time
from collections.abc import Callable

from weir_core.errors import WeirError
from weir_core.repeating import Repeating
from weir_core.telemetry.logs import get_logger
from weir_gateway.sessions.cache import SessionCache
from weir_gateway.sessions.store import Deletion, SessionStore

_log = get_logger(__name__)

_POLL_S = 0.3
_TRUSTED_S = 0.9
_GAP_S = 600.0


class DeletionWatch:
    """Reads the numbers of deletions while sessions are cached or run, and drops what was deleted.

    Deletions are numbered in the order in which they become visible, so no clock is compared.

    Args:
        store: where deletions are written.
        cache: what may have to go.
        on_deleted: told of each deletion, this gateway's own too.
        turns_run: whether turns run here, whose workers are to be told.
        poll_s: between two looks.
    """

    def __init__(
        self,
        store: SessionStore,
        cache: SessionCache,
        on_deleted: Callable[[Deletion], None],
        turns_run: Callable[[], bool],
        *,
        poll_s: float = _POLL_S,
    ) -> None:
        self._store = store
        self._cache = cache
        self._on_deleted = on_deleted
        self._turns_run = turns_run
        self._poll_s = poll_s
        self._seen: int | None = None
        self._looked_at = float("-inf")
        self._needed = asyncio.Event()
        self._looks = Repeating("session_deletions", self._look_when_needed, 0)
        self._failing = False

    def start(self) -> None:
        """Begins to look."""
        self._looks.start()

    async def stop(self) -> None:
        """Ends it."""
        await self._looks.stop()

    @property
    def seen(self) -> int | None:
        """The last deletion that was heard of; None while what is cached cannot be trusted."""
        return self._seen if time.monotonic() - self._looked_at < _TRUSTED_S else None

    def need(self) -> None:
        """Something is about to be cached, or to run."""
        self._needed.set()

    async def _look_when_needed(self) -> None:
        await self._needed.wait()
        await self._look()
        await asyncio.sleep(self._poll_s)
        if not len(self._cache) and not self._turns_run():
            self._needed.clear()

    async def _look(self) -> None:
        began = time.monotonic()
        if began - self._looked_at > _GAP_S:
            self._cache.clear()
            self._seen = None
        try:
            self._seen, deleted = await self._store.deleted_since(self._seen)
        except WeirError as error:
            if not self._failing:
                _log.warning("session_deletions_unknown", error=error.message)
            self._failing = True
            return
        self._failing = False
        for one in deleted:
            self._cache.drop(one.tenant_id, one.session_id)
            self._on_deleted(one)
        self._looked_at = began
