"""The shared store behind a deadline and a breaker."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from weir_core.errors import WeirError
from weir_core.errors.startup import StartupError
from weir_core.telemetry.logs import get_logger
from weir_ratelimiter.store.away import StoreAway
from weir_ratelimiter.store.base import Store
from weir_ratelimiter.store.degraded.breaker import Breaker
from weir_ratelimiter.store.degraded.deadline import within
from weir_ratelimiter.store.degraded.mode import Mode
from weir_ratelimiter.store.degraded.replicas import ReplicaCount, Replicas

T = TypeVar("T")

_CONNECT_DEADLINE_S = 1.0
_BATCH_DEADLINE_S = 1.0
_CLOSE_DEADLINE_S = 1.0

_log = get_logger(__name__)


class Connected(msgspec.Struct, frozen=True):
    """A shared store that was reached.

    Attributes:
        states_lost: how often it came back with another state than before.
        in_parts: it is a cluster: that one call is refused says nothing of the next.
    """

    store: Store
    replicas: Replicas
    states_lost: Callable[[], int] = lambda: 0
    in_parts: bool = False


class SharedStore:
    """Asks the shared store while it answers.

    Args:
        connect: opens it; raises StoreAway if nobody answers, StartupError if it is of no use.
        breaker: decides whether to ask.
        mode: is told of each change.
        count: is told how many ratelimiters there are.
        timeout_s: of one call.
        now_ms: any clock that only runs.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connected]],
        *,
        breaker: Breaker,
        mode: Mode,
        count: ReplicaCount,
        timeout_s: float,
        now_ms: Callable[[], int],
    ) -> None:
        self._connect = connect
        self._breaker = breaker
        self._mode = mode
        self._count = count
        self._timeout_s = timeout_s
        self._now_ms = now_ms
        self._connected: Connected | None = None

    @property
    def store(self) -> Store | None:
        """The store, if it was ever reached."""
        return None if self._connected is None else self._connected.store

    @property
    def states_lost(self) -> int:
        """How often the store came back with another state than before."""
        return 0 if self._connected is None else self._connected.states_lost()

    async def open(self) -> None:
        """Reach the store, or begin without it.

        Raises:
            StartupError: it answers, and is of no use.
        """
        try:
            await self._beat()
        except StoreAway as away:
            self._failed(away.cause, at_once=True)

    async def call(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """Have the store decide. Raises as `batch`, after `timeout_s`."""
        return await self._ask(work, self._timeout_s)

    async def batch(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """Have the store do something larger, that nobody waits for, within 1 s.

        Raises:
            StoreAway: it was not asked, or gave no answer in time.
        """
        return await self._ask(work, _BATCH_DEADLINE_S)

    async def beat(self) -> None:
        """Announce this ratelimiter and count the others; finds out early that nobody answers."""
        if not self._breaker.closed:
            return
        try:
            await self._beat()
        except StoreAway as away:
            self._failed(away.cause, at_once=away.refused)
        else:
            self._breaker.succeeded()

    async def probe(self, pending: int) -> None:
        """Ask once if it is time to; a write, as a store that only reads is of no use."""
        if not self._breaker.begin_probe(self._now_ms()):
            return
        answered = False
        try:
            await self._beat()
            answered = True
        except StoreAway as away:
            _log.debug("store_still_away", cause=away.cause)
        except StartupError as error:
            _log.error("store_of_no_use", cause=str(error))
        finally:
            self._breaker.end_probe(self._now_ms(), answered=answered)
        if answered:
            self._mode.back(self._now_ms(), pending)

    async def close(self) -> None:
        """Sign off and release the connections."""
        if self._connected is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_DEADLINE_S):
                await self._connected.replicas.close()
        finally:
            await self._connected.store.close()

    async def _ask(self, work: Callable[[Store], Awaitable[T]], limit_s: float) -> T:
        if not self._breaker.closed or self._connected is None:
            raise StoreAway("it did not answer the last calls", refused=True)
        connected = self._connected
        try:
            answer = await self._in_time(work(connected.store), limit_s)
        except StoreAway as away:
            self._failed(away.cause, at_once=away.refused and not connected.in_parts)
            raise
        except WeirError:
            self._breaker.succeeded()
            raise
        self._breaker.succeeded()
        return answer

    async def _beat(self) -> None:
        if self._connected is None:
            self._connected = await self._in_time(self._connect(), _CONNECT_DEADLINE_S)
        beat = self._connected.replicas.beat()
        self._count.counted(await self._in_time(beat, self._timeout_s))

    async def _in_time(self, work: Awaitable[T], limit_s: float) -> T:
        try:
            return await within(limit_s, work)
        except TimeoutError:
            raise StoreAway(f"no answer within {limit_s * 1_000:.0f} ms") from None

    def _failed(self, cause: str, *, at_once: bool) -> None:
        self._breaker.failed(self._now_ms(), at_once=at_once)
        if not self._breaker.closed:
            self._mode.away(self._now_ms(), cause, self._count.value)
