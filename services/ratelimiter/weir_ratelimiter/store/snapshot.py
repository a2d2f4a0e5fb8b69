"""The memory store's state as frames, and back."""

from collections.abc import Iterable, Iterator

from weir_ratelimiter.domain.change import Change
from weir_ratelimiter.store.frames import (
    Acknowledged,
    BucketRow,
    End,
    EventRow,
    Frame,
    GrantRow,
    LeaseRow,
    Meta,
    ReservationRow,
    Row,
    WindowRow,
)
from weir_ratelimiter.store.memory_state import MemoryState


class Snapshot:
    """The state at one moment, cheap to take: what it refers to never changes."""

    def __init__(self, state: MemoryState, epoch: str, now_ms: int) -> None:
        self._meta = Meta(epoch, now_ms, state.next_sequence, state.forgotten_upto_ms)
        self._buckets = dict(state.buckets)
        self._windows = dict(state.windows)
        self._reservations = list(state.by_end())
        self._leases = {key: list(leases.rows()) for key, leases in state.leases.items()}
        self._grants = list(state.grants.values())
        self._outbox = list(state.outbox.items())

    def frames(self) -> Iterator[Frame]:
        """Every frame of the snapshot."""
        yield self._meta
        rows = 0
        for rows, row in enumerate(self._rows(), start=1):  # noqa: B007
            yield row
        yield End(rows)

    def _rows(self) -> Iterator[Row]:
        for key, bucket in self._buckets.items():
            yield BucketRow(key, bucket)
        for (key, window), counted in self._windows.items():
            yield WindowRow(key, window, counted)
        yield from map(ReservationRow, self._reservations)
        for key, leases in self._leases.items():
            for holder, acquired_ms, expires_ms in leases:
                yield LeaseRow(key, holder, acquired_ms, expires_ms)
        yield from map(GrantRow, self._grants)
        for sequence, event in self._outbox:
            yield EventRow(sequence, event)


def restore(frames: Iterable[Frame], state: MemoryState) -> str | None:
    """Fill an empty state from the frames of a file; return its epoch.

    None, with the state untouched, if there was no file.

    Raises:
        ValueError: the snapshot at its beginning is not whole.
    """
    rows = iter(frames)
    meta = next(rows, None)
    if meta is None:
        return None
    if not isinstance(meta, Meta):
        raise ValueError("the journal does not begin with a snapshot")
    state.next_sequence = meta.next_sequence
    state.forgotten_upto_ms = meta.forgotten_upto_ms
    _load_rows(rows, state)
    for frame in rows:
        _replay(frame, state)
    return meta.epoch


def _load_rows(rows: Iterator[Frame], state: MemoryState) -> None:
    for count, frame in enumerate(rows):
        match frame:
            case BucketRow(key=key, bucket=bucket):
                state.buckets[key] = bucket
            case WindowRow(key=key, window=window, count=counted):
                state.windows[key, window] = counted
            case ReservationRow(reservation=reservation):
                state.load(reservation)
            case LeaseRow(key=key, holder=holder, acquired_ms=acquired_ms, expires_ms=ends_ms):
                state.leases[key].restore(holder, acquired_ms, ends_ms)
            case GrantRow(event=event):
                state.remember_grant(event)
            case EventRow(sequence=sequence, event=event):
                state.outbox[sequence] = event
            case End(rows=expected) if expected == count:
                return
            case _:
                break
    raise ValueError("the snapshot at the beginning of the journal is not whole")


def _replay(frame: Frame, state: MemoryState) -> None:
    match frame:
        case Change():
            state.apply(frame)
        case Acknowledged(sequences=sequences):
            state.acknowledge(sequences)
        case _:
            raise ValueError(f"{type(frame).__name__} stands behind the snapshot")
