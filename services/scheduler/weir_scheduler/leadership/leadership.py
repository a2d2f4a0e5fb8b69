"""Keeps asking for the lease, and tells when this scheduler may act."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from weir_core.errors import Reason, WeirError
from weir_core.tasks import end_task
from weir_core.telemetry.logs import get_logger
from weir_scheduler.leadership.boot_clock import boot_us
from weir_scheduler.leadership.lease import Lease
from weir_scheduler.leadership.lease_store import LeaseStore, StoreAway

_log = get_logger(__name__)

_SECOND_US = 1_000_000


class Leadership(Protocol):
    """Whether this process is the scheduler that may act."""

    @property
    def epoch(self) -> int:
        """Of the present or last term; 0 where there is one scheduler only."""

    @property
    def lease_s(self) -> float:
        """Silence after which another may have become active; 0 where there is no other."""

    def active(self) -> bool:
        """Looked at before every act: a process may have been stopped at any moment."""

    def refusal(self) -> WeirError:
        """For whoever asks a scheduler that is not active."""

    def start(self, on_active: Callable[[], object], on_standby: Callable[[], object]) -> None:
        """Begins; both are called on the event loop, in turn, `on_active` first."""

    async def note(self, text: str) -> bool:
        """Keeps a note for the next active scheduler, if it can."""

    async def noted(self) -> str:
        """The note of the one before; empty for none."""

    async def stop(self) -> None:
        """Gives the lease back. Nothing may be sent any more."""


class OnlyScheduler:
    """There is one scheduler, and it acts."""

    @property
    def epoch(self) -> int:
        """No terms."""
        return 0

    @property
    def lease_s(self) -> float:
        """No lease."""
        return 0.0

    def active(self) -> bool:
        """Always."""
        return True

    def refusal(self) -> WeirError:
        """Never needed."""
        return _not_leader("")

    def start(self, on_active: Callable[[], object], on_standby: Callable[[], object]) -> None:
        """Active at once."""
        on_active()

    async def note(self, text: str) -> bool:
        """There is no other to read it."""
        return True

    async def noted(self) -> str:
        """There was no other."""
        return ""

    async def stop(self) -> None:
        """Nothing to give back."""


class LeasedLeadership:
    """Active while a lease is certain.

    Args:
        lease: the state machine.
        store: where it lies.
    """

    def __init__(self, lease: Lease, store: LeaseStore) -> None:
        self._lease = lease
        self._store = store
        self._on_active: Callable[[], object] = lambda: None
        self._on_standby: Callable[[], object] = lambda: None
        self._acting = False
        self._away = False
        self._task: asyncio.Task[None] | None = None

    @property
    def epoch(self) -> int:
        """See `Leadership`."""
        return self._lease.epoch

    @property
    def lease_s(self) -> float:
        """See `Leadership`."""
        return self._lease.times.ttl_us / _SECOND_US

    def active(self) -> bool:
        """See `Leadership`."""
        return self._acting and self._lease.active(boot_us())

    def refusal(self) -> WeirError:
        """See `Leadership`."""
        return _not_leader(self._lease.leader_address)

    def start(self, on_active: Callable[[], object], on_standby: Callable[[], object]) -> None:
        """See `Leadership`."""
        self._on_active, self._on_standby = on_active, on_standby
        self._task = asyncio.create_task(self._keep(), name="leadership")

    async def note(self, text: str) -> bool:
        """See `Leadership`."""
        try:
            async with asyncio.timeout(self._call_s()):
                await self._store.note(text)
        except (StoreAway, TimeoutError):
            return False
        return True

    async def noted(self) -> str:
        """See `Leadership`."""
        try:
            async with asyncio.timeout(self._call_s()):
                return await self._store.noted()
        except (StoreAway, TimeoutError):
            return ""

    async def stop(self) -> None:
        """See `Leadership`. Idempotent."""
        task, self._task = self._task, None
        if task is None:
            return
        await end_task(task)
        bid = self._lease.release(boot_us())
        self._note()
        if bid is not None:
            try:
                async with asyncio.timeout(self._call_s()):
                    await self._store.bid(bid)
            except (StoreAway, TimeoutError):
                _log.warning("lease_not_given_back", note="the next scheduler waits for its end")
        with suppress(StoreAway, TimeoutError):
            async with asyncio.timeout(self._call_s()):
                await self._store.close()

    async def _keep(self) -> None:
        while True:
            try:
                await self._ask()
                self._note()
            except Exception as error:
                # Without this task no scheduler would ever be active here again.
                _log.error("leadership_failed", exc_info=error)
            await asyncio.sleep(self._pause_s())

    def _pause_s(self) -> float:
        """Until the store is to be asked, or what is certain ends."""
        now_us, until_us = boot_us(), self._lease.due_us
        if self._lease.leading:
            until_us = min(until_us, self._lease.certain_until_us)
        return max(0.001, (until_us - now_us) / _SECOND_US)

    async def _ask(self) -> None:
        bid = self._lease.next_bid(boot_us())
        self._note()
        try:
            async with asyncio.timeout(self._call_s()):
                held = await self._store.bid(bid)
        except (StoreAway, TimeoutError) as error:
            self._note_away(str(error) or f"no answer within {self._call_s():.2f} s")
            return
        try:
            self._lease.answered(held, boot_us())
        except WeirError as error:
            self._note_away(error.message)
        else:
            self._note_away("")

    def _call_s(self) -> float:
        """A call that takes longer would delay the end of what is certain."""
        return self._lease.times.look_us / _SECOND_US

    def _note(self) -> None:
        """Tells the change of role, if there is one."""
        active = self._lease.active(boot_us())
        if active == self._acting:
            return
        self._acting = active
        _log.info("leadership", role="active" if active else "standby", epoch=self._lease.epoch)
        (self._on_active if active else self._on_standby)()

    def _note_away(self, why: str) -> None:
        if bool(why) != self._away:
            self._away = bool(why)
            (_log.warning if why else _log.info)("leader_store", away=bool(why), why=why)


def _not_leader(leader: str) -> WeirError:
    where = f"ask {leader}" if leader else "no other is known to be active yet; ask again soon"
    return WeirError(
        Reason.NOT_LEADER,
        f"this scheduler is on standby; {where}",
        retry_after_s=0.2,
        metadata={"leader": leader} if leader else {},
    )
