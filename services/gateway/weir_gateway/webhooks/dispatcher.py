"""Delivers what waits in the outbox, again and again over days."""

import asyncio
import random
from collections import Counter
from contextlib import suppress

from weir_core.repeating import Repeating
from weir_core.tasks import end_task
from weir_core.telemetry.logs import get_logger
from weir_gateway.metrics import GatewayMetrics
from weir_gateway.webhooks.message import Message
from weir_gateway.webhooks.outbox import Outbox
from weir_gateway.webhooks.sender import Sender, Sent

_log = get_logger(__name__)

# Waits before the next attempt, seconds, as Standard Webhooks proposes: some three days in all.
SCHEDULE_S = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
_GONE = 410
_UNSIGNED = Sent(0, "its secret cannot be decrypted; see state_key_before")
_POLL_S = 1.0
_UPKEEP_S = 60.0
_STOP_S = 2.0


class Dispatcher:
    """Sends due messages, a bounded number at once, of each tenant and of all.

    Args:
        outbox: what is to be sent.
        sender: sends it.
        metrics: count attempts.
        most: deliveries at once.
        most_of_tenant: of one tenant: a receiver that never answers holds up nobody else's.
    """

    def __init__(
        self,
        outbox: Outbox,
        sender: Sender,
        metrics: GatewayMetrics,
        *,
        most: int = 32,
        most_of_tenant: int = 8,
    ) -> None:
        self._outbox = outbox
        self._sender = sender
        self._most = most
        self._most_of_tenant = most_of_tenant
        self._metrics = metrics
        self._of_tenant: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loops = (
            Repeating("webhooks", self._deliver_due, self._wait),
            Repeating("webhook_upkeep", outbox.remove_old, _UPKEEP_S),
        )
        self._news = asyncio.Event()

    def start(self) -> None:
        """Begins to deliver."""
        for loop in self._loops:
            loop.start()

    async def stop(self) -> None:
        """Ends; what is under way is delivered again later, under the same id."""
        for loop in self._loops:
            await loop.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOP_S)
        for task in list(self._tasks):
            await end_task(task)
        await self._sender.close()

    def wake(self) -> None:
        """Something was queued here: look at once."""
        self._news.set()

    async def _deliver_due(self) -> None:
        self._news.clear()
        free = self._most - len(self._tasks)
        if free <= 0:
            return
        busy = [t for t, number in self._of_tenant.items() if number >= self._most_of_tenant]
        # All that are taken may be one tenant's, be it that with the most of those not busy.
        most = max((n for n in self._of_tenant.values() if n < self._most_of_tenant), default=0)
        for message in await self._outbox.take_due(min(free, self._most_of_tenant - most), busy):
            self._of_tenant[message.tenant_id] += 1
            task = asyncio.create_task(self._deliver(message), name=message.id)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            # There may be more than one look takes.
            self._news.set()

    async def _deliver(self, message: Message) -> None:
        try:
            sent = await self._sender.send(message) if message.secrets else _UNSIGNED
            if sent.taken:
                self._count("delivered")
                await self._outbox.delivered(message, sent.status)
            elif sent.status == _GONE:
                self._count("gone")
                await self._outbox.gone(message)
            else:
                again_ms = wait_ms(message.attempts)
                self._count("failed" if again_ms is not None else "given_up")
                error = sent.error or f"it answered with status {sent.status}"
                await self._outbox.failed(message, sent.status, error, again_ms)
        except Exception as error:
            # It is due again when its lease ends.
            _log.error("webhook_left", message_id=message.id, exc_info=error)
        finally:
            self._of_tenant[message.tenant_id] -= 1
            if not self._of_tenant[message.tenant_id]:
                del self._of_tenant[message.tenant_id]
            self._news.set()

    def _count(self, outcome: str) -> None:
        self._metrics.webhook_attempts.labels(outcome).inc()

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_POLL_S):
                await self._news.wait()


def wait_ms(attempts: int) -> int | None:
    """Until the attempt after so many, milliseconds, a tenth more or less; None: no more."""
    if attempts > len(SCHEDULE_S):
        return None
    return round(SCHEDULE_S[attempts - 1] * 1_000 * random.uniform(0.9, 1.1))
