"""Ids of rows: UUIDv7 (RFC 9562, 5.7) that grow strictly from row to row."""

import random
import uuid

from weir_ratelimiter.ledger.unusable import LedgerUnusable

NOTHING = str(uuid.UUID(int=0))
"""Comes before every id."""

_COUNTER_BITS = 74
_STEP_BITS = 32
_MS_BITS = 48


def first_id(ms: int) -> str:
    """Comes before every id of that moment or later; Unix milliseconds."""
    return _canonical(max(0, ms), 0)


class RowIds:
    """Ids after `last`, at or after `now_ms`, Unix milliseconds.

    Within a millisecond, or if the clock is behind the last id, the 74 random bits are counted
    up by random steps (RFC 9562, 6.2, method 2).

    Raises:
        LedgerUnusable: `last` is no id.
    """

    def __init__(self, last: str, now_ms: int) -> None:
        try:
            self._ms, self._counter = _parts(uuid.UUID(last))
        except ValueError:
            raise LedgerUnusable(f"last_id of ledger_head is {last[:40]!r}, not a UUID") from None
        self._last = last
        if now_ms > self._ms:
            self._ms, self._counter = now_ms, random.getrandbits(_COUNTER_BITS - 1)

    def next(self) -> str:
        """The next id, in canonical form.

        Raises:
            LedgerUnusable: there is none after the last.
        """
        self._counter += 1 + random.getrandbits(_STEP_BITS)
        if self._counter >> _COUNTER_BITS:
            self._ms, self._counter = self._ms + 1, random.getrandbits(_COUNTER_BITS - 1)
        if self._ms >> _MS_BITS:
            raise LedgerUnusable(f"no id comes after last_id of ledger_head, {self._last}")
        return _canonical(self._ms, self._counter)


def id_ms(row_id: uuid.UUID) -> int:
    """The moment of an id, Unix milliseconds."""
    return row_id.int >> 80


def _parts(value: uuid.UUID) -> tuple[int, int]:
    high = value.int >> 64 & 0xFFF
    low = value.int & (1 << 62) - 1
    return id_ms(value), high << 62 | low


def _canonical(ms: int, counter: int) -> str:
    value = ms << 80 | 0x7 << 76 | (counter >> 62) << 64 | 0b10 << 62 | counter & (1 << 62) - 1
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
