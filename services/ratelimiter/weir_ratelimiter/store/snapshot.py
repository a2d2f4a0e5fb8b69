"""The memory store's state as frames, and back."""

from collections.abc import Iterable, Iterator

from weir_ratelimiter.domain.change import Change
from weir_ratelimiter.store.frames import (
    Acknowledged,
    BucketRow,
    End,
    EventRow,
    Frame,
    Meta,
    ReservationRow,
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
        self._outbox = list(state.outbox)

    def frames(self) -> Iterator[Frame]:
        """Every frame of the snapshot."""
        yield self._meta
        rows = 0
        for key, bucket in self._buckets.items():
            rows += 1
            yield BucketRow(key, bucket)
        for (key, window), counted in self._windows.items():
            rows += 1
            yield WindowRow(key, window, counted)
        for reservation in self._reservations:
            rows += 1
            yield ReservationRow(reservation)
        for sequence, event in self._outbox:
            rows += 1
            yield EventRow(sequence, event)
        yield End(rows)


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
    _load_rows(rows, state, meta)
    for frame in rows:
        _replay(frame, state)
    return meta.epoch


def _load_rows(rows: Iterator[Frame], state: MemoryState, meta: Meta) -> None:
    for count, frame in enumerate(rows):
        match frame:
            case BucketRow(key=key, bucket=bucket):
                state.buckets[key] = bucket
            case WindowRow(key=key, window=window, count=counted):
                state.windows[key, window] = counted
            case ReservationRow(reservation=reservation):
                state.put(reservation, meta.taken_ms)
            case EventRow(sequence=sequence, event=event):
                state.outbox.append((sequence, event))
            case End(rows=expected) if expected == count:
                return
            case _:
                break
    raise ValueError("the snapshot at the beginning of the journal is not whole")


def _replay(frame: Frame, state: MemoryState) -> None:
    match frame:
        case Change():
            state.apply(frame)
        case Acknowledged(sequence=sequence):
            state.acknowledge(sequence)
        case _:
            raise ValueError(f"{type(frame).__name__} stands behind the snapshot")
