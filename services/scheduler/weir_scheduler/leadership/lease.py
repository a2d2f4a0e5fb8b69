"""The lease of the active scheduler: a pure state machine, its clock passed in.

One value in a store, changed by compare-and-set alone. A holder rewrites it at every third of
its life. Nobody compares clocks: a candidate takes the lease when it has seen the same write
for `wait_us` of its own monotonic clock, and a holder trusts its own for `certain_us`, a
little less, counted from the moment at which it *sent* the last write that succeeded. The
observation came after the write, so that the old holder has stopped before the new one begins
while their clocks run equally fast within 5 %, whatever messages were delayed, lost or
repeated, and however long a process was paused. The same rule holds in DynamoDB's lock client
and in Kubernetes' leader election; here it also survives that the store forgets everything:
what it finds missing is a *vacancy*, which is waited for like a holder.
"""

from collections.abc import Callable
from dataclasses import dataclass

from weir_scheduler.leadership.lease_record import LeaseRecord, LeaseState

_WAIT = (3, 4)
"""Of the ttl; the rest is for the look before it and the look after it."""
_CERTAIN = (7, 8)
"""Of the wait; the rest is what two clocks may differ by in rate."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Times of a lease in microseconds, all from its `ttl_us`; the same at every candidate.

    Attributes:
        ttl_us: within so long after the last write of a holder another one has its lease.
    """

    ttl_us: int

    @property
    def wait_us(self) -> int:
        """A candidate takes a lease that it has seen unchanged for so long."""
        return self.ttl_us * _WAIT[0] // _WAIT[1]

    @property
    def certain_us(self) -> int:
        """A holder trusts its lease for so long after it sent its last write."""
        return self.wait_us * _CERTAIN[0] // _CERTAIN[1]

    @property
    def renew_us(self) -> int:
        """Between two writes of a holder."""
        return self.certain_us // 3

    @property
    def look_us(self) -> int:
        """Between two looks of a candidate, and before a call that failed is repeated."""
        return self.ttl_us // 8


@dataclass(frozen=True, slots=True)
class Bid:
    """One call of the store: write `value` if it holds `expected`; say what it holds then.

    Attributes:
        expected: text of a record; empty to look only.
        value: text of the new record; empty likewise.
        vacancy: text to be written if the store holds nothing.
        sent_us: when it was made, monotonic.
    """

    expected: str
    value: str
    vacancy: str
    sent_us: int


class Lease:
    """One process's view of the lease.

    Call `next_bid` whenever `due_us` has come, pass the bid to the store, and its answer to
    `answered`; a bid without answer needs no word. Ask `active` before every act.

    Args:
        holder: unique id of this process start.
        address: at which peers reach it.
        times: of the lease.
        wall_ms: wall clock, Unix milliseconds; a hint for `epoch` alone.
    """

    def __init__(
        self, holder: str, address: str, times: LeaseTimes, wall_ms: Callable[[], int]
    ) -> None:
        self.times = times
        self.epoch = 0
        """Of the present or last term."""
        self.due_us = 0
        """When the store is to be asked next, monotonic."""
        self._holder = holder
        self._address = address
        self._wall_ms = wall_ms
        self._leading = False
        self._certain_until_us = 0
        self._turn = 0
        self._newest_epoch = 0
        self._seen = ""
        self._seen_since_us = 0
        self._unconfirmed: dict[str, int] = {}

    def active(self, now_us: int) -> bool:
        """Whether this process certainly is the only one that may act."""
        return self._leading and now_us < self._certain_until_us

    @property
    def leading(self) -> bool:
        """Whether it has taken the lease and not stepped down; not whether it may act."""
        return self._leading

    @property
    def certain_until_us(self) -> int:
        """End of what is certain, monotonic."""
        return self._certain_until_us

    @property
    def leader_address(self) -> str:
        """Of the holder that was seen last; empty for none, or itself."""
        if self._leading or not self._seen:
            return ""
        record = LeaseRecord.of(self._seen)
        mine = record.holder == self._holder
        return record.address if record.state is LeaseState.HELD and not mine else ""

    def next_bid(self, now_us: int) -> Bid:
        """What to ask of the store now. Steps down first if the lease is not certain."""
        if self._leading and not self.active(now_us):
            self.step_down()
        self.due_us = now_us + self.times.look_us
        expected = self._seen if self._leading or self._may_take(now_us) else ""
        if not expected:
            return Bid("", "", self._text(LeaseState.VACANT, 0), now_us)
        epoch = self.epoch if self._leading else self._new_epoch()
        value = self._text(LeaseState.HELD, epoch)
        self._remember(value, now_us)
        return Bid(expected, value, self._text(LeaseState.VACANT, 0), now_us)

    def answered(self, held: str, now_us: int) -> None:
        """The store holds this, as its answer to any bid says."""
        sent_us = self._unconfirmed.get(held)
        if sent_us is not None and now_us < sent_us + self.times.certain_us:
            self._confirmed(held, sent_us, now_us)
            return
        if self._leading and not self.active(now_us):
            self.step_down()
        record = LeaseRecord.of(held)
        overtaken = record.state is LeaseState.HELD and record.epoch > self._newest_epoch
        self._newest_epoch = max(self._newest_epoch, record.epoch)
        if self._leading and overtaken:
            self.step_down()
        if self._leading:
            # Forgotten or rolled back by the store: while the lease is certain nobody else
            # has one, and the next bid puts it back.
            self._seen, self.due_us = held, now_us
        elif held != self._seen:
            self._seen, self._seen_since_us = held, now_us
            if record.state is LeaseState.FREE:
                self.due_us = now_us

    def release(self, now_us: int) -> Bid | None:
        """Steps down and returns the bid that lets the next one in at once; None if not leading.

        What this process still had to say must have been said.
        """
        if not self._leading or not self.active(now_us):
            self.step_down()
            return None
        expected = self._seen
        self.step_down()
        free = self._text(LeaseState.FREE, self.epoch)
        return Bid(expected, free, self._text(LeaseState.VACANT, 0), now_us)

    def step_down(self) -> None:
        """Acts no more. What it held is observed anew, like anybody's."""
        self._leading = False
        self._certain_until_us = 0
        self._unconfirmed.clear()
        self._seen = ""

    def _may_take(self, now_us: int) -> bool:
        if not self._seen:
            return False
        if LeaseRecord.of(self._seen).state is LeaseState.FREE:
            return True
        return now_us - self._seen_since_us >= self.times.wait_us

    def _confirmed(self, held: str, sent_us: int, now_us: int) -> None:
        """A write of ours stands; later than the answer to it, if that was lost."""
        self._certain_until_us = max(self._certain_until_us, sent_us + self.times.certain_us)
        if not self._leading:
            self.epoch = LeaseRecord.of(held).epoch
            self._leading = True
        self._newest_epoch = max(self._newest_epoch, self.epoch)
        self._seen = held
        self._unconfirmed = {
            text: at_us for text, at_us in self._unconfirmed.items() if at_us > sent_us
        }
        self.due_us = max(now_us, sent_us + self.times.renew_us)

    def _new_epoch(self) -> int:
        """Above all that was seen; the wall clock keeps it so after a store lost everything."""
        return max(self._newest_epoch + 1, self._wall_ms())

    def _remember(self, value: str, now_us: int) -> None:
        oldest_us = now_us - self.times.certain_us
        self._unconfirmed = {
            text: at_us for text, at_us in self._unconfirmed.items() if at_us > oldest_us
        }
        self._unconfirmed[value] = now_us

    def _text(self, state: LeaseState, epoch: int) -> str:
        self._turn += 1
        address = self._address if state is LeaseState.HELD else ""
        return LeaseRecord(state, self._holder, address, epoch, self._turn).text()
